"""Checks of what comes from a file: tables say which tensors and values it must hold.

Shapes are written as letters that stand for the same size throughout a file; the empty shape is a
single number. Model files declare their tables in ``persist``; the states of a fit, which the loops
below it resume from, are checked here.
"""

# m rows of this process, k clusters, d features, h latent, l levels of categories, r starts,
# q directions, c candidates

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

FLOATS = (torch.float32, torch.float64)
DOUBLE = (torch.float64,)
WHOLE = (torch.int64,)
# Letters of sizes that are never zero; paths, histories and labels of rows elsewhere may be empty.
NEVER_ZERO = "kqb"
# Largest data values whose squares can still be summed over many rows, and largest squares.
LARGEST = {"float32": 1e15, "float64": 1e140}
LARGEST_SQUARE = 1e305
# Largest total weight of a cluster: a single weight is at most 1e30.
LARGEST_COUNT = 1e50
TINY = torch.finfo(torch.float64).tiny
# Rounding error allowed at the ends of a range, relative to the largest value.
ROUNDING = 1e-5
# Deviation allowed in sums of weights and in the orthonormality of components.
TOLERANCE = 1e-3


class SchemaError(Exception):
    """A file does not hold what is expected; the message says what and where."""


@dataclass(frozen=True)
class Field:
    """What is expected of a tensor: the letters of its sizes, its dtypes and its values."""

    shape: str
    dtypes: tuple[torch.dtype, ...] = FLOATS
    finite: bool = True  # no NaN, no infinity
    low: float = -math.inf
    high: float = math.inf
    above: float = -math.inf  # without an allowance for rounding: it is divided by, for instance
    of_data: bool = False  # in the range that data may have
    sums_to_one: bool = False  # along the last axis
    orthonormal: bool = False  # rows of the last two axes
    optional: bool = False  # may be missing

    def check(self, name: str, tensor: Any, sizes: dict[str, int]) -> None:
        """Raise a SchemaError unless ``tensor`` is as expected; ``sizes`` learns new letters."""
        if not isinstance(tensor, Tensor):
            raise SchemaError(f"{name} must be a tensor, got {type(tensor).__name__}")
        letters, shape = self.shape.split(), tuple(tensor.shape)
        if len(shape) == len(letters):
            for letter, size in zip(letters, shape, strict=True):
                sizes.setdefault(letter, size)
        wanted = tuple(sizes.get(letter, letter) for letter in letters)
        empty = any(sizes.get(letter) == 0 for letter in letters if letter in NEVER_ZERO)
        if shape != wanted or empty:
            raise SchemaError(f"{name} must have shape {wanted}, got {shape}")
        if tensor.dtype not in self.dtypes:
            raise SchemaError(f"{name} must have dtype {self.dtypes[0]}, got {tensor.dtype}")
        if self.finite and tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
            raise SchemaError(f"{name} contains NaN or infinity")
        if tensor.numel():
            self._check_range(name, tensor)
        if self.sums_to_one and bool(((tensor.sum(-1) - 1).abs() > TOLERANCE).any()):
            raise SchemaError(f"{name} must sum to one")
        if self.orthonormal:
            _check_orthonormal(name, tensor.double())

    def _check_range(self, name: str, tensor: Tensor) -> None:
        low, high = (float(end) for end in tensor.aminmax())
        slack = ROUNDING * max(-low, high) if tensor.is_floating_point() else 0
        least, most = self.low, self.high
        if self.of_data:
            most = LARGEST[str(tensor.dtype).removeprefix("torch.")]
            least = -most
        if low < least - slack or high > most + slack:
            raise SchemaError(
                f"{name} must be between {least:g} and {most:g}, got {low:g} to {high:g}"
            )
        if low <= self.above:
            raise SchemaError(f"{name} must be above {self.above:g}, got {low:g}")


@dataclass(frozen=True)
class Value:
    """What is expected of a JSON value, or of each value in a list."""

    types: tuple[type, ...]
    low: float = -math.inf
    high: float = math.inf
    choices: tuple[str, ...] = ()
    nan: bool = False  # whether NaN is allowed
    longest: int | None = None  # characters of a text
    many: bool = False  # a list of such values
    optional: bool = False  # may be null or missing

    def check(self, name: str, value: Any) -> None:
        """Raise a SchemaError unless ``value`` is as expected."""
        if self.optional and value is None:
            return
        if self.many and not isinstance(value, list):
            raise SchemaError(f"{name} must be a list, got {type(value).__name__}")
        for one in value if self.many else [value]:
            expected = " or ".join(self.choices or (kind.__name__ for kind in self.types))
            if type(one) not in self.types or (self.choices and one not in self.choices):
                raise SchemaError(f"{name} must be {expected}, got {one!r:.40}")
            if isinstance(one, str) and self.longest is not None and len(one) > self.longest:
                raise SchemaError(f"{name} must have at most {self.longest} characters")
            if not isinstance(one, int | float) or (self.nan and math.isnan(one)):
                continue
            if not self.low <= one <= self.high:
                raise SchemaError(
                    f"{name} must be between {self.low} and {self.high}, got {one!r:.40}"
                )


Table = Mapping[str, Field | Value]


def check(
    stored: Mapping[str, Any], table: Table, sizes: dict[str, int], *, prefix: str = ""
) -> None:
    """Raise a SchemaError unless all entries of a table are there and as expected.

    Names that the table does not have are ignored. ``sizes`` are known sizes by letter and learn
    new ones; ``prefix`` is put before names in messages.
    """
    for name, expected in table.items():
        if name not in stored:
            if expected.optional:
                continue
            raise SchemaError(f"{prefix}{name} is missing")
        if isinstance(expected, Value):
            expected.check(f"{prefix}{name}", stored[name])
        else:
            expected.check(f"{prefix}{name}", stored[name], sizes)


def _check_orthonormal(name: str, rows: Tensor) -> None:
    lengths = rows.norm(dim=-1)
    # Orthonormal rows reproduce any vector of coefficients; one probe shows all products at once.
    probe = torch.arange(rows.shape[-2], dtype=torch.float64, device=rows.device).cos()
    again = (rows @ (rows.mT @ probe[:, None])).squeeze(-1)
    for found, wanted in ((lengths, torch.ones_like(lengths)), (again, probe.expand_as(again))):
        if not torch.allclose(found, wanted, rtol=0, atol=TOLERANCE):
            raise SchemaError(f"{name} must have orthonormal rows")


COUNT = Value((int,), low=0, high=2**53)
NUMBER = (int, float)
FLOAT_PATH = Value((float,), many=True)
DENOISER = {
    "centers": Field("k d", DOUBLE, of_data=True),
    "counts": Field("k", DOUBLE, low=0, high=LARGEST_COUNT),
    "basis": Field("d q", DOUBLE),
    "spectrum": Field("d", DOUBLE, low=0, high=LARGEST_SQUARE),
    "covariances": Field("k q q", DOUBLE),
    "rest": Field("k", DOUBLE, low=0, high=LARGEST_SQUARE),
}

# The state of LinearTAE's alternation ---------------------------------------------------------

MODEL = {
    "centers": Field("r k d"),
    "components": Field("r k h d"),
    "latent_penalty": Field("r", low=0, high=1),
}
PARAMETERS = {
    "centers": Field("r k d", DOUBLE),
    "components": Field("r k h d", DOUBLE, orthonormal=True),
    "latent_penalty": Field("r", DOUBLE, low=0, high=1),
    "noise": Field("r k", DOUBLE, low=TINY),
    "along": Field("r k h", DOUBLE, low=TINY),
    "log_weights": Field("r k", DOUBLE, high=0),
    "levels": Field("r k l", DOUBLE, high=0),
    "variances": Field("r k h", DOUBLE, low=0),
    "counts": Field("r k", DOUBLE, low=0),
    "traces": Field("r k", DOUBLE, low=0),
    "loss": Field("r", DOUBLE),
    "objective": Field("r", DOUBLE),
    "regularizer": Field("r", DOUBLE),
    "noise_variance": Field("r", DOUBLE, low=TINY),
    "latent_dims": Field("r k", WHOLE, low=0),
}
MOMENTS = {
    "references": Field("r k d", DOUBLE),
    "counts": Field("r k", DOUBLE, low=0),
    "sums": Field("r k d", DOUBLE),
    "squares": Field("r k", DOUBLE, low=0),
    "seconds": Field("r k d d"),
    "levels": Field("r k l", DOUBLE),
}
# What a pass may remember of the pass before, by the name that tells which.
SWEEPS = {
    "near": {"near": Field("r k m", (torch.bool,))},
    "found": {"found": Field("r k p d", (torch.float64,))},
    "waits": {"waits": Field("w", WHOLE, low=0)},
    "lower": {
        **MODEL,
        "lower": Field("r k m", finite=False),
        "upper": Field("r m", finite=False, low=0),
    },
}


def check_linear_state(
    state: Mapping[str, Any],
    sizes: Mapping[str, int],
    *,
    dtype: torch.dtype,
    soft: bool,
    has_missing: bool,
    total: float,
) -> None:
    """Raise a SchemaError unless a ``state_dict`` of a single start belongs to this fit.

    ``sizes`` are m, k, d, h and l. Rows have ``dtype`` and total weight ``total``; members are
    labels (m,), or assignments (m, k) where they are ``soft``. Rows with missing values have no
    loss before the first step.
    """
    known = {**sizes, "r": 1, "w": 2}
    parameters, moments, sweep = state["parameters"], state["moments"], state["sweep"]
    check(parameters, PARAMETERS, known)
    check(moments, MOMENTS, known)
    members = Field("r m", (torch.int32,), low=0, high=known["k"] - 1)
    if soft:
        members = Field("r m k", (dtype,), low=0, high=1, sums_to_one=True)
    members.check("members", state["members"], known)
    if sweep and not {"near", "waits", "found"} & set(sweep):
        raise SchemaError("waits is missing")
    for name in SWEEPS.keys() & sweep.keys():
        check(sweep, SWEEPS[name], known)
    _check_moments(moments, parameters, total)

    # Hard labels of complete rows have a loss before the first step, and no entropy.
    step, trace = state["step"], state["course"]
    check(trace, dict.fromkeys(("loss", "objective", "entropy"), FLOAT_PATH), known)
    length = step if soft or has_missing else step + 1
    for name, wanted in {"loss": length, "objective": length, "entropy": step * soft}.items():
        if len(trace[name]) != wanted or not all(map(math.isfinite, trace[name])):
            raise SchemaError(f"the path of the {name} must have {wanted} finite values")
    if trace["loss"][-1] != float(parameters["loss"]):
        raise SchemaError("the path of the loss must end at the loss")


def _check_moments(
    moments: Mapping[str, Tensor], parameters: Mapping[str, Tensor], total: float
) -> None:
    """Raise a SchemaError unless the parameters follow from the moments."""
    counts, references = moments["counts"], moments["references"]
    means = moments["sums"] / counts.clamp(min=TINY)[..., None]
    traces = moments["seconds"].diagonal(dim1=-2, dim2=-1).sum(-1).double()
    filled, spread = counts[..., None] > 0, (traces.sum() / total).sqrt()
    for name, found, wanted in (
        ("counts of all clusters", counts.sum(), counts.new_tensor(total)),
        ("counts", parameters["counts"], counts),
        ("centers", parameters["centers"] * filled, (references + means) * filled),
        ("squares", moments["squares"], traces),
    ):
        slack = TOLERANCE * torch.maximum(wanted.abs().max(), spread)
        if bool(((found - wanted).abs() > slack).any()):
            raise SchemaError(f"the {name} do not match the sums over the rows")


# The state of a TAE's training ----------------------------------------------------------------

# Phases with one copy of the networks left.
MERGED = ("close", "finalize", "done")
PHASES = ("learn", "merge", *MERGED)
LABELS = (torch.int64, torch.int32)
TRAINING = {
    "phase": Value((str,), choices=PHASES),
    "ended_by": Value(
        (str,), choices=("budget", "patience", "callback", "interrupt", "divergence")
    ),
    "problem": Value((str,)),
    "warming": Value((bool,)),
    "curved": Value((bool,)),
    **dict.fromkeys(("step", "learned", "due", "interval", "without_progress", "warmed"), COUNT),
}
BEST = {"epoch": COUNT, "loss": Value(NUMBER)}
ASSIGNMENTS = {"changed": Value(NUMBER, low=0), "refreshes": COUNT, "revivals": COUNT}
HISTORY = {
    "epoch": Value((int,), many=True),
    "phase": Value((str,), choices=PHASES, many=True),
    "sizes": Value((list,), many=True),
    **dict.fromkeys(
        ("loss", "held_out_loss", "changed", "seconds"), Value((float,), nan=True, many=True)
    ),
}
BLEND: Table = {
    "weights": Field("b d"),
    "origin": Field("d", DOUBLE),
    "noise_variance": Value(NUMBER, low=0, high=LARGEST_SQUARE),
    "unit": Value(NUMBER, low=TINY, high=LARGEST_SQUARE),
}


def check_training_state(
    state: Mapping[str, Any],
    sizes: Mapping[str, int],
    modules: Sequence[nn.Module],
    optimizers: Sequence[torch.optim.Optimizer],
) -> None:
    """Raise a SchemaError unless a ``state_dict`` belongs to this training; sizes are m, k, d."""
    known = dict(sizes)
    check(state, TRAINING, known)
    check(state["best"], BEST, known, prefix="best.")
    copies = modules[:1] if state["phase"] in MERGED else modules
    diverged = state["ended_by"] == "divergence"
    _check_networks("networks", state["networks"], copies, diverged=diverged)
    _check_networks("best.networks", state["best"]["networks"], copies)
    _check_optimizers(state["optimizers"], optimizers)
    for assignments in (state["assignments"], state["best"]["assignments"]):
        _check_assignments(assignments, dict(sizes))
    _check_history(state["history"], sizes["k"])
    if (blend := state["blend"]) is not None:
        inner = {
            name.removeprefix("denoiser."): tensor
            for name, tensor in blend.items()
            if name.startswith("denoiser.")
        }
        known["b"] = 2 if inner else 1
        check(blend, BLEND, known)
        if inner:
            check(inner, DENOISER, known)


def _check_networks(
    name: str, states: Sequence[Any], modules: Sequence[nn.Module], *, diverged: bool = False
) -> None:
    """Refuse weights of other networks, and NaN where a fresh network has none."""
    if len(states) != len(modules):
        raise SchemaError(f"{name} must have {len(modules)} copies, got {len(states)}")
    for state, module in zip(states, modules, strict=True):
        fresh = module.state_dict()
        if state.keys() != fresh.keys():
            raise SchemaError(f"the weights in {name} must have the names of the architecture")
        for key, tensor in fresh.items():
            finite = not diverged and bool(torch.isfinite(tensor).all())
            _check_like(f"{name} {key}", state[key], tensor, finite=finite)


def _check_like(name: str, tensor: Any, wanted: Tensor, *, finite: bool = True) -> None:
    sizes = dict(zip("abcdefgh", wanted.shape, strict=False))
    Field(" ".join(sizes), (wanted.dtype,), finite=finite).check(name, tensor, sizes)


def _check_optimizers(
    states: Sequence[Mapping[str, Any]], optimizers: Sequence[torch.optim.Optimizer]
) -> None:
    """Refuse what Adam would take without looking: its kernels do not check sizes."""
    if len(states) != len(optimizers):
        raise SchemaError(f"there must be {len(optimizers)} optimizers, got {len(states)}")
    for state, optimizer in zip(states, optimizers, strict=True):
        (group,), (fresh,) = state["param_groups"], optimizer.state_dict()["param_groups"]
        # JSON has lists where torch has tuples; the learning rate is set again in every epoch.
        plain = {name: list(v) if isinstance(v, tuple) else v for name, v in fresh.items()}
        if {**group, "lr": None} != {**plain, "lr": None}:
            raise SchemaError("an optimizer has other settings")
        parameters = optimizer.param_groups[0]["params"]
        for index, moments in state["state"].items():
            if type(index) is not int or set(moments) != {"step", "exp_avg", "exp_avg_sq"}:
                raise SchemaError("an optimizer has other moments")
            Field("", low=0).check("step", moments["step"], {})
            for name in ("exp_avg", "exp_avg_sq"):
                _check_like(name, moments[name], parameters[index])
            if bool((moments["exp_avg_sq"] < 0).any()):
                raise SchemaError("exp_avg_sq must not be negative")


def _check_assignments(stored: Mapping[str, Any], sizes: dict[str, int]) -> None:
    table: dict[str, Field | Value] = {
        "labels": Field("m", LABELS, low=0, high=sizes["k"] - 1),
        **ASSIGNMENTS,
    }
    if stored["candidates"] is not None:
        table["candidates"] = Field("m c", LABELS, low=0, high=sizes["k"] - 1)
    if stored["soft"] is not None:
        table["soft"] = Field("m k", (torch.float32,), low=0, high=1, sums_to_one=True)
    check(stored, table, sizes)


def _check_history(stored: Mapping[str, Any], k: int) -> None:
    check(stored, HISTORY, {}, prefix="history.")
    epochs = len(stored["epoch"])
    if set(stored) != set(HISTORY) or any(len(column) != epochs for column in stored.values()):
        raise SchemaError(f"history must have {', '.join(HISTORY)} of all epochs")
    if stored["epoch"] != list(range(1, epochs + 1)):
        raise SchemaError("the epochs of the history must count from one")
    for sizes in stored["sizes"]:
        if len(sizes) != k:
            raise SchemaError(f"history.sizes must be those of {k} clusters")
        Value((int,), low=0, high=2**53, many=True).check("history.sizes", sizes)
