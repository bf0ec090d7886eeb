"""What was compared where settings were left to the data, in the form that pictures take.

Shapes: m fits that were compared, k clusters.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tensorae.inspect import html

__all__ = ["Compared", "ComparedFit", "ComparedKind", "in_short"]

# The scale ends at so many times the median difference: fits beyond it are out of the question.
REACH = 2.5
POOLED = "one covariance for all"
# Room above the last difference that has to be seen.
MARGIN = 1.3


@dataclass(frozen=True)
class ComparedFit:
    """One fit: how far its ICL is above the lowest of all, and what it was.

    Attributes
    ----------
    n_clusters : int
    spread : str
        "shared" or "own".
    latent_dim : int
        Most components of a cluster.
    behind : float
        ICL above the lowest of all fits; infinite where it is unknown.
    cut : float or None
        Share of neighbours in different clusters.
    chosen : bool
    kind : str
        Such as "own spreads, long".
    """

    n_clusters: int
    spread: str
    latent_dim: int
    behind: float
    cut: float | None
    chosen: bool
    kind: str

    @property
    def said(self) -> str:
        """How far it is behind, in words."""
        if not math.isfinite(self.behind):
            return "unknown"
        return f"+{in_short(self.behind)}" if self.behind else "lowest"


@dataclass(frozen=True)
class ComparedKind:
    """All fits of one kind of cluster, by rising number of clusters; one for each number."""

    name: str
    own: bool
    round: bool
    pooled: bool
    fits: tuple[ComparedFit, ...]


@dataclass(frozen=True)
class Compared:
    """A table of comparisons as pictures take it.

    Attributes
    ----------
    kinds : tuple of ComparedKind
    numbers : tuple of int
        Numbers of clusters, rising.
    chosen : ComparedFit
    top : float
        Largest difference that is drawn to scale.
    """

    kinds: tuple[ComparedKind, ...]
    numbers: tuple[int, ...]
    chosen: ComparedFit
    top: float

    @classmethod
    def of(cls, table: Mapping[str, list[Any]]) -> Compared:
        """Sort a table that is not empty, ``comparison_`` of a model, by kinds of clusters.

        Examples
        --------
        >>> from tensorae import choose
        >>> from tensorae.datasets import lines_3d
        >>> from tensorae.inspect.comparison import Compared
        >>> X, _ = lines_3d(random_state=0)
        >>> compared = Compared.of(choose(X, (2, 3, 4), random_state=0).table)
        >>> compared.numbers, compared.chosen.n_clusters
        ((2, 3, 4), 3)
        """
        fits = _fits(table)
        chosen = next(fit for fit in fits if fit.chosen)
        kinds = tuple(
            _kind(name, [fit for fit in fits if fit.kind == name])
            for name in dict.fromkeys(fit.kind for fit in fits)
        )
        numbers = tuple(sorted({fit.n_clusters for fit in fits}))
        return cls(kinds, numbers, chosen, _top(fits, chosen))

    @property
    def best(self) -> list[ComparedFit]:
        """For each number of clusters the fit with the lowest ICL, or the one that was chosen."""
        fits = [fit for kind in self.kinds for fit in kind.fits]
        return [
            min(
                (fit for fit in fits if fit.n_clusters == k),
                key=lambda fit: (not fit.chosen, fit.behind),
            )
            for k in self.numbers
        ]

    @property
    def shown(self) -> list[ComparedFit]:
        """``best``, or a fit of each kind where there is one number of clusters only."""
        return self.best if len(self.numbers) > 1 else [kind.fits[0] for kind in self.kinds]

    def html_table(self) -> str:
        """These fits for notebooks."""
        head = ("clusters", "kind", "components", "ICL", "parted")
        rows = [
            (str(one.n_clusters), one.kind, str(one.latent_dim), one.said, _parted(one))
            for one in self.shown
        ]
        chosen = next((place for place, one in enumerate(self.shown) if one.chosen), None)
        return html.table(head, rows, words=(1,), chosen=chosen)


def _parted(fit: ComparedFit) -> str:
    return "" if fit.cut is None else f"{100 * fit.cut:.1f} %"


def in_short(value: float) -> str:
    """A number that is not negative, with the digits that matter."""
    return f"{value:,.0f}" if value >= 100 or value == round(value) else f"{value:.3g}"


def _fits(table: Mapping[str, list[Any]]) -> list[ComparedFit]:
    known = [value for value in table["icl"] if math.isfinite(value)]
    lowest = min(known, default=0.0)
    cuts = table.get("cut", [None] * len(table["icl"]))
    pooled = table.get("pooled", [False] * len(table["icl"]))
    names = ("n_clusters", "spread", "latent_dim", "latent_penalty", "icl", "chosen")
    return [
        ComparedFit(
            n_clusters=k,
            spread=spread,
            latent_dim=h,
            behind=icl - lowest if math.isfinite(icl) else math.inf,
            cut=cut,
            chosen=chosen,
            kind=POOLED if one else _named(spread, round_ones=_is_round(spread, h, penalty)),
        )
        for k, spread, h, penalty, icl, chosen, cut, one in zip(
            *(table[name] for name in names), cuts, pooled, strict=True
        )
    ]


def _is_round(spread: str, h: int, penalty: float) -> bool:
    """Whether no direction counts: at λ = 1 codes cost as much as errors."""
    return h == 0 or (spread == "shared" and penalty == 1)


def _named(spread: str, *, round_ones: bool) -> str:
    kind = "own spreads" if spread == "own" else "one spread"
    return f"{kind}, {'round' if round_ones else 'long'}"


def _kind(name: str, fits: list[ComparedFit]) -> ComparedKind:
    """The better of two fits with the same number of clusters stands for both."""
    best: dict[int, ComparedFit] = {}
    for fit in sorted(fits, key=lambda fit: (fit.n_clusters, not fit.chosen, fit.behind)):
        best.setdefault(fit.n_clusters, fit)
    own, round_ones = name.startswith("own"), name.endswith("round")
    return ComparedKind(name, own, round_ones, name == POOLED, tuple(best.values()))


def _top(fits: list[ComparedFit], chosen: ComparedFit) -> float:
    """Where the scale ends, so that near rivals are told apart, and what was chosen is seen."""
    known = sorted(fit.behind for fit in fits if math.isfinite(fit.behind))
    if not known or known[-1] == 0:
        return 1.0
    second = known[1] if len(known) > 1 else known[0]
    own = chosen.behind if math.isfinite(chosen.behind) else 0.0
    seen = MARGIN * max(own, second)
    return min(known[-1], max(seen, REACH * statistics.median(known)))
