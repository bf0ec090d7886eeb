"""Parameters of an estimator -> checked values, or one clear sentence about what is wrong.

Shapes: k clusters, d features.
"""

from __future__ import annotations

import numbers
import warnings
from typing import Any

import numpy as np
import torch
from sklearn.utils import check_random_state
from torch import Tensor

from tensorae.assignment import find_rule
from tensorae.exceptions import InvalidInputError, InvalidParameterError, unknown_choice
from tensorae.linear.rows import ACCURATE
from tensorae.linear.solver import SolverOptions

__all__ = [
    "check_auto",
    "check_device",
    "check_init",
    "check_integer",
    "check_latent_dim",
    "check_n_clusters",
    "check_n_init",
    "check_number",
    "check_penalty",
    "check_seed",
    "linear_options",
]

STARTS = ("k-means++", "k-means", "random")


def linear_options(parameters: dict[str, Any], x: Tensor) -> SolverOptions:
    """Check the parameters of ``LinearTAE`` for data ``x`` (n, d)."""
    d = x.shape[1]
    k = check_n_clusters(parameters["n_clusters"], x)
    init = check_init(parameters["init"], STARTS, (k, d), x.device)
    return SolverOptions(
        n_clusters=k,
        latent_dim=check_latent_dim(parameters["latent_dim"], d),
        latent_penalty=check_penalty(parameters["latent_penalty"]),
        rule=find_rule(parameters["assignment"]),
        init=init,
        n_init=check_n_init(parameters["n_init"], init),
        max_iter=check_integer("max_iter", parameters["max_iter"], low=1),
        tol=check_number("tol", parameters["tol"], low=0),
    )


def check_n_clusters(n_clusters: Any, x: Tensor) -> int:
    """Return k, for which data ``x`` (n, d) has enough rows."""
    k = check_integer("n_clusters", n_clusters, low=1)
    if x.shape[0] < k:
        raise InvalidInputError(
            f"X must have at least n_clusters={k} rows, got n_samples={x.shape[0]}; "
            "lower n_clusters or add rows."
        )
    return k


def check_latent_dim(latent_dim: Any, d: int) -> int:
    """Return h, at most the number of features."""
    h = check_integer("latent_dim", latent_dim, low=1)
    if h > d:
        raise InvalidParameterError(
            f"latent_dim must be at most the number of features of X, n_features={d}, "
            f"got {h}; lower latent_dim."
        )
    return h


def check_penalty(penalty: Any, *, zero_allowed: bool = False) -> float | None:
    """Return λ, or None where it is to be estimated."""
    if isinstance(penalty, str):
        check_auto("latent_penalty", penalty, f"a number in {'[' if zero_allowed else '('}0, 1]")
        return None
    return check_number("latent_penalty", penalty, low=0, high=1, low_allowed=zero_allowed)


def check_n_init(n_init: Any, init: str | Tensor) -> int | None:
    """Return the number of starts, or None for "auto"."""
    if isinstance(n_init, str):
        check_auto("n_init", n_init, "a whole number of at least 1")
        return None
    starts = check_integer("n_init", n_init, low=1)
    if starts > 1 and not isinstance(init, str):
        warnings.warn(
            f"init gives the centres of one start, so n_init={starts} makes no further ones; "
            "leave n_init out.",
            RuntimeWarning,
            stacklevel=5,
        )
    return starts


def check_auto(name: str, value: str, otherwise: str) -> None:
    """Refuse any word but "auto"; ``otherwise`` says what else would do."""
    if value == "auto":
        return
    quoted = value.replace(".", "", 1).isdigit()
    remedy = "give a number, without quotes." if quoted else "did you mean 'auto'?"
    raise InvalidParameterError(f'{name} must be {otherwise} or "auto", got {value!r}; {remedy}')


def check_init(
    init: Any, names: tuple[str, ...], shape: tuple[int, int], device: torch.device
) -> str | Tensor:
    """Return the name of a start, or centres of ``shape`` (k, d)."""
    if isinstance(init, str):
        if init not in names:
            raise unknown_choice("init", init, names)
        return init
    try:
        given = init.detach() if isinstance(init, Tensor) else np.asarray(init)
        if given.dtype in (np.dtype(complex), torch.complex64, torch.complex128):
            raise TypeError("complex")
        centers = torch.as_tensor(
            given if isinstance(given, Tensor) else given.astype(float), dtype=ACCURATE
        ).to(device)
    except (ValueError, TypeError):
        raise InvalidInputError(
            f"init must be a name or numbers of shape (n_clusters, n_features) = {shape}, "
            f"got {type(init).__name__} with other entries; give one centre per cluster."
        ) from None
    if tuple(centers.shape) != shape:
        raise InvalidInputError(
            f"init must hold n_clusters x n_features = {shape} numbers, "
            f"got shape {tuple(centers.shape)}; give one centre per cluster."
        )
    if not bool(torch.isfinite(centers).all()):
        raise InvalidInputError("init contains NaN or infinity; give finite centres.")
    return centers


def check_seed(random_state: Any) -> np.random.RandomState:
    """Return a generator from a seed, a generator or None."""
    try:
        generator: np.random.RandomState = check_random_state(random_state)
    except ValueError:
        raise InvalidParameterError(
            "random_state must be a whole number from 0 to 2**32-1, a numpy RandomState or None, "
            f"got {random_state!r}; change random_state."
        ) from None
    return generator


def check_device(device: Any, home: torch.device) -> torch.device:
    """Return where to compute: ``device``, or ``home`` where none is given.

    "auto" is a GPU where there is one.
    """
    if device is None:
        return home
    if isinstance(device, str) and device == "auto":
        return torch.device("cuda") if torch.cuda.is_available() else home
    try:
        place = torch.device(device)
        # Sums need double precision, and numbers that can be read back.
        float(torch.zeros((), dtype=torch.float64, device=place))
    except (RuntimeError, AssertionError, TypeError, NotImplementedError) as error:
        reason = str(error).splitlines()[0][:80]
        raise InvalidParameterError(
            "device must be one that this machine has and that computes in double precision, "
            f"such as 'cpu', got {device!r} ({reason}); change device."
        ) from None
    return place


def check_integer(name: str, value: Any, *, low: int) -> int:
    """Return a whole number of at least ``low``."""
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool | np.bool_)
    if not whole or int(value) < low:
        raise InvalidParameterError(
            f"{name} must be a whole number of at least {low}, got {value!r}; change {name}."
        )
    return int(value)


def check_number(
    name: str, value: Any, *, low: float, high: float = float("inf"), low_allowed: bool = True
) -> float:
    """Return a real number in [low, high], or in (low, high] if ``low`` is not allowed."""
    fits = isinstance(value, numbers.Real) and not isinstance(value, bool | np.bool_)
    if fits:
        above = low <= value if low_allowed else low < value
        fits = above and value <= high and value != float("inf")
    if not fits:
        opening = "[" if low_allowed else "("
        closing = ")" if high == float("inf") else "]"
        raise InvalidParameterError(
            f"{name} must be a number in {opening}{low:g}, {high:g}{closing}, got {value!r}; "
            f"change {name}."
        )
    return float(value)
