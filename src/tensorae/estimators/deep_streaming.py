"""TAE on batches: a sample is trained on in memory, then all rows as they are read.

Shapes: n rows of this process, k clusters, d features.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tensorae.deep.history import History
from tensorae.deep.schedule import BATCH_SIZE
from tensorae.deep.streamed import EPOCHS, StreamedTraining
from tensorae.deep.training import Outcome
from tensorae.estimators.deep_fit import DeepFit, Given
from tensorae.estimators.deep_options import DeepOptions
from tensorae.estimators.streaming import StreamedSamples
from tensorae.exceptions import InvalidParameterError
from tensorae.linear.streams import StreamedRows
from tensorae.storage.checkpoints import Checkpoint

__all__ = ["check_streamable", "fit_stream", "rows_at_hand"]

# Rows that are trained on in memory: all of them where there are no more, a sample otherwise.
SAMPLE_ROWS = 20_000
SAMPLE_ENTRIES = 1 << 24


@dataclass
class UnitRows:
    """Rows of this process in the units of a fit."""

    samples: StreamedSamples
    origin: Tensor
    unit: float

    @property
    def n(self) -> int:
        """Rows of this process."""
        return self.samples.batches.n_rows

    @property
    def d(self) -> int:
        """Features."""
        return self.samples.shape[1]

    @property
    def count(self) -> int:
        """Rows of all processes."""
        return self.samples.shape[0]

    def batches(self) -> Iterator[Tensor]:
        """Yield single-precision rows (m, d)."""
        for x in self.samples.tensors():
            yield ((x - self.origin.to(x.dtype)) / self.unit).float()


def check_streamable(options: DeepOptions, validation_fraction: float) -> None:
    """Refuse what training on a stream has no place for."""
    if not options.training.rule.is_lloyd:
        raise InvalidParameterError(
            'assignment must be "lloyd" where X is Batches, since the others keep k numbers for '
            "each row; give X as an array for them."
        )
    if validation_fraction:
        raise InvalidParameterError(
            f"validation_fraction must be 0 where X is Batches, got {validation_fraction}; keep "
            "some of the data apart, and score it after the fit."
        )


def rows_at_hand(samples: StreamedSamples) -> tuple[StreamedRows, Tensor | None]:
    """Return the streamed rows, and all of them in memory where they are few."""
    rows = StreamedRows(
        samples.batches, processes=samples.processes, device=samples.device, centred=False
    )
    collected = rows.collected(_sample_rows(samples.shape[1]))
    if collected.streamed:
        return rows, None
    return rows, collected.data.to(samples.like.dtype)


def fit_stream(
    samples: StreamedSamples,
    rows: StreamedRows,
    shape: tuple[int, ...],
    options: DeepOptions,
    rng: np.random.RandomState,
    generator: torch.Generator,
    history: History,
    checkpoint: Checkpoint | None,
) -> tuple[DeepFit, Outcome, str]:
    """Train on a sample, then on all rows.

    Parameters
    ----------
    samples : StreamedSamples
    rows : StreamedRows
        The same, not centred.
    shape : tuple of int
        Of one sample.
    options : DeepOptions
    rng : RandomState
    generator : Generator
    history : History
        Of the passes over all rows.
    checkpoint : Checkpoint, optional

    Returns
    -------
    fit : DeepFit
        With the trained module, in its units.
    outcome : Outcome
        Of the sample.
    problem : str
        What to tell the user, empty where all went well.
    """
    size = _sample_rows(samples.shape[1])
    direction = torch.as_tensor(rng.standard_normal(samples.shape[1]), device=samples.device)
    sample = rows.sample(direction, size, rng.uniform()).x.to(samples.like.dtype)
    given: Any = Given(sample, None, None, None)
    fit = DeepFit(given, shape, replace(options, max_epochs=None), rng, generator)
    outcome = fit.run(History())
    samples.processes.from_first(*fit.module.state_dict().values())
    own = torch.Generator(samples.device)
    own.manual_seed(int(rng.randint(2**31 - 1)) + samples.processes.rank)
    training = StreamedTraining(
        module=fit.module,
        rows=UnitRows(samples, fit.origin, fit.unit),
        options=options.training,
        unit=fit.unit,
        batch_size=options.batch_size or BATCH_SIZE,
        n_epochs=options.max_epochs or EPOCHS,
        generator=own,
        history=history,
        processes=samples.processes,
        checkpoint=checkpoint,
    )
    try:
        training.run()
    finally:
        history.close()
    return fit, outcome, outcome.problem or training.problem


def _sample_rows(d: int) -> int:
    return max(1, min(SAMPLE_ROWS, SAMPLE_ENTRIES // d))
