"""LinearTAE: check -> solve -> publish, and what follows from the density.

Shapes: n samples, k clusters, d features, h latent.
"""

from __future__ import annotations

import functools
import logging
import math
from collections.abc import Sequence
from os import PathLike
from typing import Any, Self

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags
from torch import Tensor

from tensorae._base import BaseTAE, Step, by_partition
from tensorae._callbacks import FitTasks, with_callbacks
from tensorae._containers import as_features
from tensorae._parameters import (
    Constraints,
    Interval,
    Options,
    check_integer,
    check_number,
    check_parameters,
)
from tensorae._torch import isolated_torch
from tensorae._validation import (
    CPU,
    check_fitted,
    check_init,
    check_known_labels,
    check_latent_dim,
    check_mixed_rows,
    check_n_clusters,
    check_sample_weight,
    check_seed,
    no_values_error,
)
from tensorae._warnings import warn
from tensorae.assignment import RULES, Rule, rule_name
from tensorae.core.compress import RowSpace
from tensorae.core.denoise import Denoiser
from tensorae.core.em import absorb, in_order_of
from tensorae.core.families import Parameters
from tensorae.core.mixture import LinearPredictor, Mixture, n_parameters
from tensorae.core.search import is_start
from tensorae.core.selection import select_and_fit
from tensorae.core.spec import FitSpec, SearchSpace, Solution
from tensorae.core.statistics import KEPT_NUMBERS, Moments
from tensorae.data.categories import CategoryEncoder, level_names
from tensorae.data.dask import is_dask
from tensorae.data.rows import Rows
from tensorae.exceptions import InvalidInputError, InvalidParameterError

__all__ = ["LinearTAE"]

INITS = ("k-means++", "k-means", "random")
OWN_ASSIGNMENTS = ("lloyd", "em")
CONSTRAINTS: Constraints = {
    "latent_dim": Interval(int, 0, auto=True),
    "latent_penalty": Interval(float, 0, 1, closed="right", auto=True),
    "spread": Options(("auto", "shared", "own")),
    "n_init": Interval(int, 1, auto=True),
    "max_iter": Interval(int, 1),
    "tol": Interval(float, 0),
    "batch_size": Interval(int, 1, none=True),
}
# Largest number of clusters that n_clusters="auto" always looks at.
MOST_CLUSTERS = 10
# Passes of a fit, at least.
PASSES = 16

logger = logging.getLogger(__name__)


class LinearTAE(BaseTAE):
    """Linear Tensorized Autoencoder: clusters, each with principal directions of its own.

    Finds centres C_j and components U_j with orthonormal rows by alternating exact steps: labels,
    then centres (means), then components (top eigenvectors of each cluster's scatter). There is
    no learning rate and there are no epochs. The latent dimension and the variances of the
    clusters are chosen from the data, without labels, unless they are given.

    With ``spread="shared"`` it minimises ``sum_i min_j |x_i - C_j|² - (1-λ) |U_j (x_i - C_j)|²``,
    the loss of the paper: λ = 1 is k-means, one cluster is PCA, λ -> 0 is k-subspaces. With
    ``spread="own"`` every cluster has its own variance along each component and its own noise off
    them (section 5 in full, a mixture of probabilistic PCAs): no component is a mixture of
    spheres, d-1 of them are one of full Gaussians.

    NaN in X is a missing value: clusters are fitted to the observed values, by EM with the
    conditional means and covariances of the others, and ``impute`` returns them. There is no
    imputation before the fit.

    Parameters
    ----------
    n_clusters : int, "auto" or sequence of int, default=8
        k, the number of autoencoders, or numbers to compare; "auto" compares 1 to 10 and,
        while the evidence grows, up to 50. See :func:`tensorae.choose`.
    latent_dim : int or "auto", default="auto"
        h, the length of a code; at most the number of features, and one less where spreads are
        own. "auto" chooses it from the data; with own spreads each cluster has its own number of
        components that count, see ``latent_dims_``.
    latent_penalty : float in (0, 1] or "auto", default="auto"
        λ, the weight of the squared code in the cost of a shared spread. "auto" estimates it
        from the data: the ratio of the variance per direction off and along the components.
    spread : {"auto", "shared", "own"}, default="auto"
        Whether one λ and one noise serve all clusters, as in the paper, or each has its own
        variances. "auto" lets the data decide, unless a number for ``latent_penalty`` says
        "shared".
    assignment : {"auto", "lloyd", "projected", "constrained", "em"}, default="auto"
        How the assignments are updated: the cheapest autoencoder (Option 3 of the paper), a
        projected (2) or exponentiated (1) gradient step (both for a shared spread only), or the
        posterior of section 5. "auto" is "lloyd" where ``latent_penalty`` is a number, so that
        the loss of the paper is minimised, and else "em", which maximises a likelihood.
    init : {"k-means++", "k-means", "random"} or array-like, default="k-means++"
        First centres. "k-means++": greedy k-means++ seeds, half of the starts after a short
        k-means run; "k-means": all of them after such a run; random rows; or centres that are
        given, shape (k, d). An array of shape (n,) is the first label of each row, 0 to k-1,
        taken as it is: the alternation begins with the means and directions of those groups.
    n_init : int or "auto", default="auto"
        Number of starts, of which the one with the lowest loss (or highest likelihood) is kept;
        given centres, or known labels of all clusters, are one start. "auto" makes ten and,
        where they do not agree, goes on from the best one by moving single clusters; where the
        data is large all that happens on a sample, and the best fit goes on with all rows.
    max_iter : int, default=300
        Most iterations of one start; the steps that close Options 1 and 2 come on top.
    tol : float, default=1e-6
        Stop where an iteration lowers the loss by no more than this share of it.
    random_state : int, RandomState or None, default=None
        Makes the starts repeatable. The order of the rows does not matter.
    verbose : int, default=0
        Above zero, a summary of the fit goes to the ``tensorae`` logger as information; show it
        with ``logging.basicConfig(level="INFO")``.
    batch_size : int or None, default=None
        Rows per chunk of a pass, in ``fit`` and after; None chooses so that a chunk stays in the
        processor's cache. The result depends on it by no more than rounding.
    device : str, torch.device or None, default=None
        Where to compute. None: the CPU for arrays, the tensor's own device for tensors.
        "auto": a GPU where there is one.
    categorical_features : "from_dtype", None or array-like, default="from_dtype"
        Which columns are categories: those of type category, text or bool in a data frame of
        pandas, polars or pyarrow, or those with the given names, numbers or truth values. Each
        cluster has its own probabilities of their levels. Categories with an order count as
        numbers unless they are named. None: all columns are numbers.
    handle_unknown : {"warn", "error"}, default="warn"
        What to do about levels that ``fit`` did not see: they are improbable in every cluster, or
        refused.

    Attributes
    ----------
    labels_ : ndarray of shape (n,)
        Cluster of each sample, the most probable one; equal to ``predict`` of the same samples.
    cluster_sizes_ : ndarray of shape (k,)
        Samples in each cluster, whatever they weigh; of all processes, where several share them.
    cluster_centers_ : ndarray of shape (k, d)
        C_j. The largest cluster comes first, unless ``init`` or ``labels`` numbered them.
    components_ : ndarray of shape (k, h, d)
        U_j: orthonormal rows in the order of falling variance, largest loading positive.
    explained_variance_ : ndarray of shape (k, h)
        Variance of each cluster along each of its components.
    explained_variance_ratio_ : ndarray of shape (k, h)
        The same as a share of the cluster's whole variance.
    noise_variance_ : ndarray of shape (k,)
        Mean variance of each cluster per direction off its components.
    weights_ : ndarray of shape (k,)
        Share of the samples (by weight) in each cluster.
    spread_ : {"shared", "own"}
        Whether clusters share one spread.
    assignment_ : str
        How the assignments were updated; "auto" is settled here. They are soft with "em" only.
    pooled_ : bool
        Whether own spreads are one covariance, pooled over all clusters: where clusters differ too
        little, or have too few samples, for more.
    latent_dims_ : ndarray of shape (k,)
        Components of each cluster that count. With own spreads and ``latent_dim="auto"`` clusters
        differ; all have as many rows in ``components_`` as the largest (at least one), so that
        codes are of one length. Rows beyond a cluster's own number show its next directions, but
        have no variance of their own in its costs.
    tied_variance_ : ndarray of shape (d,)
        Variance that tied values add to each feature inside own spreads: many samples that share
        a value (yes/no, counts, mostly zeros) would be a cluster without any variance otherwise.
        Zero for continuous features.
    latent_penalty_ : float
        λ that was used; with own spreads the mean ratio of the variances off and along.
    is_categorical_ : ndarray of shape (p,)
        Which columns of X are categories. ``cluster_centers_`` and ``components_`` are of the d
        others.
    categories_ : list of ndarray
        Levels of each of these columns; rare ones beyond the fifty most frequent are one, named
        by the most frequent of them.
    level_probabilities_ : list of ndarray of shape (k, n_levels)
        Their probabilities in each cluster.
    comparison_ : dict of lists
        What was compared where something was "auto", a column for each measure and a row for each
        fit: ``n_clusters``, ``spread``, ``pooled``, ``latent_dim``, ``latent_penalty``,
        ``log_likelihood``, ``n_parameters``, ``bic``, ``hierarchical_bic``, ``icl``, ``cut`` (share
        of neighbours in different clusters), ``score`` (what families are compared by: ICL per row
        and the cut), ``seconds`` and ``chosen``; with several ``n_clusters`` also
        ``agreement_of_halves`` (adjusted Rand index) and ``held_out_density`` for the best fit
        with each number. Lower is better, but for likelihood, agreement and density. Where there
        are many rows it is of a sample. A pandas ``DataFrame`` can be made of it.
    reason_ : str
        Why these settings were chosen, in one sentence.
    loss_ : float
        Sum of the costs of all samples (by weight) in their clusters. Of a sample with missing
        values the cost is what is to be expected of the whole sample.
    loss_path_ : ndarray
        Loss along the best start, after every iteration. It never rises for a given λ and hard
        labels.
    objective_path_ : ndarray
        What the fit minimises and never rises: the loss, or minus the log-likelihood of the
        model of section 5 where ``assignment="em"`` or ``latent_penalty="auto"``. Where values
        are missing, always minus the log-likelihood of what is there.
    entropy_path_ : ndarray
        Mean entropy of an assignment after every iteration; empty for hard assignments.
    n_iter_ : int
        Iterations of the best start.
    converged_ : bool
        Whether the best start came to its fixed point within ``max_iter``.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (d,)
        Only where X has column names.

    See Also
    --------
    sklearn.cluster.KMeans : The same with λ = 1: round clusters only.
    sklearn.mixture.GaussianMixture : Soft clusters with full covariances.
    sklearn.decomposition.PCA : The same with one cluster.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from tensorae import LinearTAE
    >>> X = load_iris().data
    >>> model = LinearTAE(n_clusters=3, latent_dim=1, random_state=0).fit(X)
    >>> model.components_.shape
    (3, 1, 4)
    >>> model.transform(X[:5]).shape
    (5, 1)
    >>> bool((model.predict(X) == model.labels_).all())
    True
    """

    # The columns of categories, and logs of probabilities of all their levels (k, L).
    _categories: CategoryEncoder | None = None
    _levels: np.ndarray | None = None
    # Sums for ``denoise`` and ``partial_fit``, in the coordinates of a plane where data was wide.
    _moments: dict[str, np.ndarray] | None
    _frame: tuple[np.ndarray, np.ndarray] | None
    _denoiser: Denoiser | None

    def __init__(
        self,
        n_clusters: int | str | Sequence[int] = 8,
        latent_dim: int | str = "auto",
        *,
        latent_penalty: float | str = "auto",
        spread: str = "auto",
        assignment: str = "auto",
        init: Any = "k-means++",
        n_init: int | str = "auto",
        max_iter: int = 300,
        tol: float = 1e-6,
        random_state: Any = None,
        verbose: int = 0,
        batch_size: int | None = None,
        device: Any = None,
        categorical_features: Any = "from_dtype",
        handle_unknown: str = "warn",
    ) -> None:
        self.n_clusters = n_clusters
        self.latent_dim = latent_dim
        self.latent_penalty = latent_penalty
        self.spread = spread
        self.assignment = assignment
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.verbose = verbose
        self.batch_size = batch_size
        self.device = device
        self.categorical_features = categorical_features
        self.handle_unknown = handle_unknown

    @with_callbacks
    @isolated_torch()
    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        sample_weight: Any = None,
        labels: Any = None,
        checkpoint: str | PathLike[str] | None = None,
        checkpoint_every: float = 60.0,
    ) -> Self:
        """Find the clusters and their components.

        Parameters
        ----------
        X : array-like, Tensor, Batches, dask Array or dask DataFrame of shape (n, d)
            NaN is a missing value. Batches are read pass by pass; in a process group each process
            reads its share, and ``labels_`` are of that share. Of a Dask collection each pass runs
            where the partitions are, and ``labels_`` is a lazy Dask array.
        y : ignored
            Here for scikit-learn's pipelines.
        sample_weight : array-like of shape (n,), optional
            A weight of two counts like a row that occurs twice, also where settings are chosen:
            more rows are evidence for more clusters. Weights that only say how much rows count
            beside each other should be divided by their mean. (Those that sum to less than there
            are rows count as so many rows.)
        labels : array-like of shape (n,), optional
            The few labels that are known, -1 elsewhere; or names, and None elsewhere: cluster j
            has the j-th of the sorted names. They seed the clusters, and cluster j
            keeps the label j; they are not enforced. Clusters that no label names are seeded
            by k-means++. Where all are known, they are taken as they are, as labels in ``init``.
        checkpoint : path-like, optional
            File to keep the state of a long fit in. If it is there, the fit goes on from it and
            ends with the same model as one that was not interrupted; at the end it is removed.
            What is kept is the run over all rows: starts that run side by side (``labels``, more
            than one ``n_init``, or so few rows that all starts do) take short and begin anew.
        checkpoint_every : float, default=60
            Seconds between two writes of it.

        Returns
        -------
        LinearTAE
            Itself.
        """
        tasks = FitTasks(self, X, y)
        rows, space, known, rng = self._check_fit(X, sample_weight, labels)
        state = None
        if checkpoint is not None:
            self._warn_of_starts(known, space.options)
            state, rng = self._checkpoint(rows, checkpoint, checkpoint_every, rng, known)
        with rows.parallel(PASSES * sum(space.n_clusters)):
            if rows.has_missing:
                rows = self._fill_with_means(rows, space.options.n_clusters)
            # A third faster than no_grad where data is small and most of the time goes into calls.
            with torch.inference_mode():
                solution, comparison = select_and_fit(
                    rows,
                    space,
                    rng,
                    known_labels=known,
                    observe=state,
                    resume=None if state is None else state.resume,
                )
            self._publish(solution, rows)
            if rows.remote:
                self.labels_ = self.predict(X)
            diagnostics = [] if comparison is None else comparison.diagnostics()
        self.pooled_ = comparison is not None and comparison.chosen.options.common
        self.comparison_ = {} if comparison is None else comparison.table()
        self.reason_ = "All settings were given." if comparison is None else comparison.reason()
        if state is not None:
            state.remove()
        self._warn_of_fit(diagnostics, rows if len(space.n_clusters) > 1 else None)
        if self.verbose:
            logger.info(
                "%s: loss %.6g after %d iterations, best of %d starts. %s",
                type(self).__name__, self.loss_, self.n_iter_, solution.n_starts, self.reason_,
            )  # fmt: skip
        tasks.end()
        return self

    @isolated_torch()
    def partial_fit(
        self,
        X: Any,
        y: Any = None,  # noqa: ARG002
        *,
        sample_weight: Any = None,
        decay: float = 1.0,
    ) -> Self:
        """Learn from one more batch of an endless stream.

        The first batch is fitted as a whole, with all starts; it needs at least ``n_clusters``
        rows, and should show every cluster. Each further one is assigned by the present model
        and added to the sums of all rows so far, from which centres and components follow. A
        cluster that gets no rows keeps its place. Clusters keep their numbers.

        Parameters
        ----------
        X : array-like or Tensor of shape (n, d)
        y : ignored
        sample_weight : array-like of shape (n,), optional
        decay : float in (0, 1], default=1.0
            What old rows count for after the batch: 1 keeps all for ever; 0.99 halves the
            weight of a row every 69 batches, for streams that change.

        Returns
        -------
        LinearTAE
            Itself. ``labels_``, ``cluster_sizes_``, ``loss_`` and the paths are of the last batch;
            ``n_iter_`` counts batches.

        Examples
        --------
        >>> from tensorae import LinearTAE
        >>> from tensorae.datasets import lines_3d
        >>> model = LinearTAE(n_clusters=3, latent_dim=1, random_state=0)
        >>> for seed in range(5):
        ...     X, _ = lines_3d(random_state=seed)
        ...     model = model.partial_fit(X)
        >>> model.n_iter_
        5
        """
        share = check_number("decay", decay, low=0, high=1, low_allowed=False)
        if hasattr(X, "dask") and is_dask(X):
            raise InvalidInputError(
                f"X must be a table in memory for partial_fit, got a Dask {type(X).__name__}; use "
                "fit for it, or call partial_fit with one partition after the other."
            )
        if not hasattr(self, "cluster_centers_"):
            self.fit(X, sample_weight=sample_weight)
            self.n_iter_ = 1
            self._kept_sums(CPU)  # says at once where it cannot go on
            return self
        rows = self._check_rows(X, reset=False)
        if rows.streamed:
            raise InvalidInputError(
                "X must be a table in memory for partial_fit, got Batches; use fit for them, or "
                "call partial_fit with one batch after the other."
            )
        if sample_weight is not None:
            rows = rows.with_weights(check_sample_weight(sample_weight, rows, 1))
        with rows.parallel(len(self.cluster_centers_)):
            predictor = self._predictor(rows)
            chunks = rows.in_chunks(predictor.chunk_rows)
            moments, parameters = absorb(
                self._kept_sums(rows.device),
                rows,
                predictor.unshifted(),
                chunks.map(lambda x: predictor.assign(x)[0]),
                decay=share,
                estimated_penalty=self.latent_penalty == "auto",
                tied=torch.as_tensor(self.tied_variance_, dtype=torch.float64, device=rows.device),
                pooled=self.pooled_,
            )
            self._publish_parameters(parameters[0], parameters.model[0], rows)
            self._assign_once_more(rows)
        self._moments, self._denoiser = moments.arrays(self.components_.dtype), None
        self.n_iter_, self.converged_ = self.n_iter_ + 1, True
        self.loss_path_ = self.objective_path_ = np.array([self.loss_])
        self.entropy_path_ = np.array([])
        return self

    @by_partition
    def log_density(self, X: Any) -> Any:
        """Log of the density of each sample under the mixture of Gaussians of section 5.

        Cluster j is a Gaussian with mean ``cluster_centers_[j]`` and weight ``weights_[j]``. Its
        variance is ``explained_variance_[j]`` along its components and ``noise_variance_[j]`` in
        all other directions where spreads are own. Where one is shared it is s² in all other
        directions and s²/λ along the components, with s² the mean cost per number in X.

        The weights are those of the fit, also where assignments are hard and ``predict_proba``
        compares clusters of equal prior: so it is a density, and can be compared between numbers
        of clusters. Of a sample with missing values it is that of the values that are there.

        Parameters
        ----------
        X : array-like or Tensor of shape (n, d)

        Returns
        -------
        ndarray or Tensor of shape (n,)

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from tensorae import LinearTAE
        >>> X = load_iris().data
        >>> model = LinearTAE(3, spread="own", random_state=0).fit(X)
        >>> far = model.log_density([[50.0, 50.0, 50.0, 50.0]])
        >>> bool(far[0] < model.log_density(X).min())
        True
        """
        return self._map(X, lambda predictor, x: predictor.log_density(x))

    def score_samples(self, X: Any) -> Any:
        """Log-density of each sample: a low score means that it fits no cluster.

        It is that of ``log_density`` for every ``spread_`` and ``assignment_``, so that ``score``
        can be compared between folds, numbers of clusters and settings; ``GridSearchCV`` and
        ``cross_val_score`` may go by it. The cost of Eq. 3 is ``costs(X).min(1)``.

        Parameters
        ----------
        X : array-like or Tensor of shape (n, d)

        Returns
        -------
        ndarray or Tensor of shape (n,)
        """
        return self.log_density(X)

    def bic(self, X: Any) -> float:
        """Bayesian information criterion of the density on X: the lower the better.

        Parameters
        ----------
        X : array-like or Tensor of shape (n, d)

        Returns
        -------
        float
        """
        return self._criterion(X, bayesian=True)

    def aic(self, X: Any) -> float:
        """Akaike information criterion of the density on X: the lower the better.

        Parameters
        ----------
        X : array-like or Tensor of shape (n, d)

        Returns
        -------
        float
        """
        return self._criterion(X, bayesian=False)

    @isolated_torch()
    def sample(self, n_samples: int = 1, *, random_state: Any = None) -> tuple[Any, Any]:
        """Draw samples from the density.

        Parameters
        ----------
        n_samples : int, default=1
        random_state : int, RandomState or None, default=None
            Makes the draw repeatable; None takes that of the estimator.

        Returns
        -------
        X : ndarray of shape (n, d)
            In the order of the clusters.
        labels : ndarray of shape (n,)
            Cluster that each sample was drawn from.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from tensorae import LinearTAE
        >>> model = LinearTAE(3, random_state=0).fit(load_iris().data)
        >>> X, labels = model.sample(5)
        >>> X.shape, labels.shape
        ((5, 4), (5,))
        """
        check_fitted(self)
        n = check_integer("n_samples", n_samples, low=1)
        rng = check_seed(self.random_state if random_state is None else random_state)
        device = self._checked_device()
        nothing = Rows(torch.zeros(0, self.n_features_in_, device=device))
        predictor: Any = self._predictor(nothing)  # that of a density
        points, labels = predictor.sample(n, rng)
        kind = self.cluster_centers_.dtype
        drawn = labels.cpu().numpy().astype(np.int32)
        if self._categories is not None:
            return self._categories.inverse_transform(
                self._categories.layout.collapse(points)
            ), drawn
        return points.cpu().numpy().astype(kind, copy=False), drawn

    @by_partition
    @as_features
    def impute(self, X: Any, *, n_draws: int | None = None, random_state: Any = None) -> Any:
        """Impute missing values from the sample's cluster, given its observed values.

        A missing value (NaN) gets its conditional mean, averaged over the clusters by their
        probability, a missing category its most probable level. Observed values stay as they are,
        bit for bit.

        Parameters
        ----------
        X : array-like or Tensor of shape (n, d)
        n_draws : int, optional
            Return that many completed copies instead, with missing values drawn from their
            conditional distribution: analyse each, and the spread of the results shows the
            uncertainty due to missing values (multiple imputation).
        random_state : int, RandomState or None, default=None
            Makes the draws repeatable; None takes that of the estimator.

        Returns
        -------
        ndarray or Tensor of shape (n, d), or (n_draws, n, d)
            With categories a data frame like X, or a list of them.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.datasets import load_iris
        >>> from tensorae import LinearTAE
        >>> X = load_iris().data
        >>> X[::7, 2] = np.nan
        >>> model = LinearTAE(3, random_state=0).fit(X)
        >>> filled = model.impute(X)
        >>> bool(np.isnan(filled).any()), model.impute(X, n_draws=5).shape
        (False, (5, 150, 4))
        """
        if n_draws is None:
            return self._imputed(X, lambda predictor, x: predictor.filled(x))
        draws = check_integer("n_draws", n_draws, low=1)
        rng = check_seed(self.random_state if random_state is None else random_state)
        copies = [
            self._imputed(X, lambda predictor, x: predictor.draw(x, rng)) for _ in range(draws)
        ]
        if isinstance(X, Tensor):
            return torch.stack(copies)
        return np.stack(copies) if self._categories is None else copies

    def _imputed(self, X: Any, step: Step) -> Any:
        """X with what is missing from rows (n, d + L) that ``step`` makes."""
        filled = self._map(X, lambda predictor, x: self._coded(step(predictor, x)))
        return filled if self._categories is None else self._categories.filled(X, filled)

    def _numbers(self, X: Any, kind: str = "given") -> Any:
        """Numbers (n, d) of a table with categories: "given", "imputed" or "reconstructed"."""

        def step(predictor: LinearPredictor, x: Tensor) -> Tensor:
            if kind == "imputed":
                return predictor.conditional(x)[0]
            if kind == "reconstructed":
                labels = predictor.assign(x)[0]
                return predictor.decode(predictor.encode(x, labels), labels)
            return x[:, : predictor.model.d]

        return self._map(X, step)

    def _coded(self, x: Tensor) -> Tensor:
        """Coded rows of rows (m, d + L); those of numbers are as they are."""
        return x if self._categories is None else self._categories.layout.collapse(x)

    @by_partition
    def impute_std(self, X: Any) -> Any:
        """Conditional standard deviation of each missing value; zero for observed values.

        For a missing category it is the probability that another level than the one that
        ``impute`` fills in is right.

        Parameters
        ----------
        X : array-like or Tensor of shape (n, d)

        Returns
        -------
        ndarray or Tensor of shape (n, d)

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.datasets import load_iris
        >>> from tensorae import LinearTAE
        >>> X = load_iris().data
        >>> model = LinearTAE(3, random_state=0).fit(X)
        >>> model.impute_std([[np.nan, 3.5, 1.4, 0.2]]).round(1)
        array([[0.3, 0. , 0. , 0. ]])
        """
        return self._map(X, lambda predictor, x: self._coded_deviations(predictor, x))

    def _coded_deviations(self, predictor: LinearPredictor, x: Tensor) -> Tensor:
        """Standard deviations (m, p) of numbers, chances to be wrong of categories."""
        deviations: Tensor = predictor.deviations(x)
        if self._categories is None:
            return deviations
        indicators, chances = x[:, deviations.shape[1] :], predictor.level_probabilities(x)
        return self._categories.layout.deviations(deviations, indicators, chances)

    def level_proba(self, X: Any) -> list[Any]:
        """Probabilities of the levels of each column of categories, given what a sample shows.

        Where the category is missing, the largest of them is what ``impute`` fills in.

        Parameters
        ----------
        X : array-like or Tensor of shape (n, p)

        Returns
        -------
        list of ndarray or Tensor of shape (n, n_levels)
            One for each of ``categories_``.

        Examples
        --------
        >>> from palmerpenguins import load_penguins
        >>> from tensorae import LinearTAE
        >>> birds = load_penguins().drop(columns=["year", "island"])
        >>> model = LinearTAE(3, random_state=0).fit(birds)
        >>> unknown = birds.assign(species=None)
        >>> model.level_proba(unknown)[0].shape
        (344, 3)
        """
        check_fitted(self)
        if self._categories is None:
            return []
        found = self._map(X, lambda predictor, x: predictor.level_probabilities(x))
        return [found[:, part][:, :-1] for part in self._categories.layout.slices]

    @by_partition
    @as_features
    def reconstruct(self, X: Any) -> Any:
        """Encode, decode and add the centre back: the rank-h picture of each sample.

        A category becomes the most probable level of the sample's cluster.

        Parameters
        ----------
        X : array-like or Tensor of shape (n, d)

        Returns
        -------
        ndarray or Tensor of shape (n, d), or a data frame like X where it has categories
        """
        if self._categories is None:
            return super().reconstruct(X)
        categories = self._categories

        def step(predictor: LinearPredictor, x: Tensor) -> Tensor:
            labels = predictor.assign(x)[0]
            return self._coded(predictor.decoded(predictor.encode(x, labels), labels))

        table = categories.inverse_transform(self._map(X, step))
        if categories.kind == "pandas" and hasattr(X, "columns") and hasattr(X, "index"):
            table.index = X.index
        return table

    def inverse_transform(self, Z: Any, labels: Any) -> Any:
        """Decode codes by the named autoencoders.

        A category becomes the most probable level of the cluster.

        Parameters
        ----------
        Z : array-like or Tensor of shape (n, h)
            Codes, as ``transform`` gives them.
        labels : array-like or Tensor of shape (n,)
            Which autoencoder each code belongs to, as ``predict`` gives it.

        Returns
        -------
        ndarray or Tensor of shape (n, d), or a data frame like that of ``fit`` with categories
        """
        points = super().inverse_transform(Z, labels)
        if self._categories is None:
            return points
        assert self._levels is not None  # where there are categories
        names = torch.as_tensor(labels).long().cpu()
        levels = torch.as_tensor(np.exp(self._levels))[names]
        numbers = torch.as_tensor(points).to(levels)
        whole = self._categories.layout.collapse(torch.cat([numbers, levels], 1))
        return self._categories.inverse_transform(whole)

    @as_features
    @isolated_torch()
    def denoise(self, X: Any, noise: float | str, *, fitted_on: str = "noisy") -> Any:
        """Take noise out of samples by shrinking them towards their clusters.

        Where ``reconstruct`` cuts off every direction but h, this shrinks each direction of a
        cluster by the share of its variance that is noise, averaged over clusters by their
        probability: the best estimate under one Gaussian per cluster.

        Parameters
        ----------
        X : array-like or Tensor of shape (n, d)
            Samples with noise that is alike on all features.
        noise : float or "auto"
            Standard deviation of the noise. "auto" estimates it from the fitted samples: several
            equal variances at the lower end of their spectrum are taken for noise, with caution,
            since too little is safe. It finds none in two or fewer features, or where samples
            are fewer than features, and then nothing changes. Data whose own spread is alike in
            many directions looks like noise to it: give a number there.
        fitted_on : {"noisy", "clean"}, default="noisy"
            Whether the samples that were fitted had this noise too, or none.

        Returns
        -------
        ndarray or Tensor of shape (n, d)

        Examples
        --------
        >>> from tensorae import LinearTAE
        >>> from tensorae.datasets import add_noise, lines_3d
        >>> X, _ = lines_3d(random_state=0)
        >>> X_noisy = add_noise(X, 0.1, random_state=0)
        >>> model = LinearTAE(n_clusters=3, latent_dim=1, random_state=0).fit(X_noisy)
        >>> clean = model.denoise(X_noisy, noise=0.1)
        >>> bool(((clean - X) ** 2).mean() < 0.7 * ((X_noisy - X) ** 2).mean())
        True
        """
        check_fitted(self)
        clean = Options(("noisy", "clean")).check("fitted_on", fitted_on) == "clean"
        deviation = Interval(float, 0, auto=True).check("noise", noise)
        if deviation is None and clean:
            raise InvalidParameterError(
                'noise must be a number where fitted_on="clean", because "auto" estimates it from '
                'the fitted samples, got "auto"; give the noise as a number.'
            )
        denoiser = self._fitted_denoiser()
        variance = denoiser.noise_variance() if deviation is None else min(deviation, 1e100) ** 2
        on_device = functools.cache(denoiser.to)

        def shrink(predictor: Any, x: Tensor) -> Tensor:
            numbers = x[:, : predictor.model.d]
            points = on_device(x.device).denoise(numbers, variance, fitted_on_noisy=not clean)
            if predictor.model.levels.shape[-1]:
                points = torch.cat([points, x[:, predictor.model.d :].to(points)], 1)
            # Where no noise was found, values are still missing.
            whole: Tensor = predictor.filled(points) if _lacks_values(points) else points
            return self._coded(whole)

        denoised = self._map(X, shrink)
        return (
            denoised if self._categories is None else self._categories.inverse_transform(denoised)
        )

    def __sklearn_tags__(self) -> Tags:
        """Tell scikit-learn that NaN is a missing value."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _check_rows(self, X: Any, *, reset: bool) -> Rows:
        return check_mixed_rows(self, X, reset=reset, device=self.device)

    def _fitted_rows(self) -> Rows:
        """Rows (n, d + L), as many as were fitted, with no memory behind them."""
        n = int(self.cluster_sizes_.sum())
        levels = None if self._categories is None else self._categories.layout
        width = self.cluster_centers_.shape[1] + (0 if levels is None else levels.n_levels)
        return Rows(torch.zeros(1, 1).expand(n, width), levels=levels)

    @property
    def is_categorical_(self) -> np.ndarray:
        """Which columns of X are categories."""
        check_fitted(self)
        found = np.zeros(self.n_features_in_, dtype=bool)
        if self._categories is not None:
            found[self._categories.places] = True
        return found

    @property
    def categories_(self) -> list[np.ndarray]:
        """Levels of each column of categories."""
        check_fitted(self)
        return level_names(self._categories)

    @property
    def level_probabilities_(self) -> list[np.ndarray]:
        """Probabilities (k, n_levels) of the levels of each column of categories."""
        check_fitted(self)
        if self._categories is None or self._levels is None:
            return []
        # The last code of a column is that of levels which the fit has not seen.
        return [np.exp(self._levels[:, part])[:, :-1] for part in self._categories.layout.slices]

    # Checks -----------------------------------------------------------------------------------

    def _check_fit(
        self, X: Any, sample_weight: Any, labels: Any
    ) -> tuple[Rows, SearchSpace, Tensor | None, np.random.RandomState]:
        """Rows, settings to compare, known labels (n,) and the generator of a fit."""
        rows = self._check_rows(X, reset=True)
        space = self._search_space(rows)
        rng = check_seed(self.random_state, rows.processes)
        k = space.options.n_clusters
        if sample_weight is not None:
            rows = rows.with_weights(check_sample_weight(sample_weight, rows, k))
        if labels is not None and len(space.n_clusters) > 1:
            raise InvalidParameterError(
                f"labels requires an integer n_clusters, got {self.n_clusters!r}; give n_clusters "
                "as a number, or leave labels out."
            )
        known = check_known_labels(labels, rows, k, space.options.init)
        return rows, space if known is None else space.seeded(), known, rng

    def _check_parameters(self) -> None:
        check_seed(self.random_state)
        self._search_space(self._fitted_rows())

    def _search_space(self, rows: Rows) -> SearchSpace:
        """Check the parameters for rows (n, d); what is "auto" is compared."""
        checked = check_parameters(self.get_params(deep=False), CONSTRAINTS)
        h, penalty = checked["latent_dim"], checked["latent_penalty"]
        sizes = check_n_clusters(self.n_clusters, rows.count, several=True)
        sizes = sizes or tuple(range(1, min(MOST_CLUSTERS, rows.count) + 1))
        if len(sizes) > 1 and not isinstance(self.init, str):
            raise InvalidParameterError(
                f"init requires an integer n_clusters where it gives centres or labels, got "
                f"{self.n_clusters!r}; give n_clusters as a number, or the name of a start."
            )
        Options(("auto", *RULES)).check("assignment", self.assignment)
        init = check_init(self.init, INITS, (sizes[-1], rows.d), rows.device)
        rule = RULES[rule_name(self.assignment, estimated_penalty=penalty is None)]
        options = FitSpec(
            n_clusters=sizes[-1],
            latent_dim=0 if h is None else check_latent_dim(h, rows.d),
            latent_penalty=penalty,
            rule=rule,
            init=init,
            n_init=checked["n_init"],
            max_iter=checked["max_iter"],
            tol=checked["tol"],
            chunk_rows=checked["batch_size"],
        )
        own = self._own_spread(h, penalty, rows.d)
        if rows.levels is not None:
            self._check_for_categories(penalty, rule)
        if (options.n_init or 1) > 1 and not isinstance(init, str):
            warn(
                f"n_init={options.n_init} has no effect, since init gives one start; leave n_init "
                "out.",
                RuntimeWarning,
            )
        if rows.streamed and not (rule.hard or rule.probabilistic):
            raise InvalidParameterError(
                'assignment must be "lloyd" or "em" where X is Batches or a Dask collection, since '
                f"the others keep k numbers for each row, got {self.assignment!r}; give X as an "
                "array (no --stream)."
            )
        if rows.streamed and rows.d > rows.count:
            raise InvalidInputError(
                "X must have at least as many rows as features where it is Batches, got "
                f"{rows.count} rows of {rows.d} features; give X as an array (no --stream)."
            )
        any_rule, any_number = self.assignment == "auto", isinstance(self.n_clusters, str)
        return SearchSpace(options, sizes, h, own, any_rule=any_rule, open_ended=any_number)

    def _check_for_categories(self, penalty: float | None, rule: Rule) -> None:
        """Refuse settings that mean nothing where X has categories."""
        if penalty is not None:
            raise InvalidParameterError(
                "latent_penalty must be left out where X has categories, because the loss of the "
                f"paper is one of numbers, got {penalty:g}; leave it out, or set "
                "categorical_features=None."
            )
        if not (rule.hard or rule.probabilistic):
            raise InvalidParameterError(
                'assignment must be "lloyd" or "em" where X has categories, got '
                f"{self.assignment!r}; change it, or set categorical_features=None."
            )

    def _own_spread(self, latent_dim: int | None, penalty: float | None, d: int) -> bool | None:
        """Whether spreads are own; None where the data decides."""
        assignment = rule_name(self.assignment, estimated_penalty=penalty is None)
        refusal = None
        if penalty is not None:
            refusal = f"latent_penalty is left out, got {penalty:g}; leave latent_penalty out."
        elif assignment not in OWN_ASSIGNMENTS:
            refusal = f'assignment is "lloyd" or "em", got {assignment!r}; change one of the two.'
        elif latent_dim is not None and latent_dim >= d:
            refusal = (
                f"latent_dim is at most {d - 1} for n_features={d}, because one direction is left "
                f"to the noise, got {latent_dim}; lower latent_dim."
            )
        if self.spread == "own" and refusal:
            raise InvalidParameterError(f'spread="own" requires that {refusal}')
        if latent_dim == 0 and penalty is not None:
            raise InvalidParameterError(
                "latent_penalty must be left out where latent_dim=0 leaves no code to penalise, "
                f"got {penalty:g}; leave it out, or give a latent_dim of at least 1."
            )
        if self.spread == "shared" or refusal:
            return False
        return True if self.spread == "own" else None

    def _fill_with_means(self, rows: Rows, n_clusters: int) -> Rows:
        """Fill missing values with the means of their columns, for first steps that need values.

        A column without values is refused. A row without values does not count; where rows are
        streamed, and none can be left out, it counts by its expectation.
        """
        means, weight, n_empty = rows.observed_means()
        names = getattr(self, "feature_names_in_", None)
        for column in (weight == 0).nonzero().squeeze(1).tolist():
            raise no_values_error(names, column)
        if n_empty:
            warn(
                f"{n_empty} of the {rows.count} rows of X have no value at all: they say nothing "
                "about the clusters, and get the most frequent one; drop them.",
                RuntimeWarning,
            )
        if rows.count - n_empty < n_clusters:
            raise InvalidInputError(
                f"at least n_clusters={n_clusters} rows of X must have a value, got "
                f"n_samples={rows.count - n_empty} of them; lower n_clusters."
            )
        if n_empty and not rows.streamed:
            there = ~rows.data.isnan().all(1)
            rows = rows.with_weights(rows.weights * there.to(rows.weights.dtype))
        return rows.filled(torch.where(weight > 0, means, 0))

    # Results ----------------------------------------------------------------------------------

    def _publish(self, solution: Solution, rows: Rows) -> None:
        """Publish a whole fit."""
        run = solution.run
        used = solution.options.rule
        self.assignment_ = next(name for name, rule in RULES.items() if rule is used)
        self._publish_parameters(run.parameters[0], solution.model, rows)
        self.loss_path_ = np.array(run.trace.loss)
        self.objective_path_ = np.array(run.trace.objective)
        self.entropy_path_ = np.array(run.trace.entropy)
        self.n_iter_, self.converged_ = run.n_iter, run.converged
        kind = self.cluster_centers_.dtype
        tied = torch.zeros(rows.d) if solution.tied is None else solution.tied
        self.tied_variance_: np.ndarray = as_array(tied).astype(kind)
        self._keep_moments(solution, rows)
        self._assign_once_more(rows)

    def _publish_parameters(self, parameters: Parameters, model: Mixture, rows: Rows) -> None:
        """Publish what was learned; ``model`` is in the coordinates of the data."""
        kind = np.float32 if rows.dtype == torch.float32 else np.float64
        self.spread_ = "shared" if model.tied else "own"
        self.latent_dims_ = as_array(parameters.latent_dims)
        shown = model.components.shape[1]
        if not model.tied and self.latent_dim == "auto":
            # Codes as long as the longest; one component at least is there to look at.
            shown = min(shown, max(1, int(self.latent_dims_.max())))
        counts, traces = as_array(parameters.counts), as_array(parameters.traces)
        scatter = as_array(parameters.variances)[:, :shown]
        # A cluster that nobody belongs to has sums of the prior only.
        members = np.where(counts > 1e-12 * counts.sum(), counts, 1)
        rest = np.clip(traces - scatter.sum(1), 0, None)
        whole = np.where(traces > 0, traces, 1)
        noise, along = rest / (members * max(rows.d - shown, 1)), scatter / members[:, None]
        if not model.tied:
            noise, counted = as_array(model.noise), as_array(model.along)[:, :shown]
            along = np.where(np.arange(shown) < self.latent_dims_[:, None], counted, along)
        self.cluster_centers_ = as_array(model.centers).astype(kind)
        self.components_ = as_array(model.components)[:, :shown].astype(kind)
        self.explained_variance_ = along.astype(kind)
        self.explained_variance_ratio_ = (scatter / whole[:, None]).astype(kind)
        self.noise_variance_ = noise.astype(kind)
        self.weights_ = (counts / counts.sum()).astype(kind)
        self.latent_penalty_ = float(model.latent_penalty)
        self._levels = None if rows.levels is None else as_array(model.levels)

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[1])

    def _predictor(self, rows: Rows) -> LinearPredictor:
        size = self.batch_size
        if size is not None:  # it may have been set after the fit
            size = check_integer("batch_size", size, low=1)
        return LinearPredictor.of_published(
            rows.device,
            centers=self.cluster_centers_,
            components=self.components_,
            weights=self.weights_,
            explained_variance=self.explained_variance_,
            noise_variance=self.noise_variance_,
            latent_penalty=self.latent_penalty_,
            latent_dims=self.latent_dims_ if self.spread_ == "own" else None,
            chunk_rows=size,
            equal_priors=not RULES[self.assignment_].probabilistic,
            levels=self._levels,
            columns=() if self._categories is None else self._categories.layout.slices,
        )

    def _keep_moments(self, solution: Solution, rows: Rows) -> None:
        """Keep what ``denoise`` needs; its decompositions wait until it is called."""
        moments, span = solution.run.moments, solution.span
        kind = self.cluster_centers_.dtype
        self._denoiser = self._moments = self._frame = None
        if moments.n_numbers > KEPT_NUMBERS:
            self._denoiser = Denoiser.from_moments(moments, solution.shift, span=span).to(CPU)
            return
        if span is not None:
            self._frame = as_array(span.origin).astype(kind), as_array(span.axes).astype(kind)
        # Weights that sum to less than the rows they stand for say nothing about their number.
        rows_per_weight = max(1.0, rows.n / float(moments.counts.sum()))
        self._moments = moments.arrays(kind, solution.shift, rows_per_weight)

    def _kept_sums(self, device: torch.device) -> Moments:
        """Sums of all rows so far, to go on from."""
        if self._moments is None or self._frame is not None:
            raise InvalidInputError(
                f"partial_fit needs the sums of the clusters, which {self.n_features_in_} features "
                "make too large, or which the first batch had too few rows for; reduce the "
                "features first, or give a first batch of more rows than features."
            )
        centers = torch.as_tensor(self.cluster_centers_, device=device)
        return in_order_of(centers, Moments.of_arrays(self._moments, device))

    def _fitted_denoiser(self) -> Denoiser:
        if self._denoiser is None:
            span = None
            if self._frame is not None:
                span = RowSpace(
                    *(torch.as_tensor(part, dtype=torch.float64) for part in self._frame)
                )
            assert self._moments is not None  # one of the two is kept
            moments = Moments.of_arrays(self._moments, CPU)
            origin = torch.zeros_like(moments.references[0, 0])
            self._denoiser = Denoiser.from_moments(moments, origin, span=span)
        return self._denoiser

    def _criterion(self, X: Any, *, bayesian: bool) -> float:
        densities = self.log_density(X)
        free = n_parameters(
            self.latent_dims_,
            self.cluster_centers_.shape[1],
            own=self.spread_ == "own",
            penalty=self.latent_penalty_,
            given=not isinstance(self.latent_penalty, str),
            common=self.pooled_,
            level_parameters=sum(len(levels) - 1 for levels in self.categories_),
        )
        price = math.log(len(densities)) if bayesian else 2.0
        return price * free - 2 * float(densities.sum())

    @staticmethod
    def _warn_of_starts(known: Tensor | None, options: FitSpec) -> None:
        if is_start(known, options.n_clusters):
            return
        cause = "labels" if known is not None else f"n_init={options.n_init}"
        if known is not None or (options.n_init or 1) > 1:
            warn(
                f"checkpoint keeps no state of a fit with {cause}, whose starts run side by side; "
                "leave it out, or give one start by init.",
                RuntimeWarning,
            )

    def _warn_of_fit(self, diagnostics: list[str], compared: Rows | None) -> None:
        """Warn of what the user should know; ``compared`` where numbers of clusters were."""
        for doubt in diagnostics:
            warn(
                f"the clusters do not look Gaussian: {doubt} Look at a plot, or try HDBSCAN or "
                "spectral clustering for such shapes.",
                RuntimeWarning,
            )
        if compared is not None and compared.weighted:
            counting = compared.weights[compared.weights > 0]
            weight = float(counting.max())
            if weight > 1 and weight == float(counting.min()):
                # Such weights tell no row from another, and yet decide on the number of clusters.
                warn(
                    f"all rows have the same sample_weight, {weight:g}, and count as {weight:g} "
                    "equal rows each, which is evidence for more clusters; leave sample_weight "
                    "out if it is only a scale.",
                    RuntimeWarning,
                )
        if not self.converged_:
            warn(
                f"LinearTAE did not converge within max_iter={self.max_iter} iterations; "
                "raise max_iter or tol.",
                ConvergenceWarning,
            )
        n_alive, k = np.count_nonzero(self.cluster_sizes_), len(self.cluster_sizes_)
        if n_alive < k:
            cause = (
                "X has too few distinct rows for more"
                if self._equal_priors
                else "every sample is more probable in another one, as happens where clusters "
                "overlap completely or X has too few distinct rows"
            )
            warn(
                f"only {n_alive} of n_clusters={k} clusters have members: {cause}; lower "
                "n_clusters.",
                ConvergenceWarning,
            )


def _lacks_values(points: Tensor) -> bool:
    return bool(points.isnan().any())


def as_array(tensor: Tensor) -> np.ndarray:
    """Return a tensor's numbers as an array on the CPU."""
    array: np.ndarray = tensor.detach().cpu().numpy()
    return array
