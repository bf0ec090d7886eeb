"""Save and load a fitted model.

Shapes: n samples, k clusters, d features.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tensorae.deep.module import TensorizedAutoencoder
from tensorae.estimators.base import BaseTAE
from tensorae.estimators.deep import TAE
from tensorae.estimators.deep_options import check_input_shape, deep_options
from tensorae.estimators.linear import LinearTAE
from tensorae.estimators.options import check_device, check_seed, linear_options
from tensorae.estimators.validation import check_fitted
from tensorae.exceptions import InvalidInputError, InvalidParameterError, ModelFileError
from tensorae.persistence.fields import MisfitError, part
from tensorae.persistence.header import CLASSES, check_header, new_header
from tensorae.persistence.modules import (
    BUFFERS,
    built_in_module,
    check_sample_costs,
    custom_module,
    sample_costs,
)
from tensorae.persistence.parameters import read_parameters, stored_parameters
from tensorae.persistence.state import (
    deep_details,
    deep_tensors,
    linear_tensors,
    restore_deep,
    restore_linear,
)
from tensorae.storage.container import (
    Container,
    FileKind,
    read_container,
    write_container,
)

__all__ = ["FORMAT_VERSION", "load", "read_header", "save"]

FORMAT_VERSION = 1
KIND = FileKind("tensorae model", FORMAT_VERSION)


def save(
    model: BaseTAE,
    path: str | os.PathLike[str],
    *,
    preprocessing: Mapping[str, Any] | None = None,
) -> None:
    """Write a fitted model to one file; see :meth:`tensorae.LinearTAE.save`.

    Parameters
    ----------
    model : LinearTAE or TAE
    path : path-like
    preprocessing : dict, optional
        What was done to the data before the fit; ``read_header`` gives it back.
    """
    check_fitted(model)
    if type(model) not in CLASSES.values():
        raise InvalidParameterError(
            f"a file holds a LinearTAE or a TAE, got {type(model).__name__}, whose own code it "
            "cannot hold; keep it by pickle, or put what is special into architecture."
        )
    _check_parameters(model)
    try:
        content = _packed(model, preprocessing)
        # Nothing is written that ``load`` would refuse.
        _restored(path, content, device="cpu", remake=False)
    except MisfitError as error:
        raise ModelFileError(
            f"the model cannot be saved as it is: {error}; fit it again before saving."
        ) from None
    write_container(path, KIND, content)


def load(
    path: str | os.PathLike[str], architecture: Any = None, device: Any = None
) -> LinearTAE | TAE:
    """Read a model that was written by ``save``; it predicts the same, bit for bit.

    A file holds numbers and text, never code, so that a file from a stranger is safe to open.

    Parameters
    ----------
    path : path-like
    architecture : callable, optional
        For a ``TAE`` with autoencoders of your own: the function that it was fitted with. It is
        named in the file, but not part of it.
    device : str, torch.device or None, default=None
        Where the model computes. None: where it was fitted, if this machine has that device,
        else as if no device had been given.

    Returns
    -------
    LinearTAE or TAE
        Fitted. ``random_state`` is None if it was a generator, and ``callbacks`` is None.

    Raises
    ------
    ModelFileError
        The file is missing, damaged, of another kind, or of a newer version.
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
    if device is not None:
        check_device(device, torch.device("cpu"))
    content = read_container(path, KIND)
    try:
        return _restored(path, content, architecture=architecture, device=device)
    except MisfitError as error:
        raise KIND.damaged(path, str(error)) from None


def read_header(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Tell what a model file says about itself, without making the model.

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
        The file is missing, damaged, of another kind, or of a newer version.
    """
    content = read_container(path, KIND)
    try:
        check_header(content.header)
    except MisfitError as error:
        raise KIND.damaged(path, str(error)) from None
    return {"format_version": content.version, **content.header}


# Writing --------------------------------------------------------------------------------------


def _packed(model: BaseTAE, preprocessing: Mapping[str, Any] | None) -> Container:
    parameters, tensors = stored_parameters(model)
    details: dict[str, Any] = {}
    try:
        if isinstance(model, TAE):
            details = deep_details(model)
            tensors |= deep_tensors(model)
            costs = sample_costs(model.module_)
            if costs is not None:
                tensors["sample_costs"] = costs
        else:
            tensors |= linear_tensors(model)
    except (AttributeError, KeyError) as error:
        raise MisfitError(f"an attribute of the fit is missing ({error})") from None
    header = new_header(model, parameters, details, preprocessing)
    return Container(header, tensors, FORMAT_VERSION)


# Reading --------------------------------------------------------------------------------------


def _restored(
    path: str | os.PathLike[str],
    content: Container,
    *,
    architecture: Any = None,
    device: Any = None,
    remake: bool = True,
) -> LinearTAE | TAE:
    """Make the model of a file; a user's own autoencoders only where ``remake`` is set."""
    header, tensors = content.header, content.tensors
    check_header(header)
    kind = CLASSES[header["class"]]
    stored = header["parameters"]
    custom = isinstance(stored.get("architecture"), dict)
    if custom and not remake:
        architecture = _no_autoencoder
    given = read_parameters(path, kind, stored, tensors, architecture=architecture, device=device)
    model = kind(**given)
    sizes = {"k": _whole(given, "n_clusters"), "h": _whole(given, "latent_dim")}
    if isinstance(model, TAE):
        restore_deep(model, tensors, header["details"], sizes)
    else:
        assert isinstance(model, LinearTAE)
        restore_linear(model, tensors, sizes)
    _restore_names(model, header["feature_names"], sizes["d"])
    try:
        _check_parameters(model)
    except (InvalidParameterError, InvalidInputError) as error:
        raise MisfitError(f"its parameters do not fit ({str(error).rstrip('.')})") from None
    # Last, because now all sizes are known to be those of tensors in the file.
    if isinstance(model, TAE) and (remake or not custom):
        model.module_ = _module(path, model, tensors, sizes)
    return model


def _module(
    path: str | os.PathLike[str],
    model: TAE,
    tensors: Mapping[str, Tensor],
    sizes: Mapping[str, int],
) -> TensorizedAutoencoder:
    state, shape = part(tensors, "module"), model.input_shape_
    custom = not isinstance(model.architecture, str)
    if custom:
        module = custom_module(path, model.architecture, sizes["k"], shape, state)
    else:
        module = built_in_module(model.architecture, sizes["k"], shape, sizes["h"], state)
    if not all(bool(torch.isfinite(getattr(module, name)).all()) for name in BUFFERS):
        raise MisfitError("the centres or scales of the module contain NaN or infinity")
    if "sample_costs" in tensors:
        check_sample_costs(path, module, tensors["sample_costs"], custom=custom)
    return module.to(check_device(model.device, torch.device("cpu")))


def _no_autoencoder() -> None:
    """Stand in for a user's function where it is not called."""


def _restore_names(model: BaseTAE, names: list[str] | None, d: int) -> None:
    if names is None:
        return
    if len(names) != d:
        raise MisfitError(f"it names {len(names)} features of {d}")
    model.feature_names_in_ = np.array(names, dtype=object)


def _whole(given: Mapping[str, Any], name: str) -> int:
    value = given.get(name)
    if type(value) is not int or value < 1:
        raise MisfitError(f"{name} must be a whole number of at least 1, got {value!r:.40}")
    return value


def _check_parameters(model: BaseTAE) -> None:
    """Refuse parameters that ``fit`` would refuse for the data that was fitted."""
    # As large as the data, and no memory behind it.
    like = torch.zeros(1, 1).expand(len(model.labels_), model.n_features_in_)
    parameters = model.get_params(deep=False)
    check_seed(parameters["random_state"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if isinstance(model, TAE):
            check_input_shape(model.input_shape, model.n_features_in_)
            deep_options(parameters, like, model.input_shape_)
        elif isinstance(model, LinearTAE):
            linear_options(parameters, like)
            model._checked_batch_size()
