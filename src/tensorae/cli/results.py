"""Model and table -> results -> file: what all commands after ``fit`` have in common.

Shapes: n rows.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import typer
from numpy.typing import NDArray

from tensorae._files import open_atomically
from tensorae.cli.options import Keep, OutputOptions, ReadingOptions
from tensorae.cli.voice import Voice
from tensorae.data import (
    Preparation,
    PreparedTable,
    arrow,
    counted,
    output_format,
    read_table,
    write_array,
    write_csv,
    write_images,
    write_table,
)
from tensorae.exceptions import InvalidParameterError

if TYPE_CHECKING:
    from tensorae import TAE, LinearTAE

__all__ = [
    "Job",
    "Result",
    "check_other",
    "check_output",
    "check_place",
    "give_result",
    "start_job",
]

STANDARD_OUTPUT = "-"


@dataclass(frozen=True, eq=False)
class Job:
    """A fitted model and rows for it.

    Attributes
    ----------
    model : LinearTAE or TAE
    preparation : Preparation
    rows : PreparedTable
    voice : Voice
    """

    model: LinearTAE | TAE
    preparation: Preparation
    rows: PreparedTable
    voice: Voice

    def cluster_column(self, labels: NDArray[Any]) -> NDArray[Any]:
        """Names of clusters (n,) where they have names, else their numbers."""
        names = self.preparation.names
        return np.array(names, dtype=object)[labels] if names else labels


@dataclass(frozen=True, eq=False)
class Result:
    """What a command found.

    Attributes
    ----------
    columns : mapping of str to array
        New columns, one entry for each row.
    array : ndarray of shape (n, ...)
        What goes into a .npy file.
    images : bool
        Whether the array holds the samples again, which may be images.
    rows : ndarray of int or None
        Which rows of the input, in this order; None means all.
    """

    columns: Mapping[str, NDArray[Any]]
    array: NDArray[Any]
    images: bool = False
    rows: NDArray[np.intp] | None = None


def start_job(
    model_file: Path,
    data: Sequence[str],
    reading: ReadingOptions,
    voice: Voice,
) -> Job:
    """Load a model, read a table and make it ready."""
    from tensorae import load
    from tensorae.storage import read_header

    preparation = Preparation.of_header(read_header(model_file), str(model_file))
    if preparation.foreign:
        voice.note(
            "the model file tells of a preparation that is not the command line's own, so columns "
            "are taken as they are; tensorae info --json shows it."
        )
    model = load(model_file)
    found = read_table(data, reading.as_read_options())
    rows = preparation.prepare(found, drop_missing=reading.drop_missing)
    if rows.n_dropped:
        voice.note(f"left out, because of missing values: {counted(rows.n_dropped, 'row')}.")
    return Job(model, preparation, rows, voice)


def check_output(output: str | None, inputs: Sequence[Any], *, folders: bool = False) -> None:
    """Refuse a place that cannot or must not be written, before the work is done.

    Parameters
    ----------
    output : str or None
    inputs : sequence of path-like
        What is read, and must stay.
    folders : bool, default=False
        Whether it may be a folder, for images.
    """
    if output is None or output == STANDARD_OUTPUT:
        return
    check_other(Path(output), inputs)
    if folders and _is_folder(output):
        return
    output_format(Path(output))
    check_place(Path(output))


def check_other(output: Path, inputs: Sequence[Any]) -> None:
    """Refuse to write over what is read."""
    if output.resolve() in {Path(entry).resolve() for entry in inputs}:
        raise typer.BadParameter(
            f"it must not replace what is read, got {str(output)!r}; give another name.",
            param_hint="--output",
        )


class _RehearsalError(Exception):
    """Ends a trial of writing before it replaces anything."""


def check_place(path: Path) -> None:
    """Try to open a file for writing; an old one is unchanged."""
    if path.exists() and not path.is_file() and not path.is_dir():
        return  # a pipe or a device: opening it is the real thing
    try:
        with open_atomically(path):
            raise _RehearsalError
    except _RehearsalError:
        pass


def give_result(job: Job, options: OutputOptions, result: Result, summary: dict[str, Any]) -> None:
    """Write a result where it should go, and say so.

    Parameters
    ----------
    job : Job
    options : OutputOptions
    result : Result
    summary : dict
        For scripts.
    """
    voice, output = job.voice, options.output
    n = len(result.array)
    if output is None or output == STANDARD_OUTPUT:
        table = _table(job, options.keep, result)
        if voice.json:
            voice.give({"n_rows": n, **summary, "rows": table.to_pylist()})
        else:
            write_csv(sys.stdout.buffer, table)
            sys.stdout.buffer.flush()
        return
    if _is_folder(output):
        _write_pictures(job, Path(output), result)
    elif output_format(Path(output)) == "npy":
        write_array(Path(output), _shaped(job, result))
    else:
        write_table(Path(output), _table(job, options.keep, result))
    voice.say(f"Wrote {output}: {counted(n, 'row')}.")
    voice.give({"output": output, "n_rows": n, **summary})


def _table(job: Job, keep: Keep, result: Result) -> Any:
    """Columns that come along, in their order, and then the new ones."""
    data, new = job.rows.table, result.columns
    names = {Keep.unused: job.rows.unused, Keep.all: data.columns, Keep.none: ()}[keep]
    # An index that pandas wrote down must not become one again beside columns it does not fit.
    along = data.select(names).replace_schema_metadata(None)
    if result.rows is not None and names:
        along = along.take(result.rows)
    columns = dict(zip(_renamed(names, new, job.voice), along.columns, strict=True))
    pa = arrow()
    return pa.table(columns | {name: pa.array(values) for name, values in new.items()})


def _renamed(names: Sequence[str], new: Mapping[str, Any], voice: Voice) -> list[str]:
    """Names of columns that come along; no two columns of the output share one."""
    taken = {*names, *new}
    result = []
    for name in names:
        other = name
        while other in new or (other != name and other in taken):
            other = f"{other}_input"
        taken.add(other)
        result.append(other)
    changed = [f"{old} is {now}" for old, now in zip(names, result, strict=True) if old != now]
    if changed:
        voice.note(f"columns of the input have another name in the output: {', '.join(changed)}.")
    return result


def _shaped(job: Job, result: Result) -> NDArray[Any]:
    """The array, as images where the input was."""
    shape = job.preparation.shape or job.rows.table.shape
    if not result.images or shape is None:
        return result.array
    return result.array.reshape(-1, *shape)


def _is_folder(output: str) -> bool:
    return output.endswith("/") or Path(output).is_dir()


def _write_pictures(job: Job, folder: Path, result: Result) -> None:
    pictures = _shaped(job, result)
    if not result.images or pictures.ndim < 3 or "file" not in job.rows.table.columns:
        raise InvalidParameterError(
            f"only images can be written to a folder, got {str(folder)!r} for a table; add the "
            "name of a file."
        )
    write_images(folder, job.rows.table.frame["file"].to_pylist(), pictures)
