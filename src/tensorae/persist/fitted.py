"""Fitted attributes <-> tensors: tables of what a file holds, with shapes, and the way back.

A name without a dot is an attribute of the model; one with a dot is a part of something that the
model keeps for ``denoise``.

Shapes: n samples, k clusters, d features, h latent, e epochs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from dataclasses import fields as fields_of
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tensorae._schema import (
    DENOISER,
    DOUBLE,
    LARGEST_COUNT,
    LARGEST_SQUARE,
    ROUNDING,
    TOLERANCE,
    WHOLE,
    Field,
    SchemaError,
    check,
)
from tensorae.assignment import RULES, rule_name
from tensorae.core.denoise import Denoiser
from tensorae.core.prediction import LinearPredictor
from tensorae.deep.denoise import Blend
from tensorae.persist.comparisons import (
    packed_comparison,
    restored_comparison,
    restored_reason,
)
from tensorae.persist.container import part
from tensorae.persist.networks import module_state, sample_costs
from tensorae.persist.outliers import pack_outliers, restore_judges

__all__ = ["CODECS", "Codec"]

Tensors = Mapping[str, Tensor]
Packed = tuple[dict[str, Any], dict[str, Any]]

# Samples whose labels are counted at a time: counting makes a larger copy of them.
CHUNK = 1 << 20
# Labels of many samples are most of a file, so they stay as small as they are.
LABELS = (torch.int32,)


COMMON = {
    "cluster_centers_": Field("k d", of_data=True),
    "weights_": Field("k", low=0, high=1, sums_to_one=True),
    "labels_": Field("n", LABELS),
    "latent_penalty_": Field("", DOUBLE, low=0, high=1),
    "loss_": Field("", DOUBLE, finite=False),
    "n_iter_": Field("", WHOLE, low=0),
}
# Files of 0.1.0 do not have them.
ADDED = {"cluster_sizes_": Field("k", WHOLE, low=0)}
LATENT_DIMS = {"latent_dims_": Field("k", WHOLE, low=0)}
# Files of 0.2.0 do not have it.
TIED = {"tied_variance_": Field("d", low=0, high=LARGEST_SQUARE)}
SPREADS = ("shared", "own")
LINEAR = {
    **COMMON,
    "components_": Field("k h d", orthonormal=True),
    "explained_variance_": Field("k h", low=0, high=LARGEST_SQUARE),
    "explained_variance_ratio_": Field("k h", low=0, high=1),
    "noise_variance_": Field("k", low=0, high=LARGEST_SQUARE),
    "loss_path_": Field("i", DOUBLE, finite=False),
    "objective_path_": Field("o", DOUBLE, finite=False),
    "entropy_path_": Field("s", DOUBLE, finite=False),
    "converged_": Field("", (torch.bool,)),
}
DEEP = {
    **COMMON,
    "best_epoch_": Field("", WHOLE, low=0),
    "_noise_variance": Field("", DOUBLE, high=LARGEST_SQUARE),
}
# p directions of the plane in which wide data was fitted; all features where there is no plane.
MOMENTS = {
    "counts": Field("k", DOUBLE, low=0, high=LARGEST_COUNT),
    "centers": Field("k p", DOUBLE, of_data=True),
    "scatters": Field("k p p"),
}
FRAME = {"origin": Field("d", of_data=True), "axes": Field("p d", orthonormal=True)}
# b predictors that are blended.
BLEND = {
    "weights": Field("b d"),
    "origin": Field("d", DOUBLE, of_data=True),
    "noise_variance": Field("", DOUBLE, low=0, high=LARGEST_SQUARE),
    "unit": Field("", DOUBLE, low=torch.finfo(torch.float64).tiny),
}
HISTORY = {
    "epoch": Field("e", WHOLE, low=1),
    "loss": Field("e", DOUBLE, finite=False),
    "held_out_loss": Field("e", DOUBLE, finite=False),
    "changed": Field("e", DOUBLE, finite=False),
    "sizes": Field("e k", WHOLE, low=0),
    "seconds": Field("e", DOUBLE, finite=False),
}


def _pack_linear(model: Any) -> Packed:
    tree = _packed(vars(model), LINEAR | ADDED | LATENT_DIMS | TIED)
    if model._frame is not None:
        tree["frame"] = _packed(dict(zip(FRAME, model._frame, strict=True)), FRAME)
    if model._moments is not None:
        tree["moments"] = _packed(model._moments, MOMENTS)
    else:
        tree["denoiser"] = _packed(vars(model._denoiser), DENOISER)
    details = {
        "assignment": model.assignment_,
        "spread": model.spread_,
        "pooled": model.pooled_,
        "comparison": packed_comparison(model.comparison_),
        "reason": model.reason_,
    }
    return tree, details


def _restore_linear(model: Any, tensors: Tensors, details: Any, sizes: dict[str, int]) -> None:
    _restore(model, tensors, LINEAR, sizes)
    _restore_assignment(model, details)
    _restore_spread(model, tensors, details, sizes)
    tied = {"tied_variance_": torch.zeros(sizes["d"]), **tensors}
    check(tied, TIED, sizes)
    model.tied_variance_ = tied["tied_variance_"].numpy()
    model.comparison_ = restored_comparison(details.get("comparison"))
    model.reason_ = restored_reason(details.get("reason"))
    _check_density(model)
    frame, moments = part(tensors, "frame"), part(tensors, "moments")
    model._frame = model._moments = model._denoiser = None
    if frame:
        check(frame, FRAME, sizes)
        model._frame = frame["origin"].numpy(), frame["axes"].numpy()
    if moments:
        sizes.setdefault("p", sizes["d"])
        check(moments, MOMENTS, sizes)
        _check_sums(moments)
        model._moments = {name: moments[name].numpy() for name in MOMENTS}
        centers = moments["centers"]
        if frame:
            centers = frame["origin"].double() + centers @ frame["axes"].double()
        _check_same_clusters(model, centers, moments["counts"])
    else:
        model._denoiser = _denoiser(part(tensors, "denoiser"), sizes)
        _check_same_clusters(model, model._denoiser.centers, model._denoiser.counts)


def _restore_assignment(model: Any, details: Any) -> None:
    """How rows were assigned; files up to 0.2.0 have it in their parameters only."""
    estimated = isinstance(model.latent_penalty, str)
    given = rule_name(model.assignment, estimated_penalty=estimated)
    model.assignment_ = details.get("assignment", given)
    if not isinstance(model.assignment_, str) or model.assignment_ not in RULES:
        raise SchemaError(
            f"assignment must be one of {', '.join(RULES)}, got {model.assignment_!r:.40}"
        )


def _restore_spread(model: Any, tensors: Tensors, details: Any, sizes: dict[str, int]) -> None:
    """Whether variances are own, and how many components count; files of 0.1.0 share one spread."""
    model.spread_, model.pooled_ = details.get("spread", "shared"), details.get("pooled", False)
    if not isinstance(model.pooled_, bool):
        raise SchemaError(f"pooled must be true or false, got {model.pooled_!r:.40}")
    if model.spread_ not in SPREADS:
        raise SchemaError(f"spread must be one of {', '.join(SPREADS)}, got {model.spread_!r:.40}")
    k, h = model.components_.shape[:2]
    dims = {"latent_dims_": torch.full((k,), h), **tensors}
    check(dims, LATENT_DIMS, sizes)
    model.latent_dims_ = dims["latent_dims_"].numpy()
    if model.latent_dims_.max() > h:
        raise SchemaError(f"latent_dims_ must be at most {h}, got {model.latent_dims_.max()}")
    if model.spread_ == "own":
        counted = np.arange(h) < model.latent_dims_[:, None]
        for name, values in (
            ("noise_variance_", model.noise_variance_),
            ("explained_variance_", model.explained_variance_[counted]),
        ):
            if not (values > 0).all():
                raise SchemaError(f"{name} must be above zero where spreads are own")


def _pack_deep(model: Any) -> Packed:
    history = _packed(model.history_, HISTORY)
    history["sizes"] = history["sizes"].reshape(-1, len(model.cluster_centers_))
    tree = _packed(vars(model), DEEP | ADDED)
    tree |= {"history": history, "module": module_state(model.module_)}
    if model._blend is not None:
        tree["blend"] = _packed(vars(model._blend), BLEND)
        if model._blend.denoiser is not None:
            tree["blend"]["denoiser"] = _packed(vars(model._blend.denoiser), DENOISER)
    costs = sample_costs(model.module_)
    if costs is not None:
        tree["sample_costs"] = costs
    details = {
        "assignment": model.assignment_,
        "input_shape": model.input_shape_,
        "sample_shape": model._sample_shape,
        "image_shape": model._images,
        "phases": model.history_["phase"],
    }
    return tree, details


def _restore_deep(model: Any, tensors: Tensors, details: Any, sizes: dict[str, int]) -> None:
    """All but the module, which needs the rest of the model to be checked."""
    _restore(model, tensors, DEEP, sizes)
    if isinstance(model.architecture, str) and model._noise_variance < 0:
        raise SchemaError(f"_noise_variance must not be negative, got {model._noise_variance:g}")
    if not isinstance(details, dict):
        raise SchemaError("its shapes are missing")
    _restore_assignment(model, details)
    d = sizes["d"]
    input_shape = _shape(details, "input_shape", d)
    if input_shape is None:
        raise SchemaError("input_shape is missing")
    model.input_shape_ = input_shape
    model._sample_shape = _shape(details, "sample_shape", d)
    model._images = _shape(details, "image_shape", d)
    seen = model._sample_shape
    if seen is not None and (len(seen) not in (2, 3) or (1, *seen)[-3:] != model._images):
        raise SchemaError(f"sample_shape {seen} does not fit image_shape {model._images}")
    model._code_length = sizes["h"]
    model._blend = _blend(part(tensors, "blend"), sizes)
    model.history_ = _history(part(tensors, "history"), details.get("phases"), sizes)


def _pack_outliers(model: Any) -> Packed:
    reference, details = _pack_linear(model.reference_)
    return pack_outliers(model) | {"reference": reference}, {"reference": details}


def _restore_outliers(model: Any, tensors: Tensors, details: Any, sizes: dict[str, int]) -> None:
    judges = restore_judges(model, tensors, sizes)
    inner = part(tensors, "reference")
    shape = tuple(getattr(inner.get("components_"), "shape", ()))
    if len(shape) != 3 or not isinstance(details.get("reference"), dict):
        raise SchemaError("the clusters of its explanations are missing")
    reference = model._new_reference(*shape[:2])
    known = {"k": shape[0], "h": shape[1], "d": sizes["d"]}
    _restore_linear(reference, inner, details["reference"], known)
    if reference.spread_ != "own":
        raise SchemaError("the clusters of its explanations must have own spreads")
    model._restore(*judges, reference)


@dataclass(frozen=True)
class Codec:
    """How the fitted attributes of a class become tensors, and attributes again.

    Attributes
    ----------
    pack : callable
        Takes a fitted model; returns a tree of tensors, and details, which are no numbers.
    restore : callable
        Takes a model, tensors, details, and sizes by their letters, to which it adds.
    """

    pack: Callable[[Any], Packed]
    restore: Callable[[Any, Tensors, Any, dict[str, int]], None]


# The only classes that a file can name.
CODECS = {
    "LinearTAE": Codec(_pack_linear, _restore_linear),
    "TAE": Codec(_pack_deep, _restore_deep),
    "OutlierTAE": Codec(_pack_outliers, _restore_outliers),
}

# Parts ----------------------------------------------------------------------------------------


def _check_density(model: Any) -> None:
    """Refuse numbers by which a cluster has no density at its own centre."""
    centers = torch.as_tensor(model.cluster_centers_)
    predictor = LinearPredictor.of_published(
        centers.device,
        centers=centers,
        components=model.components_,
        weights=model.weights_,
        explained_variance=model.explained_variance_,
        noise_variance=model.noise_variance_,
        latent_penalty=model.latent_penalty_,
        latent_dims=model.latent_dims_ if model.spread_ == "own" else None,
        chunk_rows=None,
    )
    # At its own centre: others may be so far away that their density there is zero.
    known = torch.stack([predictor.costs(centers).diagonal(), predictor.log_density(centers)])
    if not bool(torch.isfinite(known[:, predictor.log_weights.isfinite()]).all()):
        raise SchemaError(
            "its variances, components and latent_penalty_ give no density at cluster_centers_"
        )


def _check_sums(moments: Tensors) -> None:
    """Refuse sums that no rows have."""
    counts, centers = moments["counts"], moments["centers"]
    about = counts[:, None] * centers.square()
    _check_covariances("scatters", moments["scatters"], about)
    seconds = about + moments["scatters"].diagonal(dim1=-2, dim2=-1)
    if not float(counts.sum()) > 0 or not bool(torch.isfinite(seconds.sum())):
        raise SchemaError("counts and scatters must be sums of weights and of squares")


def _check_same_clusters(model: Any, centers: Tensor, counts: Tensor) -> None:
    """Refuse centres (k, d) and weights (k,) of sums other than the published ones, in any order.

    Files of 0.1.0 have the sums in another order.
    """
    weights = torch.as_tensor(model.weights_).double()
    published = torch.as_tensor(model.cluster_centers_).double()
    distances = torch.cdist(published[weights > 0], centers).amin(1)
    variances = torch.as_tensor(model.noise_variance_).double() * centers.shape[1]
    extent = published.abs().amax() + variances.amax().sqrt()
    same = bool((distances <= TOLERANCE * extent).all())
    if not same or not torch.allclose(
        (counts / counts.sum()).sort().values, weights.sort().values, rtol=0, atol=TOLERANCE
    ):
        raise SchemaError("the sums must be those of cluster_centers_ and weights_")


def _check_covariances(name: str, matrices: Tensor, about: Tensor) -> None:
    """Refuse squares and products (k, q, q) that no numbers have.

    They are differences of those of numbers of the size that the squares ``about`` tell.
    """
    squares = matrices.diagonal(dim1=-2, dim2=-1)
    field = Field("k q", low=0, high=LARGEST_SQUARE)
    field.check(f"the diagonal of {name}", squares, {})
    slack = float(TOLERANCE * squares.amax() + ROUNDING * about.amax())
    for matrix, lengths in zip(matrices, squares.double().clamp(min=0).sqrt(), strict=True):
        if bool((matrix.abs() > torch.outer(lengths, lengths) + slack).any()):
            raise SchemaError(f"{name} must hold products no larger than their squares")


def _packed(values: Mapping[str, Any], table: Mapping[str, Field]) -> dict[str, Any]:
    return {name: _as_tensor(values[name], field.dtypes[0]) for name, field in table.items()}


def _as_tensor(value: Any, kind: torch.dtype) -> Tensor:
    """Array, tensor, number or list -> a tensor on the CPU, sharing memory where that is safe."""
    if isinstance(value, Tensor):
        return value.detach().cpu()
    if isinstance(value, np.ndarray):
        return torch.from_numpy(np.require(value, requirements=["C", "W", "A"]))
    return torch.tensor(value, dtype=kind)


def _restore(
    model: Any, tensors: Tensors, table: Mapping[str, Field], sizes: dict[str, int]
) -> None:
    check(tensors, table, sizes)
    counts = _sizes_of(tensors["labels_"], sizes["k"])
    tensors = {"cluster_sizes_": counts, **tensors}
    check(tensors, ADDED, sizes)
    if not bool((tensors["cluster_sizes_"] >= counts).all()):
        raise SchemaError("cluster_sizes_ must count all labels_, got less")
    for name in (*table, *ADDED):
        tensor = tensors[name]
        setattr(model, name, tensor.item() if tensor.ndim == 0 else tensor.numpy())
    model.n_features_in_ = sizes["d"]


def _sizes_of(labels: Tensor, k: int) -> Tensor:
    """Members (k,) of each cluster."""
    low, high = (int(end) for end in labels.aminmax())
    if not 0 <= low <= high < k:
        raise SchemaError(f"labels_ must lie between 0 and {k - 1}, got {low} to {high}")
    counts = torch.zeros(k, dtype=torch.int64)
    for some in labels.split(CHUNK):
        counts += torch.bincount(some, minlength=k)
    return counts


def _denoiser(tensors: Tensors, sizes: dict[str, int]) -> Denoiser:
    check(tensors, DENOISER, sizes)
    if sizes["q"] > sizes["d"]:
        raise SchemaError(f"a denoiser of {sizes['d']} features has {sizes['q']} directions")
    _check_covariances("covariances", tensors["covariances"], tensors["centers"].square())
    Field("q d", DOUBLE, orthonormal=True).check("basis", tensors["basis"].mT, sizes)
    if not float(tensors["counts"].sum()) > 0:
        raise SchemaError("counts must not all be zero")
    return Denoiser(*(tensors[field.name] for field in fields_of(Denoiser)))


def _blend(tensors: Tensors, sizes: dict[str, int]) -> Blend | None:
    if not tensors:
        return None
    inner = part(tensors, "denoiser")
    sizes["b"] = 2 if inner else 1
    check(tensors, BLEND, sizes)
    return Blend(
        weights=tensors["weights"],
        denoiser=_denoiser(inner, sizes) if inner else None,
        noise_variance=tensors["noise_variance"].item(),
        unit=tensors["unit"].item(),
        origin=tensors["origin"],
    )


def _history(tensors: Tensors, phases: Any, sizes: dict[str, int]) -> dict[str, list[Any]]:
    check(tensors, HISTORY, sizes)
    if not isinstance(phases, list) or not all(isinstance(phase, str) for phase in phases):
        raise SchemaError("the phases of the training are missing")
    if len(phases) != sizes["e"]:
        raise SchemaError(f"history has {sizes['e']} epochs, but {len(phases)} phases")
    columns = {name: tensors[name].tolist() for name in HISTORY}
    return {"epoch": columns.pop("epoch"), "phase": phases, **columns}


def _shape(details: Mapping[str, Any], name: str, d: int) -> tuple[int, ...] | None:
    """Shape of one sample, whose sizes multiply to d."""
    shape = details.get(name)
    if shape is None:
        return None
    whole = isinstance(shape, list) and all(type(size) is int and size > 0 for size in shape)
    if not whole or math.prod(shape) != d:
        raise SchemaError(f"{name} must be whole numbers with the product {d}, got {shape!r:.60}")
    return tuple(shape)
