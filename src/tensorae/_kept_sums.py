"""Sums that a fit keeps: what ``denoise`` shrinks by, and what ``partial_fit`` goes on from.

Shapes: n samples, k clusters, d features.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tensorae._base import Predictor
from tensorae._check_data import check_fitted
from tensorae._check_parameters import check_auto, check_number
from tensorae._filling import FillsGaps
from tensorae._torch import isolated_torch
from tensorae.core.compress import Span
from tensorae.core.denoise import Denoiser
from tensorae.core.partial_fit import in_order_of
from tensorae.core.prediction import GapPredictor
from tensorae.core.spec import Solution
from tensorae.core.statistics import Moments
from tensorae.exceptions import InvalidInputError, InvalidParameterError, unknown_choice
from tensorae.rows import Rows
from tensorae.rows.rows import ACCURATE

__all__ = ["CPU", "KeepsSums", "as_array"]

CPU = torch.device("cpu")
FITTED_ON = ("noisy", "clean")
# Numbers in the clusters' scatters up to which they are kept as they are.
LARGEST_MOMENTS = 1 << 24


class KeepsSums(FillsGaps):
    """A linear model that keeps the sums of its clusters."""

    # Sums for ``denoise`` and ``partial_fit``, in the coordinates of a plane where data was wide.
    _moments: dict[str, np.ndarray] | None
    _frame: tuple[np.ndarray, np.ndarray] | None
    _denoiser: Denoiser | None

    @isolated_torch()
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
        denoiser, clean = self._fitted_denoiser(), fitted_on == "clean"
        variance = _noise_variance(noise, denoiser, clean=clean)
        on_device = functools.cache(denoiser.to)

        def shrink(predictor: Predictor, x: Tensor) -> Tensor:
            points = on_device(x.device).denoise(x, variance, fitted_on_noisy=not clean)
            if isinstance(predictor, GapPredictor) and bool(points.isnan().any()):
                return predictor.filled(points)  # no noise was found, and gaps are still open
            return points

        return self._map(X, shrink)

    def _keep_moments(self, solution: Solution, rows: Rows) -> None:
        """Keep what ``denoise`` needs; its decompositions wait until it is called."""
        moments, span = solution.run.moments, solution.span
        kind = self.cluster_centers_.dtype
        self._denoiser = self._moments = self._frame = None
        if moments.seconds.numel() > LARGEST_MOMENTS:
            self._denoiser = Denoiser.from_moments(moments, solution.shift, span=span).to(CPU)
            return
        if span is not None:
            self._frame = as_array(span.origin).astype(kind), as_array(span.axes).astype(kind)
        # Weights that sum to less than the rows they stand for say nothing about their number.
        rows_per_weight = max(1.0, rows.n / float(moments.counts.sum()))
        self._moments = moments.arrays(kind, solution.shift, rows_per_weight)

    def _kept_sums(self, device: torch.device) -> Moments:
        """Sums of all rows so far, to go on from."""
        if self._moments is None or self._frame is not None:
            raise InvalidInputError(
                f"partial_fit needs the sums of the clusters, which {self.n_features_in_} features "
                "make too large, or which the first batch had too few rows for; reduce the "
                "features first, or give a first batch of more rows than features."
            )
        centers = torch.as_tensor(self.cluster_centers_, device=device)
        return in_order_of(centers, Moments.of_arrays(self._moments, device))

    def _fitted_denoiser(self) -> Denoiser:
        if self._denoiser is None:
            span = None
            if self._frame is not None:
                span = Span(*(torch.as_tensor(part, dtype=ACCURATE) for part in self._frame))
            assert self._moments is not None  # one of the two is kept
            moments = Moments.of_arrays(self._moments, CPU)
            origin = torch.zeros_like(moments.references[0, 0])
            self._denoiser = Denoiser.from_moments(moments, origin, span=span)
        return self._denoiser


def _noise_variance(noise: float | str, denoiser: Denoiser, *, clean: bool) -> float:
    """Variance of the noise: as given, or estimated from the fitted samples."""
    if not isinstance(noise, str):
        return min(check_number("noise", noise, low=0), 1e100) ** 2
    check_auto("noise", noise, "a number")
    if clean:
        raise InvalidParameterError(
            'noise="auto" is estimated from the fitted samples, but fitted_on="clean" says '
            "that they have none; give the noise as a number."
        )
    return denoiser.noise_variance()


def as_array(tensor: Tensor) -> np.ndarray:
    """Return a tensor's numbers as an array on the CPU."""
    array: np.ndarray = tensor.detach().cpu().numpy()
    return array
