"""``explore``: read a table, choose columns, prepare, fit; the rest is computed on demand.

Shapes: n rows, d features.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tensorae._parameters import Interval, check_integer
from tensorae._progress import line_on_stderr
from tensorae._warnings import collected_warnings, warn
from tensorae.data.columns import note_on_header
from tensorae.data.files import ReadOptions
from tensorae.data.preparation import Preparation
from tensorae.data.selection import Category, ColumnSelection, select_columns
from tensorae.data.table import as_table
from tensorae.deep.wavelets import LEAST_SIDE, image_points
from tensorae.exceptions import InvalidInputError, InvalidParameterError
from tensorae.exploration.result import Call, Exploration
from tensorae.linear_tae import LinearTAE
from tensorae.table_model import TableModel

__all__ = ["explore"]

# Groups of larger tables are found on a sample of so many rows.
LARGE = 20_000
FEWEST_ROWS = 3
# The linear model of pixels: it keeps the labels that it starts from (800 digits: ARI .75, as they
# have; with "auto" .43, as without them).
PIXEL_LATENT_DIM, PIXEL_PENALTY = 10, 0.1


def explore(
    data: Any,
    *,
    columns: Sequence[str] = (),
    ignore: Sequence[str] = (),
    target: str | None = None,
    categorical_features: Sequence[str] | str | None = "auto",
    n_clusters: int | str = "auto",
    scale: str = "auto",
    max_rows: int = LARGE,
    random_state: int = 0,
    verbose: bool | None = None,
    options: ReadOptions | None = None,
) -> Exploration:
    """Take a first look at a table, without any decision.

    Columns that cannot tell groups apart are left out, with reasons; the others are scaled where
    their units differ; missing values are kept. Where the numbers alone show no clear groups,
    categories are part of the fit: text, truth values, and whole numbers of few values. The number
    of groups and their spread are chosen from the data. Everything else is computed on demand, for
    the summary or the page: whether halves of the rows agree on the groups, which rows are unusual,
    which trends are reversed inside groups, and how the columns that were left out relate to the
    groups. Images of 8 x 8 pixels or more are compared by their scattering features; a linear model
    of the pixels starts from the groups found.

    Parameters
    ----------
    data : object
        Path or list of paths, data frame of pandas or polars, pyarrow Table, dict of columns, array
        or Tensor of shape (n, …). Files are CSV, TSV, Parquet, Arrow, .npy, images, or folders of
        them.
    columns : sequence of str
        Use just these.
    ignore : sequence of str
        Use all but these.
    target : str, optional
        An outcome: left out of the fit, and compared with the groups before other columns.
    categorical_features : "auto", None or sequence of str, default="auto"
        Columns that are categories. "auto" takes those that carry information (text that names no
        rows, truth values, whole numbers of few values, columns of mostly zeros; all related to
        another column), unless the numbers alone show clear groups: then they are compared with
        these, which is independent evidence. None takes numbers only.
    n_clusters : int or "auto", default="auto"
        Number of groups; "auto" compares 1 to 10 and, while the evidence grows, up to 50.
    scale : {"auto", "none", "standard", "max", "log"}, default="auto"
        "auto" takes logarithms of columns without negative values that are skewed, and standardises
        if there are any or the units of columns differ; "log" takes those of every such column.
    max_rows : int, default=20_000
        Groups of a larger table are found on a sample of so many rows.
    random_state : int, default=0
    verbose : bool, optional
        Show a line of progress on standard error; by default in interactive sessions, such as
        notebooks, where it takes more than two seconds.
    options : ReadOptions, optional
        How to read files.

    Returns
    -------
    Exploration

    Examples
    --------
    >>> from palmerpenguins import load_penguins
    >>> from tensorae import explore
    >>> found = explore(load_penguins())
    >>> found.n_clusters, [str(one) for one in found.left_out]
    (3, ['species (text)', 'island (text)', 'sex (text)', 'year (only 3 values: 2007, 2008, 2009)'])
    >>> found.comparisons[0].name
    'species'
    """
    Interval(int, 1, auto=True).check("n_clusters", n_clusters)
    check_integer("max_rows", max_rows, low=100)
    check_integer("random_state", random_state, low=0)
    table = as_table(data, options)
    if table.n_rows < FEWEST_ROWS:
        raise InvalidInputError(
            f"{table.name!r} must have at least {FEWEST_ROWS} rows, got {table.n_rows}; add rows."
        )
    header = note_on_header(table)
    if header:
        warn(header, UserWarning)
    given = {
        "columns": tuple(columns),
        "ignore": tuple(ignore),
        "target": target,
        "categorical_features": categorical_features
        if categorical_features is None or isinstance(categorical_features, str)
        else tuple(categorical_features),
        "n_clusters": n_clusters,
        "scale": scale,
        "max_rows": int(max_rows),
        "random_state": int(random_state),
    }
    usual = inspect.signature(explore).parameters
    arguments = {name: value for name, value in given.items() if value != usual[name].default}
    source = Call.of(data, table, arguments, options)
    name = table.name
    if len(source.paths) == 1:
        name = Path(source.paths[0]).name or source.paths[0]
    if table.samples is not None and table.samples.dtype.kind == "f":
        # Infinite values become missing, as in tables, so that their rows can stay.
        samples = np.where(np.isinf(table.samples), np.nan, table.samples)
        table = replace(table, samples=samples)
    if isinstance(categorical_features, str) and categorical_features != "auto":
        raise InvalidParameterError(
            'categorical_features must be "auto", None or a list of names of columns, got '
            f"{categorical_features!r}; put a single name into a list."
        )
    selection = select_columns(
        table, columns=columns, ignore=ignore, target=target, categories=categorical_features
    )

    def fitted(selection: ColumnSelection, kept_beside: tuple[Category, ...] = ()) -> Exploration:
        preparation, rows = Preparation.learn(
            selection.table,
            1,
            columns=selection.columns or (),
            categories={one.name: one.kind for one in selection.categories},
            scale=scale,
            gaps=True,
        )
        preparation = replace(
            preparation,
            formats={**preparation.formats, **selection.formats},
            infinite_as_missing=True,
        )
        has_value = np.asarray(~rows.missing.all(1))
        rows = rows if has_value.all() else rows.take(has_value)  # others could be in any group
        sample, n = None, len(rows.numbers)
        if n > max_rows:
            sample = np.sort(np.random.RandomState(random_state).permutation(n)[:max_rows])
        model, features = LinearTAE(n_clusters, random_state=random_state), None
        with collected_warnings() as caught, line_on_stderr(verbose):  # they are part of the result
            X = rows.X if sample is None else rows.take(sample).X
            if preparation.shape is not None and not rows.missing.any():
                features = _image_features(X, preparation.shape)
            if features is not None:
                model = _model_of_pixels(model.fit(features), X.shape[1])
            model.fit(X)
        return Exploration(
            name=name,
            model=TableModel(model, preparation),
            selection=selection,
            rows=rows,
            sample=sample,
            given=data,
            source=source,
            seed=int(random_state),
            target=target,
            verbose=verbose,
            warnings=tuple(dict.fromkeys(caught)),
            kept_beside=kept_beside,
            features=features,
        )

    numbers = selection.without_categories()
    many = len(numbers.columns or ()) > len(selection.categories) > 0
    if many and not columns and categorical_features == "auto":
        found = fitted(numbers, selection.categories)
        if found.grade == "clear":
            return found
    return fitted(selection)


def _image_features(X: Any, shape: tuple[int, ...]) -> np.ndarray | None:
    """Coordinates (n, q) in which images are compared; None where rows are no images."""
    shape = shape if len(shape) == 3 else (1, *shape)
    if len(shape) != 3 or shape[0] not in (1, 3) or min(shape[1:]) < LEAST_SIDE:
        return None
    x = torch.as_tensor(np.asarray(X, np.float32)).reshape(len(X), -1)
    channels, height, width = shape
    with torch.no_grad():
        return image_points(x, torch.ones(len(x)), (channels, height, width)).numpy()


def _model_of_pixels(found: LinearTAE, d: int) -> LinearTAE:
    """Linear model of d pixels, not yet fitted, that starts from groups of the images."""
    labels = np.unique(found.labels_, return_inverse=True)[1]
    k = int(labels.max()) + 1
    return LinearTAE(
        k,
        min(PIXEL_LATENT_DIM, d - 1),
        latent_penalty=PIXEL_PENALTY,
        init=labels if k > 1 else "k-means++",
        random_state=found.random_state,
    )
