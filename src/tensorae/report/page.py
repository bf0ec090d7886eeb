"""Check, predict, fill the templates, write the file."""

from __future__ import annotations

import base64
import datetime
import hashlib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tensorae._files import open_atomically
from tensorae._optional import import_optional
from tensorae._parameters import check_integer
from tensorae._text import number, percent, signed
from tensorae.exceptions import InvalidParameterError
from tensorae.inspect import CrossTable, Outliers, Overview, Rule, ValueComparison
from tensorae.inspect.samples import has_own_spreads, unwrapped
from tensorae.plot.style import cluster_styles
from tensorae.report import sections
from tensorae.report.map import Painter, map_context
from tensorae.report.report_samples import MAX_COMPONENTS, ReportSamples

if TYPE_CHECKING:
    from tensorae._base import BaseTAE
    from tensorae.table_model import TableModel

__all__ = ["ExplorationContext", "Step", "style_of", "templates", "text_of", "write_report"]

# More points than this make a page that is slow to open.
MAX_POINTS = 20_000
# Where names of columns may be broken; HTML is escaped before.
SEPARATORS = re.compile(r"([_./:\\-](?=\w))")
SCRIPTS = ("drawing.js", "scatter.js", "page.js")


class Step(NamedTuple):
    """Something that was done to the data, with its details."""

    what: str
    details: tuple[str, ...] = ()


@dataclass(frozen=True)
class ExplorationContext:
    """What ``tensorae.explore`` adds to a page."""

    sentences: tuple[str, ...]  # the answer, on top of the page
    caution: str  # before the answer: why there may be no groups; empty where they are clear
    warnings: tuple[str, ...]  # of the fit, before the answer, too
    # Columns that took no part in the fit: the target, then the strongest first.
    comparisons: tuple[CrossTable | ValueComparison, ...]
    head: str  # what is in the table
    groups: tuple[tuple[str, int, Rule, str], ...]  # name, rows, rule, what distinguishes it
    worth_a_look: str  # the one finding to look at first, if there is one
    overview: Overview  # of the whole table
    steps: tuple[Step, ...]  # what was done to the data
    code: str  # Python that reproduces the groups
    agreement: float | None  # between halves of the rows, 1 at most; None where unknown
    grade: str  # what that means for the groups, in a word
    grades: tuple[tuple[str, float, float], ...]  # all grades, with the range of each
    sizes: tuple[int, ...]  # of the groups over all rows, where the page describes a sample
    n_unusual: int  # rows of the page that are unusual for their group
    chance: float  # share of ordinary rows that are called unusual


def write_report(
    model: BaseTAE | TableModel,
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
    context: ExplorationContext | None = None,
) -> Path:
    """Write a page that describes a fitted model; see ``model.report``.

    Parameters
    ----------
    model : LinearTAE, TAE or TableModel
        Fitted.
    X : array-like or Tensor of shape (n, d)
    path : path-like
        Where to write the page.
    title, identifiers, feature_names, scaler, shape, noise, max_points
        As in ``model.report``.
    outliers : Outliers, optional
        Rows that a detector has explained: they get a section of their own, at the top.
    context : ExplorationContext, optional
        Of an exploration: the answer on top, columns beside the groups, what was done.

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
    unwrapped(model)  # a model that is not fitted is an error even if path is wrong, too
    check_integer("max_points", max_points, low=1, high=MAX_POINTS)
    try:
        target = Path(path)
    except TypeError:
        raise InvalidParameterError(
            f'path must be a file name such as "report.html", got {type(path).__name__}.'
        ) from None
    # Opened first, so that a file that cannot be written is known before the work is done.
    with open_atomically(target) as file:
        samples = ReportSamples.collect(
            model,
            X,
            identifiers=identifiers,
            feature_names=feature_names,
            scaler=scaler,
            shape=shape,
            noise=noise,
        )
        page = _render(samples, outliers, context, title=title, max_points=int(max_points))
        # Unpaired surrogates, which file names may contain, are escaped.
        file.write(page.encode(errors="backslashreplace"))
    return target


def _render(
    samples: ReportSamples,
    outliers: Outliers | None,
    context: ExplorationContext | None,
    *,
    title: str | None,
    max_points: int,
) -> str:
    """Fill the templates."""
    environment = templates()
    n_images = sections.n_grid_images(samples) + 2 * len(samples.worst)
    for cluster in samples.description:
        n_images += 1 + 2 * MAX_COMPONENTS + len(cluster.typical) + len(cluster.worst)
    painter = Painter.of(samples, n_images)
    trends = sections.reversed_trends(samples)
    missing = sections.missing_values(samples)
    points = map_context(
        samples,
        [column for one in trends["shown"] for column in (one["x"], one["y"])],
        painter,
        max_points,
        named=[one["row"] for one in missing["rows"]] if missing else (),
    )
    summary = sections.summary(samples)
    script = "\n".join(text_of(name) for name in SCRIPTS)
    style = style_of(environment, samples.k)
    html: str = environment.get_template("page.html").render(
        title=title or f"{summary['model']}: what it found",
        date=datetime.date.today().isoformat(),
        samples=samples,
        own_spreads=has_own_spreads(samples.model),
        painter=painter,
        context=context,
        summary=summary,
        points=points,
        selectable=False,
        trends=trends,
        missing=missing,
        settings=sections.settings(samples.model),
        outliers=sections.outlier_rows(outliers),
        worst_fits=sections.worst_fits(samples),
        features=sections.feature_errors(samples) if painter is None else [],
        grids=sections.image_grids(samples, painter),
        script=_trusted(script),
        style=_trusted(style),
        script_hash=_hash(script),
        style_hash=_hash(style),
    )
    return html


def templates() -> Any:
    """Environment of all templates."""
    jinja2 = import_optional("jinja2", extra="report")
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("tensorae.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "breakable": _breakable,
        "data": _as_data,
        "number": number,
        "percent": percent,
        "signed": signed,
        "trusted": _trusted,
    }
    return environment


def style_of(environment: Any, k: int) -> str:
    """The style sheet of a page with k clusters."""
    colors: str = environment.get_template("colors.css").render(styles=cluster_styles(k))
    return text_of("style.css") + colors


def text_of(name: str) -> str:
    """A template or script as it is."""
    return resources.files("tensorae.report").joinpath("templates", name).read_text("utf-8")


def _trusted(text: str) -> Any:
    """Text that goes into the page as it is: our own, or escaped already."""
    return import_optional("markupsafe", extra="report").Markup(text)


def _breakable(text: Any) -> Any:
    """HTML for a text that may be broken after separators, as names of columns need to be."""
    markup = import_optional("markupsafe", extra="report")
    return markup.Markup(SEPARATORS.sub(r"\1<wbr>", str(markup.escape(str(text)))))


def _hash(text: str) -> str:
    """For the Content-Security-Policy, so that no other script runs."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _as_data(value: Any, text: str | None = None) -> Any:
    """HTML for a number as text, with all its digits for programs."""
    exact = value if isinstance(value, int) else float(value)
    shown = number(exact) if text is None else text
    return _trusted('<data value="{}">{}</data>').format(repr(exact), shown)
