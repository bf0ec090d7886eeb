"""A column of the few known labels <-> numbers of clusters.

Shapes: n rows, k clusters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorae.exceptions import InvalidInputError
from tensorae.tables.columns import find_columns
from tensorae.tables.data import Data
from tensorae.tables.formats import listed

__all__ = ["cluster_names", "known_labels"]

UNKNOWN = -1


def known_labels(
    data: Data, column: str, n_clusters: int
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Read the known labels of a column; an empty cell means unknown.

    Whole numbers from 0 to k-1 are numbers of clusters, with -1 for unknown. All else is names,
    which get their numbers in alphabetical order.

    Parameters
    ----------
    data : Data
    column : str
    n_clusters : int
        k

    Returns
    -------
    labels : ndarray of shape (n,)
        -1 where nothing is known.
    names : tuple of str
        Of the first clusters; empty where the labels are numbers of clusters.
    """
    find_columns(data, [column], "--labels")
    texts = [_text(value, data.missing) for value in data.table[column].to_pylist()]
    known = set(texts) - {None}
    if not known:
        raise InvalidInputError(
            f"column {column!r} must have some known labels, got empty cells only; leave out "
            "--labels."
        )
    whole = {text for text in known if text is not None and text.lstrip("-").isdecimal()}
    if whole == known and all(UNKNOWN <= int(text) < n_clusters for text in whole):
        numbers = [UNKNOWN if text is None else int(text) for text in texts]
        return np.array(numbers, dtype=np.int64), ()
    names = sorted((text for text in known if text is not None), key=_order)
    if len(names) > n_clusters:
        raise InvalidInputError(
            f"column {column!r} must have no more labels than clusters, got {len(names)} "
            f"({listed([repr(name) for name in names])}) for {n_clusters}; raise -k."
        )
    place = {name: number for number, name in enumerate(names)}
    numbers = [UNKNOWN if text is None else place[text] for text in texts]
    return np.array(numbers, dtype=np.int64), tuple(names)


def cluster_names(names: Sequence[str], n_clusters: int) -> tuple[str, ...]:
    """A name for each cluster; those that no label named are called "cluster 3", say."""
    rest = [f"cluster {number}" for number in range(len(names), n_clusters)]
    while set(rest) & set(names):
        rest = [f"{name}*" for name in rest]
    return (*names, *rest)


def _text(value: Any, missing: frozenset[str]) -> str | None:
    if isinstance(value, float):
        if not np.isfinite(value):
            return None
        value = int(value) if value.is_integer() else value
    text = "" if value is None else str(value).strip()
    return None if not text or text in missing else text


def _order(text: str) -> tuple[int, float, str]:
    """Numbers by size, then texts by letter."""
    try:
        return 0, float(text), text
    except ValueError:
        return 1, 0.0, text
