"""tensorae: one representation per cluster (Tensorized Autoencoders).

``import tensorae`` is instant: torch and scikit-learn load when an estimator is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tensorae.cluster_features import ClusterFeatures
    from tensorae.data.batches import Batches
    from tensorae.deep.module import tensorize
    from tensorae.deep_tae import TAE
    from tensorae.embedding import embed
    from tensorae.exploration import Exploration, explore
    from tensorae.imputer import ImputerTAE
    from tensorae.linear_tae import LinearTAE
    from tensorae.model_selection import Choice, choose
    from tensorae.outliers import OutlierTAE
    from tensorae.persist import load, save
    from tensorae.scattering import Scattering
    from tensorae.table_model import TableModel

__version__ = "0.2.0"
__all__ = [
    "TAE",
    "Batches",
    "Choice",
    "ClusterFeatures",
    "Exploration",
    "ImputerTAE",
    "LinearTAE",
    "OutlierTAE",
    "Scattering",
    "TableModel",
    "__version__",
    "choose",
    "embed",
    "explore",
    "load",
    "save",
    "tensorize",
]

_HOMES = {
    "Batches": "tensorae.data.batches",
    "Choice": "tensorae.model_selection",
    "ClusterFeatures": "tensorae.cluster_features",
    "Exploration": "tensorae.exploration",
    "ImputerTAE": "tensorae.imputer",
    "LinearTAE": "tensorae.linear_tae",
    "OutlierTAE": "tensorae.outliers",
    "Scattering": "tensorae.scattering",
    "TAE": "tensorae.deep_tae",
    "TableModel": "tensorae.table_model",
    "choose": "tensorae.model_selection",
    "embed": "tensorae.embedding",
    "explore": "tensorae.exploration",
    "load": "tensorae.persist",
    "save": "tensorae.persist",
    "tensorize": "tensorae.deep.module",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name in ("datasets", "exceptions", "export", "inspect", "photos", "plot"):
        return importlib.import_module(f"tensorae.{name}")
    raise AttributeError(f"module 'tensorae' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
