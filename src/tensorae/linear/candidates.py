"""Settings that were fitted, with what speaks for them.

Shapes: n samples, k clusters.
"""

from __future__ import annotations

from dataclasses import dataclass

from tensorae.linear.evidence import Evidence
from tensorae.linear.problem import SolverOptions
from tensorae.linear.runs import Run

__all__ = ["CUT_WEIGHT_PER_FEATURE", "Fitted"]

# Weight of neighbours that are cut apart, beside ICL per row.
CUT_WEIGHT, CUT_WEIGHT_PER_FEATURE = 5.0, 2.5


@dataclass(frozen=True)
class Fitted:
    """Settings, their best run among the rows that were searched, and what speaks for it.

    ``cuts`` say how much its clusters cut neighbours apart, and count unless neighbours were
    guessed; ``seconds`` are those that it took.
    """

    options: SolverOptions
    run: Run
    evidence: Evidence
    cuts: tuple[float, float]
    seconds: float
    guessed: bool = False

    @property
    def latent_penalty(self) -> float:
        """λ, or what stands for it where spreads are own."""
        return float(self.run.parameters.model.latent_penalty)

    def named(self, latent_dims: list[int]) -> str:
        """Say what kind of clusters these are, with so many components that count."""
        k = "1 cluster" if self.n_clusters == 1 else f"{self.n_clusters} clusters"
        if not self.options.own_spread:
            h = self.options.latent_dim
            round_ones = self.latent_penalty == 1 or h == 0
            shape = "round" if round_ones else f"{h} component{'s'[: h > 1]} each"
            return f"{k} with one spread, {shape}"
        low, high = min(latent_dims), max(latent_dims)
        if high == 0:
            return f"{k} with own spreads, round"
        span = str(high) if low == high else f"{low} to {high}"
        kind = "one pooled covariance" if self.options.common else "own spreads"
        return f"{k} with {kind}, {span} component{'s'[: high > 1]} each"

    @property
    def score(self) -> float:
        """What families are compared by: the lower the better."""
        if self.guessed:
            # So are the entropies of ICL then: rows with gaps are unclear in any family.
            return self.evidence.bic / self.evidence.n
        weight = CUT_WEIGHT + CUT_WEIGHT_PER_FEATURE * self.run.parameters.n_features
        return self.evidence.icl / self.evidence.n + weight * sum(self.cuts)

    @property
    def n_clusters(self) -> int:
        """Their number."""
        return self.options.n_clusters
