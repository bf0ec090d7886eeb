"""Estimators on batches: what is checked, and how results come back.

Shapes: n samples, d features, m rows of a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tensorae._arrays import shared_tensor
from tensorae.data import Batches
from tensorae.estimators.options import check_device, check_seed
from tensorae.exceptions import InvalidInputError, InvalidParameterError
from tensorae.linear.solver import SolverOptions
from tensorae.parallel import Processes, processes

__all__ = [
    "StreamedSamples",
    "check_batches",
    "check_streamable",
    "is_batches",
    "map_batches",
    "refuse",
    "shared_seed",
]


class StreamedSamples:
    """Checked batches: those of this process, and what is known of all.

    Attributes
    ----------
    batches : Batches
        The rows of this process.
    processes : Processes
    device : torch.device
    shape : tuple of int
        (n, d) over all processes.
    """

    def __init__(self, batches: Batches, device: torch.device, group: Processes) -> None:
        self.processes, self.device = group, device
        self.shape = (batches.n_rows, batches.n_features)
        self.batches = batches if group.alone else batches.shard(group.rank, group.size)

    @property
    def like(self) -> Tensor:
        """A tensor of the shape and precision of the data, which takes no memory."""
        kind = torch.float32 if self.batches.dtype == np.float32 else torch.float64
        return torch.empty(1, 1, dtype=kind, device=self.device).expand(self.shape)

    def tensors(self) -> Iterator[Tensor]:
        """Yield the batches (m, d) of this process on the device."""
        for batch in self.batches:
            yield shared_tensor(batch).to(self.device)


def is_batches(X: Any) -> bool:
    """Tell whether X is a ``Batches``."""
    return isinstance(X, Batches)


def check_batches(
    estimator: Any, X: Batches, *, reset: bool, device: Any, shared: bool = False
) -> StreamedSamples:
    """Check batches against an estimator, which learns (``reset``) or checks their features.

    With ``shared`` each process of a group takes its share of the rows.
    """
    names = X.feature_names
    if reset:
        X.check()
        estimator.n_features_in_ = X.n_features
        if names is not None:
            estimator.feature_names_in_ = np.asarray(names, dtype=object)
        elif hasattr(estimator, "feature_names_in_"):
            del estimator.feature_names_in_  # names of an earlier fit
    else:
        _check_features(estimator, X)
    place = check_device(device, torch.device("cpu"))
    return StreamedSamples(X, place, processes() if shared else Processes())


def check_streamable(options: SolverOptions, shape: tuple[int, int]) -> None:
    """Refuse what a stream cannot give: room for all assignments, more features than rows."""
    if not (options.rule.is_lloyd or options.rule.probabilistic):
        raise InvalidParameterError(
            'assignment must be "lloyd" or "em" where X is Batches, since the others keep k '
            "numbers for each row; give X as an array for them."
        )
    n, d = shape
    if d > n:
        raise InvalidInputError(
            f"X must have at least as many rows as features where it is Batches, got {n} rows of "
            f"{d} features; give X as an array."
        )


def refuse(name: str, value: object) -> None:
    """Refuse an argument of ``fit`` that batches have no place for."""
    if value is not None:
        raise InvalidParameterError(
            f"{name} must be left out where X is Batches, got {type(value).__name__}; "
            "give X as an array for it."
        )


def shared_seed(random_state: Any, group: Processes) -> np.random.RandomState:
    """The generator of a fit, the same in all processes."""
    rng = check_seed(random_state)
    if group.alone or isinstance(random_state, int | np.integer):
        return rng
    seed = torch.tensor(rng.randint(2**31 - 1))
    group.from_first(seed)
    return np.random.RandomState(int(seed))


def map_batches(
    samples: StreamedSamples, function: Callable[[Tensor], Tensor]
) -> np.ndarray[Any, Any]:
    """Results (n, ...) of ``function`` for batches (m, d), one after another, in one array."""
    result: np.ndarray[Any, Any] | None = None
    start = 0
    for x in samples.tensors():
        part = function(x).cpu().numpy()
        if result is None:
            result = np.empty((samples.batches.n_rows, *part.shape[1:]), dtype=part.dtype)
        result[start : start + len(part)] = part
        start += len(part)
    if result is None:
        raise InvalidInputError("X must have at least one row, got batches without rows.")
    return result


def _check_features(estimator: Any, X: Batches) -> None:
    if X.n_features != estimator.n_features_in_:
        raise InvalidInputError(
            f"X must have the {estimator.n_features_in_} features of the fit, got {X.n_features}; "
            "choose them by Batches(columns=...)."
        )
    known = getattr(estimator, "feature_names_in_", None)
    if X.feature_names is not None and known is not None and list(known) != X.feature_names:
        raise InvalidInputError(
            f"X must have the columns of the fit in their order, {list(known)}, got "
            f"{X.feature_names}; choose them by Batches(columns=...)."
        )
