"""TAE: check -> train -> publish, and what follows from the trained networks.

Shapes: n samples, k clusters, d features, h latent, m rows of a chunk.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import replace
from os import PathLike
from typing import Any, Self

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor, nn

from tensorae._base import BaseTAE, Predictor, by_partition
from tensorae._callbacks import FitTasks, with_callbacks
from tensorae._containers import as_features
from tensorae._parameters import (
    Constraints,
    Interval,
    Options,
    check_integer,
    check_parameters,
)
from tensorae._torch import callers_threads, isolated_torch, several_threads
from tensorae._validation import (
    as_rows,
    check_fitted,
    check_init,
    check_input_shape,
    check_known_labels,
    check_labels_of,
    check_latent_dim,
    check_n_clusters,
    check_rows,
    check_sample_weight,
    check_seed,
    check_targets,
    sample_shape,
    with_channels,
)
from tensorae._warnings import warn
from tensorae.assignment import RULES
from tensorae.core.search import is_start
from tensorae.data.rows import Rows
from tensorae.deep.assign import chunk_rows, scored_rows
from tensorae.deep.denoise import Blend
from tensorae.deep.epoch import ProgressReporter, as_columns
from tensorae.deep.module import DeepPredictor, TensorizedAutoencoder
from tensorae.deep.networks import NARROW, built_in
from tensorae.deep.schedule import WORK, TrainingOptions
from tensorae.deep.train import Trained, train
from tensorae.deep.user_architecture import SHARINGS, shared_names
from tensorae.exceptions import InvalidParameterError

__all__ = ["TAE", "InterruptedWarning"]

INITS = ("auto", "linear", "manifold", "k-means++", "random")
CONSTRAINTS: Constraints = {
    "latent_dim": Interval(int, 1),
    "latent_penalty": Interval(float, 0, 1, auto=True),
    "assignment": Options(RULES),
    "sharing": Options(SHARINGS),
    "n_init": Interval(int, 1, auto=True),
    "max_epochs": Interval(int, 1, none=True),
    "batch_size": Interval(int, 2, none=True),
    "lr": Interval(float, 0, closed="neither", none=True),
    "noise": Interval(float, 0),
    "validation_fraction": Interval(float, 0, 1, closed="left"),
    "tol": Interval(float, 0),
    "patience": Interval(int, 0),
}
# Learning rates where none is given: of small networks, and of others.
NARROW_LR, LR = 5e-3, 2e-3


class InterruptedWarning(ConvergenceWarning):
    """Ctrl-C ended a training; its best model so far was kept."""


class TAE(BaseTAE):
    """Tensorized Autoencoder: k autoencoders, trained together with who belongs to which.

    Any PyTorch autoencoder, once per cluster. Given the assignments the loss decouples, so each
    autoencoder takes gradient steps on batches of its own cluster, and k of them train for about
    the price of one. Assignments are refreshed every few epochs by autoencoders that were not
    trained on the samples they score.

    Parameters
    ----------
    n_clusters : int, default=8
        k, the number of autoencoders.
    latent_dim : int, default=2
        h, the length of a code; at most the number of features.
    architecture : {"linear", "mlp", "conv", "vae"} or callable, default="mlp"
        A built-in autoencoder, or a function that makes one at each call: a Module with
        ``encode(x)`` and ``decode(z)``, a Module with ``encoder`` and ``decoder``, or a pair of
        Modules. Inputs are centred at their cluster and scaled to unit variance, so outputs must
        not be squashed. A Module with ``loss(x, target) -> (n,)`` has that in place of the
        squared error. One with ``start_from(components)`` begins as the main directions (h, d)
        of its cluster. Where ``encode`` gives a pair, mean and log-variance, as "vae" does, the
        autoencoders are variational: costs are made of the evidence bound, ``score_samples`` is a
        bound on the log-density, and ``sample`` draws new samples.
    sharing : {"none", "layers"}, default="none"
        With "layers" the outer layers of encoder and decoder are common to all clusters, and each
        has a bottleneck of its own: fewer parameters, which pays where clusters have few samples.
        An architecture of one's own says which layers those are by ``shared_parts()``.
    latent_penalty : float in [0, 1] or "auto", default=0.1
        λ, the weight of the squared code in the cost. Codes are measured in units of the data:
        scaled by cluster to be as long, in the mean, as what they decode to. So a network cannot
        escape the penalty by a small encoder and a large decoder. Variational autoencoders have
        their penalty from the evidence bound; with them λ is that of the linear start only.
    assignment : {"lloyd", "projected", "constrained", "em"}, default="lloyd"
        How the assignments are updated; see ``LinearTAE``.
    init : {"auto", "linear", "manifold", "k-means++", "random"} or array-like, default="auto"
        Where the first labels come from. "linear": a linear model that is solved exactly (rows
        of more than 50 features are reduced to main directions and averaged with near
        neighbours for it). "auto": that model, or groups in the graph of nearest neighbours
        where these cut far fewer neighbours apart, as with images and curved groups; for
        Batches it is decided on their sample. "manifold": linear models of UMAP embeddings, see
        :func:`tensorae.embed`, of which the labels count that keep neighbours together and come
        out the same from all; it needs the extra ``manifold`` and takes longer. "k-means++",
        "random": the nearest of drawn rows. An array of shape (k, d): the nearest of these
        centres; one of shape (n,): the label of each row, 0 to k-1, as it is. From labels,
        given or of neighbours, training begins unchanged: assignments rest until the networks
        have learned their members.
    n_init : int or "auto", default="auto"
        Number of starts of that model, of which the best is kept.
    max_epochs : int or None, default=None
        Most epochs, of which three quarters (half with variational autoencoders) close the
        training on fixed assignments. None takes as many as each network needs for its steps:
        hundreds for 150 rows, 36 for 60,000.
    batch_size : int or None, default=None
        Samples per gradient step; None means 64. Batches are made even in size, so that they can
        be somewhat larger or smaller.
    lr : float or None, default=None
        Learning rate of Adam; it rises at first and falls to zero at the close. None means
        2e-3, and 5e-3 for rows with up to 50 features that start from labels or neighbours.
    noise : float, default=0.0
        Standard deviation of fresh Gaussian noise on the inputs of each epoch, for ``denoise``.
    validation_fraction : float in [0, 1), default=0.0
        Share of the samples that is not trained on and decides which epoch is the best. With
        zero, more than one cluster and no need for it: each sample is scored by an autoencoder
        that has not seen it anyway.
    patience : int, default=5
        Measurements of the held-out loss without progress before learning ends.
    tol : float, default=1e-3
        Share of the held-out loss that counts as progress.
    input_shape : tuple of int, optional
        Shape of one sample, such as (channels, height, width), where X has flat rows.
    random_state : int, RandomState or None, default=None
        Makes the fit repeatable on the same machine. The order of the rows does not matter.
    verbose : int, default=0
        Above zero, a line on the progress is shown on standard error.
    device : str, torch.device or None, default=None
        Where to compute. None: the CPU for arrays, the tensor's own device for tensors.
        "auto": a GPU where there is one.
    callbacks : callable or list of callable, optional
        Each is called after every epoch with a ``tensorae.deep.epoch.Epoch`` (epoch, n_epochs,
        phase, loss, held_out_loss, changed, sizes, seconds, module); returning True ends the
        training.

    Attributes
    ----------
    module_ : TensorizedAutoencoder
        The trained autoencoders, a plain ``nn.Module``.
    labels_ : ndarray of shape (n,)
        Cluster of each sample; equal to ``predict`` of the same samples.
    cluster_sizes_ : ndarray of shape (k,)
        Samples in each cluster, whatever they weigh; of all processes, where several share them.
    cluster_centers_ : ndarray of shape (k, d)
        C_j, the means of their members. The largest cluster comes first, unless ``init`` or
        ``labels`` numbered them.
    weights_ : ndarray of shape (k,)
        Share of the samples (by weight) that each autoencoder is the cheapest for.
    assignment_ : str
        How the assignments were updated.
    init_ : {"linear", "neighbors", "manifold", "k-means++", "random", "array"}
        Where the first labels came from.
    latent_penalty_ : float
        λ that was used.
    noise_variance_ : float
        Only with variational autoencoders: variance of a feature about what its code decodes to,
        estimated on samples that the networks had not seen where there is more than one copy.
    loss_ : float
        Sum of the costs of all samples (by weight) in their clusters.
    history_ : dict of list
        One entry per epoch: epoch, phase, loss, held_out_loss, changed, sizes, seconds;
        ``pandas.DataFrame(model.history_)`` makes a table of it.
    n_iter_ : int
        Epochs that were trained.
    best_epoch_ : int
        The epoch whose model was kept.
    input_shape_ : tuple of int
        Shape of a sample as the autoencoders take it.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (d,)
        Only where X has column names.

    See Also
    --------
    LinearTAE : The linear model, solved exactly.
    tensorize : The module alone, for a training loop of one's own.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from tensorae import TAE
    >>> X = load_iris().data
    >>> model = TAE(n_clusters=3, latent_dim=1, random_state=0).fit(X)
    >>> model.transform(X[:5]).shape
    (5, 1)
    >>> bool((model.predict(X) == model.labels_).all())
    True
    """

    _work = WORK

    module_: TensorizedAutoencoder
    weights_: np.ndarray

    def __init__(
        self,
        n_clusters: int = 8,
        latent_dim: int = 2,
        *,
        architecture: Any = "mlp",
        sharing: str = "none",
        latent_penalty: float | str = 0.1,
        assignment: str = "lloyd",
        init: Any = "auto",
        n_init: int | str = "auto",
        max_epochs: int | None = None,
        batch_size: int | None = None,
        lr: float | None = None,
        noise: float = 0.0,
        validation_fraction: float = 0.0,
        patience: int = 5,
        tol: float = 1e-3,
        input_shape: Any = None,
        random_state: Any = None,
        verbose: int = 0,
        device: Any = None,
        callbacks: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.latent_dim = latent_dim
        self.architecture = architecture
        self.sharing = sharing
        self.latent_penalty = latent_penalty
        self.assignment = assignment
        self.init = init
        self.n_init = n_init
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.lr = lr
        self.noise = noise
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.tol = tol
        self.input_shape = input_shape
        self.random_state = random_state
        self.verbose = verbose
        self.device = device
        self.callbacks = callbacks

    @with_callbacks
    @isolated_torch()
    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        clean: Any = None,
        sample_weight: Any = None,
        labels: Any = None,
        checkpoint: str | PathLike[str] | None = None,
        checkpoint_every: float = 60.0,
    ) -> Self:
        """Train the autoencoders and find who belongs to which.

        Parameters
        ----------
        X : array-like or Tensor of shape (n, d), (n, height, width) or (n, c, height, width)
            Or Batches of flat rows, which are read pass by pass: a sample trains the networks
            first, then all rows do, ``max_epochs`` times (4 by default). In a process group each
            process reads its share, and ``labels_`` are of that share.
        y : ignored
            Here for scikit-learn's pipelines.
        clean : array-like or Tensor of the shape of X, optional
            Clean versions of noisy samples: what the autoencoders should give back. Clusters
            are still told apart by X alone, as they will be for new samples.
        sample_weight : array-like of shape (n,), optional
            A weight of two counts like a row that occurs twice.
        labels : array-like of shape (n,), optional
            The few labels that are known, -1 elsewhere. They seed the clusters, and cluster j
            keeps the label j; they are not enforced. Where all are known, they are the first
            labels as they are, as labels in ``init``.
        checkpoint : path-like, optional
            File to keep the state of a long training in. If it is there, training goes on from
            it; at the end it is removed, but not where Ctrl-C was the end.
        checkpoint_every : float, default=60
            Seconds between two writes of it, at the end of an epoch.

        Returns
        -------
        TAE
            Itself.
        """
        rows = self._check_rows(X, reset=True)
        shape, images = self._checked_shapes(X, rows.d)
        options = deep_options(self.get_params(deep=False), rows, shape)
        rng = check_seed(self.random_state, rows.processes)
        target = kept = None
        if sample_weight is not None:
            rows = rows.with_weights(check_sample_weight(sample_weight, rows, options.n_clusters))
        known = check_known_labels(labels, rows, options.n_clusters, options.init)
        if known is not None and is_start(
            known, options.n_clusters
        ):  # then it is all the same as labels in init
            given = {**self.get_params(deep=False), "init": known.cpu().numpy()}
            options = deep_options(given, rows, shape)
        if clean is not None:
            target = self._checked_clean(clean, rows, images)
        if checkpoint is not None:
            kept, rng = self._checkpoint(rows, checkpoint, checkpoint_every, rng, known, target)
        progress = ProgressReporter(_check_callbacks(self.callbacks), verbose=bool(self.verbose))
        tasks = FitTasks(self, X, y, n_steps=None)

        def published(model: Self, trained: Trained) -> Self:
            model._sample_shape, model._images, model.input_shape_ = sample_shape(X), images, shape
            model._publish(trained, options)
            return model

        def on_epoch(stopped: Callable[[], Trained]) -> bool:
            with callers_threads():
                return tasks.step("epoch", lambda: vars(published(copy.copy(self), stopped())))

        try:
            trained = train(
                rows,
                options,
                shape,
                rng,
                image_shape=self._image_shape(images, rows.d),
                target=target,
                known_labels=known,
                observers=[progress] if kept is None else [progress, kept],
                on_epoch=on_epoch if tasks.watched else None,
                resume=None if kept is None else kept.resume,
            )
        finally:
            progress.close()
        published(self, trained)
        if trained.rows is not rows:  # the few rows of all processes
            self.labels_ = rows.own(torch.as_tensor(self.labels_)).numpy()
        interrupted = trained.state.ended_by == "interrupt"
        if kept is not None and not interrupted:
            kept.remove()
        category = InterruptedWarning if interrupted else ConvergenceWarning
        self._warn_if_needed(trained.state.problem, category)
        tasks.end()
        return self

    @by_partition
    @as_features
    def reconstruct(self, X: Any) -> Any:
        """Encode, decode and add the centre back: what the sample's autoencoder makes of it.

        Parameters
        ----------
        X : array-like or Tensor of shape (n, d), or images as in ``fit``

        Returns
        -------
        ndarray or Tensor of the shape of X
        """
        return _shaped_like(X, super().reconstruct(X))

    @by_partition
    @as_features
    def denoise(self, X: Any) -> Any:
        """Remove noise: blend samples with their reconstructions to minimise the held-out error.

        The output is blended, feature by feature, with the input and with the estimate under
        one Gaussian per cluster. The weights were fitted on training samples that the
        autoencoders had not seen, so that it does not lose to doing nothing.

        Parameters
        ----------
        X : array-like or Tensor of shape (n, d), or images as in ``fit``
            Samples with noise like that of the fit.

        Returns
        -------
        ndarray or Tensor of the shape of X

        Examples
        --------
        >>> from tensorae import TAE
        >>> from tensorae.datasets import add_noise, lines_3d
        >>> X, _ = lines_3d(random_state=0)
        >>> X_noisy = add_noise(X, 0.1, random_state=0)
        >>> model = TAE(n_clusters=3, latent_dim=1, random_state=0).fit(X_noisy, clean=X)
        >>> clean = model.denoise(X_noisy)
        >>> bool(((clean - X) ** 2).mean() < 0.8 * ((X_noisy - X) ** 2).mean())
        True
        """
        check_fitted(self)
        blend = self._blend
        if blend is None:
            raise InvalidParameterError(
                "denoise needs a model that was fitted for it; use fit(X_noisy, clean=X_clean), "
                "or noise=0.1 (its standard deviation) and fit(X_clean)."
            )

        def step(predictor: Predictor, x: Tensor) -> Tensor:
            labels = predictor.assign(x)[0]
            return blend.apply(x, predictor.decode(predictor.encode(x, labels), labels))

        return _shaped_like(X, self._map(X, step))

    @property
    def noise_variance_(self) -> float:
        """Variance of a feature about what its code decodes to."""
        module = self.__dict__.get("module_")
        if module is None or not module.variational:
            raise AttributeError("noise_variance_ is there after a fit of variational autoencoders")
        return float(module.scale.double().square() * module.noise_variance.double())

    @by_partition
    def score_samples(self, X: Any) -> Any:
        """How well each sample fits: a low score means that it fits no cluster.

        With variational autoencoders (``architecture="vae"``) a lower bound on the log-density of
        the mixture, ``log sum_j weights_[j] exp(bound_j)``, where ``bound_j`` is the evidence
        bound of cluster j: ``-cost_j / (2 v) - d/2 log(2 π v)`` with v the noise variance. It is
        in nats and can be compared between models of the same data.

        All others have no density: it is minus the smallest cost, which falls with the number of
        clusters and the length of codes. So compare it between samples, not between settings.

        Parameters
        ----------
        X : array-like or Tensor of shape (n, d), or images as in ``fit``

        Returns
        -------
        ndarray or Tensor of shape (n,)

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from tensorae import TAE
        >>> X = load_iris().data
        >>> model = TAE(3, latent_dim=1, architecture="vae", random_state=0).fit(X)
        >>> far = model.score_samples([[50.0, 50.0, 50.0, 50.0]])
        >>> bool(far[0] < model.score_samples(X).min())
        True
        """
        check_fitted(self)
        if not self.module_.variational:
            return self._map(X, lambda predictor, x: -predictor.costs(x).amin(1))

        def bound(predictor: Any, x: torch.Tensor) -> torch.Tensor:
            bounds: torch.Tensor = predictor.log_density_bound(x)
            return bounds

        return self._map(X, bound)

    @isolated_torch()
    def sample(
        self,
        n_samples: int = 1,
        *,
        labels: Any = None,
        noise: bool = True,
        random_state: Any = None,
    ) -> tuple[Any, Any]:
        """Draw samples from variational autoencoders.

        A cluster by its weight, a code from N(0, I), what it decodes to, and noise.

        Parameters
        ----------
        n_samples : int, default=1
        labels : int or array-like of shape (n,), optional
            Clusters to draw from: one for all, or one for each sample. By default they are drawn
            by ``weights_``, and samples come in the order of the clusters.
        noise : bool, default=True
            Without it samples are clean, what a code decodes to: better pictures, but no longer
            draws from the density that ``score_samples`` is about.
        random_state : int, RandomState or None, default=None
            Makes the draw repeatable; None takes that of the estimator.

        Returns
        -------
        X : ndarray of shape (n, d), or images like those of the fit
        labels : ndarray of shape (n,)
            Cluster that each sample was drawn from.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from tensorae import TAE
        >>> model = TAE(3, latent_dim=1, architecture="vae", random_state=0)
        >>> X, labels = model.fit(load_iris().data).sample(5, labels=1)
        >>> X.shape, labels.tolist()
        ((5, 4), [1, 1, 1, 1, 1])
        """
        check_fitted(self)
        if not self.module_.variational:
            raise InvalidParameterError(
                "sample needs autoencoders that say how codes are distributed, got plain ones; "
                'use architecture="vae", or a Module whose encode gives mean and log-variance.'
            )
        n = check_integer("n_samples", n_samples, low=1)
        if not isinstance(noise, bool | np.bool_):
            raise InvalidParameterError(
                f"noise must be True or False, got {noise!r}; its size is that of the fit."
            )
        rng = check_seed(self.random_state if random_state is None else random_state)
        chosen = self._labels_to_draw(n, labels, rng)
        predictor: Any = self._predictor(_no_rows(self.n_features_in_, self._checked_device()))
        with several_threads(n * self.n_features_in_ * self._work):
            points = predictor.draw(chosen, self._n_features_out, rng, noise=bool(noise))
        kind = self.cluster_centers_.dtype
        samples = points.cpu().numpy().astype(kind, copy=False)
        return self._as_samples(samples), chosen.cpu().numpy().astype(np.int32)

    # Checks ---------------------------------------------------------------------------------------

    def _check_rows(self, X: Any, *, reset: bool) -> Rows:
        if not reset:
            check_fitted(self)
        wanted = None if reset else self._images
        return check_rows(self, as_rows(X, "X", wanted), reset=reset, device=self.device)

    def _checked_shapes(self, X: Any, d: int) -> tuple[tuple[int, ...], tuple[int, ...] | None]:
        """Shape of one sample as the autoencoders take it, and (c, h, w) that images must have.

        The first is as given, that of images, or flat.
        """
        given, seen = check_input_shape(self.input_shape, d), sample_shape(X)
        flat = isinstance(self.architecture, str) and self.architecture != "conv"
        if seen is None:
            shape = (d,) if flat else given
            return shape, shape if len(shape) == 3 else None
        images = with_channels(seen)
        if given not in ((d,), seen, images):
            raise InvalidParameterError(
                f"input_shape must be that of the images in X, {images}, got "
                f"{self.input_shape!r}; leave it out."
            )
        return (d,) if flat else images if self.input_shape is None else given, images

    def _image_shape(self, images: tuple[int, ...] | None, d: int) -> tuple[int, ...] | None:
        """Shape (c, h, w) of an image, None where samples are not known to be images."""
        shape = check_input_shape(self.input_shape, d) if images is None else images
        return with_channels(shape) if len(shape) in (2, 3) else None

    def _checked_clean(self, clean: Any, rows: Rows, images: tuple[int, ...] | None) -> Tensor:
        target = check_targets(as_rows(clean, "clean", images), rows)
        if self.noise:
            raise InvalidParameterError(
                f"noise={self.noise} and clean samples are two ways to say the same; "
                "leave one of the two out."
            )
        return target

    def _check_parameters(self) -> None:
        check_seed(self.random_state)
        check_input_shape(self.input_shape, self.n_features_in_)
        deep_options(self.get_params(deep=False), self._fitted_rows(), self.input_shape_)

    # The fitted model -----------------------------------------------------------------------------

    def _publish(self, trained: Trained, options: TrainingOptions) -> None:
        state, rows, k = trained.state, trained.rows, options.n_clusters
        kind = np.float32 if rows.dtype == torch.float32 else np.float64
        self.module_ = trained.module
        self.cluster_centers_ = trained.centers.cpu().numpy().astype(kind)
        self.latent_penalty_ = float(trained.module.latent_penalty)
        self.history_ = as_columns(state.history)
        self.n_iter_, self.best_epoch_ = state.epoch, state.best.epoch
        self._blend: Blend | None = state.blend
        self._code_length = options.latent_dim
        self.assignment_ = self.assignment
        given = options.init if isinstance(options.init, str) else "array"
        chosen = "neighbors" if trained.state.curved else "linear"
        self.init_ = chosen if given == "auto" else given
        # Until the rows are counted.
        self.weights_, self._noise_variance = np.full(k, 1 / k), 1.0
        # By cost, among the clusters that may be cheapest where those are known; more rows at once
        # than a network is given, where each cluster has a share of them only.
        predictor, near = self._predictor(rows), trained.near
        size = predictor.chunk_rows if near is None else chunk_rows(rows.d)
        counts = self._publish_labels(
            rows.in_chunks(size),
            lambda place, x: predictor.cheapest(x, None if near is None else near[place]),
        )
        self.weights_ = (counts / counts.sum()).cpu().numpy().astype(kind)
        self._noise_variance = self.loss_ / (float(counts.sum()) * rows.d)
        if trained.module.variational:
            self._noise_variance = self.noise_variance_
        if not self._equal_priors:
            self._assign_once_more(rows)

    @property
    def _n_features_out(self) -> int:
        return self._code_length

    def _as_samples(self, points: Any) -> Any:
        if self._sample_shape is None:
            return points
        return points.reshape(len(points), *self._sample_shape)

    def _predictor(self, rows: Rows) -> DeepPredictor:
        return DeepPredictor.of_published(
            self.module_,
            rows.dtype,
            rows.device,
            centers=self.cluster_centers_,
            weights=self.weights_,
            noise_variance=self._noise_variance,
            chunk_rows=scored_rows(rows.d, rows.device),
            equal_priors=self._equal_priors,
        )

    def _labels_to_draw(self, n: int, labels: Any, rng: np.random.RandomState) -> torch.Tensor:
        """Clusters (n,) of samples, as given or drawn by weight."""
        k, device = len(self.cluster_centers_), self._checked_device()
        if labels is None:
            shares = self.weights_.astype(np.float64)
            counts = rng.multinomial(n, shares / shares.sum())
            return torch.as_tensor(np.repeat(np.arange(k), counts), device=device)
        if np.ndim(labels) == 0:
            labels = np.full(n, labels)
        return check_labels_of(_no_rows(1, device, n), labels, k).long()

    def _warn_if_needed(self, problem: str, category: type[Warning]) -> None:
        if problem:
            warn(problem, category)
        dead = np.flatnonzero(self.weights_ == 0).tolist()
        if dead:
            names = ", ".join(str(j) for j in dead)
            warn(
                f"clusters {names} of n_clusters={self.n_clusters} have no members: every sample "
                "is cheaper elsewhere, as happens where X has few different rows or fewer groups; "
                "lower n_clusters, or lower latent_dim so that no autoencoder serves them all.",
                ConvergenceWarning,
            )


def _shaped_like(X: Any, rows: Any) -> Any:
    shape = sample_shape(X)
    return rows if shape is None else rows.reshape(len(rows), *shape)


def _no_rows(d: int, device: torch.device, n: int = 0) -> Rows:
    """Rows (n, d) of which only size and device matter."""
    return Rows(torch.zeros(n, d, device=device))


def deep_options(
    parameters: Mapping[str, Any], rows: Rows, input_shape: tuple[int, ...]
) -> TrainingOptions:
    """Check the parameters of ``TAE`` for its data, samples of ``input_shape``."""
    checked = check_parameters(parameters, CONSTRAINTS)
    sizes = check_n_clusters(parameters["n_clusters"], rows.count)
    assert sizes is not None  # "auto" is not allowed
    h = check_latent_dim(checked["latent_dim"], rows.d)
    init = check_init(parameters["init"], INITS, (sizes[0], rows.d), rows.device)
    if (checked["n_init"] or 1) > 1 and not isinstance(init, str):
        warn(
            f"n_init={checked['n_init']} has no effect, since init gives one start; leave n_init "
            "out.",
            RuntimeWarning,
        )
    architecture = parameters["architecture"]
    if isinstance(architecture, nn.Module):
        raise InvalidParameterError(
            "architecture must be a function that makes a new autoencoder at each call, got the "
            f"{type(architecture).__name__} itself; wrap what makes it in a function, such as "
            "lambda: MyAutoencoder(4, 2)."
        )
    given_lr = checked.pop("lr")
    rule = RULES[checked.pop("assignment")]
    _check_callbacks(parameters["callbacks"])
    if rows.streamed and not rule.hard:
        raise InvalidParameterError(
            'assignment must be "lloyd" where X is Batches, since the others keep k numbers for '
            f"each row, got {parameters['assignment']!r}; give X as an array (no --stream)."
        )
    if rows.streamed and checked["validation_fraction"]:
        raise InvalidParameterError(
            "validation_fraction must be 0 where X is Batches, got "
            f"{checked['validation_fraction']}; keep some of the data apart, and score it after "
            "the fit."
        )

    def options(*, curved: bool) -> TrainingOptions:
        factory = architecture
        if isinstance(architecture, str) or not callable(architecture):
            factory = built_in(architecture, input_shape, h, curved=curved)
            if checked["sharing"] != "none":
                with torch.device("meta"):  # raises where it cannot share
                    shared_names([factory()], checked["sharing"])
        lr = NARROW_LR if curved and rows.d <= NARROW else LR
        return TrainingOptions(
            **checked,
            factory=factory,
            n_clusters=sizes[0],
            rule=rule,
            init=init,
            lr=given_lr or lr,
            curved=curved,
        )

    # Only starts that are not made of planes can know of curves.
    if isinstance(init, str) and init == "auto":
        return replace(options(curved=False), if_curved=options(curved=True))
    return options(curved=init == "manifold" if isinstance(init, str) else init.ndim == 1)


def _check_callbacks(callbacks: Any) -> tuple[Callable[..., Any], ...]:
    """Return the functions to call after each epoch."""
    if callbacks is None:
        return ()
    given = tuple(callbacks) if isinstance(callbacks, list | tuple) else (callbacks,)
    for callback in given:
        if not callable(callback):
            raise InvalidParameterError(
                f"callbacks must be functions that take an Epoch, got {callback!r}; "
                "give a function or a list of functions."
            )
    return given
