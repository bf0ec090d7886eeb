"""The header of a model file: what it says about itself, and constructor parameters <-> JSON.

What is no plain value is stored as follows, and ``load`` gives back:

    init            an array of centres is a tensor of the file  -> the array
    n_clusters      several to compare are a list  -> a tuple
    random_state    a whole number, else null: a generator has moved on since  -> None
    device          its name  -> the same where this machine has it, else None
    architecture    a built-in by its name  -> the same
                    a function by its qualified name, to tell people  -> what load was given
    callbacks       never stored  -> None

Shapes: k clusters, d features.
"""

from __future__ import annotations

import inspect
import math
import numbers
import os
import platform
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import numpy as np
import sklearn
import torch
from torch import Tensor

import tensorae
from tensorae._schema import SchemaError
from tensorae.deep.networks import ARCHITECTURES
from tensorae.exceptions import InvalidParameterError

__all__ = ["check_header", "new_header", "read_parameters", "stored_parameters"]

HEADER: dict[str, tuple[type, ...]] = {
    "class": (str,),
    "parameters": (dict,),
    "feature_names": (list, type(None)),
    "details": (dict,),
    "preprocessing": (dict, type(None)),
    "training": (dict,),
    "versions": (dict,),
    "created": (str,),
}
NEVER_STORED = ("callbacks",)
# Whole numbers of a header are below this; JSON knows some that are no floats.
MOST = 2**63
INIT = {"tensor": "init"}


def new_header(
    model: Any,
    parameters: Mapping[str, Any],
    details: Mapping[str, Any],
    preprocessing: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """Describe a fitted model in what JSON knows; ``details`` are fitted and no numbers."""
    names = getattr(model, "feature_names_in_", None)
    if names is None and preprocessing is not None and "tables" in preprocessing:
        names = preprocessing["columns"]  # of a TableModel
    header = {
        "class": type(model).__name__,
        "parameters": dict(parameters),
        "feature_names": None if names is None else list(names),
        "details": dict(details),
        "preprocessing": preprocessing,
        "training": _summary(model),
        "versions": _versions(),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    return {name: _plain(value, name) for name, value in header.items()}


def check_header(header: Mapping[str, Any], classes: Collection[str]) -> None:
    """Refuse a header in which something is missing, of another kind, or not of ``classes``."""
    for name, kinds in HEADER.items():
        if name not in header or not isinstance(header[name], kinds):
            raise SchemaError(f"{name} is missing from its header")
    if header["class"] not in classes:
        raise SchemaError(
            f"its class must be one of {', '.join(classes)}, got {header['class']!r:.40}"
        )
    if not all(isinstance(name, str) for name in header["feature_names"] or []):
        raise SchemaError("the names of its features are not all text")
    _check_training(header["training"])


def _check_training(training: Mapping[str, Any]) -> None:
    """Refuse a summary that nobody could read out."""
    sizes = training.get("cluster_sizes")
    counts = [training.get("n_samples"), training.get("n_features")]
    counts += sizes if isinstance(sizes, list) else [None]
    if not all(type(count) is int and 0 <= count < MOST for count in counts):
        raise SchemaError("the numbers of rows, columns and members are not all whole numbers")
    dims = training.get("latent_dims", [])
    if not isinstance(dims, list) or not all(type(h) is int and 0 <= h < MOST for h in dims):
        raise SchemaError("the numbers of components are not all whole numbers")
    if not isinstance(training.get("spread"), str | None):
        raise SchemaError(f"the spread must be text, got {training['spread']!r:.40}")
    loss = training.get("loss")
    number = isinstance(loss, float) or (type(loss) is int and abs(loss) < MOST)
    if loss is not None and not number:
        raise SchemaError(f"the loss must be a number, got {loss!r:.40}")


def _summary(model: Any) -> dict[str, Any]:
    """How the fit went, for people; nothing is computed from it."""
    if not hasattr(model, "cluster_sizes_"):  # a detector, whose clusters are its reference's
        return {
            "n_samples": model.n_samples_,
            "n_features": model.n_features_in_,
            "cluster_sizes": [],
        }
    summary = {
        "n_samples": int(model.cluster_sizes_.sum()),
        "n_features": model.cluster_centers_.shape[1],
        "cluster_sizes": model.cluster_sizes_.tolist(),
    }
    for name in ("loss_", "latent_penalty_", "n_iter_", "converged_", "best_epoch_"):
        if hasattr(model, name):
            value = getattr(model, name)
            summary[name.removesuffix("_")] = value if math.isfinite(value) else None
    if hasattr(model, "spread_"):
        summary |= {"spread": model.spread_, "latent_dims": model.latent_dims_.tolist()}
    return summary


def _versions() -> dict[str, str]:
    return {
        "tensorae": tensorae.__version__,
        "torch": str(torch.__version__),
        "numpy": np.__version__,
        "scikit-learn": sklearn.__version__,
        "python": platform.python_version(),
    }


# Parameters -----------------------------------------------------------------------------------


def stored_parameters(model: Any) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Parameters of a model as JSON, and the tensors that belong to them."""
    given = model.get_params(deep=False)
    tensors: dict[str, Tensor] = {}
    stored: dict[str, Any] = {}
    for name, value in given.items():
        if name in NEVER_STORED:
            continue
        if name == "init" and not isinstance(value, str):
            tensors["init"] = _centers(value)
            stored[name] = INIT
        elif name == "n_clusters" and isinstance(value, Iterable) and not isinstance(value, str):
            stored[name] = _plain(list(value), name)
        elif name == "random_state":
            stored[name] = int(value) if isinstance(value, numbers.Integral) else None
        elif name == "device":
            stored[name] = None if value is None else str(value)
        elif name == "architecture" and not isinstance(value, str):
            stored[name] = {"custom": _name_of_callable(value)}
        else:
            stored[name] = _plain(value, name)
    return stored, tensors


def read_parameters(
    path: str | os.PathLike[str],
    kind: Callable[..., Any],
    stored: Any,
    tensors: dict[str, Tensor],
    *,
    architecture: Any = None,
    device: Any = None,
) -> dict[str, Any]:
    """Turn stored parameters into those of the constructor of ``kind``.

    ``architecture`` and ``device`` are those that ``load`` was given; the path is for messages.
    """
    known = set(inspect.signature(kind).parameters) - set(NEVER_STORED)
    if not isinstance(stored, dict) or not set(stored) <= known:
        unknown = ", ".join(sorted(set(stored) - known)) if isinstance(stored, dict) else stored
        raise SchemaError(f"{kind.__name__} has no such parameters: {str(unknown)[:80]}")
    given = dict(stored)
    if "spread" in known:
        given.setdefault("spread", "shared")  # files of 0.1.0 knew no other
    if given.get("init") == INIT and "init" in tensors:
        given["init"] = tensors["init"].numpy()
    for name in ("input_shape", "n_clusters"):
        if isinstance(given.get(name), list):
            given[name] = tuple(given[name])
    if not isinstance(given.setdefault("device", None), str | None):
        raise SchemaError(f"device must be text, got {given['device']!r:.40}")
    if device is not None:
        given["device"] = device
    custom = _architecture(path, given.get("architecture"), architecture)
    if custom is not None:
        given["architecture"] = custom
    return given


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
        f"{where} must be made of text, finite numbers, lists and dicts with text as keys to be "
        f"saved, got {value!r:.60}; convert it."
    )


def _name_of_callable(function: Any) -> str:
    """Qualified name of a function, of what a partial calls, or of the class of an object."""
    while hasattr(function, "func"):
        function = function.func
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"{named.__module__}.{named.__qualname__}"


def _centers(init: Any) -> Tensor:
    values = init.detach().cpu().numpy() if isinstance(init, Tensor) else np.asarray(init)
    kind = np.float32 if values.dtype == np.float32 else np.float64
    return torch.from_numpy(np.array(values, dtype=kind))


def _architecture(path: str | os.PathLike[str], stored: Any, given: Any) -> Any:
    """Architecture that was handed to ``load``, where the file needs one; None where not."""
    name = os.fspath(path)
    if isinstance(stored, dict):
        wanted = str(stored.get("custom"))[:200]
        if given is None or not callable(given) or isinstance(given, torch.nn.Module):
            raise InvalidParameterError(
                f"{name!r} has autoencoders of its own, made by {wanted!r}, and a file holds no "
                f"code; got architecture={given!r:.60}; pass that function: "
                "load(path, architecture=...)."
            )
        return given
    if given is not None and given != stored:
        has = f"the built-in architecture {stored!r}" if stored in ARCHITECTURES else "none"
        raise InvalidParameterError(
            f"architecture must be left out for {name!r}, which has {has}, got {given!r:.60}; "
            "call load(path)."
        )
    return None
