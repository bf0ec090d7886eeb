"""Where values were missing, and what was filled in: column by column, and the least certain rows.

Shapes: n samples, d features.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorae.inspect.samples import as_rows, in_units
from tensorae.report.findings import Findings, root_mean_square

__all__ = ["FilledRow", "FilledValue", "GapColumn", "GapsView"]

Array = NDArray[Any]

MOST_COLUMNS = 60
MOST_ROWS = 10
MOST_VALUES = 4


@dataclass(frozen=True)
class GapColumn:
    """A feature with gaps: values in its units."""

    name: str
    count: int
    share: float  # of all rows
    observed: float | None  # mean of what is there; None where nothing is
    filled: float
    uncertainty: float  # root mean square of the standard deviations


@dataclass(frozen=True)
class FilledValue:
    """What was filled in for one feature of a row."""

    name: str
    value: float
    deviation: float


@dataclass(frozen=True)
class FilledRow:
    """A row with gaps, of which the least certain are named."""

    row: int
    label: int
    names: list[str]  # its identifiers
    n_missing: int
    n_observed: int
    uncertainty: float  # of the least certain value, in spreads of its feature over all rows
    values: list[FilledValue]  # least certain first

    @property
    def n_more(self) -> int:
        """Values that are not shown."""
        return self.n_missing - len(self.values)


@dataclass(frozen=True)
class GapsView:
    """What is said about gaps."""

    total: int
    n_rows: int
    share: float  # of all values
    n_empty: int  # rows in which nothing is there
    n_columns: int
    columns: list[GapColumn]
    rows: list[FilledRow]

    @classmethod
    def of(cls, findings: Findings) -> GapsView | None:
        """Ask the model how sure it is; None where nothing is missing."""
        gaps = findings.gaps
        if gaps is None:
            return None
        model: Any = findings.model
        deviations = as_rows(model.impute_std(findings.given)) * findings.scaling.unit
        counts, lacking = gaps.sum(0), gaps.sum(1)
        most = np.argsort(-counts, kind="stable")[:MOST_COLUMNS]
        return cls(
            total=int(counts.sum()),
            n_rows=int((lacking > 0).sum()),
            share=float(gaps.mean()),
            n_empty=int((lacking == findings.d).sum()),
            n_columns=int((counts > 0).sum()),
            columns=[_column(findings, gaps, deviations, j) for j in most.tolist() if counts[j]],
            rows=_least_certain(findings, gaps, deviations),
        )


def _column(findings: Findings, gaps: Array, deviations: Array, column: int) -> GapColumn:
    holes, values = gaps[:, column], findings.values[:, column].astype(np.float64)
    return GapColumn(
        name=findings.names[column],
        count=int(holes.sum()),
        share=float(holes.mean()),
        observed=None if holes.all() else float(values[~holes].mean()),
        filled=float(values[holes].mean()),
        uncertainty=float(root_mean_square(deviations[holes, column][:, None])[0]),
    )


def _least_certain(findings: Findings, gaps: Array, deviations: Array) -> list[FilledRow]:
    """Rows whose filled values are least certain, beside how far their features spread."""
    relative = in_units(np.where(gaps, deviations, 0), findings.spread)
    worst = relative.max(1)
    order = np.argsort(-worst, kind="stable")[:MOST_ROWS]
    found = []
    for row in order[gaps[order].any(1)].tolist():
        missing = np.flatnonzero(gaps[row])
        first = missing[np.argsort(-relative[row, missing], kind="stable")][:MOST_VALUES]
        found.append(
            FilledRow(
                row=row,
                label=int(findings.labels[row]),
                names=findings.identifiers.row(row),
                n_missing=len(missing),
                n_observed=findings.d - len(missing),
                uncertainty=float(worst[row]),
                values=[
                    FilledValue(
                        findings.names[j],
                        float(findings.values[row, j]),
                        float(deviations[row, j]),
                    )
                    for j in first.tolist()
                ],
            )
        )
    return found
