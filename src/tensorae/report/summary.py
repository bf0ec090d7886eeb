"""What was fitted and how well: sentences, numbers, parameters and how to load the model.

Shapes: n samples, k clusters.
"""

from __future__ import annotations

import inspect
import platform
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorae import __version__
from tensorae.explain.samples import evenly_spaced, losses_of
from tensorae.report.findings import Findings

__all__ = ["Fact", "Parameter", "Summary"]

UNSURE = 0.8
LONGEST_VALUE = 80
CURVE_POINTS = 200
VERSIONS = ("torch", "scikit-learn", "numpy")


@dataclass(frozen=True)
class Fact:
    """A number with a name and, in small print, what it means; shares are shown in percent."""

    name: str
    value: float
    note: str
    share: bool = False


@dataclass(frozen=True)
class Parameter:
    """A parameter of the constructor; ``changed`` where it is not the default."""

    name: str
    value: str
    changed: bool


@dataclass(frozen=True)
class Summary:
    """The head and the foot of the page."""

    model: str  # name of the estimator
    facts: list[Fact]
    warnings: list[str]  # what a reader should know before anything else
    curve: str  # polyline in a box of 100 x 30: the loss along the fit; empty where unknown
    steps: str  # what the loss was taken after: "iterations" or "epochs"
    parameters: list[Parameter]
    call: str  # Python that makes the same model, unfitted
    architecture: str  # name of a function of the user's own that ``load`` needs, or nothing
    versions: dict[str, str]

    @classmethod
    def of(cls, findings: Findings) -> Summary:
        """Ask the model what is not in the findings."""
        model: Any = findings.model
        parameters = _parameters(model)
        changed = ", ".join(f"{one.name}={one.value}" for one in parameters if one.changed)
        architecture = getattr(model, "architecture", "")
        return cls(
            model=type(model).__name__,
            facts=[*_fit_facts(findings), *_model_facts(model)],
            warnings=_warnings(findings),
            curve=_curve(losses_of(model)),
            steps="epochs" if hasattr(model, "history_") else "iterations",
            parameters=parameters,
            call=f"{type(model).__name__}({changed})",
            architecture="" if isinstance(architecture, str) else _value(architecture),
            versions=_versions(),
        )


def _fit_facts(findings: Findings) -> list[Fact]:
    facts = []
    if findings.explained is not None:
        note = "of the variance, by centres and codes together"
        facts.append(Fact("Explained", findings.explained, note, share=True))
    if findings.k > 1:
        unsure = int((findings.confidence < UNSURE).sum())
        rows = "row" if unsure == 1 else "rows"
        note = f"mean probability of a row's cluster; {unsure:,} {rows} below {100 * UNSURE:.0f} %"
        facts.append(Fact("Confidence", float(findings.confidence.mean()), note, share=True))
    cost = float(findings.misfit.mean())
    return [*facts, Fact("Misfit", cost, "mean cost of a row of this page")]


def _model_facts(model: Any) -> list[Fact]:
    penalty = "estimated" if model.latent_penalty == "auto" else "as given"
    facts = [
        Fact("Loss", float(model.loss_), "sum of the costs over the rows of the fit"),
        Fact("λ", float(model.latent_penalty_), f"penalty on the code, {penalty}"),
    ]
    if hasattr(model, "converged_"):
        note = "came to a fixed point" if model.converged_ else "stopped before a fixed point"
        return [*facts, Fact("Iterations", int(model.n_iter_), note)]
    return [*facts, Fact("Epochs", int(model.n_iter_), f"epoch {model.best_epoch_} was kept")]


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
        Parameter(name, _value(given[name]), _value(given[name]) != _value(one.default))
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


def _versions() -> dict[str, str]:
    found = {"tensorae": __version__, "Python": platform.python_version()}
    return found | {name: metadata.version(name) for name in VERSIONS}
