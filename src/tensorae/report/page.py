"""Results -> HTML."""

from __future__ import annotations

from typing import Any

from tensorae._optional import import_optional
from tensorae.report.numbers import as_data, number, percent, signed
from tensorae.report.results import Results

__all__ = ["render"]


def render(results: Results, *, title: str | None, max_points: int) -> str:
    """Fill the templates."""
    html: str = (
        _environment()
        .get_template("page.html")
        .render(results=results, title=title or "Report", max_points=max_points)
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
    }
    return environment
