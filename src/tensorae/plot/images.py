"""Images side by side: as they came, as the autoencoders give them back, and de-noised.

Shapes: n samples, d pixels, c channels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from tensorae._parameters import check_integer
from tensorae.exceptions import InvalidParameterError
from tensorae.inspect.samples import ClusteredSamples, as_array, as_rows, is_linear
from tensorae.plot.style import axes_grid, hide_frame

if TYPE_CHECKING:
    from tensorae.inspect.samples import FittedModel

__all__ = ["check_shape", "in_range", "plot_reconstructions"]

Shape = tuple[int, ...]


def plot_reconstructions(
    model: FittedModel,
    X: Any,
    *,
    shape: Sequence[int] | None = None,
    n: int = 8,
    denoise: float | str | bool = False,
    clean: Any = None,
    cmap: str = "gray_r",
    axes: Any = None,
) -> NDArray[Any]:
    """Draw images and their reconstructions, one sample in each column.

    Rows: the clean image if given, the image itself, its reconstruction, and the de-noised image
    if requested. All have the same brightness scale, that of the clean or reconstructed images.
    Samples are taken from all clusters in turn.

    Parameters
    ----------
    model : LinearTAE or TAE
        Fitted.
    X : array-like of shape (n, d), (n, height, width) or (n, c, height, width)
    shape : (height, width) or (c, height, width), optional
        Of one image, with c 1 or 3. By default that of X or the model if they have one, otherwise
        a square.
    n : int, default=8
        Columns.
    denoise : bool, float or "auto", default=False
        Whether to add a row of de-noised images. For a ``LinearTAE`` give the standard deviation
        of the noise, or "auto" (True means the same).
    clean : array-like of the shape of X, optional
        The images without noise, for comparison.
    cmap : str, default="gray_r"
        Colour map for images of one channel; by default high values are dark.
    axes : figure or axes (rows, n), optional
        A new figure by default.

    Returns
    -------
    ndarray of Axes of shape (rows, n)

    Examples
    --------
    >>> from tensorae import LinearTAE
    >>> from sklearn.datasets import load_digits
    >>> from tensorae.plot import plot_reconstructions
    >>> X = load_digits().data[:300]
    >>> model = LinearTAE(5, latent_dim=3, n_init=1, random_state=0).fit(X)
    >>> plot_reconstructions(model, X, n=6, denoise=1.0).shape
    (3, 6)
    """
    samples = ClusteredSamples.of(model, X)
    size = _shape_of(samples, shape)
    check_integer("n", n, low=1)
    chosen = _from_each_cluster(samples.labels, int(n))
    pictures = {"sample": samples.values[chosen]}
    if clean is not None:
        pictures = {"clean": _checked_clean(clean, samples.values.shape)[chosen], **pictures}
    frame = nw.from_native(samples.given, eager_only=True, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        given = frame[chosen.tolist()].to_native()
    else:
        given = np.asarray(samples.given)[chosen]
    undo = samples.scaling.undo
    pictures["reconstruction"] = undo(as_rows(samples.model.reconstruct(given)))
    if denoise is not False:
        pictures["de-noised"] = undo(_denoised(samples.model, given, denoise))
    grid = axes_grid(
        axes, len(pictures), len(chosen), (1.05 * len(chosen) + 1, 1.1 * len(pictures) + 0.4)
    )
    # Noise would widen the range and reduce the contrast of all images.
    quiet = pictures["clean" if clean is not None else "reconstruction"]
    limits = {"cmap": cmap, "vmin": float(quiet.min()), "vmax": float(quiet.max())}
    for line, (name, images) in zip(grid, pictures.items(), strict=True):
        for ax, image in zip(line, images, strict=True):
            ax.imshow(_as_picture(image, size, limits), interpolation="nearest", **limits)
            ax.set(xticks=[], yticks=[])
            hide_frame(ax)
        line[0].set_ylabel(name, rotation=0, ha="right", va="center")
    for ax, label in zip(grid[0], samples.labels[chosen], strict=True):
        ax.set_title(f"cluster {label}", fontsize="small")
    return grid


def check_shape(shape: Sequence[int], d: int) -> Shape:
    """A given shape (h, w) or (c, h, w), checked against d features."""
    size = tuple(int(part) for part in shape)
    channels = size[0] if len(size) == 3 else 1
    if len(size) not in (2, 3) or math.prod(size) != d or channels not in (1, 3):
        raise InvalidParameterError(
            f"shape must be (height, width) or (channels, height, width), with 1 or 3 channels "
            f"and {d} numbers in all, got {size}; correct it."
        )
    return size


def in_range(values: NDArray[Any], low: float, high: float) -> NDArray[Any]:
    """Brightness from 0 to 1 of values from ``low`` to ``high``; others are clipped."""
    span = max(high - low, np.finfo(float).tiny)
    brightness: NDArray[Any] = np.clip((values - low) / span, 0, 1)
    return brightness


def _shape_of(samples: ClusteredSamples, shape: Sequence[int] | None) -> Shape:
    """The given shape, that of the samples or the model, or a square."""
    known = samples.sample_shape if shape is None else shape
    if known is not None:
        return check_shape(known, samples.d)
    side = math.isqrt(samples.d)
    if side * side != samples.d:
        raise InvalidParameterError(
            f"shape must be given: {samples.d} features are no square image; give (height, width)."
        )
    return side, side


def _from_each_cluster(labels: NDArray[Any], count: int) -> NDArray[np.intp]:
    """Row numbers from the clusters in turn, sorted by cluster."""
    order = np.argsort(labels, kind="stable")
    counts = np.bincount(labels)
    turn = np.concatenate([np.arange(size) for size in counts])
    picked = order[np.lexsort((labels[order], turn))][:count]
    return picked[np.argsort(labels[picked], kind="stable")]


def _denoised(model: Any, given: Any, denoise: float | str | bool) -> NDArray[Any]:
    if is_linear(model):
        return as_rows(model.denoise(given, noise="auto" if denoise is True else denoise))
    if denoise is not True:
        raise InvalidParameterError(
            f"denoise must be True or False for a {type(model).__name__}, got {denoise!r}; "
            "it learns the noise level in fit."
        )
    return as_rows(model.denoise(given))


def _checked_clean(clean: Any, wanted: tuple[int, ...]) -> NDArray[Any]:
    array = as_rows(as_array(clean))
    if array.shape != wanted:
        raise InvalidParameterError(
            f"clean must have as many samples and pixels as X, {wanted}, got {array.shape}; "
            "give one clean image for each sample."
        )
    return array


def _as_picture(image: NDArray[Any], size: Shape, limits: dict[str, Any]) -> NDArray[Any]:
    """A matrix (h, w), or colours (h, w, 3) scaled to the range from 0 to 1."""
    picture = image.reshape(size)
    if len(size) == 2 or size[0] == 1:
        return picture.reshape(size[-2:])
    return in_range(picture.transpose(1, 2, 0), limits["vmin"], limits["vmax"])
