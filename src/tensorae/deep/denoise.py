"""De-noising: the output of an autoencoder, blended with its input feature by feature.

An autoencoder with a short code removes more than noise, so its output can be worse than the noisy
sample. The estimate is

    x + a * (output - x) + b * (gaussian - x)        a, b one number per feature

where ``gaussian`` is the estimate under one Gaussian per cluster, as in ``LinearTAE.denoise``. The
weights are least squares on pairs of noisy and clean training samples, with outputs of autoencoders
that were not trained on them. On those pairs it is never worse than the input (a = b = 0).

Shapes: n samples, k clusters, d features, m rows of a chunk, q predictors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor

from tensorae.core.denoise import Denoiser
from tensorae.core.statistics import Moments
from tensorae.deep.assign import Copies, TrainingData, chunk_rows

# Features up to which each cluster gets a full Gaussian: its covariance has d² numbers.
GAUSSIAN_FEATURES = 1024
# The weights of a feature are shrunk to those of all features as if by so many samples.
PRIOR_SAMPLES = 30
# Mean squared moves of the samples below this count as zero.
MIN_SQUARE = 1e-200
BLEND_FIELDS = ("weights", "noise_variance", "unit", "origin")


@dataclass(frozen=True, eq=False)
class Blend:
    """Weights of the predictors, and the Gaussian one in the units (x - origin) / unit."""

    weights: Tensor  # (q, d) of the output and, where there is one, of the Gaussian estimate
    denoiser: Denoiser | None
    noise_variance: float
    unit: float
    origin: Tensor  # (d,)

    def state_dict(self) -> dict[str, Any]:
        """Return the fields as tensors and numbers by name."""
        kept = {name: getattr(self, name) for name in BLEND_FIELDS}
        if self.denoiser is not None:
            kept |= {f"denoiser.{f.name}": getattr(self.denoiser, f.name) for f in fields(Denoiser)}
        return kept

    @classmethod
    def from_state_dict(cls, kept: Mapping[str, Any]) -> Blend:
        """Return the blend of a ``state_dict``."""
        names = [f"denoiser.{field.name}" for field in fields(Denoiser)]
        denoiser = Denoiser(*(kept[name] for name in names)) if names[0] in kept else None
        return cls(denoiser=denoiser, **{name: kept[name] for name in BLEND_FIELDS})

    def in_units(self, unit: float, origin: Tensor) -> Blend:
        """Convert from data (x - origin) / unit to data x."""
        return replace(self, unit=unit, origin=origin)

    def apply(self, x: Tensor, output: Tensor) -> Tensor:
        """Estimate clean rows (m, d) from noisy ones and the outputs of their autoencoders."""
        weights = self.weights.to(x)
        moved = x + weights[0] * (output - x)
        if self.denoiser is None:
            return moved
        rows = (x.double() - self.origin.to(x.device)) / self.unit
        denoiser = self.denoiser.to(x.device)
        step = denoiser.denoise(rows, self.noise_variance, fitted_on_noisy=False) - rows
        return moved + weights[1] * (self.unit * step).to(x.dtype)


def fit_blend(
    data: TrainingData, copies: Copies, noise: float, generator: torch.Generator
) -> Blend:
    """Fit a blend on the training pairs; noise of this standard deviation is drawn if needed."""
    x, weights, target = data.rows.data, data.weights, data.target
    assert weights is not None
    if target is None:
        drawn = torch.empty_like(x).normal_(generator=generator)
        pairs = _Pairs(x + noise * drawn, x, weights, copies)
    else:
        pairs = _Pairs(x, target, weights, copies)
    with torch.no_grad():
        products, targets = pairs.normal_equations()
        shares = _weights(products, targets, PRIOR_SAMPLES / float(weights.sum()))
        return Blend(
            weights=shares.mT.float().contiguous(),
            denoiser=pairs.denoiser(torch.ones_like(weights, dtype=torch.bool)),
            noise_variance=pairs.noise_variance,
            unit=1.0,
            origin=torch.zeros_like(x[0], dtype=torch.float64),
        )


@dataclass(frozen=True, eq=False)
class _Pairs:
    """Noisy and clean rows (n, d) with their weights (n,), and the networks between them."""

    noisy: Tensor
    clean: Tensor
    weights: Tensor
    copies: Copies

    @property
    def noise_variance(self) -> float:
        """Mean square of the noise, per feature."""
        shares = (self.weights / self.weights.sum()).double()
        return float(shares @ (self.noisy - self.clean).double().square().mean(1))

    def normal_equations(self) -> tuple[Tensor, Tensor]:
        """Sums over all pairs: products of the predictors (d, q, q), and with the target (d, q)."""
        d = self.noisy.shape[1]
        q = 1 if d > GAUSSIAN_FEATURES else 2
        products = torch.zeros(d, q, q, dtype=torch.float64, device=self.noisy.device)
        targets = torch.zeros(d, q, dtype=torch.float64, device=self.noisy.device)
        for rows, predictors in self._predictors():
            share = self.weights[rows].double()[:, None]
            wanted = (self.clean[rows] - self.noisy[rows]).double()
            for i, left in enumerate(predictors):
                targets[:, i] += (share * left * wanted).sum(0)
                for j, right in enumerate(predictors):
                    products[:, i, j] += (share * left * right).sum(0)
        return products, targets

    def _predictors(self) -> Iterator[tuple[Tensor, list[Tensor]]]:
        """Yield rows and the moves by each predictor, cross-fitted."""
        folds = self.copies.folds
        size = chunk_rows(self.noisy.shape[1])
        noise_variance = self.noise_variance
        for which, module in enumerate(self.copies.modules):
            scored = torch.ones_like(self.weights, dtype=torch.bool)
            if folds is not None:
                scored = folds != which
            denoiser = self.denoiser(~scored if folds is not None else scored)
            module.eval()
            for rows in scored.nonzero().squeeze(1).split(size):
                x = self.noisy[rows]
                moves = [(module.reconstruct(x).flatten(1) - x).double()]
                if denoiser is not None:
                    precise = x.double()
                    estimate = denoiser.denoise(precise, noise_variance, fitted_on_noisy=False)
                    moves.append(estimate - precise)
                yield rows, moves

    def denoiser(self, among: Tensor) -> Denoiser | None:
        """Gaussians of the clean rows among these (n,), one per cluster."""
        d = self.clean.shape[1]
        if d > GAUSSIAN_FEATURES:
            return None
        rows, module = among.nonzero().squeeze(1), self.copies.modules[0]
        module.eval()
        labels = torch.cat(
            [module.costs(self.clean[part]).argmin(1) for part in rows.split(chunk_rows(d))]
        )
        k = module.n_clusters
        counts = torch.zeros(k, dtype=torch.float64, device=rows.device)
        means = counts.new_zeros(k, d)
        scatters = counts.new_zeros(k, d, d)
        for j in range(k):
            members = rows[labels == j]
            x, share = self.clean[members].double(), self.weights[members].double()
            counts[j] = share.sum()
            if members.numel():
                means[j] = (share @ x) / counts[j]
                offsets = x - means[j]
                scatters[j] = offsets.mT @ (share[:, None] * offsets)
        moments = Moments.about_means(counts[None], means[None], scatters[None])
        return Denoiser.from_moments(moments, torch.zeros_like(means[0]))


def _weights(products: Tensor, targets: Tensor, prior: float) -> Tensor:
    """Least squares per feature (d, q), shrunk to those of all features together."""
    pooled_products, pooled_targets = products.mean(0), targets.mean(0)
    # Not too small, because it is multiplied by the prior.
    tiny = 1e-9 * pooled_products.diagonal().mean().clamp(min=MIN_SQUARE)
    pooled_products = pooled_products + tiny * torch.eye(
        len(pooled_targets), dtype=products.dtype, device=products.device
    )
    pooled = torch.linalg.solve(pooled_products, pooled_targets)
    lean = prior * pooled_products
    weights: Tensor = torch.linalg.solve(products + lean, targets + lean @ pooled)
    return weights
