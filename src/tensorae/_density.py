"""What follows from a density: log_density, bic, aic, sample.

Shapes: n samples, k clusters, d features.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from tensorae._base import BaseTAE
from tensorae._check_data import check_fitted
from tensorae._check_parameters import check_integer, check_seed
from tensorae._torch import isolated_torch
from tensorae.core.prediction import draw, information_criterion, n_parameters
from tensorae.rows import Rows

__all__ = ["DensityTAE"]


class DensityTAE(BaseTAE):
    """Autoencoders that are a mixture of Gaussians (section 5 of the paper)."""

    spread_: str
    pooled_: bool
    latent_dims_: np.ndarray
    latent_penalty_: float
    latent_penalty: float | str
    random_state: Any

    def log_density(self, X: Any) -> Any:
        """Log of the density of each sample under the mixture of Gaussians of section 5.

        Cluster j is a Gaussian with mean ``cluster_centers_[j]`` and weight ``weights_[j]``. Its
        variance is ``explained_variance_[j]`` along its components and ``noise_variance_[j]`` in
        all other directions where spreads are own. Where one is shared it is s² in all other
        directions and s²/λ along the components, with s² the mean cost per number in X.

        The weights are those of the fit, also where assignments are hard and ``predict_proba``
        compares clusters of equal prior: so it is a density, and can be compared between numbers
        of clusters. Of a sample with missing values it is that of the values that are there.

        Parameters
        ----------
        X : array-like or Tensor of shape (n, d)

        Returns
        -------
        ndarray or Tensor of shape (n,)

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from tensorae import LinearTAE
        >>> X = load_iris().data
        >>> model = LinearTAE(3, spread="own", random_state=0).fit(X)
        >>> far = model.log_density([[50.0, 50.0, 50.0, 50.0]])
        >>> bool(far[0] < model.log_density(X).min())
        True
        """
        return self._map(X, _log_density)

    def score_samples(self, X: Any) -> Any:
        """Log-density of each sample: a low score means that it fits no cluster.

        It is that of ``log_density`` for every ``spread_`` and ``assignment_``, so that ``score``
        can be compared between folds, numbers of clusters and settings; ``GridSearchCV`` and
        ``cross_val_score`` may go by it. The cost of Eq. 3 is ``costs(X).min(1)``.

        Parameters
        ----------
        X : array-like or Tensor of shape (n, d)

        Returns
        -------
        ndarray or Tensor of shape (n,)
        """
        return self.log_density(X)

    def bic(self, X: Any) -> float:
        """Bayesian information criterion of the density on X: the lower the better.

        Parameters
        ----------
        X : array-like or Tensor of shape (n, d)

        Returns
        -------
        float
        """
        return self._criterion(X, bayesian=True)

    def aic(self, X: Any) -> float:
        """Akaike information criterion of the density on X: the lower the better.

        Parameters
        ----------
        X : array-like or Tensor of shape (n, d)

        Returns
        -------
        float
        """
        return self._criterion(X, bayesian=False)

    @isolated_torch()
    def sample(self, n_samples: int = 1, *, random_state: Any = None) -> tuple[Any, Any]:
        """Draw samples from the density.

        Parameters
        ----------
        n_samples : int, default=1
        random_state : int, RandomState or None, default=None
            Makes the draw repeatable; None takes that of the estimator.

        Returns
        -------
        X : ndarray of shape (n, d)
            In the order of the clusters.
        labels : ndarray of shape (n,)
            Cluster that each sample was drawn from.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from tensorae import LinearTAE
        >>> model = LinearTAE(3, random_state=0).fit(load_iris().data)
        >>> X, labels = model.sample(5)
        >>> X.shape, labels.shape
        ((5, 4), (5,))
        """
        check_fitted(self)
        n = check_integer("n_samples", n_samples, low=1)
        rng = check_seed(self.random_state if random_state is None else random_state)
        device = self._checked_device()
        nothing = Rows(torch.zeros(0, self.n_features_in_, device=device))
        predictor: Any = self._predictor(nothing)  # that of a density
        points, labels = draw(predictor, n, rng)
        kind = self.cluster_centers_.dtype
        return points.cpu().numpy().astype(kind, copy=False), labels.cpu().numpy().astype(np.int32)

    def _criterion(self, X: Any, *, bayesian: bool) -> float:
        densities = self.log_density(X)
        return information_criterion(
            float(densities.sum()),
            self._n_parameters(),
            len(densities),
            bayesian=bayesian,
        )

    def _n_parameters(self) -> int:
        return n_parameters(
            self.latent_dims_,
            self.n_features_in_,
            own=self.spread_ == "own",
            penalty=self.latent_penalty_,
            given=not isinstance(self.latent_penalty, str),
            common=self.pooled_,
        )


def _log_density(predictor: Any, x: Tensor) -> Tensor:
    """Ask the predictor of a density; other models' predictors have none."""
    densities: Tensor = predictor.log_density(x)
    return densities
