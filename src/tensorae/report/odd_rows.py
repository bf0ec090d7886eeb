"""The section on outliers: odd rows, their odd features as bars, expected beside real values."""

from __future__ import annotations

from dataclasses import dataclass

from tensorae.inspect.odd_rows import OddRow, Outliers
from tensorae.report.findings import Findings

__all__ = ["OddRowView", "OutlierView", "outlier_view"]


@dataclass(frozen=True)
class OddRowView:
    """A row of the section."""

    odd: OddRow
    names: list[str]  # its identifiers


@dataclass(frozen=True)
class OutlierView:
    """What the section shows."""

    rows: list[OddRowView]
    n_outliers: int  # of the rows shown
    limit: float  # deviations at the edge of a bar


def outlier_view(findings: Findings, outliers: Outliers | None) -> OutlierView | None:
    """Join explained rows with what names them; None where no detector was asked."""
    if outliers is None:
        return None
    rows = [OddRowView(one, findings.identifiers.row(one.row)) for one in outliers]
    sizes = sorted(abs(feature.deviations) for one in outliers for feature in one.features)
    # One extreme value must not make all other bars vanish.
    limit = sizes[(3 * len(sizes)) // 4] if sizes else 0.0
    return OutlierView(rows, sum(one.outlier for one in outliers), max(limit, 3.0))
