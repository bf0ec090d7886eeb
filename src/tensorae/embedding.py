"""embed: rows -> coordinates in which neighbours lie together, for the linear model to cluster.

Shapes: n samples, d features, q dimensions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator

from tensorae._parameters import check_integer
from tensorae._torch import isolated_torch
from tensorae._validation import (
    as_rows,
    check_rows,
    check_seed,
)
from tensorae.deep.neighborhoods import (
    DIMENSIONS,
    NEIGHBORS,
    SEEN_ROWS,
    Neighborhoods,
    compared_points,
)
from tensorae.exceptions import InvalidInputError

__all__ = ["embed"]


@isolated_torch()
def embed(
    X: Any,
    n_components: int = DIMENSIONS,
    *,
    n_neighbors: int = NEIGHBORS,
    random_state: Any = None,
) -> np.ndarray:
    """Place samples so that neighbours stay together and groups come apart, by UMAP.

    Groups of images and curved groups, such as rings, become blobs, which :class:`LinearTAE` finds;
    ``TAE(init="manifold")`` starts from there. What comes out says who is near whom: distances
    between groups, and directions, mean nothing. It is of these samples alone. It needs the extra
    ``manifold``.

    Parameters
    ----------
    X : array-like or Tensor of shape (n, d), or images
        Rows of more than 50 features are reduced to 30 main directions first; where they are
        intensities, such as pixels or counts (a quarter of the numbers at the lowest value of
        their feature), how strong a row is does not count. Of more than 20,000 rows UMAP sees a
        random sample, and the others are placed by their nearest.
    n_components : int, default=5
        q; two to look at, about five to cluster.
    n_neighbors : int, default=15
        Samples that count as near; at most n - 1.
    random_state : int, RandomState or None, default=None
        Makes it repeatable on the same machine, for rows in the same order.

    Returns
    -------
    ndarray of shape (n, q)
        In double precision.

    Examples
    --------
    Two rings, of which no plane can tell the one from the other:

    >>> from sklearn.datasets import make_circles
    >>> from tensorae import LinearTAE, embed  # doctest: +SKIP
    >>> X, y = make_circles(600, factor=0.4, noise=0.04, random_state=0)
    >>> places = embed(X, random_state=0)  # doctest: +SKIP
    >>> labels = LinearTAE(2, 2, latent_penalty=0.1, random_state=0).fit_predict(
    ...     places
    ... )  # doctest: +SKIP
    >>> bool((labels == y).all() or (labels != y).all())  # doctest: +SKIP
    True
    """
    q = check_integer("n_components", n_components, low=1)
    m = check_integer("n_neighbors", n_neighbors, low=2)
    rows = check_rows(BaseEstimator(), as_rows(X, "X", None), reset=True)
    if rows.streamed:
        raise InvalidInputError(
            "X must be a table in memory for embed, got Batches; take a sample of its rows."
        )
    x = rows.data
    weights = torch.ones(len(x), dtype=x.dtype, device=x.device)
    rng = check_seed(random_state)
    with rows.parallel(min(rows.n, SEEN_ROWS)):  # everybody is compared with these
        near = Neighborhoods.of(compared_points(x, weights, None), rng, n_neighbors=m)
        return near.embedding(rng, n_components=q).cpu().double().numpy()
