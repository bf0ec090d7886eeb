"""Save and load a fitted model: constructor parameters, fitted attributes, and a description.

Parameters that are not plain values are stored as follows, and ``load`` gives back:

    init            an array of centers is a tensor of the file  -> the array
    n_clusters      several to compare are a list  -> a tuple
    random_state    an integer, else null: a generator has moved on since  -> None
    device          its name  -> the same where this machine has it, else None
    architecture    a built-in by its name  -> the same
                    a function by its qualified name, to tell people  -> what load was given
    callbacks       never stored  -> None
"""

# n samples, k clusters, d features, h latent

from __future__ import annotations

import inspect
import logging
import math
import numbers
import os
import platform
import sys
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import numpy as np
import sklearn
import torch
from sklearn.pipeline import Pipeline
from torch import Tensor

import tensorae
from tensorae._schema import COUNT, NUMBER, SchemaError, Value, check
from tensorae._torch import isolated_torch
from tensorae._validation import check_fitted
from tensorae._warnings import collected_warnings
from tensorae.data.preparation import Preparation
from tensorae.exceptions import InvalidInputError, InvalidParameterError, ModelFileError
from tensorae.persist.container import (
    Container,
    FileKind,
    part,
    read_container,
    split_tree,
    write_container,
)
from tensorae.persist.fitted import CODECS
from tensorae.persist.networks import restored_module

FORMAT_VERSION = 1
KIND = FileKind("tensorae model", FORMAT_VERSION)
NEVER_STORED = ("callbacks",)
INIT = {"tensor": "init"}
HEADER = {
    "class": Value((str,), choices=(*CODECS, "Pipeline")),
    "parameters": Value((dict,)),
    "feature_names": Value((str,), many=True, optional=True),
    "details": Value((dict,)),
    "preprocessing": Value((dict,), optional=True),
    "training": Value((dict,)),
    "versions": Value((dict,)),
    "created": Value((str,)),
}
TRAINING = {
    "n_samples": COUNT,
    "n_features": COUNT,
    "cluster_sizes": Value((int,), low=0, high=COUNT.high, many=True),
    "latent_dims": Value((int,), low=0, high=COUNT.high, many=True, optional=True),
    "spread": Value((str,), optional=True),
    "loss": Value(
        NUMBER, low=-sys.float_info.max, high=sys.float_info.max, optional=True
    ),  # such as 10**400, which is valid JSON
}

logger = logging.getLogger(__name__)


@isolated_torch()
def save(
    model: Any,
    path: str | os.PathLike[str],
    *,
    preprocessing: Mapping[str, Any] | None = None,
) -> None:
    """Write a fitted model to one file; see :meth:`tensorae.LinearTAE.save`.

    Parameters
    ----------
    model : LinearTAE, TAE, OutlierTAE, TableModel, Scattering or sklearn.pipeline.Pipeline
        A TableModel has its own preprocessing. Each step of a Pipeline is one of the others, such
        as Scattering and LinearTAE.
    path : path-like
    preprocessing : dict, optional
        What was done to the data before the fit; ``read_header`` gives it back.
    """
    if isinstance(model, Pipeline):
        content = _pipeline_content(path, model, preprocessing)
    else:
        content = _content(path, model, preprocessing)
    write_container(path, KIND, content)


@isolated_torch()
def load(path: str | os.PathLike[str], architecture: Any = None, device: Any = None) -> Any:
    """Read a model that was written by ``save``; it predicts the same, bit for bit.

    A file that contains the preparation of tables, such as one of ``tensorae explore`` or
    ``tensorae fit``, gives a :class:`tensorae.TableModel`, which takes raw tables; any other gives
    the estimator. A file holds numbers and text, never code, so that a file from a stranger is
    safe to open.

    Parameters
    ----------
    path : path-like
    architecture : callable, optional
        For a ``TAE`` with your own autoencoders: the function that it was fitted with. The file
        names it, but does not contain it.
    device : str, torch.device or None, default=None
        Where the model computes. None: where it was fitted, if this machine has that device,
        else as if no device had been given.

    Returns
    -------
    LinearTAE, TAE, OutlierTAE, TableModel, Scattering or sklearn.pipeline.Pipeline
        Fitted. ``random_state`` is None if it was a generator, and ``callbacks`` is None.

    Raises
    ------
    ModelFileError
        The file is missing, damaged, of another kind, or of an unknown version.
    InvalidParameterError
        ``architecture`` is missing or not the one that the model was saved with, or this machine
        does not have ``device``.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklearn.datasets import load_iris
    >>> from tensorae import LinearTAE, load
    >>> X = load_iris().data
    >>> model = LinearTAE(n_clusters=3, latent_dim=1, random_state=0).fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(Path(folder, "iris.tae"))
    ...     again = load(Path(folder, "iris.tae"))
    >>> bool((again.transform(X) == model.transform(X)).all())
    True
    """
    content = read_container(path, KIND)
    try:
        model: Any = _restored(path, content, architecture=architecture, device=device)
    except SchemaError as error:
        raise KIND.damaged(path, str(error)) from None
    if Preparation.is_in(content.header):
        preparation = Preparation.of_header(content.header, os.fspath(path))
        if not preparation.categories:
            vars(model).pop("feature_names_in_", None)  # it was fitted to prepared arrays
        model = tensorae.TableModel(model, preparation)
    return model


def read_header(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return what a model file says about itself, without making the model.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    dict
        ``format_version``, ``class``, ``parameters``, ``feature_names`` (or None),
        ``preprocessing`` (or None), ``training`` (n_samples, n_features, cluster_sizes, loss and
        more), ``versions`` and ``created``.

    Raises
    ------
    ModelFileError
        The file is missing, damaged, of another kind, or of an unknown version.
    """
    content = read_container(path, KIND)
    try:
        header = _checked_header(content.header)
    except SchemaError as error:
        raise KIND.damaged(path, str(error)) from None
    return {"format_version": content.version, **header}


def _content(
    path: str | os.PathLike[str], model: Any, preprocessing: Mapping[str, Any] | None
) -> Container:
    """Header and tensors of a fitted model; nothing that ``load`` would refuse."""
    if hasattr(model, "preparation"):
        model, preprocessing = model.estimator, model.preparation.as_header()
    name = type(model).__name__
    if name not in CODECS or type(model) is not getattr(tensorae, name):
        raise InvalidParameterError(
            f"model must be a {', '.join(CODECS)} or a Pipeline of them, got {name}: a file cannot "
            "hold code of your own; use pickle, or move your code into architecture."
        )
    _check_parameters(model)
    try:
        parameters, tensors = _stored_parameters(model)
        try:
            tree, details = CODECS[name].pack(model)
        except (AttributeError, KeyError) as error:
            raise SchemaError(f"a fitted attribute is missing ({error})") from None
        header = _new_header(model, parameters, details, preprocessing)
        content = Container(header, tensors | split_tree(tree)[1], FORMAT_VERSION)
        _restored(path, content, device="cpu", remake=False)
    except SchemaError as error:
        raise ModelFileError(
            f"the model cannot be saved as it is: {error}; fit it again before saving."
        ) from None
    return content


# Pipelines ------------------------------------------------------------------------------------

# The header is that of the last step, but for its class and its features; the headers of all steps
# are in details, and tensors have the number of their step before their names.


def _pipeline_content(
    path: str | os.PathLike[str], pipeline: Pipeline, preprocessing: Mapping[str, Any] | None
) -> Container:
    for _, step in pipeline.steps:
        if type(step).__name__ in CODECS:
            check_fitted(step)
    parts = [_content(path, step, None) for _, step in pipeline.steps]
    header = {
        **parts[-1].header,
        "class": "Pipeline",
        "parameters": {},
        "feature_names": parts[0].header["feature_names"],
        "training": {
            **parts[-1].header["training"],
            "n_features": parts[0].header["training"]["n_features"],
        },
        "details": {
            "steps": [
                [name, part.header] for (name, _), part in zip(pipeline.steps, parts, strict=True)
            ]
        },
        "preprocessing": None
        if preprocessing is None
        else _plain(dict(preprocessing), "preprocessing"),
    }
    tensors = {
        f"{number}.{name}": tensor
        for number, one in enumerate(parts)
        for name, tensor in one.tensors.items()
    }
    return Container(header, tensors, FORMAT_VERSION)


def _restored_pipeline(
    path: str | os.PathLike[str], content: Container, architecture: Any, device: Any
) -> Pipeline:
    listed = content.header["details"].get("steps")
    if (
        not isinstance(listed, list)
        or not listed
        or any(
            not isinstance(pair, list) or list(map(type, pair)) != [str, dict] for pair in listed
        )
    ):
        raise SchemaError("steps must be pairs of names and headers")
    names = [name for name, _ in listed]
    if len(set(names)) < len(names) or any(not name or "__" in name for name in names):
        raise SchemaError(f"the names of the steps must differ and have no '__', got {names!s:.80}")
    steps: list[tuple[str, Any]] = []
    for number, (name, header) in enumerate(listed):
        if header.get("class") == "Pipeline":
            raise SchemaError("a step must not be a Pipeline")
        step = Container(header, part(content.tensors, str(number)), content.version)
        own = isinstance(header.get("parameters"), dict) and "architecture" in header["parameters"]
        given = architecture if own else None
        steps.append((name, _restored(path, step, architecture=given, device=device)))
    for (first, before), (second, after) in pairwise(steps):
        if getattr(before, "_n_features_out", None) != after.n_features_in_:
            raise SchemaError(f"{second} does not take what {first} gives")
    return Pipeline(steps)


def _restored(
    path: str | os.PathLike[str],
    content: Container,
    *,
    architecture: Any = None,
    device: Any = None,
    remake: bool = True,
) -> Any:
    """Make the model of a file; a user's own autoencoders only where ``remake`` is set."""
    header, tensors = _checked_header(content.header), content.tensors
    if header["class"] == "Pipeline":
        return _restored_pipeline(path, content, architecture, device)
    cls = getattr(tensorae, header["class"])
    custom = isinstance(header["parameters"].get("architecture"), dict)
    if custom and not remake:
        architecture = dict  # stands in for a function that is not called
    given = _read_parameters(path, cls, header["parameters"], tensors, architecture, device)
    model = cls(**given)
    try:
        model._checked_device()
    except InvalidParameterError:
        if device is not None:
            raise
        logger.info("the model was fitted on device %r, which is not here", model.device)
        model.device = None
    sizes = _sizes(model)
    CODECS[header["class"]].restore(model, tensors, header["details"], sizes)
    k, n_clusters, names = sizes.get("k"), given.get("n_clusters"), header["feature_names"]
    if isinstance(n_clusters, tuple) and k not in n_clusters:
        raise SchemaError(f"it has {k} clusters, which is not in n_clusters={n_clusters!s:.60}")
    if names is not None:
        if len(names) != model.n_features_in_:
            raise SchemaError(
                f"feature_names must have {model.n_features_in_} entries, got {len(names)}"
            )
        model.feature_names_in_ = np.array(names, dtype=object)
    try:
        _check_parameters(model)
    except (InvalidParameterError, InvalidInputError) as error:
        raise SchemaError(f"its parameters do not fit ({str(error).rstrip('.')})") from None
    # Last, because now all sizes are known to be those of tensors in the file.
    if hasattr(model, "architecture") and (remake or not custom):
        module = restored_module(path, model, tensors, sizes)
        model.module_ = module.to(model._checked_device())
    return model


def _check_parameters(model: Any) -> None:
    with collected_warnings():
        model._check_parameters()


def _sizes(model: Any) -> dict[str, int]:
    """Sizes k and h as far as parameters give them; LinearTAE may find them from the data."""
    sizes: dict[str, int] = {}
    # The clusters of a detector are those of its reference.
    if hasattr(model, "contamination") or not hasattr(model, "n_clusters"):
        return sizes
    linear = hasattr(model, "spread")
    for letter, name, low in (("k", "n_clusters", 1), ("h", "latent_dim", 0 if linear else 1)):
        value = getattr(model, name)
        if not (linear and (value == "auto" or isinstance(value, tuple))):
            Value((int,), low=low, high=2**63).check(name, value)
            sizes[letter] = value
    return sizes


# The header -----------------------------------------------------------------------------------


def _new_header(
    model: Any,
    parameters: dict[str, Any],
    details: dict[str, Any],
    preprocessing: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """Describe a fitted model in JSON."""
    names = getattr(model, "feature_names_in_", None)
    if names is None and preprocessing is not None and "tables" in preprocessing:
        names = preprocessing["columns"]  # of a TableModel
    header = {
        "class": type(model).__name__,
        "parameters": parameters,
        "feature_names": names,
        "details": details,
        "preprocessing": None if preprocessing is None else dict(preprocessing),
        "training": _summary(model),
        "versions": {
            "tensorae": tensorae.__version__,
            "torch": str(torch.__version__),
            "numpy": np.__version__,
            "scikit-learn": sklearn.__version__,
            "python": platform.python_version(),
        },
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    return {name: _plain(value, name) for name, value in header.items()}


def _checked_header(header: Mapping[str, Any]) -> dict[str, Any]:
    """Return a header of which all entries are there."""
    check(header, HEADER, {})
    check(header["training"], TRAINING, {}, prefix="training.")
    return {**dict.fromkeys(HEADER), **header}


def _summary(model: Any) -> dict[str, Any]:
    """Tell people how the fit went; nothing is computed from it."""
    if not hasattr(model, "cluster_sizes_"):  # a detector, or a transformer
        return {
            "n_samples": model.n_samples_,
            "n_features": model.n_features_in_,
            "cluster_sizes": [],
        }
    summary = {
        "n_samples": int(model.cluster_sizes_.sum()),
        "n_features": model.n_features_in_,
        "cluster_sizes": model.cluster_sizes_.tolist(),
    }
    for name in ("loss_", "latent_penalty_", "n_iter_", "converged_", "best_epoch_"):
        if hasattr(model, name):
            value = getattr(model, name)
            summary[name.removesuffix("_")] = value if math.isfinite(value) else None
    if hasattr(model, "spread_"):
        summary |= {"spread": model.spread_, "latent_dims": model.latent_dims_.tolist()}
    return summary


def _plain(value: Any, where: str) -> Any:
    """Value with JSON's own types only; ``where`` is what an error calls it."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return float(value)
    if isinstance(value, list | tuple):
        return [_plain(entry, f"{where}[{i}]") for i, entry in enumerate(value)]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: _plain(entry, f"{where}[{key!r}]") for key, entry in value.items()}
    raise InvalidParameterError(
        f"{where} must consist of strings, finite numbers, lists and dicts with string keys to be "
        f"saved, got {value!r:.60}; convert it."
    )


# Parameters -----------------------------------------------------------------------------------


def _stored_parameters(model: Any) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Parameters of a model as JSON, and the tensors that belong to them."""
    tensors: dict[str, Tensor] = {}
    stored: dict[str, Any] = {}
    for name, value in model.get_params(deep=False).items():
        if name in NEVER_STORED:
            continue
        if name == "init" and not isinstance(value, str):
            if isinstance(value, Tensor):
                value = value.detach().cpu().numpy()
            dtype = np.float32 if getattr(value, "dtype", None) == np.float32 else np.float64
            tensors["init"] = torch.from_numpy(np.array(value, dtype=dtype))
            value = INIT
        elif name == "n_clusters" and isinstance(value, Iterable) and not isinstance(value, str):
            value = list(value)
        elif name == "random_state":
            value = int(value) if isinstance(value, numbers.Integral) else None
        elif name == "device":
            value = None if value is None else str(value)
        elif name == "architecture" and not isinstance(value, str):
            while hasattr(value, "func"):  # of a partial
                value = value.func
            named = value if hasattr(value, "__qualname__") else type(value)
            value = {"custom": f"{named.__module__}.{named.__qualname__}"}
        stored[name] = _plain(value, name)
    return stored, tensors


def _read_parameters(
    path: str | os.PathLike[str],
    cls: type,
    stored: dict[str, Any],
    tensors: dict[str, Tensor],
    architecture: Any,
    device: Any,
) -> dict[str, Any]:
    """Turn stored parameters into those of the constructor, with what ``load`` was given."""
    unknown = set(stored) - (set(inspect.signature(cls).parameters) - set(NEVER_STORED))
    if unknown:
        raise SchemaError(f"{cls.__name__} has no parameters {', '.join(sorted(unknown))[:80]}")
    given = {"device": None, **stored}
    Value((str,), optional=True).check("device", given["device"])
    if device is not None:
        given["device"] = device
    if given.get("init") == INIT and "init" in tensors:
        given["init"] = tensors["init"].numpy()
    for name in ("input_shape", "image_shape", "n_clusters"):
        if isinstance(given.get(name), list):
            given[name] = tuple(given[name])
    kept = given.get("architecture")
    if isinstance(kept, dict):
        if not callable(architecture) or isinstance(architecture, torch.nn.Module):
            raise InvalidParameterError(
                f"{os.fspath(path)!r} needs the function {str(kept.get('custom'))[:200]!r} that "
                f"made its autoencoders, because a file holds no code; got "
                f"architecture={architecture!r:.60}; pass it: load(path, architecture=...)."
            )
        given["architecture"] = architecture
    elif architecture is not None and architecture != kept:
        raise InvalidParameterError(
            f"architecture must be omitted for {os.fspath(path)!r}, whose architecture is "
            f"{kept!r:.60}, got {architecture!r:.60}; call load(path)."
        )
    return given
