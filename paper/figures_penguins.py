"""Figures 1 and 3: Simpson's paradox on penguins, and how each algorithm clusters them."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from sklearn.tree import DecisionTreeClassifier

from paper import task_linear
from paper.drawing import axis_line, by_class, canvas, scatter
from paper.experiment import (
    Experiment,
    Finding,
    Measurements,
    ResultTable,
    listed,
    mean_and_spread,
)
from paper.problems import SMALL, load
from paper.task_clustering import CLUSTERING
from tensorae.plot import cluster_colors

__all__ = ["PENGUINS", "SIMPSON"]

DATASET = "penguins 2"

# Figure 1 -------------------------------------------------------------------------------------

METHOD = "LinearTAE"
REACH = 2.3  # standard deviations that an axis is drawn to either side


def _draw_axes(results: Measurements) -> dict[str, Figure]:
    data, found = load(DATASET), results.arrays(DATASET, METHOD)
    figure, ((ax,),) = canvas(width=11, height=4.1)
    classes = found["classes"]
    colors = cluster_colors(len(classes))
    scatter(ax, data.X, classes[found["labels"]], size=26)
    for j, matched in enumerate(classes):
        reach = REACH * float(found["spreads"][j])
        axis_line(ax, found["centers"][j], _rising(found["axes"][j]), reach, colors[matched])
        label = f"cluster of {data.class_names[matched]}"
        ax.plot([], [], color=colors[matched], lw=4, label=label)
    overall = REACH * float(found["overall spread"])
    axis_line(ax, found["overall center"], _rising(found["overall axis"]), overall, "black")
    ax.plot([], [], color="black", lw=4, label="all penguins")
    ax.legend(title="main axis of", loc="center left", bbox_to_anchor=(1.0, 0.5))
    ax.set_aspect("equal")
    ax.set_xlabel("bill (culmen) length, mm")
    ax.set_ylabel("bill (culmen) depth, mm")
    if all(_contradicts(results)):
        ax.set_title("Longer bills are deeper in every cluster, and shallower overall")
    return {"figure1_simpson": figure}


def _slope_table(results: Measurements) -> list[ResultTable]:
    def cell(metric: str) -> str:
        return mean_and_spread(results.values(DATASET, METHOD, metric), 2)

    metrics = ("slope in the cluster of {}", "slope in the class {}", "degrees between them, {}")
    rows = [
        [name, *(cell(metric.format(name)) for metric in metrics)]
        for name in load(DATASET).class_names
    ]
    rows.append(["all penguins", cell("slope overall"), "–", "–"])
    columns = ["", "slope of the cluster's axis", "slope of the species' axis", "angle, degrees"]
    title = "Bill depth gained for one millimetre of length along the main axis"
    return [ResultTable(title, columns, rows)]


def _trend_finding(results: Measurements) -> list[Finding]:
    overall, inside = _slopes(results)
    ari = results.values(DATASET, METHOD, "ARI")
    slopes = ", ".join(f"{name} {slope:+.2f}" for name, slope in inside.items())
    return [
        Finding(
            "One representation of all penguins does not capture the structure of the species: "
            "the trend inside each cluster contradicts the overall one.",
            f"Bill depth for one millimetre of length, along the main axis: {overall:+.2f} mm for "
            f"all penguins; for the three clusters that LinearTAE finds: {slopes}. The clusters "
            f"agree with the species at ARI {mean_and_spread(ari)}; the species were not used.",
            _contradicts(results),
        )
    ]


def _slopes(results: Measurements) -> tuple[float, dict[str, float]]:
    """Mean slope of all penguins, and of the cluster that stands for each species."""
    names = load(DATASET).class_names
    slopes = {n: results.mean(DATASET, METHOD, f"slope in the cluster of {n}") for n in names}
    return results.mean(DATASET, METHOD, "slope overall"), slopes


def _contradicts(results: Measurements) -> list[bool]:
    """Whether bills grow deeper with length in each cluster, and shallower overall."""
    overall, inside = _slopes(results)
    return [overall < 0 < slope for slope in inside.values()]


def _rising(direction: np.ndarray) -> np.ndarray:
    """Point along rising length."""
    pointed: np.ndarray = direction * np.sign(direction[0])
    return pointed


SIMPSON = Experiment(
    number=1,
    title="Simpson's paradox in the penguin data",
    story=(
        "Three linear autoencoders with one latent number each (LinearTAE, λ = 0.1) on bill length "
        "and depth of 333 penguins, in millimetres. Colours are the clusters found, arrows their "
        "first components; the black arrow is the first principal component of all penguins."
    ),
    trials=lambda settings: settings.trials(task_linear.SIMPSON, [DATASET], [METHOD]),
    draw=_draw_axes,
    tables=_slope_table,
    findings=_trend_finding,
)

# Figure 3 -------------------------------------------------------------------------------------

PANELS = ("k-means++", "AE1", "AE2", "TAE", "LinearTAE", "GaussianMixture")
RIVALS = ("k-means++", "AE1", "AE2")
# Share of the penguins whose cluster bill length alone must tell for upright boundaries.
UPRIGHT = 0.95


def _draw_clusters(results: Measurements) -> dict[str, Figure]:
    data, k = load(DATASET), SMALL[DATASET].n_clusters
    figure, axes = canvas(4, 2, width=13, height=6.4, sharex=True, sharey=True)
    panels = {m: results.arrays(DATASET, m)["labels"] for m in PANELS}
    for ax, (name, labels) in zip(axes.flat, {"species": data.y, **panels}.items(), strict=False):
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


def _agreement_table(results: Measurements) -> list[ResultTable]:
    rows = []
    for method in PANELS:
        ari = mean_and_spread(results.values(DATASET, method, "ARI"))
        rows.append([method, ari, f"{100 * _upright(results, method):.0f} %"])
    columns = ["method", "ARI", "told by bill length alone"]
    return [ResultTable("Agreement with the species, and with upright boundaries", columns, rows)]


def _boundary_finding(results: Measurements) -> list[Finding]:
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
            [m in beaten for m in RIVALS] + [upright[m] >= UPRIGHT for m in RIVALS],
        )
    ]


def _upright(results: Measurements, method: str) -> float:
    """Share of the penguins whose cluster two thresholds on bill length tell, over the seeds."""
    length = load(DATASET).X[:, :1]
    cuts = DecisionTreeClassifier(max_leaf_nodes=SMALL[DATASET].n_clusters, random_state=0)
    labels = [one.arrays["labels"] for one in results.of(DATASET, method)]
    return float(np.mean([cuts.fit(length, one).score(length, one) for one in labels]))


PENGUINS = Experiment(
    number=3,
    title="Penguins, clustered by each algorithm",
    story=(
        "Bill length and depth in millimetres, three clusters, one latent number (AE2: two, as "
        "many as there are features). Each panel is the first seed; colours follow the species "
        "that a cluster shares most penguins with."
    ),
    trials=lambda settings: settings.trials(CLUSTERING, [DATASET], PANELS),
    draw=_draw_clusters,
    tables=_agreement_table,
    findings=_boundary_finding,
)
