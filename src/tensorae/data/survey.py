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

from tensorae._text import shown
from tensorae.data.batches import Batches
from tensorae.data.columns import choose_columns, note_on_header, split_names
from tensorae.data.files import TEXT, FilePart, ReadOptions, arrow
from tensorae.data.frames import index_columns, layout_of
from tensorae.data.kinds import SHORTEST_COUNTER, Gaps, Kind, kind_of
from tensorae.data.parts import Array, CompletePart, Part, float_type, named_errors
from tensorae.data.preparation import KEPT_FITTED, Preparation, formats_of
from tensorae.data.scaling import Extent, Scaling
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
    gaps: bool = False,
) -> PreparedStream:
    r"""Choose columns, leave out gaps and learn the scaling; rows stay in their files.

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
    gaps : bool, default=False
        Let missing values stay, as NaN, for models that take them.

    Returns
    -------
    PreparedStream

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from tensorae.data import prepare_stream
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "birds.csv").write_text("name,mass\nAda,3700\nBob,\nCy,4500\n")
    ...     birds = prepare_stream([folder], drop_missing=True)
    ...     [batch.tolist() for batch in birds.batches]
    [[[3700.0], [4500.0]]]
    >>> birds.preparation.columns
    ('mass',)
    """
    options = options or ReadOptions()
    parts = find_parts(list(paths), options)
    head = _head(parts, options)
    chosen, survey, notes = _choose(parts, head, columns, ignore)
    gaps = gaps and not drop_missing
    left_out: list[str] = []
    if gaps:
        left_out = _with_gaps(parts, chosen, survey)
    elif not survey.complete:
        parts, left_out = _without_gaps(parts, chosen, survey, drop=drop_missing)
        survey = _Survey.of(_batches(parts, chosen))
    batches = _batches(parts, chosen).with_gaps() if gaps else _batches(parts, chosen)
    extent = survey.extent
    assert extent is not None
    if scale == "auto" and chosen is not None:
        notes.append(extent.note([shown(name) for name in chosen]))
    scaling = Scaling.of(extent, "none" if scale == "auto" and chosen is None else scale)
    if scaling.name != "none":
        batches = batches.scaled(scaling)
    formats = {} if head is None else formats_of(head, chosen)
    preparation = Preparation(chosen, scaling, shape=batches.sample_shape, formats=formats)
    return PreparedStream(batches, preparation, tuple(filter(None, [*notes, *left_out])))


def _choose(
    parts: Sequence[Part], head: Table | None, columns: Sequence[str], ignore: Sequence[str]
) -> tuple[tuple[str, ...] | None, _Survey, list[str]]:
    """Columns to fit, what one pass tells of them, and notes."""
    if head is None:
        return None, _Survey.of(_batches(parts, None)), []
    with named_errors(parts[0].name):
        refuse_repeated(split_names(columns, head.columns) or head.columns, head.columns)
    if not columns:
        _compare(parts, head)
    # By the first rows, then by all of them: a column may count rows, or be empty.
    chosen = choose_columns(head, columns=columns, ignore=ignore, kind=_by_head).columns
    survey = _Survey.of(_batches(parts, chosen))
    if columns:
        return chosen, survey, [note_on_header(head)]
    seen = dict(zip(chosen, survey.columns(), strict=True))
    kind = partial(_by_all_rows, n_rows=survey.n_rows, seen=seen)
    choice = choose_columns(head, ignore=ignore, kind=kind)
    survey = survey.select([chosen.index(name) for name in choice.columns])
    if len(choice.columns) < len(chosen) and not survey.complete:
        survey = _Survey.of(_batches(parts, choice.columns))  # rows lack less than it seemed
    return choice.columns, survey, [note_on_header(head), choice.note]


def _with_gaps(parts: list[Part], columns: Sequence[str] | None, survey: _Survey) -> list[str]:
    """Notes on values that are missing; an error where some are infinite, or all of a column."""
    table = Table(_name(parts), survey.n_rows, None)
    if survey.infinite.any():
        known = np.zeros_like(survey.missing)
        Gaps(survey.n_infinite, known, survey.infinite).refuse(table, columns, fitting=True)
    gaps = Gaps(survey.n_lacking, survey.missing, survey.infinite, survey.n_empty)
    gaps.refuse_columns_without_values(table, columns, survey.n_rows)
    return gaps.notes_on_kept(columns, survey.n_rows, KEPT_FITTED)


def _without_gaps(
    parts: list[Part], columns: Sequence[str] | None, survey: _Survey, *, drop: bool
) -> tuple[list[Part], list[str]]:
    """Parts without the rows that lack something, and a note on these; or an error."""
    dtype = _batches(parts, columns).dtype
    whole: list[Part] = [CompletePart(part, columns, dtype) for part in parts]
    lacking = survey.n_rows - sum(ask_all(whole, lambda part: part.count()))
    gaps = Gaps(lacking, survey.missing, survey.infinite)
    if not drop or lacking == survey.n_rows:
        gaps.refuse(Table(_name(parts), survey.n_rows, None), columns, fitting=True)
    return whole, [gaps.note()]


def _batches(parts: Sequence[Part], columns: Sequence[str] | None) -> Batches:
    """Those columns of all parts, in a type that holds the numbers of each."""
    layouts = ask_all(parts, lambda part: wanted_columns(part.layout(), columns))
    dtype = float_type(np.dtype(name) for layout in layouts for name in layout.types)
    return Batches(list(parts), columns=columns, dtype=dtype)


# The first rows ---------------------------------------------------------------------------------


def _head(parts: Sequence[Part], options: ReadOptions) -> Table | None:
    """The first rows of the first file that has some; None where columns have no names."""
    ask_all(parts, lambda part: part.layout())  # one error names all that cannot be read
    files = [part for part in parts if isinstance(part, FilePart)]
    if not files or files[0].layout().names is None:
        return None
    heads = (part.head() for part in files)
    frame = next((head for head in heads if head.num_rows), None) or files[0].head()
    text = files[0].file.format in TEXT
    return Table(
        _name(parts),
        frame.num_rows,
        frame,
        index=index_columns(frame.schema, text=text),
        missing=frozenset([*MISSING, *options.missing]),
        from_text=text,
        decimal=options.decimal,
        thousands=options.thousands,
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


def _by_head(table: Table, name: str, *, counters: bool = True) -> Kind:
    """What a column may hold, by the first rows: those of numbers have to be gone through."""
    kind = kind_of(table, name, counters=counters)
    if kind.name == "empty":
        numbers = layout_of(table.frame.schema).numbers
        empty = arrow().types.is_null(table.frame[name].type) or name in numbers
        return Kind("number" if empty else "text", None)
    if kind.name == "counter" and name not in table.index:
        return Kind("number", None)
    return kind if kind.name in ("mixed", "marked") else replace(kind, count=None)


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
    extent: Extent | None  # of what is there; None where something is infinite
    n_lacking: int = 0  # rows with something missing, with something infinite, with nothing at all
    n_infinite: int = 0
    n_empty: int = 0

    @property
    def complete(self) -> bool:
        """Whether nothing is missing or infinite."""
        return not self.missing.any() and not self.infinite.any()

    @classmethod
    def of(cls, batches: Batches) -> _Survey:
        """Go through all batches."""
        d = batches.n_features
        survey = cls(0, np.zeros(d, np.int64), np.zeros(d, np.int64), np.ones(d, bool), None)
        first: Array | None = None
        for batch in batches.unchecked():
            first = batch[0].copy() if first is None else first
            survey = survey._after(batch, first)
        batches.check()  # there is a row at least
        return replace(survey, counts=survey.counts & (survey.n_rows >= SHORTEST_COUNTER))

    def columns(self) -> list[_Column]:
        """What was seen of each column."""
        pairs = zip(self.missing.tolist(), self.counts.tolist(), strict=True)
        return [_Column(missing, counts) for missing, counts in pairs]

    def select(self, places: Sequence[int]) -> _Survey:
        """What was seen of some of the columns."""
        missing, infinite, counts = (
            counted[list(places)] for counted in (self.missing, self.infinite, self.counts)
        )
        extent = None if self.extent is None else self.extent.select(places)
        return replace(self, missing=missing, infinite=infinite, counts=counts, extent=extent)

    def _after(self, batch: Array, first: Array) -> _Survey:
        """The same and m rows more."""
        n = self.n_rows + len(batch)
        holes, unbounded = np.isnan(batch), np.isinf(batch)
        missing, infinite = self.missing + holes.sum(0), self.infinite + unbounded.sum(0)
        numbers = np.arange(self.n_rows, n)[:, None]
        counts = self.counts & np.isin(first, (0, 1)) & (batch == first + numbers).all(0)
        extent = None
        if not infinite.any():
            own = Extent.of(batch)
            extent = own if self.extent is None else self.extent + own
        rows = (holes.any(1), unbounded.any(1), holes.all(1))
        before = (self.n_lacking, self.n_infinite, self.n_empty)
        seen = (old + int(new.sum()) for old, new in zip(before, rows, strict=True))
        return _Survey(n, missing, infinite, counts, extent, *seen)
