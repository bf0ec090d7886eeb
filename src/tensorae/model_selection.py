"""choose: numbers of clusters and settings compared on the same data -> the best model, and why.

Shapes: n samples, d features.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tensorae.linear_tae import LinearTAE

__all__ = ["Choice", "choose"]


@dataclass(frozen=True, eq=False)
class Choice:
    """What :func:`choose` found.

    Attributes
    ----------
    model : LinearTAE
        Fitted with the settings that were chosen.
    table : dict of lists
        All that was compared: a column for each measure, a row for each fit. See ``comparison_``
        of :class:`LinearTAE`; ``pandas.DataFrame(choice.table)`` shows it.
    reason : str
        Why these settings, in one sentence.
    """

    model: LinearTAE
    table: dict[str, list[Any]]
    reason: str

    @property
    def n_clusters(self) -> int:
        """Number of clusters that was chosen."""
        return len(self.model.cluster_centers_)

    def plot(self, *, ax: Any = None) -> Any:
        """Draw the evidence against the number of clusters (needs the extra ``plots``).

        Parameters
        ----------
        ax : matplotlib Axes, optional
            A new one by default.

        Returns
        -------
        matplotlib Axes
        """
        from tensorae.plot import plot_comparison

        return plot_comparison(self.table, ax=ax)

    def __str__(self) -> str:
        return self.reason

    def _repr_html_(self) -> str:
        from tensorae.inspect.model_cards import choice_card

        return choice_card(self.reason, self.table)


def choose(
    X: Any,
    n_clusters: int | str | Iterable[int] = "auto",
    *,
    latent_dim: int | str = "auto",
    latent_penalty: float | str = "auto",
    spread: str = "auto",
    sample_weight: Any = None,
    random_state: Any = None,
    **options: Any,
) -> Choice:
    """Choose the number of clusters and the other settings from the data, without labels.

    Every number of clusters is fitted with every kind of cluster that is left open; neighbouring
    numbers share their starts, so that the whole costs little more than its largest fit. Kinds
    are compared by the integrated completed likelihood (BIC with the entropy of the assignments)
    and by the share of neighbours that clusters cut apart; numbers by the same likelihood, and by
    whether a valley lies between clusters: one heap that is not Gaussian is not counted twice.

    Parameters
    ----------
    X : array-like, Tensor or Batches of shape (n, d)
    n_clusters : int, "auto" or iterable of int, default="auto"
        Numbers to compare; "auto" compares 1 to 10 and, while the evidence grows, up to 50.
    latent_dim, latent_penalty, spread
        As for :class:`LinearTAE`; what is "auto" is compared too.
    sample_weight : array-like of shape (n,), optional
        As for :meth:`LinearTAE.fit`: a weight of two counts like a row that occurs twice.
    random_state : int, RandomState or None, default=None
    **options : dict
        Further parameters of :class:`LinearTAE`.

    Returns
    -------
    Choice

    Examples
    --------
    >>> from tensorae import choose
    >>> from tensorae.datasets import lines_3d
    >>> X, _ = lines_3d(random_state=0)
    >>> choice = choose(X, range(1, 6), random_state=0)
    >>> choice.n_clusters
    3
    >>> choice.model.predict(X).shape
    (300,)
    """
    several = isinstance(n_clusters, Iterable) and not isinstance(n_clusters, str)
    numbers: Any = n_clusters
    model = LinearTAE(
        tuple(numbers) if several else numbers,
        latent_dim,
        latent_penalty=latent_penalty,
        spread=spread,
        random_state=random_state,
        **options,
    )
    model.fit(X, sample_weight=sample_weight)
    return Choice(model, model.comparison_, model.reason_)
