"""What was read: named columns, or samples that are arrays.

Shapes: n rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorae.tables.sources import arrow

__all__ = ["Data"]


@dataclass(frozen=True, eq=False)
class Data:
    """Rows that were read from one or more files.

    Attributes
    ----------
    name : str
        Where they come from, for messages.
    n_rows : int
    table : pyarrow.Table
        Named columns; for images the names of their files.
    samples : ndarray of shape (n, ...) or None
        Where the samples have no named columns: arrays and images.
    index : frozenset of str
        Columns that say which row it is, and nothing else.
    missing : frozenset of str
        Texts that mean "missing".
    from_text : bool
        Whether numbers were told from text by how they look.
    """

    name: str
    n_rows: int
    table: Any
    samples: NDArray[Any] | None = None
    index: frozenset[str] = frozenset()
    missing: frozenset[str] = frozenset()
    from_text: bool = False

    @property
    def columns(self) -> list[str]:
        """Names of the columns, in the order of the file."""
        return list(self.table.column_names)

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Shape of one sample where it is an image, None where it is a row."""
        shape = None if self.samples is None else self.samples.shape[1:]
        return shape if shape is not None and len(shape) > 1 else None

    def take(self, rows: NDArray[np.bool_]) -> Data:
        """Only the rows that are marked."""
        mask = arrow().array(rows)
        return replace(
            self,
            n_rows=int(rows.sum()),
            table=self.table.filter(mask) if self.columns else self.table,
            samples=None if self.samples is None else self.samples[rows],
        )

    def select(self, columns: Sequence[str]) -> Any:
        """Table of these columns."""
        return self.table.select(list(columns))
