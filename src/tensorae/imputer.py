"""ImputerTAE: check -> scale -> several mixtures, weighed -> fill.

Categories are numbers here, an indicator for each level: a cluster's covariance then says which
levels go together, and with which numbers.

Shapes: n samples, p columns, d numbers with indicators, e of these with any value, m members.
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

from tensorae._base import by_partition
from tensorae._containers import as_features
from tensorae._notebook import EstimatorWithCard
from tensorae._parameters import Constraints, Interval, check_integer, check_parameters
from tensorae._torch import isolated_torch
from tensorae._validation import (
    check_fitted,
    check_mixed_rows,
    check_n_clusters,
    check_sample_weight,
    check_seed,
    column_label,
)
from tensorae._warnings import warn
from tensorae.core.imputation import Limits, Member, candidates_for, fit_members
from tensorae.core.mixture import LinearPredictor
from tensorae.data.categories import CategoryEncoder, level_names
from tensorae.data.rows import Rows
from tensorae.exceptions import InvalidInputError, InvalidParameterError
from tensorae.linear_tae import PASSES

__all__ = ["ImputerTAE"]

# Rows of a Dask collection that are fitted: a sample of them where there are more.
REMOTE_ROWS = 100_000
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
    categorical_features : "from_dtype", None or array-like, default="from_dtype"
        Which columns are categories: those of type category, text or bool in a data frame, or
        those with the given names, numbers or truth values. A missing category gets its most
        probable level, and a data frame with categories comes back as one.
    handle_unknown : {"warn", "error"}, default="warn"
        What to do about levels that ``fit`` did not see.

    Attributes
    ----------
    weights_ : ndarray of shape (m,)
        Weight of each mixture; they sum to one.
    n_clusters_ : ndarray of shape (m,)
        Clusters of each of them.
    hidden_errors_ : ndarray of shape (m,)
        Root mean squared error of each mixture on the held-out values, in standard deviations of
        the columns; NaN where there was nothing to choose. A category has a column for each level.
    categories_ : list of ndarray
        Levels of each column of categories.
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

    # The columns of categories.
    _categories: CategoryEncoder | None = None

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
        categorical_features: Any = "from_dtype",
        handle_unknown: str = "warn",
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
        self.categorical_features = categorical_features
        self.handle_unknown = handle_unknown

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
            rows = rows.with_weights(check_sample_weight(sample_weight, rows, 1))
        data = rows.data
        self._empty = data.isnan().all(0).cpu().numpy()
        if self._categories is not None:
            self._refuse_indicators()
            unseen = [part.stop - 1 for part in self._blocks]
            self._empty[unseen] = True  # of levels that no row has
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
                    blocks=self._kept_blocks(),
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

    @isolated_torch()
    def level_proba(self, X: Any) -> list[Any]:
        """Probabilities of the levels of each category, where it is missing.

        Parameters
        ----------
        X : array-like or Tensor of shape (n, p)

        Returns
        -------
        list of ndarray or Tensor of shape (n, n_levels)
            One for each of ``categories_``. The level that a row has is certain.

        Examples
        --------
        >>> from palmerpenguins import load_penguins
        >>> from tensorae import ImputerTAE
        >>> birds = load_penguins().drop(columns="year")
        >>> imputer = ImputerTAE(random_state=0).fit(birds)
        >>> chances = imputer.level_proba(birds.assign(species=None))[0]
        >>> best = imputer.categories_[0][chances.argmax(1)]
        >>> bool((best == birds.species).mean() > 0.95)
        True
        """
        rows = self._check_rows(X, reset=False)
        points = self._points(rows, lambda z: self._mixed(z)[0], within=True)
        found = []
        for part in self._blocks:
            chances = points[:, part][:, :-1].clamp(min=0)
            found.append(rows.as_given(chances / chances.sum(1, keepdim=True)))
        return found

    @property
    def categories_(self) -> list[np.ndarray]:
        """Levels of each column of categories."""
        check_fitted(self)
        return level_names(self._categories)

    @by_partition
    @as_features
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
            With categories a data frame like X, or a list of them.
        """
        if n_draws is None:
            return self._filled(X, lambda z: self._mixed(z)[0], within=True)
        count = check_integer("n_draws", n_draws, low=1)
        rng = check_seed(self.random_state if random_state is None else random_state)
        copies = [self._filled(X, lambda z: self._drawn(z, rng)) for _ in range(count)]
        if isinstance(X, Tensor):
            return torch.stack(copies)
        return np.stack(copies) if self._categories is None else copies

    @by_partition
    @isolated_torch()
    def impute_std(self, X: Any) -> Any:
        """Conditional standard deviation of each missing value; zero for observed values.

        For a missing category it is the probability that another level than the most probable one
        is right.

        Parameters
        ----------
        X : array-like or Tensor of shape (n, d)

        Returns
        -------
        ndarray or Tensor of shape (n, e)
            For the columns of ``transform``, without indicators.
        """
        rows = self._check_rows(X, reset=False)
        with torch.inference_mode(), rows.parallel(self._work):
            kept = self._kept(rows.data)
            deviations = rows.data.new_zeros(rows.data.shape, dtype=torch.float64)
            if self._members:
                z = self._standardised(rows.data[:, kept])
                deviations[:, kept] = self._mixed(z)[1].sqrt() * self._scale.to(z.device)
            if self._categories is not None:
                chances = [torch.as_tensor(part) for part in self.level_proba(X)]
                return rows.as_given(self._coded_deviations(deviations, chances))
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
        shown = np.delete(names, self._left_out())
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
        rows = check_mixed_rows(self, X, reset=reset, device=self.device, empty_columns=True)
        if rows.remote:
            # More rows than these hardly change what a mixture expects.
            gathered = rows.collected(REMOTE_ROWS)
            direction = torch.as_tensor(check_seed(self.random_state).standard_normal(rows.d))
            rows = gathered.sample(direction, REMOTE_ROWS, 0.5) if gathered.remote else gathered
            rows.home = None
        if rows.streamed:
            raise InvalidInputError(
                "X must be a table in memory for ImputerTAE, got Batches; use LinearTAE and its "
                "impute for them."
            )
        if rows.levels is None:
            return rows
        data = rows.data.clone()
        for part in self._blocks:  # of what is missing no indicator is known
            data[:, part][data[:, part].sum(1) == 0] = torch.nan
        return Rows(data, home=rows.home, has_missing=True)

    @property
    def _blocks(self) -> list[slice]:
        """Columns of the rows that are indicators of one category."""
        if self._categories is None:
            return []
        layout = self._categories.layout
        d = len(layout.numbers)
        return [slice(d + part.start, d + part.stop) for part in layout.slices]

    def _kept_blocks(self) -> list[slice]:
        """The same among the features that had values."""
        before = np.cumsum(np.append(0, ~self._empty))
        return [slice(int(before[b.start]), int(before[b.stop])) for b in self._blocks]

    def _refuse_indicators(self) -> None:
        if self.add_indicator:
            raise InvalidParameterError(
                "add_indicator must be False where X has categories, got True; put "
                "sklearn.impute.MissingIndicator beside the imputer."
            )

    def _coded(self, points: Tensor) -> Tensor:
        """Columns (n, p) of numbers with indicators (n, d)."""
        assert self._categories is not None  # else the columns are the numbers
        return self._categories.layout.collapse(points)

    def _coded_deviations(self, deviations: Tensor, chances: list[Tensor]) -> Tensor:
        """Deviations of shown columns: of numbers as they are, of categories 1 - the best."""
        assert self._categories is not None  # else the columns are the numbers
        layout = self._categories.layout
        coded = deviations.new_zeros(len(deviations), layout.n_columns)
        coded[:, list(layout.numbers)] = deviations[:, : len(layout.numbers)]
        for place, shares in zip(layout.places, chances, strict=True):
            coded[:, place] = 1 - shares.amax(1).to(coded)
        shown = [j for j in range(layout.n_columns) if j not in self._left_out()]
        return coded[:, shown]

    def _warn_of_empty(self) -> None:
        """Say which columns are left out, as ``SimpleImputer`` does."""
        names = getattr(self, "feature_names_in_", None)
        empty = self._empty_columns()
        if len(empty) and not self.keep_empty_features:
            columns = ", ".join(column_label(names, j) for j in empty)
            warn(
                f"X has no observed value in these columns, which are left out: {columns}; drop "
                "them, or set keep_empty_features=True, which fills them with zero.",
                UserWarning,
            )

    def _empty_columns(self) -> list[int]:
        """Columns of X that had no value in the fit."""
        if self._categories is None:
            return np.flatnonzero(self._empty).tolist()
        numbers = self._categories.layout.numbers
        return [place for place, empty in zip(numbers, self._empty, strict=False) if empty]

    def _left_out(self) -> list[int]:
        """Columns of X that are not in the result."""
        return [] if self.keep_empty_features else self._empty_columns()

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
        share = rows.weights.to(torch.float64)
        squares = (centered.nan_to_num(0.0).square() * share.unsqueeze(1)).sum(0)
        scale = (squares / weight).sqrt()
        tiny = torch.finfo(torch.float64).eps * self._mean.abs().clamp(
            min=torch.finfo(torch.float64).tiny
        )
        self._scale = torch.where(scale > tiny, scale, 1.0)
        z = centered / self._scale
        there = ~z.isnan().all(1)
        return Rows(z, share * there, has_missing=True).filled(torch.zeros_like(self._mean))

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
        rows = self._check_rows(X, reset=False)
        data, kept = rows.data, self._kept(rows.data)
        points = self._points(rows, fill, within=within)
        if self._categories is not None:
            whole = self._categories.filled(X, self._coded(points))
            return self._categories.without(whole, self._left_out())
        given = rows.as_given(points[:, self._shown(kept)].clone())
        if not self.add_indicator:
            return given
        missing = self._indicator.transform(_as_array(data))
        if isinstance(given, Tensor):
            return torch.cat([given, torch.as_tensor(missing).to(given)], dim=1)
        return np.hstack([given, missing.astype(given.dtype)])

    def _points(self, rows: Rows, fill: Any, *, within: bool) -> Tensor:
        """Rows (n, d) with their missing values as ``fill`` gives them for scaled rows."""
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
                whole[[j for part in self._blocks for j in range(part.start, part.stop)]] = False
                points = torch.where(whole, points.round(), points)
            return torch.where(data.isnan(), points.to(data.dtype), data)


# Outside what ``set_output`` adds to it, so that it is applied to each partition.
ImputerTAE.transform = by_partition(ImputerTAE.transform)  # type: ignore[method-assign]


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
