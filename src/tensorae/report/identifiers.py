"""Columns that were not used in the fit, such as ids and names: shown, never computed with.

Shapes: n samples.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tensorae.exceptions import InvalidInputError, InvalidParameterError

__all__ = ["Identifiers"]

LONGEST_TEXT = 120


@dataclass(frozen=True)
class Identifiers:
    """Named columns of n entries each, handed out as text.

    Attributes
    ----------
    names : tuple of str
    columns : tuple of sequence
    """

    names: tuple[str, ...]
    columns: tuple[Sequence[Any], ...]

    @classmethod
    def of(cls, identifiers: Any, X: Any, n: int) -> Identifiers:
        """Check what the caller gave; without it, the index of a pandas table that has one."""
        pairs = _index_of(X) if identifiers is None else _named_columns(identifiers)
        names, columns = tuple(name for name, _ in pairs), tuple(list(part) for _, part in pairs)
        for name, column in zip(names, columns, strict=True):
            if len(column) != n:
                raise InvalidInputError(
                    f"identifiers must have one entry for each of the {n} rows of X, got "
                    f"{len(column)} in {name!r}; take both from the same table."
                )
        return cls(names, columns)

    def row(self, row: int) -> list[str]:
        """Texts of one row, in the order of the names."""
        return [_text(column[row]) for column in self.columns]


def _index_of(X: Any) -> list[tuple[str, Iterable[Any]]]:
    index = getattr(X, "index", None)
    # A list has a method of this name, and a plain count of the rows says nothing.
    if index is None or callable(index) or type(index).__name__ == "RangeIndex":
        return []
    return [(str(getattr(index, "name", None) or "index"), index.tolist())]


def _named_columns(given: Any) -> list[tuple[str, Iterable[Any]]]:
    if isinstance(given, Mapping):
        return [(str(name), _listed(column)) for name, column in given.items()]
    if hasattr(given, "iloc") and hasattr(given, "columns"):  # pandas; names may occur twice
        parts = [given.iloc[:, place] for place in range(given.shape[1])]
        return [(str(name), _listed(p)) for name, p in zip(given.columns, parts, strict=True)]
    if hasattr(given, "get_columns"):  # polars
        return [(str(part.name), _listed(part)) for part in given.get_columns()]
    if hasattr(given, "column_names"):  # pyarrow
        pairs = zip(given.column_names, given.itercolumns(), strict=True)
        return [(str(name), _listed(part)) for name, part in pairs]
    raise InvalidParameterError(
        "identifiers must be a data frame, or a dict of columns, with one entry for each row, "
        f"got {type(given).__name__}; give it as {{'id': …}}."
    )


def _listed(column: Any) -> Iterable[Any]:
    for name in ("to_pylist", "to_list", "tolist"):
        if hasattr(column, name):
            return list(getattr(column, name)())
    if isinstance(column, str) or not isinstance(column, Iterable):
        raise InvalidParameterError(
            f"identifiers must hold columns, got {type(column).__name__}; "
            "give one entry for each row."
        )
    return column


def _text(entry: Any) -> str:
    """An entry as text; nothing for one that is missing."""
    missing = entry is None or type(entry).__name__ in ("NAType", "NaTType") or entry != entry
    text = "" if missing else str(entry)
    return text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 1] + "…"
