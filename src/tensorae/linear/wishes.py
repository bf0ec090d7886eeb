"""What a user asked for -> the settings that are compared.

Shapes: n samples, k clusters, d features, h latent.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tensorae.linear.problem import SolverOptions

__all__ = ["Wishes"]

# Most components that "auto" gives a cluster.
MOST_COMPONENTS = 64
# Rows per cluster and feature below which full covariances are too much for "auto".
FULL_ROWS = 3
# Rows per cluster and feature from which on each cluster can afford a covariance of its own.
POOLED_ROWS = 40


@dataclass(frozen=True)
class Wishes:
    """What a user asked for, and what was left to the data.

    Attributes
    ----------
    options : SolverOptions
        All that is settled; what is open has a value that means nothing.
    n_clusters : tuple of int
        Numbers of clusters to compare, rising.
    latent_dim : int or None
        h; None where it is open.
    own_spread : bool or None
        Whether spreads are own; None where it is open.
    """

    options: SolverOptions
    n_clusters: tuple[int, ...]
    latent_dim: int | None
    own_spread: bool | None

    def seeded(self) -> Wishes:
        """The same where labels say how to start, so that ``init`` has only the rest to name."""
        if isinstance(self.options.init, str):
            return self
        return replace(self, options=replace(self.options, init="k-means++"))

    def families(self, k: int, n: float, d: int) -> Iterator[SolverOptions]:
        """Settings to compare for k clusters in n rows of d features."""
        options = replace(self.options, n_clusters=k)
        if self.own_spread is not True:
            yield from self._shared(options, d)
        if self.own_spread is not False:
            yield from self._own(options, n, d)

    def _shared(self, options: SolverOptions, d: int) -> Iterator[SolverOptions]:
        shared = replace(options, own_spread=False)
        if self.latent_dim is not None:
            yield replace(shared, latent_dim=self.latent_dim)
            return
        if options.latent_penalty is None:
            yield replace(shared, latent_dim=1, latent_penalty=1.0)
        if d > 1:
            yield replace(shared, latent_dim=1)

    def _own(self, options: SolverOptions, n: float, d: int) -> Iterator[SolverOptions]:
        own = replace(options, own_spread=True)
        if self.latent_dim is not None:
            yield replace(own, latent_dim=self.latent_dim)
            return
        yield replace(own, latent_dim=min(1, d - 1), n_counted=0)
        if d > 1:
            h = min(d - 1, MOST_COMPONENTS)
            full = n >= FULL_ROWS * d * options.n_clusters
            few = n < POOLED_ROWS * d * options.n_clusters
            if d > 2 and options.n_clusters > 1 and few:
                yield replace(own, latent_dim=h, free_dims=not full, trimmed=full, common=True)
            yield replace(own, latent_dim=h, free_dims=not full, trimmed=full)
