"""What was fitted and how well: sentences, numbers, parameters and how to load the model.

Shapes: n samples, k clusters.
"""

from __future__ import annotations

import ast
import inspect
import keyword
import platform
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorae import __version__
from tensorae.inspect.clusters import Observed
from tensorae.inspect.samples import evenly_spaced, has_own_spreads, is_variational, losses_of
from tensorae.report.findings import Findings

__all__ = ["Fact", "Parameter", "Summary"]

UNSURE = 0.8
LONGEST_VALUE = 80
CURVE_POINTS = 200
# Numbers of components are listed for so many clusters.
MOST_DIMS = 12
VERSIONS = ("torch", "scikit-learn", "numpy")
SCALED = {
    "": "",
    "StandardScaler()": "standardised to mean 0 and variance 1",
    "MaxAbsScaler()": "divided by their largest absolute value",
}


@dataclass(frozen=True)
class Fact:
    """A number or word with a name and, in small print, what it means; shares are in percent."""

    name: str
    value: float | str
    note: str
    share: bool = False


@dataclass(frozen=True)
class Parameter:
    """A parameter of the constructor; ``changed`` where it is not the default."""

    name: str
    value: str
    changed: bool
    code: str  # its value in Python, or its name where that is no plain value


@dataclass(frozen=True)
class Summary:
    """The head and the foot of the page."""

    model: str  # name of the estimator
    facts: list[Fact]
    warnings: list[str]  # what a reader should know before anything else
    reason: str  # why these settings, in a sentence; empty where nothing is known of it
    curve: str  # polyline in a box of 100 x 30: the loss along the fit; empty where unknown
    steps: str  # what the loss was taken after: "iterations" or "epochs"
    parameters: list[Parameter]
    scaled: str  # what was done to the features before the fit, or nothing
    fit_again: str  # Python that runs as it stands, given rows X in their own units
    keep: str  # the same, from there on, with new rows X_new
    versions: dict[str, str]

    @classmethod
    def of(cls, findings: Findings) -> Summary:
        """Ask the model what is not in the findings."""
        model: Any = findings.model
        parameters = _parameters(model)
        is_scaled = findings.scaling.name != "none"
        module, scaler = _parted(findings.scaling.call) if is_scaled else ("", "")
        return cls(
            model=type(model).__name__,
            facts=[*_fit_facts(findings), *_model_facts(model)],
            warnings=_warnings(findings),
            reason=getattr(model, "reason_", ""),
            curve=_curve(losses_of(model)),
            steps="epochs" if hasattr(model, "history_") else "iterations",
            parameters=parameters,
            scaled=SCALED.get(scaler, f"scaled by {scaler}"),
            fit_again=_fit_again(type(model).__name__, parameters, module, scaler),
            keep=_keep(model, scaled=is_scaled),
            versions=_versions(),
        )


def _fit_facts(findings: Findings) -> list[Fact]:
    facts = []
    if findings.k > 1:
        share = Observed.of(findings.scaled).explained
        note = "of the variance of the features is between the means of the clusters"
        facts.append(Fact("Between clusters", share, note, share=True))
        unsure = int((findings.confidence < UNSURE).sum())
        rows = "row" if unsure == 1 else "rows"
        note = f"mean probability of a row's cluster; {unsure:,} {rows} below {100 * UNSURE:.0f} %"
        facts.append(Fact("Confidence", float(findings.confidence.mean()), note, share=True))
    # Codes nearly as long as the rows give back nearly everything, whatever the clusters are.
    h = int(max(getattr(findings.model, "latent_dims_", [findings.h])))
    if findings.explained is not None and 2 * h <= findings.d:
        note = f"of the variance, by centres and codes of {h} of {findings.d} directions"
        facts.append(Fact("Explained", findings.explained, note, share=True))
    cost = float(findings.misfit.mean())
    kind = "minus log-density" if has_own_spreads(findings.model) else "cost"
    return [*facts, Fact("Misfit", cost, f"mean {kind} of a row of this page")]


def _model_facts(model: Any) -> list[Fact]:
    facts = [
        Fact("Loss", float(model.loss_), "sum of the costs over the rows of the fit"),
        *_spread_facts(model),
    ]
    if is_variational(model):
        note = "variance of a feature about what its code decodes to"
        facts.append(Fact("Noise", float(model.noise_variance_), note))
    elif not has_own_spreads(model):
        penalty = "estimated" if model.latent_penalty == "auto" else "as given"
        facts.append(Fact("λ", float(model.latent_penalty_), f"penalty on the code, {penalty}"))
    if hasattr(model, "converged_"):
        note = "came to a fixed point" if model.converged_ else "stopped before a fixed point"
        return [*facts, Fact("Iterations", int(model.n_iter_), note)]
    return [*facts, Fact("Epochs", int(model.n_iter_), f"epoch {model.best_epoch_} was kept")]


def _spread_facts(model: Any) -> list[Fact]:
    """Which model it is: one spread or own ones, and how many components count."""
    if not hasattr(model, "spread_"):
        return []
    notes = {
        "own": "each cluster has its own variances",
        "pooled": "one covariance for all clusters",
        "shared": "one noise and one λ for all clusters",
    }
    dims = [int(h) for h in model.latent_dims_]
    low, high = min(dims), max(dims)
    span = high if low == high else f"{low} to {high}"
    each = "in each cluster" if low == high or len(dims) > MOST_DIMS else f"({str(dims)[1:-1]})"
    kind = "pooled" if getattr(model, "pooled_", False) else model.spread_
    return [
        Fact("Spread", kind, notes[kind]),
        Fact("Components", span, f"directions that count {each}"),
    ]


def _warnings(findings: Findings) -> list[str]:
    model: Any = findings.model
    found = []
    if getattr(model, "converged_", True) is False:
        found.append(
            f"The fit did not converge within max_iter={model.max_iter} iterations; "
            "raise max_iter or tol."
        )
    empty = [str(cluster.label) for cluster in findings.description if cluster.size == 0]
    if empty:
        which = (
            f"Cluster {empty[0]} has" if len(empty) == 1 else f"Clusters {', '.join(empty)} have"
        )
        found.append(f"{which} no members among these rows.")
    fitted = int(model.cluster_sizes_.sum())
    if fitted != findings.n:
        found.append(
            f"These are not the rows of the fit, or not all of them: the model was fitted on "
            f"{fitted:,}, and this page describes {findings.n:,}."
        )
    # Of rows that several processes shared the model knows the labels of one.
    elif len(model.labels_) == fitted and not np.array_equal(model.labels_, findings.labels):
        found.append("These are not the rows of the fit, or they come in another order.")
    return found


def _curve(losses: NDArray[Any]) -> str:
    """A polyline in a box of 100 x 30; nothing where there is no curve to see."""
    values = losses[np.isfinite(losses)]
    if len(values) < 2 or values.max() <= values.min():
        return ""
    steps = evenly_spaced(len(values), CURVE_POINTS)
    x = 100 * steps / (len(values) - 1)
    y = 29 - 28 * (values[steps] - values.min()) / (values.max() - values.min())
    return " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))


def _parameters(model: Any) -> list[Parameter]:
    given = model.get_params(deep=False)
    usual = inspect.signature(type(model)).parameters  # in the order of the constructor
    return [
        Parameter(
            name,
            _value(given[name]),
            changed=_value(given[name]) != _value(one.default),
            code=_code(name, given[name]),
        )
        for name, one in usual.items()
    ]


def _value(value: Any) -> str:
    """A parameter as it would be written, or in a few words."""
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"<array of shape {tuple(value.shape)}>"
    if callable(value) and hasattr(value, "__name__"):
        return str(value.__name__)
    text = repr(value)
    return text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 1] + "…"


# Code -------------------------------------------------------------------------------------------


def _code(name: str, value: Any) -> str:
    """A value as Python has it; what is no plain value has a name to be filled in."""
    if getattr(value, "__name__", "").isidentifier():  # a function of the user's own
        return str(value.__name__)
    text = repr(value.item() if isinstance(value, np.generic) else value)
    try:
        ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return name
    return text if len(text) <= LONGEST_VALUE else name


def _is_name(code: str) -> bool:
    return code.isidentifier() and not keyword.iskeyword(code)


def _parted(call: str) -> tuple[str, str]:
    """Module and call of ``module.Class(…)``."""
    path, bracket, rest = call.partition("(")
    module, _, name = path.rpartition(".")
    return module, name + bracket + rest


def _fit_again(name: str, parameters: list[Parameter], module: str, scaler: str) -> str:
    changed = [one for one in parameters if one.changed]
    own = [f"# {one.code}: {one.value}" for one in changed if _is_name(one.code)]
    model = f"{name}({', '.join(f'{one.name}={one.code}' for one in changed)})"
    head = [f"from tensorae import {name}"]
    if scaler:
        kind = scaler.partition("(")[0]
        head = [
            "from sklearn.pipeline import make_pipeline",
            f"from {module} import {kind}",
            *head,
        ]
        model = f"make_pipeline(\n    {scaler},\n    {model},\n)"
    return "\n".join([*head, "", *own, f"model = {model}", "model.fit(X)"])


def _keep(model: Any, *, scaled: bool) -> str:
    architecture = getattr(model, "architecture", "")
    given = "" if isinstance(architecture, str) else f", architecture={_value(architecture)}"
    kept = """\
model.save("model.tae")

from tensorae import load

model = load("model.tae"GIVEN)""".replace("GIVEN", given)
    if scaled:  # the scaler has to be kept with it
        kept = """\
import joblib

joblib.dump(model, "model.joblib")
model = joblib.load("model.joblib")"""
    return (
        kept
        + """
model.predict(X_new)        # cluster of each row
model.transform(X_new)      # its code
model.score_samples(X_new)  # low where a row fits no cluster"""
    )


def _versions() -> dict[str, str]:
    found = {"tensorae": __version__, "Python": platform.python_version()}
    return found | {name: metadata.version(name) for name in VERSIONS}
