"""The header of a model file: what it says about itself.

Shapes: k clusters, d features.
"""

from __future__ import annotations

import math
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import numpy as np
import sklearn
import torch

import tensorae
from tensorae.estimators.base import BaseTAE
from tensorae.estimators.deep import TAE
from tensorae.estimators.linear import LinearTAE
from tensorae.persistence.fields import MisfitError
from tensorae.persistence.parameters import plain

__all__ = ["CLASSES", "check_header", "new_header"]

CHUNK = 1 << 20
# The only classes that a file can name; nothing is ever imported because a file says so.
CLASSES: dict[str, type[BaseTAE]] = {"LinearTAE": LinearTAE, "TAE": TAE}
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


def new_header(
    model: BaseTAE,
    parameters: Mapping[str, Any],
    details: Mapping[str, Any],
    preprocessing: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """Describe a fitted model.

    Parameters
    ----------
    model : LinearTAE or TAE
    parameters : dict
        Those of the constructor, as they are stored.
    details : dict
        What is fitted and is no number.
    preprocessing : dict or None
        As the caller of ``save`` gave it.

    Returns
    -------
    dict
        Only what JSON knows.
    """
    names = getattr(model, "feature_names_in_", None)
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
    return {name: plain(value, name) for name, value in header.items()}


def check_header(header: Mapping[str, Any]) -> None:
    """Refuse a header in which something is missing or of another kind."""
    for name, kinds in HEADER.items():
        if not isinstance(header.get(name), kinds):
            raise MisfitError(f"{name} is missing from its header")
    if header["class"] not in CLASSES:
        raise MisfitError(
            f"its class must be one of {', '.join(CLASSES)}, got {header['class']!r:.40}"
        )
    if not all(isinstance(name, str) for name in header["feature_names"] or []):
        raise MisfitError("the names of its features are not all text")


def _summary(model: BaseTAE) -> dict[str, Any]:
    """How the fit went, for people; nothing is computed from it."""
    k, d = model.cluster_centers_.shape
    summary = {
        "n_samples": len(model.labels_),
        "n_features": d,
        "cluster_sizes": _counts(model.labels_, k),
    }
    for name in ("loss_", "latent_penalty_", "n_iter_", "converged_", "best_epoch_"):
        if hasattr(model, name):
            value = getattr(model, name)
            summary[name.removesuffix("_")] = value if math.isfinite(value) else None
    return summary


def _counts(labels: np.ndarray, k: int) -> list[int]:
    """Members of each cluster; in chunks, because counting makes a larger copy of the labels."""
    counts = np.zeros(k, dtype=np.int64)
    for start in range(0, len(labels), CHUNK):
        counts += np.bincount(labels[start : start + CHUNK], minlength=k)
    return [int(count) for count in counts]


def _versions() -> dict[str, str]:
    return {
        "tensorae": tensorae.__version__,
        "torch": str(torch.__version__),
        "numpy": np.__version__,
        "scikit-learn": sklearn.__version__,
        "python": platform.python_version(),
    }
