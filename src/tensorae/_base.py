"""All that follows from costs, codes and decodings: predict, transform, reconstruct.

A subclass hands out a predictor that costs, encodes and decodes chunks of rows; the rest is here.

Shapes: n samples, k clusters, d features, h latent, m rows of a chunk.
"""

from __future__ import annotations

import functools
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

import numpy as np
import torch
from sklearn.base import (
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)
from sklearn.utils import Tags
from torch import Tensor

from tensorae._callbacks import CallbackSupportMixin
from tensorae._containers import as_features, as_probabilities
from tensorae._notebook import EstimatorWithCard
from tensorae._parameters import check_number
from tensorae._torch import isolated_torch
from tensorae._validation import (
    check_codes,
    check_device,
    check_fitted,
    check_labels_of,
    check_rows,
)
from tensorae.assignment import RULES
from tensorae.data.dask import lazily
from tensorae.data.rows import Chunk, Rows

if TYPE_CHECKING:
    from tensorae.persist.checkpoints import Checkpoint
    from tensorae.report.widget import MapWidget

__all__ = ["BaseTAE", "Predictor", "by_partition"]

Method = TypeVar("Method", bound=Callable[..., Any])


def by_partition(method: Method) -> Method:
    """Let a method of a fitted model take Dask collections: each partition on its own, lazily."""

    @functools.wraps(method)
    def applied(self: Any, X: Any, *args: Any, **kwargs: Any) -> Any:
        if type(X).__module__.startswith("dask"):  # decided here, as for most calls there is none
            return lazily(self, method.__name__, X, args, kwargs)
        return method(self, X, *args, **kwargs)

    return applied  # type: ignore[return-value]


class Predictor(Protocol):
    """A fitted model at work on chunks of rows."""

    @property
    def chunk_rows(self) -> int:
        """Rows to be asked about at a time."""

    def costs(self, x: Tensor) -> Tensor:
        """Costs (m, k) of rows (m, d)."""

    def assign(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Most probable cluster (m,) of rows (m, d), and their costs (m,) there."""

    def encode(self, x: Tensor, labels: Tensor) -> Tensor:
        """Codes (m, h) of rows under the named autoencoders."""

    def decode(self, codes: Tensor, labels: Tensor) -> Tensor:
        """Points (m, d) of codes under the named autoencoders."""

    def posterior(self, costs: Tensor) -> Tensor:
        """Probabilities (m, k) of the clusters, given the costs (m, k)."""


# A step may ask for what the predictors of its class alone know, such as a density.
Step = Callable[[Any, Tensor], Tensor]


class BaseTAE(
    CallbackSupportMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    ClusterMixin,
    EstimatorWithCard,
    ABC,
):
    """k autoencoders, one per cluster, as a clusterer and a transformer."""

    n_clusters: Any
    latent_dim: Any
    device: Any

    assignment_: str
    labels_: np.ndarray
    cluster_sizes_: np.ndarray
    loss_: float
    n_features_in_: int
    cluster_centers_: np.ndarray

    # Products for each number of X and each cluster, about.
    _work = 1

    @abstractmethod
    def _predictor(self, rows: Rows) -> Predictor:
        """Set up the fitted model for rows like these, on their device."""

    def fit_predict(self, X: Any, y: Any = None, **fit_params: Any) -> np.ndarray:
        """Fit and return ``labels_``.

        Parameters
        ----------
        X : array-like or Tensor of shape (n, d)
        y : ignored
        **fit_params : dict
            Passed to ``fit``, for example ``sample_weight`` or ``labels``.

        Returns
        -------
        ndarray of shape (n,)
        """
        fitted: Self = self.fit(X, y, **fit_params)
        return fitted.labels_

    @by_partition
    def predict(self, X: Any) -> Any:
        """Which autoencoder each sample belongs to: the most probable one of ``predict_proba``.

        Where assignments are hard that is the one with the smallest cost (paper, 2.4).

        Parameters
        ----------
        X : array-like or Tensor of shape (n, d)

        Returns
        -------
        ndarray or Tensor of shape (n,)
        """
        return self._map(X, lambda predictor, x: predictor.assign(x)[0].to(torch.int32))

    @by_partition
    @as_probabilities
    def predict_proba(self, X: Any) -> Any:
        """Posterior of the clusters under the Gaussian model of section 5 of the paper.

        With soft assignments (``assignment_`` is "em") the prior of a cluster is its weight in
        ``weights_``. With hard ones all clusters have the same prior, so that the autoencoder
        with the smallest cost is also the most probable one.

        Parameters
        ----------
        X : array-like or Tensor of shape (n, d)

        Returns
        -------
        ndarray or Tensor of shape (n, k)
            Rows sum to one.
        """
        return self._map(X, lambda predictor, x: predictor.posterior(predictor.costs(x)))

    @by_partition
    def costs(self, X: Any) -> Any:
        """Cost of each sample under each autoencoder (Eq. 3 of the paper).

        Parameters
        ----------
        X : array-like or Tensor of shape (n, d)

        Returns
        -------
        ndarray or Tensor of shape (n, k)
            Squared error summed over features plus λ times the squared norm of the code.
        """
        return self._map(X, lambda predictor, x: predictor.costs(x))

    def transform(self, X: Any) -> Any:
        """Embed each sample by the autoencoder of its cluster.

        Codes of different clusters live in different coordinates; ``predict`` says which.

        Parameters
        ----------
        X : array-like or Tensor of shape (n, d)

        Returns
        -------
        ndarray or Tensor of shape (n, h)
        """
        return self._map(X, lambda predictor, x: predictor.encode(x, predictor.assign(x)[0]))

    def codes(self, X: Any) -> Any:
        """Embed each sample by the autoencoder of every cluster.

        ``transform`` gives the codes of the sample's own cluster.

        Parameters
        ----------
        X : array-like or Tensor of shape (n, d)

        Returns
        -------
        ndarray or Tensor of shape (n, k, h)
        """
        k = len(self.cluster_centers_) if hasattr(self, "cluster_centers_") else 0

        def encoded(predictor: Any, x: Tensor) -> Tensor:
            labels = torch.arange(k, device=x.device)[:, None].expand(k, len(x))
            return torch.stack([predictor.encode(x, own) for own in labels], 1)

        return self._map(X, encoded)

    @isolated_torch()
    def inverse_transform(self, Z: Any, labels: Any) -> Any:
        """Decode codes by the named autoencoders.

        Parameters
        ----------
        Z : array-like or Tensor of shape (n, h)
            Codes, as ``transform`` gives them.
        labels : array-like or Tensor of shape (n,)
            Which autoencoder each code belongs to, as ``predict`` gives it.

        Returns
        -------
        ndarray or Tensor of shape (n, d)
        """
        check_fitted(self)
        codes = check_codes(Z, self._n_features_out, device=self.device)
        names = check_labels_of(codes, labels, len(self.cluster_centers_))
        with torch.no_grad(), codes.parallel(self._work * self.n_features_in_):
            points = self._predictor(codes).decode(codes.data, names)
        return self._as_samples(codes.as_given(points))

    @by_partition
    @as_features
    def reconstruct(self, X: Any) -> Any:
        """Encode, decode and add the centre back: the rank-h picture of each sample.

        Parameters
        ----------
        X : array-like or Tensor of shape (n, d)

        Returns
        -------
        ndarray or Tensor of shape (n, d)
        """
        return self._map(X, _reconstruct)

    @abstractmethod
    def score_samples(self, X: Any) -> Any:
        """How well each sample fits: a low score means that it fits no cluster."""

    def score(self, X: Any, y: Any = None) -> float:  # noqa: ARG002
        """Mean of ``score_samples``; higher is better.

        Parameters
        ----------
        X : array-like or Tensor of shape (n, d)
        y : ignored

        Returns
        -------
        float
        """
        return float(self.score_samples(X).mean())

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        preprocessing: Mapping[str, Any] | None = None,
    ) -> None:
        """Write the fitted model to one file, as a whole or not at all; ``tensorae.load`` reads it.

        The file holds numbers and text, never code. All parameters and fitted attributes come
        back, but for ``callbacks``, a ``random_state`` that is a generator, and the code of an
        ``architecture`` of one's own, which ``load`` has to be given.

        Parameters
        ----------
        path : path-like
            An old file there is replaced.
        preprocessing : dict, optional
            What was done to the data before the fit, such as names, order and scaling of
            columns: text, numbers, lists and dicts. It goes into the header of the file, from
            where ``tensorae.persist.read_header`` reads it.
        """
        from tensorae.persist import save  # loads the code of all estimators

        check_fitted(self)
        save(self, path, preprocessing=preprocessing)

    def plot(
        self,
        X: Any = None,
        *,
        features: Any = None,
        feature_names: Any = None,
        shape: Any = None,
        figure: Any = None,
    ) -> Any:
        """Draw an overview of what was fitted, in two to four panels (needs the extra ``plots``).

        Parameters
        ----------
        X : array-like or Tensor of shape (n, d), optional
            With samples there is more to see: clusters or reconstructions, codes, confidence.
        features : two names or column numbers, optional
            To draw the clusters in; by default those that show most.
        feature_names : sequence of str, optional
            Taken from X or the fit where they know them.
        shape : (height, width) or (c, height, width), optional
            Says that rows are images, where neither X nor the fit knows.
        figure : matplotlib Figure, optional
            A new one by default.

        Returns
        -------
        matplotlib Figure

        See Also
        --------
        tensorae.plot : Every panel as a picture of its own, and more.
        """
        from tensorae.plot import plot_overview

        return plot_overview(
            self, X, features=features, feature_names=feature_names, shape=shape, figure=figure
        )

    def report(
        self,
        X: Any,
        path: str | os.PathLike[str],
        *,
        title: str | None = None,
        identifiers: Any = None,
        feature_names: Any = None,
        scaler: Any = None,
        shape: Any = None,
        noise: float | str | None = None,
        max_points: int = 5000,
    ) -> Path:
        """Write a page on what was fitted: one HTML file that needs nothing else.

        How well the model fits, a card for each cluster, an interactive scatter, reversed trends,
        the samples that fit worst, reconstructions, and the parameters. Needs the extra
        ``report``.

        Parameters
        ----------
        X : array-like or Tensor of shape (n, d)
            Samples to describe the clusters by, those of the fit as a rule.
        path : path-like
            Of the page; an old file there is replaced.
        title : str, optional
            Heading of the page.
        identifiers : data frame or dict of columns, optional
            What names the rows, such as ids, and took no part in the fit: n entries each. By
            default the index of a pandas data frame, where it is more than a count.
        feature_names : sequence of str, optional
            Taken from X or the fit where they know them.
        scaler : scaler of scikit-learn, optional
            What brought the features to the scale of the fit, fitted, such as a
            ``StandardScaler`` or ``PowerTransformer``. X is then in the features' own units, and
            so is the page.
        shape : (height, width) or (c, height, width), optional
            Says that rows are images, where neither X nor the fit knows.
        noise : float or "auto", optional
            Standard deviation of noise, on the scale of the fit, that ``LinearTAE.denoise``
            should take out; without it nothing is de-noised. A ``TAE`` knows by itself.
        max_points : int, default=5000
            Points in the scatter. Of more samples a random part of each cluster is drawn, the same
            every time; rows that the page names, such as those that fit worst, come on top.

        Returns
        -------
        Path
            Of the page.

        See Also
        --------
        tensorae.inspect : The numbers behind it.
        """
        from tensorae.report import write_report

        return write_report(
            self,
            X,
            path,
            title=title,
            identifiers=identifiers,
            feature_names=feature_names,
            scaler=scaler,
            shape=shape,
            noise=noise,
            max_points=max_points,
        )

    def widget(
        self,
        X: Any,
        *,
        identifiers: Any = None,
        feature_names: Any = None,
        scaler: Any = None,
        shape: Any = None,
        max_points: int = 5000,
    ) -> MapWidget:
        """Return the map of a report as a widget for notebooks, on which rows can be selected.

        It works in Jupyter, VS Code and wherever else widgets do. Needs the extra ``notebook``.

        Parameters
        ----------
        X : array-like or Tensor of shape (n, d)
        identifiers, feature_names, scaler, shape, max_points
            As in ``report``. Of more than ``max_points`` rows, a random part can be selected.

        Returns
        -------
        tensorae.report.widget.MapWidget
            Its ``selection`` has the numbers of the selected rows, in both directions.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from tensorae import LinearTAE
        >>> X = load_iris().data
        >>> widget = LinearTAE(3, random_state=0).fit(X).widget(X)
        >>> widget.selection = [5, 2]  # or drag on the map
        >>> X[widget.selection].shape
        (2, 4)
        """
        from tensorae.report.widget import map_widget

        return map_widget(
            self,
            X,
            identifiers=identifiers,
            feature_names=feature_names,
            scaler=scaler,
            shape=shape,
            max_points=max_points,
        )

    def to_torch(self, *, dtype: str | None = None) -> Any:
        """Return the fitted model as an ``nn.Module`` for inference.

        Parameters
        ----------
        dtype : {"float32", "float64"}, optional
            Precision of the networks of a ``TAE``; that of the fit by default. A ``LinearTAE``
            computes in double precision, whatever comes in.

        Returns
        -------
        tensorae.export.FittedModule
            It takes a Tensor of shape (n, d) and returns ``label``, ``probabilities``, ``code``,
            ``reconstruction`` and ``score``: what ``predict``, ``predict_proba``, ``transform``,
            ``reconstruct`` and ``score_samples`` do. A category is the place of its level in
            ``categories_``, NaN if it is missing.

        Examples
        --------
        >>> import torch
        >>> from sklearn.datasets import load_iris
        >>> from tensorae import LinearTAE
        >>> X = load_iris().data
        >>> model = LinearTAE(3, random_state=0).fit(X)
        >>> module = model.to_torch()
        >>> module(torch.as_tensor(X)).label.tolist() == model.predict(X).tolist()
        True
        """
        from tensorae.export import to_torch

        return to_torch(self, dtype=dtype)

    def to_onnx(
        self, path: str | os.PathLike[str], *, dtype: str | None = None, check: Any = None
    ) -> None:
        """Write the fitted model to an ONNX file (needs the extra ``onnx``).

        Its outputs are ``label``, ``probabilities``, ``code``, ``reconstruction`` and ``score``:
        what ``predict``, ``predict_proba``, ``transform``, ``reconstruct`` and ``score_samples``
        return. Its input ``X`` has shape (n, d), for any n. Each column of categories has an input
        of its own of shape (n, 1), by its name, of text, truth values or numbers; empty text is
        missing.

        Parameters
        ----------
        path : path-like
            An existing file is replaced.
        dtype : {"float32", "float64"}, optional
            Type of ``X`` and of the outputs. By default float32 for a ``TAE``, because onnxruntime
            lacks some steps of networks in double precision, and that of the fit for a
            ``LinearTAE``.
        check : array-like or data frame of shape (n, d), optional
            Rows to compare the results of the file, run by onnxruntime, with those of the model;
            nothing is written if they differ by more than 1e-5.
        """
        from tensorae.export import to_onnx

        to_onnx(self, path, dtype=dtype, check=check)

    def card(self) -> str:
        """Return a model card in Markdown, as model hubs accept it.

        It says what the model was fitted to, with which settings, what was found and by which
        versions.

        Returns
        -------
        str
        """
        from tensorae.inspect.model_cards import markdown_card

        check_fitted(self)
        return markdown_card(self)

    def _card(self) -> str | None:
        from tensorae.inspect.model_cards import model_card

        return model_card(self) if hasattr(self, "cluster_sizes_") else None

    def __sklearn_tags__(self) -> Tags:
        """Tell scikit-learn what this estimator takes and keeps."""
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @property
    @abstractmethod
    def _n_features_out(self) -> int:
        """Length h of a fitted code."""

    @abstractmethod
    def _check_parameters(self) -> None:
        """Refuse parameters that ``fit`` would refuse for the data that was fitted."""

    @property
    def _equal_priors(self) -> bool:
        """Whether clusters are compared by their costs alone, because assignments are hard."""
        return not RULES[self.assignment_].probabilistic

    def _checked_device(self) -> torch.device:
        return check_device(self.device)

    def _fitted_rows(self) -> Rows:
        """Rows (n, d), as many as were fitted, with no memory behind them."""
        n = int(self.cluster_sizes_.sum())
        return Rows(torch.zeros(1, 1).expand(n, self.n_features_in_))

    def _check_rows(self, X: Any, *, reset: bool) -> Rows:
        """Check X and bring it to the device of the computation as rows (n, d)."""
        return check_rows(self, X, reset=reset, device=self.device)

    def _as_samples(self, points: Any) -> Any:
        """Rows (n, d) in the shape of the samples that were fitted."""
        return points

    @isolated_torch()
    def _map(self, X: Any, step: Step) -> Any:
        """Apply ``step`` to chunks of checked rows and give back the kind that came in."""
        rows = self._check_rows(X, reset=False)
        with torch.no_grad(), rows.parallel(self._work * len(self.cluster_centers_)):
            predictor = self._predictor(rows)
            chunks = rows.in_chunks(predictor.chunk_rows)
            return chunks.results(lambda x: step(predictor, x))

    # Fits -------------------------------------------------------------------------------------

    def _checkpoint(
        self,
        rows: Rows,
        path: Any,
        every: Any,
        rng: np.random.RandomState,
        *others: Tensor | None,
    ) -> tuple[Checkpoint, np.random.RandomState]:
        """Return the checkpoint of a fit to ``rows`` and ``others``, and the generator to fit with.

        A fit without a fixed seed draws one and keeps it beside the checkpoint, so that going on
        means going on with the same.
        """
        from tensorae.persist.checkpoints import Checkpoint, identity_of

        seconds = check_number("checkpoint_every", every, low=0)
        parameters = self.get_params(deep=False)
        data = [rows, *(Rows(part.reshape(rows.n, -1)) for part in others if part is not None)]
        fingerprint = " ".join(part.fingerprint() for part in data)
        identity = identity_of(type(self).__name__, parameters, fingerprint)
        checkpoint = Checkpoint(path, seconds, identity, rows.processes, rows.checksum)
        return checkpoint, checkpoint.seeded(rng, fixed=isinstance(parameters["random_state"], int))

    def _assign_once_more(self, rows: Rows) -> Tensor:
        """Publish labels, sizes and loss by the published numbers, so that fit and predict agree.

        Returns the weight (k,) of each cluster.
        """
        predictor = self._predictor(rows)
        chunks = rows.in_chunks(predictor.chunk_rows)
        return self._publish_labels(chunks, lambda _, x: predictor.assign(x))

    def _publish_labels(
        self, rows: Rows, assign: Callable[[slice, Tensor], tuple[Tensor, Tensor]]
    ) -> Tensor:
        """Publish the labels and costs (m,) that ``assign`` finds for the rows of a place."""
        labels = np.empty(rows.n, dtype=np.int32)
        k = len(self.cluster_centers_)
        counts = torch.zeros(k, dtype=torch.float64, device=rows.device)
        sizes = torch.zeros(k, dtype=torch.int64, device=rows.device)
        loss = torch.zeros((), dtype=torch.float64, device=rows.device)

        def add(sums: tuple[Tensor, ...], chunk: Chunk) -> None:
            found, costs = assign(chunk.index, chunk.observed)
            share = chunk.weight.double()
            sums[0].index_add_(0, found, share)
            sums[1].add_(torch.bincount(found, minlength=k))
            sums[2].add_(share @ costs.double())
            if len(labels):  # not of rows that are elsewhere
                labels[chunk.index] = found.cpu().numpy()

        with torch.no_grad(), rows.parallel(self._work * k):
            rows.reduce(add, (counts, sizes, loss))
        self.labels_, self.loss_ = labels, float(loss)
        self.cluster_sizes_ = sizes.cpu().numpy()
        return counts


# Outside what ``set_output`` adds to it, so that it is applied to each partition.
BaseTAE.transform = by_partition(BaseTAE.transform)  # type: ignore[method-assign]


def _reconstruct(predictor: Predictor, x: Tensor) -> Tensor:
    labels = predictor.assign(x)[0]
    return predictor.decode(predictor.encode(x, labels), labels)
