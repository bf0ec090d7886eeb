"""Parameters of ``TAE`` -> checked values, or one clear sentence about what is wrong.

Shapes: n samples, k clusters, d features.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from tensorae.assignment import find_rule
from tensorae.deep.architectures import built_in
from tensorae.deep.start import StartOptions
from tensorae.deep.training import TrainingOptions
from tensorae.estimators.options import (
    check_init,
    check_integer,
    check_latent_dim,
    check_n_clusters,
    check_n_init,
    check_number,
    check_penalty,
)
from tensorae.exceptions import InvalidParameterError

__all__ = ["DeepOptions", "check_input_shape", "deep_options"]

STARTS = ("linear", "k-means++", "random")


@dataclass(frozen=True)
class DeepOptions:
    """All that decides a fit of ``TAE``.

    Attributes
    ----------
    factory : callable
        Makes an autoencoder.
    start : StartOptions
    training : TrainingOptions
    max_epochs, batch_size : int or None
    validation_fraction : float
    callbacks : tuple of callable
    """

    factory: Callable[[], Any]
    start: StartOptions
    training: TrainingOptions
    max_epochs: int | None
    batch_size: int | None
    validation_fraction: float
    callbacks: tuple[Callable[..., Any], ...]


def deep_options(
    parameters: dict[str, Any], x: Tensor, input_shape: tuple[int, ...]
) -> DeepOptions:
    """Check the parameters of ``TAE`` for data ``x`` (n, d), samples of ``input_shape``."""
    d = x.shape[1]
    k = check_n_clusters(parameters["n_clusters"], x)
    h = check_latent_dim(parameters["latent_dim"], d)
    init = check_init(parameters["init"], STARTS, (k, d), x.device)
    penalty = check_penalty(parameters["latent_penalty"], zero_allowed=True)
    return DeepOptions(
        factory=_checked_architecture(parameters["architecture"], input_shape, h),
        start=StartOptions(
            n_clusters=k,
            latent_dim=h,
            latent_penalty=penalty,
            init=init,
            n_init=check_n_init(parameters["n_init"], init),
        ),
        training=TrainingOptions(
            latent_penalty=penalty,
            rule=find_rule(parameters["assignment"]),
            latent_dim=h,
            lr=check_number("lr", parameters["lr"], low=0, low_allowed=False),
            noise=check_number("noise", parameters["noise"], low=0),
            tol=check_number("tol", parameters["tol"], low=0),
            patience=check_integer("patience", parameters["patience"], low=0),
        ),
        max_epochs=_checked_or_none("max_epochs", parameters["max_epochs"], low=1),
        batch_size=_checked_or_none("batch_size", parameters["batch_size"], low=2),
        validation_fraction=_checked_fraction(parameters["validation_fraction"]),
        callbacks=_checked_callbacks(parameters["callbacks"]),
    )


def check_input_shape(input_shape: Any, d: int) -> tuple[int, ...]:
    """Return the shape of one sample with ``d`` numbers; flat where none is given."""
    if input_shape is None:
        return (d,)
    sizes = tuple(input_shape) if isinstance(input_shape, list | tuple) else (input_shape,)
    whole = all(_is_whole(size) and size > 0 for size in sizes)
    if not whole or math.prod(sizes) != d:
        raise InvalidParameterError(
            f"input_shape must be whole numbers whose product is n_features={d}, such as "
            f"(channels, height, width), got {input_shape!r}; change input_shape."
        )
    return tuple(int(size) for size in sizes)


def _is_whole(size: Any) -> bool:
    return isinstance(size, numbers.Integral) and not isinstance(size, bool)


def _checked_architecture(
    architecture: Any, input_shape: tuple[int, ...], latent_dim: int
) -> Callable[[], Any]:
    if callable(architecture) and not isinstance(architecture, str | nn.Module):
        made: Callable[[], Any] = architecture
        return made
    if isinstance(architecture, nn.Module):
        raise InvalidParameterError(
            "architecture must be a function that makes a new autoencoder at each call, got the "
            f"{type(architecture).__name__} itself; wrap what makes it in a function, such as "
            "lambda: MyAutoencoder(4, 2)."
        )
    return built_in(architecture, input_shape, latent_dim)


def _checked_or_none(name: str, value: Any, *, low: int) -> int | None:
    return None if value is None else check_integer(name, value, low=low)


def _checked_fraction(value: Any) -> float:
    fraction = check_number("validation_fraction", value, low=0)
    if fraction >= 1:
        raise InvalidParameterError(
            f"validation_fraction must be below 1, got {value!r}; leave rows to train on."
        )
    return fraction


def _checked_callbacks(callbacks: Any) -> tuple[Callable[..., Any], ...]:
    if callbacks is None:
        return ()
    given = tuple(callbacks) if isinstance(callbacks, list | tuple) else (callbacks,)
    for callback in given:
        if not callable(callback):
            raise InvalidParameterError(
                f"callbacks must be functions that take an Epoch, got {callback!r}; "
                "give a function or a list of functions."
            )
    return given
