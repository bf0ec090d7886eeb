"""What ``describe`` and ``trend_reversals`` found, readable and as a table.

Shapes: k clusters, d features.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tensorae._optional import import_optional
from tensorae.exceptions import InvalidParameterError
from tensorae.explain.samples import find_feature

__all__ = [
    "ClusterSummary",
    "Component",
    "Description",
    "Loading",
    "Slope",
    "Trend",
    "TrendReversals",
]

SHOWN = 20  # pairs, and clusters of a pair, in the printed form


@dataclass(frozen=True, eq=False)
class _Result:
    """A result that can be turned into plain dictionaries."""

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain numbers, texts, lists and dictionaries, fit for JSON.

        An infinite number becomes None, and what is too long to print is left out.
        """
        shown = [entry.name for entry in fields(self) if entry.repr]
        return {name: _plain(getattr(self, name)) for name in shown}


def _plain(value: Any) -> Any:
    if isinstance(value, _Result):
        return value.to_dict()
    if isinstance(value, Loading):
        return value._asdict()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, tuple):
        return [_plain(entry) for entry in value]
    return None if isinstance(value, float) and math.isinf(value) else value


# Clusters ---------------------------------------------------------------------------------------


class Loading(NamedTuple):
    """A feature and its part in something."""

    feature: str
    value: float

    def __str__(self) -> str:
        return f"{self.feature} {self.value:+.2f}"


@dataclass(frozen=True, eq=False)
class Component(_Result):
    """One direction in which a cluster varies.

    Attributes
    ----------
    variance : float
        Of the cluster's members along it.
    share : float
        The same as a share of the cluster's whole variance.
    loadings : tuple of Loading
        Its main features, largest first.
    direction : ndarray of shape (d,)
        The loadings of all features, on the scale of the model; their squares sum to one.
    step : ndarray of shape (d,)
        How far one standard deviation along it is in each feature, in the feature's own units.
    """

    variance: float
    share: float
    loadings: tuple[Loading, ...]
    direction: NDArray[Any] = field(repr=False)
    step: NDArray[Any] = field(repr=False)


@dataclass(frozen=True, eq=False)
class ClusterSummary(_Result):
    """One cluster: how large, where, along which features it varies, and what sets it apart.

    Attributes
    ----------
    label : int
    size : int
        Samples in it.
    share : float
        Of all samples.
    center : ndarray of shape (d,)
        In the units of the features.
    explained : float
        Share of the cluster's variance that its autoencoder keeps.
    components : tuple of Component
        Largest variance first; none where the cluster is round.
    defining : tuple of Loading
        The features in which the centre differs most from the samples of the other clusters, in
        standard deviations of the feature over all samples; empty where there is one cluster.
    typical : tuple of int
        Rows that fit best (``score_samples``), best first; empty without samples.
    worst : tuple of int
        Rows that fit worst, worst first.
    """

    label: int
    size: int
    share: float
    center: NDArray[Any]
    explained: float
    components: tuple[Component, ...]
    defining: tuple[Loading, ...]
    typical: tuple[int, ...]
    worst: tuple[int, ...]

    @property
    def round(self) -> bool:
        """Whether it has members, but no direction that stands out."""
        return self.size > 0 and not self.components

    def __str__(self) -> str:
        members = "member" if self.size == 1 else "members"
        kept = "round" if self.round else f"{100 * self.explained:.1f} % of its variance kept"
        lines = [f"cluster {self.label}: {self.size} {members} ({100 * self.share:.1f} %), {kept}"]
        if self.defining:
            lines.append(f"  unlike the rest  {_listed(self.defining)}")
        for number, component in enumerate(self.components):
            head = f"component {number}".ljust(15)
            share = f"({100 * component.share:.1f} %)"
            lines.append(f"  {head}  {_listed(component.loadings)}  {share}")
        if self.typical:
            lines.append(f"  typical rows     {_listed(self.typical)}")
            lines.append(f"  worst rows       {_listed(self.worst)}")
        return "\n".join(lines)


@dataclass(frozen=True, repr=False, eq=False)
class Description(_Result):
    """A fitted model in words and numbers; iterate over it or take a cluster by its label.

    Attributes
    ----------
    model : str
        Name of the estimator.
    n_samples : int
        Behind the sizes.
    feature_names : tuple of str
    clusters : tuple of ClusterSummary
        In the order of their labels.
    """

    model: str
    n_samples: int
    feature_names: tuple[str, ...]
    clusters: tuple[ClusterSummary, ...]

    def __len__(self) -> int:
        return len(self.clusters)

    def __iter__(self) -> Iterator[ClusterSummary]:
        return iter(self.clusters)

    def __getitem__(self, label: int) -> ClusterSummary:
        return self.clusters[label]

    def __repr__(self) -> str:
        k = len(self.clusters)
        head = (
            f"{self.model}: {self.n_samples} samples, {len(self.feature_names)} features, "
            f"{k} cluster{'s' * (k > 1)}"
        )
        return "\n\n".join([head, *map(str, self.clusters)])

    def to_frame(self) -> Any:
        """One row for each cluster: size, share, variance kept, what sets it apart, its centre.

        Returns
        -------
        pandas.DataFrame
            Indexed by the label; a column ``center_…`` for each feature.
        """
        pandas = import_optional("pandas")
        columns: dict[str, list[Any]] = {
            name: [getattr(cluster, name) for cluster in self.clusters]
            for name in ("size", "share", "explained")
        }
        columns["defining"] = [_listed(cluster.defining) for cluster in self.clusters]
        index = pandas.Index([cluster.label for cluster in self.clusters], name="cluster")
        centers = pandas.DataFrame(
            np.stack([cluster.center for cluster in self.clusters]),
            columns=[f"center_{name}" for name in self.feature_names],
            index=index,
        )
        return pandas.concat([pandas.DataFrame(columns, index=index), centers], axis=1)


def _listed(entries: tuple[Any, ...]) -> str:
    return ", ".join(map(str, entries))


# Trends -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Slope(_Result):
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
class Trend(_Result):
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


@dataclass(frozen=True, repr=False)
class TrendReversals(_Result):
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
