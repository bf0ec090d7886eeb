"""Check, ask the model, fill the templates, write the file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tensorae._files import open_atomically
from tensorae.exceptions import InvalidParameterError
from tensorae.explain.inputs import check_fitted
from tensorae.report.page import render
from tensorae.report.results import Results

__all__ = ["write_report"]

# More points than this make a page that is slow to open.
MOST_POINTS = 20_000


def write_report(
    model: Any,
    X: Any,
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    identifiers: Any = None,
    feature_names: Sequence[str] | None = None,
    shape: Sequence[int] | None = None,
    noise: float | str | None = None,
    max_points: int = 5000,
) -> Path:
    """Write a page on what was fitted; ``model.report`` calls this and says more.

    Parameters
    ----------
    model : LinearTAE or TAE
        Fitted.
    X : array-like or Tensor of shape (n, d)
    path : path-like
        Of the page.
    title, identifiers, feature_names, shape, noise, max_points
        As in ``model.report``.

    Returns
    -------
    Path

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from tensorae import LinearTAE
    >>> from tensorae.datasets import load_iris
    >>> X = load_iris().data
    >>> model = LinearTAE(3, latent_dim=1, random_state=0).fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = model.report(X, Path(folder, "report.html"), title="Iris")
    ...     "<title>Iris</title>" in page.read_text("utf-8")
    True
    """
    check_fitted(model)
    _check_points(max_points)
    place = _checked_path(path)
    # Opened first, so that a place that cannot be written is known before the work is done.
    with open_atomically(place) as file:
        results = Results.of(
            model,
            X,
            identifiers=identifiers,
            feature_names=feature_names,
            shape=shape,
            noise=noise,
        )
        file.write(render(results, title=title, max_points=int(max_points)).encode())
    return place


def _checked_path(path: str | os.PathLike[str]) -> Path:
    try:
        return Path(path)
    except TypeError:
        raise InvalidParameterError(
            f"path must be the name of a file, got {type(path).__name__}; "
            'give one such as "report.html".'
        ) from None


def _check_points(max_points: int) -> None:
    whole = isinstance(max_points, int | np.integer) and not isinstance(max_points, bool)
    if not whole or not 1 <= max_points <= MOST_POINTS:
        raise InvalidParameterError(
            f"max_points must be a whole number from 1 to {MOST_POINTS}, got {max_points!r}; "
            "5000 is usual."
        )
