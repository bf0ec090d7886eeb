"""A card for each cluster: what sets it apart, along what it varies, who belongs to it.

Shapes: d features.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tensorae.explain import ClusterSummary, Component
from tensorae.report.axes import axis_segment
from tensorae.report.pictures import Painter
from tensorae.report.results import MOST_DEFINING, Results
from tensorae.report.selection import telling_features

__all__ = ["Card", "CenterLine", "ComponentView", "Member", "cards_of", "n_pictures"]

MOST_CENTER = 60
MOST_COMPONENTS = 3


@dataclass(frozen=True)
class CenterLine:
    """A feature of a centre, and how far it is from the other samples, in their spread."""

    name: str
    value: float
    apart: float | None


@dataclass(frozen=True)
class ComponentView:
    """One direction in which a cluster varies.

    Attributes
    ----------
    share : float
        Of the cluster's variance.
    loadings : list of (str, float)
        Its main features.
    pictures : tuple of str
        Of images: two standard deviations from the centre, to either side.
    """

    share: float
    loadings: list[tuple[str, float]]
    pictures: tuple[str, ...]


@dataclass(frozen=True)
class Member:
    """A row that is typical of its cluster, or the contrary."""

    row: int
    names: list[str]
    misfit: float
    picture: str | None


@dataclass(frozen=True)
class Card:
    """What is shown of a cluster.

    Attributes
    ----------
    summary : ClusterSummary
    lines : list of CenterLine
        The features that set it apart.
    center : list of CenterLine
        More of them, in the order of X.
    components : tuple of ComponentView
    typical, worst : list of Member
    picture : str or None
        The centre as an image.
    """

    summary: ClusterSummary
    lines: list[CenterLine]
    center: list[CenterLine]
    components: tuple[ComponentView, ...]
    typical: list[Member]
    worst: list[Member]
    picture: str | None

    @property
    def n_more_components(self) -> int:
        """Components that are not shown."""
        return len(self.summary.components) - len(self.components)


def n_pictures(results: Results) -> int:
    """Images on the cards."""
    most = 1 + 2 * MOST_COMPONENTS
    clusters = results.description
    return sum(most + len(cluster.typical) + len(cluster.worst) for cluster in clusters)


def cards_of(results: Results, painter: Painter | None) -> list[Card]:
    """One card for each cluster."""
    shown = sorted(telling_features(results)[:MOST_CENTER].tolist())
    return [_card(results, cluster, shown, painter) for cluster in results.description]


def _card(
    results: Results, cluster: ClusterSummary, shown: list[int], painter: Painter | None
) -> Card:
    apart = {int(loading.feature): loading.value for loading in cluster.defining}
    # One cluster, or one without members, is set apart by nothing.
    first = list(apart) or shown[:MOST_DEFINING]

    def members(rows: Iterable[int]) -> list[Member]:
        return [_member(results, row, painter) for row in rows]

    return Card(
        summary=cluster,
        lines=[_line(results, cluster, column, apart.get(column)) for column in first],
        center=[_line(results, cluster, column, None) for column in shown],
        components=tuple(
            _component(results, cluster, component, painter)
            for component in cluster.components[:MOST_COMPONENTS]
        ),
        typical=members(cluster.typical),
        worst=members(cluster.worst),
        picture=None if painter is None else painter.paint(cluster.center),
    )


def _component(
    results: Results, cluster: ClusterSummary, component: Component, painter: Painter | None
) -> ComponentView:
    pictures: tuple[str, ...] = ()
    if painter is not None:
        ends = axis_segment(cluster.center, component.direction, component.variance)
        pictures = tuple(painter.paint(end) for end in ends)
    loadings = [(results.names[int(one.feature)], one.value) for one in component.loadings]
    return ComponentView(component.share, loadings, pictures)


def _line(
    results: Results, cluster: ClusterSummary, column: int, apart: float | None
) -> CenterLine:
    return CenterLine(results.names[column], float(cluster.center[column]), apart)


def _member(results: Results, row: int, painter: Painter | None) -> Member:
    return Member(
        row,
        results.identifiers.row(row),
        float(results.misfit[row]),
        None if painter is None else painter.paint(results.values[row]),
    )
