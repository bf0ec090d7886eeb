"""The fits that were compared when settings were chosen from the data, ready to be displayed.

Shapes: m fits that were compared, k clusters.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tensorae import _notebook
from tensorae._text import percent, signed

__all__ = ["ComparedFamily", "ComparedFit", "ComparisonView"]

# The scale ends at this multiple of the median difference; fits beyond it are out of the question.
REACH = 2.5
# The scale includes the second-best and the chosen fit with this margin.
MARGIN = 1.3


@dataclass(frozen=True)
class ComparedFit:
    """One fit, and how far its ICL is above the lowest of all.

    Attributes
    ----------
    n_clusters : int
    spread : str
        "shared" or "own".
    latent_dim : int
        Largest number of components of a cluster.
    behind : float
        ICL above the lowest of all fits; infinite if it is unknown.
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
        """The difference to the lowest ICL, as text."""
        if not math.isfinite(self.behind):
            return "unknown"
        return signed(self.behind) if self.behind else "lowest"


@dataclass(frozen=True)
class ComparedFamily:
    """All fits of one kind of cluster: one for each number of clusters, in this order."""

    name: str
    own: bool
    round: bool
    pooled: bool
    fits: tuple[ComparedFit, ...]


@dataclass(frozen=True)
class ComparisonView:
    """A table of compared fits, grouped by family.

    Attributes
    ----------
    families : tuple of ComparedFamily
    numbers : tuple of int
        Numbers of clusters, in increasing order.
    chosen : ComparedFit
    top : float
        Largest difference that is drawn to scale.
    """

    families: tuple[ComparedFamily, ...]
    numbers: tuple[int, ...]
    chosen: ComparedFit
    top: float

    @classmethod
    def of(cls, table: Mapping[str, list[Any]]) -> ComparisonView:
        """From a table that is not empty, such as ``comparison_`` of a model.

        Examples
        --------
        >>> from tensorae import choose
        >>> from tensorae.datasets import lines_3d
        >>> from tensorae.inspect.comparison import ComparisonView
        >>> X, _ = lines_3d(random_state=0)
        >>> view = ComparisonView.of(choose(X, (2, 3, 4), random_state=0).table)
        >>> view.numbers, view.chosen.n_clusters
        ((2, 3, 4), 3)
        """
        m = len(table["icl"])
        lowest = min(filter(math.isfinite, table["icl"]), default=0.0)
        defaults: dict[str, list[Any]] = {"cut": [None] * m, "pooled": [False] * m}
        names = ("n_clusters", "spread", "latent_dim", "latent_penalty", "icl", "chosen")
        columns = [table[name] for name in names]
        columns += [table.get(name, default) for name, default in defaults.items()]
        families: dict[str, list[ComparedFit]] = {}
        looks: dict[str, tuple[bool, bool, bool]] = {}
        for k, spread, h, penalty, icl, chosen, cut, pooled in zip(*columns, strict=True):
            # At λ = 1 codes cost as much as errors, so that no direction stands out.
            is_round = h == 0 or (spread == "shared" and penalty == 1)
            kind = f"{'own spreads' if spread == 'own' else 'one spread'}, "
            kind = "one covariance for all" if pooled else kind + ("round" if is_round else "long")
            behind = icl - lowest if math.isfinite(icl) else math.inf
            fit = ComparedFit(k, spread, h, behind, cut, chosen, kind)
            families.setdefault(kind, []).append(fit)
            looks[kind] = (spread == "own" and not pooled, is_round and not pooled, pooled)
        fits = [fit for family in families.values() for fit in family]
        chosen_fit = next(fit for fit in fits if fit.chosen)
        known = sorted(fit.behind for fit in fits if math.isfinite(fit.behind))
        top = 1.0
        if known and known[-1] > 0:
            second = known[1] if len(known) > 1 else known[0]
            own = chosen_fit.behind if math.isfinite(chosen_fit.behind) else 0.0
            shown = max(MARGIN * max(own, second), REACH * statistics.median(known))
            top = min(known[-1], shown)
        return cls(
            tuple(
                ComparedFamily(name, *looks[name], _best_by_number(family))
                for name, family in families.items()
            ),
            tuple(sorted({fit.n_clusters for fit in fits})),
            chosen_fit,
            top,
        )

    @property
    def shown(self) -> tuple[ComparedFit, ...]:
        """The best fit for each number of clusters; with one number, of each family."""
        if len(self.numbers) == 1:
            return tuple(family.fits[0] for family in self.families)
        return _best_by_number([fit for family in self.families for fit in family.fits])

    def html_table(self) -> str:
        """These fits, for notebooks."""
        head = ("clusters", "kind", "components", "ICL", "split")
        rows = [
            (
                str(one.n_clusters),
                one.kind,
                str(one.latent_dim),
                one.said,
                "" if one.cut is None else percent(one.cut),
            )
            for one in self.shown
        ]
        chosen = next((place for place, one in enumerate(self.shown) if one.chosen), None)
        return _notebook.table(head, rows, words=(1,), chosen=chosen)


def _best_by_number(fits: list[ComparedFit]) -> tuple[ComparedFit, ...]:
    """For each number of clusters the chosen fit, or the one with the lowest ICL."""
    best: dict[int, ComparedFit] = {}
    for fit in sorted(fits, key=lambda fit: (fit.n_clusters, not fit.chosen, fit.behind)):
        best.setdefault(fit.n_clusters, fit)
    return tuple(best.values())
