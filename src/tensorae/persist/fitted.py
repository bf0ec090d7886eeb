"""Fitted attributes <-> tensors and JSON: tables of what a file holds, and the way back.

A name without a dot is an attribute of the model; one with a dot is part of something that the
model keeps, such as what ``denoise`` needs.
"""

# n samples, k clusters, d features, h latent, l levels of categories, e epochs, p directions of the
# space in which wide data was fitted (or all d), b predictors that are blended, c clusters of one
# local model; of Scattering: c colours, m channels, f features before PCA

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
    NUMBER,
    ROUNDING,
    TOLERANCE,
    WHOLE,
    Field,
    SchemaError,
    Table,
    Value,
    check,
)
from tensorae.anomaly.detector import (
    GRID,
    VIEWS,
    Calibration,
    Detector,
    LevelMember,
    MarginalMember,
    Member,
    MixtureMember,
)
from tensorae.assignment import RULES, rule_name
from tensorae.core.denoise import Denoiser
from tensorae.core.mixture import LinearPredictor
from tensorae.data.categories import CategoryEncoder
from tensorae.data.dask import is_dask
from tensorae.deep.denoise import Blend
from tensorae.persist.container import part
from tensorae.persist.networks import module_state, sample_costs

Tensors = Mapping[str, Tensor]
Details = Mapping[str, Any]
Packed = tuple[dict[str, Any], dict[str, Any]]

# Samples whose labels are counted at a time: counting makes a larger copy of them.
CHUNK = 1 << 20
LABELS = (torch.int32,)  # most of a file


def _variance(shape: str, **options: Any) -> Field:
    return Field(shape, low=0, high=LARGEST_SQUARE, **options)


COMMON = {
    "cluster_centers_": Field("k d", of_data=True),
    "weights_": Field("k", low=0, high=1, sums_to_one=True),
    "labels_": Field("n", LABELS),
    "cluster_sizes_": Field("k", WHOLE, low=0),
    "latent_penalty_": Field("", DOUBLE, low=0, high=1),
    "loss_": Field("", DOUBLE, finite=False),
    "n_iter_": Field("", WHOLE, low=0),
}
LINEAR = {
    **COMMON,
    "components_": Field("k h d", orthonormal=True),
    "explained_variance_": _variance("k h"),
    "explained_variance_ratio_": Field("k h", low=0, high=1),
    "noise_variance_": _variance("k"),
    "latent_dims_": Field("k", WHOLE, low=0),
    "tied_variance_": _variance("d", optional=True),  # missing in files of 0.2.0
    "loss_path_": Field("i", DOUBLE, finite=False),
    "objective_path_": Field("o", DOUBLE, finite=False),
    "entropy_path_": Field("s", DOUBLE, finite=False),
    "converged_": Field("", (torch.bool,)),
    "_levels": Field("k l", DOUBLE, high=0, optional=True),
}
MOMENTS = {
    "counts": Field("k", DOUBLE, low=0, high=LARGEST_COUNT),
    "centers": Field("k p", DOUBLE, of_data=True),
    "scatters": Field("k p p"),
    "levels": Field("k l", DOUBLE, low=0, high=LARGEST_COUNT, optional=True),
}
FRAME = {"origin": Field("d", of_data=True), "axes": Field("p d", orthonormal=True)}
RULE = Value((str,), choices=tuple(RULES), optional=True)  # missing in files of 0.2.0
LINEAR_DETAILS = {
    "assignment": RULE,
    "spread": Value((str,), choices=("shared", "own")),
    "pooled": Value((bool,)),
    "comparison": Value((list,), many=True),
    "reason": Value((str,), longest=1000),
    "categories": Value((dict,), optional=True),
}
# Columns of ``comparison_`` that plots and reports need; there may be others.
COMPARISON = {
    "n_clusters": Value((int,), many=True),
    "spread": Value((str,), many=True),
    "latent_dim": Value((int,), many=True),
    "chosen": Value((bool,), many=True),
    **dict.fromkeys(
        ("latent_penalty", "log_likelihood", "icl", "seconds"),
        Value(NUMBER, nan=True, many=True),
    ),
}
DEEP = {
    **COMMON,
    "best_epoch_": Field("", WHOLE, low=0),
    "_noise_variance": Field("", DOUBLE, high=LARGEST_SQUARE),
}
BLEND = {
    "weights": Field("b d"),
    "origin": Field("d", DOUBLE, of_data=True),
    "noise_variance": _variance("", dtypes=DOUBLE),
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
SHAPE = Value((int,), low=1, high=2**53, many=True)
OPTIONAL_SHAPE = Value((int,), low=1, high=2**53, many=True, optional=True)
STARTS = ("linear", "neighbors", "manifold", "k-means++", "random", "array")
DEEP_DETAILS = {
    "assignment": RULE,
    "input_shape": SHAPE,
    "init": Value((str,), choices=STARTS, optional=True),  # missing in files of 0.2.0
    "sample_shape": OPTIONAL_SHAPE,
    "image_shape": OPTIONAL_SHAPE,
    "phases": Value((str,), many=True),
}
# Scores of members are added up; no fit comes near this.
LARGEST_SCORE = 1e100
DETECTOR = {
    "offset_": Field("", DOUBLE),
    "n_samples_": Field("", WHOLE, low=1),
    "shift": Field("d", DOUBLE, of_data=True),
    "unit": Field("d", DOUBLE, above=1e-150),  # squares divided by its square must not overflow
}
MEMBER = {
    "columns": Field("p", WHOLE, low=0),
    "middle": Field("", DOUBLE, low=-LARGEST_SCORE, high=LARGEST_SCORE),
    "unit": Field("", DOUBLE, above=0),
}
MIXTURE = {
    **MEMBER,
    "centers": Field("c p", DOUBLE, of_data=True),
    "components": Field("c h p", DOUBLE, orthonormal=True),
    "weights": Field("c", DOUBLE, low=0, high=1, sums_to_one=True),
    "explained_variance": _variance("c h", dtypes=DOUBLE),
    "noise_variance": Field("c", DOUBLE, high=LARGEST_SQUARE, above=0),
    "latent_dims": Field("c", WHOLE, low=0),
}
MARGINAL = {
    **MEMBER,
    "low": Field("p", DOUBLE),
    "step": Field("p", DOUBLE, above=0),
    "surprise": Field("p g", DOUBLE, low=-LARGEST_SCORE, high=LARGEST_SCORE),
    "expected": Field("p", DOUBLE, low=-LARGEST_SCORE, high=LARGEST_SCORE),
}
LEVELS = {
    **MEMBER,
    "sizes": Field("q", WHOLE, low=1),
    "expected": Field("q", DOUBLE, low=0, high=LARGEST_SCORE),
    "centers": Field("c p", DOUBLE, of_data=True),
    "components": Field("c h p", DOUBLE, orthonormal=True),
    "noise": Field("c", DOUBLE, high=LARGEST_SQUARE, above=0),
    "along": Field("c h", DOUBLE, high=LARGEST_SQUARE, above=0),
    "log_weights": Field("c", DOUBLE, high=0),
    "levels": Field("c l", DOUBLE, high=0),
}
# By a tensor that only members of a kind have.
MEMBERS = {
    "surprise": (MarginalMember, MARGINAL),
    "levels": (LevelMember, LEVELS),
    "weights": (MixtureMember, MIXTURE),
}
CALIBRATION = {
    "ordinary": Field("n", DOUBLE),
    "weights": Field("n", DOUBLE, low=0),
    "decay": Field("", DOUBLE, above=0),
}

# LinearTAE ------------------------------------------------------------------------------------


def _pack_linear(model: Any) -> Packed:
    table = {name: field for name, field in LINEAR.items() if getattr(model, name) is not None}
    values = vars(model)
    if is_dask(model.labels_):  # the rows, and their labels, are elsewhere
        values = {**values, "labels_": np.empty(0, dtype=np.int32)}
    tree = _packed(values, table)
    if model._frame is not None:
        tree["frame"] = _packed(dict(zip(FRAME, model._frame, strict=True)), FRAME)
    if model._moments is not None:
        kept = {name: MOMENTS[name] for name in model._moments}
        tree["moments"] = _packed(model._moments, kept)
    else:
        tree["denoiser"] = _packed(vars(model._denoiser), DENOISER)
    # A JSON object has no order, so the columns are a list of pairs.
    comparison = [[name, list(map(_to_json, c))] for name, c in model.comparison_.items()]
    return tree, {
        "assignment": model.assignment_,
        "spread": model.spread_,
        "pooled": model.pooled_,
        "comparison": comparison,
        "reason": model.reason_,
        "categories": None if model._categories is None else model._categories.to_json(),
    }


def _restore_linear(model: Any, tensors: Tensors, details: Details, sizes: dict[str, int]) -> None:
    _restore(model, tensors, LINEAR, details, LINEAR_DETAILS, sizes)
    if "tied_variance_" not in tensors:
        model.tied_variance_ = np.zeros(sizes["d"], dtype=np.float32)
    model.spread_, model.pooled_ = details["spread"], details["pooled"]
    model.comparison_ = _comparison(details["comparison"])
    model.reason_ = details["reason"]
    model._categories, model._levels = None, None
    if details.get("categories") is not None:
        _restore_categories(model, tensors, details["categories"], sizes)
    elif sizes["d"] == 0:
        raise SchemaError("cluster_centers_ must have features")
    own = model.spread_ == "own"
    _check_latent_dims(tensors["latent_dims_"], tensors["explained_variance_"], positive=own)
    if own:
        Field("k", above=0).check("noise_variance_", tensors["noise_variance_"], sizes)
    _check_density(model)
    frame, moments = part(tensors, "frame"), part(tensors, "moments")
    model._frame = model._moments = model._denoiser = None
    if frame:
        check(frame, FRAME, sizes, prefix="frame.")
        model._frame = frame["origin"].numpy(), frame["axes"].numpy()
    if moments:
        sizes.setdefault("p", sizes["d"])
        check(moments, MOMENTS, sizes, prefix="moments.")
        counts, centers, scatters = (moments[name] for name in ("counts", "centers", "scatters"))
        squares = counts[:, None] * centers.square()
        _check_covariances("moments.scatters", scatters, squares)
        squares = squares + scatters.diagonal(dim1=-2, dim2=-1)
        if not float(counts.sum()) > 0 or not bool(torch.isfinite(squares.sum())):
            raise SchemaError("moments must be sums of weights and of squares")
        model._moments = {name: moments[name].numpy() for name in MOMENTS if name in moments}
        if frame:
            centers = frame["origin"].double() + centers @ frame["axes"].double()
    else:
        model._denoiser = _denoiser(part(tensors, "denoiser"), sizes)
        centers, counts = model._denoiser.centers, model._denoiser.counts
    # Sums of other clusters than the published ones are refused.
    weights = torch.as_tensor(model.weights_).double()
    published = torch.as_tensor(model.cluster_centers_).double()
    distances = (published - centers).norm(dim=1)[weights > 0]
    deviation = torch.as_tensor(model.noise_variance_).double().amax() * sizes["d"]
    extent = published.abs().sum(1).amax() + deviation.sqrt()
    if not bool((distances <= TOLERANCE * extent).all()) or not torch.allclose(
        counts / counts.sum(), weights, rtol=0, atol=TOLERANCE
    ):
        raise SchemaError("the sums must be those of cluster_centers_ and weights_")


def _restore_categories(
    model: Any, tensors: Tensors, plain: Details, sizes: dict[str, int]
) -> None:
    """Restore what is known of the columns of categories."""
    categories = _encoder(plain, sizes["d"])
    layout = categories.layout
    levels = tensors.get("_levels")
    if levels is None or levels.shape[1] != layout.n_levels:
        raise SchemaError(f"_levels must have {layout.n_levels} columns")
    for place in layout.slices:
        # The last one is that of unknown levels.
        if not torch.allclose(levels[:, place][:, :-1].exp().sum(1), torch.ones(()).double()):
            raise SchemaError("_levels must be logarithms of probabilities")
    model._categories, model._levels = categories, levels.numpy()
    model.n_features_in_ = layout.n_columns


def _encoder(plain: Details, d: int) -> CategoryEncoder:
    """Check and return the encoder of a table with ``d`` numbers."""
    try:
        categories = CategoryEncoder.of_json(plain)
        layout = categories.layout
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise SchemaError(f"categories are not as expected ({error!s:.80})") from None
    if len(layout.numbers) != d:
        raise SchemaError(f"there must be {len(layout.numbers)} features beside categories")
    return categories


def _comparison(stored: list[Any]) -> dict[str, list[Any]]:
    """Check and return ``comparison_`` from pairs of names and columns; it may be empty."""
    if not stored:
        return {}
    if not all(list(map(type, pair)) == [str, list] for pair in stored):
        raise SchemaError("comparison must be pairs of names and columns")
    table = {name: [_from_json(entry) for entry in column] for name, column in stored}
    check(table, COMPARISON, {}, prefix="comparison.")
    if len({len(column) for column in table.values()}) > 1:
        raise SchemaError("comparison must have columns of the same length")
    if table["chosen"].count(True) != 1:
        raise SchemaError("comparison must have one chosen row")
    return table


def _to_json(entry: Any) -> Any:
    """JSON has no infinity and no NaN; they are stored as text."""
    return str(entry) if isinstance(entry, float) and not math.isfinite(entry) else entry


def _from_json(entry: Any) -> Any:
    if not isinstance(entry, str | bool | int | float):
        raise SchemaError(f"comparison must hold numbers and text, got {entry!r:.40}")
    return float(entry) if entry in ("inf", "-inf", "nan") else entry


def _check_density(model: Any) -> None:
    """Refuse numbers by which a cluster has no density at its own center."""
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
        levels=model._levels,
    )
    if model._levels is not None:
        centers = torch.cat([centers, centers.new_zeros(model._levels.shape)], 1)
    # At other centers, which may be far away, a density may be zero.
    known = torch.stack([predictor.costs(centers).diagonal(), predictor.log_density(centers)])
    if not bool(torch.isfinite(known[:, predictor.model.log_weights.isfinite()]).all()):
        raise SchemaError(
            "its variances, components and latent_penalty_ give no density at cluster_centers_"
        )


# TAE ------------------------------------------------------------------------------------------


def _pack_deep(model: Any) -> Packed:
    history = _packed(model.history_, HISTORY)
    history["sizes"] = history["sizes"].reshape(-1, len(model.cluster_centers_))
    tree = _packed(vars(model), DEEP)
    tree |= {"history": history, "module": module_state(model.module_)}
    if model._blend is not None:
        tree["blend"] = _packed(vars(model._blend), BLEND)
        if model._blend.denoiser is not None:
            tree["blend"]["denoiser"] = _packed(vars(model._blend.denoiser), DENOISER)
    costs = sample_costs(model.module_)
    if costs is not None:
        tree["sample_costs"] = costs
    return tree, {
        "assignment": model.assignment_,
        "input_shape": model.input_shape_,
        "init": model.init_,
        "sample_shape": model._sample_shape,
        "image_shape": model._images,
        "phases": model.history_["phase"],
    }


def _restore_deep(model: Any, tensors: Tensors, details: Details, sizes: dict[str, int]) -> None:
    """Restore all but the module, which needs the rest of the model to be checked."""
    _restore(model, tensors, DEEP, details, DEEP_DETAILS, sizes)
    if isinstance(model.architecture, str) and model._noise_variance < 0:
        raise SchemaError(f"_noise_variance must not be negative, got {model._noise_variance:g}")
    for attribute, name in (
        ("input_shape_", "input_shape"),
        ("_sample_shape", "sample_shape"),
        ("_images", "image_shape"),
    ):
        shape = details.get(name)
        if shape is not None and math.prod(shape) != sizes["d"]:
            raise SchemaError(f"{name} must have the product {sizes['d']}, got {shape!r:.60}")
        setattr(model, attribute, None if shape is None else tuple(shape))
    given = model.init if isinstance(model.init, str) else "array"
    model.init_ = details.get("init") or given
    seen = model._sample_shape
    if seen is not None and (len(seen) not in (2, 3) or (1, *seen)[-3:] != model._images):
        raise SchemaError(f"sample_shape {seen} does not fit image_shape {model._images}")
    model._code_length = sizes["h"]
    model._blend = None
    if blend := part(tensors, "blend"):
        inner = part(blend, "denoiser")
        sizes["b"] = 2 if inner else 1
        check(blend, BLEND, sizes, prefix="blend.")
        model._blend = Blend(
            weights=blend["weights"],
            denoiser=_denoiser(inner, sizes) if inner else None,
            noise_variance=blend["noise_variance"].item(),
            unit=blend["unit"].item(),
            origin=blend["origin"],
        )
    history, phases = part(tensors, "history"), details["phases"]
    check(history, HISTORY, sizes, prefix="history.")
    if len(phases) != sizes["e"]:
        raise SchemaError(f"history has {sizes['e']} epochs, but {len(phases)} phases")
    columns = {name: history[name].tolist() for name in HISTORY}
    model.history_ = {"epoch": columns.pop("epoch"), "phase": phases, **columns}


# OutlierTAE -----------------------------------------------------------------------------------


def _pack_outliers(model: Any) -> Packed:
    detector: Detector = model._detector
    tree = _packed(vars(model) | vars(detector), DETECTOR)
    tree["calibration"] = _packed(vars(detector.calibration), CALIBRATION)
    for number, member in enumerate(detector.members):
        table = next(table for kind, table in MEMBERS.values() if type(member) is kind)
        tree[f"member{number}"] = _packed(vars(member), table)
    tree["reference"], details = _pack_linear(model.reference_)
    categories = None if model._categories is None else model._categories.to_json()
    return tree, {"reference": details, "categories": categories}


def _restore_outliers(
    model: Any, tensors: Tensors, details: Details, sizes: dict[str, int]
) -> None:
    check(tensors, DETECTOR, sizes)
    check(
        details, {"reference": Value((dict,)), "categories": Value((dict,), optional=True)}, sizes
    )
    d = sizes["d"]
    model.offset_, model.n_samples_ = tensors["offset_"].item(), tensors["n_samples_"].item()
    model.n_features_in_, model._categories = d, None
    views, codes = VIEWS, ()
    if details.get("categories") is not None:
        model._categories = _encoder(details["categories"], d)
        layout = model._categories.layout
        model.n_features_in_, codes, views = layout.n_columns, layout.sizes, VIEWS + 1
    members: list[Member] = []
    while inner := part(tensors, prefix := f"member{len(members)}"):
        kind, table = MEMBERS[next((name for name in MEMBERS if name in inner), "weights")]
        check(inner, table, {"g": GRID}, prefix=f"{prefix}.")
        columns = inner["columns"]
        if int(columns.max()) >= d or bool((columns.diff() <= 0).any()):
            raise SchemaError(f"{prefix}.columns must increase and stay below {d}")
        if kind is LevelMember:
            sizes_of = tuple(inner["sizes"].tolist())
            if sizes_of != codes or inner["levels"].shape[1] != sum(codes):
                raise SchemaError(f"{prefix} must have the levels of the categories")
        if kind is MixtureMember:
            _check_latent_dims(inner["latent_dims"], inner["explained_variance"], positive=True)
        members.append(kind(**_values(inner, table)))
    if len(members) != views * model.n_estimators:
        raise SchemaError(f"it must have {views * model.n_estimators} members, got {len(members)}")
    calibration = part(tensors, "calibration")
    check(calibration, CALIBRATION, {}, prefix="calibration.")
    if not len(calibration["ordinary"]) or bool((calibration["ordinary"].diff() < 0).any()):
        raise SchemaError("calibration.ordinary must increase")
    inner = part(tensors, "reference")
    shape = tuple(getattr(inner.get("components_"), "shape", ()))
    if len(shape) != 3:
        raise SchemaError("reference.components_ is missing")
    reference = model._new_reference(*shape[:2])
    known = {"k": shape[0], "h": shape[1], "d": d}
    _restore_linear(reference, inner, details["reference"], known)
    if reference.spread_ != "own":
        raise SchemaError("the reference must have spread 'own'")
    shift, unit = tensors["shift"].numpy(), tensors["unit"].numpy()
    calibrated = Calibration(**_values(calibration, CALIBRATION))
    model._restore(Detector(shift, unit, tuple(members), calibrated), reference)


# Scattering -----------------------------------------------------------------------------------

SCATTERING = {
    "channel_scale_": Field("c m", above=0),
    "mean_": Field("f"),
    "n_samples_": Field("", WHOLE, low=1),
    "components_": Field("p f", orthonormal=True, optional=True),
    "explained_variance_": _variance("p", optional=True),
}
SIDES = Value((int,), low=1, high=2**20, many=True)
SCATTERING_DETAILS = {
    "image_shape": SIDES,
    "output_shape": SIDES,
    "J": Value((int,), low=1, high=12),
    "enlarge": Value((int,), low=1, high=64),
    "padding": Value((str,), choices=("background", "reflect")),
}


def _pack_scattering(model: Any) -> Packed:
    names = [name for name in SCATTERING if getattr(model, name) is not None]
    tree = _packed(vars(model), {name: SCATTERING[name] for name in names})
    return tree, {name: getattr(model, f"{name}_") for name in SCATTERING_DETAILS}


def _restore_scattering(
    model: Any, tensors: Tensors, details: Details, sizes: dict[str, int]
) -> None:
    check(details, SCATTERING_DETAILS, sizes)
    image, output = tuple(details["image_shape"]), tuple(details["output_shape"])
    if len(image) != 3 or len(output) != 3:
        raise SchemaError("image_shape and output_shape must have three sizes")
    sizes |= {"d": math.prod(image), "c": image[0], "m": output[0]}
    sizes["f"] = image[0] * math.prod(output)
    check(tensors, SCATTERING, sizes)
    if ("components_" in tensors) != ("explained_variance_" in tensors):
        raise SchemaError("components_ and explained_variance_ must come together")
    model.components_ = model.explained_variance_ = None
    vars(model).update(_values(tensors, SCATTERING))
    for name in SCATTERING_DETAILS:
        value = details[name]
        setattr(model, f"{name}_", tuple(value) if isinstance(value, list) else value)
    model.n_features_in_, model.n_components_ = sizes["d"], sizes.get("p", sizes["f"])
    if not model._fits(output):
        raise SchemaError(f"output_shape {output} does not fit images {image} and J={model.J_}")


@dataclass(frozen=True)
class Codec:
    """How the fitted attributes of a class become tensors and JSON, and attributes again."""

    pack: Callable[[Any], Packed]
    restore: Callable[[Any, Tensors, Details, dict[str, int]], None]


# The only classes that a file can name.
CODECS = {
    "LinearTAE": Codec(_pack_linear, _restore_linear),
    "TAE": Codec(_pack_deep, _restore_deep),
    "OutlierTAE": Codec(_pack_outliers, _restore_outliers),
    "Scattering": Codec(_pack_scattering, _restore_scattering),
}

# Common parts ---------------------------------------------------------------------------------


def _packed(values: Mapping[str, Any], table: Mapping[str, Field]) -> dict[str, Any]:
    return {name: _as_tensor(values[name], field.dtypes[0]) for name, field in table.items()}


def _as_tensor(value: Any, dtype: torch.dtype) -> Tensor:
    """Array, tensor, number or list -> a tensor on the CPU, sharing memory where that is safe."""
    if isinstance(value, Tensor):
        return value.detach().cpu()
    if isinstance(value, np.ndarray):
        return torch.from_numpy(np.require(value, requirements=["C", "W", "A"]))
    return torch.tensor(value, dtype=dtype)


def _values(tensors: Tensors, table: Table) -> dict[str, Any]:
    found = {name: tensors[name] for name in table if name in tensors}
    return {name: t.item() if t.ndim == 0 else t.numpy() for name, t in found.items()}


def _restore(
    model: Any,
    tensors: Tensors,
    table: Mapping[str, Field],
    details: Details,
    details_table: Table,
    sizes: dict[str, int],
) -> None:
    """Check tensors and details, and set the attributes that all clusterers have."""
    check(tensors, table, sizes)
    check(details, details_table, sizes)
    labels, k = tensors["labels_"], sizes["k"]
    Field("n", LABELS, low=0, high=k - 1).check("labels_", labels, sizes)
    counts = torch.zeros(k, dtype=torch.int64)
    for some in labels.split(CHUNK):
        counts += torch.bincount(some, minlength=k)
    if not bool((tensors["cluster_sizes_"] >= counts).all()):
        raise SchemaError("cluster_sizes_ must not be less than the counts of labels_")
    vars(model).update(_values(tensors, table))
    model.n_features_in_ = sizes["d"]
    rule = rule_name(model.assignment, estimated_penalty=isinstance(model.latent_penalty, str))
    model.assignment_ = details.get("assignment") or rule


def _check_latent_dims(dims: Tensor, variances: Tensor, *, positive: bool) -> None:
    """Refuse more components than there are, and counted ones without a ``positive`` variance."""
    h = variances.shape[1]
    if int(dims.max()) > h:
        raise SchemaError(f"latent_dims must be at most {h}, got {int(dims.max())}")
    if positive and not bool((variances[torch.arange(h) < dims[:, None]] > 0).all()):
        raise SchemaError("explained_variance must be positive")


def _check_covariances(name: str, matrices: Tensor, about: Tensor) -> None:
    """Refuse matrices (k, q, q) that are no covariances.

    They were computed as differences from numbers of the size of ``about``, so rounding counts.
    """
    squares = matrices.diagonal(dim1=-2, dim2=-1)
    if not squares.numel():
        return
    _variance("k q").check(f"the diagonal of {name}", squares, {})
    slack = float(TOLERANCE * squares.amax() + ROUNDING * about.amax())
    for matrix, lengths in zip(matrices, squares.double().clamp(min=0).sqrt(), strict=True):
        if bool((matrix.abs() > torch.outer(lengths, lengths) + slack).any()):
            raise SchemaError(f"{name} must hold products no larger than their squares")


def _denoiser(tensors: Tensors, sizes: dict[str, int]) -> Denoiser:
    check(tensors, DENOISER, sizes, prefix="denoiser.")
    if sizes["q"] > sizes["d"]:
        raise SchemaError(f"a denoiser of {sizes['d']} features has {sizes['q']} directions")
    about = tensors["centers"].square()
    _check_covariances("denoiser.covariances", tensors["covariances"], about)
    Field("q d", DOUBLE, orthonormal=True).check("denoiser.basis", tensors["basis"].mT, sizes)
    if not float(tensors["counts"].sum()) > 0:
        raise SchemaError("denoiser.counts must not all be zero")
    return Denoiser(*(tensors[field.name] for field in fields_of(Denoiser)))
