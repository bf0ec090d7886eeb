"""Architectures from users: normalised to one interface, and checked before training starts.

Shapes: n samples, h latent.
"""

from __future__ import annotations

import copy
import difflib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from tensorae._torch import FitRNG
from tensorae.exceptions import InvalidParameterError, unknown_choice

SHARINGS = ("none", "layers")
EXPECTED = (
    "architecture must be a function that returns a new autoencoder at each call: a Module with "
    "encode(x) and decode(z), a Module with encoder and decoder, or a pair of Modules"
)


class _Pair(nn.Module):
    """An encoder and a decoder as one autoencoder."""

    def __init__(self, encoder: nn.Module, decoder: nn.Module) -> None:
        super().__init__()
        self.encoder, self.decoder = encoder, decoder

    def encode(self, x: Tensor) -> Any:
        """Codes (n, h) of samples (n, ...)."""
        return self.encoder(x)

    def decode(self, z: Tensor) -> Any:
        """Samples (n, ...) of codes (n, h)."""
        return self.decoder(z)


class _WithCoders(nn.Module):
    """A module with ``encoder`` and ``decoder`` as an autoencoder; its other methods stay."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module: Any = module
        for name in ("loss", "start_from", "start_from_gaussian"):
            if hasattr(module, name):
                setattr(self, name, getattr(module, name))
        if _has(module, "shared_parts"):
            self.shared_parts = self._shared_parts

    def _shared_parts(self) -> list[str]:
        return [f"module.{name}" for name in self.module.shared_parts()]

    def encode(self, x: Tensor) -> Any:
        """Codes (n, h) of samples (n, ...)."""
        return self.module.encoder(x)

    def decode(self, z: Tensor) -> Any:
        """Samples (n, ...) of codes (n, h)."""
        return self.module.decoder(z)


def make_autoencoders(factory: Callable[[], Any], n_clusters: int) -> list[nn.Module]:
    """Call ``factory`` once per cluster and check that the results share no parameters."""
    if isinstance(factory, nn.Module) or not callable(factory):
        raise InvalidParameterError(
            f"{EXPECTED}; got the {type(factory).__name__} itself; "
            "wrap its construction in a function, such as lambda: MyAutoencoder(4, 2)."
        )
    autoencoders = [_as_autoencoder(_call(factory)) for _ in range(n_clusters)]
    owners: dict[int, int] = {}
    for j, autoencoder in enumerate(autoencoders):
        for parameter in autoencoder.parameters():
            if owners.setdefault(id(parameter), j) != j:
                raise InvalidParameterError(
                    "architecture must return a new autoencoder at each call, but those of "
                    f"clusters {owners[id(parameter)]} and {j} share parameters; build the layers "
                    "inside the function."
                )
    return autoencoders


def _call(factory: Callable[[], Any]) -> Any:
    try:
        return factory()
    except TypeError as error:
        if "argument" not in str(error):
            raise
        raise InvalidParameterError(
            f"{EXPECTED}, without arguments; the call failed: {error}; "
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
            f"{EXPECTED}; got a {type(made).__name__} without {' and '.join(missing)}; "
            "add the missing method."
        )
    raise InvalidParameterError(
        f"{EXPECTED}; got one that returns {type(made).__name__}; return a Module."
    )


def _has(module: nn.Module, *names: str) -> bool:
    return all(callable(getattr(module, name, None)) for name in names)


# Checks before training -----------------------------------------------------------------------


def check_autoencoder(autoencoder: nn.Module, sample: Tensor, latent_dim: int) -> bool:
    """Run an autoencoder on a few centred samples (n, ...) and check what it returns.

    Returns whether it is variational: whether it encodes to a mean and a log-variance.
    """
    module: Any = autoencoder
    if not any(parameter.requires_grad for parameter in module.parameters()):
        raise InvalidParameterError(
            "architecture must have a parameter to train, got one whose parameters are all frozen "
            "or that has none; set requires_grad on those to train."
        )
    was_training = module.training
    module.eval()
    with torch.no_grad():
        codes = _try("encode", module.encode, sample)
        variational = _is_pair(codes)
        for part in codes if variational else [codes]:
            expected = (sample.shape[0], latent_dim)
            _check_output("encode", part, sample, expected, "change latent_dim")
        codes = codes[0] if variational else codes
        output = _try("decode", module.decode, codes)
        _check_output("decode", output, codes, tuple(sample.shape), "change the last layer")
        if hasattr(module, "loss"):
            if variational:
                raise InvalidParameterError(
                    "architecture must not define loss where encode returns mean and log-variance "
                    "(the evidence bound is the loss), got both; remove loss, or return the mean "
                    "alone from encode."
                )
            losses = _try("loss", module.loss, sample, sample)
            _check_output("loss", losses, sample, (sample.shape[0],), "do not average over samples")
    module.train(was_training)
    return variational


def draws_numbers(autoencoder: nn.Module, sample: Tensor) -> bool:
    """Whether an autoencoder draws random numbers while it trains, as dropout does."""
    try:
        module: Any = copy.deepcopy(autoencoder).train()
    except Exception:  # a user's module that cannot be copied cannot be tried without side effects
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
    return isinstance(codes, tuple) and len(codes) == 2


def _try(name: str, method: Callable[..., Any], *arguments: Tensor) -> Any:
    try:
        return method(*arguments)
    except Exception as error:
        raise InvalidParameterError(
            f"architecture must fit the data: {name} failed on input of shape "
            f"{tuple(arguments[0].shape)} ({type(error).__name__}: "
            f"{str(error).splitlines()[0][:200]}); change its layers, or pass X or input_shape in "
            "the form that it takes."
        ) from error


def _check_output(
    name: str, result: Any, given: Tensor, expected: tuple[int, ...], remedy: str
) -> None:
    if not isinstance(result, Tensor):
        kinds = "the code, or mean and log-variance as a pair" if name == "encode" else "it alone"
        raise InvalidParameterError(
            f"architecture must return a tensor from {name}, got {type(result).__name__}; "
            f"return {kinds}."
        )
    if tuple(result.shape) != expected:
        raise InvalidParameterError(
            f"architecture must return shape {expected} from {name} for input of shape "
            f"{tuple(given.shape)}, got {tuple(result.shape)}; {remedy}."
        )
    if not bool(torch.isfinite(result).all()):
        raise InvalidParameterError(
            f"architecture must return finite numbers from {name}, got NaN or infinity before "
            "training; check how its parameters are initialised."
        )


# Shared layers --------------------------------------------------------------------------------


def shared_names(
    autoencoders: Sequence[nn.Module], shared: str | Iterable[str] | None
) -> list[str]:
    """Names of the tensors that autoencoders of the same structure have in common.

    "layers" asks the autoencoders themselves (``shared_parts``); else ``shared`` are names of
    submodules, parameters or buffers. A tensor with several names is listed under each.
    """
    if shared is None or shared == "none":
        return []
    first = autoencoders[0]
    if isinstance(shared, str):
        if shared not in SHARINGS:
            raise unknown_choice("shared", shared, SHARINGS)
        parts = _declared_parts(first)
    else:
        parts = list(shared)
    chosen = {id(tensor) for part in parts for tensor in _tensors_of(first, part)}
    names = [name for name, tensor in _named_tensors(first) if id(tensor) in chosen]
    if not any(id(p) not in chosen for p in first.parameters() if p.requires_grad):
        raise InvalidParameterError(
            f"shared must leave each cluster a part of its own, got all that {_kind(first)} "
            "trains; leave out layers, such as those next to the code."
        )
    tables = [dict(_named_tensors(one)) for one in autoencoders]
    for name in names:
        if len({tuple(table[name].shape) if name in table else None for table in tables}) > 1:
            raise InvalidParameterError(
                "architecture must return autoencoders of the same structure to share layers, but "
                f"the size of {name!r} differs; make the same layers at each call."
            )
    return names


def _declared_parts(autoencoder: nn.Module) -> list[str]:
    method: Any = getattr(autoencoder, "shared_parts", None)
    if not callable(method):
        raise InvalidParameterError(
            'sharing="layers" needs an architecture with shared_parts(), which names the layers '
            f"for all clusters, got {_kind(autoencoder)} without it; add it, such as "
            'def shared_parts(self): return ["encoder.0", "decoder.2"], or leave sharing out.'
        )
    parts = method()
    if isinstance(parts, str) or not isinstance(parts, Iterable):
        raise InvalidParameterError(
            f"shared_parts() of {_kind(autoencoder)} must return a list of names, such as "
            f'["encoder.0", "decoder.2"], got {parts!r:.60}; return a list of str.'
        )
    parts = list(parts)
    if not parts:
        raise InvalidParameterError(
            f'sharing="layers" needs layers that can serve all clusters, and {_kind(autoencoder)} '
            "has none around its code; choose another architecture, or leave sharing out."
        )
    return parts


def _tensors_of(autoencoder: nn.Module, part: Any) -> list[Tensor]:
    """Tensors of a submodule, or the tensor of that name."""
    modules = dict(autoencoder.named_modules(remove_duplicate=False))
    tensors = dict(_named_tensors(autoencoder))
    if part in tensors:
        return [tensors[part]]
    found = [tensor for _, tensor in _named_tensors(modules[part])] if part in modules else []
    if not part or not found:
        known = [name for name in (*modules, *tensors) if name]
        close = difflib.get_close_matches(str(part), known, n=1)
        remedy = f"did you mean {close[0]!r}?" if close else f"choose from {', '.join(known)}."
        raise InvalidParameterError(
            f"shared must name parts of {_kind(autoencoder)} that have weights, got {part!r}; "
            f"{remedy}"
        )
    return found


def _named_tensors(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    yield from module.named_parameters(remove_duplicate=False)
    yield from module.named_buffers(remove_duplicate=False)


def _kind(autoencoder: nn.Module) -> str:
    inner = getattr(autoencoder, "module", autoencoder)
    return f"a {type(inner).__name__.lstrip('_')}"
