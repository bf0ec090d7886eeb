"""OutlierTAE: check -> fit members to samples -> calibrate -> publish.

Shapes: n samples, d features.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import OutlierMixin
from sklearn.utils import Tags

from tensorae._notebook import EstimatorWithCard
from tensorae._parameters import Constraints, Interval, check_parameters
from tensorae._torch import isolated_torch
from tensorae._validation import (
    check_device,
    check_fitted,
    check_rows,
    check_sample_weight,
    check_seed,
    no_values_error,
)
from tensorae.anomaly.detector import Detector, weighted_quantile
from tensorae.anomaly.fit import CLUSTERS, Plan, Pool, fit_detector, new_reference
from tensorae.data.scaling import Scaling
from tensorae.exceptions import InvalidInputError
from tensorae.linear_tae import LinearTAE
from tensorae.rows import Rows

__all__ = ["OutlierTAE"]

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
    anomaly score is the mean of their misfits, each in its usual unit and on a logarithmic scale.
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

    def __init__(
        self,
        contamination: float | str = "auto",
        n_clusters: int | str = "auto",
        *,
        n_estimators: int = 5,
        max_samples: int = 1000,
        random_state: Any = None,
        device: Any = None,
    ) -> None:
        self.contamination = contamination
        self.n_clusters = n_clusters
        self.n_estimators = n_estimators
        self.max_samples = max_samples
        self.random_state = random_state
        self.device = device

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
            rows = rows.weighted(check_sample_weight(sample_weight, rows, 1))
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

    def score_samples(self, X: Any) -> Any:
        """Minus the anomaly score: about zero for ordinary rows, lower for outliers.

        Parameters
        ----------
        X : array-like, Tensor or Batches of shape (n, d)

        Returns
        -------
        ndarray or Tensor of shape (n,)
            Minus the mean over all members of log(1 + u), with u the misfit minus its median, in
            median absolute deviations (minus log(1 - u) where u is below zero).
        """
        return self._scored(X, torch.neg)

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
        return write_report(
            self.reference_,
            X,
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
        return check_rows(self, X, reset=reset, device=self.device, allow_nan=True)

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
        if rows.shared:  # other processes have the other rows; the pool stands for all
            score = self._detector.anomaly_score(torch.as_tensor(pool.x)).numpy()
            weights = pool.weights
        else:
            parts = rows.in_chunks(self._detector.chunk_rows).observed_chunks()
            score = np.concatenate(
                [self._detector.anomaly_score(x).cpu().numpy() for _, x in parts]
            )
            weights = rows.all_weights().double().cpu().numpy()
        rising = np.argsort(score, kind="stable")
        line = weighted_quantile(score[rising], weights[rising], 1 - share)
        above = score[(score > line) & (weights > 0)]
        # Between two rows, so that rounding does not decide.
        return (line + float(above.min())) / 2 if above.size else line

    @isolated_torch()
    def _scored(self, X: Any, step: Any, *, whole: bool = False) -> Any:
        """Apply ``step`` to the score of checked rows, and give back the kind that came in."""
        check_fitted(self)
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
        self._check_plan(Rows(torch.zeros(1, 1).expand(self.n_samples_, self.n_features_in_)))

    def _checked_device(self) -> torch.device:
        return check_device(self.device)

    # What storage asks for -------------------------------------------------------------------

    def _new_reference(self, n_clusters: int, latent_dim: int) -> LinearTAE:
        return new_reference(n_clusters, latent_dim)

    def _restore(self, detector: Detector, reference: LinearTAE) -> None:
        self._detector, self.reference_ = detector, reference
