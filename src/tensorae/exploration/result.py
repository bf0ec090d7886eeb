"""Exploration: the model and the results, with their page, table, model file and Python code.

Shapes: n rows, k groups.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorae import _notebook
from tensorae._progress import line_on_stderr
from tensorae._text import counted, listed, percent, shown
from tensorae._warnings import collected_warnings
from tensorae.data.columns import note_on_header
from tensorae.data.files import ReadOptions, arrow, format_of
from tensorae.data.preparation import Preparation, PreparedTable
from tensorae.data.selection import (
    Category,
    ColumnSelection,
    LeftOut,
    identifies_rows,
    named_with_reasons,
)
from tensorae.data.table import Table
from tensorae.data.writing import write_table
from tensorae.exploration.diagnostics import (
    GRADES,
    HANDFUL,
    UNUSUAL,
    UNUSUAL_LEVELS,
    agreement_of_halves,
    columns_beside,
    grade_of,
    reversed_trends,
    share_touching,
    unusual_rows,
)
from tensorae.exploration.sentences import (
    ABOUT_IMAGES,
    about_clarity,
    about_columns,
    about_groups,
    about_missing,
    about_trends,
    about_unusual_rows,
    caution,
    group_lines,
    group_names,
    group_words,
    worth_a_look,
)
from tensorae.inspect import (
    CrossTable,
    Description,
    Outliers,
    Overview,
    Rule,
    TrendReversals,
    ValueComparison,
    overview,
    rules,
)
from tensorae.inspect.clusters import describe_samples
from tensorae.inspect.samples import ClusteredSamples
from tensorae.report import ExplorationContext, Step, write_report
from tensorae.table_model import TableModel

__all__ = ["Call", "Exploration"]

Array = NDArray[Any]

# What is added to the rows of the table.
ADDED = ("cluster", "confidence", "outlier")
SCALED = {
    "standard": "Columns have different units, so each was standardised to mean 0 and variance 1.",
    "log": (
        "Columns without negative values whose distribution is skewed, with a long tail of large "
        "values, were brought to a logarithmic scale; then each column was standardised to mean 0 "
        "and variance 1. All values below are in the units of the table. On a logarithmic scale:"
    ),
    "max": "Columns were divided by their largest absolute value.",
    "none": "Columns were not scaled: their ranges are similar.",
}
MOST_COMPARED = 12
MOST_LOGS = 6
MOST_RULES = 30


@dataclass(frozen=True)
class Call:
    """How ``explore`` was called: the source of the table, and arguments other than defaults."""

    paths: tuple[str, ...] = ()  # none for a table in memory
    kind: str = "table"  # or "array"
    arguments: Mapping[str, Any] = field(default_factory=dict)
    options: ReadOptions = field(default_factory=ReadOptions)

    @classmethod
    def of(
        cls, data: Any, table: Table, arguments: Mapping[str, Any], options: ReadOptions | None
    ) -> Call:
        """The call for some data, and the table that was read from it."""
        entries = data if isinstance(data, list | tuple) else [data]
        known = all(isinstance(entry, str | Path) for entry in entries)
        paths = tuple(map(str, entries)) if known and "-" not in entries else ()
        kind = "table" if table.samples is None else "array"
        return cls(paths, kind, arguments, options or ReadOptions())

    @property
    def code(self) -> str:
        """Python code that makes the call."""
        imports, name = ["from tensorae import explore"], "X" if self.kind == "array" else "table"
        first = f"# {name}: the {self.kind} that was explored"
        if self.paths:
            first = f"{name} = {(self.paths[0] if len(self.paths) == 1 else list(self.paths))!r}"
        given = [f"{key}={value!r}" for key, value in self.arguments.items()]
        if self.paths and self.options != ReadOptions():
            imports.append("from tensorae.data import ReadOptions")
            usual = vars(ReadOptions())
            options = (f"{k}={v!r}" for k, v in vars(self.options).items() if v != usual[k])
            given.append(f"options=ReadOptions({', '.join(options)})")
        lines = [
            first,
            f"found = explore({', '.join([name, *given])})",
            "clusters = found.labels",
            "centers = found.model.cluster_centers_",
            "# found.model.predict(new_rows) takes tables like this one, in the same units",
        ]
        return "\n".join([*imports, "", *lines])


@dataclass(frozen=True, eq=False)
class Exploration:
    """Results of :func:`tensorae.explore`; ``str`` gives a summary of about ten lines.

    Attributes
    ----------
    name : str
        Of the table.
    model : TableModel
        Takes tables like this one as they are, and gives results in their units;
        ``model.estimator`` is the LinearTAE, on the scale of the fit.
    selection : ColumnSelection
        Columns of the fit and those left out.
    rows : PreparedTable
        Rows with at least one value, in their units and on the scale of the fit.
    sample : ndarray of int or None
        The rows of these that the groups were found on; None for all.
    given : object
        The data as it was passed.
    source : Call
        How ``explore`` was called.
    seed : int
    warnings : tuple of str
        Warnings of the fit, such as evidence for more groups than were tried.
    target : str or None
        Column with an outcome that the groups are compared with first.
    verbose : bool or None
        Whether to show progress on standard error; None in interactive sessions.
    kept_beside : tuple of Category
        Columns that could have been categories of the fit, where the numbers alone show clear
        groups.
    features : ndarray of shape (m, q) or None
        Scattering features of images, in which the groups were found.
    """

    name: str
    model: TableModel
    selection: ColumnSelection
    rows: PreparedTable
    sample: NDArray[np.intp] | None
    given: Any
    source: Call
    seed: int
    warnings: tuple[str, ...] = ()
    target: str | None = None
    verbose: bool | None = None
    kept_beside: tuple[Category, ...] = ()
    features: NDArray[Any] | None = field(default=None, repr=False)

    # Results ----------------------------------------------------------------------------------

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
        """Columns that were not part of the fit, with reasons."""
        return self.selection.left_out

    @property
    def columns(self) -> tuple[str, ...] | None:
        """Columns of the fit; None if they have no names."""
        return self.preparation.columns

    @property
    def categories(self) -> tuple[Category, ...]:
        """Those columns of the fit that are categories, with reasons."""
        return self.selection.categories

    @property
    def n_looked_at(self) -> int:
        """Rows that the groups were found on."""
        return len(self.rows.numbers) if self.sample is None else len(self.sample)

    @cached_property
    def labels(self) -> NDArray[np.int64]:
        """Group of each of the n rows; -1 for a row without values in the columns of the fit."""
        return self.rows.filled(self._labels.astype(np.int64))

    @cached_property
    def sizes(self) -> NDArray[np.intp]:
        """Rows of each of the k groups."""
        return np.bincount(self._labels, minlength=self.n_clusters)

    @cached_property
    def confidence(self) -> Array:
        """Probability of the group of each of the n rows; NaN if it has none."""
        with collected_warnings():  # the sentences say what matters
            chances = np.asarray(self.model.predict_proba(self.rows))
        return self.rows.filled(chances[np.arange(len(chances)), self._labels])

    @cached_property
    def odd(self) -> NDArray[np.bool_]:
        """Which of the n rows are unusual for their own group; 1 % are expected by chance."""
        whole = np.zeros(self.rows.table.n_rows, bool)
        whole[self.rows.numbers] = self._odd_rows[0]
        return whole

    @property
    def chance(self) -> float:
        """Share of ordinary rows that are called unusual."""
        both = self.categories and self.preparation.n_numbers
        return UNUSUAL + UNUSUAL_LEVELS if both else UNUSUAL

    @property
    def outliers(self) -> Outliers:
        """The most unusual rows, with reasons; rows are counted as on the page."""
        return self._odd_rows[1]

    @cached_property
    def agreement(self) -> float | None:
        """Agreement of halves of the rows, at most 1; None for one group or few rows."""
        with collected_warnings(), line_on_stderr(self.verbose):
            return agreement_of_halves(
                self.model.estimator, self._rows_of_fit, self.seed, self.features
            )

    @cached_property
    def touching(self) -> float | None:
        """Share of the rows in groups without a valley in density between them and another group.

        None for one group, and where values are missing.
        """
        return share_touching(self.samples)

    @property
    def grade(self) -> str:
        """How clear the groups are: "clear", "fair", "weak" or "none".

        By the agreement, and weak at best if many have no valley between them. Empty if there are
        too few rows to tell.
        """
        return grade_of(self.n_clusters, self.agreement, self.touching)

    @cached_property
    def trends(self) -> TrendReversals | None:
        """Pairs of columns whose trend is reversed inside the groups; None without pairs."""
        return reversed_trends(self.samples)

    @cached_property
    def comparisons(self) -> tuple[CrossTable | ValueComparison, ...]:
        """Columns that were not part of the fit compared with the groups.

        The target comes first, then the most strongly related one.
        """
        return columns_beside(self.selection, self.rows.numbers, self._labels, self.target)

    @cached_property
    def rules(self) -> tuple[Rule, ...]:
        """A short rule for each of the k groups, by the observed values of the fit."""
        if self.samples.image_shape is not None or not 1 < self.n_clusters <= MOST_RULES:
            return tuple(Rule(label, (), 0.0, 0.0) for label in range(self.n_clusters))
        rows, names = self._rows_of_fit, self.samples.names
        table = rows.frame if rows.levels else rows.values
        names = rows.columns if rows.levels else names
        found = {r.label: r for r in rules(table, self.samples.labels, feature_names=names)}
        return tuple(found.get(g, Rule(g, (), 0.0, 0.0)) for g in range(self.n_clusters))

    @cached_property
    def group_names(self) -> tuple[str, ...]:
        """A name for each of the k groups, from its rule, or from what distinguishes it."""
        return tuple(group_names(self.rules, self.group_words))

    @cached_property
    def overview(self) -> Overview:
        """Distributions, correlations, repeated rows and missing values of the whole table."""
        table = self.selection.table
        unique = [one.name for one in self.left_out if identifies_rows(one, table.n_rows)]
        found = overview(table, unique=unique)
        # Neighbouring pixels are always correlated.
        return replace(found, correlations=()) if self._are_images else found

    @property
    def _are_images(self) -> bool:
        return len(self.selection.table.shape or ()) in (2, 3)

    @cached_property
    def worth_a_look(self) -> str:
        """The one finding that is most worth a look; empty where there is none."""
        if self._are_images:
            return ""
        return worth_a_look(
            self.comparisons,
            self.trends,
            self.description if self.n_clusters > 1 else None,
            self.outliers,
            self.overview,
            target=self.target,
            clear=self.grade in ("fair", "clear"),
            row_names=self.rows.numbers if self.sample is None else self.rows.numbers[self.sample],
        )

    @cached_property
    def _labels(self) -> NDArray[np.intp]:
        """Groups of the rows that have one."""
        if self.sample is None:
            return np.asarray(self.model.labels_)
        with collected_warnings():  # the sentences say what matters
            return np.asarray(self.model.predict(self.rows))

    @cached_property
    def _odd_rows(self) -> tuple[NDArray[np.bool_], Outliers]:
        sample = slice(None) if self.sample is None else self.sample
        with collected_warnings(), line_on_stderr(self.verbose):
            return unusual_rows(self.samples, self.rows, self._labels, sample, self.seed)

    @cached_property
    def _rows_of_fit(self) -> PreparedTable:
        """Rows that the groups were found on."""
        return self.rows if self.sample is None else self.rows.take(self.sample)

    @cached_property
    def samples(self) -> ClusteredSamples:
        """The rows of the fit, clustered by the model."""
        with collected_warnings():  # the sentences say what matters
            return ClusteredSamples.of(self.model, self._rows_of_fit)

    @cached_property
    def description(self) -> Description:
        """Description of each group."""
        n_features = self.samples.d + len(self.categories)
        return describe_samples(self.samples, n_features=n_features, n_members=0)

    @cached_property
    def group_words(self) -> tuple[str, ...]:
        """What distinguishes each of the k groups, by the observed values."""
        if self._are_images:  # single pixels mean nothing
            return ("",) * self.n_clusters
        return tuple(group_words(self.description))

    @property
    def caution(self) -> str:
        """Why there may be no groups, or weak ones; empty if they can be relied on."""
        return caution(self.n_clusters, self.agreement, self.touching)

    @cached_property
    def sentences(self) -> tuple[str, ...]:
        """The result, in up to four lines, and one on images."""
        n, k, missing = len(self.rows.numbers), self.n_clusters, self.rows.missing
        odd = self._odd_rows[0]
        n_alone = int((odd & (self.sizes[self._labels] < HANDFUL)).sum())
        unusual = about_unusual_rows(int(odd.sum()), n, self.chance, k, n_alone)
        found = (
            about_groups(self.samples, self.description, n, self.sizes),
            about_trends(self.trends, self.comparisons),
            " ".join(filter(None, (unusual, about_missing(int(missing.sum()), missing.size)))),
            about_columns(self.overview) if self.grade in ("none", "weak") else "",
            ABOUT_IMAGES if self.features is not None else "",
        )
        return tuple(filter(None, found))

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """Steps from the data to the fit."""
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
            steps.append(Step("Some cells were converted to numbers.", self.selection.notes))
        if self.categories:
            steps.append(
                Step(
                    f"{counted(len(self.categories), 'column')} of the fit "
                    f"{'is a category' if len(self.categories) == 1 else 'are categories'}: each "
                    "group has its own shares of their levels.",
                    tuple(map(str, self.categories)),
                )
            )
        if self.kept_beside:
            steps.append(
                Step(
                    "Other columns could have been categories of the fit, but numbers alone show "
                    "clear groups, with which they are compared instead.",
                    tuple(map(str, self.kept_beside)),
                )
            )
        empty = n - len(self.rows.numbers)
        if empty:
            verb = "row has" if empty == 1 else "rows have"
            steps.append(Step(f"{empty:,} {verb} no value in these columns and no group."))
        if self.sample is not None:
            steps.append(
                Step(
                    f"The groups were found on a sample of {len(self.sample):,} rows; every row "
                    "was then assigned to the group that describes it best. The map and the "
                    "descriptions of the groups are based on the sample."
                )
            )
        if self.columns is not None:
            scaling = self.preparation.scaling
            logs = tuple(map(shown, self._log_columns))
            if self.preparation.n_numbers:
                steps.append(Step(SCALED.get(scaling.name, ""), logs))
        missing = int(self.rows.missing.sum())
        if missing:
            steps.append(
                Step(f"{missing:,} missing values were kept: the fit uses the other values.")
            )
        return tuple(steps)

    @property
    def head(self) -> str:
        """What is in the table: rows, columns used, missing values."""
        n, table, gaps = len(self.labels), self.rows.table, self.rows.missing
        size = n * gaps.shape[1]
        missing = size - int((~gaps).sum())  # rows without any value are left out
        said = [counted(n, "row")]
        if self.columns is not None:
            many = counted(len(table.columns), "column")
            kinds = f", {len(self.categories)} as categories" if self.categories else ""
            said.append(f"{len(self.columns)} of {many} used{kinds}")
        share = percent(missing / size)
        said.append(f"{counted(missing, 'value')} missing ({share})" if missing else "none missing")
        return ", ".join(said)

    @property
    def code(self) -> str:
        """Python code that gives the same results."""
        return self.source.code

    @property
    def _log_columns(self) -> list[str]:
        """Columns on a logarithmic scale."""
        names = self.preparation.number_columns or ()
        return [names[place] for place in self.preparation.scaling.logs] if names else []

    @cached_property
    def summary(self) -> str:
        """About ten lines of text."""
        head = [f"{self.name}: {self.steps[0].what}"]
        if self.left_out:
            head.append(f"Left out: {named_with_reasons(self.left_out)}.")
        if self.categories:
            head.append(f"Categories: {listed(list(map(str, self.categories)), MOST_LOGS)}.")
        if self._log_columns:
            names = listed(list(map(shown, self._log_columns)), MOST_LOGS)
            head.append(f"Skewed, so on a logarithmic scale: {names}.")
        if self.sample is not None:
            head.append(f"The groups were found on a sample of {len(self.sample):,} rows.")
        groups = (
            group_lines(self.group_names, self.rules, self.group_words, self.sizes)
            if self.n_clusters > 1
            else []
        )
        clarity = about_clarity(self.n_clusters, self.agreement, self.grade)
        said = [self.caution, *self.warnings, clarity]
        look = f"Most worth a look: {self.worth_a_look}" if self.worth_a_look else ""
        lines = [*head, *said, *self.sentences, *(f"  {line}" for line in groups), look]
        return "\n".join(filter(None, lines))

    def __str__(self) -> str:
        return self.summary

    def __repr__(self) -> str:
        return self.summary

    # Table, page and files ---------------------------------------------------------------------

    @cached_property
    def table(self) -> Any:
        """The rows with cluster, confidence and outlier, as a frame of the type that was passed."""
        new = self._new_columns()
        if hasattr(self.given, "assign"):  # pandas
            return self.given.assign(**new)
        if hasattr(self.given, "with_columns"):  # polars
            frame = self.given
            return frame.hstack(type(frame)(new))
        return self._joined(self.rows.table.frame)

    def write_table(self, path: str | os.PathLike[str]) -> Path:
        """Write the rows with cluster, confidence and outlier; text stays unchanged.

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
        names, taken = [], self.rows.table.columns
        for name in ADDED:
            while name in taken:
                name += "_"
            names.append(name)
        return dict(zip(names, (self.labels, self.confidence, self.odd), strict=True))

    def _joined(self, frame: Any) -> Any:
        """A pyarrow Table with the new columns, which are null for rows without a group."""
        pa, new, without = arrow(), self._new_columns(), self.labels < 0
        columns = [*frame.columns, *(pa.array(values, mask=without) for values in new.values())]
        return pa.table(columns, names=[*frame.column_names, *new])

    def report(self, path: str | os.PathLike[str], *, title: str | None = None) -> Path:
        """Write a page with the results, a map, the groups, the reasons and the Python code.

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
            head=self.head,
            groups=tuple(
                zip(
                    self.group_names, self.sizes.tolist(), self.rules, self.group_words, strict=True
                )
            )
            if self.n_clusters > 1
            else (),
            worth_a_look=self.worth_a_look,
            overview=self.overview,
            steps=self.steps,
            code=self.code,
            agreement=self.agreement,
            grade=self.grade,
            grades=tuple(zip(GRADES, GRADES.values(), [*GRADES.values(), 1.0][1:], strict=True)),
            sizes=() if self.sample is None else tuple(self.sizes.tolist()),
            n_unusual=int(self._odd_rows[0][shown].sum()),
            chance=self.chance,
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
        """Columns that identify the rows of the page."""
        identifiers = self.rows.identifiers()
        if self.sample is None or identifiers is None:
            return identifiers
        shown = identifiers.take(arrow().array(self.sample))
        if "row of the table" not in shown.column_names:
            numbers = arrow().array(self.rows.numbers[self.sample])
            shown = shown.add_column(0, "row of the table", numbers)
        return shown

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Save the model with its columns and scale, for ``tensorae predict`` and others.

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
        parts = [_notebook.heading(self.name, f": {self.steps[0].what}")]
        parts += [_notebook.paragraph(sentence) for sentence in sentences if sentence]
        if self.n_clusters > 1:
            rows = [
                (
                    str(label),
                    f"{size:,}",
                    _notebook.Share(size / self.sizes.sum()),
                    str(rule),
                    words,
                )
                for label, (size, rule, words) in enumerate(
                    zip(self.sizes.tolist(), self.rules, self.group_words, strict=True)
                )
            ]
            heads = ["group", "rows", "share", "rule", "unlike the rest"]
            parts.append(_notebook.table(heads, rows, words=[3, 4]))
        if self.worth_a_look:
            parts.append(_notebook.paragraph(f"Most worth a look: {self.worth_a_look}"))
        if self.left_out:
            reasons = [_notebook.paragraph(str(one)) for one in self.left_out]
            parts.append(_notebook.fold("columns left out", *reasons))
        return _notebook.card(*parts, _notebook.fold("Python code", _notebook.code(self.code)))
