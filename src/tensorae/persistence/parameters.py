"""Constructor parameters <-> JSON.

What is no plain value is stored as follows, and ``load`` gives back:

    init            an array of centres is a tensor of the file  -> the array
    random_state    a whole number, else null: a generator has moved on since  -> None
    device          its name  -> the same where this machine has it, else None
    architecture    a built-in by its name  -> the same
                    a function by its qualified name, to tell people  -> what load was given
    callbacks       never stored  -> None
"""

from __future__ import annotations

import inspect
import logging
import math
import numbers
import os
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tensorae.deep.architectures import ARCHITECTURES
from tensorae.estimators.base import BaseTAE
from tensorae.estimators.options import check_device
from tensorae.exceptions import InvalidParameterError
from tensorae.persistence.fields import MisfitError

__all__ = ["name_of_callable", "plain", "read_parameters", "stored_parameters"]

logger = logging.getLogger(__name__)

NEVER_STORED = ("callbacks",)
INIT = {"tensor": "init"}


def stored_parameters(model: BaseTAE) -> tuple[dict[str, Any], dict[str, Tensor]]:
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
        elif name == "random_state":
            stored[name] = int(value) if isinstance(value, numbers.Integral) else None
        elif name == "device":
            stored[name] = None if value is None else str(value)
        elif name == "architecture" and not isinstance(value, str):
            stored[name] = {"custom": name_of_callable(value)}
        else:
            stored[name] = plain(value, name)
    return stored, tensors


def read_parameters(
    path: str | os.PathLike[str],
    kind: type[BaseTAE],
    stored: Any,
    tensors: dict[str, Tensor],
    *,
    architecture: Any = None,
    device: Any = None,
) -> dict[str, Any]:
    """Turn stored parameters into those of the constructor of ``kind``.

    Parameters
    ----------
    path : path-like
        For messages.
    kind : type
    stored : dict
        As ``stored_parameters`` gave it.
    tensors : dict of Tensor
        Of the file.
    architecture, device : object, optional
        As ``load`` was given them.

    Returns
    -------
    dict
    """
    known = set(inspect.signature(kind).parameters) - set(NEVER_STORED)
    if not isinstance(stored, dict) or not set(stored) <= known:
        unknown = ", ".join(sorted(set(stored) - known)) if isinstance(stored, dict) else stored
        raise MisfitError(f"{kind.__name__} has no such parameters: {str(unknown)[:80]}")
    given = dict(stored)
    if given.get("init") == INIT and "init" in tensors:
        given["init"] = tensors["init"].numpy()
    if isinstance(given.get("input_shape"), list):
        given["input_shape"] = tuple(given["input_shape"])
    given["device"] = _device(path, given.get("device")) if device is None else device
    custom = _architecture(path, given.get("architecture"), architecture)
    if custom is not None:
        given["architecture"] = custom
    return given


def plain(value: Any, where: str) -> Any:
    """Value with JSON's own kinds only: numbers of NumPy become Python's, arrays become lists.

    Parameters
    ----------
    value : object
    where : str
        What to call it in an error.

    Returns
    -------
    object
    """
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return float(value)
    if isinstance(value, list | tuple):
        return [plain(entry, f"{where}[{i}]") for i, entry in enumerate(value)]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: plain(entry, f"{where}[{key!r}]") for key, entry in value.items()}
    raise InvalidParameterError(
        f"{where} must be made of text, finite numbers, lists and dicts with text as keys to be "
        f"saved, got {value!r:.60}; convert it."
    )


def name_of_callable(function: Any) -> str:
    """Qualified name of a function, of what a partial calls, or of the class of an object."""
    while hasattr(function, "func"):
        function = function.func
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"{named.__module__}.{named.__qualname__}"


def _centers(init: Any) -> Tensor:
    values = init.detach().cpu().numpy() if isinstance(init, Tensor) else np.asarray(init)
    kind = np.float32 if values.dtype == np.float32 else np.float64
    return torch.from_numpy(np.array(values, dtype=kind))


def _device(path: str | os.PathLike[str], stored: Any) -> str | None:
    """Name of a device that this machine has, or None."""
    if stored is None:
        return None
    if not isinstance(stored, str):
        raise MisfitError(f"device must be text, got {stored!r:.40}")
    try:
        check_device(stored, torch.device("cpu"))
    except InvalidParameterError:
        logger.info("the model was fitted on device %r, which is not here", stored)
        return None
    return stored


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
