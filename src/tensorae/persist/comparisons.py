"""What was compared in a fit, and why it was chosen <-> JSON.

Shapes: m fits that were compared.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from tensorae._schema import SchemaError

__all__ = ["packed_comparison", "restored_comparison", "restored_reason"]

NOT_KEPT = "Not kept."
LONGEST_REASON = 1000
# Numbers that JSON does not know are kept as text.
NOT_FINITE = ("inf", "-inf", "nan")
# Columns that pictures and reports are made of; others may be there too.
COLUMNS: dict[str, tuple[type, ...]] = {
    "n_clusters": (int,),
    "spread": (str,),
    "latent_dim": (int,),
    "latent_penalty": (float, int),
    "log_likelihood": (float, int),
    "icl": (float, int),
    "seconds": (float, int),
    "chosen": (bool,),
}


def packed_comparison(table: Mapping[str, list[Any]]) -> list[list[Any]]:
    """``comparison_`` as JSON has it: names with their columns, since objects have no order."""
    return [[name, [_packed(entry) for entry in column]] for name, column in table.items()]


def restored_comparison(stored: Any) -> dict[str, list[Any]]:
    """The same again; empty where a file has none, a SchemaError where it is no such table."""
    if stored is None or stored == []:
        return {}
    table = {name: [_restored(entry) for entry in column] for name, column in _columns(stored)}
    for name, kinds in COLUMNS.items():
        if not all(type(entry) in kinds for entry in table.get(name, [None])):
            raise SchemaError(f"comparison must have a column {name!r} of {kinds[0].__name__}")
    m = len(table["chosen"])
    if any(len(column) != m for column in table.values()):
        raise SchemaError("comparison must have columns of one length")
    if table["chosen"].count(True) != 1:
        raise SchemaError(f"comparison must have one row that was chosen, got {m} rows")
    return table


def restored_reason(stored: Any) -> str:
    """Why the settings were chosen; a file of 0.1.0 does not say."""
    if stored is None:
        return NOT_KEPT
    if not isinstance(stored, str) or len(stored) > LONGEST_REASON:
        raise SchemaError(f"reason must be a sentence, got {stored!r:.40}")
    return stored


def _columns(stored: Any) -> list[tuple[str, list[Any]]]:
    fits = isinstance(stored, list) and all(
        isinstance(pair, list) and list(map(type, pair)) == [str, list] for pair in stored
    )
    if not fits:
        raise SchemaError("comparison must be a table of columns")
    return [(name, column) for name, column in stored]


def _packed(entry: Any) -> Any:
    return str(entry) if isinstance(entry, float) and not math.isfinite(entry) else entry


def _restored(entry: Any) -> Any:
    if isinstance(entry, str):
        return float(entry) if entry in NOT_FINITE else entry
    if isinstance(entry, bool | int | float):
        return entry
    raise SchemaError(f"comparison must hold numbers and text, got {entry!r:.40}")
