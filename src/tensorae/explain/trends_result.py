"""What ``trend_reversals`` found, readable and as a table."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from tensorae._optional import import_optional
from tensorae.exceptions import InvalidParameterError
from tensorae.explain.inputs import find_feature

__all__ = ["Slope", "Trend", "TrendReversals"]

SHOWN = 20  # pairs, and clusters of a pair, in the printed form


@dataclass(frozen=True)
class Slope:
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

    def __str__(self) -> str:
        if math.isinf(self.low):
            return "unknown"
        return f"{self.slope:.3g} [{self.low:.3g}, {self.high:.3g}]"

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, None for an infinite end of the interval, fit for JSON."""
        return {
            name: None if isinstance(value, float) and math.isinf(value) else value
            for name, value in asdict(self).items()
        }


@dataclass(frozen=True)
class Trend:
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

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain dictionaries and numbers, fit for JSON."""
        return {
            "x": self.x,
            "y": self.y,
            "overall": self.overall.to_dict(),
            "within": self.within.to_dict(),
            "clusters": [slope.to_dict() for slope in self.clusters],
            "p_value": self.p_value,
            "reversed": self.reversed,
            "complete": self.complete,
        }


@dataclass(frozen=True, repr=False)
class TrendReversals:
    """Trends of pairs of features, reversals first; iterate over it or take one by its number.

    Attributes
    ----------
    trends : tuple of Trend
        Reversals first, then other pairs whose signs differ, then the rest; strongest first.
    labels : tuple
        The clusters, in the order of ``Trend.clusters``.
    feature_names : tuple of str
    n_pairs : int
        Pairs looked at, for which the p-values are corrected; ``trends`` may hold fewer.
    n_reversals : int
        Reversals among all pairs.
    confidence : float
    correction : str
    """

    trends: tuple[Trend, ...]
    labels: tuple[Any, ...]
    feature_names: tuple[str, ...]
    n_pairs: int
    n_reversals: int
    confidence: float
    correction: str

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

    def __getitem__(self, place: int) -> Trend:
        return self.trends[place]

    def __repr__(self) -> str:
        pairs = "pair" if self.n_pairs == 1 else "pairs"
        lines = [
            f"{self.n_reversals} of {self.n_pairs} {pairs} of features "
            f"{'has' if self.n_reversals == 1 else 'have'} a trend that is reversed inside the "
            f"{len(self.labels)} clusters ({100 * self.confidence:g} % confidence, "
            f"correction: {self.correction})"
        ]
        for trend in self.reversals[:SHOWN]:
            lines += ["", *self._lines(trend)]
        if self.n_reversals > SHOWN:
            lines += ["", f"… and {self.n_reversals - SHOWN} more"]
        return "\n".join(lines)

    def _lines(self, trend: Trend) -> list[str]:
        lines = [
            f"{trend.y} against {trend.x}: {'complete' if trend.complete else 'in common'} "
            f"(p = {trend.p_value:.2g})",
            f"  overall          {trend.overall}",
            f"  inside clusters  {trend.within}",
        ]
        named = list(zip(self.labels, trend.clusters, strict=True))
        width = max(len(str(label)) for label in self.labels[:SHOWN])
        lines += [f"    {label!s:<{width}}  {slope}" for label, slope in named[:SHOWN]]
        if len(named) > SHOWN:
            lines.append(f"    … and {len(named) - SHOWN} more")
        return lines

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain dictionaries and numbers, fit for JSON."""
        return {
            "labels": list(self.labels),
            "feature_names": list(self.feature_names),
            "n_pairs": self.n_pairs,
            "n_reversals": self.n_reversals,
            "confidence": self.confidence,
            "correction": self.correction,
            "trends": [trend.to_dict() for trend in self.trends],
        }

    def to_frame(self) -> Any:
        """One row for each pair, with a column of slopes for each cluster.

        Returns
        -------
        pandas.DataFrame
        """
        pandas = import_optional("pandas", extra="datasets")
        return pandas.DataFrame([self._row(trend) for trend in self.trends])

    def _row(self, trend: Trend) -> dict[str, Any]:
        row: dict[str, Any] = {"x": trend.x, "y": trend.y}
        for name, slope in (("overall", trend.overall), ("within", trend.within)):
            row |= {name: slope.slope, f"{name}_low": slope.low, f"{name}_high": slope.high}
        for label, slope in zip(self.labels, trend.clusters, strict=True):
            row[f"cluster_{label}"] = slope.slope
        return row | {
            "p_value": trend.p_value,
            "reversed": trend.reversed,
            "complete": trend.complete,
        }
