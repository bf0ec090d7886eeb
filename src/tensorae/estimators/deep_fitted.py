"""A fitted TAE: what a training publishes, and what follows from it.

Shapes: n samples, k clusters, d features.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from tensorae.deep.blending import Blend
from tensorae.deep.history import History
from tensorae.deep.scoring import chunk_rows
from tensorae.deep.tensorize import TensorizedAutoencoder
from tensorae.deep.training import Outcome
from tensorae.estimators.base import BaseTAE, Worker
from tensorae.estimators.deep_fit import DeepFit
from tensorae.estimators.deep_options import check_input_shape
from tensorae.estimators.deep_worker import DeepWorker
from tensorae.estimators.images import as_rows, sample_shape, with_channels
from tensorae.estimators.validation import Samples, check_fitted, check_samples
from tensorae.exceptions import InvalidParameterError
from tensorae.rows.processes import Processes

__all__ = ["FittedDeep"]


class FittedDeep(BaseTAE):
    """The deep model after a training: published numbers, shapes of samples, de-noising."""

    architecture: Any
    input_shape: Any
    module_: TensorizedAutoencoder
    loss_: float
    _sample_shape: tuple[int, ...] | None
    _images: tuple[int, ...] | None

    def reconstruct(self, X: Any) -> Any:
        """Encode, decode and add the centre back: what the sample's autoencoder makes of it.

        Parameters
        ----------
        X : array-like or Tensor of shape (n, d), or images as in ``fit``

        Returns
        -------
        ndarray or Tensor of the shape of X
        """
        return _shaped_like(X, super().reconstruct(X))

    def denoise(self, X: Any) -> Any:
        """Take noise out of samples: what the autoencoder makes of them, as far as it pays.

        The output is blended, feature by feature, with the input and with the estimate under
        one Gaussian per cluster. The weights were fitted on training samples that the
        autoencoders had not seen, so that it does not lose to doing nothing.

        Parameters
        ----------
        X : array-like or Tensor of shape (n, d), or images as in ``fit``
            Samples with noise like that of the fit.

        Returns
        -------
        ndarray or Tensor of the shape of X

        Examples
        --------
        >>> from tensorae import TAE
        >>> from tensorae.datasets import add_noise, lines_3d
        >>> X, _ = lines_3d(random_state=0)
        >>> X_noisy = add_noise(X, 0.1, random_state=0)
        >>> model = TAE(n_clusters=3, latent_dim=1, random_state=0).fit(X_noisy, clean=X)
        >>> clean = model.denoise(X_noisy)
        >>> bool(((clean - X) ** 2).mean() < 0.8 * ((X_noisy - X) ** 2).mean())
        True
        """
        check_fitted(self)
        blend = self._blend
        if blend is None:
            raise InvalidParameterError(
                "denoise needs a model that was fitted for it; use fit(X_noisy, clean=X_clean), "
                "or noise=0.1 (its standard deviation) and fit(X_clean)."
            )

        def step(worker: Worker, x: Tensor) -> Tensor:
            labels = worker.labels(x)
            return blend.apply(x, worker.decode(worker.encode(x, labels), labels))

        return _shaped_like(X, self._map(X, step))

    def _check_samples(self, X: Any, *, reset: bool) -> Samples:
        wanted = None if reset else self._images
        return check_samples(self, as_rows(X, "X", wanted), reset=reset, device=self.device)

    def _checked_shape(self, X: Any, d: int) -> tuple[int, ...]:
        """Shape of one sample as the autoencoders take it: as given, that of images, or flat."""
        given, seen = check_input_shape(self.input_shape, d), sample_shape(X)
        if seen is not None and given not in ((d,), seen, with_channels(seen)):
            raise InvalidParameterError(
                f"input_shape must be that of the images in X, {with_channels(seen)}, got "
                f"{self.input_shape!r}; leave it out."
            )
        if isinstance(self.architecture, str) and self.architecture != "conv":
            return (d,)
        return given if seen is None or self.input_shape is not None else with_channels(seen)

    def _image_shape(self, X: Any, shape: tuple[int, ...]) -> tuple[int, ...] | None:
        """Shape (c, h, w) that images must have from now on, or None."""
        seen = sample_shape(X)
        if seen is not None:
            return with_channels(seen)
        return shape if len(shape) == 3 else None

    def _as_samples(self, points: Any) -> Any:
        if self._sample_shape is None:
            return points
        return points.reshape(len(points), *self._sample_shape)

    def _publish(
        self,
        fit: DeepFit,
        outcome: Outcome,
        history: History,
        shape: tuple[int, ...],
        like: Tensor,
    ) -> None:
        module = fit.published_module(outcome)
        self.module_ = module
        self.input_shape_ = shape
        self.cluster_centers_ = fit.centers.cpu().numpy().astype(_kind(like))
        self.latent_penalty_ = float(module.latent_penalty)
        self.history_ = history.columns
        self.n_iter_ = len(history.columns["epoch"])
        self.best_epoch_ = outcome.best_epoch
        self._blend: Blend | None = fit.blend
        self.weights_ = np.full(len(self.cluster_centers_), 1 / len(self.cluster_centers_))
        self._noise_variance = 1.0
        self._code_length = fit.options.training.latent_dim

    def _close(
        self,
        parts: Iterable[tuple[Tensor, Tensor | None]],
        n: int,
        like: Tensor,
        group: Processes = Processes(),  # noqa: B008 (immutable)
    ) -> None:
        """Assign once more with the published numbers, so that fit and predict agree.

        ``parts`` are rows (m, d) with their weights (m,), n rows in all.
        """
        worker = self._worker(like)
        k, start = len(self.cluster_centers_), 0
        labels = np.empty(n, dtype=np.int32)
        counts = torch.zeros(k, dtype=torch.float64, device=like.device)
        loss = torch.zeros((), dtype=torch.float64, device=like.device)
        size = chunk_rows(like.shape[1])
        for x, weights in parts:
            for first in range(0, x.shape[0], size):
                place = slice(first, min(first + size, x.shape[0]))
                with torch.no_grad():
                    best = worker.costs(x[place]).min(1)
                lowest = best.values.double()
                share = torch.ones_like(lowest) if weights is None else weights[place].double()
                counts.index_add_(0, best.indices, share)
                loss += share @ lowest
                labels[start + place.start : start + place.stop] = best.indices.cpu().numpy()
            start += x.shape[0]
        group.all_sums(counts, loss)
        self.labels_ = labels
        self.loss_ = float(loss)
        self.weights_ = (counts / counts.sum()).cpu().numpy().astype(_kind(like))
        self._noise_variance = self.loss_ / (float(counts.sum()) * like.shape[1])

    @property
    def _n_features_out(self) -> int:
        return self._code_length

    def _chunk_rows(self, d: int) -> int:
        return chunk_rows(d)

    def _worker(self, like: Tensor) -> DeepWorker:
        return DeepWorker.of(
            self.module_,
            like,
            centers=self.cluster_centers_,
            weights=self.weights_,
            noise_variance=self._noise_variance,
        )

    def _warn_if_needed(self, problem: str) -> None:
        if problem:
            warnings.warn(problem, ConvergenceWarning, stacklevel=4)
        dead = np.flatnonzero(self.weights_ == 0).tolist()
        if dead:
            names = ", ".join(str(j) for j in dead)
            warnings.warn(
                f"clusters {names} of n_clusters={self.n_clusters} have no members: every sample "
                "is cheaper elsewhere, as happens where X has few different rows or fewer groups; "
                "lower n_clusters, or lower latent_dim so that no autoencoder serves them all.",
                ConvergenceWarning,
                stacklevel=4,
            )


def _shaped_like(X: Any, rows: Any) -> Any:
    shape = sample_shape(X)
    return rows if shape is None else rows.reshape(len(rows), *shape)


def _kind(x: Tensor) -> type:
    return np.float32 if x.dtype == torch.float32 else np.float64
