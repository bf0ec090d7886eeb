"""The built-in autoencoders.

Each has a linear path beside its layers, which begin at zero and learn what is not linear. So a
network can begin as the principal directions of its cluster (``start_from``). Without the path
MLPs forget the start at the first refresh (ARI .74 to .66 on MNIST 5x200).

Inputs are centred, so outputs are not squashed. ``shared_parts`` names the outer layers, which can
serve all clusters; the linear paths and the layers next to the code cannot.

Shapes: n samples, d features, h latent, c channels.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from tensorae.exceptions import InvalidParameterError, unknown_choice

# Hidden units: so many per feature, at most the second number, which serves images of 28 x 28.
UNITS_PER_FEATURE, MAX_WIDTH = 8, 256
# Least signal variance of a direction of the start, as a share of the noise variance.
MIN_SIGNAL = 0.01
# For curved starts, rows of up to so many features get two hidden layers a side, of at least so
# many units: rings need them, and small layers take little time.
NARROW, MIN_WIDTH = 50, 64
# Codes that ``CurveAutoencoder`` proposes for a row. Three learn wrong labels (moons with 5 % of
# wrong labels: ARI .91 in place of .995).
PROPOSALS = 2
# Channels of the two convolutions; each halves the image.
CHANNELS = (8, 16)
ARCHITECTURES = ("linear", "mlp", "conv", "vae")


class LinearAutoencoder(nn.Module):
    """Tied linear autoencoder with orthonormal directions: what ``LinearTAE`` fits, by gradients.

    The directions are the orthonormalised rows of ``weight``. With a free scale a small encoder and
    a large decoder would escape the penalty on the code.

    Parameters
    ----------
    n_features, latent_dim : int

    Examples
    --------
    >>> import torch
    >>> from tensorae.deep.networks import LinearAutoencoder
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

    def shared_parts(self) -> list[str]:
        """No layer: its one matrix is each cluster's own."""
        return []


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
    """ReLU layers beside a linear path: one hidden layer on each side, or two for curves.

    Parameters
    ----------
    n_features, latent_dim : int
    width : int, optional
        Hidden units; by default eight per feature, at most 256.
    curved : bool, default=False
        Whether rows of up to 50 features get two hidden layers a side, of at least 64 units.

    Examples
    --------
    >>> import torch
    >>> from tensorae.deep.networks import MLPAutoencoder
    >>> autoencoder = MLPAutoencoder(4, 2)
    >>> autoencoder.encode(torch.zeros(3, 4)).shape
    torch.Size([3, 2])
    """

    def __init__(
        self, n_features: int, latent_dim: int, width: int | None = None, *, curved: bool = False
    ) -> None:
        if width is None:
            units = max(MIN_WIDTH if curved else 0, UNITS_PER_FEATURE * n_features)
            width = max(latent_dim, min(MAX_WIDTH, units))
        two = n_features <= NARROW and curved
        sizes = [n_features, width, width] if two else [n_features, width]
        encoder, decoder = _layers([*sizes, latent_dim]), _layers([latent_dim, *sizes[::-1]])
        super().__init__(encoder, decoder, n_features, latent_dim)

    def shared_parts(self) -> list[str]:
        """Name the layers next to the data."""
        return ["encoder.0", f"decoder.{len(self.decoder) - 1}"]


class CurveAutoencoder(MLPAutoencoder):
    """The MLP for curves: it proposes several codes and uses the one that decodes best.

    A continuous encoder cannot cut a ring: between the two ends of the code it runs through all of
    it, and rows there are reconstructed on the other side. A choice between proposals can. The
    first one begins as main directions, which are best until the decoder is curved; the others
    learn from the rows that they decode best.
    """

    one_code: Tensor  # whether only the first proposal is used

    def __init__(self, n_features: int, latent_dim: int, width: int | None = None) -> None:
        super().__init__(n_features, latent_dim, width, curved=True)
        hidden = _last_with_weights(self.encoder).weight.shape[1]
        self.others = nn.Linear(hidden, (PROPOSALS - 1) * latent_dim)
        self.register_buffer("one_code", torch.tensor(False))

    def propose_one_code(self) -> None:
        """Use the first proposal only; with two, a network could serve two straight groups."""
        self.one_code = torch.ones_like(self.one_code)

    def encode(self, x: Tensor) -> Tensor:
        """Codes (n, h) of rows (n, d)."""
        if self.one_code:
            return super().encode(x)
        proposals = self.proposals(x)
        with torch.no_grad():
            outputs = self.decode(proposals.flatten(0, 1)).view(len(x), -1, x.shape[1])
            best = (outputs - x[:, None]).square().sum(2).argmin(1)
        return proposals[torch.arange(len(x), device=x.device), best]

    def proposals(self, x: Tensor) -> Tensor:
        """All proposed codes (n, p, h) of rows (n, d)."""
        hidden = self.encoder[:-1](x)
        curved = torch.cat([self.encoder[-1](hidden), self.others(hidden)], dim=1)
        straight = nn.functional.linear(x, self.encoder_path)
        return curved.view(len(x), PROPOSALS, -1) + straight[:, None]


class VariationalAutoencoder(MLPAutoencoder):
    """The MLP as a variational autoencoder; it can begin as probabilistic PCA.

    Parameters
    ----------
    n_features, latent_dim : int
    width : int, optional
        Hidden units; by default eight per feature, at most 256.

    Examples
    --------
    >>> import torch
    >>> from tensorae.deep.networks import VariationalAutoencoder
    >>> mean, log_variance = VariationalAutoencoder(4, 2).encode(torch.zeros(3, 4))
    >>> mean.shape, log_variance.shape
    (torch.Size([3, 2]), torch.Size([3, 2]))
    """

    def __init__(
        self, n_features: int, latent_dim: int, width: int | None = None, *, curved: bool = False
    ) -> None:
        super().__init__(n_features, latent_dim, width, curved=curved)
        self.spread = nn.Linear(_last_with_weights(self.encoder).weight.shape[1], latent_dim)
        for parameter in self.spread.parameters():
            nn.init.zeros_(parameter)

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        """Means and log-variances (n, h) of codes of rows (n, d)."""
        hidden = self.encoder[:-1](x)
        mean = self.encoder[-1](hidden) + nn.functional.linear(x, self.encoder_path)
        return mean, self.spread(hidden)

    def start_from_gaussian(
        self, components: Tensor, variances: Tensor, noise_variance: Tensor
    ) -> None:
        """Begin as probabilistic PCA.

        ``components`` (h, d) are orthonormal, ``variances`` (h,) those of the rows along them, and
        ``noise_variance`` that along any other direction.
        """
        signal = (variances - noise_variance).clamp(min=MIN_SIGNAL * float(noise_variance))
        along = signal + noise_variance
        with torch.no_grad():
            self.encoder_path.copy_(components * (signal.sqrt() / along)[:, None])
            self.decoder_path.copy_(components * signal.sqrt()[:, None])
            self.spread.bias.copy_((noise_variance / along).log())


def _layers(sizes: list[int]) -> nn.Sequential:
    """Linear layers with ReLUs in between."""
    parts: list[nn.Module] = []
    for before, after in itertools.pairwise(sizes):
        parts += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*parts[:-1])


class _Crop(nn.Module):
    """Crop images, because doubling an odd size adds a row and a column."""

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
    >>> from tensorae.deep.networks import ConvAutoencoder
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

    def shared_parts(self) -> list[str]:
        """Name the convolutions."""
        return ["encoder.0", "encoder.2", "decoder.3", "decoder.7"]


def built_in(
    name: object, input_shape: tuple[int, ...], latent_dim: int, *, curved: bool = False
) -> Callable[[], nn.Module]:
    """Return the factory of a built-in autoencoder; with ``curved`` one that can follow rings."""
    if name == "linear":
        return lambda: LinearAutoencoder(math.prod(input_shape), latent_dim)
    if name == "mlp" and curved and math.prod(input_shape) <= NARROW:
        return lambda: CurveAutoencoder(math.prod(input_shape), latent_dim)
    if name == "mlp":
        return lambda: MLPAutoencoder(math.prod(input_shape), latent_dim, curved=curved)
    if name == "vae":
        return lambda: VariationalAutoencoder(math.prod(input_shape), latent_dim, curved=curved)
    if name != "conv":
        raise unknown_choice("architecture", name, ARCHITECTURES)
    if len(input_shape) != 3:
        raise InvalidParameterError(
            'architecture="conv" needs images of shape (channels, height, width), got rows of '
            f"{math.prod(input_shape)} numbers; pass X of shape (n, channels, height, width) or "
            "set input_shape."
        )
    channels, height, width = input_shape
    return lambda: ConvAutoencoder((channels, height, width), latent_dim)


def _last_with_weights(layers: nn.Sequential) -> nn.Linear | nn.Conv2d:
    return next(
        layer for layer in reversed(list(layers)) if isinstance(layer, nn.Linear | nn.Conv2d)
    )
