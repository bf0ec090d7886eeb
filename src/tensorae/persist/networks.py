"""The autoencoders of TAE: state <-> module.

Built-in autoencoders are created on the meta device and take over the tensors of the file, so that
no header can request more memory than the file holds. Custom ones are made by the user's function.

Weights do not distinguish architectures with the same layers, such as tanh from ReLU. So a file
also holds the costs of a few points, which ``load`` computes again and compares.
"""

# k clusters, d features, r points

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from tensorae._schema import SchemaError
from tensorae._torch import FitRNG
from tensorae.deep.module import TensorizedAutoencoder, tensorize
from tensorae.deep.networks import built_in
from tensorae.deep.user_architecture import shared_names
from tensorae.exceptions import InvalidParameterError, ModelFileError
from tensorae.persist.container import part

BUFFERS = ("centers", "scale", "code_scales", "latent_penalty", "noise_variance", "spreads")
SAMPLES = 8  # points whose costs are compared
# Relative difference of costs between machines; another activation changes them far more. And the
# same for costs near zero, relative to the squared distance of a point from its center.
TOLERANCE, NEAR_ZERO = 0.01, 1e-3


def module_state(module: TensorizedAutoencoder) -> dict[str, Tensor]:
    """Parameters and buffers of a module, on the CPU."""
    state = {}
    for name, value in module.state_dict().items():
        if not isinstance(value, Tensor) or value.layout != torch.strided or value.is_quantized:
            raise ModelFileError(
                f"a file can hold only dense tensors, but {name} of the architecture is "
                f"{type(value).__name__}; make it a buffer, or exclude it from the state."
            )
        state[name] = value.detach().cpu()
    return state


def restored_module(
    path: str | os.PathLike[str],
    model: Any,
    tensors: Mapping[str, Tensor],
    sizes: Mapping[str, int],
) -> TensorizedAutoencoder:
    """Make the autoencoders of a TAE that is otherwise restored."""
    state, shape = part(tensors, "module"), model.input_shape_
    custom = not isinstance(model.architecture, str)
    k, sharing = sizes["k"], model.sharing
    if custom:
        module = _custom_module(path, model.architecture, k, shape, state, sharing)
    else:
        module = _built_in_module(model.architecture, k, shape, sizes["h"], state, sharing)
    # Only weights of custom networks may be NaN or infinite.
    for name, tensor in module.state_dict().items():
        if (name in BUFFERS or not custom) and not bool(torch.isfinite(tensor).all()):
            raise SchemaError(f"module.{name} contains NaN or infinity")
    if not bool((module.scale > 0).all() and (module.code_scales > 0).all()):
        raise SchemaError("the scales of the module must be above zero")
    if module.by_spread and not bool((module.spreads > 0).all()):
        raise SchemaError("module.spreads must be above zero")
    if not 0 <= float(module.latent_penalty) <= 1:
        raise SchemaError("module.latent_penalty must be between 0 and 1")
    if module.variational and not float(module.noise_variance) > 0:
        raise SchemaError("module.noise_variance must be above zero")
    if "sample_costs" in tensors:
        expected, costs = tensors["sample_costs"].double(), _costs_near_centers(module).double()
        squares = module.centers[0].numel() * float(module.scale) ** 2
        if costs.shape != expected.shape or not torch.allclose(
            costs, expected, rtol=TOLERANCE, atol=NEAR_ZERO * squares
        ):
            if custom:
                raise _other_architecture(path, "the weights fit, but the costs are different")
            raise SchemaError("its autoencoders do not compute what they did when it was saved")
    return module


def sample_costs(module: TensorizedAutoencoder) -> Tensor | None:
    """Costs (r, k) of points near the centers; None where they are random."""
    first, second = (_costs_near_centers(module) for _ in range(2))
    return first if torch.equal(first, second) else None


def _built_in_module(
    name: Any,
    k: int,
    input_shape: tuple[int, ...],
    latent_dim: int,
    state: dict[str, Tensor],
    sharing: Any,
) -> TensorizedAutoencoder:
    """Make k built-in autoencoders around the tensors of a file."""
    with torch.device("meta"):
        by_spread = "spreads" in state
        n_buffers = len(BUFFERS) - (name != "vae") - (not by_spread)
        for curved in (False, True):
            factory = built_in(name, input_shape, latent_dim, curved=curved)
            one = factory()
            common = len(shared_names([one], sharing))
            if len(state) == k * (len(one.state_dict()) - common) + common + n_buffers:
                break
        else:
            raise SchemaError(f"it does not hold the weights of {k} autoencoders")
        module = tensorize(factory, k, input_shape=input_shape, shared=sharing)
        if name == "vae":
            module.become_variational()
        if by_spread:
            module.compare_by_spread()
    for key, wanted in module.state_dict().items():
        if key not in state:
            raise SchemaError(f"module.{key} is missing")
        shape, kind = tuple(state[key].shape), state[key].dtype
        if shape != tuple(wanted.shape) or kind != wanted.dtype:
            raise SchemaError(
                f"module.{key} must have shape {tuple(wanted.shape)} and type {wanted.dtype}, got "
                f"{shape} and {kind}"
            )
    module.load_state_dict(state, assign=True)
    return module.eval()


def _custom_module(
    path: str | os.PathLike[str],
    factory: Callable[[], Any],
    k: int,
    input_shape: tuple[int, ...],
    state: dict[str, Tensor],
    sharing: Any,
) -> TensorizedAutoencoder:
    """Make k autoencoders by a user's function and give them the weights of a file."""
    # Initial weights are random and overwritten; the user's generator must not move.
    with FitRNG(0).activated():
        module = tensorize(factory, k, input_shape=input_shape, shared=sharing).to(torch.float32)
    try:
        module.load_state_dict(state)
    except RuntimeError as error:
        first = next((line.strip() for line in str(error).splitlines()[1:]), str(error))
        raise _other_architecture(path, first[:200].rstrip(". ")) from None
    return module.eval()


def _costs_near_centers(module: TensorizedAutoencoder) -> Tensor:
    centers = module.centers[:SAMPLES].flatten(1)
    # One unit to either side in every feature, without random numbers.
    steps = torch.arange(centers.shape[1], device=centers.device, dtype=centers.dtype).cos()
    module.eval()
    with torch.no_grad(), FitRNG(0).activated():
        return module.costs(centers + module.scale * steps).cpu()


def _other_architecture(path: str | os.PathLike[str], reason: str) -> InvalidParameterError:
    return InvalidParameterError(
        f"architecture must make the autoencoders that {os.fspath(path)!r} was saved with, got "
        f"others ({reason}); pass the function that the model was fitted with."
    )
