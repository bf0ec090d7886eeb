"""tensorae: one representation per cluster (Tensorized Autoencoders).

``import tensorae`` is instant: torch and scikit-learn load when an estimator is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tensorae.data import Batches
    from tensorae.deep.module import tensorize
    from tensorae.estimators.choice import Choice, choose
    from tensorae.estimators.deep import TAE
    from tensorae.estimators.embedding import embed
    from tensorae.estimators.imputer import ImputerTAE
    from tensorae.estimators.linear import LinearTAE
    from tensorae.estimators.outliers import OutlierTAE
    from tensorae.estimators.table_model import TableModel
    from tensorae.exploration import Exploration, explore
    from tensorae.storage import load

__version__ = "0.2.0"
__all__ = [
    "TAE",
    "Batches",
    "Choice",
    "Exploration",
    "ImputerTAE",
    "LinearTAE",
    "OutlierTAE",
    "TableModel",
    "__version__",
    "choose",
    "embed",
    "explore",
    "load",
    "tensorize",
]

_HOMES = {
    "Batches": "tensorae.data",
    "Choice": "tensorae.estimators.choice",
    "Exploration": "tensorae.exploration",
    "ImputerTAE": "tensorae.estimators.imputer",
    "LinearTAE": "tensorae.estimators.linear",
    "OutlierTAE": "tensorae.estimators.outliers",
    "TAE": "tensorae.estimators.deep",
    "TableModel": "tensorae.estimators.table_model",
    "choose": "tensorae.estimators.choice",
    "embed": "tensorae.estimators.embedding",
    "explore": "tensorae.exploration",
    "load": "tensorae.storage",
    "tensorize": "tensorae.deep.module",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name in ("datasets", "exceptions", "explain", "photos", "plotting"):
        return importlib.import_module(f"tensorae.{name}")
    raise AttributeError(f"module 'tensorae' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
