"""The scatter's data: points, columns to choose from, and lines, as JSON.

Shapes: n samples, m points, d features, h latent.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorae.report.axes import Line, cluster_lines, overall_directions, overall_line
from tensorae.report.colors import cluster_styles
from tensorae.report.pictures import Painter, sprite_of
from tensorae.report.results import Results
from tensorae.report.selection import telling_features
from tensorae.report.trends import Reversals

__all__ = ["Points", "as_json"]

Array = NDArray[Any]

MOST_FEATURES = 100
MOST_CODES = 10
# Columns of X and of the code that are there whatever they take.
FEWEST = 2
# Beyond so many features the overall directions show more than any two of them.
MANY_FEATURES = 40
# What columns and identifiers may take, so that the whole page stays below 8 MB.
MOST_BYTES = 3_500_000
DIGITS = 6


@dataclass(frozen=True)
class Points:
    """What the scatter is drawn from, and what there was no room for.

    Attributes
    ----------
    json : str
        Safe inside a script element.
    n_points : int
    features : tuple of int
        Columns of X that can be chosen.
    identifiers : tuple of str
        Those that are shown on hover.
    images : bool
        Whether the hover shows the sample as an image.
    """

    json: str
    n_points: int
    features: tuple[int, ...]
    identifiers: tuple[str, ...]
    images: bool

    @classmethod
    def of(
        cls, results: Results, rows: NDArray[np.intp], reversals: Reversals, painter: Painter | None
    ) -> Points:
        """Collect the columns of these rows, the most telling first, as long as there is room."""
        directions = overall_directions(results)
        lines = [*cluster_lines(results), *overall_line(results, directions)]
        builder = _Builder(results, rows, lines, directions)
        # In the order of what a reader would miss most; features take the room that is left.
        others, overall = builder.others(), builder.directions()
        codes, identifiers = builder.codes(), builder.identifiers()
        features = builder.features(_wanted(results, reversals))
        columns = [*features.values(), *overall, *codes, *others]
        sprite = None if painter is None else sprite_of(painter, results.values[rows])
        start = _start(results, reversals, len(directions))
        keys = [column["key"] for column in columns]
        content = {
            "rows": rows.tolist(),
            "labels": results.labels[rows].tolist(),
            "columns": columns,
            "identifiers": identifiers,
            "lines": _places(lines),
            "start": [keys.index(key) if key in keys else 0 for key in start],
            "clusters": [asdict(style) for style in cluster_styles(results.k)],
            "sprite": None if sprite is None else asdict(sprite),
        }
        return cls(
            json=as_json(content),
            n_points=len(rows),
            features=tuple(features),
            identifiers=tuple(column["name"] for column in identifiers),
            images=sprite is not None,
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


class _Builder:
    """Columns as the page takes them, until the room is used up."""

    def __init__(
        self, results: Results, rows: NDArray[np.intp], lines: list[Line], directions: Array
    ) -> None:
        self.results, self.rows = results, rows
        self.line = np.concatenate([line.points for line in lines]) if lines else None
        self.overall = directions
        self.room = MOST_BYTES

    def features(self, wanted: Iterable[int]) -> dict[int, dict[str, Any]]:
        """Columns of X in the order of X, the first two whatever they take."""
        kept: dict[int, dict[str, Any]] = {}
        for column in wanted:
            line = None if self.line is None else self.line[:, column]
            values = self.results.values[self.rows, column]
            made = _column(f"x{column}", self.results.names[column], "Features", values, line)
            if not self._takes(made) and len(kept) >= FEWEST:
                break
            kept[column] = made
        return dict(sorted(kept.items()))

    def identifiers(self) -> list[dict[str, Any]]:
        texts = [self.results.identifiers.row(row) for row in self.rows.tolist()]
        kept = []
        for place, name in enumerate(self.results.identifiers.names):
            made = {"name": name, "values": [line[place] for line in texts]}
            if self._takes(made):
                kept.append(made)
        return kept

    def directions(self) -> list[dict[str, Any]]:
        """All samples seen from their own principal directions: one frame for all clusters."""
        off = self.results.values[self.rows] - self.results.mean
        made = []
        for place, direction in enumerate(self.overall if self.results.d > 2 else []):
            line = None if self.line is None else (self.line - self.results.mean) @ direction
            name = f"overall direction {place + 1}"
            made.append(_column(f"overall{place}", name, "All clusters", off @ direction, line))
        return self._kept(made, len(made))

    def codes(self) -> list[dict[str, Any]]:
        """What ``transform`` gives, in the frame of each cluster."""
        codes = self.results.codes[self.rows, :MOST_CODES]
        made = [
            _column(f"code{place}", f"code {place}", "Embedding, by cluster", values)
            for place, values in enumerate(codes.T)
        ]
        return self._kept(made, FEWEST)

    def others(self) -> list[dict[str, Any]]:
        """What is known of each row beside its features."""
        group = "The fit"
        made = [
            _column("cluster", "cluster", group, self.results.labels[self.rows]),
            _column("misfit", "misfit", group, self.results.misfit[self.rows]),
        ]
        if self.results.k > 1:
            sure = self.results.confidence[self.rows]
            made.append(_column("confidence", "confidence", group, sure))
        made.append(_column("row", "row", group, self.rows))
        return self._kept(made, len(made))

    def _kept(self, columns: list[dict[str, Any]], fewest: int) -> list[dict[str, Any]]:
        """Columns that there is room for, and so many whatever they take."""
        fits = [self._takes(column) for column in columns]
        return [column for place, column in enumerate(columns) if place < fewest or fits[place]]

    def _takes(self, column: dict[str, Any]) -> bool:
        """Use up room for a column; one that does not fit takes none."""
        size = len(as_json(column))
        fits = size <= self.room
        self.room -= size if fits else 0
        return fits


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
    return [float(f"{value:.{DIGITS}g}") for value in values]


def _wanted(results: Results, reversals: Reversals) -> list[int]:
    """Features in the order of how much they show: reversed trends, then the most telling."""
    paired = [column for one in reversals.shown for column in (one.x, one.y)]
    order = [*paired, *telling_features(results).tolist()]
    return list(dict.fromkeys(order))[:MOST_FEATURES]


def _start(results: Results, reversals: Reversals, n_directions: int) -> tuple[str, str]:
    """The pair to begin with."""
    if reversals.shown:
        return f"x{reversals.shown[0].x}", f"x{reversals.shown[0].y}"
    if results.d == 1:
        return "x0", "cluster"
    if n_directions > 1 and (results.shape is not None or results.d > MANY_FEATURES):
        return "overall0", "overall1"
    x, y = sorted(telling_features(results)[:2].tolist())
    return f"x{x}", f"x{y}"


def _places(lines: list[Line]) -> list[dict[str, int]]:
    """Where each line begins and ends among the points of all lines."""
    places, start = [], 0
    for line in lines:
        stop = start + len(line.points)
        places.append({"cluster": line.cluster, "place": line.place, "start": start, "stop": stop})
        start = stop
    return places
