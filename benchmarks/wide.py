"""Data with many features: time and agreement with the known groups, beside k-means.

    python benchmarks/wide.py --embeddings path/to/folder

The folder holds ``name.npz`` files with X (n, d) and y (n,), such as sentence embeddings.
Times are seconds of the processor, taken in turn; labels only serve to score. ``--passes`` measures
a pass of each kind beside an iteration of k-means, ``--large`` a million rows of 384 features,
``--planted`` the labels of 200 planted sets of few to many rows, features and clusters.
"""

# n samples, k clusters, d features, h latent

from __future__ import annotations

import resource
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from _common import interleave, limited_threads, parser, progress, publish, spread, table
from _problems import Size, clustered_subspaces, random_rows
from scipy.spatial.distance import cdist
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
# Planted sets of all sizes, and by how much a clustering may be behind k-means there.
N_PLANTED, PLANTED_SLACK = 200, 0.03
PASSES = Size(100_000, 128, 10, 5)
# Passes of the fits whose times are subtracted.
FEW, MANY = 3, 13


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


@dataclass(frozen=True)
class Planted:
    """Gaussian clusters in few to many features."""

    n: int
    d: int
    k: int
    unequal_sizes: bool
    unequal_spreads: bool
    long: bool
    apart: float
    seed: int

    def __str__(self) -> str:
        sizes, spreads = (
            "unequal" if unequal else "equal"
            for unequal in (self.unequal_sizes, self.unequal_spreads)
        )
        shape = "long" if self.long else "round"
        return (
            f"{self.n:,} x {self.d}, {self.k}, {sizes} sizes, {spreads} spreads, {shape}, "
            f"{self.apart:g} apart"
        )

    def draw(self) -> tuple[Array, Array]:
        """Draw X and y; the median distance to the nearest other centre is ``apart``."""
        rng = np.random.RandomState(self.seed)
        k, d = self.k, self.d
        shares = rng.dirichlet(np.full(k, 2.0)) if self.unequal_sizes else np.full(k, 1 / k)
        y = rng.choice(k, self.n, p=shares)
        centers = rng.uniform(size=(k, d))
        centers *= self.apart / np.median(np.sort(cdist(centers, centers), axis=1)[:, 1])
        spreads = rng.uniform(0.5, 1.5, k) if self.unequal_spreads else np.ones(k)
        X = centers[y] + spreads[y, None] * rng.standard_normal((self.n, d))
        for j in range(k) if self.long else ():
            axis = rng.standard_normal(d)
            axis /= np.linalg.norm(axis)
            members = y == j
            X[members] += 2 * spreads[j] * rng.standard_normal((members.sum(), 1)) * axis
        return X, y


def planted_cases(count: int) -> list[Planted]:
    """Return cases that mix n of 500 to 20,000, d of 2 to 100 and k of 3 to 100."""
    rng, cases = np.random.RandomState(29), []
    for seed in range(count):
        n = round(500 * 40 ** rng.uniform())
        d = round(2 * 50 ** rng.uniform())
        k = round(3 * (min(100, n / 20) / 3) ** rng.uniform())
        sizes, spreads, long = (bool(each) for each in rng.randint(2, size=3))
        apart = (4.0, 6.0, 9.0)[rng.randint(3)]
        cases.append(Planted(n, d, k, sizes, spreads, long, apart, seed))
    return cases


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


def few_to_many(chosen: list[Planted]) -> str:
    """Agreement of the default and of k-means on planted sets of all sizes."""
    found = []
    for number, case in enumerate(chosen):
        X, y = case.draw()
        scores, seconds = [], []
        for fit in (k_means, default):
            began = time.process_time()
            scores.append(adjusted_rand_score(y, fit(X, case.k, 0)))
            seconds.append(time.process_time() - began)
        found.append((case, *scores, seconds[1] / seconds[0]))
        progress(f"{number + 1}: {case}: {scores[0]:.3f} {scores[1]:.3f}, {found[-1][3]:.1f}")
    theirs, ours, ratios = (np.array([row[place] for row in found]) for place in (1, 2, 3))
    behind = [row for row in found if row[2] < row[1] - PLANTED_SLACK]
    rows = [
        [str(case), f"{one:.3f}", f"{other:.3f}", f"{ratio:.1f}"]
        for case, one, other, ratio in sorted(behind, key=lambda row: row[2] - row[1])
    ]
    said = (
        f"Behind k-means by more than {PLANTED_SLACK}: {len(behind)} of {len(chosen)}, ahead by as "
        f"much: {np.sum(ours > theirs + PLANTED_SLACK)}. Mean {theirs.mean():.3f} and "
        f"{ours.mean():.3f}. Time of the processor, default / k-means: median "
        f"{np.median(ratios):.1f}, nine in ten below {np.quantile(ratios, 0.9):.1f}, worst "
        f"{ratios.max():.1f}."
    )
    names = ["n x d, k, clusters", "k-means", "default", "default / k-means, time"]
    return said + "\n\nThose behind:\n\n" + table(names, rows)


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


# One pass ----------------------------------------------------------------------------------------


def seconds_of(fit: Callable[[], object]) -> float:
    """Seconds of the processor."""
    began = time.process_time()
    fit()
    return time.process_time() - began


def passes(size: Size, rounds: int) -> str:
    """One pass of each kind, over an iteration of k-means with as many products of rows."""
    X = clustered_subspaces(size.n, size.d, size.k).astype(np.float32)
    start = random_rows(X, size.k)
    kinds: dict[str, dict[str, object]] = {
        "paper's model, hard": {"latent_penalty": 0.1},
        "own spreads, hard": {"spread": "own", "assignment": "lloyd"},
        "own spreads, soft": {"spread": "own", "assignment": "em"},
    }

    def ours(chosen: dict[str, object], max_iter: int) -> Callable[[], object]:
        model = LinearTAE(size.k, size.h, init=start, n_init=1, max_iter=max_iter, tol=0, **chosen)
        return lambda: model.fit(X)

    def theirs(max_iter: int) -> Callable[[], object]:
        count = size.k * (size.h + 1)
        centers = random_rows(X, count)
        return lambda: KMeans(count, init=centers, n_init=1, max_iter=max_iter, tol=0).fit(X)

    ours(kinds["own spreads, soft"], FEW)()  # warm
    ratios: dict[str, list[float]] = {name: [] for name in kinds}
    base = []
    for number in range(rounds):
        progress(f"passes, round {number + 1} of {rounds}")
        base.append((seconds_of(theirs(MANY)) - seconds_of(theirs(FEW))) / (MANY - FEW))
        for name, chosen in kinds.items():
            long, short = seconds_of(ours(chosen, MANY)), seconds_of(ours(chosen, FEW))
            ratios[name].append((long - short) / (MANY - FEW) / base[-1])
    rows = [[name, spread(np.array(found))] for name, found in ratios.items()]
    said = (
        f"{size}, float32; an iteration of k-means with k(h+1) = {size.k * (size.h + 1)} centres "
        f"takes {np.median(base):.3f} s."
    )
    return table(["pass", "over an iteration of k-means"], rows) + "\n\n" + said


def large(n: int) -> str:
    """A million rows of 384 features in 100 clusters, beside k-means of 20 iterations."""
    X, y = planted(n, 384, 100, unequal=False)
    progress("k-means of 20 iterations")
    k_means_20 = KMeans(100, n_init=1, max_iter=20, tol=0, random_state=0)
    theirs = seconds_of(lambda: k_means_20.fit(X))
    progress("default")
    model = LinearTAE(100, random_state=0)
    ours = seconds_of(lambda: model.fit(X))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    scores = [adjusted_rand_score(y, found.labels_) for found in (k_means_20, model)]
    return table(
        ["rows", "k-means, 20 iterations", "default / k-means", "ARI", "ARI default", "peak"],
        [
            [
                f"{n:,} x 384, 100", f"{theirs:.0f} s", f"{ours / theirs:.2f}",
                *(f"{score:.3f}" for score in scores), f"{peak:.1f} GB (X {X.nbytes / 1e9:.1f})",
            ]
        ],
    )  # fmt: skip


def main() -> None:
    options = parser(__doc__, threads=1)
    options.add_argument("--passes", action="store_true", help="measure single passes only")
    options.add_argument("--large", type=int, default=0, help="measure so many rows of 384 only")
    options.add_argument(
        "--planted", action="store_true", help="200 planted sets of all sizes only"
    )
    options.add_argument("--every", type=int, default=1, help="take every so many planted sets")
    options.add_argument("--embeddings", type=Path, help="folder of .npz files with X and y")
    options.add_argument("--seeds", type=int, default=3)
    arguments = options.parse_args()
    quick = arguments.quick
    with limited_threads(arguments.threads), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if arguments.passes:
            size = replace(PASSES, n=5_000) if quick else PASSES
            found = passes(size, 1 if quick else 3)
            publish("wide_passes", "One pass over many features", found, quick=quick)
            return
        if arguments.planted:
            found = few_to_many(planted_cases(N_PLANTED)[:: 50 if quick else arguments.every])
            publish("wide_planted", "Planted clusters of all sizes", found, quick=quick)
            return
        if arguments.large:
            publish("wide_large", "Very many rows", large(arguments.large), quick=quick)
            return
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
