"""ImputerTAE: check -> scale -> several mixtures, weighed -> fill.

Shapes: n samples, d features, e features with any value, m members.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import torch
from sklearn.base import TransformerMixin
from sklearn.impute import MissingIndicator
from sklearn.utils import Tags
from sklearn.utils.validation import _check_feature_names_in
from torch import Tensor

from tensorae._notebook import EstimatorWithCard
from tensorae._parameters import Constraints, Interval, check_integer, check_parameters
from tensorae._torch import isolated_torch
from tensorae._validation import (
    check_fitted,
    check_n_clusters,
    check_rows,
    check_sample_weight,
    check_seed,
    column_label,
)
from tensorae._warnings import warn
from tensorae.core.imputation import Limits, Member, candidates_for, fit_members
from tensorae.core.prediction import LinearPredictor
from tensorae.exceptions import InvalidInputError, InvalidParameterError
from tensorae.linear_tae import PASSES
from tensorae.rows import Rows

__all__ = ["ImputerTAE"]

CONSTRAINTS: Constraints = {
    "latent_dim": Interval(int, 0, auto=True),
    "pooling": Interval(float, 0, auto=True),
    "hidden_share": Interval(float, 0, 1, closed="right"),
    "max_iter": Interval(int, 1),
    "tol": Interval(float, 0),
}


class ImputerTAE(TransformerMixin, EstimatorWithCard):
    """Impute missing values from the clusters that a row may belong to.

    Several mixtures of Gaussians, with one cluster or many, are fitted to the observed values by
    EM; each cluster's covariance is pooled with that of all. Some observed values are held out
    first, and mixtures are weighted by how well they predict them. A missing value gets the
    weighted mean of the mixtures' conditional expectations.

    Columns are scaled internally; results are in the original units. Imputed values stay within
    the range of the column in ``fit``; draws may go beyond.

    Parameters
    ----------
    n_clusters : int, sequence of int or "auto", default="auto"
        Clusters of the mixtures; "auto" tries 1, 2, 3, 5, 8 and, with many rows, 12.
    latent_dim : int or "auto", default="auto"
        Components of each cluster. "auto": all (full covariances) up to 80 features, 30 beyond.
    pooling : float or "auto", default="auto"
        How strongly covariances are pooled, in rows per feature: 0 gives each cluster its own, a
        large number the same to all. "auto" is 4, and 1 for more than 8 clusters.
    hidden_share : float in (0, 1), default=0.1
        Share of the observed values that are held out to weight the mixtures.
    round_integers : bool, default=False
        Whether imputed values are rounded in columns that hold integers only.
    add_indicator : bool, default=False
        Whether indicators of missing values are appended as columns, as in ``SimpleImputer``.
    keep_empty_features : bool, default=False
        Whether columns without any value in ``fit`` are kept, filled with zero, or left out.
    max_iter : int, default=15
        Most passes of EM for one mixture.
    tol : float, default=1e-3
        Stop where a pass raises the log-likelihood by no more than this per number in X.
    random_state : int, RandomState or None, default=None
        Makes starts and held-out values repeatable.
    device : str, torch.device or None, default=None
        Where to compute; None: the CPU for arrays, the tensor's own device for tensors.

    Attributes
    ----------
    weights_ : ndarray of shape (m,)
        Weight of each mixture; they sum to one.
    n_clusters_ : ndarray of shape (m,)
        Clusters of each of them.
    hidden_errors_ : ndarray of shape (m,)
        Root mean squared error of each mixture on the held-out values, in standard deviations of
        the columns; NaN where there was nothing to choose.
    n_iter_ : int
        Most passes of any of them.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (d,)
        Only where X has column names.

    See Also
    --------
    LinearTAE.impute : Imputation by one model, whose clusters can be inspected.
    sklearn.impute.KNNImputer : The mean of the nearest rows.

    Notes
    -----
    Values may be missing depending on observed values, but not on themselves (missing at random).
    Text has to be dropped or encoded; ``sklearn.compose.ColumnTransformer`` selects columns.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_iris
    >>> from tensorae import ImputerTAE
    >>> X = load_iris().data
    >>> incomplete = np.where(np.random.RandomState(0).uniform(size=X.shape) < 0.2, np.nan, X)
    >>> filled = ImputerTAE(random_state=0).fit_transform(incomplete)
    >>> missing = np.isnan(incomplete)
    >>> mean = np.broadcast_to(np.nanmean(incomplete, axis=0), X.shape)
    >>> bool(np.abs(filled - X)[missing].mean() < 0.5 * np.abs(mean - X)[missing].mean())
    True
    """

    def __init__(
        self,
        n_clusters: Any = "auto",
        latent_dim: int | str = "auto",
        *,
        pooling: float | str = "auto",
        hidden_share: float = 0.1,
        round_integers: bool = False,
        add_indicator: bool = False,
        keep_empty_features: bool = False,
        max_iter: int = 15,
        tol: float = 1e-3,
        random_state: Any = None,
        device: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.latent_dim = latent_dim
        self.pooling = pooling
        self.hidden_share = hidden_share
        self.round_integers = round_integers
        self.add_indicator = add_indicator
        self.keep_empty_features = keep_empty_features
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.device = device

    @isolated_torch()
    def fit(self, X: Any, y: Any = None, *, sample_weight: Any = None) -> Self:  # noqa: ARG002
        """Fit the mixtures.

        Parameters
        ----------
        X : array-like or Tensor of shape (n, d)
            NaN is a missing value; there may be none.
        y : ignored
        sample_weight : array-like of shape (n,), optional
            A weight of two counts like a row that occurs twice.

        Returns
        -------
        ImputerTAE
            Itself.
        """
        rows = self._check_rows(X, reset=True)
        rng = check_seed(self.random_state)
        checked = check_parameters(self.get_params(deep=False), CONSTRAINTS)
        if sample_weight is not None:
            rows = rows.weighted(check_sample_weight(sample_weight, rows, 1))
        data = rows.data
        self._empty = data.isnan().all(0).cpu().numpy()
        self._warn_of_empty()
        self._whole = _whole_numbers(data)
        self._range = _ranges(data)
        self._indicator = MissingIndicator(error_on_new=False).fit(_as_array(data))
        kept = Rows(data[:, self._kept(data)], rows.weights, has_missing=True)
        self._members: list[Member] = []
        self._mean = self._scale = data.new_zeros(kept.d, dtype=torch.float64)
        if kept.d:
            numbers = check_n_clusters(self.n_clusters, kept.n, several=True)
            h = checked["latent_dim"]
            if h is not None and h >= kept.d:
                raise InvalidParameterError(
                    f"latent_dim must be smaller than n_features={kept.d}, those of X that have "
                    f"values, got {h}; lower latent_dim."
                )
            candidates = candidates_for(
                kept.n, kept.d, None if numbers is None else list(numbers), h, checked["pooling"]
            )
            clusters = sum(candidate.n_clusters for candidate in candidates)
            with torch.inference_mode(), kept.parallel(PASSES * clusters):
                ready = self._scaled(kept)
                self._members = fit_members(
                    ready,
                    candidates,
                    rng,
                    hidden_share=checked["hidden_share"],
                    limits=Limits(checked["max_iter"], checked["tol"]),
                )
        self.weights_ = np.array([member.weight for member in self._members])
        self.n_clusters_ = np.array([member.candidate.n_clusters for member in self._members])
        self.hidden_errors_ = np.sqrt([member.error for member in self._members])
        self.n_iter_ = max([member.n_iter for member in self._members], default=1)
        return self

    def transform(self, X: Any) -> Any:
        """Impute the missing values of X; observed values stay as they are.

        Parameters
        ----------
        X : array-like or Tensor of shape (n, d)

        Returns
        -------
        ndarray or Tensor of shape (n, n_features_out)
            Columns without any value in ``fit`` are left out, unless ``keep_empty_features``;
            indicators come behind, with ``add_indicator``.
        """
        return self._filled(X, lambda z: self._mixed(z)[0], within=True)

    def impute(self, X: Any, *, n_draws: int | None = None, random_state: Any = None) -> Any:
        """Impute missing values, or draw them, as ``LinearTAE.impute`` does.

        Parameters
        ----------
        X : array-like or Tensor of shape (n, d)
        n_draws : int, optional
            Return that many completed copies instead, with missing values drawn from their
            conditional distribution (multiple imputation).
        random_state : int, RandomState or None, default=None
            Makes the draws repeatable; None takes that of the estimator.

        Returns
        -------
        ndarray or Tensor of shape (n, n_features_out), or (n_draws, n, n_features_out)
        """
        if n_draws is None:
            return self._filled(X, lambda z: self._mixed(z)[0], within=True)
        count = check_integer("n_draws", n_draws, low=1)
        rng = check_seed(self.random_state if random_state is None else random_state)
        copies = [self._filled(X, lambda z: self._drawn(z, rng)) for _ in range(count)]
        return torch.stack(copies) if isinstance(X, Tensor) else np.stack(copies)

    @isolated_torch()
    def impute_std(self, X: Any) -> Any:
        """Conditional standard deviation of each missing value; zero for observed values.

        Parameters
        ----------
        X : array-like or Tensor of shape (n, d)

        Returns
        -------
        ndarray or Tensor of shape (n, e)
            For the columns of ``transform``, without indicators.
        """
        check_fitted(self)
        rows = self._check_rows(X, reset=False)
        with torch.inference_mode(), rows.parallel(self._work):
            kept = self._kept(rows.data)
            deviations = rows.data.new_zeros(rows.data.shape, dtype=torch.float64)
            if self._members:
                z = self._standardised(rows.data[:, kept])
                deviations[:, kept] = self._mixed(z)[1].sqrt() * self._scale.to(z.device)
            return rows.as_given(deviations[:, self._shown(kept)].clone())

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the columns of ``transform``.

        Parameters
        ----------
        input_features : array-like of str, optional
            Names of the columns of X, where the fit saw none.

        Returns
        -------
        ndarray of str
        """
        check_fitted(self)
        names = _check_feature_names_in(self, input_features)
        shown = names[self._shown(~self._empty)]
        if not self.add_indicator:
            return np.asarray(shown, dtype=object)
        return np.concatenate([shown, self._indicator.get_feature_names_out(names)]).astype(object)

    def _card(self) -> str | None:
        from tensorae.inspect.model_cards import imputer_card

        return imputer_card(self) if hasattr(self, "hidden_errors_") else None

    def __sklearn_tags__(self) -> Tags:
        """Tell scikit-learn what this estimator takes and keeps."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    # Inside ---------------------------------------------------------------------------------------

    def _check_rows(self, X: Any, *, reset: bool) -> Rows:
        rows = check_rows(
            self, X, reset=reset, device=self.device, allow_nan=True, empty_columns=True
        )
        if rows.streamed:
            raise InvalidInputError(
                "X must be a table in memory for ImputerTAE, got Batches; use LinearTAE and its "
                "impute for them."
            )
        return rows

    def _warn_of_empty(self) -> None:
        """Say which columns are left out, as ``SimpleImputer`` does."""
        names = getattr(self, "feature_names_in_", None)
        if self._empty.any() and not self.keep_empty_features:
            columns = ", ".join(
                column_label(names, j) for j in np.flatnonzero(self._empty).tolist()
            )
            warn(
                f"X has no observed value in these columns, which are left out: {columns}; drop "
                "them, or set keep_empty_features=True, which fills them with zero.",
                UserWarning,
                stacklevel=4,
            )

    def _kept(self, data: Tensor) -> Tensor:
        """Which features (d,) had values in the fit."""
        return torch.as_tensor(~self._empty, device=data.device)

    def _shown(self, kept: Any) -> Any:
        """Which features (d,) are in the result."""
        return kept | True if self.keep_empty_features else kept

    def _scaled(self, rows: Rows) -> Rows:
        """Rows with all columns on one scale, filled with their means; keeps the scale."""
        self._mean, weight, _ = rows.observed_means()
        centered = rows.data.to(torch.float64) - self._mean
        share = rows.all_weights().to(torch.float64)
        squares = (centered.nan_to_num(0.0).square() * share.unsqueeze(1)).sum(0)
        scale = (squares / weight).sqrt()
        tiny = torch.finfo(torch.float64).eps * self._mean.abs().clamp(
            min=torch.finfo(torch.float64).tiny
        )
        self._scale = torch.where(scale > tiny, scale, 1.0)
        z = centered / self._scale
        there = ~z.isnan().all(1)
        weights = None if bool(there.all()) and rows.weights is None else share * there
        return Rows(z, weights, has_missing=True).filled(torch.zeros_like(self._mean))

    def _standardised(self, x: Tensor) -> Tensor:
        return (x.to(torch.float64) - self._mean.to(x.device)) / self._scale.to(x.device)

    @property
    def _work(self) -> int:
        """Products for each number of X, about."""
        return int(self.n_clusters_.sum())

    def _predictors(self, device: torch.device) -> list[tuple[float, LinearPredictor]]:
        return [
            (member.weight, LinearPredictor.of_model(member.model.to(device)))
            for member in self._members
        ]

    def _mixed(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Conditional means and variances (n, e) of missing values under all members together."""
        means, squares = torch.zeros_like(z), torch.zeros_like(z)
        for weight, predictor in self._predictors(z.device):
            for place in torch.arange(len(z), device=z.device).split(predictor.chunk_rows):
                mean, variance = predictor.conditional(z[place])
                means[place] += weight * mean
                squares[place] += weight * (variance + mean.square())
        return means, torch.where(z.isnan(), (squares - means.square()).clamp(min=0), 0)

    def _drawn(self, z: Tensor, rng: np.random.RandomState) -> Tensor:
        """Rows (n, e) with missing values drawn, each row from one member."""
        cumulative = np.cumsum([member.weight for member in self._members])
        chosen = np.searchsorted(cumulative[:-1], rng.uniform(size=len(z)), side="right")
        drawn = z.clone()
        for place, (_, predictor) in enumerate(self._predictors(z.device)):
            rows = torch.as_tensor(np.flatnonzero(chosen == place), device=z.device)
            if len(rows):
                drawn[rows] = predictor.draw(z[rows], rng)
        return drawn

    @isolated_torch()
    def _filled(self, X: Any, fill: Any, *, within: bool = False) -> Any:
        """X with its missing values as ``fill`` gives them for scaled rows.

        Expected values stay ``within`` the observed range, so that one outlying value does not
        carry the others away. Draws may go beyond.
        """
        check_fitted(self)
        rows = self._check_rows(X, reset=False)
        data, kept = rows.data, self._kept(rows.data)
        with torch.inference_mode(), rows.parallel(self._work):
            points = torch.zeros_like(data, dtype=torch.float64)
            if self._members and bool(data[:, kept].isnan().any()):
                found = fill(self._standardised(data[:, kept]))
                points[:, kept] = found * self._scale.to(data.device) + self._mean.to(data.device)
                if within:
                    low, high = (torch.as_tensor(end, device=data.device) for end in self._range)
                    points[:, kept] = points[:, kept].clamp(low[kept], high[kept])
            if self.round_integers:
                whole = torch.as_tensor(self._whole, device=data.device)
                points = torch.where(whole, points.round(), points)
            filled = torch.where(data.isnan(), points.to(data.dtype), data)[:, self._shown(kept)]
            filled = filled.clone()
        given = rows.as_given(filled)
        if not self.add_indicator:
            return given
        missing = self._indicator.transform(_as_array(data))
        if isinstance(given, Tensor):
            return torch.cat([given, torch.as_tensor(missing).to(given)], dim=1)
        return np.hstack([given, missing.astype(given.dtype)])


def _as_array(data: Tensor) -> np.ndarray:
    array: np.ndarray = data.cpu().numpy()
    return array


def _whole_numbers(data: Tensor) -> np.ndarray:
    """Which columns (d,) hold whole numbers only."""
    whole = (data == data.round()) | data.isnan()
    return _as_array(whole.all(0) & ~data.isnan().all(0))


def _ranges(data: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Smallest and largest value (d,) of each column; those of an empty one mean nothing."""
    x = data.to(torch.float64)
    low, high = x.nan_to_num(torch.inf).amin(0), x.nan_to_num(-torch.inf).amax(0)
    return _as_array(low), _as_array(high)
