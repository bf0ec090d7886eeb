"""TAE: validate -> train -> publish.

Shapes: n samples, k clusters, d features, h latent, u different samples.
"""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch

from tensorae.deep.history import History
from tensorae.estimators.deep_fit import DeepFit, Given, own_randomness
from tensorae.estimators.deep_fitted import FittedDeep
from tensorae.estimators.deep_options import DeepOptions, check_input_shape, deep_options
from tensorae.estimators.deep_streaming import check_streamable, fit_stream, rows_at_hand
from tensorae.estimators.images import as_rows, sample_shape
from tensorae.estimators.keeping import kept_fit
from tensorae.estimators.options import check_seed
from tensorae.estimators.streaming import check_batches, is_batches, refuse, shared_seed
from tensorae.estimators.validation import (
    check_known_labels,
    check_sample_weight,
    check_targets,
)
from tensorae.exceptions import InvalidParameterError
from tensorae.storage import register
from tensorae.storage.checkpoints import Checkpoint

if TYPE_CHECKING:
    from tensorae.data import Batches

__all__ = ["TAE"]


@register
class TAE(FittedDeep):
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
    architecture : {"linear", "mlp", "conv"} or callable, default="mlp"
        A built-in autoencoder, or a function that makes one at each call: a Module with
        ``encode(x)`` and ``decode(z)``, a Module with ``encoder`` and ``decoder``, or a pair of
        Modules. Inputs are centred at their cluster and scaled to unit variance, so outputs must
        not be squashed. A Module with ``loss(x, target) -> (n,)`` has that in place of the
        squared error. One with ``start_from(components)`` begins as the main directions (h, d)
        of its cluster.
    latent_penalty : float in [0, 1] or "auto", default=0.1
        λ, the weight of the squared code in the cost. Codes are measured in units of the data:
        scaled by cluster to be as long, in the mean, as what they decode to. So a network cannot
        escape the penalty by a small encoder and a large decoder.
    assignment : {"lloyd", "projected", "constrained", "em"}, default="lloyd"
        How the assignments are updated; see ``LinearTAE``.
    init : {"linear", "k-means++", "random"} or array-like of shape (k, d), default="linear"
        Where the first labels come from: a linear model that is solved exactly (rows of more
        than 50 features are reduced to main directions and averaged with near neighbours for
        it), the nearest of drawn rows, or of given centres.
    n_init : int or "auto", default="auto"
        Number of starts of that model, of which the best is kept.
    max_epochs : int or None, default=None
        Most epochs, of which half close the training on fixed assignments. None takes as
        many as each network needs for its steps: hundreds for 150 rows, 36 for 60,000.
    batch_size : int or None, default=None
        Samples per gradient step; None means 64. Batches are made even in size, so that they can
        be somewhat larger or smaller.
    lr : float, default=2e-3
        Learning rate of Adam; it falls to zero at the close.
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
        Each is called after every epoch with a ``tensorae.deep.history.Epoch`` (epoch, n_epochs,
        phase, loss, held_out_loss, changed, sizes, seconds, module); returning True ends the
        training.

    Attributes
    ----------
    module_ : TensorizedAutoencoder
        The trained autoencoders, a plain ``nn.Module``.
    labels_ : ndarray of shape (n,)
        Cluster of each sample; equal to ``predict`` of the same samples.
    cluster_centers_ : ndarray of shape (k, d)
        C_j, the means of their members. The largest cluster comes first, unless ``init`` or
        ``labels`` numbered them.
    weights_ : ndarray of shape (k,)
        Share of the samples (by weight) in each cluster.
    latent_penalty_ : float
        λ that was used.
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

    def __init__(
        self,
        n_clusters: int = 8,
        latent_dim: int = 2,
        *,
        architecture: Any = "mlp",
        latent_penalty: float | str = 0.1,
        assignment: str = "lloyd",
        init: Any = "linear",
        n_init: int | str = "auto",
        max_epochs: int | None = None,
        batch_size: int | None = None,
        lr: float = 2e-3,
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

    def fit(
        self,
        X: Any,
        y: Any = None,  # noqa: ARG002
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
            keeps the label j; they are not enforced.
        checkpoint : path-like, optional
            File to keep the state of a long training in. If it is there, training goes on from
            it; at the end it is removed.
        checkpoint_every : float, default=60
            Seconds between two writes of it, at the end of an epoch.

        Returns
        -------
        TAE
            Itself.
        """
        if is_batches(X):
            for name, value in {"clean": clean, "sample_weight": sample_weight}.items():
                refuse(name, value)
            refuse("labels", labels)
            return self._fit_batches(X, checkpoint, checkpoint_every)
        samples = self._check_samples(X, reset=True)
        x = samples.tensor
        shape = self._checked_shape(X, x.shape[1])
        options = deep_options(self.get_params(deep=False), x, shape)
        k = options.start.n_clusters
        weights = check_sample_weight(sample_weight, x, k)
        known = check_known_labels(labels, x, k)
        if known is not None and not isinstance(options.start.init, str):
            raise InvalidParameterError(
                "init must be a name where labels are given, got centres as well; "
                "leave one of the two out."
            )
        images = self._image_shape(X, shape)
        target = None if clean is None else check_targets(as_rows(clean, "clean", images), x)
        if target is not None and options.training.noise:
            raise InvalidParameterError(
                f"noise={self.noise} and clean samples are two ways to say the same; "
                "leave one of the two out."
            )
        keeper, rng = kept_fit(self, x, checkpoint, checkpoint_every, check_seed(self.random_state))
        self._sample_shape, self._images = sample_shape(X), images
        self._train(Given(x, weights, known, target), shape, options, rng, keeper)
        if keeper is not None:
            keeper.remove()
        return self

    def _check_parameters(self) -> None:
        check_seed(self.random_state)
        check_input_shape(self.input_shape, self.n_features_in_)
        deep_options(self.get_params(deep=False), self._fitted_rows(), self.input_shape_)

    def _train(
        self,
        given: Given,
        shape: tuple[int, ...],
        options: DeepOptions,
        rng: np.random.RandomState,
        keeper: Checkpoint | None,
    ) -> None:
        """Train on rows in memory and publish the result."""
        history = History(options.callbacks, verbose=bool(self.verbose))
        with own_randomness(rng, given.x.device) as generator:
            fit = DeepFit(given, shape, options, rng, generator)
            outcome = fit.run(history, keeper)
        self._publish(fit, outcome, history, shape, given.x)
        self._close([(given.x, given.weights)], len(given.x), given.x)
        self._warn_if_needed(outcome.problem)

    def _fit_batches(self, X: Batches, checkpoint: Any, checkpoint_every: float) -> Self:
        """Train on rows that are read pass by pass, each process of a group on its share."""
        samples = check_batches(self, X, reset=True, device=self.device, shared=True)
        shape = self._checked_shape(samples.like, samples.shape[1])
        options = deep_options(self.get_params(deep=False), samples.like, shape)
        check_streamable(options, options.validation_fraction)
        keeper, rng = kept_fit(
            self,
            samples,
            checkpoint,
            checkpoint_every,
            shared_seed(self.random_state, samples.processes),
        )
        self._sample_shape, self._images = None, self._image_shape(samples.like, shape)
        rows, at_hand = rows_at_hand(samples)
        if at_hand is not None:
            self._train(Given(at_hand, None, None, None), shape, options, rng, keeper)
            self.labels_ = rows.own(torch.as_tensor(self.labels_)).numpy()
        else:
            history = History(options.callbacks, verbose=bool(self.verbose))
            with own_randomness(rng, samples.device) as generator:
                fit, outcome, problem = fit_stream(
                    samples, rows, shape, options, rng, generator, history, keeper
                )
            self._publish(fit, outcome, history, shape, samples.like)
            parts = ((x, None) for x in samples.tensors())
            self._close(parts, samples.batches.n_rows, samples.like, samples.processes)
            self._warn_if_needed(problem)
        if keeper is not None:
            keeper.remove()
        return self
