"""The one nearest-neighbour search of the package.

Shapes: n samples, d features, m neighbours, q queries.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["nearest_neighbors"]


def nearest_neighbors(
    x: Tensor, n_neighbors: int, queries: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Find the nearest rows of ``x``, by scikit-learn's ``NearestNeighbors`` on the CPU.

    Parameters
    ----------
    x : Tensor of shape (n, d)
        Finite rows to search among.
    n_neighbors : int
        m; at most n, or n - 1 without ``queries``.
    queries : Tensor of shape (q, d), optional
        Rows whose neighbours are wanted. By default those of ``x``, where no row is its own
        neighbour (but a copy of it may be).

    Returns
    -------
    distances : Tensor of shape (q, m)
        Euclidean, in ascending order; of the type and on the device of ``x``.
    indices : Tensor of shape (q, m)
        Into ``x``.

    Examples
    --------
    >>> import torch
    >>> from tensorae._neighbors import nearest_neighbors
    >>> distances, indices = nearest_neighbors(torch.tensor([[0.0], [1.0], [3.0]]), 1)
    >>> distances.flatten().tolist(), indices.flatten().tolist()
    ([1.0, 1.0, 2.0], [1, 0, 1])
    """
    from sklearn.neighbors import NearestNeighbors  # takes long to import

    origin = x.mean(0)  # products of rows far from zero would round distances away
    search = NearestNeighbors(n_neighbors=n_neighbors).fit((x - origin).cpu().numpy())
    found = search.kneighbors(None if queries is None else (queries - origin).cpu().numpy())
    distances, indices = (torch.as_tensor(table, device=x.device) for table in found)
    return distances.to(x.dtype), indices
