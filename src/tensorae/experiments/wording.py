"""Figures as words: means with spread, comparisons, verdicts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tensorae.experiments.experiment import Results, Table, Verdict

__all__ = ["bold_best", "listed", "mean_and_spread", "method_table", "seconds_table", "verdict"]

Array = np.ndarray


def mean_and_spread(values: Array, digits: int = 3) -> str:
    """Return ``mean ± standard deviation``, or a dash where nothing was run."""
    if not len(values):
        return "–"
    if len(values) == 1:
        return f"{values[0]:.{digits}f}"
    return f"{values.mean():.{digits}f} ± {values.std():.{digits}f}"


def verdict(held: Sequence[bool]) -> Verdict:
    """Sum up one claim over several data sets."""
    if all(held):
        return "holds"
    return "holds in part" if any(held) else "does not hold"


def listed(names: Sequence[str]) -> str:
    """Return ``a, b and c`` or, where names have commas, ``a; b, c and d``; or "none"."""
    if not names:
        return "none"
    comma = "; " if any("," in name for name in names) else ", "
    return " and ".join(part for part in (comma.join(names[:-1]), names[-1]) if part)


def bold_best(cells: Sequence[str], means: Sequence[float], *, lowest: bool) -> list[str]:
    """Mark the best cell of a row, and those that tie with it as printed, by asterisks."""
    known = [mean for mean in means if not np.isnan(mean)]
    if not known:
        return list(cells)
    best = min(known) if lowest else max(known)
    return [
        f"**{cell}**" if abs(mean - best) < 5e-4 * max(1.0, abs(best)) else cell
        for cell, mean in zip(cells, means, strict=True)
    ]


def method_table(
    title: str,
    results: Results,
    datasets: Sequence[str],
    rows: dict[str, tuple[str, str]],
    *,
    digits: int = 3,
    lowest: bool = False,
) -> Table:
    """Return a table of data sets (down) by methods (across), the best of each row marked.

    ``rows`` names each column's method and metric.
    """
    lines = []
    for dataset in datasets:
        figures = [results.values(dataset, method, metric) for method, metric in rows.values()]
        means = [float(one.mean()) if len(one) else float("nan") for one in figures]
        cells = [mean_and_spread(one, digits) for one in figures]
        lines.append([dataset, *bold_best(cells, means, lowest=lowest)])
    return Table(title, ["data", *rows], lines)


def seconds_table(results: Results, datasets: Sequence[str], methods: Sequence[str]) -> Table:
    """Return a table of how long one fit takes."""
    lines = []
    for dataset in datasets:
        times = [results.seconds(dataset, method) for method in methods]
        lines.append([dataset, *(f"{np.median(t):.2g}" if len(t) else "–" for t in times)])
    return Table("Seconds of one fit on one thread, median", ["data", *methods], lines)
