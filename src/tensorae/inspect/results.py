"""What ``describe`` found, readable and as a table.

Shapes: k clusters, d features.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tensorae._optional import import_optional
from tensorae.inspect import html
from tensorae.inspect.base import Result

__all__ = ["ClusterSummary", "Component", "Description", "Loading", "Missing", "cluster_table"]

MOST_COMPONENTS = 3  # of a cluster in the notebook


class Loading(NamedTuple):
    """A feature and its part in something."""

    feature: str
    value: float

    def __str__(self) -> str:
        return f"{self.feature} {self.value:+.2f}"


class Missing(NamedTuple):
    """A feature that is missing more often in a cluster than in the other ones, or less often."""

    feature: str
    share: float  # of the members
    elsewhere: float  # of all other samples

    @property
    def effect(self) -> float:
        """Cohen's h: like a difference in standard deviations, for shares."""
        own, others = (2 * math.asin(math.sqrt(share)) for share in (self.share, self.elsewhere))
        return own - others

    def __str__(self) -> str:
        return (
            f"{self.feature} missing in {100 * self.share:.0f} % "
            f"({100 * self.elsewhere:.0f} % elsewhere)"
        )


@dataclass(frozen=True, eq=False)
class Component(Result):
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
class ClusterSummary(Result):
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
        The features in which the members differ most from the samples of the other clusters: the
        difference of the means, in standard deviations of the feature over all samples; empty
        where there is one cluster. Missing values have no part in it.
    typical : tuple of int
        Rows that fit best, best first: those of the lowest cost, or of the highest density where
        spreads are own; empty without samples.
    worst : tuple of int
        Rows that fit worst, worst first.
    missing : tuple of Missing
        Features that are missing clearly more often, or less often, than in the other clusters,
        clearest first.
    mean : ndarray of shape (d,) or None
        Of the members, over the values that are there, in the units of the features; NaN where
        there are none. None without samples.
    missing_share : ndarray of shape (d,) or None
        Share of the members without a value; None where no value is missing.
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
    missing: tuple[Missing, ...] = ()
    mean: NDArray[Any] | None = None
    missing_share: NDArray[Any] | None = None

    @property
    def round(self) -> bool:
        """Whether it has members, but no direction that stands out."""
        return self.size > 0 and not self.components

    def __str__(self) -> str:
        lines = [f"cluster {self.label}{self._head}"]
        if self.defining:
            lines.append(f"  unlike the rest  {_listed(self.defining)}")
        if self.missing:
            lines.append(f"  missing values   {_listed(self.missing)}")
        for number, component in enumerate(self.components):
            head = f"component {number}".ljust(15)
            share = f"({100 * component.share:.1f} %)"
            lines.append(f"  {head}  {_listed(component.loadings)}  {share}")
        if self.typical:
            lines.append(f"  typical rows     {_listed(self.typical)}")
            lines.append(f"  worst rows       {_listed(self.worst)}")
        return "\n".join(lines)

    @property
    def _head(self) -> str:
        members = "member" if self.size == 1 else "members"
        kept = "round" if self.round else f"{100 * self.explained:.1f} % of its variance kept"
        return f": {self.size} {members} ({100 * self.share:.1f} %), {kept}"

    def _repr_html_(self) -> str:
        return html.card(html.heading(f"cluster {self.label}", self._head), cluster_table([self]))


@dataclass(frozen=True, repr=False, eq=False)
class Description(Result):
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
    spread : ndarray of shape (d,)
        Standard deviation of each feature over all samples, in its units.
    """

    model: str
    n_samples: int
    feature_names: tuple[str, ...]
    clusters: tuple[ClusterSummary, ...]
    spread: NDArray[Any]

    def __len__(self) -> int:
        return len(self.clusters)

    def __iter__(self) -> Iterator[ClusterSummary]:
        return iter(self.clusters)

    def __getitem__(self, label: int) -> ClusterSummary:
        return self.clusters[label]

    def __repr__(self) -> str:
        return "\n\n".join([self.model + self._head, *map(str, self.clusters)])

    @property
    def _head(self) -> str:
        k = len(self.clusters)
        return (
            f": {self.n_samples} samples, {len(self.feature_names)} features, "
            f"{k} cluster{'s' * (k > 1)}"
        )

    def _repr_html_(self) -> str:
        return html.card(html.heading(self.model, self._head), cluster_table(self.clusters))

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


# HTML -------------------------------------------------------------------------------------------


def cluster_table(
    clusters: Sequence[ClusterSummary],
    *,
    n_components: int = MOST_COMPONENTS,
    most: int = html.SHOWN,
) -> str:
    """One row for each cluster; columns in which there is nothing to say are left out."""
    columns: list[tuple[str, list[html.Cell]]] = [
        ("cluster", [str(one.label) for one in clusters]),
        ("members", [str(one.size) for one in clusters]),
        ("share", [html.Share(one.share) for one in clusters]),
        ("variance kept", [_kept(one) for one in clusters]),
    ]
    numbers = len(columns)
    columns += [
        ("unlike the rest", [tuple(map(str, one.defining)) for one in clusters]),
        ("missing values", [tuple(map(str, one.missing)) for one in clusters]),
        ("varies along", [_along(one, n_components) for one in clusters]),
        ("typical rows", [_listed(one.typical) for one in clusters]),
        ("worst rows", [_listed(one.worst) for one in clusters]),
    ]
    columns = [(name, cells) for name, cells in columns if any(cells)]
    head = [name for name, _ in columns]
    rows = list(zip(*(cells for _, cells in columns), strict=True))
    return html.table(head, rows, words=range(numbers, len(columns)), most=most)


def _unbroken(loading: Loading) -> str:
    """A feature and its value on the same line."""
    return f"{loading.feature}\u00a0{loading.value:+.2f}"


def _kept(cluster: ClusterSummary) -> str:
    return "round" if cluster.round else f"{100 * cluster.explained:.1f} %"


def _along(cluster: ClusterSummary, most: int) -> tuple[str, ...]:
    """A line for each of the first components."""
    lines = [
        f"{', '.join(map(_unbroken, one.loadings))} ({100 * one.share:.1f}\u00a0%)"
        for one in cluster.components[:most]
    ]
    more = len(cluster.components) - len(lines)
    return (*lines, f"… and {more} more") if more > 0 else tuple(lines)
