"""Figure 3: the penguins as each algorithm clusters them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from sklearn.tree import DecisionTreeClassifier

from tensorae.experiments import clustering
from tensorae.experiments.drawing import by_class, canvas, scatter
from tensorae.experiments.experiment import Experiment, Finding, Part, Results, Settings, Table
from tensorae.experiments.problems import SMALL, load
from tensorae.experiments.wording import listed, mean_and_spread, verdict
from tensorae.plotting.style import cluster_colors

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT"]

DATASET = "penguins 2"
PANELS = ("k-means++", "AE1", "AE2", "TAE", "LinearTAE", "GaussianMixture")
RIVALS = ("k-means++", "AE1", "AE2")
# Share of the penguins whose cluster bill length alone must tell for upright boundaries.
UPRIGHT = 0.95


def _parts(settings: Settings) -> list[Part]:
    return [
        Part(clustering.TASK, name, method, seed, settings.quick)
        for name in settings.among([DATASET])
        for method in PANELS
        for seed in range(settings.runs)
    ]


def _draw(results: Results) -> dict[str, Figure]:
    if DATASET not in results.datasets:
        return {}
    data, k = load(DATASET), SMALL[DATASET].n_clusters
    figure, axes = canvas(4, 2, width=13, height=6.4, sharex=True, sharey=True)
    panels = [("species", data.y)] + [
        (method, results.arrays(DATASET, method)["labels"]) for method in PANELS
    ]
    for ax, (name, labels) in zip(axes.flat, panels, strict=False):
        scatter(ax, data.X, by_class(labels, data.y, k))
        ari = "" if name == "species" else f", ARI {results.values(DATASET, name, 'ARI')[0]:.2f}"
        ax.set_title(name + ari)
    legend = axes.flat[-1]
    legend.set_axis_off()
    axes[0, -1].tick_params(labelbottom=True)
    for color, name in zip(cluster_colors(k), data.class_names, strict=True):
        legend.plot([], [], "o", color=color, label=name)
    legend.legend(title="species, or the cluster\nthat shares most with it", loc="center")
    figure.supxlabel("bill length, mm")
    figure.supylabel("bill depth, mm")
    return {"figure3_penguins": figure}


def _tables(results: Results) -> list[Table]:
    if DATASET not in results.datasets:
        return []
    rows = []
    for method in PANELS:
        ari = mean_and_spread(results.values(DATASET, method, "ARI"))
        rows.append([method, ari, f"{100 * _upright(results, method):.0f} %"])
    columns = ["method", "ARI", "told by bill length alone"]
    return [Table("Agreement with the species, and with upright boundaries", columns, rows)]


def _findings(results: Results) -> list[Finding]:
    if DATASET not in results.datasets:
        return []
    means = {m: results.mean(DATASET, m, "ARI") for m in PANELS}
    beaten = [m for m in RIVALS if means["TAE"] > means[m]]
    upright = {m: _upright(results, m) for m in (*RIVALS, "TAE")}
    figures = ", ".join(f"{m} {mean:.3f}" for m, mean in means.items())
    told = ", ".join(f"{m} {100 * share:.0f} %" for m, share in upright.items())
    return [
        Finding(
            "k-means and both autoencoders cut the penguins by upright boundaries; TAE finds "
            "clusters closer to the true structure.",
            f"ARI in the mean: {figures}; TAE is ahead of {listed(beaten)}. Share of the penguins "
            f"whose cluster follows from bill length alone, by upright boundaries: {told}. The "
            "paper does not show LinearTAE and the Gaussian mixture with full covariances.",
            verdict([m in beaten for m in RIVALS] + [upright[m] >= UPRIGHT for m in RIVALS]),
        )
    ]


def _upright(results: Results, method: str) -> float:
    """Share of the penguins whose cluster two thresholds on bill length tell, over the seeds."""
    length = load(DATASET).X[:, :1]
    cuts = DecisionTreeClassifier(max_leaf_nodes=SMALL[DATASET].n_clusters, random_state=0)
    labels = [one.outcome.arrays["labels"] for one in results.chosen(DATASET, method)]
    return float(np.mean([cuts.fit(length, one).score(length, one) for one in labels]))


EXPERIMENT = Experiment(
    number=3,
    title="Penguins, clustered by each algorithm",
    story=(
        "Bill length and depth in millimetres, three clusters, one latent number (AE2: two, as "
        "many as there are features). Each panel is the first seed; colours follow the species "
        "that a cluster shares most penguins with."
    ),
    parts=_parts,
    draw=_draw,
    tables=_tables,
    findings=_findings,
)
