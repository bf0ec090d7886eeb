"""LinearTAE: validate -> solve -> publish.

Shapes: n samples, k clusters, d features, h latent.
"""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch

from tensorae.estimators.keeping import kept_fit
from tensorae.estimators.linear_fitted import FittedLinear, as_array
from tensorae.estimators.options import check_number, check_penalty, check_seed, linear_options
from tensorae.estimators.streaming import (
    check_batches,
    check_streamable,
    is_batches,
    refuse,
    shared_seed,
)
from tensorae.estimators.validation import check_known_labels, check_sample_weight, check_samples
from tensorae.exceptions import InvalidParameterError
from tensorae.linear.incremental import absorb
from tensorae.linear.rows import default_chunk_rows
from tensorae.linear.solver import solve, solve_rows
from tensorae.linear.streams import StreamedRows
from tensorae.storage import register

if TYPE_CHECKING:
    from tensorae.data import Batches

__all__ = ["LinearTAE"]


@register
class LinearTAE(FittedLinear):
    """Linear Tensorized Autoencoder: clusters, each with principal directions of its own.

    Minimises ``sum_i min_j |x_i - C_j|² - (1-λ) |U_j (x_i - C_j)|²`` over centres C_j and
    components U_j with orthonormal rows, exactly, by alternation: labels, then centres (means),
    then components (top eigenvectors of each cluster's scatter). There is no learning rate and
    there are no epochs. λ = 1 is k-means, one cluster is PCA, λ -> 0 is k-subspaces.

    Parameters
    ----------
    n_clusters : int, default=8
        k, the number of autoencoders.
    latent_dim : int, default=2
        h, the length of a code; at most the number of features.
    latent_penalty : float in (0, 1] or "auto", default=0.1
        λ, the weight of the squared code in the cost. "auto" estimates it from the data: the
        ratio of the variance per direction off and along the components.
    assignment : {"lloyd", "projected", "constrained", "em"}, default="lloyd"
        How the assignments are updated: the cheapest autoencoder (Option 3 of the paper), a
        projected (2) or exponentiated (1) gradient step, or the posterior of section 5.
    init : {"k-means++", "k-means", "random"} or array-like of shape (k, d), default="k-means++"
        First centres. "k-means++": greedy k-means++ seeds, half of the starts after a short
        k-means run; "k-means": all of them after such a run; random rows; or given centres.
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
        Cluster of each sample; equal to ``predict`` of the same samples.
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
    latent_penalty_ : float
        λ that was used.
    loss_ : float
        Sum of the costs of all samples (by weight) in their clusters.
    loss_path_ : ndarray
        Loss along the best start, after every iteration. It never rises for a given λ and hard
        labels.
    objective_path_ : ndarray
        What the fit minimises and never rises: the loss, or minus the log-likelihood of the
        model of section 5 where ``assignment="em"`` or ``latent_penalty="auto"``.
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

    loss_: float

    def __init__(
        self,
        n_clusters: int = 8,
        latent_dim: int = 2,
        *,
        latent_penalty: float | str = 0.1,
        assignment: str = "lloyd",
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
        self.assignment = assignment
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.verbose = verbose
        self.batch_size = batch_size
        self.device = device

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
            Batches are read pass by pass; in a process group each process reads its share, and
            ``labels_`` are of that share.
        y : ignored
            Here for scikit-learn's pipelines.
        sample_weight : array-like of shape (n,), optional
            A weight of two counts like a row that occurs twice.
        labels : array-like of shape (n,), optional
            The few labels that are known, -1 elsewhere. They seed the clusters, and cluster j
            keeps the label j; they are not enforced. Clusters that no label names are seeded
            by k-means++.
        checkpoint : path-like, optional
            File to keep the state of a long fit in. If it is there, the fit goes on from it and
            ends with the same model as one that was not interrupted; at the end it is removed.
        checkpoint_every : float, default=60
            Seconds between two writes of it.

        Returns
        -------
        LinearTAE
            Itself.
        """
        if is_batches(X):
            refuse("sample_weight", sample_weight)
            refuse("labels", labels)
            return self._fit_batches(X, checkpoint, checkpoint_every)
        samples = check_samples(self, X, reset=True, device=self.device)
        options = linear_options(self.get_params(deep=False), samples.tensor)
        weights = check_sample_weight(sample_weight, samples.tensor, options.n_clusters)
        known = check_known_labels(labels, samples.tensor, options.n_clusters)
        if known is not None and not isinstance(self.init, str):
            raise InvalidParameterError(
                "init must be a name where labels are given, got centres as well; "
                "leave one of the two out."
            )
        seed = check_seed(self.random_state)
        keeper, seed = kept_fit(self, samples.tensor, checkpoint, checkpoint_every, seed)
        with torch.no_grad():
            solution = solve(
                samples.tensor,
                options,
                seed,
                weights=weights,
                known_labels=known,
                chunk_rows=self._checked_batch_size(),
                checkpoint=keeper,
            )
        self._publish(solution, samples.tensor)
        self._close([(samples.tensor, weights)], len(samples.tensor))
        self._keep_moments(solution, self.cluster_centers_.dtype.type)
        if keeper is not None:
            keeper.remove()
        self._say_how_it_went(solution)
        return self

    def _check_parameters(self) -> None:
        check_seed(self.random_state)
        linear_options(self.get_params(deep=False), self._fitted_rows())
        self._checked_batch_size()

    def _fit_batches(self, X: Batches, checkpoint: Any, checkpoint_every: float) -> Self:
        """Fit rows that are read pass by pass, each process of a group its share."""
        samples = check_batches(self, X, reset=True, device=self.device, shared=True)
        options = linear_options(self.get_params(deep=False), samples.like)
        check_streamable(options, samples.shape)
        n_scores = options.n_clusters * (options.latent_dim + 1)
        width = samples.like.element_size()
        with torch.no_grad():
            rows = StreamedRows(
                samples.batches,
                processes=samples.processes,
                device=samples.device,
                chunk_rows=self._checked_batch_size()
                or default_chunk_rows(samples.shape[1], n_scores, width),
            )
            seed = shared_seed(self.random_state, samples.processes)
            keeper, seed = kept_fit(self, samples, checkpoint, checkpoint_every, seed)
            solution = solve_rows(rows, options, seed, checkpoint=keeper)
        self._publish(solution, samples.like)
        chunks = ((x, None) for x in samples.tensors())
        self._close(chunks, samples.batches.n_rows, samples.processes)
        self._keep_moments(solution, self.cluster_centers_.dtype.type)
        if keeper is not None:
            keeper.remove()
        self._say_how_it_went(solution)
        return self

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
            Itself. ``labels_``, ``loss_`` and the paths are of the last batch; ``n_iter_``
            counts batches.

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
            self._kept_sums()  # says at once where it cannot go on
            return self
        samples = check_samples(self, X, reset=False, device=self.device)
        x = samples.tensor
        weights = check_sample_weight(sample_weight, x, 1)
        sums, parameters, _ = absorb(
            self._kept_sums().to(x.device).decayed(share),
            x,
            weights,
            torch.as_tensor(self.components_, device=x.device),
            self.latent_penalty_,
            estimated_penalty=check_penalty(self.latent_penalty) is None,
        )
        batches = self.n_iter_ + 1
        self._publish_parameters(parameters[0], parameters.model[0], x)
        self._close([(x, weights)], len(x))
        self._moments = {
            "counts": as_array(sums.counts),
            "centers": as_array(sums.centers),
            "scatters": as_array(sums.scatters).astype(self.components_.dtype),
        }
        self._denoiser = None
        self.n_iter_, self.converged_ = batches, True
        self.loss_path_ = self.objective_path_ = np.array([self.loss_])
        self.entropy_path_ = np.array([])
        return self
