"""What all results have in common: they can be turned into plain dictionaries."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

__all__ = ["Result"]


@dataclass(frozen=True, eq=False)
class Result:
    """A result that can be turned into plain dictionaries."""

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain numbers, texts, lists and dictionaries, fit for JSON.

        An infinite number becomes None, and what is too long to print is left out.
        """
        shown = [entry.name for entry in fields(self) if entry.repr]
        return {name: _plain(getattr(self, name)) for name in shown}


def _plain(value: Any) -> Any:
    if isinstance(value, Result):
        return value.to_dict()
    if hasattr(value, "_asdict"):
        return value._asdict()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, tuple):
        return [_plain(entry) for entry in value]
    return None if isinstance(value, float) and math.isinf(value) else value
