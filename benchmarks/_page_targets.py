"""Targets of tensorae's speed, size and quality, each beside what the stored results say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import fashion
import numpy as np
import out_of_core
import processes
import processes_dask
import speed
from _common import spread
from _page_results import Results, numbers_of, section, size_text, tables_of

Array = np.ndarray

# Of fits of thirty epochs and more; the start weighs more in shorter ones.
PRICE_TARGET, SHORT_PRICE_TARGET, SHORT_EPOCHS = 1.25, 1.4, 30
# Of loops whose networks take as many steps as ours, and of those that take k times as many.
EQUAL_STEPS, EQUAL_STEPS_TARGET, DEEP_LOSS_TARGET = "batches of 64 k", 1.05, 1.01
PRICE = "Whole TAE fit / one plain autoencoder's training"


@dataclass(frozen=True)
class Target:
    """A figure to aim at and what was measured.

    Attributes
    ----------
    what, case, target, measured : str
    reached : bool
    """

    what: str
    case: str
    target: str
    measured: str
    reached: bool

    def row(self) -> list[str]:
        """Return the cells of a table."""
        reached = "yes" if self.reached else "**NO**"
        return [self.what, self.case, self.target, self.measured, reached]


def at_most(what: str, case: str, values: Array, limit: float, digits: int = 2) -> Target:
    """The median is not to exceed the limit."""
    reached = bool(np.median(values) <= limit)
    return Target(what, case, f"≤ {limit:g}", spread(np.asarray(values), digits), reached)


def at_least(what: str, case: str, values: Array, limit: float, digits: int = 2) -> Target:
    """The median is to be the limit or more."""
    reached = bool(np.median(values) >= limit)
    return Target(what, case, f"≥ {limit:g}", spread(np.asarray(values), digits), reached)


def all_targets(results: Results) -> list[Target]:
    """Return every target whose benchmark has stored results."""
    parts = (
        pass_targets, whole_fit_targets, fashion_targets, memory_targets, deep_targets,
        large_targets, process_targets, quality_targets,
    )  # fmt: skip
    return [target for part in parts for target in part(results)]


# Linear -------------------------------------------------------------------------------------------


def pass_targets(results: Results) -> Iterator[Target]:
    found = results.numbers("speed")
    records = [] if found is None else found.data["passes"]
    for one in records:
        yield at_most(
            "LinearTAE pass / KMeans iteration",
            size_text(one["size"]),
            one["k_means_ratio"],
            speed.K_MEANS_TARGET,
        )
    for one in records:
        if one["size"]["d"] >= speed.PRODUCT_WIDTH:
            case = size_text(one["size"])
            ratio = one["product_ratio"]
            yield at_most("LinearTAE pass / bare product", case, ratio, speed.PRODUCT_TARGET)
    for one in records:
        if "mixture_ratio" in one:
            yield at_least(
                "GaussianMixture iteration / LinearTAE pass",
                size_text(one["size"]),
                one["mixture_ratio"],
                speed.MIXTURE_PASS_TARGET,
                1,
            )


def whole_fit_targets(results: Results) -> Iterator[Target]:
    found = results.numbers("speed")
    for one in [] if found is None else found.data["whole"]:
        yield at_least(
            "GaussianMixture fit / LinearTAE fit",
            f"{one['data']}, threads: {one['threads']}",
            one["mixture_ratio"],
            speed.MIXTURE_FIT_TARGET,
        )


def fashion_targets(results: Results) -> Iterator[Target]:
    found = results.numbers("fashion")
    if found is None:
        return
    case = f"Fashion-MNIST {found.data['n']:,} x {found.data['d']}"
    ours, mixture = (found.data["methods"][name] for name in (fashion.OURS, fashion.MIXTURE))
    seconds = [fashion.column(records, "seconds") for records in (mixture, ours)]
    yield at_least(
        "GaussianMixture fit / LinearTAE fit",
        case,
        seconds[0] / seconds[1],
        fashion.SPEED_TARGET,
        1,
    )
    ari, theirs = fashion.column(ours, "ari"), float(fashion.column(mixture, "ari").mean())
    yield Target(
        "LinearTAE's mean ARI",
        case,
        f"≥ {theirs:.3f}, GaussianMixture's",
        f"{ari.mean():.3f} [{ari.min():.3f}, {ari.max():.3f}]",
        bool(ari.mean() >= theirs),
    )


def memory_targets(results: Results) -> Iterator[Target]:
    found = results.page("memory")
    for row in [] if found is None else tables_of(found.text)[0]:
        beyond, limit = (numbers_of(row[name])[0] for name in ("beyond", "limit"))
        case = f"{row['fit']}, X of {row['X']} MB"
        target, measured = f"< {limit:g}", f"{beyond:g}"
        yield Target("Memory beyond X, MB", case, target, measured, bool(beyond < limit))


def quality_targets(results: Results) -> Iterator[Target]:
    found = results.page("clustering_quality")
    if found is None:
        return
    rows = tables_of(found.text)[0]
    short = [row["data"] for row in rows if row["reached"] != "yes"]
    measured = f"{len(rows) - len(short)}" + (f" (not {'; '.join(short)})" if short else "")
    what = "Sets whose ARI reaches its target"
    yield Target(what, "beside the published code", f"{len(rows)}", measured, not short)


# Deep ---------------------------------------------------------------------------------------------


def deep_targets(results: Results) -> Iterator[Target]:
    found = results.page("deep_price")
    if found is None:
        return
    for row in _rows(found.text, "Price"):
        case = f"{row['architecture']}, {row['epochs']} epochs"
        short = numbers_of(row["epochs"])[0] < SHORT_EPOCHS
        limit = SHORT_PRICE_TARGET if short else PRICE_TARGET
        yield _from_cell(PRICE, case, row["TAE / plain"], limit)
    rows = _rows(found.text, "Loss beside the naive loop")
    for column in rows[0] if rows else ():
        if column.startswith("TAE / "):
            values = np.concatenate([numbers_of(row[column]) for row in rows])
            what, case = "TAE's loss / naive loop's", column.removeprefix("TAE / naive, ")
            limit = EQUAL_STEPS_TARGET if EQUAL_STEPS in column else DEEP_LOSS_TARGET
            yield at_most(what, case, values, limit, 3)
    for row in _rows(found.text, "Beside ClustPy"):
        if row["method"] != "TAE":
            middle = numbers_of(row["time / TAE"])[0]
            case = "equal epochs"
            what = f"ClustPy's {row['method']} / TAE, time"
            yield Target(what, case, "> 1", row["time / TAE"], bool(middle > 1))


def _rows(text: str, heading: str) -> list[dict[str, str]]:
    part = section(text, heading)
    return [] if part is None else tables_of(part)[0]


def _from_cell(what: str, case: str, cell: str, limit: float) -> Target:
    return Target(what, case, f"≤ {limit:g}", cell, bool(numbers_of(cell)[0] <= limit))


# Large data ---------------------------------------------------------------------------------------


def large_targets(results: Results) -> Iterator[Target]:
    found = results.numbers("out_of_core")
    if found is None:
        return
    figures = found.data
    case = f"{figures['rows']:,.0f} rows, {figures['bytes'] / 1e9:.2f} GB"
    peak, limit = figures["fit_peak_bytes"], out_of_core.PEAK_TARGET
    yield Target(
        "Peak memory of a fit from files",
        case,
        f"< {limit / 1e9:g} GB",
        f"{peak / 1e9:.2f} GB",
        peak < limit,
    )
    ratio, limit = figures["pass_ratio"], out_of_core.PASS_TARGET
    what = "Pass over files / the larger of reading and computing"
    yield Target(what, case, f"≤ {limit:g}", f"{ratio:.2f}", ratio <= limit)


def process_targets(results: Results) -> Iterator[Target]:
    found = results.numbers("processes")
    records = [] if found is None else found.data["sizes"]
    for one in (record for record in records if not record["ahead"]):
        yield at_least(
            "Speed-up by a second process",
            size_text(one["size"]),
            one["speed_up"],
            processes.SPEED_UP_TARGET,
        )
    workers = results.numbers("processes_dask")
    for one in [] if workers is None else workers.data["sizes"]:
        yield at_least(
            "Speed-up by a second Dask worker",
            size_text(one["size"]),
            one["speed_up"],
            processes_dask.SPEED_UP_TARGET,
        )
