"""Tables with numbers and categories: groups, imputed categories and time, beside peers.

    python benchmarks/mixed.py --tables path/to/folder

    python benchmarks/mixed.py --balance

The second compares settings of the balance between numbers and categories, on planted groups: they
are chosen on one half of the draws and reported on the other. The folder holds Zoo.csv,
Soybean.csv, Cars93_miss.csv, GermanCredit.csv and auto_imports.csv, as R packages and the UCI
repository have them. Peers need `pip install kmodes stepmix`; labels only serve to score.
"""

# n samples, k clusters, d numbers, c categories

from __future__ import annotations

import importlib.util
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from _common import interleave, limited_threads, parser, progress, publish, spread, table
from sklearn.cluster import KMeans
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import StandardScaler

from tensorae import ImputerTAE, LinearTAE
from tensorae.core.families import LevelPrior

Array = np.ndarray
Frame = pd.DataFrame
Fit = Callable[[Frame, int, int], Array]

HIDDEN = 0.2
KNN = 5
FOREST_ROUNDS = 4


# Data -----------------------------------------------------------------------------------------


def planted(seed: int, n: int = 400) -> tuple[Frame, Array, str]:
    """Groups with correlated numbers and categories, after the KAMILA and ADAC comparisons."""
    rng = np.random.RandomState(seed)
    informative = ("numbers", "categories", "both")[seed % 3]
    k, d, c = rng.randint(2, 7), rng.randint(2, 9), rng.randint(2, 9)
    apart = rng.choice([1.0, 1.8, 3.0])  # standard deviations between centres, about
    overlap = rng.choice([0.3, 0.6, 0.9])
    groups = rng.choice(k, n, p=rng.dirichlet(np.full(k, 5.0)))
    centers = apart * rng.standard_normal((k, d)) * (informative != "categories")
    frame = Frame(index=range(n))
    numbers = np.empty((n, d))
    shapes = np.eye(d) + 0.6 * rng.standard_normal((k, d, d)) / np.sqrt(d)
    for j in range(k):
        shape = shapes[j if informative != "categories" else 0]
        members = groups == j
        numbers[members] = centers[j] + rng.standard_normal((members.sum(), d)) @ shape
    for column in range(d):
        frame[f"x{column}"] = numbers[:, column]
    for column in range(c):
        levels = rng.randint(2, 6)
        common = rng.dirichlet(np.full(levels, 2.0))
        own_chances = rng.dirichlet(np.full(levels, 0.4), size=k)
        weight = overlap if informative != "numbers" else 1.0
        chances = weight * common + (1 - weight) * own_chances
        drawn = np.array([rng.choice(levels, p=chances[g]) for g in groups])
        frame[f"c{column}"] = np.array(list("abcde"))[drawn]
    return frame, groups, informative


def real_tables(folder: Path) -> dict[str, tuple[Frame, Array]]:
    """Tables with their known classes, which no fit sees."""
    zoo = pd.read_csv(folder / "Zoo.csv")
    soybean = pd.read_csv(folder / "Soybean.csv", dtype=str)
    cars = pd.read_csv(folder / "Cars93_miss.csv", index_col=False)
    names = [name for name in ("Manufacturer", "Model", "Make") if name in cars]
    cars = cars.drop(columns=names).dropna(subset=["Type"])
    credit = pd.read_csv(folder / "GermanCredit.csv")
    autos = pd.read_csv(folder / "auto_imports.csv", header=None, na_values="?")
    autos = autos.rename(columns=str)
    targets = {
        "Zoo": (zoo, "type"),
        "Soybean": (soybean, "Class"),
        "Cars93": (cars, "Type"),
        "GermanCredit": (credit, credit.columns[-1]),
        "auto_imports": (autos, "6"),
    }
    return {
        name: (scaled(frame.drop(columns=target)), frame[target].to_numpy())
        for name, (frame, target) in targets.items()
    }


def scaled(frame: Frame) -> Frame:
    """Numbers in standard deviations; text and truth values as they are."""
    frame = frame.dropna(axis=1, how="all").copy()
    for name in frame:
        if is_number(frame[name]):
            values = frame[name].astype(float)
            frame[name] = (values - values.mean()) / (values.std() or 1.0)
        else:
            frame[name] = frame[name].astype(object)
    return frame


def is_number(column: Any) -> bool:
    return pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)


# Peers ----------------------------------------------------------------------------------------


def numbers_of(frame: Frame) -> list[str]:
    return [name for name in frame if is_number(frame[name])]


def filled(frame: Frame) -> Frame:
    """Means and modes in place of what is missing, for peers that need whole rows."""
    frame = frame.copy()
    for name in frame:
        value = frame[name].mean() if is_number(frame[name]) else frame[name].mode()[0]
        frame[name] = frame[name].where(frame[name].notna(), value)
    return frame


def one_hot(frame: Frame) -> Array:
    """Numbers and indicators, all in standard deviations."""
    table = pd.get_dummies(filled(frame).map(lambda v: str(v) if isinstance(v, bool) else v))
    return StandardScaler().fit_transform(table.astype(float))


def k_means(frame: Frame, k: int, seed: int) -> Array:
    return KMeans(k, n_init=10, random_state=seed).fit(one_hot(frame)).labels_


def mixture(frame: Frame, k: int, seed: int) -> Array:
    fitted = GaussianMixture(k, covariance_type="diag", n_init=10, reg_covar=1e-2,
                             random_state=seed)  # fmt: skip
    return fitted.fit_predict(one_hot(frame))


def k_prototypes(frame: Frame, k: int, seed: int) -> Array:
    from kmodes.kmodes import KModes
    from kmodes.kprototypes import KPrototypes

    whole, numbers = filled(frame), numbers_of(frame)
    categories = [place for place, name in enumerate(frame) if name not in numbers]
    values = whole.to_numpy(dtype=object)
    values[:, categories] = values[:, categories].astype(str)
    if not numbers:
        return KModes(k, n_init=10, random_state=seed).fit_predict(values)
    if not categories:
        return k_means(frame, k, seed)
    return KPrototypes(k, n_init=5, random_state=seed).fit_predict(values, categorical=categories)


def step_mix(frame: Frame, k: int, seed: int) -> Array:
    from stepmix.stepmix import StepMix

    numbers = numbers_of(frame)
    columns, parts = [], {}
    coded = Frame(index=frame.index)
    for name in frame:
        if name in numbers:
            coded[str(name)] = frame[name].astype(float)
        else:
            codes = pd.Categorical(frame[name].map(str, na_action="ignore")).codes.astype(float)
            coded[str(name)] = np.where(codes < 0, np.nan, codes)
    others = [str(name) for name in frame if name not in numbers]
    missing = "_nan" if coded.isna().to_numpy().any() else ""
    if numbers:
        parts["numbers"] = {"model": f"gaussian_diag{missing}", "n_columns": len(numbers)}
        columns += [str(name) for name in numbers]
    if others:
        parts["categories"] = {"model": f"categorical{missing}", "n_columns": len(others)}
        columns += others
    fitted = StepMix(k, measurement=parts, n_init=10, random_state=seed, verbose=0,
                     progress_bar=0)  # fmt: skip
    return fitted.fit(coded[columns]).predict(coded[columns])


def ours(frame: Frame, k: int, seed: int) -> Array:
    return LinearTAE(k, random_state=seed).fit(frame).labels_


def ours_numbers(frame: Frame, k: int, seed: int) -> Array:
    numbers = numbers_of(frame)
    if not numbers:
        return np.zeros(len(frame), int)
    return LinearTAE(k, random_state=seed).fit(frame[numbers]).labels_


FITS: dict[str, Fit] = {
    "k-means, one-hot": k_means,
    "GaussianMixture, one-hot": mixture,
    "k-prototypes": k_prototypes,
    "StepMix": step_mix,
    "tensorae, numbers only": ours_numbers,
    "tensorae": ours,
}
for _label, _package in (("k-prototypes", "kmodes"), ("StepMix", "stepmix")):
    if importlib.util.find_spec(_package) is None:
        print(f"{_label} is left out: pip install {_package}")
        del FITS[_label]


# Groups ---------------------------------------------------------------------------------------


def planted_groups(draws: int) -> str:
    scores: dict[str, list[float]] = {label: [] for label in FITS}
    kinds = []
    for seed in range(draws):
        frame, groups, kind = planted(seed)
        kinds.append(kind)
        for label, fit in FITS.items():
            found = fit(frame, len(np.unique(groups)), 0)
            scores[label].append(adjusted_rand_score(groups, found))
        progress(f"planted {seed + 1} of {draws}")
    rows = []
    for kind in ("numbers", "categories", "both", "all"):
        chosen = [place for place, each in enumerate(kinds) if kind in (each, "all")]
        means = (f"{np.mean(np.array(found)[chosen]):.3f}" for found in scores.values())
        rows.append([f"{kind} ({len(chosen)})", *means])
    noise = [place for place, each in enumerate(kinds) if each == "numbers"]
    alone, whole = (np.array(scores[name])[noise] for name in list(FITS)[-2:])
    lost = alone - whole
    said = (
        "Lost to the numbers alone where categories are noise: mean "
        f"{lost.mean():.3f}, most {lost.max():.3f}."
    )
    return table(["informative", *FITS], rows) + "\n\n" + said


def real_groups(tables: dict[str, tuple[Frame, Array]], seeds: int) -> str:
    rows = []
    for name, (frame, y) in tables.items():
        k = len(pd.unique(y))
        cells = []
        for label, fit in FITS.items():
            found = [adjusted_rand_score(y, fit(frame, k, seed)) for seed in range(seeds)]
            cells.append(f"{np.mean(found):.3f} ± {np.std(found):.3f}")
            progress(f"{name}, {label}: {cells[-1]}")
        shape = f"{len(frame)} x ({len(numbers_of(frame))} + "
        rows.append([f"{name} ({shape}{frame.shape[1] - len(numbers_of(frame))}), {k})", *cells])
    return table(["table (rows x (numbers + categories), classes)", *FITS], rows)


# Balance --------------------------------------------------------------------------------------

# Members that every cluster is given more, with the levels of the whole data: the more, the less
# levels that differ by chance weigh.
STRENGTHS = (1.0, 4.0, 12.0, 40.0)


def balance(draws: int) -> str:
    """ARI by the strength of the prior on levels, for two halves of the draws."""
    usual = LevelPrior.of_counts
    scores, kinds = [], []
    for seed in range(draws):
        frame, groups, kind = planted(seed)
        k = len(np.unique(groups))
        row = [adjusted_rand_score(groups, ours_numbers(frame, k, 0))]
        for strength in STRENGTHS:
            LevelPrior.of_counts = lambda *a, s=strength: replace(usual(*a), strength=s)
            row.append(adjusted_rand_score(groups, ours(frame, k, 0)))
        scores.append(row)
        kinds.append(kind)
        progress(f"balance {seed + 1} of {draws}")
    LevelPrior.of_counts = usual
    found, first = np.array(scores), np.arange(draws) // 3 % 2 == 0
    rows = []
    for name, half in (("chosen on", first), ("reported on", ~first)):
        for kind in ("numbers", "categories", "both", "all"):
            own = half & np.array([kind in (each, "all") for each in kinds])
            means = (f"{value:.3f}" for value in found[own].mean(0))
            rows.append([f"{name}, {kind} ({own.sum()})", *means])
    head = ["half, informative", "numbers only", *(f"strength {one:g}" for one in STRENGTHS)]
    return table(head, rows)


# Imputation -----------------------------------------------------------------------------------


def by_mode(frame: Frame, seed: int) -> Frame:  # noqa: ARG001
    return filled(frame)


def by_neighbors(frame: Frame, seed: int) -> Frame:  # noqa: ARG001
    """The mode, or the mean, of the nearest rows by their one-hot columns."""
    points, result = one_hot(frame), filled(frame)
    near = NearestNeighbors(n_neighbors=KNN + 1).fit(points).kneighbors(points)[1][:, 1:]
    for name in frame:
        for row in np.flatnonzero(frame[name].isna()):
            shown = frame[name].iloc[near[row]].dropna()
            if len(shown):
                value = shown.mean() if is_number(frame[name]) else shown.mode()[0]
                result.iloc[row, result.columns.get_loc(name)] = value
    return result


def by_forests(frame: Frame, seed: int) -> Frame:
    """missForest: a forest for each column on all others, a few rounds."""
    result = filled(frame)
    gaps = [name for name in frame if frame[name].isna().any()]
    for _ in range(FOREST_ROUNDS):
        for name in sorted(gaps, key=lambda name: frame[name].isna().sum()):
            hole = frame[name].isna().to_numpy()
            others = result.drop(columns=name).map(lambda v: str(v) if isinstance(v, bool) else v)
            inputs = pd.get_dummies(others).to_numpy(float)
            number = is_number(frame[name])
            kind = RandomForestRegressor if number else RandomForestClassifier
            target = frame[name][~hole]
            forest = kind(n_estimators=100, random_state=seed).fit(
                inputs[~hole], target if number else target.astype(str)
            )
            found = forest.predict(inputs[hole])
            if not number:
                known = {str(level): level for level in target.unique()}
                found = np.array([known[level] for level in found], dtype=object)
            result.loc[hole, name] = found
    return result


def by_linear(frame: Frame, seed: int) -> Frame:
    return LinearTAE("auto", random_state=seed).fit(frame).impute(frame)


def by_imputer(frame: Frame, seed: int) -> Frame:
    return ImputerTAE(random_state=seed).fit(frame).impute(frame)


IMPUTERS = {
    "mode, mean": by_mode,
    "5 neighbours": by_neighbors,
    "forests": by_forests,
    "LinearTAE(auto)": by_linear,
    "ImputerTAE": by_imputer,
}


def hidden(frame: Frame, seed: int) -> tuple[Frame, Array]:
    rng = np.random.RandomState(seed)
    gone = (rng.uniform(size=frame.shape) < HIDDEN) & frame.notna().to_numpy()
    return frame.mask(gone), gone


def imputation(tables: dict[str, Frame], seeds: int) -> str:
    right_rows, error_rows = [], []
    for name, frame in tables.items():
        numbers = numbers_of(frame)
        right: dict[str, list[float]] = {label: [] for label in IMPUTERS}
        errors: dict[str, list[float]] = {label: [] for label in IMPUTERS}
        for seed in range(seeds):
            partial, gone = hidden(frame, seed)
            for label, impute in IMPUTERS.items():
                found = impute(partial, seed)
                hits, squares = [], []
                for place, column in enumerate(frame):
                    rows = gone[:, place]
                    if not rows.any():
                        continue
                    values = found[column].to_numpy()[rows]
                    truth = frame[column].to_numpy()[rows]
                    if column in numbers:
                        squares.append((values.astype(float) - truth.astype(float)) ** 2)
                    else:
                        hits.append(values.astype(str) == truth.astype(str))
                if hits:
                    right[label].append(float(np.concatenate(hits).mean()))
                if squares:
                    errors[label].append(float(np.sqrt(np.concatenate(squares).mean())))
                progress(f"{name}, {label}")
        right_rows.append([name, *(f"{np.mean(found):.3f}" for found in right.values())])
        if numbers:
            error_rows.append([name, *(f"{np.mean(found):.3f}" for found in errors.values())])
    return (
        f"{HIDDEN:.0%} of the values hidden, mean of {seeds} draws. Share of hidden categories "
        "that are right:\n\n"
        + table(["table", *IMPUTERS], right_rows)
        + "\n\nRoot mean squared error of hidden numbers, in standard deviations:\n\n"
        + table(["table", *IMPUTERS], error_rows)
    )


# Time -----------------------------------------------------------------------------------------


def times(n: int, repeats: int) -> str:
    rng = np.random.RandomState(0)
    groups = rng.randint(8, size=n)
    numbers = rng.standard_normal((n, 10)) + 3 * rng.standard_normal((8, 10))[groups]
    frame = Frame(numbers, columns=[f"x{j}" for j in range(10)])
    both = frame.copy()
    for column in range(10):
        chances = rng.dirichlet(np.full(4, 0.5), size=8).cumsum(1)
        drawn = (rng.uniform(size=n)[:, None] > chances[groups]).sum(1).clip(max=3)
        both[f"c{column}"] = np.array(list("abcd"))[drawn]

    competitors = {
        "alone": lambda seed: LinearTAE(8, random_state=seed).fit(frame),
        "mixed": lambda seed: LinearTAE(8, random_state=seed).fit(both),
    }
    found = interleave(competitors, rounds=repeats, clock=time.process_time)
    alone, mixed = found["alone"].seconds, found["mixed"].seconds
    rows = [
        [f"{n:,} x 10 numbers", f"{np.median(alone):.2f} s"],
        [f"{n:,} x (10 numbers + 10 categories)", f"{np.median(mixed):.2f} s"],
        ["ratio", spread(mixed / alone)],
    ]
    return table(["k = 8, seconds of the processor", "default fit"], rows)


def main() -> None:
    options = parser(__doc__, threads=1)
    options.add_argument("--tables", type=Path, help="folder of the five tables")
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--balance", action="store_true", help="compare settings of the balance")
    arguments = options.parse_args()
    quick = arguments.quick
    if arguments.balance:
        with limited_threads(arguments.threads), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            part = balance(6 if quick else 60)
        publish(
            "mixed_balance", "Balance of numbers and categories", part, quick=quick, script="mixed"
        )
        return
    tables = {} if arguments.tables is None or quick else real_tables(arguments.tables)
    examples = {name: frame for name, (frame, _) in tables.items()} or {
        "planted": planted(2)[0].head(200)
    }
    with limited_threads(arguments.threads), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parts = [
            "## Planted groups, adjusted Rand index\n\n" + planted_groups(3 if quick else 60),
            "## Imputation\n\n" + imputation(examples, 1 if quick else arguments.seeds),
            "## Time\n\n" + times(2_000 if quick else 100_000, 1 if quick else 3),
        ]
        if tables:
            parts.insert(1, "## Tables with known classes, adjusted Rand index\n\n"
                         + real_groups(tables, arguments.seeds))  # fmt: skip
    publish("mixed", "Numbers and categories", *parts, quick=quick)


if __name__ == "__main__":
    main()
