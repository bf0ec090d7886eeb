"""LinearTAE: validate -> solve -> publish.

Shapes: n samples, k clusters, d features, h latent.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from tensorae.estimators.base import BaseTAE, Worker
from tensorae.estimators.linear_worker import LinearWorker
from tensorae.estimators.options import (
    check_auto,
    check_integer,
    check_number,
    check_seed,
    linear_options,
)
from tensorae.estimators.streaming import (
    check_batches,
    check_streamable,
    is_batches,
    refuse,
    shared_seed,
)
from tensorae.estimators.validation import (
    check_fitted,
    check_known_labels,
    check_sample_weight,
    check_samples,
)
from tensorae.exceptions import InvalidParameterError, unknown_choice
from tensorae.linear.denoising import Denoiser
from tensorae.linear.frames import Frame
from tensorae.linear.moments import Moments
from tensorae.linear.rows import ACCURATE, default_chunk_rows
from tensorae.linear.solver import Solution, solve, solve_rows
from tensorae.linear.streams import StreamedRows
from tensorae.parallel import Processes

if TYPE_CHECKING:
    from tensorae.batches import Batches

__all__ = ["LinearTAE"]

FITTED_ON = ("noisy", "clean")
# Numbers in the clusters' scatters up to which they are kept as they are.
LARGEST_MOMENTS = 1 << 24

logger = logging.getLogger(__name__)


class LinearTAE(BaseTAE):
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
    ) -> Self:
        """Find the clusters and their components.

        Parameters
        ----------
        X : array-like or Tensor of shape (n, d)
        y : ignored
            Here for scikit-learn's pipelines.
        sample_weight : array-like of shape (n,), optional
            A weight of two counts like a row that occurs twice.
        labels : array-like of shape (n,), optional
            The few labels that are known, -1 elsewhere. They seed the clusters, and cluster j
            keeps the label j; they are not enforced. Clusters that no label names are seeded
            by k-means++.

        Returns
        -------
        LinearTAE
            Itself.
        """
        if is_batches(X):
            return self._fit_batches(X, sample_weight, labels)
        samples = check_samples(self, X, reset=True, device=self.device)
        options = linear_options(self.get_params(deep=False), samples.tensor)
        weights = check_sample_weight(sample_weight, samples.tensor, options.n_clusters)
        known = check_known_labels(labels, samples.tensor, options.n_clusters)
        if known is not None and not isinstance(self.init, str):
            raise InvalidParameterError(
                "init must be a name where labels are given, got centres as well; "
                "leave one of the two out."
            )
        with torch.no_grad():
            solution = solve(
                samples.tensor,
                options,
                check_seed(self.random_state),
                weights=weights,
                known_labels=known,
                chunk_rows=self._checked_batch_size(),
            )
        self._publish(solution, samples.tensor)
        self._close([(samples.tensor, weights)], len(samples.tensor))
        self._keep_moments(solution, self.cluster_centers_.dtype.type)
        self._say_how_it_went(solution)
        return self

    def _fit_batches(self, X: Batches, sample_weight: Any, labels: Any) -> Self:
        """Fit rows that are read pass by pass, each process of a group its share."""
        refuse("sample_weight", sample_weight)
        refuse("labels", labels)
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
            rng = shared_seed(self.random_state, samples.processes)
            solution = solve_rows(rows, options, rng)
        self._publish(solution, samples.like)
        chunks = ((x, None) for x in samples.tensors())
        self._close(chunks, samples.batches.n_rows, samples.processes)
        self._keep_moments(solution, self.cluster_centers_.dtype.type)
        self._say_how_it_went(solution)
        return self

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
        if fitted_on not in FITTED_ON:
            raise unknown_choice("fitted_on", fitted_on, FITTED_ON)
        clean = fitted_on == "clean"
        denoiser = self._fitted_denoiser()
        if isinstance(noise, str):
            variance = self._estimated_noise(denoiser, noise, clean=clean)
        else:
            variance = min(check_number("noise", noise, low=0), 1e100) ** 2
        located: dict[torch.device, Denoiser] = {denoiser.centers.device: denoiser}

        def shrink(worker: Worker, x: Tensor) -> Tensor:  # noqa: ARG001
            if x.device not in located:
                located[x.device] = denoiser.to(x.device)
            return located[x.device].denoise(x, variance, fitted_on_noisy=not clean)

        return self._map(X, shrink)

    def _checked_batch_size(self) -> int | None:
        if self.batch_size is None:
            return None
        return check_integer("batch_size", self.batch_size, low=1)

    @staticmethod
    def _estimated_noise(denoiser: Denoiser, noise: str, *, clean: bool) -> float:
        check_auto("noise", noise, "a number")
        if clean:
            raise InvalidParameterError(
                'noise="auto" is estimated from the fitted samples, but fitted_on="clean" says '
                "that they have none; give the noise as a number."
            )
        return denoiser.noise_variance()

    # Results ----------------------------------------------------------------------------------

    def _publish(self, solution: Solution, like: Tensor) -> None:
        kind = np.float32 if like.dtype == torch.float32 else np.float64
        parameters = solution.parameters[0]
        counts, traces = _numpy(parameters.counts), _numpy(parameters.traces)
        scatter = _numpy(parameters.variances)
        members = np.where(counts > 0, counts, 1)
        d, h = like.shape[1], scatter.shape[1]
        rest = np.clip(traces - scatter.sum(1), 0, None)
        whole = np.where(traces > 0, traces, 1)
        self.cluster_centers_ = _numpy(solution.model.centers).astype(kind)
        self.components_ = _numpy(solution.model.components).astype(kind)
        self.explained_variance_ = (scatter / members[:, None]).astype(kind)
        self.explained_variance_ratio_ = (scatter / whole[:, None]).astype(kind)
        self.noise_variance_ = (rest / (members * max(d - h, 1))).astype(kind)
        self.weights_ = (counts / counts.sum()).astype(kind)
        self.latent_penalty_ = float(solution.model.latent_penalty)
        self.loss_path_ = np.array(solution.run.loss_path)
        self.objective_path_ = np.array(solution.run.objective_path)
        self.entropy_path_ = np.array(solution.run.entropy_path)
        self.n_iter_ = solution.run.n_iter
        self.converged_ = solution.run.converged

    def _say_how_it_went(self, solution: Solution) -> None:
        self._warn_if_needed()
        if self.verbose:
            logger.info(
                "%s: loss %.6g after %d iterations, best of %d starts",
                type(self).__name__, self.loss_, self.n_iter_, solution.n_starts,
            )  # fmt: skip

    def _keep_moments(self, solution: Solution, kind: type) -> None:
        """Keep what ``denoise`` needs; its decompositions wait until it is called."""
        moments = solution.moments
        self._denoiser: Denoiser | None = None
        self._moments: dict[str, np.ndarray] | None = None
        self._frame: tuple[np.ndarray, np.ndarray] | None = None
        if moments.seconds.numel() > LARGEST_MOMENTS:
            denoiser = Denoiser.from_moments(moments, solution.shift, frame=solution.frame)
            self._denoiser = denoiser.to("cpu")
            return
        if solution.frame is not None:
            origin, axes = solution.frame.origin, solution.frame.axes
            self._frame = _numpy(origin).astype(kind), _numpy(axes).astype(kind)
        centers = moments.centers()[0] + solution.shift.to(moments.sums.dtype)
        # Weights that sum to less than the rows they stand for say nothing about their number.
        rows_per_weight = max(1.0, len(self.labels_) / float(moments.counts.sum()))
        self._moments = {
            "counts": rows_per_weight * _numpy(moments.counts[0]),
            "centers": _numpy(centers),
            "scatters": (rows_per_weight * _numpy(moments.scatters()[0])).astype(kind),
        }

    def _fitted_frame(self) -> Frame | None:
        if self._frame is None:
            return None
        return Frame(*(torch.as_tensor(part, dtype=ACCURATE) for part in self._frame))

    def _fitted_denoiser(self) -> Denoiser:
        if self._denoiser is None:
            assert self._moments is not None
            counts, centers, scatters = (
                torch.as_tensor(self._moments[name], dtype=torch.float64)[None]
                for name in ("counts", "centers", "scatters")
            )
            moments = Moments.about_means(counts, centers, scatters)
            origin = torch.zeros_like(centers[0, 0])
            self._denoiser = Denoiser.from_moments(moments, origin, frame=self._fitted_frame())
        return self._denoiser

    def _close(
        self,
        parts: Iterable[tuple[Tensor, Tensor | None]],
        n: int,
        group: Processes = Processes(),  # noqa: B008 (immutable)
    ) -> None:
        """Assign once more with the published numbers, so that fit and predict agree.

        ``parts`` are rows (m, d) with their weights (m,), n rows in all.
        """
        labels = np.empty(n, dtype=np.int32)
        loss, start = 0.0, 0
        worker: LinearWorker | None = None
        for x, weights in parts:
            worker = worker or self._worker(x)
            size = self._chunk_rows(x.shape[1])
            for first in range(0, x.shape[0], size):
                place = slice(first, min(first + size, x.shape[0]))
                best = worker.costs(x[place]).min(1)
                labels[start + place.start : start + place.stop] = _numpy(best.indices)
                share = best.values if weights is None else weights[place] * best.values
                loss += float(share.sum())
            start += x.shape[0]
        self.labels_ = labels
        self.loss_ = float(group.of_each(loss).sum())

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[1])

    def _chunk_rows(self, d: int) -> int:
        k, h, _ = self.components_.shape
        return self._checked_batch_size() or default_chunk_rows(d, k * (h + 1))

    def _worker(self, like: Tensor) -> LinearWorker:
        return LinearWorker.of(
            device=like.device,
            centers=self.cluster_centers_,
            components=self.components_,
            weights=self.weights_,
            explained_variance=self.explained_variance_,
            noise_variance=self.noise_variance_,
            latent_penalty=self.latent_penalty_,
        )

    def _warn_if_needed(self) -> None:
        if not self.converged_:
            warnings.warn(
                f"LinearTAE did not converge within max_iter={self.max_iter} iterations; "
                "raise max_iter or tol.",
                ConvergenceWarning,
                stacklevel=3,
            )
        n_alive = len(np.unique(self.labels_))
        if n_alive < self.n_clusters:
            warnings.warn(
                f"only {n_alive} of n_clusters={self.n_clusters} clusters have members: X has "
                "too few different rows for more; lower n_clusters.",
                ConvergenceWarning,
                stacklevel=3,
            )


def _numpy(tensor: Tensor) -> np.ndarray:
    array: np.ndarray = tensor.detach().cpu().numpy()
    return array
