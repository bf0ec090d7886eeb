"""Which fit a checkpoint belongs to."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np
from torch import Tensor

from tensorae.checkpoints import Checkpoint
from tensorae.estimators.options import check_number
from tensorae.estimators.streaming import StreamedSamples
from tensorae.parallel import Processes

__all__ = ["kept_fit"]

# Parameters that do not change what a fit computes.
NEUTRAL = ("verbose", "device", "callbacks", "random_state")
# Rows whose values stand for the whole of an array.
LOOKED_AT = 64


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
    group = samples.processes if isinstance(samples, StreamedSamples) else Processes()
    identity = {
        "class": type(estimator).__name__,
        "data": _fingerprint(samples),
        **{name: _told(value) for name, value in parameters.items() if name not in NEUTRAL},
        "random_state": _told(parameters["random_state"]),
    }
    keeper = Checkpoint(path, seconds, identity, group)
    return keeper, keeper.seeded(rng, fixed=isinstance(parameters["random_state"], int))


def _told(value: Any) -> Any:
    """Return a parameter as JSON knows it; what it does not know by a hash of it."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.integer | np.floating):
        return value.item()
    if isinstance(value, np.random.RandomState):
        return "a generator"
    try:
        content = np.asarray(value)
        if content.dtype != object:
            return hashlib.sha256(content.tobytes()).hexdigest()[:16]
    except (TypeError, ValueError):
        pass
    return getattr(value, "__qualname__", type(value).__name__)


def _fingerprint(samples: Tensor | StreamedSamples) -> str:
    if isinstance(samples, StreamedSamples):
        return f"{samples.shape} {samples.batches.fingerprint()}"
    step = max(1, len(samples) // LOOKED_AT)
    content = samples[::step].cpu().numpy().tobytes()
    shape = json.dumps(list(samples.shape))
    return f"{shape} {hashlib.sha256(content).hexdigest()[:16]}"
