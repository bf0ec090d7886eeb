"""What a kept state of a training must hold to be gone on from.

Shapes: m rows of this process, k clusters, d features, c candidates.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from tensorae._fields import Field, MisfitError, check_field, check_fields
from tensorae.deep.history import COLUMNS
from tensorae.linear.states import DENOISER

__all__ = ["HARDENED", "check_state"]

# Phases with one copy of the networks left.
HARDENED = ("close", "settle", "done")
PHASES = ("learn", "harden", *HARDENED)
ENDS = ("budget", "patience", "callback", "interrupt", "divergence")
COUNTS = ("step", "learned", "due", "pause", "without_progress", "rested")
LABELS = (torch.int64, torch.int32)
BLEND = {"weights": Field("b d"), "origin": Field("d", (torch.float64,))}
# How far a row of S may be from summing to one.
TOLERANCE = 1e-3


def check_state(
    kept: Mapping[str, Any],
    sizes: Mapping[str, int],
    modules: Sequence[nn.Module],
    optimizers: Sequence[torch.optim.Optimizer],
) -> None:
    """Refuse a ``state_dict`` that is not one of this training; ``sizes`` are m, k and d."""
    _check_word("phase", kept["phase"], PHASES)
    _check_word("ended_by", kept["ended_by"], ENDS)
    if not isinstance(kept["problem"], str):
        raise MisfitError("problem must be text")
    if type(kept["resting"]) is not bool:
        raise MisfitError(f"resting must be true or false, got {kept['resting']!r:.40}")
    for name in COUNTS:
        _check_count(name, kept[name])
    best, diverged = kept["best"], kept["ended_by"] == "divergence"
    copies = modules[:1] if kept["phase"] in HARDENED else modules
    _check_networks("networks", kept["networks"], copies, diverged=diverged)
    _check_networks("best.networks", best["networks"], copies)
    _check_optimizers(kept["optimizers"], optimizers)
    _check_assignments(kept["assignments"], sizes)
    _check_assignments(best["assignments"], sizes)
    _check_count("best.epoch", best["epoch"])
    _check_number("best.loss", best["loss"], low=-math.inf)
    _check_history(kept["history"], sizes["k"])
    if kept["blend"] is not None:
        _check_blend(kept["blend"], sizes)


def _check_word(name: str, value: Any, words: tuple[str, ...]) -> None:
    if value not in words:
        raise MisfitError(f"{name} must be one of {', '.join(words)}, got {value!r:.40}")


def _check_count(name: str, value: Any) -> None:
    if type(value) is not int or not 0 <= value < 2**53:
        raise MisfitError(f"{name} must be a whole number, got {value!r:.40}")


def _check_number(name: str, value: Any, *, low: float, finite: bool = False) -> None:
    """Refuse what is no number, and NaN."""
    if type(value) not in (int, float) or not value >= low or (finite and math.isinf(value)):
        raise MisfitError(f"{name} must be a number from {low}, got {value!r:.40}")


def _check_networks(
    name: str, kept: Sequence[Any], modules: Sequence[nn.Module], *, diverged: bool = False
) -> None:
    """Refuse weights of other networks, and NaN where there was none at first."""
    if len(kept) != len(modules):
        raise MisfitError(f"{name} must be of {len(modules)} copies, got {len(kept)}")
    for state, module in zip(kept, modules, strict=True):
        fresh = module.state_dict()
        if state.keys() != fresh.keys():
            raise MisfitError(f"{name} must have other names of weights")
        for key, tensor in fresh.items():
            finite = not diverged and bool(torch.isfinite(tensor).all())
            _check_like(f"{name} {key}", state[key], tensor, finite=finite)


def _check_like(name: str, tensor: Any, wanted: Tensor, *, finite: bool = True) -> None:
    sizes = dict(zip("abcdefgh", wanted.shape, strict=False))
    field = Field(" ".join(sizes), (wanted.dtype,), finite=finite)
    check_field(name, tensor, field, sizes)


def _check_optimizers(
    kept: Sequence[Mapping[str, Any]], optimizers: Sequence[torch.optim.Optimizer]
) -> None:
    """Refuse what Adam would take without looking: its kernels do not check sizes."""
    if len(kept) != len(optimizers):
        raise MisfitError(f"there must be {len(optimizers)} optimizers, got {len(kept)}")
    for state, optimizer in zip(kept, optimizers, strict=True):
        (group,), (fresh,) = state["param_groups"], optimizer.state_dict()["param_groups"]
        # Lists of JSON, where torch has tuples; the rate is set anew in every epoch.
        plain = {name: list(v) if isinstance(v, tuple) else v for name, v in fresh.items()}
        if {**group, "lr": None} != {**plain, "lr": None}:
            raise MisfitError("an optimizer has other settings")
        parameters = optimizer.param_groups[0]["params"]
        for index, moments in state["state"].items():
            if type(index) is not int or set(moments) != {"step", "exp_avg", "exp_avg_sq"}:
                raise MisfitError("an optimizer has other moments")
            check_field("step", moments["step"], Field("", low=0), {})
            for name in ("exp_avg", "exp_avg_sq"):
                _check_like(name, moments[name], parameters[index])
            if bool((moments["exp_avg_sq"] < 0).any()):
                raise MisfitError("exp_avg_sq must not be negative")


def _check_assignments(kept: Mapping[str, Any], sizes: Mapping[str, int]) -> None:
    known, last = dict(sizes), sizes["k"] - 1
    check_field("labels", kept["labels"], Field("m", LABELS, low=0, high=last), known)
    if kept["candidates"] is not None:
        candidates = Field("m c", LABELS, low=0, high=last)
        check_field("candidates", kept["candidates"], candidates, known)
    if kept["soft"] is not None:
        check_field("soft", kept["soft"], Field("m k", (torch.float32,), low=0, high=1), known)
        if bool(((kept["soft"].sum(1) - 1).abs() > TOLERANCE).any()):
            raise MisfitError("rows of soft assignments must sum to one")
    _check_number("changed", kept["changed"], low=0)
    _check_count("refreshes", kept["refreshes"])
    _check_count("revivals", kept["revivals"])


def _check_history(kept: Mapping[str, Any], k: int) -> None:
    epochs = len(kept["epoch"])
    if set(kept) != set(COLUMNS) or any(len(column) != epochs for column in kept.values()):
        raise MisfitError(f"history must have {', '.join(COLUMNS)} of all epochs")
    if kept["epoch"] != list(range(1, epochs + 1)):
        raise MisfitError("the epochs of the history must be counted from one")
    for phase, sizes in zip(kept["phase"], kept["sizes"], strict=True):
        _check_word("phase", phase, PHASES)
        if len(sizes) != k:
            raise MisfitError(f"sizes must be those of {k} clusters")
        for size in sizes:
            _check_count("sizes", size)
    for name in ("loss", "held_out_loss", "changed", "seconds"):
        if not all(type(value) is float for value in kept[name]):
            raise MisfitError(f"{name} must be numbers")


def _check_blend(kept: Mapping[str, Any], sizes: Mapping[str, int]) -> None:
    prefix, known = "denoiser.", dict(sizes)
    inner = {name[len(prefix) :]: kept[name] for name in kept if name.startswith(prefix)}
    known["b"] = 2 if inner else 1
    check_fields(kept, BLEND, known)
    if inner:
        check_fields(inner, DENOISER, known)
    _check_number("noise_variance", kept["noise_variance"], low=0, finite=True)
    _check_number("unit", kept["unit"], low=torch.finfo(torch.float64).tiny, finite=True)
