"""What commands on a fitted model read: the model, and a table that is made ready for it.

Shapes: n rows, k clusters, d features.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tensorae.cli.info import size_entries
from tensorae.cli.messages import Messages, refuse_closed_output
from tensorae.cli.options import (
    DATA,
    MODEL_FILE,
    FileOptions,
    Keep,
    ReadingOptions,
    refuse_replacing,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tensorae import TableModel
    from tensorae.data import Preparation, PreparedTable

__all__ = ["ApplyInputs", "ApplyOptions", "ModelAndData", "new_names"]


@dataclass(frozen=True)
class ModelAndData:
    """Which model to apply to which data."""

    model_file: MODEL_FILE
    data: DATA
    reading: ReadingOptions
    messages: Messages

    def refuse_replacing(self, output: Path, *, folder: bool = False) -> None:
        """Refuse to write over what is read."""
        refuse_replacing(output, self.data, self.reading, self.model_file, folder=folder)

    def read(self) -> ApplyInputs:
        """Load the model, read the table and make it ready, gaps included if it takes them."""
        return self._read(gaps=True)

    def check_output(self, output: FileOptions, *, folders: bool = False) -> None:
        """Refuse what cannot or must not be written before the work is done."""
        from tensorae._files import check_writable
        from tensorae.data import output_format

        if output.path is None:
            refuse_closed_output()
        else:
            folder = folders and output.is_folder
            self.refuse_replacing(output.path, folder=folder)
            if not folder:
                output_format(output.path)
                check_writable(output.path)

    def _read(self, *, gaps: bool) -> ApplyInputs:
        from tensorae import TableModel, load
        from tensorae.data import Preparation, read_table
        from tensorae.persist import read_header

        model = load(self.model_file)
        if not isinstance(model, TableModel):  # saved from Python: columns keep their scale
            name = str(self.model_file)
            model = TableModel(model, Preparation.of_header(read_header(name), name))
        if model.preparation.foreign:
            self.messages.note(
                "the model file tells of a preparation that is not the command line's own, so "
                "columns are taken as they are; tensorae info --json shows it."
            )
        table = read_table(self.data, self.reading.as_read_options())
        rows = model.prepare(table, drop_missing=True, gaps=gaps)
        for note in rows.notes:
            self.messages.note(note)
        return ApplyInputs(model, rows, self.messages)


@dataclass(frozen=True)
class ApplyOptions(ModelAndData):
    """The same, and what to do about gaps."""

    drop_missing: Annotated[
        bool, typer.Option("--drop-missing", help="Rows with gaps get no results.")
    ] = False

    def read(self) -> ApplyInputs:
        """Load the model, read the table and make it ready."""
        return self._read(gaps=not self.drop_missing)


@dataclass(frozen=True, eq=False)
class ApplyInputs:
    """A fitted model, and a table that is ready for it."""

    model: TableModel
    rows: PreparedTable
    messages: Messages

    @property
    def preparation(self) -> Preparation:
        """Columns, scale and names of clusters."""
        return self.model.preparation

    @property
    def is_detector(self) -> bool:
        """Whether the model is one that finds outliers."""
        return hasattr(self.model, "offset_")

    def ask(self, method: str, *arguments: Any, **options: Any) -> NDArray[Any]:
        """What a method of the model says about the rows, in the units of the table."""
        with self.messages.warnings_as_notes():
            answer: NDArray[Any] = getattr(self.model, method)(self.rows, *arguments, **options)
        return answer

    def cluster_column(self, labels: NDArray[Any]) -> NDArray[Any]:
        """Names of clusters (n,) where they have names, else their numbers."""
        import numpy as np

        names = self.preparation.names
        return np.array(names, dtype=object)[labels] if names else labels

    def sizes(self, labels: NDArray[Any]) -> list[dict[str, Any]]:
        """How many rows each cluster has, for scripts."""
        import numpy as np

        counts = np.bincount(labels, minlength=len(self.model.cluster_centers_))
        return size_entries(counts.tolist(), self.preparation)

    def kept(self, keep: Keep) -> tuple[str, ...]:
        """Columns of the input that come along, in their order."""
        from tensorae.data import text_columns

        table = self.rows.table
        if keep is Keep.text:
            return text_columns(table)
        return {Keep.all: tuple(table.columns), Keep.unused: self.rows.unused, Keep.none: ()}[keep]

    def shaped(self, X: NDArray[Any]) -> NDArray[Any]:
        """Rows (n, d) as images where the input was."""
        shape = self.preparation.shape or self.rows.table.shape
        return X if shape is None else X.reshape(-1, *shape)


def new_names(
    names: Sequence[str], new: Sequence[str], output: FileOptions, messages: Messages
) -> list[str]:
    """Names of columns that come along, and of new ones; no two columns share one."""
    from tensorae.data import safe_text

    taken = {*names, *new}
    result = []
    for name in names:
        other = name
        while other in new or (other != name and other in taken):
            other = f"{other}_input"
        taken.add(other)
        result.append(other)
    result += new
    if output.safe and output.is_text:
        result = [safe_text(name) for name in result]
    pairs = zip([*names, *new], result, strict=True)
    changed = [f"{old} is {now}" for old, now in pairs if old != now]
    if changed:
        messages.note(f"columns have another name in the output: {', '.join(changed)}.")
    return result
