"""LinearTAE: validate -> solve -> publish.

Shapes: n samples, k clusters, d features, h latent.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from tensorae.assignment import AssignmentContext, em, find_rule
from tensorae.estimators.base import BaseTAE, not_enough_rows
from tensorae.estimators.validation import (
    Samples,
    check_fitted,
    check_integer,
    check_known_labels,
    check_number,
    check_sample_weight,
    check_samples,
    check_seed,
)
from tensorae.exceptions import InvalidInputError, InvalidParameterError, unknown_choice
from tensorae.linear.denoising import Denoiser
from tensorae.linear.frames import Frame
from tensorae.linear.model import FoldedModel, LinearModel
from tensorae.linear.passes import Moments, accurate_dtype
from tensorae.linear.solver import Solution, SolverOptions, solve

__all__ = ["LinearTAE"]

STARTS = ("k-means++", "k-means", "random")
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
        First centres. "k-means++": greedy k-means++ seeds, three of four starts after a short
        k-means run; "k-means": all of them after such a run; random rows; or given centres.
    n_init : int or "auto", default="auto"
        Number of starts, of which the one with the lowest loss is kept. "auto" makes ten and,
        where they do not agree, goes on from the best one by moving single clusters; where the
        data is large all that happens on a sample, and the best fit goes on with all rows.
    max_iter : int, default=300
        Most iterations of one start.
    tol : float, default=1e-6
        Stop where an iteration lowers the loss by no more than this share of it.
    random_state : int, RandomState or None, default=None
        Makes the starts repeatable. The order of the rows does not matter.
    verbose : int, default=0
        Above zero, a summary of the fit goes to the ``tensorae`` logger.
    batch_size : int or None, default=None
        Rows per chunk of a pass; None chooses by the number of features. The result does not
        depend on it, memory does.
    device : str, torch.device or None, default=None
        Where to compute. None: the CPU for arrays, the tensor's own device for tensors.

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
    loss_path_ : ndarray of shape (``n_iter_`` + 1,) or longer
        Loss after the start and after every iteration of the best start. It never rises for a
        given λ and hard labels.
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
            keeps the label j; they are not enforced.

        Returns
        -------
        LinearTAE
            Itself.
        """
        samples = check_samples(self, X, reset=True, device=self.device)
        options = self._checked_options(samples.tensor)
        weights = check_sample_weight(sample_weight, samples.tensor, options.n_clusters)
        known = check_known_labels(labels, samples.tensor, options.n_clusters)
        solution = solve(
            samples.tensor,
            options,
            check_seed(self.random_state),
            weights=weights,
            known_labels=known,
            chunk_rows=self._checked_batch_size(),
        )
        self._publish(solution, samples, weights)
        self._warn_if_needed()
        return self

    def denoise(self, X: Any, noise: float | str = "auto", *, fitted_on: str = "noisy") -> Any:
        """Take noise out of samples by shrinking them towards their clusters.

        Where ``reconstruct`` cuts off every direction but h, this shrinks each direction of a
        cluster by the share of its variance that is noise, averaged over clusters by their
        probability: the best estimate under one Gaussian per cluster.

        Parameters
        ----------
        X : array-like or Tensor of shape (n, d)
            Samples with noise that is alike on all features.
        noise : float or "auto", default="auto"
            Standard deviation of the noise. "auto" estimates it from the fitted samples, with
            caution: too little is safe. Where no direction of the data is free of anything but
            noise it finds none and changes nothing.
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
            variance = check_number("noise", noise, low=0) ** 2
        located: dict[torch.device, Denoiser] = {denoiser.centers.device: denoiser}

        def shrink(x: Tensor) -> Tensor:
            if x.device not in located:
                located[x.device] = denoiser.to(x.device)
            return located[x.device].denoise(x, variance, fitted_on_noisy=not clean)

        return self._map(X, lambda _, x: self._within_frame(shrink, x))

    # Checks -----------------------------------------------------------------------------------

    def _checked_options(self, x: Tensor) -> SolverOptions:
        n, d = x.shape
        k = check_integer("n_clusters", self.n_clusters, low=1)
        if n < k:
            raise not_enough_rows(n, k)
        return SolverOptions(
            n_clusters=k,
            latent_dim=self._checked_latent_dim(d),
            latent_penalty=self._checked_penalty(),
            rule=find_rule(self.assignment),
            init=self._checked_init(x),
            n_init=self._checked_n_init(),
            max_iter=check_integer("max_iter", self.max_iter, low=1),
            tol=check_number("tol", self.tol, low=0),
        )

    def _checked_n_init(self) -> int | None:
        if isinstance(self.n_init, str):
            if self.n_init != "auto":
                raise InvalidParameterError(
                    f'n_init must be a whole number of at least 1 or "auto", got {self.n_init!r}; '
                    "did you mean 'auto'?"
                )
            return None
        return check_integer("n_init", self.n_init, low=1)

    def _checked_latent_dim(self, d: int) -> int:
        h = check_integer("latent_dim", self.latent_dim, low=1)
        if h > d:
            raise InvalidParameterError(
                f"latent_dim must be at most the number of features of X, n_features={d}, "
                f"got {h}; lower latent_dim."
            )
        return h

    def _checked_penalty(self) -> float | None:
        if isinstance(self.latent_penalty, str):
            if self.latent_penalty != "auto":
                raise InvalidParameterError(
                    'latent_penalty must be a number in (0, 1] or "auto", '
                    f"got {self.latent_penalty!r}; did you mean 'auto'?"
                )
            return None
        return check_number("latent_penalty", self.latent_penalty, low=0, high=1, low_allowed=False)

    def _checked_init(self, x: Tensor) -> str | Tensor:
        if isinstance(self.init, str):
            if self.init not in STARTS:
                raise unknown_choice("init", self.init, STARTS)
            return self.init
        try:
            given = self.init if isinstance(self.init, Tensor) else np.asarray(self.init, float)
        except (ValueError, TypeError):
            raise InvalidInputError(
                f"init must be a name or numbers of shape (n_clusters, n_features), "
                f"got {type(self.init).__name__} with other entries; give one centre per cluster."
            ) from None
        centers = torch.as_tensor(given, dtype=accurate_dtype(x), device=x.device)
        expected = (self.n_clusters, x.shape[1])
        if tuple(centers.shape) != expected:
            raise InvalidInputError(
                f"init must hold n_clusters x n_features = {expected} numbers, "
                f"got shape {tuple(centers.shape)}; give one centre per cluster."
            )
        if not bool(torch.isfinite(centers).all()):
            raise InvalidInputError("init contains NaN or infinity; give finite centres.")
        return centers

    def _checked_batch_size(self) -> int | None:
        if self.batch_size is None:
            return None
        return check_integer("batch_size", self.batch_size, low=1)

    @staticmethod
    def _estimated_noise(denoiser: Denoiser, noise: str, *, clean: bool) -> float:
        if noise != "auto":
            raise unknown_choice("noise", noise, ["auto"])
        if clean:
            raise InvalidParameterError(
                'noise="auto" is estimated from the fitted samples, but fitted_on="clean" says '
                "that they have none; give the noise as a number."
            )
        return denoiser.noise_variance()

    # Results ----------------------------------------------------------------------------------

    def _publish(self, solution: Solution, samples: Samples, weights: Tensor | None) -> None:
        kind = np.float32 if samples.tensor.dtype == torch.float32 else np.float64
        parameters = solution.parameters[0]
        counts, traces = _numpy(parameters.counts), _numpy(parameters.traces)
        scatter = _numpy(parameters.variances)
        members = np.where(counts > 0, counts, 1)
        d, h = samples.tensor.shape[1], scatter.shape[1]
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
        self._keep_moments(solution, kind)
        self._close(samples.tensor, weights)
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
        self._frame: dict[str, np.ndarray] | None = None
        if solution.frame is not None:
            self._frame = {
                "origin": _numpy(solution.frame.origin).astype(kind),
                "axes": _numpy(solution.frame.axes).astype(kind),
            }
        if moments.seconds.numel() > LARGEST_MOMENTS:
            self._denoiser = Denoiser.from_moments(moments, solution.shift).to("cpu")
            return
        centers = moments.centers()[0] + solution.shift.to(moments.sums.dtype)
        self._moments = {
            "counts": _numpy(moments.counts[0]),
            "centers": _numpy(centers),
            "scatters": _numpy(moments.scatters()[0]).astype(kind),
        }

    def _within_frame(self, shrink: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        """Apply ``shrink`` to points (m, d), or to their part in the plane of wide data."""
        if self._frame is None:
            return shrink(x)
        origin, axes = (
            torch.as_tensor(self._frame[name], dtype=accurate_dtype(x), device=x.device)
            for name in ("origin", "axes")
        )
        inside = Frame(origin, axes).inside(x)
        return x + (shrink(inside) - inside) @ axes

    def _fitted_denoiser(self) -> Denoiser:
        if self._denoiser is None:
            assert self._moments is not None
            counts, centers, scatters = (
                torch.as_tensor(self._moments[name], dtype=torch.float64)[None]
                for name in ("counts", "centers", "scatters")
            )
            moments = Moments.about_means(counts, centers, scatters)
            self._denoiser = Denoiser.from_moments(moments, torch.zeros_like(centers[0, 0]))
        return self._denoiser

    def _close(self, x: Tensor, weights: Tensor | None) -> None:
        """Assign once more with the published numbers, so that fit and predict agree."""
        worker = self._worker(x)
        size = self._chunk_rows(x.shape[1])
        labels = torch.empty(x.shape[0], dtype=torch.int32, device=x.device)
        loss = torch.zeros((), dtype=accurate_dtype(x), device=x.device)
        for start in range(0, x.shape[0], size):
            place = slice(start, start + size)
            best = worker.costs(x[place]).min(1)
            labels[place] = best.indices
            loss += best.values.sum() if weights is None else weights[place] @ best.values
        self.labels_ = _numpy(labels)
        self.loss_ = float(loss)

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[1])

    def _worker(self, like: Tensor) -> _LinearWorker:
        kind = accurate_dtype(like)

        def tensor(values: Any) -> Tensor:
            return torch.as_tensor(values, dtype=kind, device=like.device)

        centers, shares = tensor(self.cluster_centers_), tensor(self.weights_)
        shift = shares @ centers
        model = LinearModel(centers - shift, tensor(self.components_), tensor(self.latent_penalty_))
        # The noise variance of section 5's model: the mean cost per number in X.
        per_cluster = tensor(self.noise_variance_) * (centers.shape[1] - self._n_features_out)
        per_cluster += self.latent_penalty_ * tensor(self.explained_variance_).sum(1)
        noise = (shares @ per_cluster) / centers.shape[1]
        return _LinearWorker(model, model.fold(), shift, shares.log(), noise)

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


@dataclass(frozen=True)
class _LinearWorker:
    """The published model about the data's mean, in double precision where there is one."""

    model: LinearModel
    folded: FoldedModel
    shift: Tensor
    log_weights: Tensor
    noise_variance: Tensor

    def costs(self, x: Tensor) -> Tensor:
        return self.folded.costs(self._centred(x))

    def encode(self, x: Tensor, labels: Tensor) -> Tensor:
        return self.model.encode(self._centred(x), labels)

    def decode(self, codes: Tensor, labels: Tensor) -> Tensor:
        return self.model.decode(codes.to(self.shift.dtype), labels) + self.shift

    def posterior(self, costs: Tensor) -> Tensor:
        tiny = torch.finfo(costs.dtype).tiny
        context = AssignmentContext(
            step_size=torch.ones_like(self.noise_variance),
            log_weights=self.log_weights,
            noise_variance=self.noise_variance.clamp(min=tiny),
        )
        # Only differences count; without noise the absolute costs would overflow.
        excess = costs - costs.amin(1, keepdim=True)
        return em(excess, excess, context)

    def _centred(self, x: Tensor) -> Tensor:
        return x.to(self.shift.dtype) - self.shift


def _numpy(tensor: Tensor) -> np.ndarray:
    array: np.ndarray = tensor.detach().cpu().numpy()
    return array
