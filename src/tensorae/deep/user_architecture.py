"""What a user hands over as an architecture, checked and brought to one form.

Shapes: n samples, h latent.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from tensorae._torch import FitRNG
from tensorae.exceptions import InvalidParameterError

__all__ = ["check_autoencoder", "draws_numbers", "make_autoencoders"]

WANTED = (
    "architecture must be a function that makes a new autoencoder at each call: a Module with "
    "encode(x) and decode(z), a Module with encoder and decoder, or a pair of Modules"
)


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
    """A module with ``encoder`` and ``decoder`` as an autoencoder; all else it offers stays."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module
        for name in ("loss", "start_from", "start_from_gaussian"):
            if hasattr(module, name):
                setattr(self, name, getattr(module, name))
        if _has(module, "shared_parts"):
            self.shared_parts = self._shared_parts

    def _shared_parts(self) -> list[str]:
        module: Any = self.module
        return [f"module.{name}" for name in module.shared_parts()]

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


def check_autoencoder(autoencoder: nn.Module, sample: Tensor, latent_dim: int) -> bool:
    """Try an autoencoder on a few centred samples (n, ...) before hours are spent on it.

    Returns whether it is variational: whether it encodes to a mean and a log-variance.
    """
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
        variational = _is_pair(codes)
        for part in codes if variational else [codes]:
            wanted = (sample.shape[0], latent_dim)
            _check_shape("encode", part, sample, wanted, "change latent_dim")
        codes = codes[0] if variational else codes
        output = _tried("decode", module.decode, codes)
        _check_shape("decode", output, codes, tuple(sample.shape), "change the last layer")
        if hasattr(module, "loss"):
            if variational:
                raise InvalidParameterError(
                    "architecture must leave the loss to the evidence bound where encode gives "
                    "mean and log-variance, got a Module with a loss of its own; leave loss out, "
                    "or return the mean alone from encode."
                )
            losses = _tried("loss", module.loss, sample, sample)
            _check_shape("loss", losses, sample, (sample.shape[0],), "do not average over samples")
    module.train(was_training)
    return variational


def draws_numbers(autoencoder: nn.Module, sample: Tensor) -> bool:
    """Tell whether an autoencoder draws random numbers while it trains, as dropout does."""
    try:
        module: Any = copy.deepcopy(autoencoder).train()
    except Exception:  # of the user's own: what cannot be tried without a trace may draw
        return True
    trial = FitRNG(0)
    two = sample if len(sample) > 1 else torch.cat([sample, sample])
    with torch.no_grad(), trial.activated():
        codes = module.encode(two)
        module.decode(codes[0] if _is_pair(codes) else codes)
        if hasattr(module, "loss"):
            module.loss(two, two)
    return trial.drawn


def _is_pair(codes: Any) -> bool:
    """Whether ``encode`` gave mean and log-variance."""
    return isinstance(codes, tuple) and len(codes) == 2


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
            + (
                "return the code alone, or mean and log-variance as a pair."
                if name == "encode"
                else "return the tensor alone."
            )
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
