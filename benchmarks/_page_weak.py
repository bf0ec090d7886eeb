"""What tensorae is not good at, in sentences that follow from the stored results."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

import numpy as np
from _page_quality import BEHIND, NOISE_PARTS, behind_in_outliers
from _page_results import Result, numbers_of, section, tables_of
from _page_words import Page, Rows, listed, median, number, or_in_full, span

OURS_DEEP = "TAE"
# A clustering of another embedding must be so far ahead to be named.
PLAINLY = 0.02


def curves(found: Result) -> str:
    rows = tables_of(found.text)[1]
    worse = [row["set"] for row in rows if number(row["less the better peer"]) < -BEHIND]
    return (
        "**Rings, mazes, zigzags.** `LinearTAE` cuts them into pieces. Its ARI is more than "
        f"{BEHIND} below the better of KMeans and GaussianMixture on {len(worse)} of {len(rows)} "
        f"data sets: {listed(worse)}. Use `TAE` for such groups."
    )


def maps(found: Result) -> str:
    rows = tables_of(found.text)[0]
    peers = [name for name in rows[0] if name.startswith("UMAP")]
    gaps = {row["data"]: best(row, peers) - number(row[OURS_DEEP]) for row in rows}
    worse = [f"{name} by {gap:.2f}" for name, gap in gaps.items() if gap > PLAINLY]
    if not worse:
        return ""
    return (
        "**Data that UMAP separates well.** Clustering its embedding alone is better than "
        f"`TAE` on {listed(worse)} (ARI). The network also gives codes, reconstructions, scores "
        "and predictions for new samples."
    )


def best(row: dict[str, str], columns: list[str]) -> float:
    """Return the highest number of some cells, NaN where none has one."""
    known = (number(row[column]) for column in columns)
    return max((value for value in known if np.isfinite(value)), default=np.nan)


def some_sets(found: Result) -> str:
    words = section(found.text, "In words") or ""
    behind = re.search(r"\*\*TAE\*\* beside.*?Behind on \d+: (.*?)\.\n", words)
    if behind is None:
        return ""
    return (
        "**Some data sets, in particular Fashion-MNIST.** The best other method, a different one "
        f"each time, is better than `TAE` from its linear start on {behind[1]}."
    )


def detectors(found: Result) -> str:
    worse = behind_in_outliers(found)
    return (
        "**The best outlier detector for one data set.** `OutlierTAE` is best on average, but on "
        f"some data sets another one is better by more than {BEHIND} (AUC): {listed(worse)}."
    )


def imputing_time(found: Result) -> str:
    ratio = re.search(r"([\d.]+) of IterativeImputer's", found.text)
    if ratio is None:
        return ""
    times = f"{ratio[1]} times as long as IterativeImputer"
    return f"**Fast imputation.** `ImputerTAE` takes {times}."


def strong_noise(found: Result) -> str:
    rows = tables_of(section(found.text, NOISE_PARTS[1]) or "")[0]
    worse = [row["data"] for row in rows if number(row["ridge"]) < 0.95 * number(row["denoise"])]
    return (
        "**Strong noise, if pairs of noisy and clean samples are available.** Ridge regression, "
        f"which needs such pairs, is better at σ = 0.3 on {len(worse)} of {len(rows)} sets: "
        f"{'; '.join(worse)}."
    )


def time(found: Result) -> str:
    ratios = [median(one["k_means_ratio"]) for one in found.data["whole"]]
    return (
        "**Fast k-means.** On small tables, `LinearTAE` takes "
        f"{span(ratios, '.1f')} times as long as KMeans, with k and h given."
    )


def few_epochs(found: Result) -> str:
    part = section(found.text, "Loss beside the naive loop")
    rows: Rows = tables_of(part)[0] if part else []
    cells = [numbers_of(row[name])[0] for row in rows for name in row if name.startswith("TAE / ")]
    if max(cells, default=1.0) < 1 + PLAINLY:
        return ""
    return (
        f"**Few epochs.** After 20 epochs, the loss of k networks is {span(cells)} times that of a "
        "loop that sends every batch through all k and takes about k times as long "
        "([details](networks.md#cost-of-k-autoencoders))."
    )


WEAK: dict[str, Callable[[Result], str]] = {
    "any_data": curves, "images": maps, "peers": some_sets, "outliers": detectors,
    "missing": imputing_time, "denoising": strong_noise, "speed": time,
    "deep_price": few_epochs,
}  # fmt: skip


def not_good_at(page: Page) -> str:
    """Return a list of weaknesses, with the figures that show them."""
    found = {name: page.results.numbers(name) or page.results.page(name) for name in WEAK}
    lines = [
        or_in_full(page, partial(WEAK[name], one), "")
        for name, one in found.items()
        if one is not None
    ]
    return "\n".join(f"- {line}" for line in lines if line)
