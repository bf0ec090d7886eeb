"""Python that does the same again, in the units of the table, and runs as it stands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tensorae.data import ReadOptions, Table, format_of

__all__ = ["Source", "code_for"]

# Formats that pandas reads in one word.
READERS = {"csv": "read_csv", "parquet": "read_parquet"}
WIDTH = 88


@dataclass(frozen=True)
class Source:
    """Where a table came from: paths and how they were read; no paths where it was in memory."""

    paths: tuple[str, ...] = ()
    options: ReadOptions = field(default_factory=ReadOptions)
    delimiter: str | None = None  # that was found in a text file

    @classmethod
    def of(cls, data: Any, options: ReadOptions | None, table: Table) -> Source:
        """What a user handed over, and the table that was read."""
        entries = data if isinstance(data, list | tuple) else [data]
        known = all(isinstance(entry, str | Path) for entry in entries)
        paths = tuple(map(str, entries)) if known else ()
        delimiter = table.parts[0].delimiter if table.parts else None
        return cls(paths, options or ReadOptions(), delimiter)


def code_for(
    source: Source,
    columns: Sequence[str] | None,
    *,
    converted: Sequence[str],
    scaler: str,
    model: str,
    sample: tuple[int, int] | None,
    in_memory: str,
) -> str:
    """Write the lines.

    Parameters
    ----------
    source : Source
    columns : sequence of str or None
        Of the fit; None for arrays and images.
    converted : sequence of str
        Columns of text that numbers were made of.
    scaler : str
        The class of scikit-learn that scales them, or nothing.
    model : str
        The call that makes the estimator.
    sample : tuple of int, optional
        Rows of the fit, where not all were taken, and the seed that chose them.
    in_memory : str
        What the table is, where it did not come from files: "table" or "array".

    Returns
    -------
    str
    """
    reading, imports = _reading(source, columns, in_memory)
    lines = [*reading, *_matrix(columns, converted)]
    imports |= {"import pandas as pd"} if converted else set()
    imports |= {"from tensorae import LinearTAE"}
    call = model
    if scaler:
        imports |= {
            "from sklearn.pipeline import make_pipeline",
            f"from sklearn.preprocessing import {scaler}",
        }
        call = f"make_pipeline({scaler}(), {model})"
    rows = "X"
    if sample is not None:
        imports |= {"import numpy as np"}
        count, seed = sample
        lines.append(f"rows = np.sort(np.random.RandomState({seed}).permutation(len(X))[:{count}])")
        rows = "X.iloc[rows]" if columns is not None else "X[rows]"
    lines += [f"model = {call}.fit({rows})", "clusters = model.predict(X)"]
    if scaler:
        lines.append("centers = model[0].inverse_transform(model[-1].cluster_centers_)")
    else:
        lines.append("centers = model.cluster_centers_")
    head = sorted(imports, key=lambda line: (_rank(line), line))
    return "\n".join([*head, "", *lines])


def _rank(line: str) -> int:
    return 2 if "tensorae" in line else 0 if line.startswith("import") else 1


def _reading(
    source: Source, columns: Sequence[str] | None, in_memory: str
) -> tuple[list[str], set[str]]:
    """Lines that read the data, and what they import."""
    if not source.paths or "-" in source.paths:
        if columns is None:
            return ["# X: the array, one row for each sample", "X = X.reshape(len(X), -1)"], set()
        return [f"# table: the {in_memory} as a pandas DataFrame"], set()
    reader = _reader(source) if columns is not None else None
    if reader is None:
        return _by_tensorae(source, columns)
    return [f"table = pd.{reader}({source.paths[0]!r})"], {"import pandas as pd"}


def _reader(source: Source) -> str | None:
    """What pandas reads one plain file by; None for all that needs more words."""
    (path, *more), usual = source.paths, ReadOptions()
    if more or source.options != usual or not Path(path).is_file():
        return None
    kind = format_of(Path(path))
    if kind == "csv" and (source.delimiter or ",") != ",":
        return None
    return READERS.get(str(kind))


def _by_tensorae(source: Source, columns: Sequence[str] | None) -> tuple[list[str], set[str]]:
    """Folders, patterns, arrays and images are read as the command reads them."""
    options = source.options
    changed = [
        f"{name}={getattr(options, name)!r}"
        for name in vars(ReadOptions())
        if getattr(options, name) != getattr(ReadOptions(), name)
    ]
    imports = {f"from tensorae.data import {'ReadOptions, ' * bool(changed)}read_table"}
    more = f", ReadOptions({', '.join(changed)})" if changed else ""
    read = f"read_table({list(source.paths)!r}{more})"
    if columns is None:
        return [f"X = {read}.samples", "X = X.reshape(len(X), -1).astype(float)"], imports
    return [f"table = {read}.frame.to_pandas()"], imports


def _matrix(columns: Sequence[str] | None, converted: Sequence[str]) -> list[str]:
    if columns is None:
        return []
    lines = [
        f"table[{name!r}] = pd.to_numeric("
        f'table[{name!r}].astype(str).str.replace(",", "."), errors="coerce")'
        for name in converted
    ]
    names = f"columns = {list(columns)!r}"
    if len(names) > WIDTH:
        inner = "".join(f"    {name!r},\n" for name in columns)
        names = f"columns = [\n{inner}]"
    return [*lines, names, "X = table[columns]"]
