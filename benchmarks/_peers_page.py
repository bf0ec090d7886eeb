"""The page of the comparison with peers: tables, and what they say in words."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from _common import duration, spread, table
from _peers import (
    CLUSTPY,
    DEEP,
    GROUPS,
    LARGE_FASHION,
    LINEAR,
    METHODS,
    OWN,
    TOO_LONG,
)
from _peers_records import Record

Array = np.ndarray

# Means of scores that are closer than this count as level.
LEVEL = 0.01
PEERS = tuple(name for name in METHODS if name not in OWN)
NOTHING = "–"


class Results:
    """Finished runs, by set and method."""

    def __init__(self, records: Sequence[Record]) -> None:
        self.records = records
        self._runs: dict[tuple[str, str], dict[int, Record]] = {}
        for record in records:
            self._runs.setdefault((record["set"], record["method"]), {})[record["seed"]] = record
        self.sets = [
            name
            for names in GROUPS.values()
            for name in names
            if any((name, method) in self._runs for method in METHODS)
        ]
        self.methods = [
            method for method in METHODS if any((name, method) in self._runs for name in self.sets)
        ]

    def runs(self, name: str, method: str) -> dict[int, Record]:
        """Return the runs that gave labels, by seed."""
        found = self._runs.get((name, method), {})
        return {seed: found[seed] for seed in sorted(found) if "error" not in found[seed]}

    def of(self, name: str, method: str, what: str) -> Array:
        """Return a number for each seed, such as "ari" or "seconds"."""
        return np.array([record[what] for record in self.runs(name, method).values()])

    def ratios(self, name: str, method: str) -> Array:
        """Return times in units of LinearTAE with the same seed."""
        base, runs = self.runs(name, LINEAR), self.runs(name, method)
        return np.array([runs[s]["seconds"] / base[s]["seconds"] for s in runs if s in base])

    def apart(self, name: str, method: str) -> bool:
        """Whether a method ran in another session than LinearTAE with the same seed."""
        base, runs = self.runs(name, LINEAR), self.runs(name, method)
        return any(runs[s]["session"] != base[s]["session"] for s in runs if s in base)

    def mean(self, name: str, method: str) -> float:
        """Return the mean ARI, NaN where the method has not run."""
        scores = self.of(name, method, "ari")
        return float(scores.mean()) if len(scores) else np.nan

    def best_peer(self, name: str) -> str | None:
        known = [method for method in PEERS if self.runs(name, method)]
        return max(known, key=lambda method: self.mean(name, method), default=None)


# Tables -------------------------------------------------------------------------------------------

Cell = Callable[[Results, str, str], str]


def tables(results: Results, cell: Cell, *extra_rows: tuple[str, Cell]) -> str:
    """Return a table for each group of sets: a row for each method, a column for each set."""
    texts = []
    for group, names in GROUPS.items():
        sets = [name for name in names if name in results.sets]
        rows = [
            [method, *(cell(results, name, method) for name in sets)] for method in results.methods
        ]
        rows += [[label, *(of(results, name, LINEAR) for name in sets)] for label, of in extra_rows]
        known = [row for row in rows if any(text != NOTHING for text in row[1:])]
        if known:
            texts.append(table([group, *sets], known))
    return "\n\n".join(texts)


def score_cell(what: str) -> Cell:
    def cell(results: Results, name: str, method: str) -> str:
        scores = results.of(name, method, what)
        if not len(scores):
            return NOTHING
        best = max(np.mean(results.of(name, m, what)) for m in METHODS if results.runs(name, m))
        mean = f"{scores.mean():.3f}"
        mean = f"**{mean}**" if mean == f"{best:.3f}" else mean
        if len(scores) == 1:
            return f"{mean} (1 seed)"
        return f"{mean} ± {scores.std():.3f} [{scores.min():.3f}]"

    return cell


def seconds_cell(results: Results, name: str, method: str) -> str:
    seconds = results.of(name, method, "seconds")
    return f"{duration(float(np.median(seconds)))} ({len(seconds)})" if len(seconds) else NOTHING


def preparing_cell(results: Results, name: str, method: str) -> str:
    seconds = results.of(name, method, "preparing")
    if name not in GROUPS["Images"] or not len(seconds):
        return NOTHING
    return duration(float(np.median(seconds)))


def ratio_cell(results: Results, name: str, method: str) -> str:
    ratios = results.ratios(name, method)
    if not len(ratios):
        return NOTHING
    mark = "*" if results.apart(name, method) else ""
    digits = 2 if np.median(ratios) < 10 else 0
    shown = f"{ratios[0]:.{digits}f}" if len(ratios) == 1 else spread(ratios, digits)
    return shown + mark


def set_rows(results: Results) -> str:
    rows = []
    for name in results.sets:
        record = next(r for r in results.records if r["set"] == name)
        rows.append([name, f"{record['n']:,}", str(record["d"]), str(record["k"])])
    return table(["set", "rows", "features", "clusters"], rows)


# In words -----------------------------------------------------------------------------------------


def in_words(results: Results) -> str:
    """Say where tensorae wins and loses, by the numbers of the tables."""
    lines = [against_best(results, own) for own in (LINEAR, DEEP)]
    lines += [own_difference(results), slower_and_faster(results)]
    return "\n".join(f"- {line}" for line in lines if line)


def against_best(results: Results, own: str) -> str:
    """Compare a model with the best peer of every set."""
    ahead, level, behind = [], [], []
    for name in results.sets:
        peer = results.best_peer(name)
        if peer is None or not results.runs(name, own):
            continue
        gap = results.mean(name, own) - results.mean(name, peer)
        if abs(gap) < LEVEL:
            level.append(f"{name} ({peer})")
        elif gap > 0:
            ahead.append(f"{name} by {gap:.3f} ({peer})")
        else:
            behind.append(f"{name} by {-gap:.3f} ({peer})")
    total = len(ahead) + len(level) + len(behind)
    if not total:
        return ""
    parts = [
        f"{word} on {len(items)}" + (f": {'; '.join(items)}" if items else "")
        for word, items in (("Ahead", ahead), ("Level", level), ("Behind", behind))
    ]
    return f"**{own}** beside the best peer of each of {total} sets. " + ". ".join(parts) + "."


def own_difference(results: Results) -> str:
    """Say what the deep model adds to the linear one, and what it costs."""
    sets = [s for s in results.sets if results.runs(s, LINEAR) and results.runs(s, DEEP)]
    if not sets:
        return ""
    gaps = {name: results.mean(name, DEEP) - results.mean(name, LINEAR) for name in sets}
    higher = [f"{name} {gap:+.3f}" for name, gap in gaps.items() if gap >= LEVEL]
    lower = [f"{name} {gap:+.3f}" for name, gap in gaps.items() if gap <= -LEVEL]
    times = set_ratios(results, DEEP)
    return (
        f"**{DEEP} beside {LINEAR}**: higher on {_listed(higher)}, lower on {_listed(lower)}, for "
        f"{min(times):.3g} to {max(times):.3g} times the time."
    )


def slower_and_faster(results: Results) -> str:
    """Sort the peers by whether LinearTAE is faster on most sets."""
    faster, slower = [], []
    for peer in PEERS:
        times = set_ratios(results, peer)
        if not len(times):
            continue
        wins = int((times > 1).sum())
        if 2 * wins > len(times):
            faster.append(f"{peer} (on {wins} of {len(times)} sets)")
        else:
            slower.append(f"{peer} (on {len(times) - wins} of {len(times)} sets)")
    return (
        f"**Time**: {LINEAR} is faster than {', '.join(faster) or 'no peer'}; it is not faster "
        f"than {', '.join(slower) or 'no peer'}."
    )


def set_ratios(results: Results, method: str) -> Array:
    """Return the median time in units of LinearTAE, set by set."""
    ratios = (results.ratios(name, method) for name in results.sets)
    return np.array([np.median(values) for values in ratios if len(values)])


def head_to_head(results: Results) -> str:
    """Return how often a peer is beaten, by how much in the mean, and its time."""
    rows = []
    for peer in (m for m in PEERS if m in results.methods):
        cells = [peer]
        for own in (LINEAR, DEEP):
            sets = [s for s in results.sets if results.runs(s, own) and results.runs(s, peer)]
            gaps = np.array([results.mean(s, own) - results.mean(s, peer) for s in sets])
            if not len(gaps):
                cells += [NOTHING, NOTHING]
                continue
            won, lost = int((gaps >= LEVEL).sum()), int((gaps <= -LEVEL).sum())
            cells += [f"{won} / {len(gaps) - won - lost} / {lost}", f"{gaps.mean():+.3f}"]
        times = set_ratios(results, peer)
        rows.append([*cells, spread(times) if len(times) else NOTHING])
    columns = ["peer", f"{LINEAR}: won / level / lost", "mean gain",
               f"{DEEP}: won / level / lost", "mean gain",
               f"time / {LINEAR}"]  # fmt: skip
    return table(columns, rows)


def left_out(results: Results, known_sets: Sequence[str], notes: Sequence[str]) -> str:
    """Say which sets and methods are missing or failed, and why where that is known."""
    lines = list(notes)
    absent = [s for names in GROUPS.values() for s in names if s not in known_sets]
    lines += [f"{name} is left out: its files are not here." for name in absent]
    without = [method for method in CLUSTPY if method not in results.methods]
    if without:
        lines.append(f"{', '.join(without)} of ClustPy have not run.")
    if LARGE_FASHION in results.sets and TOO_LONG:
        lines.append(
            f"{', '.join(TOO_LONG)} are left out on {LARGE_FASHION}: by what they take on 10,000 "
            "rows, a run would last more than five minutes."
        )
    waiting = [m for m in METHODS if METHODS[m].seeds[2] and not results.runs(LARGE_FASHION, m)]
    if LARGE_FASHION in results.sets and waiting:
        lines.append(f"{', '.join(waiting)} have not been run on {LARGE_FASHION}.")
    lines += [
        f"{r['method']} on {r['set']}, seed {r['seed']}, failed: {r['error']}"
        for r in results.records
        if "error" in r
    ]
    states = {record["code"] for record in results.records if record["method"] in OWN}
    if len(states) > 1:
        lines.append(f"The runs of tensorae come from {len(states)} states of its code.")
    return "\n".join(f"- {line}" for line in lines)


def _listed(items: list[str]) -> str:
    return f"{len(items)} sets ({'; '.join(items)})" if items else "no set"


def _time(results: Results, name: str, method: str) -> str:
    return duration(float(np.median(results.of(name, method, "seconds"))))
