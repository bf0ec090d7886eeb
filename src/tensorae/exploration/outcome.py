"""What an exploration found: the model, groups, odd rows, trends, and where it can be read.

Shapes: n rows, k groups.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorae._warnings import collected_warnings
from tensorae.data import (
    Preparation,
    PreparedTable,
    arrow,
    counted,
    format_of,
    note_on_header,
    write_table,
)
from tensorae.data.selection import ColumnSelection, LeftOut, named_with_reasons
from tensorae.exploration.again import Source, code_for
from tensorae.exploration.halves import GRADES, agreement_of_halves, grade_of, share_touching
from tensorae.exploration.questions import (
    HANDFUL,
    UNUSUAL,
    columns_beside,
    turned_trends,
    unusual_rows,
)
from tensorae.exploration.sentences import (
    about_clarity,
    about_groups,
    about_missing,
    about_trends,
    about_unusual_rows,
    caution,
    group_lines,
    group_words,
)
from tensorae.inspect import CrossTable, Description, Outliers, TrendReversals, html
from tensorae.inspect.clusters import describe_samples
from tensorae.inspect.samples import ClusteredSamples
from tensorae.report import ExplorationContext, Step, write_report
from tensorae.table_model import TableModel

__all__ = ["Exploration"]

Array = NDArray[Any]

# What is added to the rows of the table.
ADDED = ("cluster", "confidence", "outlier")
SCALED = {
    "standard": "Columns differ in their units, so each was brought to mean 0 and variance 1.",
    "max": "Columns were divided by their largest absolute value.",
    "none": "Columns were left on their scale: their ranges are alike.",
}
MOST_COMPARED = 12


@dataclass(frozen=True, eq=False)
class Exploration:
    """What :func:`tensorae.explore` found; ``str`` gives a summary of about ten lines.

    Attributes
    ----------
    name : str
        Of the table.
    model : TableModel
        With everything chosen. It takes tables like this one as they are and answers in their
        units; ``model.estimator`` is the LinearTAE, on the scale of the fit.
    selection : ColumnSelection
        Columns of the fit and those left out.
    rows : PreparedTable
        Rows that have a value at least, in their units and on the scale of the fit.
    sample : ndarray of int or None
        Which of these rows the groups were found on; None where all are.
    given : object
        What was explored, as it came.
    source : Source
        Where it came from.
    seed : int
    warnings : tuple of str
        What the fit warns of, such as evidence for more groups than were tried.
    """

    name: str
    model: TableModel
    selection: ColumnSelection
    rows: PreparedTable
    sample: NDArray[np.intp] | None
    given: Any
    source: Source
    seed: int
    warnings: tuple[str, ...] = ()

    # What was found ----------------------------------------------------------------------------

    @property
    def n_clusters(self) -> int:
        """Number of groups."""
        return len(self.model.cluster_centers_)

    @property
    def preparation(self) -> Preparation:
        """Columns and scale of the fit."""
        return self.model.preparation

    @property
    def left_out(self) -> tuple[LeftOut, ...]:
        """Columns that had no part in the fit, with reasons."""
        return self.selection.left_out

    @property
    def columns(self) -> tuple[str, ...] | None:
        """Columns of the fit; None where they have no names."""
        return self.preparation.columns

    @property
    def n_looked_at(self) -> int:
        """Rows that the groups were found on."""
        return len(self.rows.X) if self.sample is None else len(self.sample)

    @cached_property
    def labels(self) -> NDArray[np.int64]:
        """Group of each of the n rows; -1 for one that has no value in any column of the fit."""
        return self.rows.filled(self._labels.astype(np.int64))

    @cached_property
    def sizes(self) -> NDArray[np.intp]:
        """Rows of each of the k groups."""
        return np.bincount(self._labels, minlength=self.n_clusters)

    @cached_property
    def confidence(self) -> Array:
        """Probability of the group of each of the n rows; NaN where there is none."""
        with collected_warnings():  # what matters is said in sentences
            chances = np.asarray(self.model.predict_proba(self.rows))
        return self.rows.filled(chances[np.arange(len(chances)), self._labels])

    @cached_property
    def odd(self) -> NDArray[np.bool_]:
        """Which of the n rows are unusual for their own group; 1 % are by chance."""
        whole = np.zeros(self.rows.table.n_rows, bool)
        whole[self.rows.numbers] = self._odd_rows[0]
        return whole

    @property
    def outliers(self) -> Outliers:
        """The most unusual of them, with reasons; rows are those of the page."""
        return self._odd_rows[1]

    @cached_property
    def agreement(self) -> float | None:
        """Of halves of the rows on the groups, 1 at most; None for one group or few rows."""
        with collected_warnings():  # what matters is said in sentences
            return agreement_of_halves(self.model.estimator, self._rows_of_fit.X, self.seed)

    @cached_property
    def touching(self) -> float | None:
        """Share of the rows whose group has another one with no valley in between.

        None for one group, and where values are missing.
        """
        return share_touching(self.samples)

    @property
    def grade(self) -> str:
        """How clear the groups are: "clear", "fair", "weak" or "none".

        By the agreement, and weak at best where no valleys lie between many of them. Empty where
        there are too few rows to tell.
        """
        return grade_of(self.n_clusters, self.agreement, self.touching)

    @cached_property
    def trends(self) -> TrendReversals | None:
        """Pairs of columns whose trend is reversed inside the groups; None where none can be."""
        return turned_trends(self.samples)

    @cached_property
    def comparisons(self) -> tuple[CrossTable, ...]:
        """Columns that had no part in the fit against the groups, strongest first."""
        return columns_beside(self.selection, self.rows.numbers, self._labels)

    @cached_property
    def _labels(self) -> NDArray[np.intp]:
        """Groups of the rows that have one."""
        if self.sample is None:
            return np.asarray(self.model.labels_)
        with collected_warnings():  # what matters is said in sentences
            return np.asarray(self.model.predict(self.rows))

    @cached_property
    def _odd_rows(self) -> tuple[NDArray[np.bool_], Outliers]:
        sample = slice(None) if self.sample is None else self.sample
        with collected_warnings():  # what matters is said in sentences
            return unusual_rows(self.samples, self.rows.X, self._labels, sample, self.seed)

    @cached_property
    def _rows_of_fit(self) -> PreparedTable:
        """Those that the groups were found on."""
        return self.rows if self.sample is None else self.rows.take(self.sample)

    @cached_property
    def samples(self) -> ClusteredSamples:
        """The rows of the fit as the model sees them."""
        with collected_warnings():  # what matters is said in sentences
            return ClusteredSamples.of(self.model, self._rows_of_fit)

    @cached_property
    def description(self) -> Description:
        """What makes up each group."""
        return describe_samples(self.samples, n_features=self.samples.d, n_members=0)

    @cached_property
    def group_words(self) -> tuple[str, ...]:
        """What sets each of the k groups apart, by the values that are there."""
        return tuple(group_words(self.description))

    @property
    def caution(self) -> str:
        """Why there may be no groups, or weak ones; empty where they can be relied on."""
        return caution(self.n_clusters, self.agreement, self.touching)

    @cached_property
    def sentences(self) -> tuple[str, ...]:
        """The answer, in up to three lines."""
        n, k, missing = len(self.rows.X), self.n_clusters, np.isnan(self.rows.values)
        odd = self._odd_rows[0]
        n_alone = int((odd & (self.sizes[self._labels] < HANDFUL)).sum())
        unusual = about_unusual_rows(int(odd.sum()), n, UNUSUAL, k, n_alone)
        found = (
            about_groups(self.samples, self.description, n, self.sizes),
            about_trends(self.trends, self.comparisons),
            " ".join(filter(None, (unusual, about_missing(int(missing.sum()), missing.size)))),
        )
        return tuple(filter(None, found))

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """What was done to the data before the fit."""
        n, all_columns = len(self.labels), len(self.rows.table.columns)
        used = (
            ""
            if self.columns is None
            else f", {len(self.columns)} of {counted(all_columns, 'column')} used"
        )
        steps = [Step(f"{n:,} rows were read{used}.")]
        header = note_on_header(self.rows.table)
        if header:
            steps.append(Step(f"{header[0].upper()}{header[1:]}"))
        if self.left_out:
            reasons = tuple(str(one) for one in self.left_out)
            steps.append(Step(f"{counted(len(reasons), 'column')} left out of the fit.", reasons))
        if self.selection.notes:
            steps.append(Step("Some cells were made numbers.", self.selection.notes))
        empty = n - len(self.rows.X)
        if empty:
            verb = "row has" if empty == 1 else "rows have"
            steps.append(Step(f"{empty:,} {verb} no value in these columns and no group."))
        if self.sample is not None:
            steps.append(
                Step(
                    f"The groups were found on a sample of {len(self.sample):,} rows; every row "
                    "then got the group that describes it best. The map and what is said "
                    "of the columns of a group come from the sample."
                )
            )
        if self.columns is not None:
            steps.append(Step(SCALED.get(self.preparation.scaling.name, "")))
        missing = int(np.isnan(self.rows.values).sum())
        if missing:
            steps.append(
                Step(f"{missing:,} missing values stayed missing: the fit goes by what is there.")
            )
        return tuple(steps)

    @property
    def code(self) -> str:
        """Python that does the same again, in the units of the table."""
        return code_for(self.source)

    @cached_property
    def summary(self) -> str:
        """About ten lines of text."""
        head = [f"{self.name}: {self.steps[0].what}"]
        if self.left_out:
            head.append(f"Left out: {named_with_reasons(self.left_out)}.")
        if self.sample is not None:
            head.append(f"The groups were found on a sample of {len(self.sample):,} rows.")
        groups = group_lines(self.group_words, self.sizes) if self.n_clusters > 1 else []
        clarity = about_clarity(self.n_clusters, self.agreement, self.grade)
        said = [self.caution, *self.warnings, clarity]
        lines = [*head, *said, *self.sentences, *(f"  {line}" for line in groups)]
        return "\n".join(filter(None, lines))

    def __str__(self) -> str:
        return self.summary

    def __repr__(self) -> str:
        return self.summary

    # Where it can be read ----------------------------------------------------------------------

    @cached_property
    def table(self) -> Any:
        """The rows with cluster, confidence and outlier: a frame like the one that came in."""
        new = self._new_columns()
        if hasattr(self.given, "assign"):  # pandas
            return self.given.assign(**new)
        if hasattr(self.given, "with_columns"):  # polars
            frame = self.given
            return frame.hstack(type(frame)(new))
        return self._joined(self.rows.table.frame)

    def write_table(self, path: str | os.PathLike[str]) -> Path:
        """Write the rows with cluster, confidence and outlier; text stays letter for letter.

        Parameters
        ----------
        path : path-like
            Ends with .csv, .tsv, .parquet or .arrow.

        Returns
        -------
        Path
        """
        target, table = Path(path), self.rows.table
        text = format_of(target) in ("csv", "tsv")
        frame = table.as_written(table.columns) if text else table.frame
        write_table(target, self._joined(frame), safe=True)
        return target

    def _new_columns(self) -> dict[str, Array]:
        names = _free_names(self.rows.table.columns)
        return dict(zip(names, (self.labels, self.confidence, self.odd), strict=True))

    def _joined(self, frame: Any) -> Any:
        """A pyarrow Table with the new columns, which are empty where a row has no group."""
        pa, new, without = arrow(), self._new_columns(), self.labels < 0
        columns = [*frame.columns, *(pa.array(values, mask=without) for values in new.values())]
        return pa.table(columns, names=[*frame.column_names, *new])

    def report(self, path: str | os.PathLike[str], *, title: str | None = None) -> Path:
        """Write the page: the answer, the map, the groups, why, and how to do it again.

        Parameters
        ----------
        path : path-like
        title : str, optional
            The name of the table by default.

        Returns
        -------
        Path
        """
        shown = slice(None) if self.sample is None else self.sample
        context = ExplorationContext(
            sentences=self.sentences,
            caution=self.caution,
            warnings=self.warnings,
            comparisons=self.comparisons[:MOST_COMPARED],
            steps=self.steps,
            code=self.code,
            agreement=self.agreement,
            grade=self.grade,
            grades=tuple(zip(GRADES, GRADES.values(), [*GRADES.values(), 1.0][1:], strict=True)),
            sizes=() if self.sample is None else tuple(self.sizes.tolist()),
            n_unusual=int(self._odd_rows[0][shown].sum()),
            chance=UNUSUAL,
        )
        return write_report(
            self.model,
            self._rows_of_fit,
            path,
            title=title or f"{self.name}: a first look",
            identifiers=self._identifiers(),
            outliers=self.outliers if len(self.outliers) else None,
            context=context,
        )

    def _identifiers(self) -> Any:
        """What names the rows that the page shows."""
        identifiers = self.rows.identifiers()
        if self.sample is None or identifiers is None:
            return identifiers
        shown = identifiers.take(arrow().array(self.sample))
        if "row of the table" not in shown.column_names:
            numbers = arrow().array(self.rows.numbers[self.sample])
            shown = shown.add_column(0, "row of the table", numbers)
        return shown

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Keep the model with its columns and scale, for ``tensorae predict`` and the others.

        Parameters
        ----------
        path : path-like

        Returns
        -------
        Path
        """
        self.model.save(path)
        return Path(path)

    def _repr_html_(self) -> str:
        clarity = about_clarity(self.n_clusters, self.agreement, self.grade)
        sentences = [self.caution, *self.warnings, clarity, *self.sentences]
        parts = [html.heading(self.name, f": {self.steps[0].what}")]
        parts += [html.paragraph(sentence) for sentence in sentences if sentence]
        if self.n_clusters > 1:
            rows = [
                (str(label), f"{size:,}", html.Share(size / self.sizes.sum()), words)
                for label, (size, words) in enumerate(
                    zip(self.sizes.tolist(), self.group_words, strict=True)
                )
            ]
            parts.append(html.table(["group", "rows", "share", "unlike the rest"], rows, words=[3]))
        if self.left_out:
            reasons = [html.paragraph(str(one)) for one in self.left_out]
            parts.append(html.fold("columns left out", *reasons))
        return html.card(*parts, html.fold("again in Python", html.code(self.code)))


def _free_names(taken: list[str]) -> list[str]:
    """Names for new columns that no column has."""
    names = []
    for name in ADDED:
        while name in taken:
            name = f"{name}_"
        names.append(name)
    return names
