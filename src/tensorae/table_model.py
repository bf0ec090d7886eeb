"""A fitted estimator that takes tables as they are, and gives results in their units.

Shapes: n rows, k clusters, d columns of the fit, h latent.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from sklearn.utils.metaestimators import available_if

from tensorae._notebook import EstimatorWithCard
from tensorae.data.batches import Batches
from tensorae.data.preparation import Preparation, PreparedTable
from tensorae.data.table import as_table
from tensorae.exceptions import InvalidInputError
from tensorae.persist import save

if TYPE_CHECKING:
    from tensorae.report.widget import MapWidget

__all__ = ["TableModel"]

# Fitted attributes that do not depend on the units of columns, or are sums of costs.
SHARED = {
    "best_epoch_", "categories_", "cluster_sizes_", "comparison_", "converged_",
    "explained_variance_ratio_",
    "history_", "input_shape_", "is_categorical_", "labels_", "latent_dims_", "latent_penalty_",
    "level_probabilities_", "loss_", "loss_path_",
    "n_features_in_", "n_iter_", "n_samples_", "objective_path_", "offset_", "pooled_",
    "reason_", "spread_", "weights_",
}  # fmt: skip
Method = TypeVar("Method", bound=Callable[..., Any])


def _if_estimator_has(name: str) -> Callable[[Method], Method]:
    """Offer a method only if the estimator has it."""
    decorator: Callable[[Method], Method] = available_if(lambda self: hasattr(self.estimator, name))
    return decorator


def _delegated(name: str, summary: str, shape: str = "(n,)", *, rows: bool = False) -> Any:
    """The estimator's method for prepared rows; with ``rows``, the result is rows as well."""

    def method(self: TableModel, X: Any) -> Any:
        return self._rows_from(name, X) if rows else self._result(name, X)

    method.__name__, method.__qualname__ = name, f"TableModel.{name}"
    method.__doc__ = f"""{summary}

        Parameters
        ----------
        X : table or array of shape (n, d)

        Returns
        -------
        {f"ndarray of shape {shape}" if shape else "float"}
        """
    # A detector's `transform` gives no codes.
    return _if_estimator_has("inverse_transform" if name == "transform" else name)(method)


class TableModel(EstimatorWithCard):
    """A fitted estimator that takes tables as they are, and gives results in their units.

    It is ``explore(...).model``, and what :func:`tensorae.load` returns for a file of
    ``tensorae explore``, ``tensorae fit`` or ``tensorae outliers``: an estimator that was fitted to
    some columns of a table, on a common scale, with the steps from such a table to the fit.

    Every method that takes X takes a data frame of pandas or polars, a pyarrow Table, a dict of
    columns, the path of a file, or an array of shape (n, d). In a table, the columns of the fit are
    found by name: their order does not matter, others are ignored, and a missing one is an error.
    Numbers that were text in the fit, with decimal commas or words for missing values, are read as
    in the fit. An array, or ``Batches``, has the columns of the fit in their order. Results that
    are rows, or parts of rows, are in the units of the table as well:

    - ``reconstruct``, ``denoise``, ``impute``, ``impute_std``, ``inverse_transform``, ``sample``
      and ``cluster_centers_`` are in the units of the table, with columns in the order of
      ``feature_names_in_``;
    - ``predict``, ``predict_proba``, ``outlier_probability``, ``labels_``, ``weights_`` and the
      like have no units;
    - ``transform``, ``costs``, ``score_samples``, ``score``, ``log_density``, ``bic``, ``aic``,
      ``decision_function`` and ``loss_`` are those of the estimator, on the scale of the fit, as
      they are sums over columns. So is the ``noise`` of ``denoise``.

    All other attributes on the scale of the fit, such as ``components_``, are those of
    ``estimator``.

    Parameters
    ----------
    estimator : LinearTAE, TAE or OutlierTAE
        Fitted to prepared rows.
    preparation : Preparation
        Columns, scale and number formats of the fit.

    Attributes
    ----------
    estimator : LinearTAE, TAE or OutlierTAE
        The estimator itself; it takes rows on the scale of the fit, ``prepare(X).X``.
    preparation : Preparation
    feature_names_in_ : ndarray of shape (d,)
        Columns of the fit; only where they have names.
    cluster_centers_ : ndarray of shape (k, d)
        In the units of the table.
    labels_, weights_, cluster_sizes_, loss_, n_iter_, ...
        Those of the estimator.

    See Also
    --------
    tensorae.explore : Finds groups in a table; its ``model`` is a TableModel.
    tensorae.load : Reads a model from a file.

    Examples
    --------
    >>> from palmerpenguins import load_penguins
    >>> from tensorae import explore
    >>> birds = load_penguins().dropna(subset="body_mass_g")
    >>> model = explore(birds).model
    >>> model.predict(birds).shape, model.estimator
    ((342,), LinearTAE(n_clusters='auto', random_state=0))
    >>> grams = model.cluster_centers_[:, list(model.feature_names_in_).index("body_mass_g")]
    >>> bool(3000 < grams.min() < grams.max() < 6000)
    True
    """

    def __init__(self, estimator: Any, preparation: Preparation) -> None:
        self.estimator = estimator
        self.preparation = preparation

    # Rows in ----------------------------------------------------------------------------------

    def prepare(self, X: Any, *, drop_missing: bool = False, gaps: bool = True) -> PreparedTable:
        """Take the columns of the fit from a table and scale them as in the fit.

        Parameters
        ----------
        X : table or array of shape (n, d)
        drop_missing : bool, default=False
            Drop rows that the estimator cannot take; otherwise they are an error.
        gaps : bool, default=True
            Keep missing values if the estimator takes them.

        Returns
        -------
        PreparedTable
            ``X`` is what the estimator takes, ``values`` the same in the units of the table.
        """
        if isinstance(X, PreparedTable):
            return X
        gaps = gaps and self.estimator.__sklearn_tags__().input_tags.allow_nan
        return self.preparation.prepare(as_table(X), drop_missing=drop_missing, gaps=gaps)

    def _result(self, method: str, X: Any, *arguments: Any, **options: Any) -> Any:
        """The estimator's result for rows."""
        if not isinstance(X, Batches):
            X = self.prepare(X).X
        elif self.preparation.categories:
            raise InvalidInputError(
                "X must be a table in memory for a model with categories, got Batches of numbers; "
                "give a data frame."
            )
        else:
            names, columns = X.feature_names, self.preparation.columns
            if names is not None and columns is not None and tuple(names) != columns:
                raise InvalidInputError(
                    f"X must have the columns of the fit in their order, {list(columns)}, got "
                    f"{names}; choose them with Batches(columns=...)."
                )
            X = X.scaled(self.preparation.scaling)
        return getattr(self.estimator, method)(X, *arguments, **options)

    def _rows_from(self, method: str, X: Any, *arguments: Any, **options: Any) -> Any:
        """The estimator's result if it is rows (n, d), in the units and the shape of X."""
        if isinstance(X, Batches):
            return self._in_units(self._result(method, X, *arguments, **options))
        rows = self.prepare(X)
        if rows.levels:
            result = self._result(method, rows, *arguments, **options)
            if isinstance(result, list):
                return [self._as_given(one, X, rows) for one in result]
            return self._as_given(result, X, rows)
        result = self._result(method, rows, *arguments, **options).reshape(-1, *rows.X.shape)
        # Values that the estimator did not change stay as they are in the table, to the bit.
        found = np.where(result == rows.X, rows.values, self._in_units(result))
        leading = found.shape[:-2] if options.get("n_draws") else ()
        return found.reshape(*leading, len(rows.X), *(rows.table.shape or rows.X.shape[1:]))

    def _in_units(self, points: Any) -> Any:
        """Rows on the scale of the fit in the units of the table."""
        if hasattr(points, "column_names"):  # a table with categories
            return self.preparation.undo_frame(points)
        if not np.size(points):
            return np.asarray(points)
        flat = np.asarray(points).reshape(-1, self.preparation.n_numbers)
        return self.preparation.undo(flat).reshape(np.shape(points))

    def _as_given(self, found: Any, X: Any, rows: PreparedTable) -> Any:
        """A table with categories that the estimator made of rows, as a frame like X."""
        # Values that the estimator did not change stay as they are in the table, to the bit.
        whole = self.preparation.undo_frame(found, cells=rows.table)
        for place, name in enumerate(self.preparation.number_columns or ()):
            same = found[name].to_numpy() == rows.scaled[:, place]
            values = np.where(same, rows.values[:, place], whole[name].to_numpy())
            whole = whole.set_column(whole.column_names.index(name), name, [values])
        if hasattr(X, "iloc"):
            return whole.to_pandas().set_index(X.index[rows.numbers])
        if hasattr(X, "with_columns"):
            return type(X)(whole)
        return whole

    predict = _delegated(
        "predict",
        "Cluster of each row; for an ``OutlierTAE`` -1 for outliers and 1 for all others.",
    )
    predict_proba = _delegated(
        "predict_proba", "Probability of each cluster; rows sum to one.", "(n, k)"
    )
    decision_function = _delegated(
        "decision_function", "Score of each row minus ``offset_``: negative for outliers."
    )
    outlier_probability = _delegated(
        "outlier_probability", "Share of ordinary rows that are less unusual."
    )
    transform = _delegated(
        "transform", "Code of each row by the autoencoder of its cluster.", "(n, h)"
    )
    costs = _delegated(
        "costs", "Cost of each row under each autoencoder, on the scale of the fit.", "(n, k)"
    )
    score_samples = _delegated(
        "score_samples",
        "How well each row fits, on the scale of the fit: low for rows that fit no cluster.",
    )
    log_density = _delegated(
        "log_density", "Log of the density of each row, on the scale of the fit."
    )
    bic = _delegated(
        "bic", "Bayesian information criterion, on the scale of the fit; lower is better.", ""
    )
    aic = _delegated(
        "aic", "Akaike information criterion, on the scale of the fit; lower is better.", ""
    )

    level_proba = _delegated(
        "level_proba",
        "Probabilities of the levels of each of ``categories_``, given what a row shows: a list.",
        "(n, n_levels)",
    )

    @_if_estimator_has("score")
    def score(self, X: Any, y: Any = None) -> float:  # noqa: ARG002
        """Mean of ``score_samples``; higher is better.

        Parameters
        ----------
        X : table or array of shape (n, d)
        y : ignored

        Returns
        -------
        float
        """
        return float(self._result("score", X))

    # Rows in and out --------------------------------------------------------------------------

    reconstruct = _delegated(
        "reconstruct",
        "Each row as its autoencoder reconstructs it, in the units of the table.",
        "(n, d)",
        rows=True,
    )

    @_if_estimator_has("denoise")
    def denoise(self, X: Any, *arguments: Any, **options: Any) -> Any:
        """Rows without noise, in the units of the table.

        Parameters
        ----------
        X : table or array of shape (n, d)
        *arguments, **options
            Those of the estimator. The ``noise`` of ``LinearTAE.denoise`` is on the scale of the
            fit.

        Returns
        -------
        ndarray of shape (n, d)
        """
        return self._rows_from("denoise", X, *arguments, **options)

    @_if_estimator_has("impute")
    def impute(self, X: Any, *, n_draws: int | None = None, random_state: Any = None) -> Any:
        """Rows with missing values imputed, in the units of the table; others are unchanged.

        Parameters
        ----------
        X : table or array of shape (n, d)
        n_draws : int, optional
            Return that many imputations instead, with values drawn from their distribution.
        random_state : int, RandomState or None, default=None
            Makes the draws reproducible; None uses that of the estimator.

        Returns
        -------
        ndarray of shape (n, d), or (n_draws, n, d)
        """
        return self._rows_from("impute", X, n_draws=n_draws, random_state=random_state)

    @_if_estimator_has("impute_std")
    def impute_std(self, X: Any) -> Any:
        """Standard deviation of each missing value, in the units of the table; else zero.

        Parameters
        ----------
        X : table or array of shape (n, d)

        Returns
        -------
        ndarray of shape (n, d)
        """
        scaling, deviations = self.preparation.scaling, self._result("impute_std", X)
        if self.preparation.categories:  # of these, the chance to be wrong
            rows, frame = self.prepare(X), self._result("impute", X)
            names = list(self.preparation.number_columns or ())
            places = [rows.columns.index(name) for name in names]
            points = np.stack([frame[name].to_numpy() for name in names], 1)
            found = deviations.copy()
            found[:, places] = scaling.undo_deviation(points, deviations[:, places])
            return found
        if scaling.linear:
            return deviations * scaling.unit
        return scaling.undo_deviation(np.asarray(self._result("impute", X)), deviations)

    @_if_estimator_has("inverse_transform")
    def inverse_transform(self, Z: Any, labels: Any) -> Any:
        """Decode codes by the given autoencoders, in the units of the table.

        Parameters
        ----------
        Z : array-like of shape (n, h)
            Codes, as ``transform`` gives them.
        labels : array-like of shape (n,)
            Which autoencoder each code belongs to, as ``predict`` gives it.

        Returns
        -------
        ndarray of shape (n, d)
        """
        return self._in_units(self.estimator.inverse_transform(Z, labels))

    @_if_estimator_has("sample")
    def sample(self, n_samples: int = 1, **options: Any) -> tuple[Any, Any]:
        """Draw rows, in the units of the table.

        Parameters
        ----------
        n_samples : int, default=1
        **options
            Those of the estimator, such as ``random_state``.

        Returns
        -------
        X : ndarray of shape (n, d)
        labels : ndarray of shape (n,)
            Cluster that each row was drawn from.
        """
        points, labels = self.estimator.sample(n_samples, **options)
        return self._in_units(points), labels

    # Fitted attributes ------------------------------------------------------------------------

    @property
    def feature_names_in_(self) -> np.ndarray:
        """Columns of the fit."""
        if self.preparation.columns is None:
            raise AttributeError("feature_names_in_ needs columns with names in the fit")
        return np.array(self.preparation.columns, dtype=object)

    @property
    def cluster_centers_(self) -> np.ndarray:
        """Centres (k, d) in the units of the table."""
        centers: np.ndarray = self._in_units(self.estimator.cluster_centers_)
        return centers

    @_if_estimator_has("inverse_transform")
    def get_feature_names_out(self) -> Any:
        """Names of the columns of ``transform``."""
        return self.estimator.get_feature_names_out()

    def __getattr__(self, name: str) -> Any:
        if name in SHARED:
            return getattr(self.estimator, name)
        estimator = self.__dict__.get("estimator")  # not there while it is copied
        hint = f"; its estimator has it, on the scale of the fit: model.estimator.{name}"
        known = not name.startswith("_") and hasattr(estimator, name)
        raise AttributeError(f"'TableModel' object has no attribute {name!r}{hint * known}")

    # Display and files ------------------------------------------------------------------------

    @_if_estimator_has("plot")
    def plot(self, X: Any = None, *, shape: Any = None, **options: Any) -> Any:
        """Draw an overview, in the units of the table; see :meth:`tensorae.LinearTAE.plot`.

        Parameters
        ----------
        X : table or array of shape (n, d), optional
            Rows show more than the model alone.
        shape : (height, width) or (c, height, width), optional
            Of one sample, if rows are images; by default that of the fit.
        **options
            ``features``, ``feature_names`` and ``figure``.

        Returns
        -------
        matplotlib Figure
        """
        from tensorae.plot import plot_overview

        return plot_overview(self, X, shape=shape or self.preparation.shape, **options)

    def report(
        self,
        X: Any,
        path: str | os.PathLike[str],
        *,
        identifiers: Any = None,
        **options: Any,
    ) -> Path:
        """Write a page, in the units of the table; see :meth:`tensorae.LinearTAE.report`.

        Parameters
        ----------
        X : table or array of shape (n, d)
        path : path-like
            Of the page; an existing file is replaced.
        identifiers : data frame or dict of columns, optional
            Columns that identify the rows; by default the columns of X outside the fit.
        **options
            Those of the estimator's ``report``, such as ``title`` and ``max_points``.

        Returns
        -------
        Path
            Of the page.
        """
        rows = self.prepare(X)
        options["identifiers"] = rows.identifiers() if identifiers is None else identifiers
        if hasattr(self.estimator, "offset_"):  # it scales columns itself
            if not self.preparation.categories:  # otherwise X has names
                options.setdefault("feature_names", self.preparation.columns)
            page: Path = self.estimator.report(rows.X, path, **options)
            return page
        options.setdefault("shape", self.preparation.shape)
        from tensorae.report import write_report

        return write_report(self, rows, path, **options)

    @_if_estimator_has("widget")
    def widget(self, X: Any, *, identifiers: Any = None, **options: Any) -> MapWidget:
        """Return a map in the units of the table; see :meth:`tensorae.LinearTAE.widget`.

        Parameters
        ----------
        X : table or array of shape (n, d)
        identifiers : data frame or dict of columns, optional
            Columns that identify the rows; by default the columns of X outside the fit.
        **options
            Those of the estimator's ``widget``, such as ``max_points``.

        Returns
        -------
        tensorae.report.widget.MapWidget
        """
        from tensorae.report.widget import map_widget

        rows = self.prepare(X)
        options["identifiers"] = rows.identifiers() if identifiers is None else identifiers
        options.setdefault("shape", self.preparation.shape)
        return map_widget(self, rows, **options)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write estimator and preparation to one file; ``tensorae.load`` reads it.

        Parameters
        ----------
        path : path-like
            An existing file is replaced.
        """
        save(self, path)

    @_if_estimator_has("to_torch")
    def to_torch(self, *, dtype: str | None = None) -> Any:
        """Return the model as an ``nn.Module``; see :meth:`tensorae.LinearTAE.to_torch`.

        Parameters
        ----------
        dtype : {"float32", "float64"}, optional

        Returns
        -------
        tensorae.export.FittedModule
            It takes the columns of the fit in their order, in the units of the table.
        """
        from tensorae.export import to_torch

        return to_torch(self, dtype=dtype)

    @_if_estimator_has("to_onnx")
    def to_onnx(
        self, path: str | os.PathLike[str], *, dtype: str | None = None, check: Any = None
    ) -> None:
        """Write the model to an ONNX file; see :meth:`tensorae.LinearTAE.to_onnx`.

        The file takes the columns of the fit in their order, in the units of the table. Numbers
        that were text in the fit have to be numbers.

        Parameters
        ----------
        path : path-like
        dtype : {"float32", "float64"}, optional
        check : table or array of shape (n, d), optional
        """
        from tensorae.export import to_onnx

        to_onnx(self, path, dtype=dtype, check=check)

    @_if_estimator_has("card")
    def card(self) -> str:
        """Return a model card in Markdown; see :meth:`tensorae.LinearTAE.card`."""
        from tensorae.inspect.model_cards import markdown_card

        return markdown_card(self)

    def __repr__(self) -> str:
        preparation = self.preparation
        columns = preparation.columns
        what = f"{preparation.n_features} features" if columns is None else f"columns={columns!r}"
        return f"TableModel({self.estimator!r}, {what}, scale={preparation.scaling.name!r})"

    def _card(self) -> str | None:
        from tensorae.inspect.model_cards import model_card

        clusters = hasattr(self.estimator, "cluster_sizes_")
        card: str | None = model_card(self) if clusters else self.estimator._card()
        return card
