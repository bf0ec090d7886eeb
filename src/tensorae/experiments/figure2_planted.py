"""Figure 2: planted data; what k-means, an autoencoder and TAE make of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tensorae.experiments import clustering, denoising
from tensorae.experiments.drawing import bars, by_class, canvas, legend_above, quiet, scatter
from tensorae.experiments.experiment import Experiment, Finding, Part, Results, Settings, Table
from tensorae.experiments.problems import PLANTED, load
from tensorae.experiments.wording import listed, method_table, verdict

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT"]

SHOWN = ("k-means++", "AE1", "TAE")


def _parts(settings: Settings) -> list[Part]:
    parts = []
    for name in settings.among(PLANTED):
        for seed in range(settings.runs):
            for method in clustering.methods_for(PLANTED[name], settings):
                parts.append(Part(clustering.TASK, name, method, seed, settings.quick))
            for method in denoising.METHODS:
                parts.append(Part(denoising.TASK, name, method, seed, settings.quick))
    return parts


def _draw(results: Results) -> dict[str, Figure]:
    if not results.datasets:
        return {}
    return {
        "figure2_planted_scatter": _scatter_grid(results),
        "figure2_planted_bars": _bar_charts(results),
    }


def _scatter_grid(results: Results) -> Figure:
    names = [name for name in PLANTED if name in results.datasets]
    rows = ("true", *SHOWN)
    figure, axes = canvas(len(names), len(rows), width=3 * len(names), height=2.6 * len(rows))
    for column, name in enumerate(names):
        data, k = load(name), PLANTED[name].n_clusters
        view = data.X[:, [0, 2]] if name == "lines 3D" else data.X[:, :2]
        for row, method in enumerate(rows):
            ax = axes[row, column]
            labels = data.y if method == "true" else _labels(results, name, method)
            scatter(ax, view, by_class(labels, data.y, k), size=12)
            quiet(ax)
            ax.set_box_aspect(0.8)
            if method != "true":
                ari = results.values(name, method, "ARI")[0]
                ax.set_title(f"ARI {ari:.2f}", fontsize=11, loc="right", pad=2)
            if column == 0:
                ax.set_ylabel(method, fontsize=13)
        axes[0, column].set_title(name, fontsize=13)
        axes[-1, column].set_xlabel("x1, x3" if name == "lines 3D" else "x1, x2")
    return figure


def _bar_charts(results: Results) -> Figure:
    names = [name for name in PLANTED if name in results.datasets]
    figure, axes = canvas(1, 2, width=12, height=10)
    top, bottom = axes[:, 0]
    methods = clustering.methods_for(PLANTED[names[0]], results.settings)
    bars(top, names, {m: [results.values(n, m, "ARI") for n in names] for m in methods})
    top.set_ylabel("ARI (higher is better)")
    top.set_title("Clusters against the true ones", loc="left")
    errors = {
        row: [results.values(n, method, metric) for n in names]
        for row, (method, metric) in denoising.ROWS.items()
    }
    bars(bottom, names, errors, floor=1.0)
    bottom.set_yscale("log")
    bottom.set_ylabel("squared error x 1000 (lower is better)")
    bottom.set_title("De-noising of held-out samples, σ = 0.1, log scale", loc="left")
    legend_above(top, methods, columns=5)
    legend_above(bottom, list(errors), columns=5)
    return figure


def _tables(results: Results) -> list[Table]:
    names = [name for name in PLANTED if name in results.datasets]
    if not names:
        return []
    methods = clustering.methods_for(PLANTED[names[0]], results.settings)
    return [
        method_table("Clustering, ARI", results, names, {m: (m, "ARI") for m in methods}),
        method_table(
            "De-noising, mean squared error x 1000 on held-out samples",
            results, names, denoising.ROWS, digits=1, lowest=True,
        ),
    ]  # fmt: skip


def _findings(results: Results) -> list[Finding]:
    names = [name for name in PLANTED if name in results.datasets]
    if not names:
        return []
    best_rival = {
        n: max(results.mean(n, m, "ARI") for m in ("k-means++", "AE1", "AE2")) for n in names
    }
    ours = {n: max(results.mean(n, m, "ARI") for m in ("TAE", "LinearTAE")) for n in names}
    ahead = [n for n in names if ours[n] > best_rival[n]]
    figures = ", ".join(f"{n} {ours[n]:.3f} against {best_rival[n]:.3f}" for n in names)
    cut, ae1, nothing, denoised = (
        {n: results.mean(n, *denoising.ROWS[row]) for n in names}
        for row in ("TAE reconstruct", "AE1", "do nothing", "TAE denoise")
    )
    below_ae = [n for n in names if cut[n] < ae1[n]]
    above_nothing = [n for n in names if cut[n] > nothing[n]]
    helped = [n for n in names if denoised[n] < nothing[n]]
    return [
        Finding(
            "TAE captures the directions of the clusters, where k-means and a single autoencoder "
            "mistake samples that are close to another cluster.",
            f"TAE or LinearTAE against the best of k-means, AE1 and AE2 (ARI): {figures}.",
            verdict([n in ahead for n in names]),
        ),
        Finding(
            "The error of a simple autoencoder is consistently and significantly higher than that "
            "of TAE.",
            f"Against an autoencoder of the same code length (AE1), TAE's reconstruction is closer "
            f"to the clean samples on {listed(below_ae)}. {_price_of_cutting(above_nothing)}"
            f"`denoise`, which shrinks instead of cutting, improves on doing nothing on "
            f"{listed(helped)}.",
            verdict([n in below_ae for n in names]),
        ),
    ]


def _price_of_cutting(names: list[str]) -> str:
    if not names:
        return ""
    return (
        f"It cuts off more than noise, though: on {listed(names)} it is worse than the noisy "
        "samples themselves. "
    )


def _labels(results: Results, name: str, method: str) -> np.ndarray:
    return results.arrays(name, method)["labels"]


EXPERIMENT = Experiment(
    number=2,
    title="Planted data",
    story=(
        "The paper's four planted sets, drawn anew for each seed. AE1 is one autoencoder with code "
        "length h = 1, AE2 one with h·k, each followed by k-means on the codes; networks are "
        "linear, as in the paper. Pictures show the first draw. De-noising: fitted on 80 % of the "
        "clean samples, measured on the other 20 % with noise of 0.1; AE1 and AE2 are the plain "
        "outputs, their “denoise” and TAE's blends output and input as far as it pays; LinearTAE "
        "and the mixture's posterior mean are told the noise. Bars are means over the seeds, "
        "whiskers one standard deviation, dots the seeds."
    ),
    parts=_parts,
    draw=_draw,
    tables=_tables,
    findings=_findings,
)
