"""What a fit of the linear model is asked for, and what it gives."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from tensorae.assignment import Rule
from tensorae.linear.model import LinearModel
from tensorae.linear.own_spreads import PRIOR_STRENGTH
from tensorae.linear.runs import Run
from tensorae.linear.span import Span

__all__ = ["Solution", "SolverOptions"]


@dataclass(frozen=True)
class SolverOptions:
    """All that decides a fit, checked by the caller.

    Attributes
    ----------
    n_clusters, latent_dim : int
    latent_penalty : float or None
        λ; None where it is estimated.
    rule : Rule
    init : str or Tensor of shape (k, d)
        "k-means++", "k-means", "random", or centres.
    n_init : int or None
        Number of starts; None lets the solver choose.
    max_iter : int
    tol : float
    chunk_rows : int or None
        Rows that are worked on at a time; None lets the solver choose.
    own_spread : bool
        Whether every cluster has its own variances instead of sharing one λ and one noise.
    free_dims : bool
        Whether clusters with own spreads have as many components as pay, up to ``latent_dim``.
    trimmed : bool
        The same, but decided once, when the fit is closed.
    common : bool
        Whether clusters with own spreads have one covariance, pooled over them.
    n_counted : int or None
        Components that count in clusters with own spreads; None for all.
    prior_strength : float
        Members that the prior of own spreads counts as in each cluster.
    pooling : float
        Members of the covariance pooled over all clusters that each is given on top.
    tied_floor : bool
        Whether own spreads are at least as wide as columns with tied values allow (``ties``).
    heats : tuple of pairs of int
        Passes, and how many trials of a moved cluster are left after them, where a search need not
        follow all of them equally far.
    """

    n_clusters: int
    latent_dim: int
    latent_penalty: float | None
    rule: Rule
    init: str | Tensor
    n_init: int | None
    max_iter: int
    tol: float
    chunk_rows: int | None = None
    own_spread: bool = False
    free_dims: bool = False
    trimmed: bool = False
    common: bool = False
    n_counted: int | None = None
    prior_strength: float = PRIOR_STRENGTH
    pooling: float = 0.0
    tied_floor: bool = True
    heats: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Solution:
    """A fitted model in the coordinates of the data.

    Attributes
    ----------
    model : LinearModel
        Without the dimension of starts.
    run : Run
        How the best start went; parameters and sums are about ``shift``.
    shift : Tensor of shape (d,)
        What was taken off the data before the sums.
    n_starts : int
    span : Span or None
        The plane in whose coordinates ``run`` and ``shift`` are, where data is wide.
    tied : Tensor of shape (d,) or None
        Variance that tied values add to own spreads; None where they add none.
    """

    model: LinearModel
    run: Run
    shift: Tensor
    n_starts: int
    span: Span | None = None
    tied: Tensor | None = None
