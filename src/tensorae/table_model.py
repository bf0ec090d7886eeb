"""A fitted estimator that takes tables as they are, and answers in their units.

Shapes: n rows, k clusters, d columns of the fit, h latent.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from sklearn.utils.metaestimators import available_if

from tensorae._notebook import ShownAsCard
from tensorae.data import Batches, Preparation, PreparedTable, as_table
from tensorae.exceptions import InvalidInputError
from tensorae.persist import save

__all__ = ["TableModel"]

# Fitted attributes that do not depend on the units of columns, or are sums of costs.
SHARED = {
    "best_epoch_", "cluster_sizes_", "comparison_", "converged_", "explained_variance_ratio_",
    "history_", "input_shape_", "labels_", "latent_dims_", "latent_penalty_", "loss_", "loss_path_",
    "n_features_in_", "n_iter_", "n_samples_", "objective_path_", "offset_", "pooled_",
    "reason_", "spread_", "weights_",
}  # fmt: skip
Method = TypeVar("Method", bound=Callable[..., Any])


def _if_estimator_has(name: str) -> Callable[[Method], Method]:
    """Offer a method only where the estimator does."""
    decorator: Callable[[Method], Method] = available_if(lambda self: hasattr(self.estimator, name))
    return decorator


class TableModel(ShownAsCard):
    """A fitted estimator that takes tables as they are, and answers in their units.

    It is ``explore(...).model``, and what :func:`tensorae.load` returns for a file of
    ``tensorae explore``, ``tensorae fit`` or ``tensorae outliers``: an estimator that was fitted to
    some columns of a table, on one scale, together with how to get there from a table.

    Every method that takes X takes a data frame of pandas or polars, a pyarrow Table, a dict of
    columns, the path of a file, or an array of shape (n, d). Of a table the columns of the fit
    are taken by their names: their order does not matter, others are ignored, and one that is
    missing is an error. Numbers that were text in the fit, with decimal commas or single words
    for what is missing, are read as in the fit. An array has the columns of the fit in their
    order; ``Batches`` do, too. Values are in the units of the table, and so are answers that are
    rows or parts of them:

    - ``reconstruct``, ``denoise``, ``impute``, ``impute_std``, ``inverse_transform``, ``sample``
      and ``cluster_centers_`` are in the units of the table, columns in the order of
      ``feature_names_in_``;
    - ``predict``, ``predict_proba``, ``outlier_probability``, ``labels_``, ``weights_`` and the
      like have no units;
    - ``transform``, ``costs``, ``score_samples``, ``score``, ``log_density``, ``bic``, ``aic``,
      ``decision_function`` and ``loss_`` are those of the estimator, on the scale of the fit:
      they add up columns, which only makes sense on one scale. So does the ``noise`` of
      ``denoise``.

    What else is on the scale of the fit, such as ``components_``, has the estimator.

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
        """Take the columns of the fit from a table and bring them to its scale.

        Parameters
        ----------
        X : table or array of shape (n, d)
        drop_missing : bool, default=False
            Leave out rows that the estimator cannot take; otherwise they are an error.
        gaps : bool, default=True
            Let missing values stay where the estimator takes them.

        Returns
        -------
        PreparedTable
            ``X`` is what the estimator takes, ``values`` the same in the units of the table.
        """
        if isinstance(X, PreparedTable):
            return X
        gaps = gaps and self.estimator.__sklearn_tags__().input_tags.allow_nan
        return self.preparation.prepare(as_table(X), drop_missing=drop_missing, gaps=gaps)

    def _ask(self, method: str, X: Any, *arguments: Any, **options: Any) -> Any:
        """What the estimator says about rows."""
        given = self._scaled(X) if isinstance(X, Batches) else self.prepare(X).X
        return getattr(self.estimator, method)(given, *arguments, **options)

    def _scaled(self, batches: Batches) -> Batches:
        """Batches on the scale of the fit; they choose their columns themselves."""
        names, columns = batches.feature_names, self.preparation.columns
        if names is not None and columns is not None and tuple(names) != columns:
            raise InvalidInputError(
                f"X must have the columns of the fit in their order, {list(columns)}, got {names}; "
                "choose them by Batches(columns=...)."
            )
        return batches.scaled(self.preparation.scaling)

    def _ask_for_rows(self, method: str, X: Any, *arguments: Any, **options: Any) -> Any:
        """The same where the answer (n, d) is rows: in the units, and the shape, of X."""
        if isinstance(X, Batches):
            return self._in_units(self._ask(method, X, *arguments, **options))
        rows = self.prepare(X)
        answer = self._ask(method, rows, *arguments, **options).reshape(-1, *rows.X.shape)
        # What the estimator has left alone stays as it is in the table, to the bit.
        found = np.where(answer == rows.X, rows.values, self._in_units(answer))
        leading = found.shape[:-2] if options.get("n_draws") else ()
        return found.reshape(*leading, len(rows.X), *(rows.table.shape or rows.X.shape[1:]))

    def _in_units(self, points: Any) -> Any:
        """Rows of the scale of the fit in the units of the table."""
        flat = np.asarray(points).reshape(-1, self.preparation.n_features)
        return self.preparation.undo(flat).reshape(np.shape(points))

    @_if_estimator_has("predict")
    def predict(self, X: Any) -> Any:
        """Cluster of each row; of an ``OutlierTAE`` -1 for outliers and 1 for all others.

        Parameters
        ----------
        X : table or array of shape (n, d)

        Returns
        -------
        ndarray of shape (n,)
        """
        return self._ask("predict", X)

    @_if_estimator_has("predict_proba")
    def predict_proba(self, X: Any) -> Any:
        """Probability of each cluster.

        Parameters
        ----------
        X : table or array of shape (n, d)

        Returns
        -------
        ndarray of shape (n, k)
            Rows sum to one.
        """
        return self._ask("predict_proba", X)

    @_if_estimator_has("decision_function")
    def decision_function(self, X: Any) -> Any:
        """Score of each row minus ``offset_``: below zero are outliers.

        Parameters
        ----------
        X : table or array of shape (n, d)

        Returns
        -------
        ndarray of shape (n,)
        """
        return self._ask("decision_function", X)

    @_if_estimator_has("outlier_probability")
    def outlier_probability(self, X: Any) -> Any:
        """Share of ordinary rows that are less unusual.

        Parameters
        ----------
        X : table or array of shape (n, d)

        Returns
        -------
        ndarray of shape (n,)
        """
        return self._ask("outlier_probability", X)

    @_if_estimator_has("inverse_transform")
    def transform(self, X: Any) -> Any:
        """Code of each row by the autoencoder of its cluster.

        Parameters
        ----------
        X : table or array of shape (n, d)

        Returns
        -------
        ndarray of shape (n, h)
        """
        return self._ask("transform", X)

    @_if_estimator_has("costs")
    def costs(self, X: Any) -> Any:
        """Cost of each row under each autoencoder, on the scale of the fit.

        Parameters
        ----------
        X : table or array of shape (n, d)

        Returns
        -------
        ndarray of shape (n, k)
        """
        return self._ask("costs", X)

    @_if_estimator_has("score_samples")
    def score_samples(self, X: Any) -> Any:
        """How well each row fits, on the scale of the fit: a low score fits no cluster.

        Parameters
        ----------
        X : table or array of shape (n, d)

        Returns
        -------
        ndarray of shape (n,)
        """
        return self._ask("score_samples", X)

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
        return float(self._ask("score", X))

    @_if_estimator_has("log_density")
    def log_density(self, X: Any) -> Any:
        """Log of the density of each row, on the scale of the fit.

        Parameters
        ----------
        X : table or array of shape (n, d)

        Returns
        -------
        ndarray of shape (n,)
        """
        return self._ask("log_density", X)

    @_if_estimator_has("bic")
    def bic(self, X: Any) -> float:
        """Bayesian information criterion, on the scale of the fit: the lower the better.

        Parameters
        ----------
        X : table or array of shape (n, d)

        Returns
        -------
        float
        """
        return float(self._ask("bic", X))

    @_if_estimator_has("aic")
    def aic(self, X: Any) -> float:
        """Akaike information criterion, on the scale of the fit: the lower the better.

        Parameters
        ----------
        X : table or array of shape (n, d)

        Returns
        -------
        float
        """
        return float(self._ask("aic", X))

    # Rows in and out --------------------------------------------------------------------------

    @_if_estimator_has("reconstruct")
    def reconstruct(self, X: Any) -> Any:
        """Each row as its autoencoder gives it back, in the units of the table.

        Parameters
        ----------
        X : table or array of shape (n, d)

        Returns
        -------
        ndarray of shape (n, d)
        """
        return self._ask_for_rows("reconstruct", X)

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
        return self._ask_for_rows("denoise", X, *arguments, **options)

    @_if_estimator_has("impute")
    def impute(self, X: Any, *, n_draws: int | None = None, random_state: Any = None) -> Any:
        """Rows with missing values filled, in the units of the table; other values stay as is.

        Parameters
        ----------
        X : table or array of shape (n, d)
        n_draws : int, optional
            Give that many completed copies instead, with values drawn from their distribution.
        random_state : int, RandomState or None, default=None
            Makes the draws repeatable; None takes that of the estimator.

        Returns
        -------
        ndarray of shape (n, d), or (n_draws, n, d)
        """
        return self._ask_for_rows("impute", X, n_draws=n_draws, random_state=random_state)

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
        return self._ask("impute_std", X) * self.preparation.scaling.unit

    @_if_estimator_has("inverse_transform")
    def inverse_transform(self, Z: Any, labels: Any) -> Any:
        """Decode codes by the named autoencoders, into the units of the table.

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

    # What is known of the fit -----------------------------------------------------------------

    @property
    def feature_names_in_(self) -> np.ndarray:
        """Columns of the fit."""
        if self.preparation.columns is None:
            raise AttributeError("feature_names_in_: the columns of the fit have no names")
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

    # Shown and kept ---------------------------------------------------------------------------

    @_if_estimator_has("plot")
    def plot(self, X: Any = None, *, shape: Any = None, **options: Any) -> Any:
        """Draw an overview, in the units of the table; see :meth:`tensorae.LinearTAE.plot`.

        Parameters
        ----------
        X : table or array of shape (n, d), optional
            With rows there is more to see.
        shape : (height, width) or (c, height, width), optional
            Says that rows are images; taken from the fit where it knows.
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
            Of the page; an old file there is replaced.
        identifiers : data frame or dict of columns, optional
            What names the rows; by default the columns of X that had no part in the fit.
        **options
            Those of the estimator's ``report``, such as ``title`` and ``max_points``.

        Returns
        -------
        Path
            Of the page.
        """
        rows = self.prepare(X)
        options["identifiers"] = rows.identifiers() if identifiers is None else identifiers
        if hasattr(self.estimator, "offset_"):  # it scales columns itself, so nothing else does
            options.setdefault("feature_names", self.preparation.columns)
            page: Path = self.estimator.report(rows.X, path, **options)
            return page
        options.setdefault("shape", self.preparation.shape)
        from tensorae.report import write_report

        return write_report(self, rows, path, **options)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write estimator and preparation to one file; ``tensorae.load`` reads it.

        Parameters
        ----------
        path : path-like
            An old file there is replaced.
        """
        save(self, path)

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
