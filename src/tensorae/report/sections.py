"""The sections of a page as their templates take them: dicts of plain values.

Shapes: n samples, k clusters, d features, h latent.
"""

from __future__ import annotations

import ast
import inspect
import keyword
import math
import platform
from collections.abc import Sequence
from importlib import metadata
from typing import Any, NamedTuple

import numpy as np

from tensorae import __version__
from tensorae._text import number
from tensorae.inspect import Outliers, Slope, Trend, TrendReversals
from tensorae.inspect.clusters import Observed
from tensorae.inspect.comparison import ComparedFamily, ComparisonView
from tensorae.inspect.samples import (
    as_rows,
    categories_of,
    evenly_spaced,
    has_own_spreads,
    in_units,
    is_linear,
    is_variational,
    losses_of,
)
from tensorae.inspect.trends import numbered_reversals, observed_enough
from tensorae.report.map import Painter
from tensorae.report.report_samples import Array, ReportSamples, root_mean_square

__all__ = [
    "feature_errors",
    "image_grids",
    "missing_values",
    "n_grid_images",
    "outlier_rows",
    "reversed_trends",
    "settings",
    "summary",
    "worst_fits",
]

Context = dict[str, Any]

# Summary ------------------------------------------------------------------------------------------

UNSURE = 0.8
MAX_VALUE = 80
CURVE_POINTS = 200
# Numbers of components are listed for so many clusters.
MAX_DIMS = 12
VERSIONS = ("torch", "scikit-learn", "numpy")
SCALED = {
    "StandardScaler()": "standardised to mean 0 and variance 1",
    "MaxAbsScaler()": "divided by their largest absolute value",
}


class Fact(NamedTuple):
    """A number or word with a name and, in small print, its meaning; shares are in percent."""

    name: str
    value: float | str
    note: str
    share: bool = False


def summary(samples: ReportSamples) -> Context:
    """The head and the foot of the page: facts, warnings, parameters, code."""
    model: Any = samples.model
    scaler = "" if samples.scaling.name == "none" else samples.scaling.call
    path, bracket, arguments = scaler.partition("(")  # module.Class(…)
    module, _, name = path.rpartition(".")
    call = name + bracket + arguments
    linear = is_linear(model)
    return {
        "model": type(model).__name__,
        "facts": _facts(samples),
        "warnings": _warnings(samples),
        "reason": model.reason_ if linear else "",
        "curve": _curve(losses_of(model)),
        "steps": "iterations" if linear else "epochs",
        "parameters": _parameters(model),
        "scaled": SCALED.get(call, f"scaled by {call}") if scaler else "",
        "fit_code": _fit_code(model, module, call),
        "save_code": _save_code(model, scaled=bool(scaler)),
        "versions": {
            "tensorae": __version__,
            "Python": platform.python_version(),
            **{name: metadata.version(name) for name in VERSIONS},
        },
    }


def _facts(samples: ReportSamples) -> list[Fact]:
    model: Any = samples.model
    linear, own = is_linear(model), has_own_spreads(model)
    facts = []
    if samples.k > 1:
        share = Observed.of(samples.scaled).explained
        note = "of the variance of the features is between the means of the clusters"
        facts.append(Fact("Between clusters", share, note, share=True))
        unsure = int((samples.confidence < UNSURE).sum())
        rows = "row" if unsure == 1 else "rows"
        note = f"mean probability of a row's cluster; {unsure:,} {rows} below {100 * UNSURE:.0f} %"
        facts.append(Fact("Confidence", float(samples.confidence.mean()), note, share=True))
    # Codes nearly as long as the rows reproduce nearly everything, whatever the clusters are.
    h = int(max(model.latent_dims_)) if linear else samples.h
    if samples.explained is not None and 2 * h <= samples.d:
        note = f"of the variance, by centres and codes of {h} of {samples.d} directions"
        facts.append(Fact("Explained", samples.explained, note, share=True))
    kind = "minus log-density" if own else "cost"
    facts += [
        Fact("Misfit", float(samples.misfit.mean()), f"mean {kind} of a row of this page"),
        Fact("Loss", float(model.loss_), "sum of the costs over the rows of the fit"),
    ]
    if linear:
        facts += _spread_facts(model)
    if is_variational(model):
        note = "variance of a feature around its decoded value"
        facts.append(Fact("Noise", float(model.noise_variance_), note))
    elif not own:
        penalty = "estimated" if model.latent_penalty == "auto" else "as given"
        facts.append(Fact("λ", float(model.latent_penalty_), f"penalty on the code, {penalty}"))
    if linear:
        note = "converged" if model.converged_ else "stopped before convergence"
        return [*facts, Fact("Iterations", int(model.n_iter_), note)]
    return [*facts, Fact("Epochs", int(model.n_iter_), f"epoch {model.best_epoch_} was kept")]


def _spread_facts(model: Any) -> list[Fact]:
    """Which model it is: one spread or own ones, and how many components count."""
    notes = {
        "own": "each cluster has its own variances",
        "pooled": "one covariance for all clusters",
        "shared": "one noise and one λ for all clusters",
    }
    kind = "pooled" if model.pooled_ else model.spread_
    dims = [int(h) for h in model.latent_dims_]
    low, high = min(dims), max(dims)
    span = high if low == high else f"{low} to {high}"
    each = "in each cluster" if low == high or len(dims) > MAX_DIMS else f"({str(dims)[1:-1]})"
    return [
        Fact("Spread", kind, notes[kind]),
        Fact("Components", span, f"directions that count {each}"),
    ]


def _warnings(samples: ReportSamples) -> list[str]:
    model: Any = samples.model
    found = []
    if is_linear(model) and not model.converged_:
        found.append(
            f"The fit did not converge within max_iter={model.max_iter} iterations; "
            "increase max_iter or tol."
        )
    empty = [str(cluster.label) for cluster in samples.description if cluster.size == 0]
    if empty:
        subject = (
            f"Cluster {empty[0]} has" if len(empty) == 1 else f"Clusters {', '.join(empty)} have"
        )
        found.append(f"{subject} no members among these rows.")
    fitted = int(model.cluster_sizes_.sum())
    if fitted != samples.n:
        found.append(
            f"These are not the rows of the fit, or not all of them: the model was fitted on "
            f"{fitted:,}, and this page describes {samples.n:,}."
        )
    # In a distributed fit, each process knows the labels of its own rows only.
    elif len(model.labels_) == fitted and not np.array_equal(model.labels_, samples.labels):
        found.append("These are not the rows of the fit, or they are in a different order.")
    return found


def _curve(losses: Array) -> str:
    """A polyline in a box of 100 x 30; nothing where there is no curve to see."""
    values = losses[np.isfinite(losses)]
    if len(values) < 2 or values.max() <= values.min():
        return ""
    steps = evenly_spaced(len(values), CURVE_POINTS)
    x = 100 * steps / (len(values) - 1)
    y = 29 - 28 * (values[steps] - values.min()) / (values.max() - values.min())
    return " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))


# Code ---------------------------------------------------------------------------------------------


def _parameters(model: Any) -> list[Context]:
    """Parameters in the order of the constructor; ``changed`` where they are not the default."""
    given = model.get_params(deep=False)
    defaults = inspect.signature(type(model)).parameters
    return [
        {
            "name": name,
            "value": _value(given[name]),
            "changed": _value(given[name]) != _value(one.default),
            "code": _code(name, given[name]),
        }
        for name, one in defaults.items()
    ]


def _value(value: Any) -> str:
    """A parameter as it would be written, or in a few words."""
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"<array of shape {tuple(value.shape)}>"
    if callable(value) and hasattr(value, "__name__"):
        return str(value.__name__)
    text = repr(value)
    return text if len(text) <= MAX_VALUE else text[: MAX_VALUE - 1] + "…"


def _code(name: str, value: Any) -> str:
    """A value as a Python literal; anything else is the name of a variable to be defined."""
    if getattr(value, "__name__", "").isidentifier():  # a function of the user's own
        return str(value.__name__)
    text = repr(value.item() if isinstance(value, np.generic) else value)
    try:
        ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return name
    return text if len(text) <= MAX_VALUE else name


def _fit_code(model: Any, module: str, scaler: str) -> str:
    """Python that runs as it stands, given rows X in their own units."""
    name = type(model).__name__
    changed = [one for one in _parameters(model) if one["changed"]]
    variables = [
        f"# {one['code']}: {one['value']}"
        for one in changed
        if one["code"].isidentifier() and not keyword.iskeyword(one["code"])
    ]
    arguments = ", ".join(f"{one['name']}={one['code']}" for one in changed)
    call = f"{name}({arguments})"
    imports = [f"from tensorae import {name}"]
    if scaler:
        imports = [
            "from sklearn.pipeline import make_pipeline",
            f"from {module} import {scaler.partition('(')[0]}",
            *imports,
        ]
        call = f"make_pipeline(\n    {scaler},\n    {call},\n)"
    return "\n".join([*imports, "", *variables, f"model = {call}", "model.fit(X)"])


def _save_code(model: Any, *, scaled: bool) -> str:
    """The same, from there on, with new rows X_new."""
    architecture = getattr(model, "architecture", "")
    given = "" if isinstance(architecture, str) else f", architecture={_value(architecture)}"
    kept = f"""\
model.save("model.tae")

from tensorae import load

model = load("model.tae"{given})"""
    if scaled:  # the scaler has to be kept with it
        kept = """\
import joblib

joblib.dump(model, "model.joblib")
model = joblib.load("model.joblib")"""
    return f"""{kept}
model.predict(X_new)        # cluster of each row
model.transform(X_new)      # its code
model.score_samples(X_new)  # low where a row fits no cluster"""


# Settings -----------------------------------------------------------------------------------------

# The box of the chart, and its margins.
WIDTH, HEIGHT = 640.0, 260.0
LEFT, RIGHT, TOP, BOTTOM = 64.0, 14.0, 16.0, 40.0
# With a single number of clusters, a line for each kind of cluster.
LINE, NAMES = 34.0, 150.0
# Share of the scale that is left free beyond its end, and for the numbers beside the lines.
BEYOND, ROOM = 0.05, 0.3
MAX_TICKS = 5


def settings(model: Any) -> Context | None:
    """The fits that were compared, as a chart and a table; None where all settings were given."""
    if not is_linear(model) or not model.comparison_:
        return None
    compared = ComparisonView.of(model.comparison_)
    several = len(compared.numbers) > 1
    chart = _by_number(compared) if several else _by_kind(compared)
    return {"width": WIDTH, **chart, "several": several, "best": compared.shown}


def _by_number(compared: ComparisonView) -> Context:
    """A line for each kind of cluster against the number of clusters."""
    top = compared.top * (1 + BEYOND)
    bottom = HEIGHT - BOTTOM
    first, last = compared.numbers[0], compared.numbers[-1]

    def x(k: float) -> float:
        return LEFT + 16 + (WIDTH - LEFT - RIGHT - 32) * (k - first) / (last - first)

    def y(behind: float) -> float:
        return bottom - 10 - (bottom - 10 - TOP) * min(behind, top) / top

    curves = []
    for kind in compared.families:
        places = [(x(fit.n_clusters), y(fit.behind), fit.behind > top) for fit in kind.fits]
        curves.append(_curve_of(kind, places))
    return {
        "height": HEIGHT,
        "left": LEFT,
        "bottom": bottom,
        "x_ticks": [(x(k), str(k)) for k in compared.numbers],
        "y_ticks": [(y(value), number(value, 3)) for value in _round_numbers(compared.top)],
        "curves": curves,
    }


def _by_kind(compared: ComparisonView) -> Context:
    """A line from zero for each kind of cluster."""
    behind = [fit.behind for fit in compared.shown]
    top = max(filter(math.isfinite, behind), default=0.0) or 1.0
    bottom = TOP + LINE * len(compared.families)

    def x(value: float) -> float:
        return NAMES + 12 + (WIDTH - NAMES - RIGHT - 12) * min(value, top) / (top * (1 + ROOM))

    curves = []
    for row, (kind, value) in enumerate(zip(compared.families, behind, strict=True)):
        place = (x(value), TOP + LINE * (row + 0.5), not math.isfinite(value))
        curves.append(_curve_of(kind, [place], x(0)))
    return {
        "height": bottom + BOTTOM,
        "left": NAMES,
        "bottom": bottom,
        "x_ticks": [(x(value), number(value, 3)) for value in _round_numbers(top)],
        "y_ticks": [],
        "curves": curves,
    }


def _curve_of(
    kind: ComparedFamily, places: Sequence[tuple[float, float, bool]], begin: float | None = None
) -> Context:
    """Marks at (x, y, whether beyond the edge), and a line through them, from ``begin`` on."""
    way = [(x, y) for x, y, _ in places]
    if begin is not None:
        way = [(begin, way[0][1]), *way]
    look = f"{'own' if kind.own else 'one'} {'round' if kind.round else 'long'}"
    return {
        "name": kind.name,
        "look": "pooled" if kind.pooled else look,
        "points": " ".join(f"{x:.1f},{y:.1f}" for x, y in way),
        "y": places[0][1],
        "marks": [
            {"x": x, "y": y, "beyond": beyond, "fit": fit}
            for (x, y, beyond), fit in zip(places, kind.fits, strict=True)
        ],
    }


def _round_numbers(top: float) -> list[float]:
    """A few round numbers from zero to ``top``."""
    raw = top / MAX_TICKS
    size = 10.0 ** math.floor(math.log10(raw))
    step = next(part * size for part in (1, 2, 5, 10) if part * size >= raw)
    return [float(value) for value in np.arange(0, top * (1 + 1e-9), step)]


# Reversed trends ----------------------------------------------------------------------------------

# All pairs are tested; with more features than this, only those of the most telling ones.
MAX_SEARCHED = 1000
MAX_REVERSALS = 6
MAX_SLOPES = 12


def reversed_trends(samples: ReportSamples) -> Context:
    """A card for each reversed trend; ``found`` is None for images and single clusters."""
    columns = np.sort(observed_enough(samples, samples.telling)[:MAX_SEARCHED])
    if len(columns) < 2 or np.count_nonzero(samples.sizes) < 2 or samples.shape is not None:
        return {"found": None, "shown": [], "n_searched": 0}
    found = numbered_reversals(samples, columns, MAX_REVERSALS)
    shown = [_reversal(found, trend) for trend in found.reversals]
    return {"found": found, "shown": shown, "n_searched": len(columns)}


def _reversal(found: TrendReversals, trend: Trend) -> Context:
    slopes: list[tuple[str, int | None, Slope]] = [
        ("all rows", None, trend.overall),
        ("inside clusters", None, trend.within),
    ]
    pairs = zip(found.labels, trend.clusters, strict=True)
    slopes += [(f"cluster {label}", int(label), slope) for label, slope in pairs]
    shown = slopes[: 2 + MAX_SLOPES]
    # Intervals of small clusters are cut off; otherwise they would flatten all others.
    reach = 1.6 * max(abs(slope.slope) for _, _, slope in shown)

    def position(value: float) -> float:
        """In percent of the width."""
        return round(50 + 50 * min(max(value / reach, -1), 1), 2)

    sign = math.copysign(1, trend.within.slope)
    return {
        "x": int(trend.x),
        "y": int(trend.y),
        "trend": trend,
        "marks": [
            {
                "name": name,
                "label": label,
                "slope": slope,
                "at": position(slope.slope),
                "low": position(slope.low),
                "high": position(slope.high),
            }
            for name, label, slope in shown
        ],
        "n_hidden": len(slopes) - len(shown),
        "n_known": sum(slope.known for slope in trend.clusters),
        # Clusters whose own slope significantly has the sign of the common one.
        "n_agreeing": sum(min(slope.low * sign, slope.high * sign) > 0 for slope in trend.clusters),
    }


# Missing values -----------------------------------------------------------------------------------

MAX_MISSING_COLUMNS = 60
MAX_UNCERTAIN_ROWS, MAX_UNCERTAIN_VALUES = 10, 4


def missing_values(samples: ReportSamples) -> Context | None:
    """Missing values by column, and the least certain rows; None where nothing is missing."""
    missing = samples.missing
    if missing is None:
        return None
    model: Any = samples.model
    deviations = as_rows(model.impute_std(samples.given))
    categories = categories_of(model)
    if categories is not None:
        deviations = deviations[:, list(categories.layout.numbers)]
    deviations = samples.scaling.undo_deviation(samples.scaled.values, deviations)
    counts, per_row = missing.sum(0), missing.sum(1)
    order = np.argsort(-counts, kind="stable")[:MAX_MISSING_COLUMNS]
    return {
        "total": int(counts.sum()),
        "n_rows": int((per_row > 0).sum()),
        "share": float(missing.mean()),
        "n_empty": int((per_row == samples.d).sum()),
        "n_columns": int((counts > 0).sum()),
        "columns": [_missing_column(samples, missing, deviations, j) for j in order if counts[j]],
        "rows": _least_certain(samples, missing, deviations),
    }


def _missing_column(
    samples: ReportSamples, missing: Array, deviations: Array, column: int
) -> Context:
    absent, values = missing[:, column], samples.values[:, column].astype(np.float64)
    return {
        "name": samples.names[column],
        "n_missing": int(absent.sum()),
        "share": float(absent.mean()),
        "observed": None if absent.all() else float(values[~absent].mean()),
        "imputed": float(values[absent].mean()),
        "uncertainty": float(root_mean_square(deviations[absent, column][:, None])[0]),
    }


def _least_certain(samples: ReportSamples, missing: Array, deviations: Array) -> list[Context]:
    """Rows whose imputed values are least certain, relative to the spread of their features."""
    relative = in_units(np.where(missing, deviations, 0), samples.spread)
    worst = relative.max(1)
    order = np.argsort(-worst, kind="stable")[:MAX_UNCERTAIN_ROWS]
    found = []
    for row in order[missing[order].any(1)].tolist():
        columns = np.flatnonzero(missing[row])
        first = columns[np.argsort(-relative[row, columns], kind="stable")][:MAX_UNCERTAIN_VALUES]
        found.append(
            {
                "row": row,
                "n_missing": len(columns),
                "uncertainty": float(worst[row]),
                "imputed": [
                    (samples.names[j], float(samples.values[row, j]), float(deviations[row, j]))
                    for j in first.tolist()
                ],
            }
        )
    return found


# Fit of rows and features -------------------------------------------------------------------------

MAX_GRIDS = 16
MAX_CAUSES = 3
MIN_CAUSE_SHARE = 0.1


def feature_errors(samples: ReportSamples) -> list[Context]:
    """How well the most telling features are reconstructed, as root mean squares."""
    moved = None
    if samples.denoised is not None:
        moved = root_mean_square(samples.values - samples.denoised)
    lines = []
    for column in samples.main_columns:
        spread, error = float(samples.spread[column]), float(samples.errors[column])
        lines.append(
            {
                "name": samples.names[column],
                "mean": float(samples.mean[column]),
                "spread": spread,
                "error": error,
                "explained": 1 - (error / spread) ** 2 if spread > 0 else None,
                "moved": None if moved is None else float(moved[column]),
            }
        )
    return lines


def n_grid_images(samples: ReportSamples) -> int:
    """Images in all grids."""
    return 9 * min(samples.k, MAX_GRIDS)


def image_grids(samples: ReportSamples, painter: Painter | None) -> list[Context]:
    """The best, the median and the worst image of each cluster, for the largest clusters."""
    if painter is None:
        return []
    sources = {
        "original": samples.values,
        "reconstruction": samples.reconstructions,
        "de-noised": samples.denoised,
    }
    largest = np.argsort(-samples.sizes, kind="stable")[:MAX_GRIDS]
    grids = []
    for label in sorted(label for label in largest.tolist() if samples.sizes[label]):
        own = np.flatnonzero(samples.labels == label)
        order = own[np.argsort(samples.misfit[own], kind="stable")].tolist()
        picked = {"best": order[0], "median": order[len(order) // 2], "worst": order[-1]}
        heads = list(picked.items())[: len(own)]
        lines = [
            (name, [painter.paint(rows[row]) for _, row in heads])
            for name, rows in sources.items()
            if rows is not None
        ]
        grids.append({"label": label, "heads": heads, "lines": lines})
    return grids


def worst_fits(samples: ReportSamples) -> list[Context]:
    """The rows that fit worst, worst first, with what makes up most of their misfit."""
    parts = samples.misfit_parts(samples.worst)
    median = float(np.median(samples.misfit))
    found = []
    for row, own in zip(samples.worst.tolist(), parts, strict=True):
        # The distance in standard deviations of the cluster, or the misfit relative to its median.
        times = float(samples.misfit[row]) / median if median > 0 else None
        if has_own_spreads(samples.model):
            times = math.sqrt(own.sum())
        found.append({"row": row, "times": times, "causes": _causes(samples, row, own)})
    return found


def _causes(samples: ReportSamples, row: int, parts: Array) -> list[Context]:
    """What makes up most of a misfit, given all its parts (d + h,); none where it is zero."""
    if not parts.sum() > 0:
        return []
    errors, codes = np.split(parts / parts.sum(), [samples.d])
    if samples.shape is not None:  # single pixels mean nothing
        errors = errors.sum(keepdims=True)
    shares = np.concatenate([errors, codes])
    order = np.argsort(-shares, kind="stable")[:MAX_CAUSES].tolist()
    causes = []
    for place in order:
        if place != order[0] and shares[place] < MIN_CAUSE_SHARE:
            continue
        cause: Context = {"share": float(shares[place]), "value": None, "expected": None}
        if place >= len(errors):  # a code, far out along a direction of the cluster
            number = place - len(errors)
            code = float(samples.codes[row, number])
            own = samples.codes[samples.labels == samples.labels[row], number]
            times = code / float(root_mean_square(own[:, None])[0])
            cause |= {"name": f"code {number}", "value": code, "times": times}
        elif samples.shape is not None:
            cause |= {"name": "pixels", "times": None}
        else:
            cause |= {
                "name": samples.names[place],
                "value": float(samples.values[row, place]),
                "expected": float(samples.reconstructions[row, place]),
                "times": None,
            }
        causes.append(cause)
    return causes


def outlier_rows(outliers: Outliers | None) -> Context | None:
    """Explained rows, and how many deviations the edge of a bar stands for."""
    if outliers is None:
        return None
    sizes = sorted(abs(feature.deviations) for one in outliers for feature in one.features)
    # One extreme value must not make all other bars vanish.
    limit = sizes[(3 * len(sizes)) // 4] if sizes else 0.0
    n_outliers = sum(one.outlier for one in outliers)
    return {"rows": outliers.rows, "n_outliers": n_outliers, "limit": max(limit, 3.0)}
