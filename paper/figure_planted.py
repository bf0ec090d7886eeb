"""Figure 2: planted data; what k-means, an autoencoder and TAE make of it."""

from __future__ import annotations

from matplotlib.figure import Figure

from paper.drawing import by_class, canvas, quiet, scatter
from paper.experiment import (
    Experiment,
    Finding,
    Measurements,
    ResultTable,
    Settings,
    Trial,
    listed,
    method_table,
)
from paper.figures_real import ari_bars, best_of_ours, best_rival, error_bars
from paper.problems import PLANTED, load
from paper.task_clustering import clustering_trials, methods_for
from paper.task_denoising import COLUMNS, DENOISING, METHODS

__all__ = ["PLANTED_SETS"]

SHOWN = ("k-means++", "AE1", "TAE")


def _trials(settings: Settings) -> list[Trial]:
    clustering = clustering_trials(settings, PLANTED)
    return clustering + settings.trials(DENOISING, PLANTED, METHODS)


def _draw(results: Measurements) -> dict[str, Figure]:
    return {
        "figure2_planted_scatter": _scatter_grid(results),
        "figure2_planted_bars": _bar_charts(results),
    }


def _scatter_grid(results: Measurements) -> Figure:
    names = results.datasets
    rows = ("true", *SHOWN)
    figure, axes = canvas(len(names), len(rows), width=3 * len(names), height=2.6 * len(rows))
    for column, name in enumerate(names):
        data, k = load(name), PLANTED[name].n_clusters
        view = data.X[:, [0, 2]] if name == "lines 3D" else data.X[:, :2]
        for row, method in enumerate(rows):
            ax = axes[row, column]
            labels = data.y if method == "true" else results.arrays(name, method)["labels"]
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


def _bar_charts(results: Measurements) -> Figure:
    figure, axes = canvas(1, 2, width=12, height=10)
    top, bottom = axes[:, 0]
    top.set_title("Clusters against the true ones", loc="left")
    ari_bars(top, results, _clustering_methods(results), columns=5)
    bottom.set_title("De-noising of held-out samples, σ = 0.1, log scale", loc="left")
    error_bars(bottom, results, "squared error x 1000 (lower is better)", columns=5)
    return figure


def _tables(results: Measurements) -> list[ResultTable]:
    scores = {method: (method, "ARI") for method in _clustering_methods(results)}
    errors = "De-noising, mean squared error x 1000 on held-out samples"
    return [
        method_table("Clustering, ARI", results, scores),
        method_table(errors, results, COLUMNS, digits=1, lowest=True),
    ]


def _clustering_methods(results: Measurements) -> list[str]:
    return methods_for(PLANTED[results.datasets[0]], results.settings)


def _findings(results: Measurements) -> list[Finding]:
    return [_directions(results), _errors(results)]


def _directions(results: Measurements) -> Finding:
    pairs = {n: (best_of_ours(results, n), best_rival(results, n)) for n in results.datasets}
    figures = ", ".join(f"{n} {ours:.3f} against {rival:.3f}" for n, (ours, rival) in pairs.items())
    return Finding(
        "TAE captures the directions of the clusters, where k-means and a single autoencoder "
        "mistake samples that are close to another cluster.",
        f"TAE or LinearTAE against the best of k-means, AE1 and AE2 (ARI): {figures}.",
        [ours > rival for ours, rival in pairs.values()],
    )


def _errors(results: Measurements) -> Finding:
    names = results.datasets
    cut, ae1, nothing, denoised = (
        {n: results.mean(n, *COLUMNS[column]) for n in names}
        for column in ("TAE reconstruct", "AE1", "do nothing", "TAE denoise")
    )
    below_ae = [n for n in names if cut[n] < ae1[n]]
    above_nothing = [n for n in names if cut[n] > nothing[n]]
    helped = [n for n in names if denoised[n] < nothing[n]]
    price = (
        f"It cuts off more than noise, though: on {listed(above_nothing)} it is worse than the "
        "noisy samples themselves. "
    )
    return Finding(
        "The error of a simple autoencoder is consistently and significantly higher than that "
        "of TAE.",
        f"Against an autoencoder of the same code length (AE1), TAE's reconstruction is closer "
        f"to the clean samples on {listed(below_ae)}. {price if above_nothing else ''}"
        f"“denoise”, which shrinks instead of cutting, improves on doing nothing on "
        f"{listed(helped)}.",
        [n in below_ae for n in names],
    )


PLANTED_SETS = Experiment(
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
    trials=_trials,
    draw=_draw,
    tables=_tables,
    findings=_findings,
)
