"""Checked rows and options -> trained autoencoders: units, start, loop.

Rows in memory become each different row once, in an order of its own, with its weight. Training
then depends neither on the order of the rows nor on whether a row is written twice or has the
weight two, although batches, folds and noise are random. Of streamed rows a sample is trained on in
memory first; then all rows go on from there.

Shapes: n samples, u different ones, k clusters, d features.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tensorae._torch import FitRNG
from tensorae.deep.assign import Assigner, TrainingData
from tensorae.deep.cross_fit import chunk_rows
from tensorae.deep.initial import Start, first_labels
from tensorae.deep.loop import DeepLoop, State, run
from tensorae.deep.module import TensorizedAutoencoder, tensorize
from tensorae.deep.schedule import (
    CLOSING_SHARE,
    VARIATIONAL_SHARE,
    Schedule,
    TrainingOptions,
)
from tensorae.deep.user_architecture import check_autoencoder, draws_numbers
from tensorae.exceptions import InvalidInputError
from tensorae.rows import Rows

__all__ = ["Trained", "distinct_rows", "train"]

# Rows on which an architecture is tried before training.
TRIAL_ROWS = 4
# Standard deviations of X up to here, or down to the inverse, keep scale and costs finite.
LARGEST_SPREAD = {torch.float32: 1e15, torch.float64: 1e30}
# Rows of a stream that are trained on in memory: all where there are no more, a sample otherwise.
SAMPLE_ROWS = 20_000
SAMPLE_ENTRIES = 1 << 24
# Numbers that are projected at a time.
CHUNK_ENTRIES = 1 << 22


@dataclass(frozen=True, eq=False)
class Trained:
    """What a training leaves behind, in units of the data as it came."""

    module: TensorizedAutoencoder  # the largest cluster first, unless the user numbered them
    centers: Tensor  # (k, d) in double precision
    state: State  # the last one; its assignments are in the order of the training
    rows: Rows  # all rows of all processes in memory where they are few
    near: Tensor | None = None  # (n, k) clusters that may be cheapest, by row; None for all


Observe = Callable[[State], bool | None]
# Returns the state to go on from, made by the first argument; None for a fresh start.
Resume = Callable[[Callable[[dict[str, Any]], State], torch.device], State | None]


def train(
    rows: Rows,
    options: TrainingOptions,
    shape: tuple[int, ...],
    rng: np.random.RandomState,
    *,
    target: Tensor | None = None,
    known_labels: Tensor | None = None,
    observe: Observe,
    resume: Resume | None = None,
) -> Trained:
    """Train k autoencoders together with who belongs to which.

    Parameters
    ----------
    rows : Rows
    options : TrainingOptions
    shape : tuple of int
        Of one sample, as the autoencoders take it.
    rng : RandomState
    target : Tensor of shape (n, d), optional
        Clean versions of the samples, where they are in memory.
    known_labels : Tensor of shape (n,), optional
        Cluster of the rows where it is known, -1 elsewhere; they seed a linear start. Where all
        are known they are the first labels.
    observe : callable
        Sees every state, and may ask to stop by True.
    resume : callable, optional
        ``resume(restored, device)`` returns a state to go on from, made by ``restored`` from what
        an observer kept; None for a fresh start.

    Returns
    -------
    Trained
    """
    seed = int(rng.randint(2**31 - 1))
    generator = torch.Generator(rows.device).manual_seed(seed)
    with rows.parallel(options.work):
        rows = rows.collected(_sample_rows(rows.d))
        few = _sample(rows, rng) if rows.streamed else rows
    with few.parallel(options.work):
        data, origin, known = _training_data(few, options, rng, generator, target, known_labels)
    module = _new_module(options, shape, data, FitRNG(seed))
    epochs = None if rows.streamed else options.max_epochs
    first = loop = _loop_in_memory(module, data, options, epochs, generator)
    if rows.streamed:
        loop = _streamed_loop(module, rows, options, origin, data.unit, rng)
    state = None if resume is None else resume(loop.restored, rows.device)
    if state is None:
        state = first.init(_start(data, origin, options, rng, known, module.fit_rng))
        if rows.streamed:
            sampled = run(first, state, lambda _: None)
            rows.same_in_all(*module.state_dict().values())
            state = replace(loop.init(None), blend=sampled.blend, problem=sampled.problem)
    state = run(loop, state, observe)
    order = list(range(options.n_clusters))
    if isinstance(options.init, str) and known is None:
        sizes = Assigner(loop.data, loop.copies, options).sizes(
            state.assignments.labels, weighted=True
        )
        order = sizes.argsort(descending=True, stable=True).tolist()
        module.reorder(order)
    near = _near(state, loop.data, rows.n, order)
    centers = origin + data.unit * module.centers.flatten(1).double()
    module.change_unit(data.unit, origin)
    module.fit_rng = None
    blend = None if state.blend is None else state.blend.in_units(data.unit, origin)
    return Trained(module.eval(), centers, replace(state, blend=blend), rows, near)


def _near(state: State, data: TrainingData, n: int, order: list[int]) -> Tensor | None:
    """Clusters (n, k) in their order that may be cheapest, where each row was trained on once."""
    fit_rng = state.copies.fit_rng
    drawn = fit_rng is not None and fit_rng.used_in_forward  # costs are others at every call
    if state.near is None or data.places is None or len(data.places) != n or drawn:
        return None
    near = torch.empty_like(state.near)
    near[data.places] = state.near[:, order]
    return near


def _sample_rows(d: int) -> int:
    return max(1, min(SAMPLE_ROWS, SAMPLE_ENTRIES // d))


def _sample(rows: Rows, rng: np.random.RandomState) -> Rows:
    direction = torch.as_tensor(rng.standard_normal(rows.d), device=rows.device)
    return rows.sample(direction, _sample_rows(rows.d), rng.uniform()).weighted(None)


def _training_data(
    rows: Rows,
    options: TrainingOptions,
    rng: np.random.RandomState,
    generator: torch.Generator,
    target: Tensor | None,
    known: Tensor | None,
) -> tuple[TrainingData, Tensor, Tensor | None]:
    """Different rows in units of their spread about an origin (d,), and their known labels."""
    columns = [rows.data] if target is None else [rows.data, target]
    if known is not None:
        columns.append(known[:, None])
    chosen, share = distinct_rows(columns, rows.weights, rng)
    x = rows.data[chosen]
    origin = _weighted_sum(x, share) / share.sum()
    x = x - origin.to(x.dtype)
    squares = x.square().sum(1, dtype=torch.float64)
    spread = float(share @ squares) / (float(share.sum()) * rows.d)
    unit = _checked_unit(spread**0.5, x.dtype)
    # Only the proportions of weights matter; the usual case is that all of them are one.
    share = share if bool((share == 1).all()) else share / share.mean()
    data = TrainingData(
        Rows((x / unit).float(), chunk_rows=len(x)),
        weights=share.float(),
        target=None if target is None else _in_units(target[chosen], origin, unit),
        held_out=_held_out(len(x), options.validation_fraction, generator),
        unit=unit,
        places=chosen,
    )
    return data, origin, None if known is None else known[chosen]


def _in_units(points: Tensor, origin: Tensor, unit: float) -> Tensor:
    return ((points - origin.to(points.dtype)) / unit).float()


def _new_module(
    options: TrainingOptions, shape: tuple[int, ...], data: TrainingData, fit_rng: FitRNG
) -> TensorizedAutoencoder:
    with fit_rng.activated():
        module = tensorize(
            options.factory, options.n_clusters, input_shape=shape, shared=options.sharing
        )
    module = module.to(data.rows.device, torch.float32)
    trial = module.shaped(data.rows.data[:TRIAL_ROWS])
    if check_autoencoder(module.autoencoders[0], trial, options.latent_dim):
        module.become_variational()
    elif options.curved:
        module.compare_by_spread()
    fit_rng.used_in_forward = draws_numbers(module.autoencoders[0], trial)
    module.fit_rng = fit_rng
    return module


def _loop_in_memory(
    module: TensorizedAutoencoder,
    data: TrainingData,
    options: TrainingOptions,
    max_epochs: int | None,
    generator: torch.Generator,
) -> DeepLoop:
    n, k = data.rows.n, options.n_clusters
    denoising = data.target is not None or options.noise > 0
    cross_fit = (k > 1 or denoising or module.variational) and n >= 2 * k
    schedule = Schedule.plan(
        n,
        k,
        n_copies=2 if cross_fit else 1,
        max_epochs=max_epochs,
        batch_size=options.batch_size,
        closing_share=VARIATIONAL_SHARE if module.variational else CLOSING_SHARE,
    )
    return DeepLoop(module, data, options, schedule, generator, cross_fit=cross_fit)


def _streamed_loop(
    module: TensorizedAutoencoder,
    rows: Rows,
    options: TrainingOptions,
    origin: Tensor,
    unit: float,
    rng: np.random.RandomState,
) -> DeepLoop:
    moved = rows.moved(origin, unit).in_chunks(chunk_rows(rows.d))
    schedule = Schedule.of_stream(max_epochs=options.max_epochs, batch_size=options.batch_size)
    generator = torch.Generator(rows.device)
    generator.manual_seed(int(rng.randint(2**31 - 1)) + rows.processes.rank)
    data = TrainingData(moved, unit=unit)
    return DeepLoop(module, data, options, schedule, generator, cross_fit=False)


def _start(
    data: TrainingData,
    origin: Tensor,
    options: TrainingOptions,
    rng: np.random.RandomState,
    known: Tensor | None,
    fit_rng: FitRNG | None,
) -> Start:
    assert data.weights is not None
    if not isinstance(options.init, str) and options.init.ndim > 1:
        options = replace(options, init=_in_units(options.init, origin, data.unit))
    with torch.no_grad(), data.rows.parallel(options.work):
        return first_labels(data.rows.data, data.weights, options, rng, known, fit_rng)


def distinct_rows(
    columns: list[Tensor], weights: Tensor | None, rng: np.random.RandomState
) -> tuple[Tensor, Tensor]:
    """Find the rows that differ in any of the blocks of columns (n, d_i).

    Returns the index of one representative each, and their total weights, both (u,). Rows without
    weight are left out. Rows are sorted along a direction that ``rng`` draws.
    """
    first = columns[0]
    n = first.shape[0]
    if weights is None:
        weights = torch.ones(n, dtype=torch.float64, device=first.device)
    keys = torch.zeros(n, dtype=torch.float64, device=first.device)
    for block in columns:
        keys += _projections(block, rng.standard_normal(block.shape[1]))
    order = keys.argsort(stable=True)
    order = order[weights[order] > 0]
    new = torch.ones(order.numel(), dtype=torch.bool, device=order.device)
    same_key = (keys[order][1:] == keys[order][:-1]).nonzero().squeeze(1)
    if same_key.numel():
        left, right = order[same_key], order[same_key + 1]
        same = torch.ones_like(left, dtype=torch.bool)
        for block in columns:
            same &= (block[left] == block[right]).all(1)
        new[same_key[same] + 1] = False
    groups = new.cumsum(0) - 1
    totals = torch.zeros(int(groups[-1]) + 1, dtype=torch.float64, device=order.device)
    totals.index_add_(0, groups, weights[order].double())
    return order[new], totals


def _projections(block: Tensor, direction: np.ndarray) -> Tensor:
    """Rows (n, d) along a direction (d,); equal rows get equal numbers wherever they stand."""
    along = torch.as_tensor(direction, device=block.device)
    size = max(1, CHUNK_ENTRIES // block.shape[1])
    return torch.cat([(part.double() * along).sum(1) for part in block.split(size)])


def _held_out(n: int, fraction: float, generator: torch.Generator) -> Tensor | None:
    """True (n,) for rows that are not trained on."""
    if not fraction:
        return None
    count = max(1, int(fraction * n))
    if count >= n:
        raise InvalidInputError(
            f"validation_fraction={fraction} needs rows that differ to hold out and to train "
            f"on, got n_samples={n} of them; set validation_fraction to zero."
        )
    order = torch.randperm(n, generator=generator, device=generator.device)
    held = torch.zeros(n, dtype=torch.bool, device=order.device)
    held[order[:count]] = True
    return held


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
