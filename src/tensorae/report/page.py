"""Check, ask the model, fill the templates, write the file."""

from __future__ import annotations

import base64
import datetime
import hashlib
import math
import os
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from tensorae._files import open_atomically
from tensorae._optional import import_optional
from tensorae.exceptions import InvalidParameterError
from tensorae.inspect.odd_rows import Outliers
from tensorae.inspect.samples import FittedModel, check_fitted, check_whole, has_own_spreads
from tensorae.plot.style import cluster_styles
from tensorae.report.cards import cards_of, n_pictures
from tensorae.report.choice import SettingsView
from tensorae.report.findings import Findings
from tensorae.report.gaps import GapsView
from tensorae.report.odd_rows import outlier_view
from tensorae.report.pictures import Painter
from tensorae.report.points import Points
from tensorae.report.reconstructions import (
    anomalies_of,
    feature_losses,
    image_grids,
    n_grid_pictures,
)
from tensorae.report.story import Story
from tensorae.report.summary import Summary
from tensorae.report.trends import Reversals

__all__ = ["number", "percent", "signed", "write_report"]

# More points than this make a page that is slow to open.
MOST_POINTS = 20_000
SCRIPTS = ("drawing.js", "scatter.js", "page.js")


def write_report(
    model: FittedModel,
    X: Any,
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    identifiers: Any = None,
    feature_names: Sequence[str] | None = None,
    scaler: Any = None,
    shape: Sequence[int] | None = None,
    noise: float | str | None = None,
    max_points: int = 5000,
    outliers: Outliers | None = None,
    story: Story | None = None,
) -> Path:
    """Write a page on what was fitted; ``model.report`` calls this and says more.

    Parameters
    ----------
    model : LinearTAE or TAE
        Fitted.
    X : array-like or Tensor of shape (n, d)
    path : path-like
        Of the page.
    title, identifiers, feature_names, scaler, shape, noise, max_points
        As in ``model.report``.
    outliers : Outliers, optional
        Rows that a detector has explained: they get a section of their own, at the top.
    story : Story, optional
        Of a whole exploration: the answer on top, columns beside the groups, what was done.

    Returns
    -------
    Path

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from tensorae import LinearTAE
    >>> from sklearn.datasets import load_iris
    >>> X = load_iris().data
    >>> model = LinearTAE(3, latent_dim=1, random_state=0).fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = model.report(X, Path(folder, "report.html"), title="Iris")
    ...     "<title>Iris</title>" in page.read_text("utf-8")
    True
    """
    check_fitted(model)
    check_whole("max_points", max_points, 1, MOST_POINTS, remedy="5000 is usual.")
    target = _checked_path(path)
    # Opened first, so that a file that cannot be written is known before the work is done.
    with open_atomically(target) as file:
        findings = Findings.collect(
            model,
            X,
            identifiers=identifiers,
            feature_names=feature_names,
            scaler=scaler,
            shape=shape,
            noise=noise,
        )
        page = _render(findings, outliers, story, title=title, max_points=int(max_points))
        # Half a surrogate pair, as names of files may have it, is shown by its number.
        file.write(page.encode(errors="backslashreplace"))
    return target


def _checked_path(path: str | os.PathLike[str]) -> Path:
    try:
        return Path(path)
    except TypeError:
        raise InvalidParameterError(
            f"path must be the name of a file, got {type(path).__name__}; "
            'give one such as "report.html".'
        ) from None


def _render(
    findings: Findings,
    outliers: Outliers | None,
    story: Story | None,
    *,
    title: str | None,
    max_points: int,
) -> str:
    """Fill the templates."""
    environment = _environment()
    n_images = n_pictures(findings) + n_grid_pictures(findings) + 2 * len(findings.anomalies)
    painter = Painter.of(findings, n_images)
    reversals = Reversals.of(findings)
    summary = Summary.of(findings)
    gaps = GapsView.of(findings)
    named = () if gaps is None else [one.row for one in gaps.rows]
    points = Points.of(findings, reversals, painter, max_points, named)
    script = "\n".join(_text(name) for name in SCRIPTS)
    style = _text("style.css") + environment.get_template("colors.css").render(
        styles=cluster_styles(findings.k)
    )
    html: str = environment.get_template("page.html").render(
        title=title or f"{summary.model}: what it found",
        date=datetime.date.today().isoformat(),
        findings=findings,
        summary=summary,
        story=story,
        settings=SettingsView.of(findings.model),
        gaps=gaps,
        own_spreads=has_own_spreads(findings.model),
        points=points,
        cards=cards_of(findings, painter),
        reversals=reversals,
        outliers=outlier_view(findings, outliers),
        anomalies=anomalies_of(findings, painter),
        losses=feature_losses(findings) if painter is None else [],
        grids=image_grids(findings, painter),
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
        "data": _as_data,
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


# Numbers -----------------------------------------------------------------------------------------


def number(value: float, digits: int = 4) -> str:
    """A number with so many digits, without an exponent where it can do without.

    Examples
    --------
    >>> from tensorae.report.page import number
    >>> number(12345.678), number(-0.00123456), number(3.0), number(1e-9)
    ('12,346', '−0.001235', '3', '1e−09')
    """
    if not math.isfinite(value):
        return "–" if math.isnan(value) else ("∞" if value > 0 else "−∞")
    size = abs(value)
    if size >= 1000 and size < 1e9:
        text = f"{value:,.0f}"
    elif size == 0 or 1e-4 <= size < 1000:
        text = np.format_float_positional(value, digits, fractional=False, trim="-")
    else:
        text = f"{value:.{digits - 1}g}"
    return text.replace("-", "−")


def signed(value: float, digits: int = 3) -> str:
    """The same with a sign in any case.

    Examples
    --------
    >>> from tensorae.report.page import signed
    >>> signed(0.5), signed(-2.0)
    ('+0.5', '−2')
    """
    return ("+" if value > 0 else "") + number(value, digits)


def percent(share: float) -> str:
    """A share in percent.

    Examples
    --------
    >>> from tensorae.report.page import percent
    >>> percent(0.4354), percent(1.0), percent(0.00004)
    ('43.5 %', '100 %', '< 0.1 %')
    """
    # Not quite nothing must not read as nothing, nor not quite all as all.
    if 0 < share < 0.0005:
        return "< 0.1 %"
    if 0.9995 <= share < 1:
        return "> 99.9 %"
    digits = 0 if share in (0, 1) else 1
    return f"{100 * share:.{digits}f} %".replace("-", "−")


def _as_data(value: Any, text: str | None = None) -> Any:
    """HTML for a number to read, with all its digits for programs."""
    exact = value if isinstance(value, int) else float(value)
    shown = number(exact) if text is None else text
    return _trusted('<data value="{}">{}</data>').format(repr(exact), shown)
