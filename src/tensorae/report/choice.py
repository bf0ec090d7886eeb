"""Why these settings: the fits that were compared, as a picture and a table."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorae.inspect.comparison import Compared, ComparedFit, ComparedKind, in_short

__all__ = ["Curve", "Mark", "SettingsView", "Tick"]

# The box of the picture, and its margins: left, right, top, bottom.
WIDTH, HEIGHT = 640.0, 260.0
LEFT, RIGHT, TOP, BOTTOM = 64.0, 14.0, 16.0, 40.0
# Where only one number of clusters was looked at, a line for each kind of cluster.
LINE, NAMES = 34.0, 150.0
# Share of the scale that is left free beyond its end, and for numbers behind the lines.
BEYOND, ROOM = 0.05, 0.3
MOST_TICKS = 5


@dataclass(frozen=True)
class Tick:
    """A number along an axis."""

    at: float
    text: str


@dataclass(frozen=True)
class Mark:
    """One fit in the picture."""

    x: float
    y: float
    fit: ComparedFit
    beyond: bool  # whether it lies beyond the edge, where it is drawn
    text: str


@dataclass(frozen=True)
class Curve:
    """All fits of one kind: a class for their look, the way of a line, and the marks."""

    name: str
    look: str
    points: str
    marks: tuple[Mark, ...]
    y: float  # of its name, where it has a line of its own


@dataclass(frozen=True)
class SettingsView:
    """What the section shows; numbers are those of an SVG of ``width`` by ``height``."""

    width: float
    height: float
    left: float
    bottom: float
    several: bool  # whether several numbers of clusters were compared
    across: list[Tick]
    up: list[Tick]
    curves: list[Curve]
    best: list[ComparedFit]  # of each number of clusters; all, where there is one number

    @classmethod
    def of(cls, model: Any) -> SettingsView | None:
        """Lay out what a model compared; None where all settings were given."""
        table: Mapping[str, list[Any]] = getattr(model, "comparison_", {})
        if not table:
            return None
        compared = Compared.of(table)
        return _against_numbers(compared) if len(compared.numbers) > 1 else _by_kind(compared)


def _against_numbers(compared: Compared) -> SettingsView:
    top = compared.top * (1 + BEYOND)
    bottom = HEIGHT - BOTTOM
    first, last = compared.numbers[0], compared.numbers[-1]

    def x(k: float) -> float:
        return LEFT + 16 + (WIDTH - LEFT - RIGHT - 32) * (k - first) / (last - first)

    def y(behind: float) -> float:
        return bottom - 10 - (bottom - 10 - TOP) * min(behind, top) / top

    def places(kind: ComparedKind) -> list[tuple[float, float, bool]]:
        return [(x(fit.n_clusters), y(fit.behind), fit.behind > top) for fit in kind.fits]

    return SettingsView(
        width=WIDTH,
        height=HEIGHT,
        left=LEFT,
        bottom=bottom,
        several=True,
        across=[Tick(x(k), str(k)) for k in compared.numbers],
        up=[Tick(y(value), in_short(value)) for value in _round_numbers(compared.top)],
        curves=[_curve(kind, places(kind)) for kind in compared.kinds],
        best=compared.shown,
    )


def _by_kind(compared: Compared) -> SettingsView:
    known = [kind.fits[0].behind for kind in compared.kinds]
    top = max((value for value in known if math.isfinite(value)), default=0.0) or 1.0
    bottom = TOP + LINE * len(compared.kinds)

    def x(behind: float) -> float:
        return NAMES + 12 + (WIDTH - NAMES - RIGHT - 12) * min(behind, top) / (top * (1 + ROOM))

    places = [TOP + LINE * (row + 0.5) for row in range(len(compared.kinds))]
    return SettingsView(
        width=WIDTH,
        height=bottom + BOTTOM,
        left=NAMES,
        bottom=bottom,
        several=False,
        across=[Tick(x(value), in_short(value)) for value in _round_numbers(top)],
        up=[],
        curves=[
            _curve(kind, [(x(behind), y, not math.isfinite(behind))], x(0))
            for kind, behind, y in zip(compared.kinds, known, places, strict=True)
        ],
        best=compared.shown,
    )


def _curve(
    kind: ComparedKind, places: list[tuple[float, float, bool]], begin: float | None = None
) -> Curve:
    """Marks of a kind at places with whether they are beyond the edge; a line from ``begin``."""
    marks = tuple(
        Mark(x, y, fit, beyond, fit.said)
        for (x, y, beyond), fit in zip(places, kind.fits, strict=True)
    )
    way = [(mark.x, mark.y) for mark in marks]
    if begin is not None:
        way = [(begin, way[0][1]), *way]
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in way)
    look = f"{'own' if kind.own else 'one'} {'round' if kind.round else 'long'}"
    look = "pooled" if kind.pooled else look
    return Curve(kind.name, look, points, marks, marks[0].y)


def _round_numbers(top: float) -> list[float]:
    """Round numbers from zero to ``top``, a few of them."""
    raw = top / MOST_TICKS
    size = 10.0 ** math.floor(math.log10(raw))
    step = next(part * size for part in (1, 2, 5, 10) if part * size >= raw)
    return [float(value) for value in np.arange(0, top * (1 + 1e-9), step)]
