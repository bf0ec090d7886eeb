"""What ``trend_reversals`` found, readable and as a table."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tensorae._optional import import_optional
from tensorae.exceptions import InvalidParameterError
from tensorae.inspect import html
from tensorae.inspect.base import Result
from tensorae.inspect.samples import find_feature

__all__ = ["Slope", "Trend", "TrendReversals"]

SHOWN = 20  # pairs, and clusters of a pair, in the printed form
MOST_LINES = 8  # clusters of a pair in the notebook


@dataclass(frozen=True)
class Slope(Result):
    """A least-squares slope of y on x and how sure it is.

    Attributes
    ----------
    n : int
        Rows behind it.
    slope : float
    low, high : float
        Confidence interval of the slope, for itself alone. The whole line, with slope 0 and
        p-value 1, where nothing can be known: fewer than three rows, or a feature that does not
        vary.
    correlation : float
        Has the sign of the slope and no units.
    p_value : float
        Of no trend, two-sided, for itself alone.
    """

    n: int
    slope: float
    low: float
    high: float
    correlation: float
    p_value: float

    @property
    def known(self) -> bool:
        """Whether there is a slope at all."""
        return math.isfinite(self.low)

    def __str__(self) -> str:
        return f"{self.slope:.3g} [{self.low:.3g}, {self.high:.3g}]" if self.known else "unknown"


@dataclass(frozen=True)
class Trend(Result):
    """One pair of features: the trend over all rows, inside the clusters, and in each of them.

    Attributes
    ----------
    x, y : str
        The features; slopes are those of y on x.
    overall : Slope
        Over all rows, whatever their cluster.
    within : Slope
        Common slope inside the clusters: one line for each, all parallel.
    clusters : tuple of Slope
        Inside each cluster alone, in the order of the labels.
    p_value : float
        Of no reversal, corrected for the number of pairs; 1 where the signs agree.
    reversed : bool
        Whether ``overall`` and ``within`` have opposite signs, beyond chance.
    complete : bool
        Whether, on top of that, every cluster with a known slope has the sign of ``within``.
    """

    x: str
    y: str
    overall: Slope
    within: Slope
    clusters: tuple[Slope, ...]
    p_value: float
    reversed: bool
    complete: bool

    @property
    def kind(self) -> str:
        """Whether it is reversed in all clusters, in common, or not."""
        if not self.reversed:
            return "not reversed"
        return "complete" if self.complete else "in common"

    def _repr_html_(self) -> str:
        rows = [("overall", self.overall), ("inside clusters", self.within)]
        g = len(self.clusters)
        rows += [(f"cluster {place} of {g}", slope) for place, slope in enumerate(self.clusters, 1)]
        return html.card(
            html.heading(f"{self.y} against {self.x}", f": {self.kind} (p = {self.p_value:.2g})"),
            html.table(
                ("", "rows", "slope and interval"),
                [(name, str(slope.n), str(slope)) for name, slope in rows],
                words=(0,),
            ),
        )


@dataclass(frozen=True, repr=False)
class TrendReversals(Result):
    """Trends of pairs of features, reversals first; iterate over it or take one by its number.

    Attributes
    ----------
    labels : tuple
        The clusters, in the order of ``Trend.clusters``.
    feature_names : tuple of str
    n_pairs : int
        Pairs looked at, for which the p-values are corrected; ``trends`` may hold fewer.
    n_reversals : int
        Reversals among all pairs.
    confidence : float
    correction : str
    trends : tuple of Trend
        Reversals first, then other pairs whose signs differ, then the rest; strongest first.
    """

    labels: tuple[Any, ...]
    feature_names: tuple[str, ...]
    n_pairs: int
    n_reversals: int
    confidence: float
    correction: str
    trends: tuple[Trend, ...]

    @property
    def reversals(self) -> tuple[Trend, ...]:
        """The trends that are reversed inside the clusters."""
        return tuple(trend for trend in self.trends if trend.reversed)

    def pair(self, x: str, y: str) -> Trend:
        """Trend of two features, whichever comes first in the data."""
        for name in (x, y):
            find_feature(str(name), self.feature_names)
        for trend in self.trends:
            if {trend.x, trend.y} == {x, y}:
                return trend
        raise InvalidParameterError(
            f"{x!r} and {y!r} must be one of the {len(self.trends)} pairs that were kept of "
            f"{self.n_pairs}; raise max_pairs."
        )

    def __len__(self) -> int:
        return len(self.trends)

    def __iter__(self) -> Iterator[Trend]:
        return iter(self.trends)

    def __getitem__(self, number: int) -> Trend:
        return self.trends[number]

    @property
    def finding(self) -> str:
        """How many trends are reversed, in one sentence."""
        pairs = "pair" if self.n_pairs == 1 else "pairs"
        return (
            f"{self.n_reversals} of {self.n_pairs} {pairs} of features "
            f"{'has' if self.n_reversals == 1 else 'have'} a trend that is reversed inside the "
            f"{len(self.labels)} clusters ({100 * self.confidence:g} % confidence, "
            f"correction: {self.correction})"
        )

    def __repr__(self) -> str:
        lines = [self.finding]
        for trend in self.reversals[:SHOWN]:
            lines += ["", *self._lines(trend)]
        if self.n_reversals > SHOWN:
            lines += ["", f"… and {self.n_reversals - SHOWN} more"]
        return "\n".join(lines)

    def _lines(self, trend: Trend) -> list[str]:
        lines = [
            f"{trend.y} against {trend.x}: {trend.kind} (p = {trend.p_value:.2g})",
            f"  overall          {trend.overall}",
            f"  inside clusters  {trend.within}",
        ]
        named = list(zip(self.labels, trend.clusters, strict=True))
        width = max(len(str(label)) for label in self.labels[:SHOWN])
        lines += [f"    {label!s:<{width}}  {slope}" for label, slope in named[:SHOWN]]
        if len(named) > SHOWN:
            lines.append(f"    … and {len(named) - SHOWN} more")
        return lines

    def _repr_html_(self) -> str:
        if not self.reversals:
            return html.card(html.paragraph(self.finding))
        head = ("reversed trend", "kind", "p", "overall", "inside clusters", "in each")
        rows = [
            (
                (trend.y, f"against {trend.x}"),
                trend.kind,
                f"{trend.p_value:.2g}",
                str(trend.overall),
                str(trend.within),
                self._slopes(trend),
            )
            for trend in self.reversals
        ]
        more = self.n_reversals - len(rows)
        return html.card(
            html.paragraph(self.finding),
            html.table(head, rows, words=(0, 1, 5), most=SHOWN, more=more),
        )

    def _slopes(self, trend: Trend) -> tuple[str, ...]:
        """A line for each of the first clusters."""
        named = zip(self.labels[:MOST_LINES], trend.clusters[:MOST_LINES], strict=True)
        lines = [f"{label}: {slope}" for label, slope in named]
        more = len(self.labels) - len(lines)
        return (*lines, f"… and {more} more") if more > 0 else tuple(lines)

    def to_frame(self) -> Any:
        """One row for each pair, with a column of slopes for each cluster.

        Returns
        -------
        pandas.DataFrame
        """
        pandas = import_optional("pandas")
        return pandas.DataFrame([self._row(trend) for trend in self.trends])

    def _row(self, trend: Trend) -> dict[str, Any]:
        row: dict[str, Any] = {"x": trend.x, "y": trend.y}
        for name, slope in (("overall", trend.overall), ("within", trend.within)):
            row |= {name: slope.slope, f"{name}_low": slope.low, f"{name}_high": slope.high}
        for label, slope in zip(self.labels, trend.clusters, strict=True):
            row[f"cluster_{label}"] = slope.slope
        return row | {name: getattr(trend, name) for name in ("p_value", "reversed", "complete")}
