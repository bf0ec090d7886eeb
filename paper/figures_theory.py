"""Figures 6 to 8: a diagram of the method, Theorem 2.2, and expectation maximisation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib import patches
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from paper import task_linear
from paper.drawing import INK, by_class, canvas, scatter
from paper.experiment import (
    Experiment,
    Finding,
    Measurements,
    ResultTable,
    Settings,
    Trial,
    listed,
)
from paper.problems import PLANTED, PROBLEMS, SMALL, load
from paper.task_linear import EM_METHODS, RULES, THEOREM_METHODS, UNSURE
from tensorae.plot import cluster_colors

__all__ = ["DIAGRAM", "EM", "THEOREM", "free_decoder_costs"]

Array = np.ndarray

COLORS = cluster_colors(8)
DATASETS = (*PLANTED, *SMALL)
LOSS = "loss"

# Figure 6 -------------------------------------------------------------------------------------

# Autoencoders that are drawn: the first, the second, and the last behind dots.
NAMES = ("1", "2", "k")
HEIGHTS = (4.2, 2.5, 0.0)
LATENT_X, OUTPUT_X, WEIGHT_X = 5.0, 7.9, 9.75


def _draw_diagram(results: Measurements) -> dict[str, Figure]:  # noqa: ARG001
    figure, ((ax,),) = canvas(width=12.5, height=6.6)
    ax.set_xlim(-0.7, 13.2)
    ax.set_ylim(-1.75, 6.0)
    ax.set_aspect("equal")
    ax.set_axis_off()
    middle = 2.1
    _box(ax, 0.5, middle, 1.1, 2.2, "#EEEEEE", "$x_i$")
    for name, height, color in zip(NAMES, HEIGHTS, cluster_colors(3), strict=True):
        _autoencoder(ax, name, height, color, middle)
    ax.text(LATENT_X, (HEIGHTS[1] + HEIGHTS[2]) / 2, "⋮", fontsize=26, ha="center", va="center")
    _box(ax, 12.3, middle, 1.2, 2.2, "#EEEEEE", "$\\hat{x}_i$")
    for x, text in [
        (0.5, "sample"),
        (2.75, "about the\ncluster's centre"),
        (LATENT_X, "encoder, code of length h,\ndecoder: one per cluster"),
        (OUTPUT_X, "reconstruction"),
        (WEIGHT_X + 0.15, "assignment,\n0/1 at the optimum"),
        (12.3, "output"),
    ]:
        ax.text(x, 5.45, text, ha="center", va="center", fontsize=11)
    ax.text(
        6.2, -1.4,
        r"loss  $=\ \sum_i\ \sum_j\ S_{ij}\ [\ \|x_i-C_j-f_j(g_j(x_i-C_j))\|^2"
        r"\ +\ \lambda\,\|g_j(x_i-C_j)\|^2\ ]$",
        ha="center", va="center", fontsize=15,
    )  # fmt: skip
    return {"figure6_diagram": figure}


def _autoencoder(ax: Axes, name: str, y: float, color: str, middle: float) -> None:
    """Draw one of the k: centre, encoder, code, decoder, weight."""
    _arrow(ax, (1.1, middle), (2.15, y))
    _box(ax, 2.75, y, 1.15, 0.62, "white", f"$x_i-C_{name}$", edge=color, size=13)
    _trapezium(ax, 3.55, LATENT_X - 0.42, y, 0.62, 0.27, color, f"$g_{name}$")
    _box(ax, LATENT_X, y, 0.5, 0.5, color, f"$z_{name}$", text="white", size=13)
    _trapezium(ax, LATENT_X + 0.42, 6.5, y, 0.27, 0.62, color, f"$f_{name}$")
    _box(ax, OUTPUT_X, y, 1.9, 0.62, "white", f"$f_{name}(z_{name})+C_{name}$", edge=color, size=13)
    _arrow(ax, (6.55, y), (OUTPUT_X - 1.0, y))
    _arrow(ax, (OUTPUT_X + 1.0, y), (WEIGHT_X - 0.42, y))
    ax.add_patch(patches.Circle((WEIGHT_X, y), 0.4, facecolor="white", edgecolor=color, lw=2))
    ax.text(WEIGHT_X, y, f"$S_{{i{name}}}$", ha="center", va="center", fontsize=13)
    _arrow(ax, (WEIGHT_X + 0.45, y), (11.65, middle))


def _box(
    ax: Axes,
    x: float,
    y: float,
    width: float,
    height: float,
    face: str,
    label: str,
    *,
    edge: str = INK,
    text: str = INK,
    size: int = 17,
) -> None:
    ax.add_patch(
        patches.FancyBboxPatch(
            (x - width / 2, y - height / 2), width, height, boxstyle="round,pad=0",
            facecolor=face, edgecolor=edge, lw=1.8,
        )
    )  # fmt: skip
    ax.text(x, y, label, ha="center", va="center", fontsize=size, color=text)


def _trapezium(
    ax: Axes, left: float, right: float, y: float, start: float, end: float, color: str, label: str
) -> None:
    """Draw a network that narrows or widens from ``start`` to ``end``, each half a height."""
    corners = [(left, y - start), (left, y + start), (right, y + end), (right, y - end)]
    ax.add_patch(patches.Polygon(corners, facecolor=color, alpha=0.22, edgecolor=color, lw=1.8))
    ax.add_patch(patches.Polygon(corners, fill=False, edgecolor=color, lw=1.8))
    ax.text((left + right) / 2, y, label, ha="center", va="center", fontsize=15)


def _arrow(ax: Axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    style = {"arrowstyle": "-|>", "color": INK, "lw": 1.3, "mutation_scale": 12}
    ax.annotate("", xy=end, xytext=start, arrowprops=style)


DIAGRAM = Experiment(
    number=6,
    title="The method",
    story=(
        "A sample goes through k autoencoders, each about the centre of its cluster. S says which "
        "of them it belongs to; the penalty λ on the codes makes clusters compact. The "
        "assignment is learned together with the networks."
    ),
    draw=_draw_diagram,
)

# Figure 7 -------------------------------------------------------------------------------------

TO_OWN, TO_CLASS = "largest angle to own eigenvectors", "largest angle to the class's eigenvectors"
OFFSET = "largest distance of centre and mean"
FIRST_ENTROPY, ENTROPY = "entropy at the start", "entropy at the end"
# Gradient runs take their time, and differ little from seed to seed.
MOST_SEEDS = 3
# An angle that exact arithmetic gives is drawn here on the log scale.
SMALLEST_ANGLE = 1e-14
MARKERS = {"exact": "o", "gradient": "s", "option 1": "^", "option 2": "v", "overall": "X"}
# The example of the erratum: one cluster, two features, one latent number.
SCATTER, PENALTY = np.diag([4.0, 0.1]), 0.1


def _theorem_trials(settings: Settings) -> list[Trial]:
    settings = replace(settings, runs=min(settings.runs, MOST_SEEDS))
    return settings.trials(task_linear.THEOREM, DATASETS, THEOREM_METHODS)


def _draw_theorem(results: Measurements) -> dict[str, Figure]:
    figure, axes = canvas(2, 2, width=13, height=9)
    _angles(axes[0, 0], results)
    _erratum(axes[0, 1])
    for ax, method in zip(axes[1], RULES, strict=True):
        _entropies(ax, results, method)
    return {"figure7_theorem": figure}


def _angles(ax: Axes, results: Measurements) -> None:
    names = results.datasets
    for number, (method, label) in enumerate(THEOREM_METHODS.items()):
        metric = TO_CLASS if method == "overall" else TO_OWN
        what = "to each class" if method == "overall" else "to its own clusters"
        places = np.arange(len(names)) + 0.12 * (number - 2)
        largest = [max(results.values(name, method, metric), default=np.nan) for name in names]
        ax.semilogy(
            places, np.maximum(largest, SMALLEST_ANGLE), MARKERS[method], ms=8,
            color=COLORS[(0, 3, 2, 4, 7)[number]], label=f"{label}, {what}",
        )  # fmt: skip
    ax.axhline(1, color="0.6", lw=1, ls="--")
    ax.text(len(names) - 0.5, 1.3, "1°", ha="right", color="0.4")
    ax.set_xticks(range(len(names)), [name.replace(" ", "\n", 1) for name in names], fontsize=9)
    ax.set_ylabel("largest angle, degrees, log scale")
    ax.set_ylim(SMALLEST_ANGLE / 10, 1e9)
    ax.set_yticks([1e-14, 1e-10, 1e-6, 1e-2, 1e2])
    ax.set_title("Learned components against eigenvectors")
    ax.legend(loc="upper left", fontsize=9)


def _erratum(ax: Axes) -> None:
    angles = np.linspace(-90, 90, 1801)
    tied, free = free_decoder_costs(angles, SCATTER, PENALTY)
    ax.plot(angles, tied, color=COLORS[0], lw=2.5, label="tied decoder, V = Uᵀ")
    ax.plot(angles, free, color=COLORS[3], lw=2.5, label="best free decoder")
    for curve, color in ((tied, COLORS[0]), (free, COLORS[3])):
        best = int(np.argmin(np.where(angles >= 0, curve, np.inf)))
        ax.plot(angles[best], curve[best], "o", ms=9, color=color, mec="white")
        ax.annotate(
            f"{curve[best]:.3f} at {angles[best]:.1f}°", (angles[best], curve[best]),
            textcoords="offset points", xytext=(0, -20), ha="center", color=color,
        )  # fmt: skip
    ax.set_xlabel("angle of the encoder to the first eigenvector, degrees")
    ax.set_ylabel("cost")
    ax.set_ylim(0, 1.6)
    ax.set_title("Why the decoder must be tied: Σ = diag(4, 0.1), λ = 0.1")
    ax.legend(loc="lower left")


def _entropies(ax: Axes, results: Measurements, method: str) -> None:
    for number, name in enumerate(results.datasets):
        path = results.arrays(name, method)["entropy"]
        ax.plot(path, color=COLORS[number % 8], lw=2, label=name)
    ax.set_xscale("symlog", linthresh=10)
    ax.set_xlabel("gradient step")
    ax.set_ylabel("mean entropy of a row of S, nats")
    ax.set_title(f"How far S is from 0/1: {THEOREM_METHODS[method]}")
    ax.legend(fontsize=9)


def _theorem_tables(results: Measurements) -> list[ResultTable]:
    rows = []
    for name in results.datasets:
        for method, label in THEOREM_METHODS.items():
            cells = [
                _largest(results, name, method, metric) for metric in (TO_OWN, TO_CLASS, OFFSET)
            ]
            loss = results.mean(name, method, LOSS)
            excess = round(100 * (loss / results.mean(name, "exact", LOSS) - 1), 2)
            told = "–" if np.isnan(excess) else f"{excess + 0.0:+.2f} %"  # no minus zero
            entropy = _largest(results, name, method, ENTROPY)
            rows.append([f"{name}: {label}", *cells, told, entropy])
    columns = [
        "data: method", "angle to own clusters' eigenvectors, degrees",
        "angle to the true classes' eigenvectors, degrees", "centre to mean, share of the spread",
        "loss above the exact solution", "entropy at the end",
    ]  # fmt: skip
    return [ResultTable("Largest over clusters and seeds", columns, rows)]


def _theorem_findings(results: Measurements) -> list[Finding]:
    names = results.datasets
    exact, networks = (_most(results, method, TO_OWN) for method in ("exact", "gradient"))
    relaxed = max(_most(results, method, TO_OWN) for method in RULES)
    offset = max(_most(results, method, OFFSET) for method in ("exact", "gradient"))
    entropy = max(_most(results, method, ENTROPY) for method in RULES)
    first = min(results.values(n, m, FIRST_ENTROPY).min() for n in names for m in RULES)
    overall = min(results.values(name, "overall", TO_CLASS).min() for name in names)
    tied, free = free_decoder_costs(np.linspace(0, 90, 3601), SCATTER, PENALTY)
    return [
        Finding(
            "(i) S is 0/1 at the optimum, although it may be anything between on the way.",
            f"Along gradient runs with a relaxed S the mean entropy goes from {first:.2f} nats or "
            f"more to {entropy:.1e} or less, on every set and by both options.",
            [entropy < 0.01],
        ),
        Finding(
            "(ii) Centres are the weighted means of their clusters.",
            f"The largest distance between a centre and its mean is {offset:.1e} of the spread.",
            [offset < 1e-3],
        ),
        Finding(
            "(iii) The encoding is given by the top eigenvectors of each cluster's scatter.",
            f"Largest angle: {exact:.1e} degrees for the exact solution, {relaxed:.1g} for the "
            f"gradient runs, {networks:.1f} for TAE's linear networks, which train in batches for "
            "a limited number of steps and do not count here. One PCA for all is at least "
            f"{overall:.0f} degrees off for some class on every set. It is the top h eigenvectors; "
            "the paper writes top k.",
            [exact < 1e-3, relaxed < 1.0],
        ),
        Finding(
            "(iii) The optimal decoder is the transpose of the encoder.",
            "With Σ = diag(4, 0.1), h = 1 and λ = 0.1 the claimed optimum costs "
            f"{tied.min():.3f}; a free decoder with the best encoder costs {free.min():.3f}. So "
            "tensorae ties the decoder.",
            [free.min() > tied.min() - 1e-9],
        ),
    ]


def _most(results: Measurements, method: str, metric: str) -> float:
    return max(float(results.values(name, method, metric).max()) for name in results.datasets)


def _largest(results: Measurements, name: str, method: str, metric: str) -> str:
    values = results.values(name, method, metric)
    return f"{values.max():.2g}" if len(values) else "–"


def free_decoder_costs(angles: Array, scatter: Array, latent_penalty: float) -> tuple[Array, Array]:
    """Cost of one cluster by the angle of its encoder: tied decoder, and the best free one.

    The erratum of Theorem 2.2 in two dimensions: with a free decoder the optimum is elsewhere.

    ``angles`` (a,) of the encoder u to the first axis are in degrees, ``scatter`` (2, 2) is Σ of
    the cluster. Returns ``tr Σ - (1-λ) u Σ u'`` and ``tr Σ - |Σ u'|² / u Σ u' + λ u Σ u'``, (a,).
    """
    radians = np.radians(angles)
    u = np.stack([np.cos(radians), np.sin(radians)], axis=1)
    along = np.einsum("ai,ij,aj->a", u, scatter, u)
    image = u @ scatter
    whole = np.trace(scatter)
    tied = whole - (1 - latent_penalty) * along
    free = whole - (image**2).sum(1) / along + latent_penalty * along
    return tied, free


THEOREM = Experiment(
    number=7,
    title="Theorem 2.2, shown",
    story=(
        "The linear model on planted and real data, h = 1, λ = 0.1, by alternation with exact "
        "steps (LinearTAE) and trained by Adam (TAE of tied linear networks). Eigenvectors and "
        "means are computed anew from samples and labels. “Option 1” and “option 2” are gradient "
        "runs as the paper describes them: networks, then the relaxed S, step by step, from "
        "assignments that are half uniform; option 1 keeps the constraints by an exponentiated "
        "step, option 2 projects. Each is the best of ten starts by loss; none is sure to find "
        "the global optimum, so that a loss can be below that of the exact steps. At most "
        f"{MOST_SEEDS} seeds; curves show the first."
    ),
    trials=_theorem_trials,
    draw=_draw_theorem,
    tables=_theorem_tables,
    findings=_theorem_findings,
)

# Figure 8 -------------------------------------------------------------------------------------

SHOWN = ("triangle", "penguins 2, max")
LIKELIHOOD = "log-likelihood"
# Share of the labels that may differ between rules that are called closely related.
CLOSE = 0.1


def _draw_em(results: Measurements) -> dict[str, Figure]:
    shown = [name for name in SHOWN if name in results.datasets]
    n_rows = 2 if shown else 1
    figure, axes = canvas(2, n_rows, width=13, height=4.6 * n_rows)
    loss, likelihood = (
        [[results.values(name, rule, metric) for rule in EM_METHODS] for name in results.datasets]
        for metric in (LOSS, LIKELIHOOD)
    )
    excess = [100 * (em / lloyd - 1) for lloyd, em in loss]
    _gap_bars(axes[0, 0], results.datasets, excess, COLORS[3])
    axes[0, 0].set(xlabel="loss of em above that of lloyd, %", title="By the paper's loss")
    gain = [em - lloyd for lloyd, em in likelihood]
    _gap_bars(axes[0, 1], results.datasets, gain, COLORS[2])
    axes[0, 1].set(xlabel="log-likelihood of em above lloyd, per sample", title="By the likelihood")
    for ax, name in zip(axes[1:].flat, shown, strict=False):
        _disagreement(ax, results, name)
    for ax in axes[1:].flat[len(shown) :]:
        ax.set_axis_off()
    return {"figure8_em": figure}


def _gap_bars(ax: Axes, names: list[str], gaps: list[Array], color: str) -> None:
    heights = np.arange(len(names))[::-1]
    ax.barh(heights, [gap.mean() for gap in gaps], color=color, height=0.6)
    for height, gap in zip(heights, gaps, strict=True):
        ax.plot(gap, np.full(len(gap), height), ".", color=INK, ms=3)
    ax.set_yticks(heights, names)
    ax.axvline(0, color=INK, lw=1)


def _disagreement(ax: Axes, results: Measurements, name: str) -> None:
    data, k = load(name), PROBLEMS[name].n_clusters
    hard, soft = (
        by_class(results.arrays(name, method)["labels"], data.y, k) for method in EM_METHODS
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


def _em_tables(results: Measurements) -> list[ResultTable]:
    rows = []
    for name in results.datasets:
        cells = [
            f"{results.mean(name, method, metric):.4f}"
            for metric in (LOSS, LIKELIHOOD, "ARI")
            for method in EM_METHODS
        ]
        unsure = 100 * results.mean(name, "em", "rows below 0.9 certainty")
        rows.append([name, *cells, f"{unsure:.1f} %", f"{np.mean(_changed(results, name)):.1f}"])
    columns = [
        "data", "loss, lloyd", "loss, em", "log-likelihood, lloyd", "log-likelihood, em",
        "ARI, lloyd", "ARI, em", "certainty below 0.9", "labels that differ",
    ]  # fmt: skip
    title = "Both per sample, means over the seeds; loss is Eq. 3, the likelihood that of section 5"
    return [ResultTable(title, columns, rows)]


def _em_findings(results: Measurements) -> list[Finding]:
    names = results.datasets
    loss, gain = (
        {n: results.mean(n, "em", metric) - results.mean(n, "lloyd", metric) for n in names}
        for metric in (LOSS, LIKELIHOOD)
    )
    changed = {n: float(np.mean(_changed(results, n))) for n in names}
    samples = {n: len(load(n).y) for n in names}
    most = max(names, key=lambda n: changed[n] / samples[n])
    behind = [n for n in names if loss[n] < -1e-9 or gain[n] < -1e-9]
    order = (
        f"On {listed(behind)} a rule is behind by its own yardstick, and so not at its optimum"
        if behind
        else "By its own yardstick no rule is behind the other on any set"
    )
    pairs = [pair for name in names for pair in _differences(results, name)]
    among_changed = np.concatenate([certainty[differs] < UNSURE for differs, certainty in pairs])
    unsure = float(among_changed.mean()) if len(among_changed) else None
    told = "" if unsure is None else f" {100 * unsure:.0f} % of them have a certainty below 0.9."
    return [
        Finding(
            "Training TAE is closely related to expectation maximisation for a mixture of "
            "Gaussians whose covariances have h large eigenvalues.",
            f"{order}. On {sum(c == 0 for c in changed.values())} of {len(names)} sets no label "
            f"differs; the largest share does on {most}: {changed[most]:.1f} of {samples[most]} in "
            f"the mean.{told} Below {100 * CLOSE:.0f} % on a set count as closely related.",
            [changed[n] < CLOSE * samples[n] for n in names],
        ),
        Finding(
            "The posterior of section 5 has the determinant as a factor.",
            "From the formulas, not from a run: it belongs in the denominator (a density falls "
            "with the volume of its covariance), and the expected log-likelihood has minus half "
            "its logarithm. Here it is the same for all clusters, so that nothing changes as long "
            "as λ and the noise are shared.",
            [False],
        ),
    ]


def _changed(results: Measurements, name: str) -> list[int]:
    """Count, for each seed, the rows that the two rules put into different clusters."""
    return [int(differs.sum()) for differs, _ in _differences(results, name)]


def _differences(results: Measurements, name: str) -> list[tuple[Array, Array]]:
    """For each seed, which rows (n,) the rules label differently, and how sure em is (n,)."""
    k = PROBLEMS[name].n_clusters
    found = []
    for one, other in zip(results.of(name, "lloyd"), results.of(name, "em"), strict=True):
        hard, soft = (np.asarray(r.arrays["labels"]) for r in (one, other))
        certainty = np.asarray(other.arrays["certainty"])
        found.append((by_class(soft, hard, k) != hard, certainty))
    return found


EM = Experiment(
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
    trials=lambda settings: settings.trials(task_linear.EM, DATASETS, EM_METHODS),
    draw=_draw_em,
    tables=_em_tables,
    findings=_em_findings,
)
