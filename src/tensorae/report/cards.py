"""A card for each cluster: what sets it apart, along what it varies, who belongs to it.

Shapes: d features.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tensorae.inspect import ClusterSummary, Component
from tensorae.inspect.views import axis_ends
from tensorae.report.findings import MOST_DEFINING, Findings
from tensorae.report.pictures import Painter

__all__ = ["Card", "CenterLine", "ComponentView", "Member", "cards_of", "n_pictures"]

MOST_CENTER = 60
MOST_COMPONENTS = 3


@dataclass(frozen=True)
class CenterLine:
    """A feature of a cluster, and how far its mean is from the other samples, in their spread.

    The value is that of the centre, or the mean of what is there where values are missing.
    """

    name: str
    value: float | None
    apart: float | None
    missing: float = 0.0  # share of the members without a value


@dataclass(frozen=True)
class ComponentView:
    """One direction in which a cluster varies."""

    share: float  # of the cluster's variance
    # Its main features, and how far one standard deviation along it is in each, in its units.
    loadings: list[tuple[str, float, float]]
    pictures: tuple[str, ...]  # of images: two standard deviations from the centre, both ways


@dataclass(frozen=True)
class Member:
    """A row that is typical of its cluster, or the contrary."""

    row: int
    names: list[str]
    misfit: float
    picture: str | None


@dataclass(frozen=True)
class Card:
    """What is shown of a cluster."""

    summary: ClusterSummary
    lines: list[CenterLine]  # the features that set it apart
    center: list[CenterLine]  # more of them, in the order of X
    components: tuple[ComponentView, ...]
    typical: list[Member]
    worst: list[Member]
    picture: str | None  # the centre as an image
    missing: list[tuple[str, float, float]]  # name, share of the members, share elsewhere

    @property
    def n_more_components(self) -> int:
        """Components that are not shown."""
        return len(self.summary.components) - len(self.components)


def n_pictures(findings: Findings) -> int:
    """Images on the cards."""
    most = 1 + 2 * MOST_COMPONENTS
    clusters = findings.description
    return sum(most + len(cluster.typical) + len(cluster.worst) for cluster in clusters)


def cards_of(findings: Findings, painter: Painter | None) -> list[Card]:
    """One card for each cluster."""
    shown = sorted(findings.telling[:MOST_CENTER].tolist())
    return [_card(findings, cluster, shown, painter) for cluster in findings.description]


def _card(
    findings: Findings, cluster: ClusterSummary, shown: list[int], painter: Painter | None
) -> Card:
    apart = {int(loading.feature): loading.value for loading in cluster.defining}
    # One cluster, or one without members, is set apart by nothing.
    first = list(apart) or shown[:MOST_DEFINING]

    def members(rows: Iterable[int]) -> list[Member]:
        return [_member(findings, row, painter) for row in rows]

    return Card(
        summary=cluster,
        lines=[_line(findings, cluster, column, apart.get(column)) for column in first],
        center=[
            CenterLine(findings.names[column], float(cluster.center[column]), None)
            for column in shown
        ],
        components=tuple(
            _component(findings, cluster, component, painter)
            for component in cluster.components[:MOST_COMPONENTS]
        ),
        typical=members(cluster.typical),
        worst=members(cluster.worst),
        picture=None if painter is None else painter.paint(cluster.center),
        missing=[
            (findings.names[int(one.feature)], one.share, one.elsewhere)
            for one in cluster.missing[:MOST_DEFINING]
        ],
    )


def _component(
    findings: Findings, cluster: ClusterSummary, component: Component, painter: Painter | None
) -> ComponentView:
    pictures: tuple[str, ...] = ()
    if painter is not None:
        pictures = tuple(painter.paint(end) for end in axis_ends(cluster.center, component.step))
    loadings = [
        (findings.names[column], value, float(component.step[column]))
        for column, value in ((int(name), value) for name, value in component.loadings)
    ]
    return ComponentView(component.share, loadings, pictures)


def _line(
    findings: Findings, cluster: ClusterSummary, column: int, apart: float | None
) -> CenterLine:
    if cluster.mean is None or cluster.missing_share is None:
        return CenterLine(findings.names[column], float(cluster.center[column]), apart)
    share = float(cluster.missing_share[column])
    value = float(cluster.mean[column]) if share < 1 else None
    return CenterLine(findings.names[column], value, apart, share)


def _member(findings: Findings, row: int, painter: Painter | None) -> Member:
    return Member(
        row,
        findings.identifiers.row(row),
        float(findings.misfit[row]),
        None if painter is None else painter.paint(findings.values[row]),
    )
