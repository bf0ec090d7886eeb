"""Results -> HTML."""

from __future__ import annotations

import base64
import datetime
import hashlib
from importlib import resources
from typing import Any

from tensorae._optional import import_optional
from tensorae.report.anomalies import anomalies_of
from tensorae.report.cards import cards_of, n_pictures
from tensorae.report.colors import cluster_styles
from tensorae.report.kept import feature_losses, image_grids, n_grid_pictures
from tensorae.report.numbers import as_data, number, percent, signed
from tensorae.report.pictures import Painter
from tensorae.report.points import Points
from tensorae.report.results import Results
from tensorae.report.selection import shown_rows, worst_rows
from tensorae.report.summary import Summary
from tensorae.report.trends import Reversals

__all__ = ["render"]

SCRIPTS = ("drawing.js", "scatter.js", "page.js")


def render(results: Results, *, title: str | None, max_points: int) -> str:
    """Fill the templates."""
    environment = _environment()
    n_images = n_pictures(results) + n_grid_pictures(results) + 2 * len(worst_rows(results))
    painter = Painter.of(results, n_images)
    reversals = Reversals.of(results)
    summary = Summary.of(results)
    points = Points.of(results, shown_rows(results, max_points), reversals, painter)
    script = "\n".join(_text(name) for name in SCRIPTS)
    style = _text("style.css") + environment.get_template("colors.css").render(
        styles=cluster_styles(results.k)
    )
    html: str = environment.get_template("page.html").render(
        title=title or f"{summary.model}: what it found",
        date=datetime.date.today().isoformat(),
        results=results,
        summary=summary,
        points=points,
        cards=cards_of(results, painter),
        reversals=reversals,
        anomalies=anomalies_of(results, painter),
        losses=feature_losses(results) if painter is None else [],
        grids=image_grids(results, painter),
        painter=painter,
        script=_trusted(script),
        style=_trusted(style),
        script_hash=_hash(script),
        style_hash=_hash(style),
    )
    return html


def _environment() -> Any:
    jinja2 = import_optional("jinja2", extra="report")
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("tensorae.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "data": as_data,
        "number": number,
        "percent": percent,
        "signed": signed,
        "trusted": _trusted,
    }
    return environment


def _text(name: str) -> str:
    return resources.files("tensorae.report").joinpath("templates", name).read_text("utf-8")


def _trusted(text: str) -> Any:
    """Text that is put into the page as it is: our own, or made safe already."""
    return import_optional("markupsafe", extra="report").Markup(text)


def _hash(text: str) -> str:
    """What a Content-Security-Policy names a script by, so that no other one runs."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
