"""Rows that are made anew on every pass: by a function, a torch Dataset or a DataLoader."""

from __future__ import annotations

import sys
import zlib
from abc import abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any

import numpy as np

from tensorae.data.parts import Array, ArrayBlock, ArrayPart, Block, Layout, Part, Selection
from tensorae.exceptions import InvalidInputError

__all__ = ["FunctionPart", "SamplesPart", "torch_parts"]

Arrays = Generator[tuple[int, Array], None, None]
# Passes are compared by rows at multiples of this, and at powers of two.
COMPARED_EVERY = 1 << 16
# Samples of a Dataset that are put together at once.
SAMPLES_AT_ONCE = 1024


class _GeneratedPart(Part):
    """Arrays (m, d) that have to be the same on every pass."""

    def __init__(self, name: str, count: int | None) -> None:
        self.name = name
        self._count = count
        self._layout: Layout | None = None
        self._checksums: dict[int, int] = {}

    @abstractmethod
    def _arrays(self, start: int, stop: int | None) -> Arrays:
        """Arrays that hold rows ``start`` to ``stop`` and maybe more, each with its first row."""

    def layout(self) -> Layout:
        """Columns of the first array."""
        if self._layout is None:
            arrays = self._arrays(0, 1)
            _, first = next(arrays, (0, None))
            arrays.close()
            if first is None:
                raise InvalidInputError("it gives no rows; check what it iterates over.")
            self._layout = Layout(None, (first.dtype.name,) * first.shape[1])
        return self._layout

    def count(self) -> int:
        """Rows; gone through once where nothing else tells."""
        if self._count is None:
            for _ in self._checked(0, None):
                pass
        assert self._count is not None
        return self._count

    def blocks(
        self, start: int, stop: int | None, columns: Selection, _rows: int
    ) -> Iterator[Block]:
        """The rows, checked to be those of the passes before."""
        for first, array in self._checked(start, stop):
            last = None if stop is None else max(stop - first, 0)
            kept = array[max(start - first, 0) : last]
            if len(kept):
                # Copied, since the source may overwrite them when it makes the next ones.
                yield ArrayBlock(kept, columns, lasting=False)

    def fingerprint(self) -> list[object]:
        """Rows, columns and the checksum of the first row."""
        for _ in self._checked(0, 1):
            pass
        types = self.layout().types
        return ["made", self.count(), len(types), types[0], self._checksums[0]]

    def _checked(self, start: int, stop: int | None) -> Iterator[tuple[int, Array]]:
        """Arrays that hold the rows ``start`` to ``stop``, compared with those of other passes."""
        width = len(self.layout().types)
        arrays = self._arrays(start, stop)
        end = start
        try:
            for first, array in arrays:
                if array.shape[1] != width:
                    raise InvalidInputError(
                        f"the array with row {first} has {array.shape[1]} columns, those before "
                        f"have {width}; give all of them the same number."
                    )
                end = first + len(array)
                self._compare(first, array)
                yield first, array
                if stop is not None and end >= stop:
                    return
        finally:
            arrays.close()
        expected = self._count if stop is None else stop
        if expected is not None and end != expected:
            raise _differs(f"it ended after {end} rows instead of {expected}")
        self._count = end

    def _compare(self, first: int, array: Array) -> None:
        if self._count is not None and first + len(array) > self._count:
            raise _differs(f"it gives more than {self._count} rows")
        for row in _compared_rows(first, first + len(array)):
            checksum = zlib.crc32(np.ascontiguousarray(array[row - first]).tobytes())
            if self._checksums.setdefault(row, checksum) != checksum:
                raise _differs(f"row {row} is not what it was")


class FunctionPart(_GeneratedPart):
    """What a function returns, called once for every pass: an iterator of arrays (m, d)."""

    def __init__(self, make: Callable[[], Any], name: str, count: int | None = None) -> None:
        super().__init__(name, count)
        self.make = make

    def _arrays(self, _start: int, _stop: int | None) -> Arrays:
        first = 0
        made = self.make()
        if not isinstance(made, Iterable):
            raise InvalidInputError(
                f"it must return an iterator of arrays, got {type(made).__name__}; "
                "write it with yield, say."
            )
        try:
            for item in made:
                array = _as_array(item, "an array that it gives")
                if len(array):
                    yield first, array
                first += len(array)
        finally:
            if hasattr(made, "close"):
                made.close()


class SamplesPart(_GeneratedPart):
    """A torch map-style Dataset: every sample can be asked for."""

    def __init__(self, dataset: Any, name: str = "the Dataset") -> None:
        super().__init__(name, len(dataset))
        self.dataset = dataset

    def _arrays(self, start: int, stop: int | None) -> Arrays:
        last = self.count() if stop is None else min(stop, self.count())
        for first in range(start, last, SAMPLES_AT_ONCE):
            indices = list(range(first, min(first + SAMPLES_AT_ONCE, last)))
            if hasattr(self.dataset, "__getitems__"):
                samples = self.dataset.__getitems__(indices)
            else:
                samples = [self.dataset[index] for index in indices]
            rows = [_to_numpy(_without_target(sample)).reshape(-1) for sample in samples]
            widths = {len(row) for row in rows}
            if len(widths) > 1:
                raise InvalidInputError(
                    f"samples {first} to {indices[-1]} have {min(widths)} to {max(widths)} "
                    "numbers; give all of them the same."
                )
            yield first, np.stack(rows)


def _as_array(item: Any, what: str) -> Array:
    """Array (m, d) of an array, tensor or (samples, targets) pair; other shapes become rows."""
    array = _to_numpy(_without_target(item))
    if array.ndim < 2:
        raise InvalidInputError(
            f"{what} must be 2-D (samples x features), got shape {array.shape}; "
            "one row is one sample."
        )
    return array.reshape(len(array), int(np.prod(array.shape[1:])))


def _without_target(item: Any) -> Any:
    is_pair = isinstance(item, tuple | list) and len(item) > 0 and hasattr(item[0], "shape")
    return item[0] if is_pair else item


def _to_numpy(item: Any) -> Array:
    if hasattr(item, "detach"):  # a torch tensor
        item = item.detach().cpu()
        # NumPy has no bfloat16.
        item = item.float() if "bfloat16" in str(item.dtype) else item
        return np.asarray(item.numpy())
    if isinstance(item, np.ma.MaskedArray):
        raise InvalidInputError("it gives a masked array, of missing values; fill or drop them.")
    try:
        return np.asarray(item)
    except ValueError as error:
        raise InvalidInputError(f"it gives what is no array ({error}).") from None


def _compared_rows(start: int, stop: int) -> list[int]:
    steps = range(-(-start // COMPARED_EVERY) * COMPARED_EVERY, stop, COMPARED_EVERY)
    powers = (1 << power for power in range(16))
    return [*steps, *(row for row in powers if start <= row < stop)]


def _differs(what: str) -> InvalidInputError:
    return InvalidInputError(
        f"two passes differ: {what}; every pass must give the same rows in the same order, "
        "without shuffling and without random changes."
    )


# torch's Datasets and loaders -------------------------------------------------------------------


def torch_parts(source: Any) -> list[Part]:
    """The part for a tensor, a Dataset or a DataLoader; none for all else."""
    torch = sys.modules.get("torch")
    if torch is None:  # then it is none of them
        return []
    data = torch.utils.data
    if isinstance(source, torch.Tensor):
        return [ArrayPart(_as_array(source, "the tensor"), "the tensor")]
    if isinstance(source, data.DataLoader):
        return [_loader_part(source, data)]
    if isinstance(source, data.TensorDataset):
        return [ArrayPart(_as_array(source.tensors[0], "its tensor"), "the TensorDataset")]
    if isinstance(source, data.IterableDataset):
        raise InvalidInputError(
            "an IterableDataset does not say how often it can be gone through; "
            "give a function that returns an iterator of arrays (m, d)."
        )
    return [SamplesPart(source)] if isinstance(source, data.Dataset) else []


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
