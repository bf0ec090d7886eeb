"""Checked data and options -> a trained module: what ``TAE.fit`` does between check and publish.

Shapes: n samples, k clusters, d features.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from tensorae.deep.autoencoders import check_autoencoder
from tensorae.deep.blending import Blend, BlendFit
from tensorae.deep.distinct import distinct_rows
from tensorae.deep.history import History
from tensorae.deep.membership import TrainingData
from tensorae.deep.schedule import Schedule
from tensorae.deep.scoring import Twins, chunk_rows
from tensorae.deep.start import StartOptions, first_labels
from tensorae.deep.tensorize import TensorizedAutoencoder, tensorize
from tensorae.deep.training import Outcome, train
from tensorae.estimators.deep_options import DeepOptions
from tensorae.exceptions import InvalidInputError
from tensorae.storage.checkpoints import Checkpoint

__all__ = ["DeepFit", "Given", "own_randomness"]

# Rows on which an architecture is tried before training.
TRIAL_ROWS = 4
# Standard deviations of X up to here, or down to the inverse, keep scale and costs finite.
LARGEST_SPREAD = {torch.float32: 1e15, torch.float64: 1e30}


@dataclass(frozen=True)
class Given:
    """Checked data of a fit.

    Attributes
    ----------
    x : Tensor of shape (n, d)
    weights : Tensor of shape (n,) or None
    known : Tensor of shape (n,) or None
        Known labels, -1 elsewhere.
    target : Tensor of shape (n, d) or None
        Clean versions of the samples.
    """

    x: Tensor
    weights: Tensor | None
    known: Tensor | None
    target: Tensor | None


class DeepFit:
    """One fit on the different rows, in units in which networks train well.

    Parameters
    ----------
    given : Given
    shape : tuple of int
        Of one sample, as the autoencoders take it.
    options : DeepOptions
    rng : RandomState
        For the start.
    generator : Generator
        For folds, batches and noise.
    """

    def __init__(
        self,
        given: Given,
        shape: tuple[int, ...],
        options: DeepOptions,
        rng: np.random.RandomState,
        generator: torch.Generator,
    ) -> None:
        self.options, self.rng, self.generator = options, rng, generator
        x, known, target = given.x, given.known, given.target
        columns = [x] if target is None else [x, target]
        if known is not None:
            columns.append(known[:, None])
        distinct = distinct_rows(columns, given.weights, rng)
        rows, share = x[distinct.rows], distinct.weights
        self.origin = _weighted_sum(rows, share) / share.sum()
        rows = rows - self.origin.to(rows.dtype)
        squares = rows.square().sum(1, dtype=torch.float64)
        spread = float(share @ squares) / (float(share.sum()) * x.shape[1])
        self.unit = _checked_unit(spread**0.5, x.dtype)
        self.known = None if known is None else known[distinct.rows]
        cleaned = None if target is None else self._in_units(target[distinct.rows])
        # Only the proportions of weights matter; the usual case is that all of them are one.
        share = share if bool((share == 1).all()) else share / share.mean()
        self.data = TrainingData(
            x=(rows / self.unit).float(),
            weights=share.float(),
            target=cleaned,
            held_out=self._held_out(len(rows)),
            unit=self.unit,
        )
        module = tensorize(options.factory, options.start.n_clusters, input_shape=shape)
        self.module = module.to(x.device, torch.float32)
        trial = self.module.shaped(self.data.x[:TRIAL_ROWS])
        check_autoencoder(self.module.autoencoders[0], trial, options.training.latent_dim)
        self.blend: Blend | None = None
        self.centers = self.origin

    def run(self, history: History, checkpoint: Checkpoint | None = None) -> Outcome:
        """Start, then train; ``checkpoint`` keeps the state of the training."""
        options = self.options
        k = options.start.n_clusters
        denoising = self.data.target is not None or options.training.noise > 0
        cross_fit = (k > 1 or denoising) and len(self.data.x) >= 2 * k
        with torch.no_grad():
            start = first_labels(
                self.data.x, self.data.weights, self._start_options(), self.rng, self.known
            )
        schedule = Schedule.plan(
            len(self.data.x),
            k,
            n_twins=2 if cross_fit else 1,
            max_epochs=options.max_epochs,
            batch_size=options.batch_size,
        )
        try:
            return train(
                self.module,
                self.data,
                start,
                schedule,
                options.training,
                self.generator,
                history,
                cross_fit=cross_fit,
                after_learning=self._fit_blend if denoising else None,
                checkpoint=checkpoint,
            )
        finally:
            history.close()

    def published_module(self, outcome: Outcome) -> TensorizedAutoencoder:
        """Return the module for the data as it came, the largest cluster first."""
        module = self.module
        if isinstance(self.options.start.init, str) and self.known is None:
            k = module.n_clusters
            counts = self.data.weights.new_zeros(k).index_add(0, outcome.labels, self.data.weights)
            module.reorder(counts.argsort(descending=True, stable=True).tolist())
        self.centers = self.origin + self.unit * module.centers.flatten(1).double()
        module.change_unit(self.unit, self.origin)
        return module.eval()

    def _start_options(self) -> StartOptions:
        start = self.options.start
        if isinstance(start.init, str):
            return start
        return replace(start, init=self._in_units(start.init))

    def _in_units(self, points: Tensor) -> Tensor:
        return ((points - self.origin.to(points.dtype)) / self.unit).float()

    def _held_out(self, n: int) -> Tensor | None:
        fraction = self.options.validation_fraction
        if not fraction:
            return None
        count = max(1, int(fraction * n))
        if count >= n:
            raise InvalidInputError(
                f"validation_fraction={fraction} needs rows that differ to hold out and to train "
                f"on, got n_samples={n} of them; set validation_fraction to zero."
            )
        order = torch.randperm(n, generator=self.generator, device=self.generator.device)
        held = torch.zeros(n, dtype=torch.bool, device=order.device)
        held[order[:count]] = True
        return held

    def _fit_blend(self, twins: Twins) -> None:
        noise = self.options.training.noise / self.unit
        fit = BlendFit(self.data, twins, noise, self.generator)
        self.blend = fit.blend().in_units(self.unit, self.origin)


def _checked_unit(spread: float, kind: torch.dtype) -> float:
    """Return the standard deviation of X; one where all rows are the same."""
    limit = LARGEST_SPREAD[kind]
    if spread and not 1 / limit <= spread <= limit:
        raise InvalidInputError(
            f"X must have a standard deviation from {1 / limit:.0e} to {limit:.0e}, because "
            f"networks compute in single precision, got {spread:.3g}; divide X by a constant first."
        )
    return spread or 1.0


def _weighted_sum(rows: Tensor, weights: Tensor) -> Tensor:
    """Sum of the rows (n, d) by weight, in double precision without a double copy of them."""
    size = chunk_rows(rows.shape[1])
    parts = zip(rows.split(size), weights.split(size), strict=True)
    return torch.stack([share @ part.double() for part, share in parts]).sum(0)


@contextmanager
def own_randomness(rng: np.random.RandomState, device: torch.device) -> Iterator[torch.Generator]:
    """Seed torch for the fit and put its global state back after it."""
    seed = int(rng.randint(2**31 - 1))
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices):
        torch.manual_seed(seed)
        yield torch.Generator(device).manual_seed(seed)
