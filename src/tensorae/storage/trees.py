"""Nested dicts and lists with tensors in them <-> JSON and named tensors.

What JSON does not know is written as a dict with one entry:

    a tensor                      {"$tensor": its name, the path to it joined by dots}
    NaN and the infinities        {"$float": "nan"}
    a dict with other keys        {"$items": [[key, value], ...]}

The last are the whole numbers by which optimizers of PyTorch name their parameters. Tuples come
back as lists.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from torch import Tensor

__all__ = ["join_tree", "split_tree"]

MARK = "$"


def split_tree(tree: Any) -> tuple[Any, dict[str, Tensor]]:
    """Take the tensors out of a tree; what is left is JSON.

    Parameters
    ----------
    tree : dict, list, Tensor or value of JSON

    Returns
    -------
    object, dict of Tensor

    Examples
    --------
    >>> import torch
    >>> from tensorae.storage.trees import split_tree
    >>> values, tensors = split_tree({"step": 3, "means": {"a": torch.zeros(2)}})
    >>> values
    {'step': 3, 'means': {'a': {'$tensor': 'means.a'}}}
    >>> tensors
    {'means.a': tensor([0., 0.])}
    """
    tensors: dict[str, Tensor] = {}
    return _split(tree, "", tensors), tensors


def join_tree(values: Any, tensors: Mapping[str, Tensor]) -> Any:
    """Put the tensors back into the tree that ``split_tree`` took them from.

    Raises
    ------
    KeyError, TypeError, ValueError
        The values are not what ``split_tree`` gives.
    """
    if isinstance(values, list):
        return [join_tree(value, tensors) for value in values]
    if not isinstance(values, dict):
        return values
    if "$tensor" in values:
        return tensors[values["$tensor"]]
    if "$float" in values:
        return float(values["$float"])
    if "$items" in values:
        return {key: join_tree(value, tensors) for key, value in values["$items"]}
    return {key: join_tree(value, tensors) for key, value in values.items()}


def _split(tree: Any, path: str, tensors: dict[str, Tensor]) -> Any:
    if isinstance(tree, Tensor):
        while path in tensors:  # keys may have dots of their own, so that two paths read the same
            path += "'"
        tensors[path] = tree
        return {"$tensor": path}
    if isinstance(tree, Mapping):
        entries = {key: _split(value, _below(path, key), tensors) for key, value in tree.items()}
        plain = all(isinstance(key, str) and not key.startswith(MARK) for key in entries)
        return entries if plain else {"$items": [list(entry) for entry in entries.items()]}
    if isinstance(tree, list | tuple):
        return [_split(value, _below(path, i), tensors) for i, value in enumerate(tree)]
    if isinstance(tree, float) and not math.isfinite(tree):
        return {"$float": str(float(tree))}
    if tree is None or isinstance(tree, bool | int | float | str):
        return tree
    raise TypeError(f"{path} must be a tensor or a value of JSON, got {type(tree).__name__}")


def _below(path: str, key: Any) -> str:
    return f"{path}.{key}" if path else str(key)
