"""Figure 1: Simpson's paradox on penguins."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tensorae.experiments import simpson
from tensorae.experiments.drawing import axis_line, canvas, scatter
from tensorae.experiments.experiment import Experiment, Finding, Part, Results, Settings, Table
from tensorae.experiments.problems import load
from tensorae.experiments.wording import mean_and_spread, verdict
from tensorae.plotting.style import cluster_colors

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT"]

DATASET, METHOD = "penguins 2", "LinearTAE"
REACH = 2.3  # standard deviations that an axis is drawn to either side


def _parts(settings: Settings) -> list[Part]:
    seeds = range(settings.runs)
    return [
        Part(simpson.TASK, name, METHOD, seed, settings.quick)
        for name in settings.among([DATASET])
        for seed in seeds
    ]


def _draw(results: Results) -> dict[str, Figure]:
    if DATASET not in results.datasets:
        return {}
    data, found = load(DATASET), results.arrays(DATASET, METHOD)
    figure, ((ax,),) = canvas(width=11, height=4.1)
    classes = found["classes"]
    colors = cluster_colors(len(classes))
    scatter(ax, data.X, classes[found["labels"]], size=26)
    for j, matched in enumerate(classes):
        reach = REACH * float(found["spreads"][j])
        axis_line(ax, found["centers"][j], _upward(found["axes"][j]), reach, colors[matched])
        ax.plot(
            [], [], color=colors[matched], lw=4, label=f"cluster of {data.class_names[matched]}"
        )
    overall = REACH * float(found["overall spread"])
    axis_line(ax, found["overall center"], _upward(found["overall axis"]), overall, "black")
    ax.plot([], [], color="black", lw=4, label="all penguins")
    ax.legend(title="main axis of", loc="center left", bbox_to_anchor=(1.0, 0.5))
    ax.set_aspect("equal")
    ax.set_xlabel("bill (culmen) length, mm")
    ax.set_ylabel("bill (culmen) depth, mm")
    if _contradicts(results) == [True] * len(classes):
        ax.set_title("Longer bills are deeper in every cluster, and shallower overall")
    return {"figure1_simpson": figure}


def _tables(results: Results) -> list[Table]:
    if DATASET not in results.datasets:
        return []
    rows = []
    for name in load(DATASET).class_names:
        metrics = (
            f"slope in the cluster of {name}",
            f"slope in the class {name}",
            f"degrees between them, {name}",
        )
        rows.append([name, *(_cell(results, metric) for metric in metrics)])
    rows.append(["all penguins", _cell(results, "slope overall"), "–", "–"])
    columns = ["", "slope of the cluster's axis", "slope of the species' axis", "angle, degrees"]
    return [
        Table("Bill depth gained for one millimetre of length along the main axis", columns, rows)
    ]


def _findings(results: Results) -> list[Finding]:
    if DATASET not in results.datasets:
        return []
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
            verdict(_contradicts(results)),
        )
    ]


def _slopes(results: Results) -> tuple[float, dict[str, float]]:
    """Mean slope of all penguins, and of the cluster that stands for each species."""
    names = load(DATASET).class_names
    slopes = {n: results.mean(DATASET, METHOD, f"slope in the cluster of {n}") for n in names}
    return results.mean(DATASET, METHOD, "slope overall"), slopes


def _contradicts(results: Results) -> list[bool]:
    """Whether bills grow deeper with length in each cluster, and shallower overall."""
    overall, inside = _slopes(results)
    return [overall < 0 < slope for slope in inside.values()]


def _cell(results: Results, metric: str) -> str:
    return mean_and_spread(results.values(DATASET, METHOD, metric), 2)


def _upward(direction: np.ndarray) -> np.ndarray:
    """Point along rising length."""
    pointed: np.ndarray = direction * np.sign(direction[0])
    return pointed


EXPERIMENT = Experiment(
    number=1,
    title="Simpson's paradox in the penguin data",
    story=(
        "Three linear autoencoders with one latent number each (LinearTAE, λ = 0.1) on bill length "
        "and depth of 333 penguins, in millimetres. Colours are the clusters found, arrows their "
        "first components; the black arrow is the first principal component of all penguins."
    ),
    parts=_parts,
    draw=_draw,
    tables=_tables,
    findings=_findings,
)
