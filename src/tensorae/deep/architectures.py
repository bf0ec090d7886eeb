"""Autoencoders: what a user hands over, checked, and the built-in ones.

Each built-in one has a linear path beside its layers, tied at the start: the layers begin at zero
and add what is not linear. So a network can begin *as* the principal directions of its cluster
(``start_from``) and is never worse than them by an unlucky start.

Inputs are centred, so no output is squashed.

Shapes: n samples, d features, h latent, c channels.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from tensorae._torch import Chance
from tensorae.exceptions import InvalidParameterError, unknown_choice

__all__ = [
    "ARCHITECTURES",
    "ConvAutoencoder",
    "LinearAutoencoder",
    "MLPAutoencoder",
    "built_in",
    "check_autoencoder",
    "draws_numbers",
    "make_autoencoders",
]

# Hidden units: this many per feature, up to a limit that serves images of 28 x 28.
UNITS_PER_FEATURE = 8
MAX_WIDTH = 256
# Rows of up to so many features have two hidden layers a side, of so many units at least: what is
# short can be curved strongly, as rings are, and small layers take no time to speak of.
NARROW, MIN_WIDTH = 50, 64
# Channels of the two convolutions; each halves the image.
CHANNELS = (8, 16)
ARCHITECTURES = ("linear", "mlp", "conv")
WANTED = (
    "architecture must be a function that makes a new autoencoder at each call: a Module with "
    "encode(x) and decode(z), a Module with encoder and decoder, or a pair of Modules"
)


class LinearAutoencoder(nn.Module):
    """Tied linear autoencoder with orthonormal directions: what ``LinearTAE`` fits, by gradients.

    The directions are the orthonormalised rows of ``weight``. With a free scale the penalty on
    the code could be escaped by a small encoder and a large decoder.

    Parameters
    ----------
    n_features, latent_dim : int

    Examples
    --------
    >>> import torch
    >>> from tensorae.deep.architectures import LinearAutoencoder
    >>> autoencoder = LinearAutoencoder(4, 2)
    >>> autoencoder.decode(autoencoder.encode(torch.zeros(3, 4))).shape
    torch.Size([3, 4])
    """

    def __init__(self, n_features: int, latent_dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(latent_dim, n_features))
        self.encoder_bias = nn.Parameter(torch.zeros(latent_dim))
        self.decoder_bias = nn.Parameter(torch.zeros(n_features))
        nn.init.orthogonal_(self.weight)

    def directions(self) -> Tensor:
        """Orthonormal rows (h, d) that span those of ``weight``."""
        gram = self.weight @ self.weight.mT
        factor = torch.linalg.cholesky(gram)
        rows: Tensor = torch.linalg.solve_triangular(factor, self.weight, upper=False)
        return rows

    def encode(self, x: Tensor) -> Tensor:
        """Codes (n, h) of rows (n, d)."""
        return nn.functional.linear(x, self.directions(), self.encoder_bias)

    def decode(self, z: Tensor) -> Tensor:
        """Rows (n, d) of codes (n, h)."""
        return z @ self.directions() + self.decoder_bias

    def start_from(self, components: Tensor) -> None:
        """Begin as these orthonormal directions (h, d)."""
        with torch.no_grad():
            self.weight.copy_(components)


class _WithLinearPath(nn.Module):
    """An encoder and a decoder, each beside a linear path; their last layers begin at zero."""

    def __init__(self, encoder: nn.Sequential, decoder: nn.Sequential, d: int, h: int) -> None:
        super().__init__()
        self.encoder, self.decoder = encoder, decoder
        self.encoder_path = nn.Parameter(torch.empty(h, d))
        self.decoder_path = nn.Parameter(torch.empty(h, d))
        start = torch.empty(h, d)
        nn.init.orthogonal_(start)
        self.start_from(start)
        for layers in (encoder, decoder):
            for parameter in _last_with_weights(layers).parameters():
                nn.init.zeros_(parameter)

    def encode(self, x: Tensor) -> Tensor:
        """Codes (n, h) of rows (n, ...)."""
        code: Tensor = self.encoder(x)
        return code + nn.functional.linear(x.flatten(1), self.encoder_path)

    def decode(self, z: Tensor) -> Tensor:
        """Rows (n, ...) of codes (n, h)."""
        output: Tensor = self.decoder(z)
        return output + (z @ self.decoder_path).view(output.shape)

    def start_from(self, components: Tensor) -> None:
        """Begin as these orthonormal directions (h, d)."""
        with torch.no_grad():
            self.encoder_path.copy_(components)
            self.decoder_path.copy_(components)


class MLPAutoencoder(_WithLinearPath):
    """Rectified units on each side, beside a linear path: one hidden layer, or two for short rows.

    Parameters
    ----------
    n_features, latent_dim : int
    width : int, optional
        Hidden units; where it is not given eight per feature, at least 64 and at most 256.
    former : bool
        Whether it is as in files of version 0.1: one hidden layer, of eight units per feature.

    Examples
    --------
    >>> import torch
    >>> from tensorae.deep.architectures import MLPAutoencoder
    >>> autoencoder = MLPAutoencoder(4, 2)
    >>> autoencoder.encode(torch.zeros(3, 4)).shape
    torch.Size([3, 2])
    """

    def __init__(
        self, n_features: int, latent_dim: int, width: int | None = None, *, former: bool = False
    ) -> None:
        if width is None:
            units = max(0 if former else MIN_WIDTH, UNITS_PER_FEATURE * n_features)
            width = max(latent_dim, min(MAX_WIDTH, units))
        two = n_features <= NARROW and not former
        sizes = [n_features, width, width] if two else [n_features, width]
        encoder, decoder = _layers([*sizes, latent_dim]), _layers([latent_dim, *sizes[::-1]])
        super().__init__(encoder, decoder, n_features, latent_dim)


def _layers(sizes: list[int]) -> nn.Sequential:
    """Linear layers from size to size, rectified in between."""
    parts: list[nn.Module] = []
    for before, after in itertools.pairwise(sizes):
        parts += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*parts[:-1])


class _Crop(nn.Module):
    """Cut images to a size: doubling an odd one gives a row and a column too many."""

    def __init__(self, size: tuple[int, int]) -> None:
        super().__init__()
        self.size = size

    def forward(self, x: Tensor) -> Tensor:
        """Images (n, c, height, width) of the size."""
        height, width = self.size
        return x[..., :height, :width]


class ConvAutoencoder(_WithLinearPath):
    """Two convolutions that halve the image and two that restore it, beside a linear path.

    Parameters
    ----------
    input_shape : tuple of int
        (channels, height, width), of any size.
    latent_dim : int

    Examples
    --------
    >>> import torch
    >>> from tensorae.deep.architectures import ConvAutoencoder
    >>> autoencoder = ConvAutoencoder((3, 7, 10), 2)
    >>> autoencoder.decode(torch.zeros(4, 2)).shape
    torch.Size([4, 3, 7, 10])
    """

    def __init__(self, input_shape: tuple[int, int, int], latent_dim: int) -> None:
        channels, height, width = input_shape
        first, second = CHANNELS
        half = (math.ceil(height / 2), math.ceil(width / 2))
        quarter = (math.ceil(half[0] / 2), math.ceil(half[1] / 2))
        inner = second * math.prod(quarter)
        encoder = nn.Sequential(
            nn.Conv2d(channels, first, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(first, second, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(inner, latent_dim),
        )
        # Four channels become one of twice the size: cheaper than convolving the large image.
        decoder = nn.Sequential(
            nn.Linear(latent_dim, inner),
            nn.ReLU(),
            nn.Unflatten(1, (second, *quarter)),
            nn.Conv2d(second, 4 * first, 3, padding=1),
            nn.PixelShuffle(2),
            _Crop(half),
            nn.ReLU(),
            nn.Conv2d(first, 4 * channels, 3, padding=1),
            nn.PixelShuffle(2),
            _Crop((height, width)),
        )
        super().__init__(encoder, decoder, math.prod(input_shape), latent_dim)


def built_in(
    name: object, input_shape: tuple[int, ...], latent_dim: int, *, former: bool = False
) -> Callable[[], nn.Module]:
    """Return what makes built-in autoencoders for samples (d,); "conv" takes (c, height, width).

    ``former`` ones are as version 0.1 made them.
    """
    if name == "linear":
        return lambda: LinearAutoencoder(math.prod(input_shape), latent_dim)
    if name == "mlp":
        return lambda: MLPAutoencoder(math.prod(input_shape), latent_dim, former=former)
    if name != "conv":
        raise unknown_choice("architecture", name, ARCHITECTURES)
    if len(input_shape) != 3:
        raise InvalidParameterError(
            'architecture="conv" needs images of shape (channels, height, width), got rows of '
            f"{math.prod(input_shape)} numbers; give X of shape (n, channels, height, width) or "
            "set input_shape."
        )
    channels, height, width = input_shape
    return lambda: ConvAutoencoder((channels, height, width), latent_dim)


def _last_with_weights(layers: nn.Sequential) -> nn.Linear | nn.Conv2d:
    return next(
        layer for layer in reversed(list(layers)) if isinstance(layer, nn.Linear | nn.Conv2d)
    )


# What a user hands over ---------------------------------------------------------------------------


class _Pair(nn.Module):
    """An encoder and a decoder as one autoencoder."""

    def __init__(self, encoder: nn.Module, decoder: nn.Module) -> None:
        super().__init__()
        self.encoder, self.decoder = encoder, decoder

    def encode(self, x: Tensor) -> Tensor:
        """Codes (n, h) of samples (n, ...)."""
        codes: Tensor = self.encoder(x)
        return codes

    def decode(self, z: Tensor) -> Tensor:
        """Samples (n, ...) of codes (n, h)."""
        output: Tensor = self.decoder(z)
        return output


class _WithCoders(nn.Module):
    """A module with ``encoder`` and ``decoder`` as an autoencoder; its own loss and start stay."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module
        for name in ("loss", "start_from"):
            if hasattr(module, name):
                setattr(self, name, getattr(module, name))

    def encode(self, x: Tensor) -> Tensor:
        """Codes (n, h) of samples (n, ...)."""
        module: Any = self.module
        codes: Tensor = module.encoder(x)
        return codes

    def decode(self, z: Tensor) -> Tensor:
        """Samples (n, ...) of codes (n, h)."""
        module: Any = self.module
        output: Tensor = module.decoder(z)
        return output


def make_autoencoders(factory: Callable[[], Any], n_clusters: int) -> list[nn.Module]:
    """Call ``factory`` once per cluster and check that nothing is shared between them."""
    if isinstance(factory, nn.Module) or not callable(factory):
        raise InvalidParameterError(
            f"{WANTED}; got the {type(factory).__name__} itself; "
            "wrap what makes it in a function, such as lambda: MyAutoencoder(4, 2)."
        )
    autoencoders = [_as_autoencoder(_made(factory)) for _ in range(n_clusters)]
    owners: dict[int, int] = {}
    for j, autoencoder in enumerate(autoencoders):
        for parameter in autoencoder.parameters():
            if owners.setdefault(id(parameter), j) != j:
                raise InvalidParameterError(
                    "architecture must make a new autoencoder at each call, but those of clusters "
                    f"{owners[id(parameter)]} and {j} share parameters; build the layers inside "
                    "the function."
                )
    return autoencoders


def check_autoencoder(autoencoder: nn.Module, sample: Tensor, latent_dim: int) -> None:
    """Try an autoencoder on a few centred samples (n, ...) before hours are spent on it."""
    module: Any = autoencoder
    if not any(parameter.requires_grad for parameter in module.parameters()):
        raise InvalidParameterError(
            "architecture has no parameter to train: all are frozen or there are none; "
            "set requires_grad on those that should be trained."
        )
    was_training = module.training
    module.eval()
    with torch.no_grad():
        codes = _tried("encode", module.encode, sample)
        _check_shape("encode", codes, sample, (sample.shape[0], latent_dim), "change latent_dim")
        output = _tried("decode", module.decode, codes)
        _check_shape("decode", output, codes, tuple(sample.shape), "change the last layer")
        if hasattr(module, "loss"):
            losses = _tried("loss", module.loss, sample, sample)
            _check_shape("loss", losses, sample, (sample.shape[0],), "do not average over samples")
    module.train(was_training)


def draws_numbers(autoencoder: nn.Module, sample: Tensor) -> bool:
    """Tell whether an autoencoder draws random numbers while it trains, as dropout does."""
    try:
        module: Any = copy.deepcopy(autoencoder).train()
    except Exception:  # of the user's own: what cannot be tried without a trace may draw
        return True
    trial = Chance(0)
    two = sample if len(sample) > 1 else torch.cat([sample, sample])
    with torch.no_grad(), trial.drawn_from():
        module.decode(module.encode(two))
        if hasattr(module, "loss"):
            module.loss(two, two)
    return trial.drawn


def _made(factory: Callable[[], Any]) -> Any:
    try:
        return factory()
    except TypeError as error:
        if "argument" not in str(error):
            raise
        raise InvalidParameterError(
            f"{WANTED}, without arguments; the call failed: {error}; "
            "wrap it, such as lambda: MyAutoencoder(4, 2)."
        ) from error


def _as_autoencoder(made: Any) -> nn.Module:
    if isinstance(made, tuple | list) and len(made) == 2:
        encoder, decoder = made
        if isinstance(encoder, nn.Module) and isinstance(decoder, nn.Module):
            return _Pair(encoder, decoder)
    if isinstance(made, nn.Module):
        if _has(made, "encode", "decode"):
            return made
        if _has(made, "encoder", "decoder"):
            return _WithCoders(made)
        missing = [name for name in ("encode", "decode") if not _has(made, name)]
        raise InvalidParameterError(
            f"{WANTED}; got a {type(made).__name__} without {' and '.join(missing)}; "
            "add the missing method."
        )
    raise InvalidParameterError(
        f"{WANTED}; got one that returns {type(made).__name__}; return a Module."
    )


def _has(module: nn.Module, *names: str) -> bool:
    return all(callable(getattr(module, name, None)) for name in names)


def _tried(name: str, method: Callable[..., Any], *arguments: Tensor) -> Any:
    shape = tuple(arguments[0].shape)
    try:
        return method(*arguments)
    except Exception as error:
        raise InvalidParameterError(
            f"architecture does not fit the data: {name} failed on input of shape {shape} "
            f"({type(error).__name__}: {str(error).splitlines()[0][:200]}); change its layers, or "
            "give X or input_shape in the form that it takes."
        ) from error


def _check_shape(
    name: str, result: Any, given: Tensor, wanted: tuple[int, ...], remedy: str
) -> None:
    if not isinstance(result, Tensor):
        raise InvalidParameterError(
            f"architecture must return a tensor from {name}, got {type(result).__name__}; "
            "return the tensor alone."
        )
    if tuple(result.shape) != wanted:
        raise InvalidParameterError(
            f"{name} of the architecture must return shape {wanted} for input of shape "
            f"{tuple(given.shape)}, got {tuple(result.shape)}; {remedy}."
        )
    if not bool(torch.isfinite(result).all()):
        raise InvalidParameterError(
            f"{name} of the architecture returns NaN or infinity before training has begun; "
            "check how its parameters are initialised."
        )
