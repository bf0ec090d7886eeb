"""Draw the pictures of the guide and of the README into docs/_static, each from a real fit.

``python docs/pictures.py`` draws all (half a minute), ``python docs/pictures.py odd why`` some.
The gallery has the long stories; these are small enough to be read with the page on one screen.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
import numpy as np
from PIL import Image
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits, load_sample_image, make_moons
from sklearn.decomposition import PCA

from tensorae import TAE, ImputerTAE, LinearTAE, OutlierTAE, choose, explore
from tensorae.datasets import add_noise, load_penguins, parallel_lines
from tensorae.inspect import outliers
from tensorae.photos import denoise
from tensorae.plot import cluster_colors, plot_clusters, plot_loadings

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

FOLDER = Path(__file__).parent / "_static"
BILL = ["bill length, mm", "bill depth, mm"]
RED = "#d55e00"
GREY = "0.75"
Array = np.ndarray


def panels(number: int, width: float = 9.0, height: float = 3.1) -> tuple[Figure, list[Axes]]:
    """Return a figure with plain panels side by side."""
    figure, axes = plt.subplots(1, number, figsize=(width, height), layout="constrained")
    for ax in np.atleast_1d(axes):
        ax.spines[["top", "right"]].set_visible(False)
    return figure, list(np.atleast_1d(axes))


def save(figure: Figure, name: str) -> None:
    """Write a PNG with a palette: flat colours need no more, and it is a third of the size."""
    file = FOLDER / f"{name}.png"
    figure.savefig(file, dpi=110, facecolor="white")
    plt.close(figure)
    Image.open(file).convert("RGB").quantize(128).save(file, optimize=True)


def coloured(labels: Array, k: int) -> list[str]:
    """Return the colour of each row's cluster."""
    colours = cluster_colors(k)
    return [colours[label] for label in labels]


def overall_line(ax: Axes, X: Array) -> None:
    """Draw the line that one representation of all rows has: their first principal direction."""
    direction = PCA(1).fit(X).components_[0]
    reach = 1.8 * (X @ direction).std() * np.array([-1, 1])
    ax.plot(*(X.mean(axis=0)[:, None] + direction[:, None] * reach), color="black", lw=2.5)


def cluster_lines(ax: Axes, model: LinearTAE, X: Array) -> None:
    """Draw each cluster's main direction, as long as its members reach."""
    colours = cluster_colors(len(model.cluster_centers_))
    for label, (center, axis) in enumerate(
        zip(model.cluster_centers_, model.components_[:, 0], strict=True)
    ):
        length = 1.8 * ((X[model.labels_ == label] - center) @ axis).std()
        ends = center[:, None] + axis[:, None] * length * np.array([-1, 1])
        ax.plot(*ends, color="white", lw=5)
        ax.plot(*ends, color=colours[label], lw=2.5)


def simpson() -> None:
    """One falling line for all birds, three rising ones inside the clusters."""
    X = load_penguins(2).data
    model = LinearTAE(3, latent_dim=1, latent_penalty=0.1, random_state=0).fit(X)
    figure, (left, right) = panels(2)
    left.scatter(*X.T, s=12, color=GREY)
    overall_line(left, X)
    left.set(title="one representation for all: it falls", xlabel=BILL[0], ylabel=BILL[1])
    right.scatter(*X.T, s=12, color=coloured(model.labels_, 3), alpha=0.45, linewidths=0)
    cluster_lines(right, model, X)
    right.set(title="one for each cluster, found without labels: all rise", xlabel=BILL[0])
    save(figure, "simpson")


def groups() -> None:
    """k-means cuts long groups across; LinearTAE follows them."""
    X, _ = parallel_lines(random_state=0)
    fits = {
        "KMeans(2)": KMeans(2, n_init=10, random_state=0).fit(X).labels_,
        "LinearTAE(2)": LinearTAE(2, random_state=0).fit(X).labels_,
    }
    figure, axes = panels(2, 8)
    for ax, (title, labels) in zip(axes, fits.items(), strict=True):
        ax.scatter(*X[:, :2].T, s=14, color=coloured(labels, 2))
        ax.set(title=title, xlabel="first feature")
    axes[0].set_ylabel("second feature")
    save(figure, "groups")


def how_many() -> None:
    """The evidence for each number of clusters, as ``choose`` compared it."""
    X = load_penguins(scale="standard").data
    choice = choose(X, range(1, 7), random_state=0)
    figure, (ax,) = panels(1, 7, 3.4)
    choice.plot(ax=ax)
    save(figure, "how_many")


def why() -> None:
    """Which features make up the main direction of each cluster."""
    penguins = load_penguins(scale="max")
    model = LinearTAE(3, latent_dim=1, latent_penalty=0.1, random_state=0).fit(penguins.data)
    figure, (left, right) = panels(2, 9.5, 3.4)
    names = [name.rsplit("_", 1)[0].replace("_", " ") for name in penguins.feature_names]
    plot_loadings(model, feature_names=names, ax=left)
    plot_clusters(model, penguins.data, names[:2], feature_names=names, ax=right)
    save(figure, "why")


def odd() -> None:
    """A slip of the pen, and two birds that are odd by the company of their numbers."""
    X = load_penguins().data.copy()
    X[5, 3] /= 10
    detector = OutlierTAE(random_state=0).fit(X)
    found = outliers(detector, X, n_rows=3)
    figure, (left, right) = panels(2)
    for ax, (across, up), names in (
        (left, (2, 3), ["flipper length, mm", "body mass, g"]),
        (right, (0, 2), ["bill length, mm", "flipper length, mm"]),
    ):
        ax.scatter(X[:, across], X[:, up], s=12, color=GREY)
        for bird in found:
            place = X[bird.row, [across, up]]
            ax.plot(*place, "o", ms=7, color=RED)
            ax.annotate(
                f"row {bird.row}", place, xytext=(-7, 5), textcoords="offset points", ha="right"
            )
        ax.set(xlabel=names[0], ylabel=names[1])
    save(figure, "odd")


def missing() -> None:
    """Filled values beside the true ones: by the column's mean, and by the rest of the row."""
    X = load_penguins(scale="standard").data
    rng = np.random.RandomState(0)
    gone = rng.random_sample(X.shape) < 0.3
    gone[gone.all(axis=1)] = False
    X_gaps = np.where(gone, np.nan, X)
    filled = {
        "means of the columns": np.where(gone, np.nanmean(X_gaps, axis=0), X),
        "ImputerTAE": ImputerTAE(random_state=0).fit_transform(X_gaps),
    }
    figure, axes = panels(2, 7.5, 3.3)
    for ax, (title, table) in zip(axes, filled.items(), strict=True):
        error = np.sqrt(np.square(table - X)[gone].mean())
        ax.plot([-2.5, 3], [-2.5, 3], color="black", lw=1)
        ax.scatter(X[gone], table[gone], s=9, color=cluster_colors(1)[0], alpha=0.6, linewidths=0)
        ax.set(title=f"{title}: error {error:.2f}", xlabel="true value, standardised")
        ax.set(xlim=(-2.5, 3), ylim=(-2.5, 3))
    axes[0].set_ylabel("filled in")
    save(figure, "missing")


def trust() -> None:
    """Whether halves of the data agree, and which rows lie between clusters."""
    X = load_penguins(scale="standard").data
    cloud = np.random.RandomState(0).multivariate_normal(np.zeros(4), np.cov(X.T), len(X))
    figure, (left, right) = panels(2, 9.5)
    for name, table, colour in (
        ("penguins", X, "black"),
        ("one cloud of the same shape", cloud, RED),
    ):
        choice = choose(table, range(1, 7), random_state=0)
        counts, agreement = best_of_each(choice.table)
        left.plot(counts, agreement, marker="o", color=colour, label=name)
        left.plot(choice.n_clusters, dict(zip(counts, agreement, strict=True))[choice.n_clusters],
                  "o", ms=13, mfc="none", mec=colour)  # fmt: skip
    left.set(xlabel="clusters (ring: chosen)", ylabel="agreement of halves", ylim=(0, 1.08))
    left.legend(frameon=False, loc="lower left")
    model = LinearTAE(3, random_state=0).fit(X)
    sure = model.predict_proba(X).max(axis=1)
    raw = load_penguins().data[:, :2]
    right.scatter(*raw.T, s=12, color=coloured(model.labels_, 3), alpha=0.5, linewidths=0)
    right.scatter(
        *raw[sure < 0.9].T, s=60, facecolors="none", edgecolors="black", label="less sure than 90 %"
    )
    right.set(xlabel=BILL[0], ylabel=BILL[1], ylim=(12, None))
    right.legend(frameon=False, loc="lower left")
    save(figure, "trust")


def best_of_each(table: dict[str, list[float]]) -> tuple[list[int], list[float]]:
    """Return numbers of clusters and the agreement of halves of the best fit of each."""
    found: dict[int, float] = {}
    for k, agreement in zip(table["n_clusters"], table["agreement_of_halves"], strict=True):
        if np.isfinite(agreement):
            found[int(k)] = agreement
    counts = sorted(found)
    return counts, [found[k] for k in counts]


def noise() -> None:
    """Digits with noise, cut down to short codes, and shrunk."""
    clean = load_digits().data / 16
    noisy = add_noise(clean, scale=0.2, random_state=0)
    model = LinearTAE(10, latent_dim=5, n_init=5, random_state=0).fit(noisy)
    rows = {
        "noisy": noisy,
        "reconstruct": model.reconstruct(noisy),
        "denoise": model.denoise(noisy, noise=0.2),
        "the truth": clean,
    }
    figure, axes = plt.subplots(4, 10, figsize=(8, 3.4), layout="constrained")
    for line, (name, table) in zip(axes, rows.items(), strict=True):
        error = np.square(table - clean).mean()
        text = f"{name}\nerror {error:.3f}" if error else name
        line[0].text(-0.2, 0.5, text, transform=line[0].transAxes, ha="right", va="center")
        for ax, row in zip(line, table[30:40], strict=True):
            ax.imshow(row.reshape(8, 8), cmap="gray_r", vmin=0, vmax=1)
            ax.set_axis_off()
    save(figure, "noise")


def few_labels() -> None:
    """Three birds of each species are known; all others follow."""
    penguins = load_penguins(scale="max")
    X, species = penguins.data, penguins.target
    labels = np.full(len(X), -1)
    for name in range(3):
        labels[np.flatnonzero(species == name)[:3]] = name
    model = LinearTAE(3, latent_dim=1, random_state=0).fit(X, labels=labels)
    raw, known = load_penguins().data[:, :2], labels >= 0
    figure, (left, right) = panels(2)
    left.scatter(*raw[~known].T, s=12, color=GREY)
    left.scatter(*raw[known].T, s=70, color=coloured(labels[known], 3), edgecolors="black")
    left.set(title="nine labels", xlabel=BILL[0], ylabel=BILL[1])
    right.scatter(*raw.T, s=12, color=coloured(model.predict(X), 3))
    wrong = model.predict(X) != species
    right.scatter(*raw[wrong].T, s=60, facecolors="none", edgecolors="black")
    share = (~wrong)[~known].mean()
    right.set(title=f"predict: {share:.1%} of the others right", xlabel=BILL[0])
    save(figure, "few_labels")


def curved() -> None:
    """Curved groups: cut by a linear model, followed by networks."""
    X, _ = make_moons(400, noise=0.07, random_state=0)
    linear = LinearTAE(2, latent_dim=1, latent_penalty=0.02, random_state=0).fit(X)
    deep = TAE(2, latent_dim=1, latent_penalty=0.02, random_state=0).fit(X)
    figure, (left, right) = panels(2, 8.5, 2.8)
    left.scatter(*X.T, s=12, color=coloured(linear.labels_, 2))
    left.set(title="LinearTAE: straight pieces", aspect="equal")
    right.scatter(*X.T, s=12, color=coloured(deep.labels_, 2), alpha=0.4, linewidths=0)
    right.scatter(*deep.reconstruct(X).T, s=3, color="black")
    right.set(title="TAE, its curves in black", aspect="equal")
    save(figure, "curved")


def family() -> None:
    """KMeans at one end, a mixture at the other, on the same birds."""
    X = load_penguins(2).data
    fits = {
        "λ = 1: KMeans": LinearTAE(3, latent_dim=1, latent_penalty=1.0, random_state=0),
        "λ = 0.1: the paper": LinearTAE(3, latent_dim=1, latent_penalty=0.1, random_state=0),
        'spread="own": a mixture': LinearTAE(3, latent_dim=1, spread="own", random_state=0),
    }
    figure, axes = panels(3, 10, 3)
    for ax, (title, model) in zip(axes, fits.items(), strict=True):
        ax.scatter(*X.T, s=10, color=coloured(model.fit(X).labels_, 3))
        ax.set(title=title, xlabel=BILL[0])
    axes[0].set_ylabel(BILL[1])
    save(figure, "family")


def photograph() -> None:
    """A noisy photograph and what ``denoise`` makes of it, pixel by pixel."""
    photo = load_sample_image("china.jpg")[60:260, 200:480]
    grains = 30 * np.random.RandomState(0).standard_normal(photo.shape)
    noisy = np.clip(np.round(photo + grains), 0, 255).astype(np.uint8)
    gap = np.full((len(photo), 8, 3), 255, np.uint8)
    both = np.hstack([noisy, gap, denoise(noisy)])
    Image.fromarray(both).save(FOLDER / "photograph.jpg", quality=88)


def first_look() -> None:
    """The top of the page of ``tensorae explore``, as a browser shows it (needs chromium)."""
    from palmerpenguins import load_penguins as as_they_come

    with tempfile.TemporaryDirectory() as folder:
        page = explore(as_they_come()).report(Path(folder, "page.html"), title="penguins.csv")
        file = Path(folder, "page.png")
        command = ["chromium", "--headless", "--no-sandbox", "--window-size=1000,1150"]
        subprocess.run([*command, f"--screenshot={file}", str(page)], check=True)
        picture = Image.open(file).convert("RGB").crop((0, 0, 985, 1150))
        picture.quantize(128).save(FOLDER / "first_look.png", optimize=True)


PICTURES: tuple[Callable[[], None], ...] = (
    simpson, groups, how_many, why, odd, missing, trust, noise, few_labels, curved, family,
    photograph, first_look,
)  # fmt: skip


def main(names: list[str]) -> None:
    """Draw the pictures of these names, or all."""
    FOLDER.mkdir(exist_ok=True)
    for draw in PICTURES:
        if not names or draw.__name__ in names:
            draw()


if __name__ == "__main__":
    main(sys.argv[1:])
