"""Layers that all autoencoders have in common: which they are, and how they become one.

An autoencoder says by ``shared_parts()`` which of its parts can serve all clusters, as a rule the
first layers of the encoder and the last ones of the decoder. What is shared are the tensors of
those parts: the k autoencoders hold the very same ones, so gradients of all clusters add up in
them, and each cluster keeps a bottleneck of its own.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Self

from torch import Tensor, nn

from tensorae.exceptions import InvalidParameterError, unknown_choice

__all__ = ["SHARINGS", "TiedAutoencoders", "shared_names"]

SHARINGS = ("none", "layers")


class TiedAutoencoders(nn.Module):
    """Autoencoders that hold the same tensors where they share layers, and keep doing so.

    A state has shared tensors once, under the first autoencoder.

    Parameters
    ----------
    autoencoders : list of Module
    shared : {"none", "layers"}, iterable of str or None
        As in ``shared_names``.
    """

    def __init__(
        self, autoencoders: list[nn.Module], shared: str | Iterable[str] | None = None
    ) -> None:
        super().__init__()
        self.shared = tuple(shared_names(autoencoders, shared))
        self.autoencoders = nn.ModuleList(autoencoders)
        self._tie()

    @property
    def n_clusters(self) -> int:
        """Number of autoencoders, k."""
        return len(self.autoencoders)

    def own_parameters(self, j: int) -> list[nn.Parameter]:
        """Parameters of autoencoder j that no other has."""
        one = self.autoencoders[j]
        common = {id(_table(one, name)[_leaf(name)]) for name in self.shared}
        return [p for p in one.parameters() if id(p) not in common]

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """Return parameters and buffers, shared ones once."""
        state = super().state_dict(*args, **kwargs)
        for _, copy in self._copies_of_shared(kwargs.get("prefix", "")):
            state.pop(copy, None)
        return state

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """Take over a state; shared tensors stay shared, also with ``assign=True``."""
        result = super().load_state_dict(*args, **kwargs)
        self._tie()
        return result

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        for first, copy in self._copies_of_shared(prefix):
            if first in state_dict:
                state_dict[copy] = state_dict[first]
        super()._load_from_state_dict(state_dict, prefix, *args)

    def _apply(self, *args: Any, **kwargs: Any) -> Self:
        # On another device, or in another precision, buffers are new ones.
        super()._apply(*args, **kwargs)  # type: ignore[no-untyped-call]
        self._tie()
        return self

    def _tie(self) -> None:
        """Give all autoencoders the shared tensors of the first one."""
        for name in self.shared:
            tensor = _table(self.autoencoders[0], name)[_leaf(name)]
            for other in self.autoencoders[1:]:
                _table(other, name)[_leaf(name)] = tensor

    def _copies_of_shared(self, prefix: str) -> Iterator[tuple[str, str]]:
        """Yield names of shared tensors in a state: in the first autoencoder, in another."""
        for j in range(1, self.n_clusters):
            for name in self.shared:
                yield f"{prefix}autoencoders.0.{name}", f"{prefix}autoencoders.{j}.{name}"


def shared_names(
    autoencoders: Sequence[nn.Module], shared: str | Iterable[str] | None
) -> list[str]:
    """Names of the tensors that autoencoders are to have in common.

    Parameters
    ----------
    autoencoders : sequence of Module
        Of one structure.
    shared : {"none", "layers"}, iterable of str or None
        "layers" asks the autoencoders themselves (``shared_parts``); else names of submodules,
        parameters or buffers, as ``named_modules`` and ``named_parameters`` give them.

    Returns
    -------
    list of str
        Of parameters and buffers; a tensor that has several names is there by all of them.

    Examples
    --------
    >>> from torch import nn
    >>> from tensorae.deep.sharing import shared_names
    >>> shared_names([nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))], ["0"])
    ['0.weight', '0.bias']
    """
    if shared is None or shared == "none":
        return []
    first = autoencoders[0]
    if isinstance(shared, str):
        if shared not in SHARINGS:
            raise unknown_choice("shared", shared, SHARINGS)
        parts = _parts_that_it_names(first)
    else:
        parts = list(shared)
    chosen = {id(tensor) for part in parts for tensor in _tensors_of(first, part)}
    names = [name for name, tensor in _named_tensors(first) if id(tensor) in chosen]
    if not any(id(p) not in chosen for p in first.parameters() if p.requires_grad):
        raise InvalidParameterError(
            f"shared names all that {_kind(first)} trains, so that its clusters would be the same "
            "network; leave each a part of its own, such as the layers next to the code."
        )
    _check_same_structure(autoencoders, names)
    return names


def _parts_that_it_names(autoencoder: nn.Module) -> list[str]:
    says: Any = getattr(autoencoder, "shared_parts", None)
    if not callable(says):
        raise InvalidParameterError(
            f'sharing="layers" needs an architecture that says which of its layers can serve all '
            f"clusters, got {_kind(autoencoder)} without shared_parts(); add that method, such as "
            'def shared_parts(self): return ["encoder.0", "decoder.2"], or leave sharing out.'
        )
    parts = says()
    if isinstance(parts, str) or not isinstance(parts, Iterable):
        raise InvalidParameterError(
            f"shared_parts() of {_kind(autoencoder)} must return names of its parts, such as "
            f'["encoder.0", "decoder.2"], got {parts!r:.60}; return a list of text.'
        )
    parts = list(parts)
    if not parts:
        raise InvalidParameterError(
            f'sharing="layers" needs layers that can serve all clusters, and {_kind(autoencoder)} '
            "has none around its code; choose another architecture, or leave sharing out."
        )
    return parts


def _tensors_of(autoencoder: nn.Module, part: Any) -> list[Tensor]:
    """Tensors of a submodule, or the one that is named itself."""
    modules = dict(autoencoder.named_modules(remove_duplicate=False))
    tensors = dict(_named_tensors(autoencoder))
    if part in tensors:
        return [tensors[part]]
    found = [tensor for _, tensor in _named_tensors(modules[part])] if part in modules else []
    if not part or not found:
        known = [name for name in (*modules, *tensors) if name]
        close = difflib.get_close_matches(str(part), known, n=1)
        remedy = f"did you mean {close[0]!r}?" if close else f"its parts are {', '.join(known)}."
        raise InvalidParameterError(
            f"shared must name parts of {_kind(autoencoder)} that have weights, got {part!r}; "
            f"{remedy}"
        )
    return found


def _check_same_structure(autoencoders: Sequence[nn.Module], names: Iterable[str]) -> None:
    tables = [dict(_named_tensors(one)) for one in autoencoders]
    for name in names:
        shapes = {tuple(table[name].shape) if name in table else None for table in tables}
        if len(shapes) > 1:
            raise InvalidParameterError(
                "architecture must make autoencoders of one structure to share layers, but "
                f"{name!r} is not the same size in all; make the same layers at each call."
            )


def _named_tensors(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    yield from module.named_parameters(remove_duplicate=False)
    yield from module.named_buffers(remove_duplicate=False)


def _table(module: nn.Module, name: str) -> dict[str, Any]:
    """Where the owner of a named tensor keeps it."""
    owner = module.get_submodule(name.rpartition(".")[0])
    return owner._parameters if _leaf(name) in owner._parameters else owner._buffers


def _leaf(name: str) -> str:
    return name.rpartition(".")[2]


def _kind(autoencoder: nn.Module) -> str:
    inner = getattr(autoencoder, "module", autoencoder)
    return f"a {type(inner).__name__.lstrip('_')}"
