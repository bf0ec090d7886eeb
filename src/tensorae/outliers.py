"""OutlierTAE: check -> fit members to samples of the rows -> calibrate -> publish.

Every sample is described in three ways: by clusters, by one robust Gaussian and by each column
alone. The anomaly score is the weighted mean over all of them.

Shapes: n rows, m rows of a sample, d features, p columns of one member.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import OutlierMixin
from sklearn.utils import Tags

from tensorae._base import by_partition
from tensorae._notebook import EstimatorWithCard
from tensorae._parameters import Constraints, Interval, check_parameters
from tensorae._torch import isolated_torch
from tensorae._validation import (
    check_device,
    check_fitted,
    check_mixed_rows,
    check_sample_weight,
    check_seed,
    no_values_error,
)
from tensorae._warnings import collected_warnings
from tensorae.anomaly.detector import (
    SMALL_SHARE,
    Calibration,
    Detector,
    LevelMember,
    MarginalMember,
    Member,
    MixtureMember,
    expanded,
    inlier_clusters,
    ordinary_rows,
    trusted_clusters,
    weighted_quantile,
    widened,
)
from tensorae.assignment import RULES
from tensorae.core.search import solve
from tensorae.core.spec import FitSpec
from tensorae.data.categories import CategoryEncoder, LevelColumns
from tensorae.data.rows import Rows
from tensorae.data.scaling import Scaling
from tensorae.exceptions import InvalidInputError
from tensorae.linear_tae import LinearTAE

__all__ = ["OutlierTAE"]

Array = NDArray[Any]

# Rows that members are fitted to and calibrated by; of more data they are a sample.
POOL_ROWS = 10_000
# Share of the pool that a member sees at most: the others are what new rows will be.
SEEN_SHARE = 2 / 3
# Clusters of a mixture, rows that there must be for each, and components. Other numbers change the
# figures of benchmarks/outliers.py by no more than seeds do.
CLUSTERS, FEWEST_MEMBERS, COMPONENTS = 20, 10, 5
# Fewer for the probabilities of levels, which small clusters do not tell.
LEVEL_CLUSTERS = 4
# They are many, so that none has to be at its optimum.
ITERATIONS, TOLERANCE = 10, 1e-3
# Where a value of a column has the first share of the rows, clusters that sit on it are taken for
# this wide at least, in units of the column, when ordinary rows are told from others: the density
# of a point mass would make everything beside it an outlier.
POINT_MASS, POINT_WIDTH = 0.05, 0.1
# A cluster of fewer rows than this does not show how wide it is.
LONE = 4
# Scores within which models are compared (1 % of Gaussian rows lie beyond), and how much more
# spread is noise of the draws: factors are 0.95 to 1.05 with up to 5 columns, 1.1 to 1.5 with 20.
BULK, NOISE = 2.0, 1.05
# Columns are brought to one scale by what lies between these shares of their values.
TAILS = (0.01, 0.99)
# Numbers of clusters that the reference is chosen from, and rows that it is fitted to.
REFERENCE_CLUSTERS, REFERENCE_ROWS = (1, 3, 8), 2000
REFERENCE_COMPONENTS, REFERENCE_ITERATIONS = 30, 30

# Share of ordinary rows that contamination="auto" takes for outliers.
FALSE_ALARMS = 0.01
CONSTRAINTS: Constraints = {
    "contamination": Interval(float, 0, 0.5, closed="right", auto=True),
    "n_clusters": Interval(int, 1, auto=True),
    "n_estimators": Interval(int, 1),
    "max_samples": Interval(int, 2),
}


class OutlierTAE(OutlierMixin, EstimatorWithCard):
    """Find rows that do not fit the others, and explain why.

    Several samples of the rows are each described in three ways: by a mixture of probabilistic
    PCAs, which finds rows that fit no cluster; by one robust Gaussian, which finds rows that break
    the overall pattern; and by the density of each column alone, which finds rare values. The
    anomaly score is the mean of their misfits, each in its usual unit and on a logarithmic scale;
    single columns count as much as both other views together.
    Small or tight clusters do not count, so that similar anomalies cannot form a cluster of their
    own. The usual misfit is measured on rows that are not in the sample.

    Columns need no scaling. Constant columns are left out. NaN is a missing value.

    Parameters
    ----------
    contamination : "auto" or float in (0, 0.5], default="auto"
        Which rows ``predict`` labels as outliers. "auto": those with a higher anomaly score than
        99 % of ordinary rows, see ``outlier_probability``. A number: this share of the fitted rows.
    n_clusters : int or "auto", default="auto"
        Clusters of each mixture; "auto" takes 20. Where rows are few there are fewer, one for ten
        rows: a singleton cluster would make its only member look normal.
    n_estimators : int, default=5
        Samples of the rows.
    max_samples : int, default=1000
        Rows of a sample, at most; never more than two thirds of all.
    random_state : int, RandomState or None, default=None
        Makes a fit repeatable. The order of the rows does not matter.
    device : str, torch.device or None, default=None
        Where to compute scores. None: the CPU for arrays, the tensor's own device for tensors.
    categorical_features : "from_dtype", None or array-like, default="from_dtype"
        Which columns are categories: those of type category, text or bool in a data frame, or
        those with the given names, numbers or truth values. One column of numbers is needed.
    handle_unknown : {"warn", "error"}, default="warn"
        What to do about levels that ``fit`` did not see: they are very improbable, or an error.

    Attributes
    ----------
    offset_ : float
        ``decision_function`` is ``score_samples`` minus this.
    reference_ : LinearTAE
        Clusters of ordinary rows, which explanations refer to; on the scale of ``scaling_``.
    scaling_ : Scaling
        Scale of the columns: their mean and standard deviation with the outermost 1 % clipped.
    n_samples_ : int
        Rows that were fitted.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (d,)
        Only where X has column names.

    See Also
    --------
    tensorae.inspect.outliers : Why rows are outliers, as a table.
    sklearn.ensemble.IsolationForest : Trees that separate rows.

    Examples
    --------
    >>> import numpy as np
    >>> from tensorae import OutlierTAE
    >>> rng = np.random.RandomState(0)
    >>> usual, anomalies = rng.randn(500, 3), np.full((5, 3), 8.0)
    >>> model = OutlierTAE(random_state=0).fit(np.vstack([usual, anomalies]))
    >>> model.predict(anomalies)
    array([-1, -1, -1, -1, -1])
    >>> bool((model.outlier_probability(anomalies) > 0.999).all())
    True
    """

    _detector: Detector
    # The columns of categories.
    _categories: CategoryEncoder | None = None

    def __init__(
        self,
        contamination: float | str = "auto",
        n_clusters: int | str = "auto",
        *,
        n_estimators: int = 5,
        max_samples: int = 1000,
        random_state: Any = None,
        device: Any = None,
        categorical_features: Any = "from_dtype",
        handle_unknown: str = "warn",
    ) -> None:
        self.contamination = contamination
        self.n_clusters = n_clusters
        self.n_estimators = n_estimators
        self.max_samples = max_samples
        self.random_state = random_state
        self.device = device
        self.categorical_features = categorical_features
        self.handle_unknown = handle_unknown

    @isolated_torch()
    def fit(self, X: Any, y: Any = None, *, sample_weight: Any = None) -> Self:  # noqa: ARG002
        """Fit the detector; some of the rows may be outliers, and need not be labelled.

        Parameters
        ----------
        X : array-like, Tensor or Batches of shape (n, d)
            Of more than 10,000 rows a sample is enough; Batches are read a few times.
        y : ignored
            Here for scikit-learn's pipelines.
        sample_weight : array-like of shape (n,), optional
            A weight of two counts like a row that occurs twice.

        Returns
        -------
        OutlierTAE
            Itself.
        """
        rows = self._check_rows(X, reset=True)
        plan, share = self._check_plan(rows)
        rng = check_seed(self.random_state, rows.processes)
        if sample_weight is not None:
            rows = rows.with_weights(check_sample_weight(sample_weight, rows, 1))
        with torch.no_grad(), rows.parallel(plan.n_estimators):
            pool = Pool.of(rows, rng)
            self._check_pool(pool)
            self._detector, self.reference_ = fit_detector(pool, plan)
            threshold = self._threshold(share, rows, pool)
        self.n_samples_ = rows.count
        self.offset_ = -threshold
        return self

    @property
    def scaling_(self) -> Scaling:
        """What brings columns to one scale."""
        return Scaling("robust", self._detector.shift, self._detector.unit)

    @by_partition
    def score_samples(self, X: Any) -> Any:
        """Minus the anomaly score: about zero for ordinary rows, lower for outliers.

        Parameters
        ----------
        X : array-like, Tensor or Batches of shape (n, d)

        Returns
        -------
        ndarray or Tensor of shape (n,)
            Minus the weighted mean over all members of log(1 + u), with u the misfit minus its
            median, in median absolute deviations (minus log(1 - u) where u is below zero).
        """
        return self._scored(X, torch.neg)

    @by_partition
    def decision_function(self, X: Any) -> Any:
        """``score_samples`` minus ``offset_``: below zero are outliers.

        Parameters
        ----------
        X : array-like, Tensor or Batches of shape (n, d)

        Returns
        -------
        ndarray or Tensor of shape (n,)
        """
        return self._scored(X, lambda score: -score - self.offset_)

    @by_partition
    def predict(self, X: Any) -> Any:
        """Say which rows are outliers.

        Parameters
        ----------
        X : array-like, Tensor or Batches of shape (n, d)

        Returns
        -------
        ndarray or Tensor of shape (n,)
            -1 for outliers, 1 for all others.
        """
        return self._scored(
            X, lambda score: torch.where(-score - self.offset_ < 0, -1, 1), whole=True
        )

    @by_partition
    def outlier_probability(self, X: Any) -> Any:
        """Share of ordinary rows with a lower anomaly score: of these, 1 % lie above 0.99.

        It is one minus a p-value, calibrated on fitted rows as if they were not in the samples,
        without those that are far out. So it holds for new rows as well. Equal rows get the same
        value: where a value of the only column has a tenth of the rows, none of them lies above
        0.9. A group of a twentieth of the rows or more counts as ordinary.

        Parameters
        ----------
        X : array-like, Tensor or Batches of shape (n, d)

        Returns
        -------
        ndarray or Tensor of shape (n,)
        """

        def share(score: torch.Tensor) -> torch.Tensor:
            p_values = self._detector.calibration.p_values(score.cpu().numpy())
            return torch.as_tensor(1 - p_values, device=score.device)

        return self._scored(X, share)

    def save(
        self, path: str | os.PathLike[str], *, preprocessing: Mapping[str, Any] | None = None
    ) -> None:
        """Write the fitted model to one file; ``tensorae.load`` reads it.

        Parameters
        ----------
        path : path-like
            An old file there is replaced.
        preprocessing : dict, optional
            What was done to the data before the fit; it goes into the header of the file.
        """
        from tensorae.persist import save  # loads the code of all estimators

        check_fitted(self)
        save(self, path, preprocessing=preprocessing)

    def report(
        self,
        X: Any,
        path: str | os.PathLike[str],
        *,
        title: str | None = None,
        identifiers: Any = None,
        feature_names: Any = None,
        n_outliers: int = 20,
        max_points: int = 5000,
    ) -> Path:
        """Write a page: the strongest outliers with their causes, and the clusters beside them.

        Parameters
        ----------
        X : array-like or Tensor of shape (n, d)
        path : path-like
            Of the page; an old file there is replaced.
        title : str, optional
        identifiers : data frame or dict of columns, optional
            What names the rows and took no part in the fit: n entries each.
        feature_names : sequence of str, optional
        n_outliers : int, default=20
            Rows to explain.
        max_points : int, default=5000
            Points in the scatter.

        Returns
        -------
        Path
            Of the page.
        """
        from tensorae.inspect.outlier_explanations import outliers
        from tensorae.report import write_report

        check_fitted(self)
        if feature_names is None and not hasattr(X, "columns"):
            feature_names = getattr(self, "feature_names_in_", None)
        table = X
        if self._categories is not None:
            table = self._categories.numbers(X)
            if feature_names is not None:
                numbers = self._categories.layout.numbers
                feature_names = [feature_names[place] for place in numbers]
        return write_report(
            self.reference_,
            table,
            path,
            title=title,
            identifiers=identifiers,
            feature_names=feature_names,
            scaler=self.scaling_,
            max_points=max_points,
            outliers=outliers(self, X, n_rows=n_outliers, feature_names=feature_names),
        )

    def _card(self) -> str | None:
        from tensorae.inspect.model_cards import outlier_card

        return outlier_card(self) if hasattr(self, "offset_") else None

    def __sklearn_tags__(self) -> Tags:
        """Tell scikit-learn what this estimator takes."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _check_rows(self, X: Any, *, reset: bool) -> Rows:
        rows = check_mixed_rows(self, X, reset=reset, device=self.device)
        if rows.d == 0:
            raise InvalidInputError(
                "X must have at least one column of numbers for OutlierTAE, got categories only; "
                "LinearTAE and its score_samples take such tables."
            )
        return rows

    def _check_plan(self, rows: Rows) -> tuple[Plan, float | None]:
        """Check the parameters; the share of outliers is None where calibration decides."""
        checked = check_parameters(self.get_params(deep=False), CONSTRAINTS)
        if rows.count < 2:
            raise InvalidInputError(
                f"X must have at least 2 rows, got n_samples={rows.count}; add rows."
            )
        share = checked.pop("contamination")
        return Plan(**checked), share

    def _check_pool(self, pool: Pool) -> None:
        """Refuse columns without values, and rows too few for what was asked."""
        names = getattr(self, "feature_names_in_", None)
        for column in np.flatnonzero(np.isnan(pool.x).all(0)).tolist():
            raise no_values_error(names, column)
        if len(pool.x) < 2:
            raise InvalidInputError(
                "at least 2 rows of X must have values and a weight above zero, got "
                f"n_samples={len(pool.x)} of them; add rows."
            )

    def _threshold(self, share: float | None, rows: Rows, pool: Pool) -> float:
        """Anomaly score above which rows are outliers."""
        if share is None:
            return self._detector.calibration.threshold(FALSE_ALARMS)
        if (
            rows.remote or not rows.processes.alone
        ):  # other processes have the other rows; the pool stands for all
            score = self._detector.anomaly_score(pool.rows()).numpy()
            weights = pool.weights
        else:
            parts = rows.in_chunks(self._detector.chunk_rows).chunks()
            scores = [self._detector.anomaly_score(part.observed).cpu().numpy() for part in parts]
            score = np.concatenate(scores)
            weights = rows.weights.double().cpu().numpy()
        rising = np.argsort(score, kind="stable")
        line = weighted_quantile(score[rising], weights[rising], 1 - share)
        above = score[(score > line) & (weights > 0)]
        # Between two rows, so that rounding does not decide.
        return (line + float(above.min())) / 2 if above.size else line

    @isolated_torch()
    def _scored(self, X: Any, step: Any, *, whole: bool = False) -> Any:
        """Apply ``step`` to the score of checked rows, and give back the kind that came in."""
        rows = self._check_rows(X, reset=False)
        with torch.no_grad(), rows.parallel(CLUSTERS * len(self._detector.members)):
            chunks = rows.in_chunks(self._detector.chunk_rows)
            found = chunks.results(lambda x: step(self._detector.anomaly_score(x)))
        return found.astype(np.int64) if whole and isinstance(found, np.ndarray) else found

    def __sklearn_is_fitted__(self) -> bool:
        """Whether ``fit`` has been called."""
        return hasattr(self, "offset_")

    def _check_parameters(self) -> None:
        check_seed(self.random_state)
        rows = torch.zeros(1, 1).expand(self.n_samples_, len(self._detector.shift))
        self._check_plan(Rows(rows))

    def _checked_device(self) -> torch.device:
        return check_device(self.device)

    # What storage asks for -------------------------------------------------------------------

    def _new_reference(self, n_clusters: int, latent_dim: int) -> LinearTAE:
        return new_reference(n_clusters, latent_dim)

    def _restore(self, detector: Detector, reference: LinearTAE) -> None:
        self._detector, self.reference_ = detector, reference


# The fit ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Plan:
    """What a user asked for.

    Attributes
    ----------
    n_clusters : int or None
        Of every mixture and of the reference; None leaves it open.
    n_estimators : int
    max_samples : int
    """

    n_clusters: int | None
    n_estimators: int
    max_samples: int


@dataclass(frozen=True, eq=False)
class Pool:
    """Rows in memory that stand for all, with the number of rows that each stands for.

    Attributes
    ----------
    x : ndarray of shape (n, d)
        In double precision; NaN is a missing value.
    weights : ndarray of shape (n,)
    rng : RandomState
    levels : ndarray of shape (n, L)
        Indicators of the levels of categories.
    layout : LevelColumns or None
        Which categories these are of.
    """

    x: Array
    weights: Array
    rng: np.random.RandomState
    levels: Array
    layout: LevelColumns | None = None

    @classmethod
    def of(cls, rows: Rows, rng: np.random.RandomState) -> Pool:
        """Take all rows, or a sample of them in proportion to their weights."""
        direction = torch.as_tensor(rng.standard_normal(rows.d), device=rows.device)
        offset = rng.uniform()
        gathered = rows.collected(POOL_ROWS)
        many = gathered.n > POOL_ROWS or gathered.streamed
        if many:
            gathered = _filled(gathered).sample(direction, POOL_ROWS, offset)
        x = gathered.observed().to(torch.float64).cpu().numpy()
        weights = gathered.weights.to(torch.float64).cpu().numpy()
        scale = 1.0 if many else gathered.effective_n() / weights.sum()
        weights = np.ones(len(x)) if many else weights * scale
        x, levels = x[:, : rows.d], x[:, rows.d :]
        kept = (weights > 0) & ~np.isnan(x).all(1)
        return cls(x[kept], weights[kept], rng, levels[kept], rows.levels)

    def rows(self) -> torch.Tensor:
        """All rows (n, d + L)."""
        return torch.as_tensor(np.hstack([self.x, self.levels]))

    def scaling(self) -> tuple[Array, Array]:
        """Mean and standard deviation (d,) of each column without its tails; never zero."""
        pairs = [_column_scale(column, self.weights) for column in self.x.T]
        return np.array([pair[0] for pair in pairs]), np.array([pair[1] for pair in pairs])

    def scaled(self, shift: Array, unit: Array) -> Pool:
        """Return the same rows on another scale."""
        return replace(self, x=(self.x - shift) / unit)

    def select(self, rows: Array) -> Pool:
        """Some of the rows."""
        return replace(self, x=self.x[rows], weights=self.weights[rows], levels=self.levels[rows])

    def draw(self, size: int) -> tuple[Array, Array]:
        """Numbers of ``size`` rows, and the share (n,) of each row and its copies that is left.

        Rows are sorted along a random direction and taken at even distances, each in proportion to
        its weight. So neither the order of the rows matters nor whether one that occurs twice is
        there twice or has the weight two.
        """
        direction, offset = self.rng.standard_normal(self.x.shape[1]), self.rng.uniform()
        keys = np.nan_to_num(self.x) @ direction
        order = np.argsort(keys, kind="stable")
        held = np.cumsum(self.weights[order])
        grid = (np.arange(size) + offset) * (held[-1] / size)
        places = order[np.minimum(np.searchsorted(held, grid, side="right"), len(order) - 1)]
        _, copies = np.unique(keys, return_inverse=True)
        there = np.bincount(copies, self.weights)
        drawn = np.bincount(copies[places], minlength=len(there))
        return places, np.maximum(1 - drawn / there, 0)[copies]


def fit_detector(pool: Pool, plan: Plan) -> tuple[Detector, LinearTAE]:
    """Fit members, calibrate them by rows that they have not seen, and fit the reference."""
    shift, unit = pool.scaling()
    scaled = pool.scaled(shift, unit)
    values = [_column_values(column, pool.weights) for column in scaled.x.T]
    samples = [_fit_sample(scaled, plan, values) for _ in range(plan.n_estimators)]
    misfits = np.mean([sample.misfits for sample in samples], axis=0)
    ordinary = ordinary_rows(expanded(misfits), pool.weights)
    scores = _mean_score(samples, pool.weights)
    calibration = Calibration.of(scores[ordinary], pool.weights[ordinary])
    members = tuple(member for sample in samples for member in sample.members)
    reference = _reference(scaled.select(np.flatnonzero(ordinary)), plan)
    return Detector(shift, unit, members, calibration), reference


def _sample_size(pool: Pool, plan: Plan) -> int:
    """Rows that members are fitted to."""
    share = math.ceil(SEEN_SHARE * float(pool.weights.sum()) - 1e-9)
    return max(2, min(plan.max_samples, share))


@dataclass(frozen=True, eq=False)
class _Sample:
    """Members that were fitted to one sample of the rows, and what they say of all rows.

    Attributes
    ----------
    members : tuple of Member
    unseen : ndarray of shape (n,)
        Share of each row and its copies that is not in the sample.
    scores : ndarray of shape (n,)
        Mean misfit in its usual unit, as if the row were not in the sample.
    misfits : ndarray of shape (n,)
        Misfit beside all inlier clusters, in nats beyond the median, compressed.
    """

    members: tuple[Member, ...]
    unseen: Array
    scores: Array
    misfits: Array


def _fit_sample(pool: Pool, plan: Plan, values: list[_Values]) -> _Sample:
    size = _sample_size(pool, plan)
    places, unseen = pool.draw(size)
    unseen = unseen if unseen.any() else np.ones_like(unseen)
    sample = pool.x[places]
    # A draw may show nothing of a column with many missing values.
    shown = np.fmax.reduce(sample, axis=0) >= np.fmin.reduce(sample, axis=0)
    varied = np.fmax.reduce(pool.x, axis=0) > np.fmin.reduce(pool.x, axis=0)
    columns = np.flatnonzero(shown & varied if (shown & varied).any() else shown)
    sample, levels = sample[:, columns], pool.levels[places]
    there = ~np.isnan(sample).all(1)
    sample, levels = sample[there], levels[there]
    n_clusters = min(plan.n_clusters or CLUSTERS, max(1, size // FEWEST_MEMBERS), len(sample))
    seed = int(pool.rng.randint(2**31 - 1))
    fitted = _fitted(sample, n_clusters, min(COMPONENTS, len(columns) - 1), seed, ITERATIONS)
    steps = np.array([values[column].step for column in columns])
    width = POINT_WIDTH if any(values[column].has_point_mass for column in columns) else 0
    wide = widened(fitted, fitted.weights_ * len(sample), LONE, width)
    members: list[Member] = [
        MixtureMember.of(fitted, columns, trusted_clusters(fitted)),
        MixtureMember.robust_gaussian(sample, columns),
        MarginalMember.of(sample, columns),
    ]
    if pool.layout is not None:
        members.append(_level_member(sample, levels, columns, pool, n_clusters))
    views = len(members)
    # For ``misfits`` only.
    members.append(MixtureMember.of(wide, columns, inlier_clusters(wide, steps)))
    z, scores = pool.rows(), []
    for number, member in enumerate(members):
        misfits = _as_if_unseen(member.misfit(z).numpy(), pool.weights, unseen)
        middle, unit = _middle_and_unit(misfits, pool.weights)
        if isinstance(member, LevelMember):  # of few values, half of which may be alike
            unit = max(unit, _moments(misfits, pool.weights)[1])
        members[number] = replace(member, middle=middle, unit=unit if number < views else 1.0)
        scores.append(members[number].relative(torch.as_tensor(misfits)).numpy())
    votes = [member.votes for member in members[:views]]
    mean = np.average(scores[:views], axis=0, weights=votes)
    return _Sample(tuple(members[:views]), unseen, mean, scores[views])


def _level_member(
    sample: Array, levels: Array, columns: Array, pool: Pool, n_clusters: int
) -> LevelMember:
    """Fit a mixture of numbers (m, p) and indicators (m, L) of categories."""
    assert pool.layout is not None  # of rows with categories
    p = sample.shape[1]
    layout = replace(
        pool.layout,
        n_columns=p + len(pool.layout.sizes),
        places=tuple(range(p, p + len(pool.layout.sizes))),
    )
    rows = Rows(
        torch.as_tensor(np.hstack([sample, levels])),
        has_missing=bool(np.isnan(sample).any()),
        levels=layout,
    )
    spec = FitSpec(
        n_clusters=min(n_clusters, LEVEL_CLUSTERS),
        latent_dim=min(COMPONENTS, p - 1),
        latent_penalty=None,
        rule=RULES["em"],
        init="k-means++",
        n_init=1,
        max_iter=ITERATIONS,
        tol=TOLERANCE,
        own_spread=True,
    )
    model = solve(_filled(rows), spec, pool.rng).model
    wide = np.full((len(sample), pool.x.shape[1]), np.nan)
    wide[:, columns] = sample
    sizes = np.array(layout.sizes)
    return LevelMember.of(model, torch.as_tensor(np.hstack([wide, levels])), columns, sizes)


def _as_if_unseen(misfits: Array, weights: Array, unseen: Array) -> Array:
    """Misfits (n,) of rows that a member was fitted to, brought to the level of other rows.

    A row that was drawn gets the misfit of the same rank among the rows that were not. So all
    members score each row, as they will score a new one. Copies that were not drawn keep their own.
    """
    different, places = np.unique(misfits, return_inverse=True)
    drawn, left = (np.bincount(places, weights * share) for share in (1 - unseen, unseen))
    ranks = (np.cumsum(drawn) - drawn / 2) / max(drawn.sum(), 1e-300)
    level = np.interp(ranks, (np.cumsum(left) - left / 2) / left.sum(), different)
    return np.where(unseen > 0, misfits, np.maximum(misfits, level[places]))


def _mean_score(samples: list[_Sample], weights: Array) -> Array:
    """Mean (n,) over all samples, as spread as that of new rows.

    Samples agree less on rows that only some of them contain, so that the mean is less spread than
    on new rows; how much they agree on new rows is known from rows that neither of a pair contains.
    """
    table, unseen = (
        np.stack([getattr(sample, name) for sample in samples]) for name in ("scores", "unseen")
    )
    mean: Array = table.mean(0)
    # Of the bulk only: rows far out would decide by who happens to have seen them.
    bulk = np.clip(table, -BULK, BULK)
    left = unseen * np.sqrt(weights)
    off = left * (bulk - np.average(bulk, axis=1, weights=weights)[:, None])
    pairs = left @ left.T
    expected = float(((off @ off.T) / np.maximum(pairs, 1e-300))[pairs > 0].mean())
    center, present = _moments(bulk.mean(0), weights)
    stretch = math.sqrt(max(expected, 0)) / present if present > 0 else 1.0
    more = (stretch - 1) * (np.clip(mean, -BULK, BULK) - center)
    return np.asarray(mean + more) if stretch > NOISE else mean


def new_reference(n_clusters: int, latent_dim: int, **parameters: Any) -> LinearTAE:
    """Make a mixture of probabilistic PCAs that is quickly fitted, with one start."""
    return LinearTAE(n_clusters, latent_dim, spread="own", n_init=1, tol=TOLERANCE, **parameters)


def _fitted(x: Array, n_clusters: int, latent_dim: int, seed: int, iterations: int) -> LinearTAE:
    model = new_reference(n_clusters, latent_dim, max_iter=iterations, random_state=seed)
    with collected_warnings():  # it need not converge, and clusters may stay empty
        return model.fit(x)


def _reference(ordinary: Pool, plan: Plan) -> LinearTAE:
    """Fit clusters in all columns to ordinary rows; their number by density of other rows."""
    n = len(ordinary.x)
    size = max(2, min(REFERENCE_ROWS, math.ceil(SEEN_SHARE * n)))
    places, unseen = ordinary.draw(size)
    there = ~np.isnan(ordinary.x)
    sample = np.where(there[places].any(0), ordinary.x[places], 0.0)
    others = (ordinary.x[unseen > 0] if unseen.any() else ordinary.x)[:REFERENCE_ROWS]
    latent_dim = min(REFERENCE_COMPONENTS, ordinary.x.shape[1] - 1)
    numbers = (plan.n_clusters,) if plan.n_clusters else REFERENCE_CLUSTERS
    models = []
    for k in sorted({min(k, max(1, size // FEWEST_MEMBERS)) for k in numbers}):
        seed = int(ordinary.rng.randint(2**31 - 1))
        models.append(_fitted(sample, k, latent_dim, seed, REFERENCE_ITERATIONS))
    best = max(models, key=lambda model: model.score(others)) if len(models) > 1 else models[0]
    # A small cluster may be a group of outliers, which must not explain its own members.
    usual = np.asarray(best.weights_ >= SMALL_SHARE)[best.labels_]
    if usual.all() or not usual.any():
        return best
    names, labels = np.unique(best.labels_[usual], return_inverse=True)
    model = new_reference(len(names), latent_dim, init=labels, max_iter=REFERENCE_ITERATIONS)
    with collected_warnings():
        return model.fit(sample[usual])


@dataclass(frozen=True)
class _Values:
    """Which values a column has.

    Attributes
    ----------
    step : float
        Distance of the values of half of the rows, at least, from the next value.
    has_point_mass : bool
        Whether one value has a large share of the rows.
    """

    step: float
    has_point_mass: bool


def _column_values(values: Array, weights: Array) -> _Values:
    there = ~np.isnan(values)
    different, places = np.unique(values[there], return_inverse=True)
    counts = np.bincount(places, weights[there])
    if len(different) < 2:
        return _Values(0.0, has_point_mass=False)
    between = np.diff(different)
    nearest = np.minimum(np.append(between, np.inf), np.append(np.inf, between))
    order = np.argsort(nearest, kind="stable")
    step = weighted_quantile(nearest[order], counts[order], 0.5)
    return _Values(step, has_point_mass=bool(counts.max() >= POINT_MASS * counts.sum()))


def _column_scale(values: Array, weights: Array) -> tuple[float, float]:
    """Mean and standard deviation of a column whose tails are pulled in."""
    there = ~np.isnan(values)
    order = np.argsort(values[there], kind="stable")
    rising, counts = values[there][order], weights[there][order]
    if not len(rising):
        return 0.0, 1.0
    low, high = (weighted_quantile(rising, counts, share) for share in TAILS)
    pulled = np.clip(rising, low, high)
    mean, spread = _moments(pulled, counts)
    whole = _moments(rising, counts)[1]
    spread = spread if spread > 0.05 * whole else whole
    smallest = 1e-12 * float(np.abs(rising[[0, -1]]).max())
    return mean, spread if spread > smallest else 1.0


def _moments(values: Array, weights: Array) -> tuple[float, float]:
    mean = float(np.average(values, weights=weights))
    return mean, math.sqrt(float(np.average((values - mean) ** 2, weights=weights)))


def _middle_and_unit(misfits: Array, weights: Array) -> tuple[float, float]:
    """Median, and median distance from it, which is never zero."""
    order = np.argsort(misfits, kind="stable")
    middle = weighted_quantile(misfits[order], weights[order], 0.5)
    off = np.abs(misfits - middle)
    order = np.argsort(off, kind="stable")
    unit = weighted_quantile(off[order], weights[order], 0.5)
    return middle, max(unit, 1e-9 * max(1.0, abs(middle)))


def _filled(rows: Rows) -> Rows:
    """Rows that can be sorted along a direction."""
    return rows.filled(rows.observed_means()[0]) if rows.has_missing else rows
