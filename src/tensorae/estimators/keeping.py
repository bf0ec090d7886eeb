"""The checkpoint of a fit, for both estimators."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from tensorae.estimators.options import check_number
from tensorae.estimators.streaming import StreamedSamples
from tensorae.parallel import Processes
from tensorae.storage.checkpoints import Checkpoint, identity_of, sample_fingerprint

__all__ = ["kept_fit"]


def kept_fit(
    estimator: Any, samples: Tensor | StreamedSamples, path: Any, every: Any, rng: Any
) -> tuple[Checkpoint | None, np.random.RandomState]:
    """Return the checkpoint of a fit, None without a path, and the generator to fit with.

    A fit without a fixed seed draws one and keeps it beside the checkpoint, so that going on means
    going on with the same.
    """
    if path is None:
        return None, rng
    seconds = check_number("checkpoint_every", every, low=0)
    parameters = estimator.get_params(deep=False)
    if isinstance(samples, StreamedSamples):
        group = samples.processes
        data = f"{samples.shape} {samples.batches.fingerprint()}"
    else:
        group, data = Processes(), sample_fingerprint(samples)
    identity = identity_of(type(estimator).__name__, parameters, data)
    keeper = Checkpoint(path, seconds, identity, group)
    return keeper, keeper.seeded(rng, fixed=isinstance(parameters["random_state"], int))
