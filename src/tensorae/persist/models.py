"""Save and load a fitted model.

An estimator is known by what ``StoredModel`` says, and is found by its name among those that
``register`` was given, so that nothing here imports estimators.

Shapes: n samples, k clusters, d features.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
import torch

import tensorae
from tensorae._schema import SchemaError
from tensorae._torch import isolated_torch
from tensorae._warnings import collected_warnings
from tensorae.data.preparation import Preparation
from tensorae.exceptions import InvalidInputError, InvalidParameterError, ModelFileError
from tensorae.persist.container import (
    Container,
    FileKind,
    read_container,
    split_tree,
    write_container,
)
from tensorae.persist.fitted import CODECS
from tensorae.persist.header import check_header, new_header, read_parameters, stored_parameters
from tensorae.persist.networks import restored_module

if TYPE_CHECKING:
    from tensorae import TAE, LinearTAE, OutlierTAE, TableModel

__all__ = ["FORMAT_VERSION", "StoredModel", "load", "read_header", "register", "save"]

FORMAT_VERSION = 1
KIND = FileKind("tensorae model", FORMAT_VERSION)

logger = logging.getLogger(__name__)


class StoredModel(Protocol):
    """What is asked of an estimator beside its fitted attributes."""

    device: Any

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters of the constructor."""

    def _check_parameters(self) -> None:
        """Refuse parameters that ``fit`` would refuse for the data that was fitted."""

    def _checked_device(self) -> torch.device:
        """Where it computes; an InvalidParameterError where this machine has no such device."""


# Filled by ``register``; nothing is ever imported because a file says so.
CLASSES: dict[str, Callable[..., Any]] = {}
C = TypeVar("C", bound=type)


def register(cls: C) -> C:
    """Let files name a class, which is a StoredModel; a decorator."""
    CLASSES[cls.__name__] = cls
    return cls


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
    model : LinearTAE, TAE, OutlierTAE or TableModel
        A TableModel has its own preprocessing.
    path : path-like
    preprocessing : dict, optional
        What was done to the data before the fit; ``read_header`` gives it back.
    """
    if hasattr(model, "preparation"):
        model, preprocessing = model.estimator, model.preparation.as_header()
    if type(model) not in CLASSES.values():
        raise InvalidParameterError(
            f"a file holds a LinearTAE, a TAE or an OutlierTAE, got {type(model).__name__}, "
            "whose own code it cannot hold; keep it by pickle, or put what is special into "
            "architecture."
        )
    _check_parameters(model)
    try:
        content = _packed(model, preprocessing)
        # Nothing is written that ``load`` would refuse.
        _restored(path, content, device="cpu", remake=False)
    except SchemaError as error:
        raise ModelFileError(
            f"the model cannot be saved as it is: {error}; fit it again before saving."
        ) from None
    write_container(path, KIND, content)


@isolated_torch()
def load(
    path: str | os.PathLike[str], architecture: Any = None, device: Any = None
) -> LinearTAE | TAE | OutlierTAE | TableModel:
    """Read a model that was written by ``save``; it predicts the same, bit for bit.

    A file that knows how to prepare tables, such as one of ``tensorae explore`` or ``tensorae
    fit``, gives a :class:`tensorae.TableModel`, which takes tables as they are; any other gives
    the estimator. A file holds numbers and text, never code, so that a file from a stranger is
    safe to open.

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
    LinearTAE, TAE, OutlierTAE or TableModel
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
    content = read_container(path, KIND)
    try:
        model: Any = _restored(path, content, architecture=architecture, device=device)
    except SchemaError as error:
        raise KIND.damaged(path, str(error)) from None
    if Preparation.is_in(content.header):
        preparation = Preparation.of_header(content.header, os.fspath(path))
        vars(model).pop("feature_names_in_", None)  # it was fitted to prepared arrays
        model = _registered("TableModel")(model, preparation)
    found: LinearTAE | TAE | OutlierTAE | TableModel = model
    return found


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
        check_header(content.header, CODECS)
    except SchemaError as error:
        raise KIND.damaged(path, str(error)) from None
    return {"format_version": content.version, **content.header}


def _packed(model: StoredModel, preprocessing: Mapping[str, Any] | None) -> Container:
    parameters, tensors = stored_parameters(model)
    try:
        tree, details = CODECS[type(model).__name__].pack(model)
    except (AttributeError, KeyError) as error:
        raise SchemaError(f"an attribute of the fit is missing ({error})") from None
    header = new_header(model, parameters, details, preprocessing)
    return Container(header, tensors | split_tree(tree)[1], FORMAT_VERSION)


def _restored(
    path: str | os.PathLike[str],
    content: Container,
    *,
    architecture: Any = None,
    device: Any = None,
    remake: bool = True,
) -> Any:
    """Make the model of a file; a user's own autoencoders only where ``remake`` is set."""
    header, tensors = content.header, content.tensors
    check_header(header, CODECS)
    kind = _registered(header["class"])
    stored = header["parameters"]
    custom = isinstance(stored.get("architecture"), dict)
    if custom and not remake:
        architecture = _no_autoencoder
    given = read_parameters(path, kind, stored, tensors, architecture=architecture, device=device)
    model = kind(**given)
    _settle_device(model, chosen=device is not None)
    sizes = _sizes(given, open_settings=hasattr(model, "spread"))
    CODECS[header["class"]].restore(model, tensors, header["details"], sizes)
    _check_n_clusters(given.get("n_clusters"), sizes.get("k", 0))
    _restore_names(model, header["feature_names"], sizes["d"])
    try:
        _check_parameters(model)
    except (InvalidParameterError, InvalidInputError) as error:
        raise SchemaError(f"its parameters do not fit ({str(error).rstrip('.')})") from None
    # Last, because now all sizes are known to be those of tensors in the file.
    if hasattr(model, "architecture") and (remake or not custom):
        module = restored_module(path, model, tensors, sizes)
        model.module_ = module.to(model._checked_device())
    return model


def _registered(name: str) -> Callable[..., Any]:
    """Find a class by its name; the first use of it in a process registers it."""
    if name not in CLASSES:
        getattr(tensorae, name)
    return CLASSES[name]


def _settle_device(model: StoredModel, *, chosen: bool) -> None:
    """Leave a device that this machine does not have, unless the caller has chosen it."""
    try:
        model._checked_device()
    except InvalidParameterError:
        if chosen:
            raise
        logger.info("the model was fitted on device %r, which is not here", model.device)
        model.device = None


def _no_autoencoder() -> None:
    """Stand in for a user's function where it is not called."""


def _restore_names(model: Any, names: list[str] | None, d: int) -> None:
    if names is None:
        return
    if len(names) != d:
        raise SchemaError(f"it names {len(names)} features of {d}")
    model.feature_names_in_ = np.array(names, dtype=object)


def _sizes(given: Mapping[str, Any], *, open_settings: bool) -> dict[str, int]:
    """Sizes k and h as far as parameters give them; some may be left to the data."""
    sizes = {}
    for letter, name, low in (("k", "n_clusters", 1), ("h", "latent_dim", 0)):
        if "contamination" in given:  # a detector has sizes of its own, checked with the rest
            continue
        value = given.get(name)
        if open_settings and (value == "auto" or isinstance(value, tuple)):
            continue
        least = low if open_settings else 1
        if type(value) is not int or value < least:
            raise SchemaError(
                f"{name} must be a whole number of at least {least}, got {value!r:.40}"
            )
        sizes[letter] = value
    return sizes


def _check_n_clusters(n_clusters: Any, k: int) -> None:
    """Refuse a number of clusters that was not among those to be compared."""
    if isinstance(n_clusters, tuple) and k not in n_clusters:
        raise SchemaError(f"it has {k} clusters, which n_clusters={n_clusters!s:.60} does not name")


def _check_parameters(model: StoredModel) -> None:
    with collected_warnings():
        model._check_parameters()
