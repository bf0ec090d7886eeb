"""A fitted detector <-> tensors: local models, calibration, and the clusters of explanations.

Shapes: d features; of one local model p columns, c clusters, h latent; n ordinary rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tensorae._schema import (
    DOUBLE,
    LARGEST_SQUARE,
    WHOLE,
    Field,
    SchemaError,
    check,
)
from tensorae.anomaly.calibration import Calibration
from tensorae.anomaly.ensemble import Ensemble
from tensorae.anomaly.local import LocalModel
from tensorae.persist.container import part

__all__ = ["pack_outliers", "restore_judges"]

# Squares of what is divided by less would overflow.
SMALLEST_UNIT = 1e-150
# They are divided by, and ranges allow for rounding.
POSITIVE = ("unit", "noise_variance", "decay")

DETECTOR = {
    "offset_": Field("", DOUBLE),
    "n_samples_": Field("", WHOLE, low=1),
    "shift": Field("d", DOUBLE, of_data=True),
    "unit": Field("d", DOUBLE, low=0),
}
MEMBER = {
    "columns": Field("p", WHOLE, low=0),
    "centers": Field("c p", DOUBLE, of_data=True),
    "components": Field("c h p", DOUBLE, orthonormal=True),
    "weights": Field("c", DOUBLE, low=0, high=1, sums_to_one=True),
    "explained_variance": Field("c h", DOUBLE, low=0, high=LARGEST_SQUARE),
    "noise_variance": Field("c", DOUBLE, low=0, high=LARGEST_SQUARE),
    "latent_dims": Field("c", WHOLE, low=0),
    "middle": Field("", DOUBLE),
    "unit": Field("", DOUBLE, low=0),
}
CALIBRATION = {
    "ordinary": Field("n", DOUBLE),
    "weights": Field("n", DOUBLE, low=0),
    "decay": Field("", DOUBLE, low=0),
}


def pack_outliers(model: Any) -> dict[str, Any]:
    """Tree of tensors of a fitted detector, without its reference."""
    ensemble: Ensemble = model._ensemble
    own = {
        "offset_": model.offset_,
        "n_samples_": model.n_samples_,
        "shift": ensemble.shift,
        "unit": ensemble.unit,
    }
    tree: dict[str, Any] = {**_packed(own, DETECTOR)}
    tree["calibration"] = _packed(vars(model._calibration), CALIBRATION)
    for number, member in enumerate(ensemble.members):
        tree[f"member{number}"] = _packed(vars(member), MEMBER)
    return tree


def restore_judges(
    model: Any, tensors: Mapping[str, Tensor], sizes: dict[str, int]
) -> tuple[Ensemble, Calibration]:
    """Check tensors of a file, set the detector's own numbers, and return who judges."""
    _check(tensors, DETECTOR, sizes)
    if not bool((tensors["unit"] >= SMALLEST_UNIT).all()):
        raise SchemaError(f"unit must be at least {SMALLEST_UNIT:g}")
    model.offset_ = float(tensors["offset_"])
    model.n_samples_, model.n_features_in_ = int(tensors["n_samples_"]), sizes["d"]
    members: list[LocalModel] = []
    while inner := part(tensors, f"member{len(members)}"):
        members.append(_member(inner, sizes["d"]))
    if len(members) != model.n_estimators:
        raise SchemaError(f"it has {len(members)} local models of {model.n_estimators}")
    ensemble = Ensemble(tensors["shift"].numpy(), tensors["unit"].numpy(), tuple(members))
    return ensemble, _calibration(part(tensors, "calibration"))


def _member(tensors: Mapping[str, Tensor], d: int) -> LocalModel:
    sizes: dict[str, int] = {}
    _check(tensors, MEMBER, sizes)
    columns, dims = tensors["columns"], tensors["latent_dims"]
    if int(columns.max()) >= d or bool((columns.diff() <= 0).any()):
        raise SchemaError(f"columns of a local model must rise and stay below {d}")
    if int(dims.max()) > sizes["h"]:
        raise SchemaError(f"latent_dims of a local model must be at most {sizes['h']}")
    counted = torch.arange(sizes["h"]) < dims.unsqueeze(1)
    if not bool((tensors["explained_variance"][counted] > 0).all()):
        raise SchemaError("explained_variance of a local model must be above zero")
    return LocalModel(**{name: _value(tensors[name]) for name in MEMBER})


def _calibration(tensors: Mapping[str, Tensor]) -> Calibration:
    _check(tensors, CALIBRATION, {})
    if not len(tensors["ordinary"]) or bool((tensors["ordinary"].diff() < 0).any()):
        raise SchemaError("the oddness of ordinary rows must rise")
    return Calibration(**{name: _value(tensors[name]) for name in CALIBRATION})


def _check(
    tensors: Mapping[str, Tensor], table: Mapping[str, Field], sizes: dict[str, int]
) -> None:
    check(tensors, table, sizes)
    for name in POSITIVE:
        if name in table and not bool((tensors[name] > 0).all()):
            raise SchemaError(f"{name} must be above zero")


def _packed(values: Mapping[str, Any], table: Mapping[str, Field]) -> dict[str, Tensor]:
    return {
        name: torch.as_tensor(np.array(values[name]), dtype=field.dtypes[0])
        for name, field in table.items()
    }


def _value(tensor: Tensor) -> Any:
    return tensor.item() if tensor.ndim == 0 else tensor.numpy()
