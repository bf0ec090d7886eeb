"""What a kept state of the alternation must hold to be gone on from.

Shapes: m rows of this process, k clusters, d features, h latent, r starts.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

import torch
from torch import Tensor

from tensorae._fields import (
    DOUBLE,
    FLOATS,
    LARGEST_SQUARE,
    WHOLE,
    Field,
    MisfitError,
    check_field,
    check_fields,
)

__all__ = ["DENOISER", "LARGEST_COUNT", "check_state"]

# Weight of all rows of a cluster: a weight is at most 1e30.
LARGEST_COUNT = 1e50

MODEL = {
    "centers": Field("r k d"),
    "components": Field("r k h d"),
    "latent_penalty": Field("r", low=0, high=1),
}
PARAMETERS = {
    **{name: Field(field.shape, DOUBLE, low=field.low, high=field.high)
       for name, field in MODEL.items()},
    "variances": Field("r k h", DOUBLE, low=0),
    "counts": Field("r k", DOUBLE, low=0),
    "traces": Field("r k", DOUBLE, low=0),
    "loss": Field("r", DOUBLE),
    "objective": Field("r", DOUBLE),
    "regularizer": Field("r", DOUBLE),
    "noise_variance": Field("r", DOUBLE, low=torch.finfo(torch.float64).tiny),
    "latent_dims": Field("r k", WHOLE, low=0),
}  # fmt: skip
SPREADS = {
    "noise": Field("r k", DOUBLE, low=torch.finfo(torch.float64).tiny),
    "along": Field("r k h", DOUBLE, low=torch.finfo(torch.float64).tiny),
    "offsets": Field("r k", DOUBLE),
}
MOMENTS = {
    "references": Field("r k d", DOUBLE),
    "counts": Field("r k", DOUBLE, low=0),
    "sums": Field("r k d", DOUBLE),
    "squares": Field("r k", DOUBLE, low=0),
    "seconds": Field("r k d d", FLOATS),
}
BOUNDS = {
    **MODEL,
    "lower": Field("r k m", finite=False),
    "upper": Field("r m", finite=False, low=0),
}
# Of a Denoiser; q directions that are kept.
DENOISER = {
    "centers": Field("k d", DOUBLE, of_data=True),
    "counts": Field("k", DOUBLE, low=0, high=LARGEST_COUNT),
    "basis": Field("d q", DOUBLE),
    "spectrum": Field("d", DOUBLE, low=0, high=LARGEST_SQUARE),
    "covariances": Field("k q q", DOUBLE),
    "rest": Field("k", DOUBLE, low=0, high=LARGEST_SQUARE),
}
WAITS = {"waits": Field("w", WHOLE, low=0)}
NEAR = {"near": Field("r k m", (torch.bool,))}
# How far sums may be from what they should be, as a share of it.
TOLERANCE = 1e-3


def check_state(
    state: Mapping[str, Any],
    sizes: Mapping[str, int],
    *,
    dtype: torch.dtype,
    soft: bool,
    own: bool,
    gapped: bool,
    total: float,
) -> None:
    """Refuse a ``state_dict`` of a single start that is not one of this fit.

    ``sizes`` are those of its letters: m, k, d and h. Rows are of type ``dtype`` and weigh
    ``total``; members are kept for them as labels, or as S where it is soft. Spreads are ``own`` or
    shared. Rows that are ``gapped`` have no loss before the first step.
    """
    known = {**sizes, "r": 1, "w": 2}
    check_fields(state["parameters"], PARAMETERS | SPREADS if own else PARAMETERS, known)
    check_fields(state["moments"], MOMENTS, known)
    _check_members(state["members"], known, dtype, soft=soft)
    if "near" in state["sweep"]:
        check_fields(state["sweep"], NEAR, known)
    elif state["sweep"]:
        check_fields(state["sweep"], WAITS, known)
        if "lower" in state["sweep"]:
            check_fields(state["sweep"], BOUNDS, known)
    _check_sums(state["moments"], state["parameters"], total)
    _check_course(state, float(state["parameters"]["loss"]), soft=soft, gapped=gapped)


def _check_members(members: Any, known: dict[str, int], dtype: torch.dtype, *, soft: bool) -> None:
    if soft:
        check_field("members", members, Field("r m k", (dtype,), low=0, high=1), known)
        if not bool(((members.sum(-1) - 1).abs() < TOLERANCE).all()):
            raise MisfitError("rows of members must sum to one")
    else:
        labels = Field("r m", (torch.int32,), low=0, high=known["k"] - 1)
        check_field("members", members, labels, known)


def _check_sums(
    moments: Mapping[str, Tensor], parameters: Mapping[str, Tensor], total: float
) -> None:
    """Refuse sums and parameters that do not follow from each other."""
    counts, references = moments["counts"], moments["references"]
    means = moments["sums"] / counts.clamp(min=torch.finfo(torch.float64).tiny)[..., None]
    traces = moments["seconds"].diagonal(dim1=-2, dim2=-1).sum(-1).double()
    lengths = parameters["components"].norm(dim=-1)
    filled, spread = counts[..., None] > 0, (traces.sum() / total).sqrt()
    for name, found, wanted in (
        ("counts of all clusters", counts.sum(), counts.new_tensor(total)),
        ("counts", parameters["counts"], counts),
        ("centers", parameters["centers"] * filled, (references + means) * filled),
        ("squares", moments["squares"], traces),
        ("lengths of components", lengths, torch.ones_like(lengths)),
    ):
        slack = TOLERANCE * torch.maximum(wanted.abs().max(), spread)
        if bool(((found - wanted).abs() > slack).any()):
            raise MisfitError(f"the {name} do not follow from the sums")


def _check_course(state: Mapping[str, Any], loss: float, *, soft: bool, gapped: bool) -> None:
    """Refuse paths that are not as long as steps were done, or that do not end at the loss."""
    step, course = state["step"], state["course"]
    # Hard labels have no entropy and, of whole rows, a loss before the first step.
    length = step if soft or gapped else step + 1
    wanted = {"loss": length, "objective": length, "entropy": step if soft else 0}
    for name, length in wanted.items():
        path = course[name]
        if len(path) != length or not all(map(_is_finite, path)):
            raise MisfitError(f"the path of the {name} must be {length} numbers")
    if course["loss"][-1] != loss:
        raise MisfitError(f"the loss must be {loss}, where its path ends, got {course['loss'][-1]}")


def _is_finite(value: Any) -> bool:
    return type(value) is float and isfinite(value)
