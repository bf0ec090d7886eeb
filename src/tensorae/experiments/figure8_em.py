"""Figure 8: the connection to expectation maximisation (section 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tensorae.experiments import likelihood
from tensorae.experiments.drawing import by_class, canvas, scatter
from tensorae.experiments.experiment import Experiment, Finding, Part, Results, Settings, Table
from tensorae.experiments.problems import PLANTED, PROBLEMS, SMALL, load
from tensorae.experiments.wording import listed, verdict
from tensorae.plotting.style import INK, OKABE_ITO

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT"]

Array = np.ndarray

DATASETS = (*PLANTED, *SMALL)
SHOWN = ("triangle", "penguins 2, max")
LOSS, LIKELIHOOD = "loss", "log-likelihood"
# Share of the labels that may differ between rules that are called closely related.
CLOSE = 0.1
UNSURE = 0.9


def _parts(settings: Settings) -> list[Part]:
    return [
        Part(likelihood.TASK, name, method, seed, settings.quick)
        for name in settings.among(DATASETS)
        for method in likelihood.METHODS
        for seed in range(settings.runs)
    ]


def _draw(results: Results) -> dict[str, Figure]:
    names = _names(results)
    if not names:
        return {}
    shown = [name for name in SHOWN if name in names]
    n_rows = 2 if shown else 1
    figure, axes = canvas(2, n_rows, width=13, height=4.6 * n_rows)
    _loss_panel(axes[0, 0], results)
    _likelihood_panel(axes[0, 1], results)
    for ax, name in zip(axes[1:].flat, shown, strict=False):
        _disagreement(ax, results, name)
    for ax in axes[1:].flat[len(shown) :]:
        ax.set_axis_off()
    return {"figure8_em": figure}


def _loss_panel(ax: Axes, results: Results) -> None:
    names = _names(results)
    excess = [
        100 * (results.values(n, "em", LOSS) / results.values(n, "lloyd", LOSS) - 1) for n in names
    ]
    _horizontal(ax, names, excess, OKABE_ITO[3])
    ax.set_xlabel("loss of em above that of lloyd, %")
    ax.set_title("By the paper's loss")


def _likelihood_panel(ax: Axes, results: Results) -> None:
    names = _names(results)
    gain = [
        results.values(n, "em", LIKELIHOOD) - results.values(n, "lloyd", LIKELIHOOD) for n in names
    ]
    _horizontal(ax, names, gain, OKABE_ITO[2])
    ax.set_xlabel("log-likelihood of em above lloyd, per sample")
    ax.set_title("By the likelihood")


def _horizontal(ax: Axes, names: list[str], values: list[Array], color: str) -> None:
    places = np.arange(len(names))[::-1]
    ax.barh(places, [v.mean() for v in values], color=color, height=0.6)
    for place, one in zip(places, values, strict=True):
        ax.plot(one, np.full(len(one), place), ".", color=INK, ms=3)
    ax.set_yticks(places, names)
    ax.axvline(0, color=INK, lw=1)


def _disagreement(ax: Axes, results: Results, name: str) -> None:
    data, k = load(name), PROBLEMS[name].n_clusters
    hard, soft = (
        by_class(results.arrays(name, method)["labels"], data.y, k) for method in likelihood.METHODS
    )
    unsure = results.arrays(name, "em")["certainty"] < UNSURE
    scatter(ax, data.X[:, :2], soft, size=14)
    rings: dict[str, Any] = {"s": 70, "facecolors": "none", "linewidths": 1.4}
    ax.scatter(*data.X[unsure, :2].T, edgecolors="0.55", label="certainty below 0.9", **rings)
    differs = hard != soft
    ax.scatter(*data.X[differs, :2].T, edgecolors="black", label="other label by lloyd", **rings)
    ax.set_title(f"{name}: {int(differs.sum())} of {len(hard)} labels differ")
    ax.set_xlabel(data.feature_names[0].replace("_mm", "").replace("_", " "))
    ax.set_ylabel(data.feature_names[1].replace("_mm", "").replace("_", " "))
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2, fontsize=9)


def _tables(results: Results) -> list[Table]:
    rows = []
    for name in _names(results):
        cells = [
            f"{results.mean(name, method, metric):.4f}"
            for metric in (LOSS, LIKELIHOOD, "ARI")
            for method in likelihood.METHODS
        ]
        unsure = 100 * results.mean(name, "em", "rows below 0.9 certainty")
        rows.append([name, *cells, f"{unsure:.1f} %", f"{np.mean(_changed(results, name)):.1f}"])
    columns = [
        "data", "loss, lloyd", "loss, em", "log-likelihood, lloyd", "log-likelihood, em",
        "ARI, lloyd", "ARI, em", "certainty below 0.9", "labels that differ",
    ]  # fmt: skip
    title = "Both per sample, means over the seeds; loss is Eq. 3, the likelihood that of section 5"
    return [Table(title, columns, rows)] if rows else []


def _findings(results: Results) -> list[Finding]:
    names = _names(results)
    if not names:
        return []
    loss, gain = ({n: _gap(results, n, metric) for n in names} for metric in (LOSS, LIKELIHOOD))
    changed = {n: float(np.mean(_changed(results, n))) for n in names}
    samples = {n: len(load(n).y) for n in names}
    most = max(names, key=lambda n: changed[n] / samples[n])
    behind = [n for n in names if loss[n] < -1e-9 or gain[n] < -1e-9]
    order = (
        f"On {listed(behind)} a rule is behind by its own yardstick, and so not at its optimum"
        if behind
        else "By its own yardstick no rule is behind the other on any set"
    )
    unsure = _unsure_among_changed(results, names)
    told = "" if unsure is None else f" {100 * unsure:.0f} % of them have a certainty below 0.9."
    return [
        Finding(
            "Training TAE is closely related to expectation maximisation for a mixture of "
            "Gaussians whose covariances have h large eigenvalues.",
            f"{order}. On {sum(c == 0 for c in changed.values())} of {len(names)} sets no label "
            f"differs; the largest share does on {most}: {changed[most]:.1f} of {samples[most]} in "
            f"the mean.{told} Below {100 * CLOSE:.0f} % on a set count as closely related.",
            verdict([changed[n] < CLOSE * samples[n] for n in names]),
        ),
        Finding(
            "The posterior of section 5 has the determinant as a factor.",
            "From the formulas, not from a run: it belongs in the denominator (a density falls "
            "with the volume of its covariance), and the expected log-likelihood has minus half "
            "its logarithm. Here it is the same for all clusters, so that nothing changes as long "
            "as λ and the noise are shared.",
            "does not hold",
        ),
    ]


def _changed(results: Results, name: str) -> list[int]:
    """Count, for each seed, the rows that the two rules put into different clusters."""
    return [int(differs.sum()) for differs, _ in _differences(results, name)]


def _unsure_among_changed(results: Results, names: list[str]) -> float | None:
    """Share of the rows with different labels that em is not sure of; None without such rows."""
    pairs = [pair for name in names for pair in _differences(results, name)]
    unsure = np.concatenate([certainty[differs] < UNSURE for differs, certainty in pairs])
    return float(unsure.mean()) if len(unsure) else None


def _differences(results: Results, name: str) -> list[tuple[Array, Array]]:
    """For each seed, which rows (n,) the rules label differently, and how sure em is (n,)."""
    k = PROBLEMS[name].n_clusters
    found = []
    for one, other in zip(results.chosen(name, "lloyd"), results.chosen(name, "em"), strict=True):
        hard, soft = (np.asarray(r.outcome.arrays["labels"]) for r in (one, other))
        certainty = np.asarray(other.outcome.arrays["certainty"])
        found.append((by_class(soft, hard, k) != hard, certainty))
    return found


def _gap(results: Results, name: str, metric: str) -> float:
    return results.mean(name, "em", metric) - results.mean(name, "lloyd", metric)


def _names(results: Results) -> list[str]:
    return [name for name in DATASETS if name in results.datasets]


EXPERIMENT = Experiment(
    number=8,
    title="The connection to expectation maximisation",
    story=(
        "The same linear model, fitted once by hard assignments (lloyd: the paper's loss) and "
        "once by the posterior of section 5 (em: the likelihood, which spreads a sample over "
        "clusters and weighs them by their size), same λ = 0.1, same search. Loss and likelihood "
        "are measured for both. Bars are means over the seeds, dots the seeds. Rings mark samples "
        "whose posterior is below 0.9 for every cluster, and samples that the two put into "
        "different clusters."
    ),
    parts=_parts,
    draw=_draw,
    tables=_tables,
    findings=_findings,
)
