"""Checked rows and options -> trained autoencoders: units, start, loop.

Rows in memory become each different row once, in an order of its own, with its weight. Training
then depends neither on the order of the rows nor on whether a row is written twice or has the
weight two, although batches, folds and noise are random. Of streamed rows a sample is trained on in
memory first; then all rows go on from there.

Shapes: n samples, u different ones, k clusters, d features.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tensorae.deep.assignments import Assigner, TrainingData
from tensorae.deep.architectures import check_autoencoder
from tensorae.deep.cross_fit import chunk_rows
from tensorae.deep.loop import DeepLoop, State, run
from tensorae.deep.module import TensorizedAutoencoder, tensorize
from tensorae.deep.schedule import Schedule, TrainingOptions
from tensorae.deep.start import first_labels
from tensorae.exceptions import InvalidInputError
from tensorae.rows import Rows

__all__ = ["Trained", "distinct_rows", "sample_rows", "train"]

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
    """What a training leaves behind, in units of the data as it came.

    Attributes
    ----------
    module : TensorizedAutoencoder
        The largest cluster first, unless the user numbered them.
    centers : Tensor of shape (k, d)
        In double precision.
    state : State
        The last one, in the units and the order of the training.
    """

    module: TensorizedAutoencoder
    centers: Tensor
    state: State


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
        Cluster of the rows where it is known, -1 elsewhere; they seed a linear start.
    observe : callable
        Sees every state, and may ask to stop by True.
    resume : callable, optional
        ``resume(restored, device)`` returns a state to go on from, made by ``restored`` from what
        an observer kept; None for a fresh start.

    Returns
    -------
    Trained
    """
    with _own_randomness(rng, rows.device) as generator:
        units, loop, state = (_train_streamed if rows.streamed else _train_in_memory)(
            _Task(rows, options, shape, rng, generator, target, known_labels), observe, resume
        )
    module = loop.copies.modules[0]
    if isinstance(options.init, str) and known_labels is None:
        sizes = Assigner(loop.data, loop.copies, options).sizes(
            state.assignments.labels, weighted=True
        )
        module.reorder(sizes.argsort(descending=True, stable=True).tolist())
    centers = units.origin + units.unit * module.centers.flatten(1).double()
    module.change_unit(units.unit, units.origin)
    if state.blend is not None:
        state = replace(state, blend=state.blend.in_units(units.unit, units.origin))
    return Trained(module.eval(), centers, state)


def sample_rows(d: int) -> int:
    """Rows of a stream that are trained on in memory."""
    return max(1, min(SAMPLE_ROWS, SAMPLE_ENTRIES // d))


@dataclass(frozen=True, eq=False)
class _Task:
    """What there is to train."""

    rows: Rows
    options: TrainingOptions
    shape: tuple[int, ...]
    rng: np.random.RandomState
    generator: torch.Generator
    target: Tensor | None = None
    known_labels: Tensor | None = None


@dataclass(frozen=True, eq=False)
class _Units:
    """Networks train on (x - origin) / unit."""

    origin: Tensor
    unit: float

    def of(self, points: Tensor) -> Tensor:
        """Points (m, d) in these units, in single precision."""
        return ((points - self.origin.to(points.dtype)) / self.unit).float()


def _train_in_memory(
    task: _Task, observe: Observe, resume: Resume | None
) -> tuple[_Units, DeepLoop, State]:
    units, data, known = _training_data(task)
    loop = _loop_in_memory(task, data, _new_module(task, data))
    state = None if resume is None else resume(loop.restored, task.rows.device)
    if state is None:
        state = _first_state(task, loop, units, known)
    return units, loop, run(loop, state, observe)


def _train_streamed(
    task: _Task, observe: Observe, resume: Resume | None
) -> tuple[_Units, DeepLoop, State]:
    """Train on a sample in memory, then on all rows."""
    rows, rng, options = task.rows, task.rng, task.options
    direction = torch.as_tensor(rng.standard_normal(rows.d), device=rows.device)
    sample = rows.sample(direction, sample_rows(rows.d), rng.uniform()).weighted(None)
    first = replace(task, rows=sample, options=replace(options, max_epochs=None))
    units, data, _ = _training_data(first)
    module = _new_module(first, data)
    all_rows = rows.moved(units.origin, units.unit).in_chunks(chunk_rows(rows.d))
    schedule = Schedule.of_stream(max_epochs=options.max_epochs, batch_size=options.batch_size)
    generator = torch.Generator(rows.device)
    generator.manual_seed(int(rng.randint(2**31 - 1)) + rows.processes.rank)
    loop = DeepLoop(
        module,
        TrainingData(all_rows, unit=units.unit),
        options,
        schedule,
        generator,
        cross_fit=False,
    )
    with rows.reading():
        state = None if resume is None else resume(loop.restored, rows.device)
        if state is None:
            sampling = _loop_in_memory(first, data, module)
            sampled = run(sampling, _first_state(first, sampling, units, None), lambda _: None)
            rows.same_in_all(*module.state_dict().values())
            state = replace(loop.init(None), blend=sampled.blend, problem=sampled.problem)
        return units, loop, run(loop, state, observe)


def _training_data(task: _Task) -> tuple[_Units, TrainingData, Tensor | None]:
    """Different rows in units in which networks train well, and what is known of their labels."""
    x, target, known = task.rows.data, task.target, task.known_labels
    columns = [x] if target is None else [x, target]
    if known is not None:
        columns.append(known[:, None])
    chosen, share = distinct_rows(columns, task.rows.weights, task.rng)
    rows = x[chosen]
    origin = _weighted_sum(rows, share) / share.sum()
    rows = rows - origin.to(rows.dtype)
    squares = rows.square().sum(1, dtype=torch.float64)
    spread = float(share @ squares) / (float(share.sum()) * x.shape[1])
    units = _Units(origin, _checked_unit(spread**0.5, x.dtype))
    # Only the proportions of weights matter; the usual case is that all of them are one.
    share = share if bool((share == 1).all()) else share / share.mean()
    data = TrainingData(
        Rows((rows / units.unit).float()).in_chunks(len(rows)),
        weights=share.float(),
        target=None if target is None else units.of(target[chosen]),
        held_out=_held_out(len(rows), task.options.validation_fraction, task.generator),
        unit=units.unit,
    )
    return units, data, None if known is None else known[chosen]


def _new_module(task: _Task, data: TrainingData) -> TensorizedAutoencoder:
    options = task.options
    module = tensorize(options.factory, options.n_clusters, input_shape=task.shape)
    module = module.to(task.rows.device, torch.float32)
    trial = module.shaped(data.x[:TRIAL_ROWS])
    check_autoencoder(module.autoencoders[0], trial, options.latent_dim)
    return module


def _loop_in_memory(task: _Task, data: TrainingData, module: TensorizedAutoencoder) -> DeepLoop:
    n, k, options = data.rows.n, task.options.n_clusters, task.options
    denoising = data.target is not None or options.noise > 0
    cross_fit = (k > 1 or denoising) and n >= 2 * k
    schedule = Schedule.plan(
        n,
        k,
        n_copies=2 if cross_fit else 1,
        max_epochs=options.max_epochs,
        batch_size=options.batch_size,
    )
    return DeepLoop(module, data, options, schedule, task.generator, cross_fit=cross_fit)


def _first_state(task: _Task, loop: DeepLoop, units: _Units, known: Tensor | None) -> State:
    data, options = loop.data, task.options
    assert data.weights is not None
    if not isinstance(options.init, str):
        options = replace(options, init=units.of(options.init))
    with torch.no_grad():
        start = first_labels(data.x, data.weights, options, task.rng, known)
    return loop.init(start)


def distinct_rows(
    columns: list[Tensor], weights: Tensor | None, rng: np.random.RandomState
) -> tuple[Tensor, Tensor]:
    """Find the rows that differ in any of the blocks of columns (n, d_i).

    Parameters
    ----------
    columns : list of Tensor of shape (n, d_i)
    weights : Tensor of shape (n,), optional
        Rows without weight are left out.
    rng : RandomState
        Draws the direction along which rows are sorted.

    Returns
    -------
    rows : Tensor of shape (u,)
        Index of one representative each.
    weights : Tensor of shape (u,)
        Their total weights, all above zero.
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


@contextmanager
def _own_randomness(rng: np.random.RandomState, device: torch.device) -> Iterator[torch.Generator]:
    """Seed torch for the training and put its global state back after it."""
    seed = int(rng.randint(2**31 - 1))
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices):
        torch.manual_seed(seed)
        yield torch.Generator(device).manual_seed(seed)
