"""Parameters of an estimator -> checked options, or one clear sentence about what is wrong.

Shapes: k clusters, d features.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from sklearn.utils import check_random_state
from torch import Tensor, nn

from tensorae._check_start import check_init
from tensorae._numbers import check_integer, check_integer_or_none, check_number
from tensorae._warnings import warn
from tensorae.assignment import RULES, Rule, rule_name
from tensorae.core.spec import SolverOptions, Wishes
from tensorae.deep.networks import NARROW, built_in
from tensorae.deep.schedule import TrainingOptions
from tensorae.deep.sharing import SHARINGS, shared_names
from tensorae.exceptions import InvalidInputError, InvalidParameterError, unknown_choice
from tensorae.rows import Rows
from tensorae.rows.processes import Processes

__all__ = [
    "check_auto",
    "check_callbacks",
    "check_input_shape",
    "check_integer",
    "check_integer_or_none",
    "check_number",
    "check_penalty",
    "check_seed",
    "deep_options",
    "linear_wishes",
]

LINEAR_STARTS = ("k-means++", "k-means", "random")
SPREADS = ("auto", "shared", "own")
OWN_ASSIGNMENTS = ("lloyd", "em")
# Largest number of clusters that n_clusters="auto" looks at.
MOST_CLUSTERS = 10
# Learning rates where none is given: of small networks, and of others.
NARROW_LR, LR = 5e-3, 2e-3
DEEP_STARTS = ("linear", "manifold", "k-means++", "random")


def linear_wishes(parameters: dict[str, Any], rows: Rows) -> Wishes:
    """Check the parameters of ``LinearTAE`` for its data; what is "auto" is left open."""
    sizes = _check_numbers_of_clusters(parameters["n_clusters"], rows)
    if len(sizes) > 1 and not isinstance(parameters["init"], str):
        raise InvalidParameterError(
            "init gives centres or labels of clusters, but n_clusters leaves their number open; "
            "give n_clusters as a number, or the name of a start."
        )
    init = check_init(parameters["init"], LINEAR_STARTS, (sizes[-1], rows.d), rows.device)
    penalty = check_penalty(parameters["latent_penalty"])
    latent_dim = _check_latent_dim_or_auto(parameters["latent_dim"], rows.d)
    assignment = rule_name(parameters["assignment"], estimated_penalty=penalty is None)
    rule = _check_rule(assignment)
    own = _check_spread(parameters["spread"], latent_dim, penalty, assignment, rows.d)
    options = SolverOptions(
        n_clusters=sizes[-1],
        latent_dim=0 if latent_dim is None else latent_dim,
        latent_penalty=penalty,
        rule=rule,
        init=init,
        n_init=_check_n_init(parameters["n_init"], init),
        max_iter=check_integer("max_iter", parameters["max_iter"], low=1),
        tol=check_number("tol", parameters["tol"], low=0),
        chunk_rows=check_integer_or_none("batch_size", parameters["batch_size"], low=1),
    )
    if rows.streamed:
        _check_streamed_linear(options.rule, rows)
    return Wishes(options, sizes, latent_dim, own)


def deep_options(
    parameters: dict[str, Any], rows: Rows, input_shape: tuple[int, ...]
) -> TrainingOptions:
    """Check the parameters of ``TAE`` for its data, samples of ``input_shape``."""
    k = _check_n_clusters(parameters["n_clusters"], rows)
    h = _check_latent_dim(parameters["latent_dim"], rows.d)
    init = check_init(parameters["init"], DEEP_STARTS, (k, rows.d), rows.device)
    architecture = parameters["architecture"]
    # Only starts that are not made of planes can know of curves.
    curved = init == "manifold" if isinstance(init, str) else init.ndim == 1
    factory = _check_architecture(architecture, input_shape, h, curved=curved)
    own = not isinstance(architecture, str)
    options = TrainingOptions(
        factory=factory,
        n_clusters=k,
        latent_dim=h,
        latent_penalty=check_penalty(parameters["latent_penalty"], zero_allowed=True),
        rule=_check_rule(parameters["assignment"]),
        init=init,
        n_init=_check_n_init(parameters["n_init"], init),
        max_epochs=check_integer_or_none("max_epochs", parameters["max_epochs"], low=1),
        batch_size=check_integer_or_none("batch_size", parameters["batch_size"], low=2),
        lr=_check_lr(parameters["lr"], narrow=curved and rows.d <= NARROW),
        curved=curved,
        noise=check_number("noise", parameters["noise"], low=0),
        validation_fraction=_check_fraction(parameters["validation_fraction"]),
        tol=check_number("tol", parameters["tol"], low=0),
        patience=check_integer("patience", parameters["patience"], low=0),
        sharing=_check_sharing(parameters["sharing"], None if own else factory),
    )
    check_callbacks(parameters["callbacks"])
    if rows.streamed:
        _check_streamed_deep(options)
    return options


def _check_lr(lr: Any, *, narrow: bool) -> float:
    """Return the learning rate; where none is given, a larger one for curves of narrow rows."""
    if lr is None:
        return NARROW_LR if narrow else LR
    return check_number("lr", lr, low=0, low_allowed=False)


def _check_n_clusters(n_clusters: Any, rows: Rows) -> int:
    """Return k, for which there are enough rows."""
    k = check_integer("n_clusters", n_clusters, low=1)
    if rows.count < k:
        raise InvalidInputError(
            f"X must have at least n_clusters={k} rows, got n_samples={rows.count}; "
            "lower n_clusters or add rows."
        )
    return k


def _check_numbers_of_clusters(n_clusters: Any, rows: Rows) -> tuple[int, ...]:
    """Return the numbers of clusters to compare, rising; one where it is given."""
    if isinstance(n_clusters, str):
        check_auto("n_clusters", n_clusters, "a whole number of at least 1")
        return tuple(range(1, min(MOST_CLUSTERS, rows.count) + 1))
    if not isinstance(n_clusters, Iterable):
        return (_check_n_clusters(n_clusters, rows),)
    numbers = sorted({check_integer("n_clusters", k, low=1) for k in n_clusters})
    if not numbers:
        raise InvalidParameterError(
            "n_clusters must name at least one number of clusters to compare, got none; give for "
            "example range(1, 11)."
        )
    _check_n_clusters(numbers[-1], rows)
    return tuple(numbers)


def _check_spread(
    spread: Any, latent_dim: int | None, penalty: float | None, assignment: str, d: int
) -> bool | None:
    """Return whether spreads are own, or None where the data decides."""
    if not isinstance(spread, str) or spread not in SPREADS:
        raise unknown_choice("spread", spread, SPREADS)
    shared = _why_shared(latent_dim, penalty, assignment, d)
    if spread == "own" and shared:
        raise InvalidParameterError(f'spread="own" {shared}')
    if latent_dim == 0 and penalty is not None:
        raise InvalidParameterError(
            f"latent_penalty={penalty:g} is the weight of a code, but latent_dim=0 leaves no code; "
            "leave latent_penalty out, or give a latent_dim of at least 1."
        )
    if spread == "shared" or shared:
        return False
    return True if spread == "own" else None


def _why_shared(
    latent_dim: int | None, penalty: float | None, assignment: str, d: int
) -> str | None:
    """Why spreads cannot be own, with what to do; None where they can."""
    if penalty is not None:
        return (
            f"gives every cluster its own variances, so that there is no latent_penalty, got "
            f"{penalty:g}; leave latent_penalty out."
        )
    if assignment not in OWN_ASSIGNMENTS:
        names = " or ".join(f'"{name}"' for name in OWN_ASSIGNMENTS)
        return f"needs assignment={names}, got {assignment!r}; leave one of the two out."
    if latent_dim is not None and latent_dim >= d:
        return (
            f"leaves at least one direction to the noise, so that latent_dim is at most {d - 1} "
            f"for n_features={d}, got {latent_dim}; lower latent_dim."
        )
    return None


def _check_latent_dim_or_auto(latent_dim: Any, d: int) -> int | None:
    """Return h, or None where the data decides."""
    if isinstance(latent_dim, str):
        check_auto("latent_dim", latent_dim, "a whole number of at least 0")
        return None
    return _check_latent_dim(latent_dim, d, low=0)


def _check_latent_dim(latent_dim: Any, d: int, low: int = 1) -> int:
    """Return h, at most the number of features."""
    h = check_integer("latent_dim", latent_dim, low=low)
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


def _check_n_init(n_init: Any, init: str | Tensor) -> int | None:
    """Return the number of starts, or None for "auto"."""
    if isinstance(n_init, str):
        check_auto("n_init", n_init, "a whole number of at least 1")
        return None
    starts = check_integer("n_init", n_init, low=1)
    if starts > 1 and not isinstance(init, str):
        warn(
            f"init gives one start, so n_init={starts} makes no further ones; leave n_init out.",
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


def _check_rule(name: Any) -> Rule:
    if not isinstance(name, str) or name not in RULES:
        raise unknown_choice("assignment", name, RULES)
    return RULES[name]


def _check_streamed_linear(rule: Rule, rows: Rows) -> None:
    """Refuse what a stream cannot give: room for all assignments, more features than rows."""
    if not (rule.hard or rule.probabilistic):
        raise InvalidParameterError(
            'assignment must be "lloyd" or "em" where X is Batches, since the others keep k '
            "numbers for each row; give X as an array for them (no --stream)."
        )
    if rows.d > rows.count:
        raise InvalidInputError(
            f"X must have at least as many rows as features where it is Batches, got {rows.count} "
            f"rows of {rows.d} features; give X as an array (no --stream)."
        )


def _check_streamed_deep(options: TrainingOptions) -> None:
    """Refuse what training on a stream has no place for."""
    if not options.rule.hard:
        raise InvalidParameterError(
            'assignment must be "lloyd" where X is Batches, since the others keep k numbers for '
            "each row; give X as an array for them (no --stream)."
        )
    if options.validation_fraction:
        raise InvalidParameterError(
            f"validation_fraction must be 0 where X is Batches, got {options.validation_fraction}; "
            "keep some of the data apart, and score it after the fit."
        )


def check_seed(
    random_state: Any,
    processes: Processes = Processes(),  # noqa: B008 (immutable)
) -> np.random.RandomState:
    """Return a generator from a seed, a generator or None, the same in all processes."""
    try:
        generator: np.random.RandomState = check_random_state(random_state)
    except ValueError:
        raise InvalidParameterError(
            "random_state must be a whole number from 0 to 2**32-1, a numpy RandomState or None, "
            f"got {random_state!r}; change random_state."
        ) from None
    if processes.size == 1 or isinstance(random_state, int | np.integer):
        return generator
    seed = torch.tensor(generator.randint(2**31 - 1))
    processes.from_first(seed)
    return np.random.RandomState(int(seed))


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


def _check_architecture(
    architecture: Any, input_shape: tuple[int, ...], latent_dim: int, *, curved: bool
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
    return built_in(architecture, input_shape, latent_dim, curved=curved)


def _check_sharing(sharing: Any, built_in_factory: Callable[[], Any] | None) -> str:
    """Return what is shared; a built-in autoencoder is asked whether it can do so."""
    if not isinstance(sharing, str) or sharing not in SHARINGS:
        raise unknown_choice("sharing", sharing, SHARINGS)
    if built_in_factory is not None and sharing != "none":
        with torch.device("meta"):
            shared_names([built_in_factory()], sharing)
    return sharing


def _check_fraction(value: Any) -> float:
    fraction = check_number("validation_fraction", value, low=0)
    if fraction >= 1:
        raise InvalidParameterError(
            f"validation_fraction must be below 1, got {value!r}; leave rows to train on."
        )
    return fraction


def check_callbacks(callbacks: Any) -> tuple[Callable[..., Any], ...]:
    """Return what is to be called after each epoch."""
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
