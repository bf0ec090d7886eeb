"""Fitted attributes <-> tensors, for each of the two estimators.

Shapes: n samples, k clusters, d features, h latent, e epochs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields as fields_of
from typing import Any

import torch
from torch import Tensor

from tensorae.deep.blending import Blend
from tensorae.deep.history import COLUMNS
from tensorae.estimators.base import BaseTAE
from tensorae.estimators.deep import TAE
from tensorae.estimators.images import with_channels
from tensorae.estimators.linear import LinearTAE
from tensorae.linear.denoising import Denoiser
from tensorae.persistence.fields import (
    BLEND,
    DEEP,
    DENOISER,
    FRAME,
    HISTORY,
    LINEAR,
    MOMENTS,
    Field,
    MisfitError,
    as_tensor,
    as_value,
    check_fields,
    part,
)
from tensorae.persistence.modules import module_state

__all__ = [
    "deep_details",
    "deep_tensors",
    "linear_tensors",
    "restore_deep",
    "restore_linear",
]


def linear_tensors(model: LinearTAE) -> dict[str, Tensor]:
    """All fitted numbers of a LinearTAE."""
    tensors = _packed(vars(model), LINEAR)
    if model._frame is not None:
        frame = dict(zip(FRAME, model._frame, strict=True))
        tensors |= _prefixed("frame", _packed(frame, FRAME))
    if model._moments is not None:
        tensors |= _prefixed("moments", _packed(model._moments, MOMENTS))
    else:
        tensors |= _prefixed("denoiser", _packed(vars(model._denoiser), DENOISER))
    return tensors


def restore_linear(model: LinearTAE, tensors: Mapping[str, Tensor], sizes: dict[str, int]) -> None:
    """Give a model the fitted attributes of a file; ``sizes`` learns d and n."""
    _restore(model, tensors, LINEAR, sizes)
    frame, moments = part(tensors, "frame"), part(tensors, "moments")
    model._frame = model._moments = model._denoiser = None
    if frame:
        check_fields(frame, FRAME, sizes)
        model._frame = frame["origin"].numpy(), frame["axes"].numpy()
    if moments:
        sizes.setdefault("p", sizes["d"])
        check_fields(moments, MOMENTS, sizes)
        model._moments = {name: moments[name].numpy() for name in MOMENTS}
    else:
        model._denoiser = _denoiser(part(tensors, "denoiser"), sizes)


def deep_tensors(model: TAE) -> dict[str, Tensor]:
    """All fitted numbers of a TAE."""
    k = len(model.cluster_centers_)
    history = {name: torch.tensor(model.history_[name], dtype=HISTORY[name].types[0])
               for name in HISTORY}  # fmt: skip
    history["sizes"] = history["sizes"].reshape(-1, k)
    tensors = _packed(vars(model), DEEP)
    tensors |= _prefixed("history", history)
    tensors |= _prefixed("module", module_state(model.module_))
    if model._blend is not None:
        tensors |= _prefixed("blend", _packed(vars(model._blend), BLEND))
        if model._blend.denoiser is not None:
            denoiser = _packed(vars(model._blend.denoiser), DENOISER)
            tensors |= _prefixed("blend.denoiser", denoiser)
    return tensors


def deep_details(model: TAE) -> dict[str, Any]:
    """What is fitted in a TAE and is no number: shapes of samples, phases of the training."""
    return {
        "input_shape": model.input_shape_,
        "sample_shape": model._sample_shape,
        "image_shape": model._images,
        "phases": model.history_["phase"],
    }


def restore_deep(
    model: TAE, tensors: Mapping[str, Tensor], details: Any, sizes: dict[str, int]
) -> None:
    """Give a model the fitted attributes of a file, all but its module."""
    _restore(model, tensors, DEEP, sizes)
    if not isinstance(details, dict):
        raise MisfitError("its shapes are missing")
    d = sizes["d"]
    input_shape = _shape(details, "input_shape", d)
    if input_shape is None:
        raise MisfitError("input_shape is missing")
    model.input_shape_ = input_shape
    model._sample_shape = _shape(details, "sample_shape", d)
    model._images = _shape(details, "image_shape", d)
    seen = model._sample_shape
    if seen is not None and (len(seen) not in (2, 3) or with_channels(seen) != model._images):
        raise MisfitError(f"sample_shape {seen} does not fit image_shape {model._images}")
    model._code_length = sizes["h"]
    model._blend = _blend(part(tensors, "blend"), sizes)
    model.history_ = _history(part(tensors, "history"), details.get("phases"), sizes)


# Parts ----------------------------------------------------------------------------------------


def _packed(values: Mapping[str, Any], table: Mapping[str, Field]) -> dict[str, Tensor]:
    return {name: as_tensor(values[name], field.types) for name, field in table.items()}


def _prefixed(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {f"{prefix}.{name}": tensor for name, tensor in tensors.items()}


def _restore(
    model: BaseTAE,
    tensors: Mapping[str, Tensor],
    table: Mapping[str, Field],
    sizes: dict[str, int],
) -> None:
    check_fields(tensors, table, sizes)
    low, high = (int(end) for end in tensors["labels_"].aminmax())
    if not 0 <= low <= high < sizes["k"]:
        raise MisfitError(f"labels_ must lie between 0 and {sizes['k'] - 1}, got {low} to {high}")
    for name in table:
        setattr(model, name, as_value(tensors[name]))
    model.n_features_in_ = sizes["d"]


def _denoiser(tensors: Mapping[str, Tensor], sizes: dict[str, int]) -> Denoiser:
    check_fields(tensors, DENOISER, sizes)
    if sizes["q"] > sizes["d"]:
        raise MisfitError(f"a denoiser of {sizes['d']} features has {sizes['q']} directions")
    return Denoiser(*(tensors[field.name] for field in fields_of(Denoiser)))


def _blend(tensors: Mapping[str, Tensor], sizes: dict[str, int]) -> Blend | None:
    if not tensors:
        return None
    inner = part(tensors, "denoiser")
    sizes["b"] = 2 if inner else 1
    check_fields(tensors, BLEND, sizes)
    return Blend(
        weights=tensors["weights"],
        denoiser=_denoiser(inner, sizes) if inner else None,
        noise_variance=tensors["noise_variance"].item(),
        unit=tensors["unit"].item(),
        origin=tensors["origin"],
    )


def _history(
    tensors: Mapping[str, Tensor], phases: Any, sizes: dict[str, int]
) -> dict[str, list[Any]]:
    check_fields(tensors, HISTORY, sizes)
    if not isinstance(phases, list) or not all(isinstance(phase, str) for phase in phases):
        raise MisfitError("the phases of the training are missing")
    if len(phases) != sizes["e"]:
        raise MisfitError(f"history has {sizes['e']} epochs, but {len(phases)} phases")
    return {name: phases if name == "phase" else tensors[name].tolist() for name in COLUMNS}


def _shape(details: Mapping[str, Any], name: str, d: int) -> tuple[int, ...] | None:
    """Shape of one sample, whose sizes multiply to d."""
    shape = details.get(name)
    if shape is None:
        return None
    whole = isinstance(shape, list) and all(type(size) is int and size > 0 for size in shape)
    if not whole or math.prod(shape) != d:
        raise MisfitError(f"{name} must be whole numbers with the product {d}, got {shape!r:.60}")
    return tuple(shape)
