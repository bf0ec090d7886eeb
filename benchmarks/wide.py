"""Data with many features: time and agreement with the known groups, beside k-means.

    python benchmarks/wide.py --embeddings path/to/folder

The folder holds ``name.npz`` files with X (n, d) and y (n,), such as sentence embeddings.
Times are seconds of the processor, taken in turn; labels only serve to score.
"""

# n samples, k clusters, d features, h latent

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from _common import interleave, limited_threads, parser, progress, publish, spread, table
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture

from tensorae import LinearTAE

Array = np.ndarray
Fit = Callable[[Array, int, int], Array]

SHAPES = ((20_000, 384, 20), (20_000, 784, 10), (5_000, 1_536, 50))
# (n, d, k, whether sizes and spreads differ)
CASES = [
    (2_000, 64, 5, False), (2_000, 64, 20, True), (2_000, 128, 5, True), (2_000, 256, 10, False),
    (2_000, 384, 20, True), (2_000, 784, 5, False), (2_000, 1_536, 10, True),
    (5_000, 64, 50, False), (5_000, 128, 20, True), (5_000, 256, 50, True), (5_000, 384, 10, True),
    (5_000, 768, 20, False), (5_000, 1_536, 50, True), (10_000, 128, 100, False),
    (10_000, 384, 50, True), (10_000, 784, 10, False), (20_000, 64, 20, True),
    (20_000, 384, 100, False), (50_000, 128, 20, True), (50_000, 256, 10, False),
]  # fmt: skip
PLANTED_LATENT = 3


def planted(n: int, d: int, k: int, unequal: bool, seed: int = 0) -> tuple[Array, Array]:
    """Gaussian clusters with directions of their own, in single precision."""
    rng = np.random.RandomState(seed)
    sizes = rng.dirichlet(np.full(k, 2.0)) if unequal else np.full(k, 1 / k)
    y = rng.choice(k, n, p=sizes)
    centers = rng.standard_normal((k, d)) * np.sqrt(80 / d)
    X = np.empty((n, d), np.float32)
    for j in range(k):
        members = np.flatnonzero(y == j)
        axes = np.linalg.qr(rng.standard_normal((d, PLANTED_LATENT)))[0]
        codes = rng.standard_normal((len(members), PLANTED_LATENT)) * (6, 4.5, 3)
        noise = rng.uniform(0.6, 1.4) if unequal else 1.0
        X[members] = centers[j] + codes @ axes.T + noise * rng.standard_normal((len(members), d))
    return X, y


def k_means(X: Array, k: int, seed: int) -> Array:
    return KMeans(k, n_init=10, random_state=seed).fit(X).labels_


def default(X: Array, k: int, seed: int) -> Array:
    return LinearTAE(k, random_state=seed).fit(X).labels_


def given(X: Array, k: int, seed: int) -> Array:
    return LinearTAE(k, PLANTED_LATENT, latent_penalty=0.1, random_state=seed).fit(X).labels_


def mixture(X: Array, k: int, seed: int) -> Array:
    Z = PCA(min(30, X.shape[1]), random_state=seed).fit_transform(X)
    return GaussianMixture(k, n_init=2, random_state=seed).fit_predict(Z)


def pca_k_means(X: Array, k: int, seed: int) -> Array:
    return k_means(PCA(min(64, X.shape[1]), random_state=seed).fit_transform(X), k, seed)


def scored(fit: Fit, X: Array, y: Array, k: int) -> Callable[[int], float]:
    """Return what fits with a seed and gives the adjusted Rand index."""
    return lambda seed: adjusted_rand_score(y, fit(X, k, seed))


def times(shapes: tuple[tuple[int, int, int], ...], rounds: int) -> str:
    rows = []
    for n, d, k in shapes:
        progress(f"times of {n} x {d}, k = {k}")
        X, y = planted(n, d, k, unequal=False)
        fits = {"k-means": k_means, "default": default, "given": given}
        competitors = {name: scored(fit, X, y, k) for name, fit in fits.items()}
        found = interleave(competitors, rounds=rounds, clock=time.process_time)
        base = found["k-means"].seconds
        ratios = [spread(found[name].seconds / base) for name in ("default", "given")]
        scores = [f"{np.mean(found[name].returned):.3f}" for name in fits]
        rows.append([f"{n:,} x {d}, {k}", f"{np.median(base):.2f} s", *ratios, *scores])
    names = ["n x d, k", "k-means, n_init=10", "default / k-means", "λ = .1 / k-means"]
    return table([*names, "ARI k-means", "ARI default", "ARI λ = .1"], rows)


def cases(chosen: list[tuple[int, int, int, bool]]) -> str:
    rows, behind = [], 0
    for n, d, k, unequal in chosen:
        progress(f"planted clusters, {n} x {d}, k = {k}")
        X, y = planted(n, d, k, unequal, seed=1)
        theirs, ours = (adjusted_rand_score(y, fit(X, k, 0)) for fit in (k_means, default))
        behind += ours < theirs - 0.01
        kind = "unequal" if unequal else "equal"
        rows.append([f"{n:,} x {d}, {k}, {kind}", f"{theirs:.3f}", f"{ours:.3f}"])
    said = f"Behind k-means by more than .01: {behind} of {len(chosen)}."
    return table(["n x d, k, sizes and noise", "k-means", "default"], rows) + "\n\n" + said


def real(sets: dict[str, tuple[Array, Array]], seeds: int) -> str:
    fits: dict[str, Fit] = {
        "k-means": k_means,
        "PCA 64, k-means": pca_k_means,
        "PCA 30, GaussianMixture": mixture,
        "default": default,
    }
    rows, gains = [], []
    for name, (X, y) in sets.items():
        progress(name)
        k = len(np.unique(y))
        scores = {
            label: np.array([adjusted_rand_score(y, fit(X, k, seed)) for seed in range(seeds)])
            for label, fit in fits.items()
        }
        gains.append(scores["default"].mean() - scores["k-means"].mean())
        cells = [f"{found.mean():.3f} ± {found.std():.3f}" for found in scores.values()]
        rows.append([f"{name} ({len(X):,} x {X.shape[1]}, {k})", *cells, f"{gains[-1]:+.3f}"])
    said = f"Mean gain over k-means: {np.mean(gains):+.3f}; mean and deviation of {seeds} seeds."
    return table(["set", *fits, "gain"], rows) + "\n\n" + said


def main() -> None:
    options = parser(__doc__, threads=1)
    options.add_argument("--embeddings", type=Path, help="folder of .npz files with X and y")
    options.add_argument("--seeds", type=int, default=3)
    arguments = options.parse_args()
    quick = arguments.quick
    sets = {"digits": load_digits(return_X_y=True)}
    for file in sorted(arguments.embeddings.glob("*.npz")) if arguments.embeddings else []:
        with np.load(file) as kept:
            sets[file.stem] = kept["X"].astype(np.float32), kept["y"]
    shapes = ((500, 128, 3),) if quick else SHAPES
    chosen = [(500, 128, 3, False)] if quick else CASES
    with limited_threads(arguments.threads), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parts = [
            "## Time (processor)\n\n" + times(shapes, 1 if quick else 3),
            "## Planted clusters, adjusted Rand index\n\n" + cases(chosen),
            "## Real sets, adjusted Rand index\n\nThe families and their criterion were chosen "
            "on digits and the embeddings.\n\n" + real(sets, 1 if quick else arguments.seeds),
        ]
    publish("wide", "Data with many features", *parts, quick=quick)


if __name__ == "__main__":
    main()
