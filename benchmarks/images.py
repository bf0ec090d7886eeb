"""Sets of images, clustered without labels: Scattering and LinearTAE beside usual methods.

MNIST and Fashion-MNIST are looked for where ``tensorae.datasets`` finds them; other sets are
``NAME.npz`` with X (n, h, w) or (n, h, w, c) and y in the folder given by --images.
"""

# n images, k classes

from __future__ import annotations

import argparse
import functools
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from _common import duration, limited_threads, parser, progress, publish, table
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture

from tensorae import LinearTAE, Scattering
from tensorae.datasets import load_fashion_mnist, load_mnist
from tensorae.exceptions import TensoraeError

Array = np.ndarray

# Settings of the trial that the explicit row repeats; chosen on MNIST and digits.
H, PENALTY = 10, 0.05
PIXEL_COMPONENTS = 30
LARGE = 5000  # images from which on one seed is measured
QUICK_IMAGES = 200

DEFAULT, EXPLICIT = "Scattering + LinearTAE", f"the same, h = {H}, λ = {PENALTY}"
ON_FEATURES, ON_PIXELS = "KMeans, scattering", "KMeans, pixels"
MIXTURE = f"GaussianMixture, PCA {PIXEL_COMPONENTS}"
METHODS = (DEFAULT, EXPLICIT, ON_FEATURES, ON_PIXELS, MIXTURE)


@dataclass(frozen=True)
class ImageSet:
    """Images (n, h, w) or (n, h, w, c) with their classes (n,)."""

    name: str
    images: Array
    classes: Array

    @property
    def k(self) -> int:
        """Number of classes."""
        return len(np.unique(self.classes))

    @property
    def pixels(self) -> Array:
        """Flat rows (n, d)."""
        return self.images.reshape(len(self.images), -1).astype(np.float32)


def sets(folder: Path | None) -> Iterator[ImageSet]:
    """Yield the sets that are at hand."""
    digits = load_digits()
    yield ImageSet("digits", digits.images.astype(np.float32), digits.target)
    for file in sorted(folder.glob("*.npz")) if folder else ():
        with np.load(file, allow_pickle=False) as stored:
            yield ImageSet(file.stem, stored["X"], stored["y"])
    for name, read in (
        ("MNIST test split", load_mnist),
        ("Fashion-MNIST test", load_fashion_mnist),
    ):
        try:
            bunch = read(split="test", source="idx")
        except TensoraeError:
            progress(f"{name} is not on this machine")
            continue
        images = bunch.data.reshape(-1, 28, 28).astype(np.float32)
        yield ImageSet(name, images, bunch.target)


def measured(found: ImageSet, seeds: list[int]) -> dict[str, Any]:
    """ARI and seconds of processor time of every method, by seed."""
    progress(f"{found.name}: {len(found.images)} images, {found.k} classes")
    scattering = Scattering()
    features, seconds = timed(lambda: scattering.fit_transform(found.images))
    reduced, pca_seconds = timed(
        lambda: PCA(min(PIXEL_COMPONENTS, *found.pixels.shape), random_state=0).fit_transform(
            found.pixels.astype(np.float64)  # mixtures of few images fail in single precision
        )
    )
    records: list[dict[str, Any]] = []
    chosen: list[dict[str, Any]] = []
    for seed in seeds:
        default = LinearTAE(found.k, random_state=seed)
        explicit = LinearTAE(found.k, H, latent_penalty=PENALTY, random_state=seed)
        k_means = KMeans(found.k, n_init=10, random_state=seed)
        mixture = GaussianMixture(found.k, random_state=seed, reg_covar=1e-3)
        fits: dict[str, tuple[Callable[[], Array], float]] = {
            DEFAULT: (functools.partial(default.fit_predict, features), seconds),
            EXPLICIT: (functools.partial(explicit.fit_predict, features), seconds),
            ON_FEATURES: (functools.partial(k_means.fit_predict, features), seconds),
            ON_PIXELS: (functools.partial(k_means.fit_predict, found.pixels), 0.0),
            MIXTURE: (functools.partial(mixture.fit_predict, reduced), pca_seconds),
        }
        for method, (fit, before) in fits.items():
            labels, took = timed(fit)
            ari = float(adjusted_rand_score(found.classes, labels))
            progress(f"{found.name}, seed {seed}, {method}: {ari:.3f} in {took:.1f} s")
            records.append({"method": method, "seed": seed, "ari": ari, "seconds": before + took})
        chosen.append(
            {
                "spread": default.spread_,
                "latent_dim": int(default.latent_dims_.max()),
                "latent_penalty": float(default.latent_penalty_),
            }
        )
    return {
        "n": len(found.images),
        "k": found.k,
        "scattering_seconds": seconds,
        "output_shape": list(scattering.output_shape_),
        "chosen": chosen,
        "records": records,
    }


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """Return what ``work`` returns, and its seconds of processor time."""
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = work()
    return result, time.process_time() - began


def rows(found: dict[str, dict[str, Any]]) -> Iterator[list[str]]:
    for method in METHODS:
        cells = []
        for result in found.values():
            of_method = [record for record in result["records"] if record["method"] == method]
            ari = [record["ari"] for record in of_method]
            seconds = float(np.median([record["seconds"] for record in of_method]))
            spread = f" ± {np.std(ari):.3f}" if len(ari) > 1 else ""
            cells.append(f"{np.mean(ari):.3f}{spread}, {duration(seconds)}")
        yield [method, *cells]


def choices(found: dict[str, dict[str, Any]]) -> Iterator[list[str]]:
    for name, result in found.items():
        kinds = (
            f"{one['spread']}, h = {one['latent_dim']}, λ = {one['latent_penalty']:.3f}"
            for one in result["chosen"]
        )
        yield [
            name,
            f"{result['n']:,}",
            str(result["k"]),
            " x ".join(map(str, result["output_shape"])),
            duration(result["scattering_seconds"]),
            "; ".join(kinds),
        ]


NOTE = """\
ARI (mean ± standard deviation over seeds) and median processor time, features included. Seeds
{seeds}; of sets with {large:,} images or more, the first. The number of classes is given, labels
are not. `Scattering()` has its default settings, `LinearTAE(k)` decides the rest by itself; KMeans
has n_init=10, GaussianMixture full covariances."""


def main(arguments: argparse.Namespace) -> None:
    found: dict[str, dict[str, Any]] = {}
    for one in sets(arguments.images):
        if arguments.sets and one.name not in arguments.sets:
            continue
        if arguments.quick:
            one = ImageSet(one.name, one.images[:QUICK_IMAGES], one.classes[:QUICK_IMAGES])
        few = arguments.quick or len(one.images) >= LARGE
        found[one.name] = measured(one, arguments.seeds[:1] if few else arguments.seeds)
    seeds = ", ".join(map(str, arguments.seeds))
    publish(
        "images",
        "Clustering of images",
        NOTE.format(seeds=seeds, large=LARGE),
        table(["method", *found], rows(found)),
        "What `LinearTAE(k)` chose:",
        table(["set", "images", "classes", "channels", "scattering", "chosen"], choices(found)),
        quick=arguments.quick,
        data={"sets": found},
    )


if __name__ == "__main__":
    options = parser(__doc__, threads=1)
    options.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    options.add_argument("--images", type=Path, help="folder with NAME.npz")
    options.add_argument("--sets", nargs="+", help="names of the sets to measure")
    given = options.parse_args()
    with limited_threads(given.threads):
        main(given)
