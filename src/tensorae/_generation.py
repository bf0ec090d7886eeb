"""What follows from variational autoencoders: a bound on the log-density, and samples.

Shapes: n samples, k clusters, d features, h latent.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from tensorae._base import BaseTAE
from tensorae._check_data import check_fitted, check_labels_of
from tensorae._check_parameters import check_integer, check_seed
from tensorae._torch import isolated_torch, several_threads
from tensorae.deep.module import TensorizedAutoencoder
from tensorae.exceptions import InvalidParameterError
from tensorae.rows import Rows

__all__ = ["GenerativeTAE"]


class GenerativeTAE(BaseTAE):
    """Autoencoders that are a density and can be drawn from, where they are variational."""

    module_: TensorizedAutoencoder
    weights_: np.ndarray
    random_state: Any

    @property
    def noise_variance_(self) -> float:
        """Variance of a feature about what its code decodes to."""
        module = self.__dict__.get("module_")
        if module is None or not module.variational:
            raise AttributeError("noise_variance_ is there after a fit of variational autoencoders")
        return float(module.scale.double().square() * module.noise_variance.double())

    def score_samples(self, X: Any) -> Any:
        """How well each sample fits: a low score means that it fits no cluster.

        With variational autoencoders (``architecture="vae"``) a lower bound on the log-density of
        the mixture, ``log sum_j weights_[j] exp(bound_j)``, where ``bound_j`` is the evidence
        bound of cluster j: ``-cost_j / (2 v) - d/2 log(2 π v)`` with v the noise variance. It is
        in nats and can be compared between models of the same data.

        All others have no density: it is minus the smallest cost, which falls with the number of
        clusters and the length of codes. So compare it between samples, not between settings.

        Parameters
        ----------
        X : array-like or Tensor of shape (n, d), or images as in ``fit``

        Returns
        -------
        ndarray or Tensor of shape (n,)

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from tensorae import TAE
        >>> X = load_iris().data
        >>> model = TAE(3, latent_dim=1, architecture="vae", random_state=0).fit(X)
        >>> far = model.score_samples([[50.0, 50.0, 50.0, 50.0]])
        >>> bool(far[0] < model.score_samples(X).min())
        True
        """
        check_fitted(self)
        if not self.module_.variational:
            return self._map(X, lambda predictor, x: -predictor.costs(x).amin(1))

        def bound(predictor: Any, x: torch.Tensor) -> torch.Tensor:
            bounds: torch.Tensor = predictor.log_density_bound(x)
            return bounds

        return self._map(X, bound)

    @isolated_torch()
    def sample(
        self,
        n_samples: int = 1,
        *,
        labels: Any = None,
        noise: bool = True,
        random_state: Any = None,
    ) -> tuple[Any, Any]:
        """Draw samples from variational autoencoders.

        A cluster by its weight, a code from N(0, I), what it decodes to, and noise.

        Parameters
        ----------
        n_samples : int, default=1
        labels : int or array-like of shape (n,), optional
            Clusters to draw from: one for all, or one for each sample. By default they are drawn
            by ``weights_``, and samples come in the order of the clusters.
        noise : bool, default=True
            Without it samples are clean, what a code decodes to: better pictures, but no longer
            draws from the density that ``score_samples`` is about.
        random_state : int, RandomState or None, default=None
            Makes the draw repeatable; None takes that of the estimator.

        Returns
        -------
        X : ndarray of shape (n, d), or images like those of the fit
        labels : ndarray of shape (n,)
            Cluster that each sample was drawn from.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from tensorae import TAE
        >>> model = TAE(3, latent_dim=1, architecture="vae", random_state=0)
        >>> X, labels = model.fit(load_iris().data).sample(5, labels=1)
        >>> X.shape, labels.tolist()
        ((5, 4), [1, 1, 1, 1, 1])
        """
        check_fitted(self)
        if not self.module_.variational:
            raise InvalidParameterError(
                "sample needs autoencoders that say how codes are distributed, got plain ones; "
                'use architecture="vae", or a Module whose encode gives mean and log-variance.'
            )
        n = check_integer("n_samples", n_samples, low=1)
        if not isinstance(noise, bool | np.bool_):
            raise InvalidParameterError(
                f"noise must be True or False, got {noise!r}; its size is that of the fit."
            )
        rng = check_seed(self.random_state if random_state is None else random_state)
        chosen = self._labels_to_draw(n, labels, rng)
        predictor: Any = self._predictor(_no_rows(self.n_features_in_, self._checked_device()))
        with several_threads(n * self.n_features_in_ * self._work):
            points = predictor.draw(chosen, self._n_features_out, rng, noise=bool(noise))
        kind = self.cluster_centers_.dtype
        samples = points.cpu().numpy().astype(kind, copy=False)
        return self._as_samples(samples), chosen.cpu().numpy().astype(np.int32)

    def _labels_to_draw(self, n: int, labels: Any, rng: np.random.RandomState) -> torch.Tensor:
        """Clusters (n,) of samples, as given or drawn by weight."""
        k, device = len(self.cluster_centers_), self._checked_device()
        if labels is None:
            shares = self.weights_.astype(np.float64)
            counts = rng.multinomial(n, shares / shares.sum())
            return torch.as_tensor(np.repeat(np.arange(k), counts), device=device)
        if np.ndim(labels) == 0:
            labels = np.full(n, labels)
        return check_labels_of(_no_rows(1, device, n), labels, k).long()


def _no_rows(d: int, device: torch.device, n: int = 0) -> Rows:
    """Rows (n, d) of which only size and device matter."""
    return Rows(torch.zeros(n, d, device=device))
