"""The map of a report as a widget for notebooks, whose selection Python can read and set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tensorae._optional import import_optional
from tensorae._parameters import check_integer
from tensorae.exceptions import InvalidInputError
from tensorae.inspect.samples import unwrapped
from tensorae.report.map import Painter, map_context
from tensorae.report.page import MAX_POINTS, style_of, templates, text_of
from tensorae.report.report_samples import ReportSamples

__all__ = ["MapWidget", "map_widget"]

anywidget = import_optional("anywidget", extra="notebook")
traitlets = import_optional("traitlets", extra="notebook")


class RowNumbers(traitlets.List):  # type: ignore[name-defined]
    """A trait for the numbers of rows, in ascending order."""

    def validate(self, widget: Any, value: Any) -> list[int]:
        """Numbers from a list or an array; a mask stands for the rows where it is true."""
        given = np.asarray(value)
        if given.dtype == bool and given.shape == (widget.n_rows,):
            given = np.flatnonzero(given)
        rows = sorted(set(given.ravel().tolist()))
        if not all(type(row) is int and 0 <= row < widget.n_rows for row in rows):
            wrong = next(r for r in rows if type(r) is not int or not 0 <= r < widget.n_rows)
            raise InvalidInputError(
                f"selection must be row numbers from 0 to {widget.n_rows - 1}, or a mask of "
                f"{widget.n_rows} rows, got {wrong!r}; choose rows of X by their places."
            )
        return rows


class MapWidget(anywidget.AnyWidget):  # type: ignore[name-defined]
    """An interactive map of the rows of a fitted model; made by ``model.widget(X)``.

    Attributes
    ----------
    selection : list of int
        Rows of X that are selected on the map, in ascending order. Assign row numbers or a mask to
        it to select rows from Python; ``observe(function, "selection")`` calls a function when it
        changes.
    n_rows : int
        Of X.
    """

    _esm = "\n".join(text_of(name) for name in ("drawing.js", "scatter.js", "widget.js"))
    _page = traitlets.Unicode().tag(sync=True)
    _points = traitlets.Unicode().tag(sync=True)
    selection = RowNumbers().tag(sync=True)

    def __init__(self, page: str, points: str, n_rows: int) -> None:
        self.n_rows = n_rows
        super().__init__(_page=page, _points=points)


def map_widget(
    model: Any,
    X: Any,
    *,
    identifiers: Any = None,
    feature_names: Sequence[str] | None = None,
    scaler: Any = None,
    shape: Sequence[int] | None = None,
    max_points: int = 5000,
) -> MapWidget:
    """Return the map of a fitted model as a widget; see ``model.widget``.

    Parameters
    ----------
    model : LinearTAE, TAE or TableModel
        Fitted.
    X : array-like or Tensor of shape (n, d)
    identifiers, feature_names, scaler, shape, max_points
        As in ``model.report``.

    Returns
    -------
    MapWidget
    """
    unwrapped(model)
    check_integer("max_points", max_points, low=1, high=MAX_POINTS)
    samples = ReportSamples.collect(
        model,
        X,
        identifiers=identifiers,
        feature_names=feature_names,
        scaler=scaler,
        shape=shape,
        noise=None,
    )
    if not samples.d:
        raise InvalidInputError(
            "X must have at least one column of numbers for a map, got categories only; describe "
            "such clusters by tensorae.inspect.describe."
        )
    points = map_context(samples, (), Painter.of(samples, 0), int(max_points))
    environment = templates()
    inside = environment.get_template("map.html").render(
        samples=samples, points=points, context=None, selectable=True
    )
    style = style_of(environment, samples.k)
    page = f'<style>{style}</style><div class="widget">{inside}</div>'
    return MapWidget(page, points["json"], samples.n)
