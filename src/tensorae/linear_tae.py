"""LinearTAE: check -> solve -> publish.

Shapes: n samples, k clusters, d features, h latent.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from os import PathLike
from typing import Any, Self

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from tensorae._check_data import (
    check_known_labels,
    check_sample_weight,
)
from tensorae._check_gaps import fill_gaps
from tensorae._check_parameters import (
    check_integer,
    check_number,
    check_penalty,
    check_seed,
    linear_wishes,
)
from tensorae._kept_sums import CPU, KeepsSums, as_array
from tensorae._torch import isolated_torch
from tensorae._warnings import warn
from tensorae.assignment import rule_name
from tensorae.core.families import Parameters
from tensorae.core.mixture import LinearModel
from tensorae.core.partial_fit import absorb
from tensorae.core.prediction import GapPredictor, LinearPredictor
from tensorae.core.search import is_start
from tensorae.core.selection import solve_by_evidence
from tensorae.core.spec import Solution, SolverOptions
from tensorae.exceptions import InvalidInputError, InvalidParameterError
from tensorae.persist import register
from tensorae.rows import Rows
from tensorae.rows.rows import ACCURATE

__all__ = ["LinearTAE"]

AS_GIVEN = "All settings were given."
# Passes of a fit, at least.
PASSES = 16

logger = logging.getLogger(__name__)


@register
class LinearTAE(KeepsSums):
    """Linear Tensorized Autoencoder: clusters, each with principal directions of its own.

    Finds centres C_j and components U_j with orthonormal rows exactly, by alternation: labels,
    then centres (means), then components (top eigenvectors of each cluster's scatter). There is
    no learning rate and there are no epochs. How long the codes are and how far clusters spread
    is read from the data, without labels, unless it is given.

    With ``spread="shared"`` it minimises ``sum_i min_j |x_i - C_j|² - (1-λ) |U_j (x_i - C_j)|²``,
    the loss of the paper: λ = 1 is k-means, one cluster is PCA, λ -> 0 is k-subspaces. With
    ``spread="own"`` every cluster has its own variance along each component and its own noise off
    them (section 5 in full, a mixture of probabilistic PCAs): no component is a mixture of
    spheres, d-1 of them are one of full Gaussians.

    NaN in X is a missing value: clusters are fitted to what is there, by EM with the conditional
    means and covariances of the rest, and ``impute`` fills it in. Nothing is filled before.

    Parameters
    ----------
    n_clusters : int, "auto" or sequence of int, default=8
        k, the number of autoencoders, or numbers to compare; "auto" compares 1 to 10. See
        :func:`tensorae.choose`.
    latent_dim : int or "auto", default="auto"
        h, the length of a code; at most the number of features, and one less where spreads are
        own. "auto" reads it from the data; with own spreads each cluster has its own number of
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

    @isolated_torch()
    def fit(
        self,
        X: Any,
        y: Any = None,  # noqa: ARG002
        *,
        sample_weight: Any = None,
        labels: Any = None,
        checkpoint: str | PathLike[str] | None = None,
        checkpoint_every: float = 60.0,
    ) -> Self:
        """Find the clusters and their components.

        Parameters
        ----------
        X : array-like, Tensor or Batches of shape (n, d)
            NaN is a missing value. Batches are read pass by pass; in a process group each process
            reads its share, and ``labels_`` are of that share.
        y : ignored
            Here for scikit-learn's pipelines.
        sample_weight : array-like of shape (n,), optional
            A weight of two counts like a row that occurs twice, also where settings are chosen:
            more rows are evidence for more clusters. Weights that only say how much rows count
            beside each other should be divided by their mean. (Those that sum to less than there
            are rows count as so many rows.)
        labels : array-like of shape (n,), optional
            The few labels that are known, -1 elsewhere. They seed the clusters, and cluster j
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
        rows = self._check_rows(X, reset=True)
        wishes = linear_wishes(self.get_params(deep=False), rows)
        options = wishes.options
        rng = check_seed(self.random_state, rows.processes)
        kept = None
        if sample_weight is not None:
            rows = rows.weighted(check_sample_weight(sample_weight, rows, options.n_clusters))
        if labels is not None and len(wishes.n_clusters) > 1:
            raise InvalidParameterError(
                "labels name clusters, but n_clusters leaves their number open; give n_clusters as "
                "a number, or leave labels out."
            )
        known = check_known_labels(labels, rows, options.n_clusters, options.init)
        if known is not None:
            wishes = wishes.seeded()
        if checkpoint is not None:
            self._warn_of_starts(known, options)
            kept, rng = self._checkpoint(rows, checkpoint, checkpoint_every, rng, known)
        with rows.parallel(PASSES * sum(wishes.n_clusters)):
            if rows.gapped:
                rows = fill_gaps(self, rows, options.n_clusters)
            # A third faster than no_grad where data is small and most of the time goes into calls.
            with torch.inference_mode():
                resume = None if kept is None else kept.resume
                solution, comparison = solve_by_evidence(
                    rows, wishes, rng, known_labels=known, observe=kept, resume=resume
                )
            estimated = options.latent_penalty is None
            self.assignment_ = rule_name(self.assignment, estimated_penalty=estimated)
            self._publish(solution, rows)
            doubts = [] if comparison is None else comparison.doubts()
        self.pooled_ = comparison is not None and comparison.chosen.options.common
        self.comparison_ = {} if comparison is None else comparison.table()
        self.reason_ = AS_GIVEN if comparison is None else comparison.reason()
        self._warn_of_doubts(doubts)
        if len(wishes.n_clusters) > 1:
            self._warn_of_weights(rows)
        if kept is not None:
            kept.remove()
        self._warn_if_needed()
        if self.verbose:
            logger.info(
                "%s: loss %.6g after %d iterations, best of %d starts. %s",
                type(self).__name__, self.loss_, self.n_iter_, solution.n_starts, self.reason_,
            )  # fmt: skip
        return self

    def _check_parameters(self) -> None:
        check_seed(self.random_state)
        linear_wishes(self.get_params(deep=False), self._fitted_rows())

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
            rows = rows.weighted(check_sample_weight(sample_weight, rows, 1))
        with rows.parallel(len(self.cluster_centers_)):
            predictor = self._predictor(rows)
            chunks = rows.in_chunks(predictor.chunk_rows)
            moments, parameters = absorb(
                self._kept_sums(rows.device),
                rows,
                predictor.unshifted(),
                chunks.map(lambda x: predictor.assign(x)[0]),
                decay=share,
                estimated_penalty=check_penalty(self.latent_penalty) is None,
                tied=torch.as_tensor(self.tied_variance_, dtype=ACCURATE, device=rows.device),
                pooled=self.pooled_,
            )
            self._publish_parameters(parameters[0], parameters.model[0], rows)
            self._assign_once_more(rows)
        self._moments, self._denoiser = moments.arrays(self.components_.dtype), None
        self.n_iter_, self.converged_ = self.n_iter_ + 1, True
        self.loss_path_ = self.objective_path_ = np.array([self.loss_])
        self.entropy_path_ = np.array([])
        return self

    # Results ----------------------------------------------------------------------------------

    def _publish(self, solution: Solution, rows: Rows) -> None:
        """Publish a whole fit."""
        run = solution.run
        self._publish_parameters(run.parameters[0], solution.model, rows)
        self.loss_path_ = np.array(run.course.loss)
        self.objective_path_ = np.array(run.course.objective)
        self.entropy_path_ = np.array(run.course.entropy)
        self.n_iter_, self.converged_ = run.n_iter, run.converged
        kind = self.cluster_centers_.dtype
        tied = torch.zeros(rows.d) if solution.tied is None else solution.tied
        self.tied_variance_: np.ndarray = as_array(tied).astype(kind)
        self._keep_moments(solution, rows)
        self._assign_once_more(rows)

    def _publish_parameters(self, parameters: Parameters, model: LinearModel, rows: Rows) -> None:
        """Publish what was learned; ``model`` is in the coordinates of the data."""
        kind = np.float32 if rows.dtype == torch.float32 else np.float64
        spreads = model.spreads
        self.spread_ = "shared" if spreads is None else "own"
        self.latent_dims_ = as_array(parameters.latent_dims)
        shown = model.components.shape[1]
        if spreads is not None and self.latent_dim == "auto":
            # Codes as long as the longest; one component at least is there to look at.
            shown = min(shown, max(1, int(self.latent_dims_.max())))
        counts, traces = as_array(parameters.counts), as_array(parameters.traces)
        scatter = as_array(parameters.variances)[:, :shown]
        # A cluster that nobody belongs to has sums of the prior only.
        members = np.where(counts > 1e-12 * counts.sum(), counts, 1)
        rest = np.clip(traces - scatter.sum(1), 0, None)
        whole = np.where(traces > 0, traces, 1)
        noise, along = rest / (members * max(rows.d - shown, 1)), scatter / members[:, None]
        if spreads is not None:
            noise, counted = as_array(spreads.noise), as_array(spreads.along)[:, :shown]
            along = np.where(np.arange(shown) < self.latent_dims_[:, None], counted, along)
        self.cluster_centers_ = as_array(model.centers).astype(kind)
        self.components_ = as_array(model.components)[:, :shown].astype(kind)
        self.explained_variance_ = along.astype(kind)
        self.explained_variance_ratio_ = (scatter / whole[:, None]).astype(kind)
        self.noise_variance_ = noise.astype(kind)
        self.weights_ = (counts / counts.sum()).astype(kind)
        self.latent_penalty_ = float(model.latent_penalty)

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[1])

    def _predictor(self, rows: Rows) -> LinearPredictor:
        size = self.batch_size
        if size is not None:  # it may have been set after the fit
            size = check_integer("batch_size", size, low=1)
        kind = GapPredictor if rows.gapped else LinearPredictor
        return kind.of_published(
            rows.device,
            centers=self.cluster_centers_,
            components=self.components_,
            weights=self.weights_,
            explained_variance=self.explained_variance_,
            noise_variance=self.noise_variance_,
            latent_penalty=self.latent_penalty_,
            latent_dims=self.latent_dims_ if self.spread_ == "own" else None,
            chunk_rows=size,
            equal_priors=self._equal_priors,
        )

    @staticmethod
    def _warn_of_starts(known: Tensor | None, options: SolverOptions) -> None:
        if is_start(known, options.n_clusters):
            return
        cause = "labels" if known is not None else f"n_init={options.n_init}"
        if known is not None or (options.n_init or 1) > 1:
            warn(
                f"checkpoint keeps no state of a fit with {cause}, whose starts run side by side; "
                "leave it out, or give one start by init.",
                RuntimeWarning,
                stacklevel=4,
            )

    @staticmethod
    def _warn_of_weights(rows: Rows) -> None:
        """Warn where weights tell no row from another, and yet decide on the number of clusters."""
        if rows.weights is None:
            return
        counting = rows.weights[rows.weights > 0]
        weight = float(counting.max())
        if weight > 1 and weight == float(counting.min()):
            warn(
                f"all rows have the same sample_weight, {weight:g}, and count as {weight:g} equal "
                "rows each, which is evidence for more clusters; leave "
                "sample_weight out if it is only a scale.",
                RuntimeWarning,
                stacklevel=4,
            )

    @staticmethod
    def _warn_of_doubts(doubts: list[str]) -> None:
        for doubt in doubts:
            warn(
                f"X may be no mixture of blobs: {doubt} Look at a plot, or try HDBSCAN or spectral "
                "clustering for such shapes.",
                RuntimeWarning,
                stacklevel=4,
            )

    def _warn_if_needed(self) -> None:
        if not self.converged_:
            warn(
                f"LinearTAE did not converge within max_iter={self.max_iter} iterations; "
                "raise max_iter or tol.",
                ConvergenceWarning,
                stacklevel=4,
            )
        n_alive, k = np.count_nonzero(self.cluster_sizes_), len(self.cluster_sizes_)
        if n_alive < k:
            cause = (
                "X has too few different rows for more"
                if self._equal_priors
                else "every sample is more probable in another one, as happens where clusters "
                "lie on top of each other or X has too few different rows"
            )
            warn(
                f"only {n_alive} of n_clusters={k} clusters have members: {cause}; lower "
                "n_clusters.",
                ConvergenceWarning,
                stacklevel=4,
            )
