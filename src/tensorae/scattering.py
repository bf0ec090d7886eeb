"""Scattering: check images -> fit the transform (``deep/wavelets.py``) -> publish it.

Shapes: n images, c colours, m channels of the transform, p features, q components.
"""

from __future__ import annotations

import math
import os
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import TransformerMixin
from sklearn.utils import Tags
from torch import Tensor

from tensorae._notebook import EstimatorWithCard
from tensorae._parameters import Constraints, Interval, Options, check_parameters
from tensorae._torch import isolated_torch
from tensorae._validation import (
    as_rows,
    check_device,
    check_fitted,
    check_rows,
    refuse_masked,
    sample_shape,
)
from tensorae.data import Batches
from tensorae.data.rows import Rows
from tensorae.deep.wavelets import Features, Grid
from tensorae.exceptions import InvalidInputError, InvalidParameterError
from tensorae.persist import save

__all__ = ["Scattering"]

CONSTRAINTS: Constraints = {
    "J": Interval(int, 1, 12, auto=True),
    "L": Interval(int, 1, 64),
    "enlarge": Interval(int, 1, 64, auto=True),
    "n_components": Interval(int, 1, none=True),
    "padding": Options(("auto", "background", "reflect")),
}
SCALINGS = ("max", "energy")
COLOURS = (1, 3, 4)  # numbers of channels by which channels last are told from channels first


class Scattering(TransformerMixin, EstimatorWithCard):
    """Turn images into features that small shifts and deformations hardly change.

    The scattering transform convolves an image with wavelets of several scales and angles, takes
    the moduli, does the same again, and averages locally. Nothing is learned but the scale of each
    channel and the principal components. On such features linear models separate groups of images
    far better than on pixels: see the example.

    Parameters
    ----------
    n_components : int or None, default=100
        Principal components of the features that are kept, at most as many as there are images
        and features; None: all features, without PCA.
    J : int or "auto", default="auto"
        Scales: features are averaged over 2^J x 2^J pixels. "auto" leaves at least 3 such places
        along the shorter side: 3 for 28 x 28 and 32 x 32 pixels.
    L : int, default=8
        Angles of the wavelets, between 0 and 180 degrees.
    scaling : {"max", "energy"} or None, default="max"
        Each channel is divided by its largest value over the images of ``fit``, or by its root
        mean square. Without, few channels dominate.
    enlarge : int or "auto", default="auto"
        Factor by which images are enlarged first. "auto": images below 16 pixels to at least 24,
        others by 1.
    padding : {"reflect", "background", "auto"}, default="auto"
        How the sides are extended to multiples of 2^J: by reflection, or by the median of the
        pixels at the border of the image. "auto": by the median where at least half of these
        pixels have that value, as in handwriting.
    image_shape : tuple of int, optional
        Shape of one image where X has flat rows: (h, w), (c, h, w) or (h, w, c). None: rows are
        square grey images.
    device : str, torch.device or None, default=None
        Where to compute; None: the CPU for arrays, the tensor's own device for tensors.

    Attributes
    ----------
    image_shape_ : tuple of int
        Colours, height and width.
    J_, enlarge_ : int
    padding_ : str
    output_shape_ : tuple of int
        Channels, height and width of the transform, before PCA.
    channel_scale_ : ndarray of shape (c, m)
        What the channels were divided by.
    mean_ : ndarray of shape (p,)
        Mean of the scaled features; zeros without PCA.
    components_ : ndarray of shape (q, p) or None
    explained_variance_ : ndarray of shape (q,) or None
    n_components_ : int
        Number q of columns of ``transform``.
    n_samples_ : int
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (d,)
        Only where X has column names.

    See Also
    --------
    LinearTAE : Finds groups in the features.

    Notes
    -----
    Images of 28 x 28 pixels give 217 channels of 4 x 4 for each colour: the average, 24 of the
    first order, 192 of the second, whose second wavelet is larger than the first. The principal
    components are those of at most 2^28 features, evenly chosen images where there are more.
    Features are computed in the precision of X; 8- and 16-bit integers in single precision.

    References
    ----------
    S. Mallat, Group invariant scattering, 2012. J. Bruna and S. Mallat, Invariant scattering
    convolution networks, 2013.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.metrics import adjusted_rand_score
    >>> from sklearn.pipeline import make_pipeline
    >>> from tensorae import LinearTAE, Scattering
    >>> digits = load_digits()
    >>> linear = LinearTAE(10, latent_dim=10, latent_penalty=0.05, random_state=0)
    >>> labels = make_pipeline(Scattering(), linear).fit_predict(digits.images)
    >>> adjusted_rand_score(digits.target, labels) > 0.8
    True
    """

    image_shape_: tuple[int, int, int]

    def __init__(
        self,
        n_components: int | None = 100,
        *,
        J: int | str = "auto",
        L: int = 8,
        scaling: str | None = "max",
        enlarge: int | str = "auto",
        padding: str = "auto",
        image_shape: Any = None,
        device: Any = None,
    ) -> None:
        self.n_components = n_components
        self.J = J
        self.L = L
        self.scaling = scaling
        self.enlarge = enlarge
        self.padding = padding
        self.image_shape = image_shape
        self.device = device

    @isolated_torch()
    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Learn the scale of each channel and the principal components.

        Parameters
        ----------
        X : array-like or Tensor
            Images (n, h, w), (n, c, h, w) or (n, h, w, c) with 1, 3 or 4 colours, or flat rows
            (n, d). Where both sides could be colours, the first is.
        y : ignored

        Returns
        -------
        Scattering
            Itself.
        """
        self._fit(X)
        return self

    @isolated_torch()
    def fit_transform(self, X: Any, y: Any = None) -> Any:  # noqa: ARG002
        """Fit, and return the features of the same images.

        Parameters
        ----------
        X : array-like or Tensor
        y : ignored

        Returns
        -------
        ndarray or Tensor of shape (n, q)
        """
        rows, found = self._fit(X)
        return self._transformed(rows) if found is None else rows.as_given(found)

    @isolated_torch()
    def transform(self, X: Any) -> Any:
        """Return the features of images.

        Parameters
        ----------
        X : array-like or Tensor
            Images or flat rows, of the size that was fitted.

        Returns
        -------
        ndarray or Tensor of shape (n, q)
        """
        check_fitted(self)
        return self._transformed(self._check_rows(X, reset=False))

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:  # noqa: ARG002
        """Names of the columns of ``transform``.

        Parameters
        ----------
        input_features : ignored

        Returns
        -------
        ndarray of str
            "scattering0" and so on for principal components. Without PCA, colour, scale and angle
            of each wavelet on the way, and row and column, such as "colour0_j0a3_j2a1_y0x2".
        """
        check_fitted(self)
        if self.components_ is not None:
            names = [f"scattering{i}" for i in range(self.n_components_)]
        else:
            _, height, width = self.output_shape_
            names = [
                "_".join([f"colour{colour}", *(f"j{j}a{a}" for j, a in path), f"y{y}x{x}"])
                for colour in range(self.image_shape_[0])
                for path in self._grid.paths
                for y in range(height)
                for x in range(width)
            ]
        return np.array(names, dtype=object)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted transformer to one file; ``tensorae.load`` reads it.

        ``tensorae.save`` writes a pipeline of it and a clusterer to one file.

        Parameters
        ----------
        path : path-like
            An old file there is replaced.
        """
        check_fitted(self)
        save(self, path)

    def __sklearn_tags__(self) -> Tags:
        """Tell scikit-learn what this estimator takes and keeps."""
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    # Inside ---------------------------------------------------------------------------------------

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    @property
    def _grid(self) -> Grid:
        return Grid(self.image_shape_, self.enlarge_, self.J_, self.L, self.padding_)

    @property
    def _colours_last(self) -> bool:
        """Whether flat rows have the colours of a pixel side by side."""
        return self.image_shape is not None and _channels_first(tuple(self.image_shape))[1]

    def _fits(self, output_shape: tuple[int, ...]) -> bool:
        """Whether this is what the transform gives."""
        return output_shape == (len(self._grid.paths), *self._grid.output)

    def _check_parameters(self) -> dict[str, Any]:
        if self.scaling is not None:
            Options(SCALINGS).check("scaling", self.scaling)
        return check_parameters(self.get_params(deep=False), CONSTRAINTS)

    def _checked_device(self) -> torch.device:
        return check_device(self.device)

    def _check_rows(self, X: Any, *, reset: bool) -> Rows:
        """Check X, and bring it to flat rows; learn or compare the shape of the images."""
        refuse_masked(X, "X")
        if isinstance(X, Batches):
            raise InvalidInputError(
                "X must be images in memory for Scattering, got Batches; transform them in parts, "
                "by fit(some) and transform(others)."
            )
        seen = sample_shape(X)
        given = None if self.image_shape is None else _checked_shape(self.image_shape)
        if seen is not None:
            shape, last = _channels_first(seen)
            if not reset and shape != self.image_shape_:
                raise InvalidInputError(
                    f"X must hold images of (colours, height, width) {self.image_shape_}, as in "
                    f"fit, got {shape}; resize the images."
                )
            if last:
                X = X if isinstance(X, Tensor) else np.asarray(X)
                X = X.movedim(-1, 1) if isinstance(X, Tensor) else np.moveaxis(X, -1, 1)
            if given is not None and _channels_first(given)[0] != shape:
                raise InvalidInputError(
                    f"X must hold images of image_shape={given}, got {seen}; omit image_shape."
                )
            last = False
        rows = check_rows(
            self, _small_integers_as_floats(as_rows(X, "X")), reset=reset, device=self.device
        )
        if seen is None:
            shape, last = self._shape_of_rows(given, rows.d)
            if not reset:
                shape = self.image_shape_
        if reset:
            self.image_shape_ = shape
        if last:  # flat rows with the colours of a pixel side by side
            c, h, w = shape
            planes = rows.data.reshape(-1, h, w, c).movedim(-1, 1).flatten(1)
            rows = Rows(planes, home=rows.home)
        return rows

    def _shape_of_rows(self, given: tuple[int, ...] | None, d: int) -> tuple[Any, bool]:
        """(c, h, w) of flat rows, and whether their colours come last."""
        side = math.isqrt(d)
        if given is None:
            if hasattr(self, "image_shape_") and math.prod(self.image_shape_) == d:
                return self.image_shape_, False
            given = (side, side)
        if math.prod(given) != d:
            raise InvalidParameterError(
                f"image_shape must be integers whose product is n_features={d}, such as (height, "
                f"width) or (colours, height, width), got {self.image_shape!r}; change image_shape."
            )
        return _channels_first(given)

    def _fit(self, X: Any) -> tuple[Rows, Tensor | None]:
        """Fit; return the checked rows, and their features if all were kept."""
        checked = self._check_parameters()
        rows = self._check_rows(X, reset=True)
        grid = Grid.of(
            rows.data,
            self.image_shape_,
            enlarge=checked["enlarge"],
            J=checked["J"],
            L=checked["L"],
            padding=checked["padding"],
        )
        with torch.no_grad(), rows.parallel(math.prod(grid.channels)):
            features, found = Features.fit(
                rows, grid, scaling=self.scaling, n_components=checked["n_components"]
            )
        self.enlarge_, self.J_, self.padding_ = grid.enlarge, grid.J, grid.padding
        self.output_shape_ = grid.channels
        self.n_samples_, self.n_components_ = rows.n, features.size
        self.channel_scale_ = features.scale.cpu().numpy()
        self.mean_ = features.mean.cpu().numpy()
        self.components_ = self.explained_variance_ = None
        if features.components is not None and features.variances is not None:
            self.components_ = features.components.cpu().numpy()
            self.explained_variance_ = features.variances.cpu().numpy()
        return rows, found

    def _transformed(self, rows: Rows) -> Any:
        def ready(array: Any) -> Tensor:
            return torch.as_tensor(array, dtype=rows.dtype, device=rows.device)

        axes = None if self.components_ is None else ready(self.components_)
        features = Features(self._grid, ready(self.channel_scale_), ready(self.mean_), axes)
        with torch.no_grad():
            return rows.as_given(features.of(rows))


def _checked_shape(image_shape: Any) -> tuple[int, ...]:
    """Return ``image_shape`` as a tuple of two or three positive integers."""
    sizes = tuple(image_shape) if isinstance(image_shape, list | tuple) else ()
    if len(sizes) not in (2, 3) or not all(
        isinstance(size, int | np.integer) and not isinstance(size, bool) and size > 0
        for size in sizes
    ):
        raise InvalidParameterError(
            "image_shape must be (height, width), (colours, height, width) or (height, width, "
            f"colours), got {image_shape!r:.60}; change image_shape."
        )
    return tuple(int(size) for size in sizes)


def _channels_first(shape: tuple[int, ...]) -> tuple[tuple[int, int, int], bool]:
    """(c, h, w) of an image, and whether its colours come last."""
    if len(shape) == 2:
        return (1, *shape), False
    first, second, third = shape
    if third in COLOURS and first not in COLOURS:
        return (third, first, second), True
    return (first, second, third), False


def _small_integers_as_floats(X: Any) -> Any:
    """Pixels of up to 16 bits in single precision, which holds them exactly."""
    if isinstance(X, Tensor) and not X.is_floating_point() and X.itemsize <= 2:
        return X.float()
    if isinstance(X, np.ndarray) and X.dtype.kind in "bui" and X.dtype.itemsize <= 2:
        return X.astype(np.float32)
    return X
