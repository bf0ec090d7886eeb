"""Sections on time and size: a pass, growth, time to a loss, memory, files, processes, machines."""

from __future__ import annotations

from typing import Any

import numpy as np
import scaling
import time_to_loss
from _common import duration, spread
from _page_plots import draw_large, draw_paths, draw_speed
from _page_results import Result, size_text
from _page_words import (
    LEVEL,
    Page,
    for_readers,
    median,
    missing,
    provenance,
    sorted_out,
    times_as_long,
    told,
)

SPEED_WORDS = """\
Small tables: a whole fit takes {own} times as long as KMeans, and GaussianMixture {mixture} times
as long as LinearTAE. Large data: one pass takes {lowest:.2f} to {highest:.2f} times as long as one
iteration of KMeans with k(h+1) centers (medians of {count} sizes; {sorted}), and
{product_lowest:.2f} to {product_highest:.2f} times as long as the product of a k(h+1) x d matrix
with all rows, which both include."""


@told(
    "## Whole fits and single passes",
    "How long does a fit take, compared with KMeans and GaussianMixture?",
    "speed",
)
def passes(page: Page, found: Result) -> str:
    records, whole = found.data["passes"], found.data["whole"]
    ratios = [median(one["k_means_ratio"]) for one in records]
    products = [median(one["product_ratio"]) for one in records]
    words = SPEED_WORDS.format(
        own=ends([median(one["k_means_ratio"]) for one in whole]),
        mixture=ends([median(one["mixture_ratio"]) for one in whole]),
        lowest=min(ratios),
        highest=max(ratios),
        count=len(records),
        sorted=sorted_out(ratios),
        product_lowest=min(products),
        product_highest=max(products),
    )
    picture = draw_speed(records, page.folder)
    alt = "Time of a pass of LinearTAE in units of an iteration of KMeans and of the matrix product"
    return "\n\n".join([words, f"![{alt}]({picture})", for_readers(found.text)])


def ends(values: list[float]) -> str:
    """Say from where to where medians go."""
    return f"{min(values):.1f} to {max(values):.1f}"


@told(
    "## Fashion-MNIST, raw pixels",
    "60,000 images with 784 pixels: how long does a fit take, and how good is it?",
    "fashion",
)
def fashion(_page: Page, found: Result) -> str:
    return for_readers(found.text)


@told(
    "## Scaling",
    "How does the time grow with n, d, k and h?",
    "scaling",
)
def growth(page: Page, found: Result) -> str:
    last = found.data["last"]
    slopes = {
        name: scaling.slope(one["values"][-last:], one["seconds"][-last:])
        for name, one in found.data["growth"].items()
    }
    steeper = [scaling.NAMES[name] for name, slope in slopes.items() if slope > 1 + LEVEL]
    faster_than_linear = f"with {', '.join(steeper)}" if steeper else "with none of them"
    words = (
        "The time of a pass grows approximately as "
        + ", ".join(f"{name}^{slope:.2f}" for name, slope in slopes.items())
        + f" (from the last points); faster than linearly {faster_than_linear}."
    )
    picture = page.copied("scaling")
    alt = "Time of one pass against n, d, k and h"
    return words if picture is None else f"{words}\n\n![{alt}]({picture})"


@told(
    "## Time to reach a loss",
    "How long does a good solution take, compared with other ways to minimise the same loss?",
    "time_to_loss",
)
def to_a_loss(page: Page, found: Result) -> str:
    ways = [time_to_loss.OWN_STARTS, *time_to_loss.WAYS]
    words = [way_in_words(found.data, name) for name in ways]
    picture = draw_paths(found.data["sizes"], page.folder)
    alt = "Excess loss against seconds, for each method and size"
    note = (
        "The figure shows the first start; points of LinearTAE are whole fits of that length. "
        "Losses within a millionth of the lowest are drawn at a millionth."
    )
    return "\n\n".join(["\n".join(words), f"![{alt}]({picture})", note, for_readers(found.text)])


def way_in_words(data: dict[str, Any], name: str) -> str:
    """Say how often a method reaches the middle level, and its time relative to LinearTAE."""
    level = len(data["levels"]) // 2
    theirs, ours = (
        np.concatenate([time_to_loss.to_level(one, way, level) for one in data["sizes"]])
        for way in (name, time_to_loss.OURS)
    )
    came, both = np.isfinite(theirs), np.isfinite(theirs) & np.isfinite(ours)
    text = f"- {name}: within {data['levels'][level]} times the lowest loss from {came.sum()} of "
    text += f"{len(came)} starts (LinearTAE from {np.isfinite(ours).sum()})"
    if not both.any():
        return f"{text}."
    ratios = (theirs / ours)[both]
    return f"{text}; {times_as_long(median(ratios))} LinearTAE, {spread(ratios, 1)}."


@told("## Memory", "How much memory does a fit need in addition to the data?", "memory")
def memory(_page: Page, found: Result) -> str:
    return for_readers(found.text)


# Large data ---------------------------------------------------------------------------------------


def large(page: Page) -> str:
    """Data larger than memory, and several processes: one picture for both."""
    streamed, scaled = (page.results.numbers(name) for name in ("out_of_core", "processes"))
    parts = []
    if streamed is not None or scaled is not None:
        picture = draw_large(
            None if streamed is None else streamed.data,
            None if scaled is None else scaled.data["sizes"],
            page.folder,
        )
        alt = "Time of a pass over files, of reading and of computing; speed-up by a second process"
        parts.append(f"![{alt}]({picture})")
    for title, name, found in (
        ("## Data larger than memory", "out_of_core", streamed),
        ("## Several processes", "processes", scaled),
        ("## Workers of Dask", "processes_dask", page.results.numbers("processes_dask")),
    ):
        parts.append(title)
        parts += [missing(name)] if found is None else [for_readers(found.text), provenance(found)]
    return "\n\n".join(parts)


@told("## Many machines: a cost model", "How long would a billion rows take?", "cost_model")
def machines(_page: Page, found: Result) -> str:
    known = found.data["machines"]
    gap = max(abs(one["simulated_sum_seconds"] / one["sum_seconds"] - 1) for one in known)
    last = known[-1]
    total = duration(found.data["passes"] * last["pass_seconds"])
    words = (
        f"On {last['machines']} machines, {found.data['passes']} passes over "
        f"{size_text(found.data['size'])} would take {total}. Formula and simulation of the "
        f"all-reduce differ by at most {100 * gap:.1g} %."
    )
    return f"{words}\n\n{found.text}"
