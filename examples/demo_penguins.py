"""Penguins: find the species without being told, and see Simpson's paradox.

Fits LinearTAE and TAE beside k-means, a Gaussian mixture and a plain autoencoder, prints a table,
and leaves a picture and a report in ``demo/``. Run it with ``make demo``.
"""

from __future__ import annotations

import argparse
import base64
import time
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from pathlib import Path
from string import Template

import matplotlib
import numpy as np
import torch
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture
from threadpoolctl import threadpool_limits

from tensorae import TAE, LinearTAE
from tensorae.datasets import load_penguins

matplotlib.use("Agg")
from matplotlib import pyplot as plt

N_SPECIES = 3
COLOURS = ["#0072B2", "#D55E00", "#009E73"]  # told apart by colour-blind readers too
MARKERS = ["o", "s", "^"]
HEADER = ("method", "ARI", "error, % of variance", "seconds")

Array = np.ndarray
Method = Callable[[Array, int], tuple[Array, Array]]  # X, seed -> labels, reconstruction


def linear_tae(X: Array, seed: int) -> tuple[Array, Array]:
    model = LinearTAE(n_clusters=N_SPECIES, latent_dim=1, random_state=seed).fit(X)
    return model.labels_, model.reconstruct(X)


def deep_tae(X: Array, seed: int) -> tuple[Array, Array]:
    model = TAE(n_clusters=N_SPECIES, latent_dim=1, random_state=seed).fit(X)
    return model.labels_, model.reconstruct(X)


def k_means(X: Array, seed: int) -> tuple[Array, Array]:
    model = KMeans(n_clusters=N_SPECIES, n_init=10, random_state=seed).fit(X)
    return model.labels_, model.cluster_centers_[model.labels_]


def gaussian_mixture(X: Array, seed: int) -> tuple[Array, Array]:
    model = GaussianMixture(n_components=N_SPECIES, n_init=10, random_state=seed).fit(X)
    labels = model.predict(X)
    return labels, model.means_[labels]


def autoencoder(
    X: Array, seed: int, *, hidden: int = 32, epochs: int = 1000
) -> tuple[Array, Array]:
    """Train one autoencoder for all samples and cluster its one-dimensional embedding."""
    # One common scale keeps the geometry of X; it only makes the step size fit.
    centre, spread = X.mean(axis=0), X.std()
    inputs = torch.tensor((X - centre) / spread, dtype=torch.float32)
    d = X.shape[1]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        encoder = torch.nn.Sequential(
            torch.nn.Linear(d, hidden), torch.nn.Tanh(), torch.nn.Linear(hidden, 1)
        )
        decoder = torch.nn.Sequential(
            torch.nn.Linear(1, hidden), torch.nn.Tanh(), torch.nn.Linear(hidden, d)
        )
    optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=1e-2)
    for _ in range(epochs):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(decoder(encoder(inputs)), inputs).backward()
        optimizer.step()
    with torch.no_grad():
        embedding = encoder(inputs)
        reconstruction = decoder(embedding).double().numpy() * spread + centre
    labels, _ = k_means(embedding.double().numpy(), seed)
    return labels, reconstruction


METHODS: dict[str, Method] = {
    "LinearTAE": linear_tae,
    "TAE (networks)": deep_tae,
    "Gaussian mixture": gaussian_mixture,
    "k-means": k_means,
    "autoencoder, then k-means": autoencoder,
}


@dataclass(frozen=True)
class Row:
    """One method's figures over all runs."""

    method: str
    ari: Array
    error: Array  # squared reconstruction error in per cent of the total variance
    seconds: Array

    def cells(self) -> tuple[str, str, str, str]:
        """Return the row as text: mean ± standard deviation, median time."""
        return (
            self.method,
            f"{self.ari.mean():.3f} ± {self.ari.std():.3f}",
            f"{self.error.mean():.1f} ± {self.error.std():.1f}",
            f"{np.median(self.seconds):.3f}",
        )


def compare(X: Array, species: Array, runs: int) -> list[Row]:
    """Run every method with ``runs`` seeds; the species serve the score alone."""
    variation = ((X - X.mean(axis=0)) ** 2).sum()
    rows = []
    for name, method in METHODS.items():
        figures = []
        for seed in range(runs):
            start = time.perf_counter()
            labels, reconstruction = method(X, seed)
            seconds = time.perf_counter() - start
            error = 100 * ((X - reconstruction) ** 2).sum() / variation
            figures.append((adjusted_rand_score(species, labels), error, seconds))
        rows.append(Row(name, *np.array(figures).T))
    return rows


def as_text(rows: list[Row]) -> str:
    table = [HEADER, *(row.cells() for row in rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        for line in table
    ]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def as_html(rows: list[Row]) -> str:
    def line(tag: str, cells: tuple[str, ...]) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    body = "\n".join(line("td", row.cells()) for row in rows)
    return f"<table>\n{line('th', HEADER)}\n{body}\n</table>"


def draw(X: Array, species: Array, names: Array, model: LinearTAE, file: Path) -> None:
    """Draw the clusters, each with its main axis, and the one axis of all samples in black."""
    figure, ax = plt.subplots(figsize=(11, 7), layout="constrained")
    for j, colour in enumerate(COLOURS):
        for marker, index in zip(MARKERS, range(len(names)), strict=True):
            shown = (model.labels_ == j) & (species == index)
            ax.scatter(*X[shown].T, s=26, c=colour, marker=marker, alpha=0.45, linewidths=0)
    for j, colour in enumerate(COLOURS):
        spread = np.sqrt(model.explained_variance_[j, 0])
        _axis(ax, model.cluster_centers_[j], model.components_[j, 0], 2.2 * spread, colour)
    whole = PCA(n_components=1).fit(X)
    _axis(ax, whole.mean_, whole.components_[0], 2.2 * whole.explained_variance_[0] ** 0.5, "black")

    key = [
        *(ax.plot([], [], c=colour, lw=4)[0] for colour in COLOURS),
        ax.plot([], [], c="black", lw=4)[0],
        *(ax.plot([], [], c="0.45", ls="", marker=marker, ms=6)[0] for marker in MARKERS),
    ]
    texts = [
        *(f"cluster {j + 1} and its main axis" for j in range(N_SPECIES)),
        "main axis of all penguins",
        *(f"{name} (the model does not see it)" for name in names),
    ]
    ax.legend(key, texts, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2, frameon=False)
    ax.set_aspect("equal")
    ax.set_xlabel("bill length, mm", fontsize=12)
    ax.set_ylabel("bill depth, mm", fontsize=12)
    ax.set_title("Longer bills are deeper in every cluster, and shallower overall", fontsize=14)
    ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(file, dpi=150, bbox_inches="tight")
    plt.close(figure)


def _axis(ax: plt.Axes, centre: Array, direction: Array, reach: float, colour: str) -> None:
    ends = np.stack([centre - reach * direction, centre + reach * direction])
    ax.plot(*ends.T, color="white", lw=6, solid_capstyle="round")
    ax.plot(*ends.T, color=colour, lw=3.5, solid_capstyle="round")


def slope(direction: Array) -> float:
    """Return the change of depth for one millimetre of length along a direction."""
    return float(direction[1] / direction[0])


def trend_sentence(X: Array, model: LinearTAE) -> str:
    overall = slope(PCA(n_components=1).fit(X).components_[0])
    inside = ", ".join(f"{slope(model.components_[j, 0]):+.2f}" for j in range(N_SPECIES))
    return (
        "Bill depth for each millimetre of bill length, along the main axis: "
        f"{overall:+.2f} mm over all penguins, {inside} mm inside the three clusters."
    )


PAGE = Template("""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>tensorae: penguins</title>
<style>
 body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
 img { width: 100% } table { border-collapse: collapse; margin: 1rem 0 }
 th, td { text-align: left; padding: .3rem 1.2rem .3rem 0; border-bottom: 1px solid #ccc }
</style></head><body>
<h1>Penguins, one representation per cluster</h1>
<p>LinearTAE fits three linear autoencoders with one latent number each, and decides at the same
time which of them describes each penguin. It never sees the species; they are used for the adjusted
Rand index (ARI) alone, which is 1 for a perfect match and about 0 for chance. The error is the
squared reconstruction error in per cent of the variance: LinearTAE keeps the cluster and one number
for each penguin, the autoencoder one number, the other two only the cluster. Mean ± standard
deviation over $runs seeds; median time on one thread.</p>
<h2>Four measurements, each divided by its maximum</h2>
$four
<h2>Bill length and depth in millimetres</h2>
$two
<h2>Simpson's paradox</h2>
<p>$trend One axis for all samples misses what holds inside each group.</p>
<img alt="Bill length against bill depth, coloured by cluster, with the main axis of each cluster
and the axis of all penguins in black" src="data:image/png;base64,$picture">
</body></html>
""")


def main(output: Path, runs: int) -> tuple[list[Row], list[Row]]:
    """Write picture and report into ``output``; return the rows of the two tables."""
    output.mkdir(parents=True, exist_ok=True)
    four, two = load_penguins(4, scale="max"), load_penguins(2)

    rows_four = compare(four.data, four.target, runs)
    print(f"Four measurements, each divided by its maximum ({runs} seeds):\n{as_text(rows_four)}\n")
    rows_two = compare(two.data, two.target, runs)
    print(f"Bill length and depth in millimetres ({runs} seeds):\n{as_text(rows_two)}\n")

    model = LinearTAE(n_clusters=N_SPECIES, latent_dim=1, random_state=0).fit(two.data)
    trend = trend_sentence(two.data, model)
    print(trend)

    picture = output / "penguins.png"
    draw(two.data, two.target, two.target_names, model, picture)
    report = output / "report.html"
    page = PAGE.substitute(
        runs=runs,
        four=as_html(rows_four),
        two=as_html(rows_two),
        trend=escape(trend),
        picture=base64.b64encode(picture.read_bytes()).decode("ascii"),
    )
    report.write_text(page, encoding="utf-8")
    print(f"\nWrote {picture} and {report}")
    return rows_four, rows_two


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, default=Path("demo"), help="folder to write into")
    parser.add_argument("--runs", type=int, default=5, help="seeds for each method")
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # the data is small: a second thread would only wait for the first
    threadpool_limits(1)
    main(arguments.output, arguments.runs)
