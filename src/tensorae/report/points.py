"""The scatter's data: points, columns to choose from, and lines, as JSON.

Shapes: n samples, m points, d features, h latent.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorae.inspect.views import (
    AxisLine,
    cluster_axes,
    overall_axis,
    overall_directions,
    separating_pair,
)
from tensorae.plot.style import cluster_styles
from tensorae.report.findings import Findings
from tensorae.report.pictures import Painter, sprite_of
from tensorae.report.trends import Reversals

__all__ = ["Points", "as_json"]

Array = NDArray[Any]

MOST_FEATURES = 100
MOST_CODES = 10
MOST_DIRECTIONS = 3
# Columns of X and of the code that are there whatever they take.
FEWEST = 2
# Beyond so many features the overall directions show more than any two of them.
MANY_FEATURES = 40
# What columns and identifiers may take, so that the whole page stays below 8 MB.
MOST_BYTES = 3_500_000
DIGITS = 6
SEED = 0


@dataclass(frozen=True)
class Points:
    """What the scatter is drawn from, and what there was room for."""

    json: str  # safe inside a script element
    n_points: int
    features: tuple[int, ...]  # columns of X that can be chosen
    separating: bool  # whether the map opens on the two that separate the clusters best
    identifiers: tuple[str, ...]  # those that are shown on hover

    @classmethod
    def of(
        cls,
        findings: Findings,
        reversals: Reversals,
        painter: Painter | None,
        max_points: int,
        named: Sequence[int] = (),
    ) -> Points:
        """Collect the columns of some rows, the most telling first, as long as there is room.

        Rows that are ``named`` elsewhere are among them, beside those that the findings name.
        """
        rows = _shown_rows(findings, max_points, named)
        directions = overall_directions(findings, MOST_DIRECTIONS)
        lines = [
            *cluster_axes(findings, findings.description),
            *overall_axis(findings, directions),
        ]
        made = _Columns(findings, rows, lines, directions)
        # In the order of what a reader would miss most; features take the room that is left.
        others, overall = made.others(), made.directions()
        codes, identifiers = made.codes(), made.identifiers()
        start = _start(findings, len(directions))
        features = made.features(_wanted(findings, reversals, start))
        columns = [*features.values(), *overall, *codes, *others]
        sprite = None if painter is None else sprite_of(painter, findings.values[rows])
        keys = [column["key"] for column in columns]
        content = {
            "rows": rows.tolist(),
            "labels": findings.labels[rows].tolist(),
            "columns": columns,
            "identifiers": identifiers,
            "lines": _extents(lines),
            "start": [keys.index(key) if key in keys else 0 for key in start],
            "clusters": [asdict(style) for style in cluster_styles(findings.k)],
            "sprite": None if sprite is None else asdict(sprite),
        }
        return cls(
            json=as_json(content),
            n_points=len(rows),
            features=tuple(features),
            separating=findings.k > 1 and findings.d > 2 and start[0] != "overall0",
            identifiers=tuple(column["name"] for column in identifiers),
        )


def as_json(content: Any) -> str:
    r"""JSON that means the same inside a script element: it cannot end it, nor open a comment.

    Examples
    --------
    >>> from tensorae.report.points import as_json
    >>> print(as_json("</script>"))
    "\u003c/script\u003e"
    """
    # Outside ASCII everything is escaped already, line separators among it.
    text = json.dumps(content, separators=(",", ":"), allow_nan=False)
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


class _Columns:
    """Columns as the page takes them, until the room is used up."""

    def __init__(
        self, findings: Findings, rows: NDArray[np.intp], lines: list[AxisLine], directions: Array
    ) -> None:
        self.findings, self.rows = findings, rows
        self.line = np.concatenate([line.points for line in lines]) if lines else None
        self.overall = directions
        self.room = MOST_BYTES

    def features(self, wanted: Iterable[int]) -> dict[int, dict[str, Any]]:
        """Columns of X in the order of X, the first two whatever they take."""
        kept: dict[int, dict[str, Any]] = {}
        for column in wanted:
            line = None if self.line is None else self.line[:, column]
            values = self.findings.values[self.rows, column]
            if self.findings.gaps is not None:  # what was filled in is no value to draw
                values = np.where(self.findings.gaps[self.rows, column], np.nan, values)
            made = _column(f"x{column}", self.findings.names[column], "Features", values, line)
            if not self._takes(made) and len(kept) >= FEWEST:
                break
            kept[column] = made
        return dict(sorted(kept.items()))

    def identifiers(self) -> list[dict[str, Any]]:
        texts = [self.findings.identifiers.row(row) for row in self.rows.tolist()]
        kept = []
        for number, name in enumerate(self.findings.identifiers.names):
            made = {"name": name, "values": [line[number] for line in texts]}
            if self._takes(made):
                kept.append(made)
        return kept

    def directions(self) -> list[dict[str, Any]]:
        """All samples seen from their own principal directions: the same for all clusters."""
        scaled, made = self.findings.scaled, []
        off = scaled.values[self.rows] - scaled.mean
        ends = None if self.line is None else self.findings.scaling.apply(self.line) - scaled.mean
        for number, direction in enumerate(self.overall if self.findings.d > 2 else []):
            line = None if ends is None else ends @ direction
            name = f"overall direction {number + 1}"
            made.append(_column(f"overall{number}", name, "All clusters", off @ direction, line))
        return self._fitting(made, len(made))

    def codes(self) -> list[dict[str, Any]]:
        """What ``transform`` gives, in the coordinates of each cluster."""
        codes = self.findings.codes[self.rows, :MOST_CODES]
        made = [
            _column(f"code{number}", f"code {number}", "Embedding, by cluster", values)
            for number, values in enumerate(codes.T)
        ]
        return self._fitting(made, FEWEST)

    def others(self) -> list[dict[str, Any]]:
        """What is known of each row beside its features."""
        group = "The fit"
        made = [
            _column("cluster", "cluster", group, self.findings.labels[self.rows]),
            _column("misfit", "misfit", group, self.findings.misfit[self.rows]),
        ]
        if self.findings.k > 1:
            sure = self.findings.confidence[self.rows]
            made.append(_column("confidence", "confidence", group, sure))
        made.append(_column("row", "row", group, self.rows))
        return self._fitting(made, len(made))

    def _fitting(self, columns: list[dict[str, Any]], fewest: int) -> list[dict[str, Any]]:
        """Columns that there is room for, and so many whatever they take."""
        fits = [self._takes(column) for column in columns]
        return [column for i, column in enumerate(columns) if i < fewest or fits[i]]

    def _takes(self, column: dict[str, Any]) -> bool:
        """Use up room for a column; one that does not fit takes none."""
        size = len(as_json(column))
        fits = size <= self.room
        self.room -= size if fits else 0
        return fits


def _shown_rows(findings: Findings, max_points: int, named: Sequence[int]) -> NDArray[np.intp]:
    """All rows, or a sample of each cluster; rows that the page names are always among them."""
    n = findings.n
    if n <= max_points:
        return np.arange(n)
    rng = np.random.RandomState(SEED)
    members: list[Sequence[int]] = [
        (*cluster.typical, *cluster.worst) for cluster in findings.description
    ]
    members.append(named)
    chosen = [findings.anomalies, *(np.array(rows, dtype=np.intp) for rows in members)]
    for label in range(findings.k):
        own = np.flatnonzero(findings.labels == label)
        count = min(len(own), max(1, max_points * len(own) // n))
        chosen.append(rng.choice(own, count, replace=False))
    return np.unique(np.concatenate(chosen))


def _column(
    key: str, name: str, group: str, values: Array, line: Array | None = None
) -> dict[str, Any]:
    return {
        "key": key,
        "name": name,
        "group": group,
        "values": _rounded(values),
        "line": None if line is None else _rounded(line),
    }


def _rounded(values: Array) -> list[Any]:
    if values.dtype.kind != "f":
        return list(values.tolist())
    return [None if value != value else float(f"{value:.{DIGITS}g}") for value in values]


def _wanted(findings: Findings, reversals: Reversals, start: tuple[str, str]) -> list[int]:
    """Features that the map opens on, then those of reversed trends, then the most telling."""
    first = [column for column in range(findings.d) if f"x{column}" in start]
    paired = [column for one in reversals.shown for column in (one.x, one.y)]
    order = [*first, *paired, *findings.telling.tolist()]
    return list(dict.fromkeys(order))[:MOST_FEATURES]


def _start(findings: Findings, n_directions: int) -> tuple[str, str]:
    """The pair to begin with: where clusters lie apart, or all that varies, where that is much."""
    if findings.d == 1:
        return "x0", "cluster"
    if n_directions > 1 and (findings.shape is not None or findings.d > MANY_FEATURES):
        return "overall0", "overall1"
    x, y = separating_pair(findings)
    return f"x{x}", f"x{y}"


def _extents(lines: list[AxisLine]) -> list[dict[str, int]]:
    """Where each line begins and ends among the points of all lines."""
    extents, start = [], 0
    for line in lines:
        stop = start + len(line.points)
        extents.append(
            {"cluster": line.cluster, "place": line.component, "start": start, "stop": stop}
        )
        start = stop
    return extents
