"""torch's Datasets and DataLoaders -> parts; a loader that shuffles is refused."""

from __future__ import annotations

import sys
from typing import Any

from tensorae.batches.parts import ArrayPart, Part
from tensorae.batches.streams import FunctionPart, SamplesPart, as_array
from tensorae.exceptions import InvalidInputError

__all__ = ["torch_part"]


def torch_part(source: Any) -> Part | None:
    """The part for a tensor, a Dataset or a DataLoader; None for all else."""
    torch = sys.modules.get("torch")
    if torch is None:  # then it is none of them
        return None
    data = torch.utils.data
    if isinstance(source, torch.Tensor):
        return ArrayPart(as_array(source, "the tensor"), "the tensor")
    if isinstance(source, data.DataLoader):
        return _loader_part(source, data)
    if isinstance(source, data.TensorDataset):
        return ArrayPart(as_array(source.tensors[0], "its tensor"), "the TensorDataset")
    if isinstance(source, data.IterableDataset):
        raise InvalidInputError(
            "an IterableDataset does not say how often it can be gone through; "
            "give a function that returns an iterator of arrays (m, d)."
        )
    return SamplesPart(source) if isinstance(source, data.Dataset) else None


def _loader_part(loader: Any, data: Any) -> Part:
    samplers = [loader.sampler, getattr(loader.batch_sampler, "sampler", None)]
    for sampler in samplers:
        if _shuffles(sampler, data):
            raise InvalidInputError(
                f"the DataLoader must not shuffle, but it has a {type(sampler).__name__}, so that "
                "no two passes see the rows in one order; make it with shuffle=False. Solvers "
                "shuffle by themselves where they need it."
            )
    return FunctionPart(lambda: loader, "the DataLoader", _loader_count(loader, data))


def _shuffles(sampler: Any, data: Any) -> bool:
    random = (data.RandomSampler, data.SubsetRandomSampler, data.WeightedRandomSampler)
    return isinstance(sampler, random) or bool(getattr(sampler, "shuffle", False))


def _loader_count(loader: Any, data: Any) -> int | None:
    """Rows, where the loader takes one after the other; None means that they must be counted."""
    plain = type(loader.sampler) is data.SequentialSampler
    if not plain or type(loader.batch_sampler) is not data.BatchSampler:
        return None
    n = len(loader.sampler)
    return n - n % loader.batch_size if loader.drop_last else n
