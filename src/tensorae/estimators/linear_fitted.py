"""A fitted linear model: what a fit publishes, and what follows from it.

Shapes: n samples, k clusters, d features, h latent.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from tensorae.estimators.base import BaseTAE, Worker
from tensorae.estimators.linear_worker import LinearWorker
from tensorae.estimators.options import check_auto, check_integer, check_number
from tensorae.estimators.validation import check_fitted
from tensorae.exceptions import InvalidInputError, InvalidParameterError, unknown_choice
from tensorae.linear.denoising import Denoiser
from tensorae.linear.frames import Frame
from tensorae.linear.incremental import Sums
from tensorae.linear.model import LinearModel
from tensorae.linear.moments import Moments
from tensorae.linear.parameters import Parameters
from tensorae.linear.rows import ACCURATE, default_chunk_rows
from tensorae.linear.solver import Solution
from tensorae.parallel import Processes

__all__ = ["FittedLinear", "as_array"]

FITTED_ON = ("noisy", "clean")
# Numbers in the clusters' scatters up to which they are kept as they are.
LARGEST_MOMENTS = 1 << 24

logger = logging.getLogger(__name__)


class FittedLinear(BaseTAE):
    """The linear model after a fit: published numbers, de-noising, sums to go on from."""

    max_iter: int
    batch_size: int | None
    verbose: int
    loss_: float

    def _kept_sums(self) -> Sums:
        """Sums of all rows so far, in the order of the clusters."""
        if self._moments is None or self._frame is not None:
            raise InvalidInputError(
                f"partial_fit needs the sums of the clusters, which {self.n_features_in_} features "
                "make too large, or which the first batch had too few rows for; reduce the "
                "features first, or give a first batch of more rows than features."
            )
        centers = self._moments["centers"]
        order = [int(np.square(centers - c).sum(1).argmin()) for c in self.cluster_centers_]
        return Sums(
            *(
                torch.as_tensor(self._moments[name][order], dtype=ACCURATE)
                for name in ("counts", "centers", "scatters")
            )
        )

    def denoise(self, X: Any, noise: float | str, *, fitted_on: str = "noisy") -> Any:
        """Take noise out of samples by shrinking them towards their clusters.

        Where ``reconstruct`` cuts off every direction but h, this shrinks each direction of a
        cluster by the share of its variance that is noise, averaged over clusters by their
        probability: the best estimate under one Gaussian per cluster.

        Parameters
        ----------
        X : array-like or Tensor of shape (n, d)
            Samples with noise that is alike on all features.
        noise : float or "auto"
            Standard deviation of the noise. "auto" estimates it from the fitted samples: several
            equal variances at the lower end of their spectrum are taken for noise, with caution,
            since too little is safe. It finds none in two or fewer features, or where samples
            are fewer than features, and then nothing changes. Data whose own spread is alike in
            many directions looks like noise to it: give a number there.
        fitted_on : {"noisy", "clean"}, default="noisy"
            Whether the samples that were fitted had this noise too, or none.

        Returns
        -------
        ndarray or Tensor of shape (n, d)

        Examples
        --------
        >>> from tensorae import LinearTAE
        >>> from tensorae.datasets import add_noise, lines_3d
        >>> X, _ = lines_3d(random_state=0)
        >>> X_noisy = add_noise(X, 0.1, random_state=0)
        >>> model = LinearTAE(n_clusters=3, latent_dim=1, random_state=0).fit(X_noisy)
        >>> clean = model.denoise(X_noisy, noise=0.1)
        >>> bool(((clean - X) ** 2).mean() < 0.7 * ((X_noisy - X) ** 2).mean())
        True
        """
        check_fitted(self)
        if fitted_on not in FITTED_ON:
            raise unknown_choice("fitted_on", fitted_on, FITTED_ON)
        clean = fitted_on == "clean"
        denoiser = self._fitted_denoiser()
        if isinstance(noise, str):
            variance = self._estimated_noise(denoiser, noise, clean=clean)
        else:
            variance = min(check_number("noise", noise, low=0), 1e100) ** 2
        located: dict[torch.device, Denoiser] = {denoiser.centers.device: denoiser}

        def shrink(worker: Worker, x: Tensor) -> Tensor:  # noqa: ARG001
            if x.device not in located:
                located[x.device] = denoiser.to(x.device)
            return located[x.device].denoise(x, variance, fitted_on_noisy=not clean)

        return self._map(X, shrink)

    def _checked_batch_size(self) -> int | None:
        if self.batch_size is None:
            return None
        return check_integer("batch_size", self.batch_size, low=1)

    @staticmethod
    def _estimated_noise(denoiser: Denoiser, noise: str, *, clean: bool) -> float:
        check_auto("noise", noise, "a number")
        if clean:
            raise InvalidParameterError(
                'noise="auto" is estimated from the fitted samples, but fitted_on="clean" says '
                "that they have none; give the noise as a number."
            )
        return denoiser.noise_variance()

    # Results ----------------------------------------------------------------------------------

    def _publish(self, solution: Solution, like: Tensor) -> None:
        self._publish_parameters(solution.parameters[0], solution.model, like)
        self.loss_path_ = np.array(solution.run.loss_path)
        self.objective_path_ = np.array(solution.run.objective_path)
        self.entropy_path_ = np.array(solution.run.entropy_path)
        self.n_iter_ = solution.run.n_iter
        self.converged_ = solution.run.converged

    def _publish_parameters(self, parameters: Parameters, model: LinearModel, like: Tensor) -> None:
        """Publish what was learned; ``model`` is in the coordinates of the data."""
        kind = np.float32 if like.dtype == torch.float32 else np.float64
        counts, traces = as_array(parameters.counts), as_array(parameters.traces)
        scatter = as_array(parameters.variances)
        members = np.where(counts > 0, counts, 1)
        d, h = like.shape[1], scatter.shape[1]
        rest = np.clip(traces - scatter.sum(1), 0, None)
        whole = np.where(traces > 0, traces, 1)
        self.cluster_centers_ = as_array(model.centers).astype(kind)
        self.components_ = as_array(model.components).astype(kind)
        self.explained_variance_ = (scatter / members[:, None]).astype(kind)
        self.explained_variance_ratio_ = (scatter / whole[:, None]).astype(kind)
        self.noise_variance_ = (rest / (members * max(d - h, 1))).astype(kind)
        self.weights_ = (counts / counts.sum()).astype(kind)
        self.latent_penalty_ = float(model.latent_penalty)

    def _say_how_it_went(self, solution: Solution) -> None:
        self._warn_if_needed()
        if self.verbose:
            logger.info(
                "%s: loss %.6g after %d iterations, best of %d starts",
                type(self).__name__, self.loss_, self.n_iter_, solution.n_starts,
            )  # fmt: skip

    def _keep_moments(self, solution: Solution, kind: type) -> None:
        """Keep what ``denoise`` needs; its decompositions wait until it is called."""
        moments = solution.moments
        self._denoiser: Denoiser | None = None
        self._moments: dict[str, np.ndarray] | None = None
        self._frame: tuple[np.ndarray, np.ndarray] | None = None
        if moments.seconds.numel() > LARGEST_MOMENTS:
            denoiser = Denoiser.from_moments(moments, solution.shift, frame=solution.frame)
            self._denoiser = denoiser.to("cpu")
            return
        if solution.frame is not None:
            origin, axes = solution.frame.origin, solution.frame.axes
            self._frame = as_array(origin).astype(kind), as_array(axes).astype(kind)
        centers = moments.centers()[0] + solution.shift.to(moments.sums.dtype)
        # Weights that sum to less than the rows they stand for say nothing about their number.
        rows_per_weight = max(1.0, len(self.labels_) / float(moments.counts.sum()))
        scatters = moments.scaled_scatters(rows_per_weight)
        self._moments = {
            "counts": rows_per_weight * as_array(moments.counts[0]),
            "centers": as_array(centers),
            "scatters": as_array(scatters[0]).astype(kind, copy=False),
        }

    def _fitted_frame(self) -> Frame | None:
        if self._frame is None:
            return None
        return Frame(*(torch.as_tensor(part, dtype=ACCURATE) for part in self._frame))

    def _fitted_denoiser(self) -> Denoiser:
        if self._denoiser is None:
            assert self._moments is not None
            counts, centers, scatters = (
                torch.as_tensor(self._moments[name], dtype=torch.float64)[None]
                for name in ("counts", "centers", "scatters")
            )
            moments = Moments.about_means(counts, centers, scatters)
            origin = torch.zeros_like(centers[0, 0])
            self._denoiser = Denoiser.from_moments(moments, origin, frame=self._fitted_frame())
        return self._denoiser

    def _close(
        self,
        parts: Iterable[tuple[Tensor, Tensor | None]],
        n: int,
        group: Processes = Processes(),  # noqa: B008 (immutable)
    ) -> None:
        """Assign once more with the published numbers, so that fit and predict agree.

        ``parts`` are rows (m, d) with their weights (m,), n rows in all.
        """
        labels = np.empty(n, dtype=np.int32)
        loss, start = 0.0, 0
        worker: LinearWorker | None = None
        for x, weights in parts:
            worker = worker or self._worker(x)
            size = self._chunk_rows(x.shape[1])
            for first in range(0, x.shape[0], size):
                place = slice(first, min(first + size, x.shape[0]))
                best, costs = worker.cheapest(x[place])
                labels[start + place.start : start + place.stop] = as_array(best)
                share = costs if weights is None else weights[place] * costs
                loss += float(share.sum(dtype=ACCURATE))
            start += x.shape[0]
        self.labels_ = labels
        self.loss_ = float(group.of_each(loss).sum())

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[1])

    def _chunk_rows(self, d: int) -> int:
        k, h, _ = self.components_.shape
        return self._checked_batch_size() or default_chunk_rows(d, k * (h + 1))

    def _worker(self, like: Tensor) -> LinearWorker:
        return LinearWorker.of(
            device=like.device,
            centers=self.cluster_centers_,
            components=self.components_,
            weights=self.weights_,
            explained_variance=self.explained_variance_,
            noise_variance=self.noise_variance_,
            latent_penalty=self.latent_penalty_,
        )

    def _warn_if_needed(self) -> None:
        if not self.converged_:
            warnings.warn(
                f"LinearTAE did not converge within max_iter={self.max_iter} iterations; "
                "raise max_iter or tol.",
                ConvergenceWarning,
                stacklevel=3,
            )
        n_alive = len(np.unique(self.labels_))
        if n_alive < self.n_clusters:
            warnings.warn(
                f"only {n_alive} of n_clusters={self.n_clusters} clusters have members: X has "
                "too few different rows for more; lower n_clusters.",
                ConvergenceWarning,
                stacklevel=3,
            )


def as_array(tensor: Tensor) -> np.ndarray:
    """Return a tensor's numbers as an array on the CPU."""
    array: np.ndarray = tensor.detach().cpu().numpy()
    return array
