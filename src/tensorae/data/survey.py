"""A stream, made ready for a fit as a table is: one pass tells what a table in memory would.

Shapes: n rows, d columns, m rows of a batch.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorae.data.batches import Batches
from tensorae.data.columns import Gaps, choose_columns, note_on_header, split_names
from tensorae.data.files import TEXT, FilePart, ReadOptions, arrow
from tensorae.data.frames import index_columns, layout_of
from tensorae.data.kinds import SHORTEST_COUNTER, Kind, kind_of
from tensorae.data.parts import Array, CompletePart, Part, float_type, named_errors
from tensorae.data.preparation import Preparation, note_on_units
from tensorae.data.scaling import Scaling, Spread
from tensorae.data.sources import (
    ask_all,
    compare_names,
    find_parts,
    refuse_repeated,
    wanted_columns,
)
from tensorae.data.table import Table
from tensorae.data.text_files import MISSING

__all__ = ["PreparedStream", "prepare_stream"]


@dataclass(frozen=True, eq=False)
class PreparedStream:
    """Files that are ready for a model, and what was done to them.

    Attributes
    ----------
    batches : Batches
        On the scale of the model; images are flat.
    preparation : Preparation
    notes : tuple of str
        What people should know about it.
    """

    batches: Batches
    preparation: Preparation
    notes: tuple[str, ...]


def prepare_stream(
    paths: Iterable[str | os.PathLike[str]],
    options: ReadOptions | None = None,
    *,
    columns: Sequence[str] = (),
    ignore: Sequence[str] = (),
    scale: str = "none",
    drop_missing: bool = False,
) -> PreparedStream:
    """Choose columns, leave out gaps and learn the scaling; rows stay in their files.

    Parameters
    ----------
    paths : iterable of str or path-like
        As of ``read_table``, but for standard input.
    options : ReadOptions, optional
    columns, ignore : sequence of str
        Just these, or all but these; of arrays and images all is taken.
    scale : {"none", "standard", "max", "auto"}, default="none"
    drop_missing : bool, default=False
        Leave out rows in which something is missing; otherwise that is an error.

    Returns
    -------
    PreparedStream
    """
    options = options or ReadOptions()
    parts = find_parts(list(paths), options)
    head = _head(parts, options)
    chosen, notes = None, []  # type: tuple[str, ...] | None, list[str]
    if head is not None:
        with named_errors(parts[0].name):
            refuse_repeated(split_names(columns, head.columns) or head.columns, head.columns)
        if not columns:
            _compare(parts, head)
        chosen = choose_columns(head, columns=columns, ignore=ignore, kind=_by_head).columns
        notes.append(note_on_header(head))
    batches = _batches(parts, chosen)
    survey = _Survey.of(batches)
    if head is not None and chosen is not None and not columns:
        seen = dict(zip(chosen, survey.columns(), strict=True))
        kind = partial(_by_all_rows, n_rows=survey.n_rows, seen=seen)
        choice = choose_columns(head, ignore=ignore, kind=kind)
        notes.append(choice.note)
        survey = survey.select([chosen.index(name) for name in choice.columns])
        chosen, batches = choice.columns, _batches(parts, choice.columns)
    if survey.lacks:
        parts = [CompletePart(part, batches.feature_names, batches.dtype) for part in parts]
        lacking = survey.n_rows - sum(ask_all(parts, lambda part: part.count()))
        gaps = Gaps(lacking, survey.missing, survey.infinite)
        if not drop_missing or lacking == survey.n_rows:
            whole = Table(_name(parts), survey.n_rows, None)
            gaps.refuse(whole, chosen, fitting=True)
        notes.append(gaps.note())
        batches = _batches(parts, chosen)
        survey = _Survey.of(batches)
    spread = survey.spread(batches.dtype)
    if scale == "auto" and chosen is not None:
        notes.append(note_on_units(spread, chosen))
    scaling = Scaling.of(spread, "none" if scale == "auto" and chosen is None else scale)
    preparation = Preparation(chosen, scaling, shape=batches.sample_shape)
    if scaling.name != "none":
        batches = batches.scaled(scaling)
    return PreparedStream(batches, preparation, tuple(filter(None, notes)))


def _batches(parts: Sequence[Part], columns: Sequence[str] | None) -> Batches:
    """Those columns of all parts, in a type that holds the numbers of each."""
    layouts = ask_all(parts, lambda part: wanted_columns(part.layout(), columns))
    dtype = float_type(np.dtype(name) for layout in layouts for name in layout.types)
    return Batches(list(parts), columns=columns, dtype=dtype)


# The first rows ---------------------------------------------------------------------------------


def _head(parts: Sequence[Part], options: ReadOptions) -> Table | None:
    """The first rows of the first file, as a table; None where columns have no names."""
    first = parts[0]
    if not isinstance(first, FilePart) or first.layout().names is None:
        return None
    frame = first.head()
    text = first.file.format in TEXT
    return Table(
        _name(parts),
        frame.num_rows,
        frame,
        index=index_columns(frame.schema, text=text),
        missing=frozenset([*MISSING, *options.missing]),
        from_text=text,
        decimal=options.decimal,
        is_head=True,
    )


def _name(parts: Sequence[Part]) -> str:
    return parts[0].name if len(parts) == 1 else f"{parts[0].name} … {parts[-1].name}"


def _compare(parts: Sequence[Part], head: Table) -> None:
    """Refuse files with other columns than the first one."""
    remedy = "name files of one make, or choose columns that all of them have (--columns)."
    reference = f"the first file, {parts[0].name},"

    def compare(part: Part) -> None:
        names = part.layout().names
        if names is not None:
            compare_names(head.columns, names, reference, remedy)

    ask_all(parts, compare)


def _by_head(table: Table, name: str) -> Kind:
    """What a column may hold, by the first rows: those of numbers have to be gone through."""
    kind = kind_of(table, name)
    column_type = table.frame[name].type
    empty = kind.name == "empty" and (
        arrow().types.is_null(column_type) or bool(_is_numeric(table, name))
    )
    if empty or (kind.name == "counter" and name not in table.index):
        return Kind("number")
    return kind if kind.name in ("mixed", "marked") else replace(kind, count=None)


def _is_numeric(table: Table, name: str) -> bool:
    return name in layout_of(table.frame.schema).numbers


def _by_all_rows(table: Table, name: str, n_rows: int, seen: dict[str, _Column]) -> Kind:
    """What a column holds, when all of it has been gone through."""
    kind = _by_head(table, name)
    if name not in seen:
        return replace(kind, count=n_rows) if kind.name == "counter" else kind
    if seen[name].n_missing == n_rows:
        return Kind("empty", n_rows)
    whole = arrow().types.is_integer(table.frame[name].type)
    return Kind("counter" if whole and seen[name].counts else "number", n_rows)


# All rows ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Column:
    """What was seen of one column."""

    n_missing: int
    counts: bool  # whether it goes 0, 1, 2 … or 1, 2, 3 …


@dataclass(frozen=True, eq=False)
class _Survey:
    """What one pass tells of d columns of numbers."""

    n_rows: int
    missing: NDArray[Any]  # cells, (d,)
    infinite: NDArray[Any]
    counts: NDArray[np.bool_]
    lowest: Array
    highest: Array
    mean: Array
    squares: Array  # summed squared distances from the mean

    @classmethod
    def of(cls, batches: Batches) -> _Survey:
        """Go through all batches; sums are of rows without gaps only."""
        d = batches.n_features
        none, far = np.zeros(d, np.int64), np.full(d, np.inf)
        survey = cls(0, none, none, np.ones(d, bool), far, -far, np.zeros(d), np.zeros(d))
        first: Array | None = None
        for batch in batches.unchecked():
            first = batch[0].copy() if first is None else first
            survey = survey._after(batch, first)
        return replace(survey, counts=survey.counts & (survey.n_rows >= SHORTEST_COUNTER))

    @property
    def lacks(self) -> bool:
        """Whether anything is missing or infinite."""
        return bool(self.missing.any() or self.infinite.any())

    def columns(self) -> list[_Column]:
        """What was seen of each column."""
        pairs = zip(self.missing.tolist(), self.counts.tolist(), strict=True)
        return [_Column(missing, counts) for missing, counts in pairs]

    def select(self, places: Sequence[int]) -> _Survey:
        """What was seen of some of the columns."""
        chosen = {
            name: value[list(places)] for name, value in vars(self).items() if name != "n_rows"
        }
        return replace(self, **chosen)

    def spread(self, dtype: np.dtype[Any]) -> Spread:
        """Where the numbers lie."""
        deviation = np.sqrt(self.squares / max(self.n_rows, 1))
        return Spread(self.lowest, self.highest, self.mean, deviation, dtype)

    def _after(self, batch: Array, first: Array) -> _Survey:
        """The same and m rows more."""
        m, n = len(batch), self.n_rows + len(batch)
        missing, infinite = np.isnan(batch).sum(0), np.isinf(batch).sum(0)
        numbers = np.arange(self.n_rows, n)[:, None]
        counts = self.counts & np.isin(first, (0, 1)) & (batch == first + numbers).all(0)
        seen = replace(
            self,
            n_rows=n,
            missing=self.missing + missing,
            infinite=self.infinite + infinite,
            counts=counts,
        )
        if missing.any() or infinite.any():  # then another pass has to be made, without these rows
            return seen
        mean = batch.mean(0, dtype=np.float64)
        squares = ((batch - mean) ** 2).sum(0)
        off = mean - self.mean
        return replace(
            seen,
            lowest=np.minimum(self.lowest, batch.min(0)),
            highest=np.maximum(self.highest, batch.max(0)),
            mean=self.mean + off * (m / n),
            squares=self.squares + squares + off**2 * (self.n_rows * m / n),
        )
