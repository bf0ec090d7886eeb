"""The interactive map: points, columns to choose from and axes, as JSON; images as PNG.

Shapes: n samples, m points or images, d features, h latent, c channels.
"""

from __future__ import annotations

import base64
import json
import math
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorae.inspect.projections import (
    AxisLine,
    axis_ends,
    cluster_axes,
    level_directions,
    overall_axis,
    overall_directions,
    separating_pair,
)
from tensorae.inspect.samples import evenly_spaced
from tensorae.plot.images import in_range
from tensorae.plot.style import cluster_styles
from tensorae.report.report_samples import Array, ReportSamples

__all__ = ["Painter", "as_json", "as_png", "map_context"]

MAX_FEATURES, MAX_CODES, MAX_DIRECTIONS = 100, 10, 3
# Columns of X and of the code that are included even if they exceed the budget.
MIN_COLUMNS = 2
# With more features than this, the overall directions show more than any two of them.
MANY_FEATURES = 40
# Columns to colour points by, and the most levels of one; rarer ones share a colour.
MAX_COLORS, MAX_LEVELS = 30, 10
# Columns and identifiers, so that the whole page stays below 8 MB.
MAX_BYTES = 3_500_000
DIGITS = 6
SEED = 0


def map_context(
    samples: ReportSamples,
    paired: Iterable[int],
    painter: Painter | None,
    max_points: int,
    named: Sequence[int] = (),
) -> dict[str, Any]:
    """What the template of the map needs: the most telling columns that fit into the budget.

    Features in ``paired`` come before others; rows in ``named`` are drawn even in a sample.
    """
    rows = _drawn_rows(samples, max_points, named)
    directions = overall_directions(samples, MAX_DIRECTIONS)
    lines = [*cluster_axes(samples, samples.description), *overall_axis(samples, directions)]
    path = np.concatenate([line.points for line in lines]) if lines else None
    start = _start(samples, len(directions))
    budget = _Budget(MAX_BYTES)
    # In the order of what a reader would miss most; features take the room that is left.
    fit = budget.keep(_fit_columns(samples, rows), at_least=4)
    overall = budget.keep(_overall_columns(samples, rows, path, directions), MAX_DIRECTIONS)
    by_level = list(_level_columns(samples, rows))
    overall += budget.keep(by_level, MIN_COLUMNS)
    if by_level and samples.d < 2:
        start = ("x0", "levels0") if samples.d else _start_of_levels(len(by_level))
    codes = budget.keep(_code_columns(samples, rows), MIN_COLUMNS)
    colors = budget.keep(_color_columns(samples, rows))
    identifiers = budget.keep(_identifier_columns(samples, rows))
    features = budget.keep(
        _feature_columns(samples, rows, path, start, paired), MIN_COLUMNS, stop=True
    )
    features.sort(key=lambda column: int(column["key"][1:]))
    columns = [*features, *overall, *codes, *fit]
    keys = [column["key"] for column in columns]
    content = {
        "rows": rows.tolist(),
        "labels": samples.labels[rows].tolist(),
        "columns": columns,
        "identifiers": identifiers,
        "colors": colors,
        "lines": _extents(lines),
        "start": [keys.index(key) if key in keys else 0 for key in start],
        "clusters": [asdict(style) for style in cluster_styles(samples.k)],
        "sprite": None if painter is None else painter.sprite(samples.values[rows]),
    }
    return {
        "json": as_json(content),
        "n_points": len(rows),
        "n_features": len(features),
        "n_identifiers": len(identifiers),
        "colors": [one["name"] for one in colors],
        "separating": samples.k > 1 and samples.d > 2 and start[0] != "overall0",
        "by_level": bool(by_level),
    }


def as_json(content: Any) -> str:
    r"""JSON that means the same inside a script element: it cannot end it, nor open a comment.

    Examples
    --------
    >>> from tensorae.report.map import as_json
    >>> print(as_json("</script>"))
    "\u003c/script\u003e"
    """
    # Outside ASCII everything is escaped already, line separators among it.
    text = json.dumps(content, separators=(",", ":"), allow_nan=False)
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


class _Budget:
    """Bytes that columns may take."""

    def __init__(self, room: int) -> None:
        self.room = room

    def keep(
        self, columns: Iterable[dict[str, Any]], at_least: int = 0, *, stop: bool = False
    ) -> list[dict[str, Any]]:
        """Columns that fit, and the first ones in any case; ``stop`` ends at the first misfit."""
        kept = []
        for number, column in enumerate(columns):
            size = len(as_json(column))
            fits = size <= self.room
            self.room -= size if fits else 0
            if fits or number < at_least:
                kept.append(column)
            elif stop:
                break
        return kept


def _drawn_rows(samples: ReportSamples, max_points: int, named: Sequence[int]) -> NDArray[np.intp]:
    """All rows, or a sample of each cluster and the rows that the page names."""
    if samples.n <= max_points:
        return np.arange(samples.n)
    rng = np.random.RandomState(SEED)
    members = (row for cluster in samples.description for row in cluster.typical + cluster.worst)
    chosen = [samples.worst, np.array([*members, *named], dtype=np.intp)]
    for label in range(samples.k):
        own = np.flatnonzero(samples.labels == label)
        count = min(len(own), max(1, max_points * len(own) // samples.n))
        chosen.append(rng.choice(own, count, replace=False))
    return np.unique(np.concatenate(chosen))


def _start(samples: ReportSamples, n_directions: int) -> tuple[str, str]:
    """The first pair of axes: where clusters are apart, or overall directions of many features."""
    if samples.d < 2:
        return "x0", "cluster"
    if n_directions > 1 and (samples.shape is not None or samples.d > MANY_FEATURES):
        return "overall0", "overall1"
    x, y = separating_pair(samples)
    return f"x{x}", f"x{y}"


def _start_of_levels(n_directions: int) -> tuple[str, str]:
    """The same for categories alone."""
    return "levels0", "levels1" if n_directions > 1 else "cluster"


# Columns ------------------------------------------------------------------------------------------


def _column(
    key: str, name: str, group: str, values: Array, line: Array | None = None
) -> dict[str, Any]:
    line = None if line is None else _rounded(line)
    return {"key": key, "name": name, "group": group, "values": _rounded(values), "line": line}


def _rounded(values: Array) -> Any:
    if values.dtype.kind != "f":
        return values.tolist()
    return [None if value != value else float(f"{value:.{DIGITS}g}") for value in values]


def _fit_columns(samples: ReportSamples, rows: Array) -> Iterator[dict[str, Any]]:
    known = {"cluster": samples.labels[rows], "misfit": samples.misfit[rows]}
    if samples.k > 1:
        known["confidence"] = samples.confidence[rows]
    for name, values in {**known, "row": rows}.items():
        yield _column(name, name, "The fit", values)


def _overall_columns(
    samples: ReportSamples, rows: Array, path: Array | None, directions: Array
) -> Iterator[dict[str, Any]]:
    """All samples along their own principal directions: the same for all clusters."""
    scaled = samples.scaled
    off = scaled.values[rows] - scaled.mean
    ends = None if path is None else samples.scaling.apply(path) - scaled.mean
    for number, direction in enumerate(directions if samples.d > 2 else ()):
        line = None if ends is None else ends @ direction
        name = f"overall direction {number + 1}"
        yield _column(f"overall{number}", name, "All clusters", off @ direction, line)


def _level_columns(samples: ReportSamples, rows: Array) -> Iterator[dict[str, Any]]:
    """All samples by their categories."""
    for number, values in enumerate(level_directions(samples, 2)[rows].T):
        name = f"direction {number + 1} of the categories"
        yield _column(f"levels{number}", name, "All clusters", values)


def _color_columns(samples: ReportSamples, rows: Array) -> Iterator[dict[str, Any]]:
    """Categories of the fit and columns that identify rows, where they have few levels."""
    found = [(one.name, one.levels, one.codes) for one in samples.categories]
    texts = [samples.identifiers.row(row) for row in range(samples.n)]
    for number, name in enumerate(samples.identifiers.names):
        levels: dict[str, int] = {}
        codes = [
            -1 if not line[number] else levels.setdefault(line[number], len(levels))
            for line in texts
        ]
        if 2 <= len(levels) <= max(MAX_LEVELS, MAX_COLORS) and len(levels) < samples.n / 3:
            found.append((name, tuple(levels), np.array(codes)))
    for name, names, of_rows in found[:MAX_COLORS]:
        counts = np.bincount(of_rows[of_rows >= 0], minlength=len(names))
        order = [level for level in np.argsort(-counts, kind="stable").tolist() if counts[level]]
        place = np.full(len(names) + 1, -1)  # the last one is that of missing values
        kept = order if len(order) <= MAX_LEVELS else order[: MAX_LEVELS - 1]
        place[order] = len(kept)
        place[kept] = np.arange(len(kept))
        shown = [names[level] for level in kept] + ["others"] * (len(order) > len(kept))
        styles = [asdict(style) for style in cluster_styles(len(shown))]
        yield {
            "name": name,
            "levels": [
                {"name": text, "light": style["light"], "dark": style["dark"]}
                for text, style in zip(shown, styles, strict=True)
            ],
            "codes": place[of_rows[rows]].tolist(),
        }


def _code_columns(samples: ReportSamples, rows: Array) -> Iterator[dict[str, Any]]:
    """What ``transform`` returns, in the coordinates of each cluster."""
    for number, values in enumerate(samples.codes[rows, :MAX_CODES].T):
        yield _column(f"code{number}", f"code {number}", "Embedding, by cluster", values)


def _identifier_columns(samples: ReportSamples, rows: Array) -> Iterator[dict[str, Any]]:
    texts = [samples.identifiers.row(row) for row in rows.tolist()]
    for number, name in enumerate(samples.identifiers.names):
        yield {"name": name, "values": [line[number] for line in texts]}


def _feature_columns(
    samples: ReportSamples,
    rows: Array,
    path: Array | None,
    start: tuple[str, str],
    paired: Iterable[int],
) -> Iterator[dict[str, Any]]:
    """Features that the map opens on, then those of reversed trends, then the most telling."""
    first = [column for column in range(samples.d) if f"x{column}" in start]
    order = dict.fromkeys([*first, *paired, *samples.telling.tolist()])
    for column in list(order)[:MAX_FEATURES]:
        values = samples.values[rows, column]
        if samples.missing is not None:  # imputed values are not drawn
            values = np.where(samples.missing[rows, column], np.nan, values)
        line = None if path is None else path[:, column]
        yield _column(f"x{column}", samples.names[column], "Features", values, line)


def _extents(lines: list[AxisLine]) -> list[dict[str, int]]:
    """Where each line begins and ends among the points of all lines."""
    stops = np.cumsum([len(line.points) for line in lines]).tolist()
    return [
        {
            "cluster": line.cluster,
            "place": line.component,
            "start": stop - len(line.points),
            "stop": stop,
        }
        for line, stop in zip(lines, stops, strict=True)
    ]


# Images -------------------------------------------------------------------------------------------

MAX_SIDE = 64
RANGE_ROWS, RANGE_PERCENT = 2000, (1, 99)
# Bytes of all small images together, before they are compressed; of the points' images, after.
MAX_IMAGE_BYTES = MAX_SPRITE_BYTES = 1_500_000
MAX_SPRITE_SIDE, MIN_SPRITE_SIDE = 28, 7


@dataclass(frozen=True)
class Painter:
    """Turns samples (d,) into images on one gray scale; high values are dark."""

    shape: tuple[int, int, int]  # (c, h, w)
    # The range of the reconstructions, which noise does not widen, without its extremes.
    low: float
    high: float
    side: int  # longest side of an image on the page

    @classmethod
    def of(cls, samples: ReportSamples, n_images: int) -> Painter | None:
        """Painter for a page of so many images, or None where samples are not images."""
        if samples.shape is None:
            return None
        channels, height, width = (1, *samples.shape)[-3:]
        room = math.isqrt(MAX_IMAGE_BYTES // (max(n_images, 1) * channels))
        some = samples.reconstructions[evenly_spaced(samples.n, RANGE_ROWS)]
        low, high = (float(end) for end in np.percentile(some, RANGE_PERCENT))
        return cls((channels, height, width), low, high, max(8, min(room, MAX_SIDE)))

    @property
    def reduced(self) -> bool:
        """Whether images are shown smaller than they are."""
        return max(self.shape[1:]) > self.side

    def paint(self, sample: Array) -> str:
        """One image as a ``data:`` URI."""
        return _as_uri(as_png(self._pixels(sample[None], self.side)[0]))

    def paint_ends(self, center: Array, step: Array) -> list[str]:
        """Both ends of an axis, given one standard deviation along it."""
        return [self.paint(end) for end in axis_ends(center, step)]

    def sprite(self, samples: Array) -> dict[str, Any] | None:
        """All samples in one image, as large as the budget allows; None where it is too small."""
        longest = max(self.shape[1:])
        side = min(MAX_SPRITE_SIDE, longest)
        while side >= min(MIN_SPRITE_SIDE, longest):
            pixels = self._pixels(samples, side)
            columns = math.ceil(math.sqrt(len(pixels)))
            png = as_png(_tiled(pixels, columns))
            if len(png) <= MAX_SPRITE_BYTES:
                height, width = pixels.shape[1:3]
                return {"uri": _as_uri(png), "columns": columns, "width": width, "height": height}
            side //= 2
        return None

    def _pixels(self, samples: Array, side: int) -> NDArray[np.uint8]:
        """Gray (m, h, w) or coloured (m, h, w, 3) pixels, no side longer than ``side``."""
        images = np.asarray(samples, np.float64).reshape(-1, *self.shape)
        images = _smaller(images, math.ceil(max(self.shape[1:]) / side))
        brightness = in_range(images, self.low, self.high)
        if self.shape[0] == 1:
            return np.round(255 * (1 - brightness[:, 0])).astype(np.uint8)
        return np.round(255 * brightness.transpose(0, 2, 3, 1)).astype(np.uint8)


def as_png(pixels: NDArray[np.uint8]) -> bytes:
    r"""Encode gray (h, w) or coloured (h, w, 3) pixels; a page does not need Pillow.

    Examples
    --------
    >>> import numpy as np
    >>> from tensorae.report.map import as_png
    >>> as_png(np.zeros((2, 3), np.uint8))[:8]
    b'\x89PNG\r\n\x1a\n'
    """
    height, width = pixels.shape[:2]
    kind = 0 if pixels.ndim == 2 else 2
    # Each line starts with its filter: none.
    lines = np.pad(pixels.reshape(height, -1), ((0, 0), (1, 0)))
    parts = {
        b"IHDR": struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0),
        b"IDAT": zlib.compress(lines.tobytes()),
        b"IEND": b"",
    }
    chunks = [
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
        for name, body in parts.items()
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def _as_uri(png: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(png).decode("ascii")


def _smaller(images: Array, factor: int) -> Array:
    """Average squares of ``factor`` pixels; those at the edges may be smaller."""
    for axis in (2, 3) if factor > 1 else ():
        starts = np.arange(0, images.shape[axis], factor)
        sizes = np.diff(np.append(starts, images.shape[axis]))
        sums = np.add.reduceat(images, starts, axis=axis)
        images = sums / sizes.reshape([-1 if other == axis else 1 for other in range(4)])
    return images


def _tiled(pixels: NDArray[np.uint8], columns: int) -> NDArray[np.uint8]:
    m, height, width = pixels.shape[:3]
    lines = math.ceil(m / columns)
    filled = np.full((lines * columns, *pixels.shape[1:]), 255, np.uint8)
    filled[:m] = pixels
    grid = filled.reshape(lines, columns, height, width, -1).swapaxes(1, 2)
    return grid.reshape(lines * height, columns * width, *pixels.shape[3:])
