"""Rows of a Dask collection: passes run where its partitions are, and only sums travel.

A pass is one task for each partition and a tree that adds up what they return. The client has no
rows of its own: it sends the step, with the model, and gets the sums. A task that is lost with its
worker is computed again by Dask.

Shapes: n rows, d features, m rows of a partition, q wanted numbers.
"""

from __future__ import annotations

import copy
import functools
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tensorae._optional import import_optional
from tensorae._text import listed
from tensorae._torch import isolated_torch
from tensorae._warnings import collected_warnings
from tensorae.data.categories import CategoryEncoder
from tensorae.data.rows import Chunk, Rows, Sums, tensors_of
from tensorae.data.streamed import StreamedRows, as_integers
from tensorae.exceptions import InvalidInputError, InvalidParameterError

__all__ = ["DaskRows", "is_dask", "lazily"]

# Results that one task of the tree adds up.
FAN_IN = 8
# Thresholds for each wanted number in a round of the search for order statistics.
THRESHOLDS = 15


def is_dask(X: Any) -> bool:
    """Whether X is a Dask array or data frame."""
    return type(X).__module__.partition(".")[0] in ("dask", "dask_expr") and hasattr(X, "dask")


# Passes -----------------------------------------------------------------------------------------


class Block:
    """Rows of one partition, or none on the client, as a source of batches.

    Attributes
    ----------
    n_rows, n_features : int
    dtype : dtype
    """

    prefetch, allow_missing = 0, True

    def __init__(self, array: NDArray[Any]) -> None:
        self.array, self.dtype = array, array.dtype
        self.n_rows, self.n_features = array.shape

    def __iter__(self) -> Iterator[NDArray[Any]]:
        if len(self.array):
            yield self.array

    def fingerprint(self) -> str:
        """Nothing to tell."""
        return ""


class DaskRows(StreamedRows):
    """The rows of a Dask collection.

    On the client ``n`` is 0 and ``count`` the number of all rows; on a worker a copy has the rows
    of one partition.

    Parameters
    ----------
    X : dask Array or DataFrame of shape (n, p)
    categorical_features : "from_dtype", None or array-like
    unknown : {"warn", "error"}
        What to do about levels that are not among those of the encoder.

    Attributes
    ----------
    encoder : CategoryEncoder or None
    names : list of str or None
        Of the columns.
    """

    remote = True

    def __init__(self, X: Any, categorical_features: Any, device: torch.device) -> None:
        self.dask = import_optional("dask", extra="dask")
        self.names = [str(name) for name in X.columns] if hasattr(X, "columns") else None
        if getattr(X, "ndim", 0) != 2:
            raise InvalidInputError(
                f"X must have rows and columns, got {getattr(X, 'ndim', 0)} dimensions; reshape it."
            )
        self.n_columns = int(X.shape[1])
        frame = self.names is not None
        self.blocks = list(X.to_delayed() if frame else X.rechunk({1: -1}).to_delayed().ravel())
        places: list[int] = []
        ordered: dict[int, Any] = {}
        if frame:
            _refuse_objects(X._meta)
        if categorical_features is not None:
            places, ordered = CategoryEncoder.places_of(X._meta, categorical_features)
        describe = functools.partial(_described, names=self.names, places=places)
        found = self._gathered([self.dask.delayed(describe)(block) for block in self.blocks])
        counts = [sum(part.n_rows for part in found), self.n_columns]
        if not counts[0]:
            raise InvalidInputError("X must have rows, got empty partitions; check its source.")
        self.encoder: CategoryEncoder | None = None
        if places or ordered:
            merged = [_merged([part.levels[j] for part in found]) for j in range(len(places))]
            self.encoder = CategoryEncoder.of_counts(
                self.n_columns, places, merged, ordered, self.names
            )
        single = all(part.single for part in found if part.n_rows)
        source = Block(np.empty((0, self.n_columns), np.float32 if single else np.float64))
        levels = None if self.encoder is None or not places else self.encoder.layout
        super().__init__(source, Rows.processes, device, levels=levels)
        self.count = counts[0]
        self._set_weights(None)
        self.find_gaps()

    def __getstate__(self) -> dict[str, Any]:
        """What a worker has to know: the way from a partition to rows, but no partitions."""
        return {**self.__dict__, "blocks": None, "dask": None}

    def __copy__(self) -> DaskRows:
        rows = type(self).__new__(type(self))
        rows.__dict__.update(self.__dict__)
        return rows

    def local(self, block: Any) -> StreamedRows:
        """The rows of one partition, on its worker."""
        rows = copy.copy(self)
        array = as_numbers(block, self.names, self.encoder, self.source.dtype)
        rows.source, rows.n = Block(array), len(array)
        rows.count = rows.n
        rows.weights = rows._ones()
        return rows

    def reduce(self, step: Callable[[Sums, Chunk], None], zero: Sums) -> Sums:
        """Sums over the rows of all partitions; see :meth:`Rows.reduce`."""
        if self.blocks is None:  # on a worker
            return super().reduce(step, zero)
        found = self._total(self._on_each(functools.partial(_summed, step, zero), "pass"))
        for total, part in zip(tensors_of(zero), found, strict=True):
            total += part.to(total.device)
        return zero

    def _on_each(self, function: Callable[[DaskRows, Any], Any], name: str) -> list[Any]:
        """Results of ``function(rows, block)``, one for each partition, not computed yet.

        Dask's dashboard shows them as "tensorae_" and the name.
        """
        cloudpickle = import_optional("cloudpickle", extra="dask")
        call, run = self._shared(cloudpickle.dumps((function, self))), self.dask.delayed(_run)
        key = f"tensorae_{name}-{uuid.uuid4().hex}"
        return [
            run(call, block, dask_key_name=(key, place)) for place, block in enumerate(self.blocks)
        ]

    def _shared(self, value: Any) -> Any:
        """A value for all tasks, which each worker gets once."""
        return self.dask.delayed(value, traverse=False)

    def _total(self, parts: list[Any], join: Callable[..., Any] | None = None) -> list[Tensor]:
        """Lists of tensors, added up (or joined otherwise) in a tree."""
        add = self.dask.delayed(join or _added)
        while len(parts) > 1:
            key = f"tensorae_sum-{uuid.uuid4().hex}"
            groups = [parts[i : i + FAN_IN] for i in range(0, len(parts), FAN_IN)]
            parts = [add(group, dask_key_name=(key, i)) for i, group in enumerate(groups)]
        found: list[Tensor] = self.dask.compute(*parts)[0]
        return found

    def _gathered(self, parts: Sequence[Any]) -> list[Any]:
        return list(self.dask.compute(*parts))

    # What takes more than sums --------------------------------------------------------------------

    def collected(self, most: int) -> Rows:
        """All rows in the memory of the client, where they are no more than ``most``."""
        if self.count > most:
            return self
        return self._in_memory(torch.cat(self._gathered(self._on_each(_observed, "rows"))))

    def sample(self, direction: Tensor, size: int, offset: float) -> Rows:
        """``size`` rows of all partitions in the order of their values, each equally likely."""
        keys = self._on_each(functools.partial(_keys, self._order_weights(direction)), "order")
        keys = list(self.dask.persist(*keys))
        grid = torch.arange(size, dtype=torch.float64) + offset
        ranks = (grid * (self.count / size)).long().clamp(max=self.count - 1)
        wanted = self._order_statistics(keys, ranks)
        holds, shared = self.dask.delayed(_holds), self._shared(wanted)
        held = torch.stack(self._gathered([holds(part, shared) for part in keys]))
        # Equal numbers may be in several partitions: the first one gives its own.
        places = [(held.int().argmax(0) == j).nonzero().squeeze(1) for j in range(len(keys))]
        pick, rows = self.dask.delayed(_picked), self._on_each(_observed, "rows")
        used = [j for j, place in enumerate(places) if len(place)]
        found = self._gathered([pick(rows[j], keys[j], wanted[places[j]]) for j in used])
        x = torch.empty(size, self._width, dtype=self.dtype)
        for j, part in zip(used, found, strict=True):
            x[places[j]] = part
        weights = torch.full((size,), self.count / size, dtype=self.dtype)
        return self._in_memory(x.to(self.device), weights.to(self.device))

    def _order_statistics(self, keys: list[Any], ranks: Tensor) -> Tensor:
        """Keys (q,) at the ranks of all keys.

        Each lies between two bounds. A round asks how many keys do not exceed several thresholds
        between them, until there is one key between, or one number.
        """
        low = torch.full_like(ranks, torch.iinfo(torch.int64).min // 2)
        high = torch.full_like(ranks, torch.iinfo(torch.int64).max // 2)
        below, upto = torch.zeros_like(ranks), torch.full_like(ranks, self.count)
        count, steps = self.dask.delayed(_counted), torch.arange(1, THRESHOLDS + 1)[:, None]
        while len(still := ((low < high) & (upto - below > 1)).nonzero().squeeze(1)):
            bounds, last = low[still], high[still]
            width = (last - bounds) // (THRESHOLDS + 1)
            marks = bounds + steps * width.clamp(min=1) - (width == 0).long()
            marks = torch.minimum(marks, last)
            # Wanted keys that are not told apart yet ask the same.
            asked, places = marks.unique(return_inverse=True)
            shared = self._shared(asked)
            counts = self._total([count(part, shared) for part in keys])[0][places]
            enough = counts > ranks[still]
            for bound, new in ((high, marks), (upto, counts)):
                most = torch.iinfo(torch.int64).max
                bound[still] = torch.minimum(bound[still], new.masked_fill(~enough, most).amin(0))
            for bound, new in ((low, marks + 1), (below, counts)):
                least = torch.iinfo(torch.int64).min
                bound[still] = torch.maximum(bound[still], new.masked_fill(enough, least).amax(0))
        after, shared = self.dask.delayed(_next), self._shared(low)
        return self._total([after(part, shared) for part in keys], _smallest)[0]

    def most_expensive(self, costs: Tensor, floor: float) -> Tensor | None:  # noqa: ARG002
        """Nothing: no costs of single rows reach the client."""
        return None

    def fingerprint(self) -> str:
        """Tell these rows from others of other shape; ``checksum`` tells the rest."""
        return f"{(self.count, self.d, self.n_levels)} dask"

    def checksum(self) -> str:
        """Means to some digits, which do not depend on the partitions."""
        total, squares = self._means or self.means()
        return " ".join(f"{value:.9e}" for value in torch.cat([total, squares]).tolist())


# On a worker ------------------------------------------------------------------------------------


def _run(call: bytes, block: Any) -> Any:
    """Apply what a client sent to a partition."""
    cloudpickle = import_optional("cloudpickle", extra="dask")
    function, rows = cloudpickle.loads(call)
    with isolated_torch(), torch.inference_mode():
        return function(rows, block)


def _summed(step: Any, zero: Any, rows: DaskRows, block: Any) -> list[Tensor]:
    return list(tensors_of(rows.local(block).reduce(step, zero)))


def _added(parts: list[list[Tensor]]) -> list[Tensor]:
    """Sums of sums, in the order of the partitions."""
    total = [tensor.clone() for tensor in parts[0]]
    for part in parts[1:]:
        for tensor, other in zip(total, part, strict=True):
            tensor += other
    return total


def _observed(rows: DaskRows, block: Any) -> Tensor:
    chunks = [chunk.observed for chunk in rows.local(block).chunks()]
    return torch.cat(chunks) if chunks else torch.empty(0, rows._width, dtype=rows.dtype)


def _keys(weights: Tensor, rows: DaskRows, block: Any) -> tuple[Tensor, Tensor]:
    """Places of the rows in an order of their own, as integers: sorted, and which rows these are.

    They have half the range of integers, so that differences do not overflow.
    """
    keys = rows.local(block).map(lambda x: x.to(torch.float64) @ weights)
    found = (as_integers(keys) >> 1).sort(stable=True)
    return found.values, found.indices


def _counted(keys: tuple[Tensor, Tensor], marks: Tensor) -> list[Tensor]:
    """How many keys do not exceed each mark."""
    return [torch.searchsorted(keys[0], marks, right=True)]


def _next(keys: tuple[Tensor, Tensor], low: Tensor) -> list[Tensor]:
    """The smallest keys that are not below ``low``."""
    last = keys[0].new_full((1,), torch.iinfo(torch.int64).max)
    return [torch.cat([keys[0], last])[torch.searchsorted(keys[0], low)]]


def _smallest(parts: list[list[Tensor]]) -> list[Tensor]:
    return [torch.stack([part[0] for part in parts]).amin(0)]


def _holds(keys: tuple[Tensor, Tensor], wanted: Tensor) -> Tensor:
    return torch.isin(wanted, keys[0])


def _picked(rows: Tensor, keys: tuple[Tensor, Tensor], wanted: Tensor) -> Tensor:
    """Rows with the wanted keys, which are all here."""
    return rows[keys[1][torch.searchsorted(keys[0], wanted)]]


class _Description:
    """What the client has to know about a partition."""

    def __init__(self, n_rows: int, single: bool, levels: list[dict[Any, int]]) -> None:
        self.n_rows, self.single, self.levels = n_rows, single, levels


def _described(block: Any, names: list[str] | None, places: list[int]) -> _Description:
    """Check a partition, and count its rows and levels."""
    _check_columns(block, names)
    levels = [CategoryEncoder.level_counts(block, place) for place in places]
    others = [j for j in range(block.shape[1]) if j not in set(places)]
    if names is None:
        values = np.asarray(block)
        if values.dtype.kind not in "fiub":
            raise InvalidInputError(
                f"X must hold numbers, got a Dask array of {values.dtype}; convert it."
            )
        numbers, single = values[:, others], values.dtype == np.float32
    else:
        kinds = {str(block.dtypes.iloc[j]).lower() for j in others}
        single = kinds <= {"float32"} and bool(kinds)
        plain = block.iloc[:, others].select_dtypes("number")
        numbers = plain.to_numpy(np.float64, na_value=np.nan)
    if len(numbers) and np.isinf(numbers.astype(np.float64, copy=False)).any():
        raise InvalidInputError(
            "X must not contain infinite values, got some in a partition of the Dask collection; "
            "replace them by NaN for missing values."
        )
    return _Description(len(block), single, levels)


def _check_columns(block: Any, names: list[str] | None) -> None:
    found = None if names is None else [str(name) for name in block.columns]
    if names is not None and found != names:
        raise InvalidInputError(
            f"all partitions must have the columns {listed(names)}, got {listed(found or [])} in "
            "one; choose common columns."
        )


def _refuse_objects(meta: Any) -> None:
    columns = [str(name) for name, dtype in meta.dtypes.items() if str(dtype) == "object"]
    if columns:
        raise InvalidInputError(
            "columns of a Dask data frame must be numbers, text, categories or truth values, got "
            f"dtype object in {listed(columns)}; convert them, for example by "
            '.astype("string").'
        )


def _merged(counts: list[dict[Any, int]]) -> dict[Any, int]:
    total: dict[Any, int] = {}
    for part in counts:
        for level, n in part.items():
            total[level] = total.get(level, 0) + n
    return total


def as_numbers(
    block: Any, names: list[str] | None, encoder: CategoryEncoder | None, dtype: np.dtype[Any]
) -> NDArray[Any]:
    """A partition as an array (m, p) of numbers, with codes in place of categories."""
    _check_columns(block, names)
    if encoder is not None:
        block = encoder.transform(block)
    if names is None:
        return np.asarray(block, dtype=dtype)
    array: NDArray[Any] = block.to_numpy(dtype, na_value=np.nan)
    return np.ascontiguousarray(array)


# Results ----------------------------------------------------------------------------------------


def lazily(model: Any, name: str, X: Any, args: Any, kwargs: Any) -> Any:
    """Results of a method of a fitted model: each partition on its own, lazily."""
    dask = import_optional("dask", extra="dask")
    if kwargs.get("n_draws") is not None:
        raise InvalidParameterError(
            f"n_draws must be None for a Dask collection, got {kwargs['n_draws']}; draw for each "
            "partition, for example by map_partitions, with a random_state of its own."
        )
    frame = hasattr(X, "columns")
    example = X._meta_nonempty if frame else np.zeros((1, X.shape[1]), dtype=X.dtype)
    with collected_warnings():  # its levels are made up
        shown = getattr(model, name)(example, *args, **kwargs)
    model, empty = dask.delayed(model), shown[:0]
    if frame and hasattr(shown, "columns"):
        return X.map_partitions(_method_of, model, name, empty, args, kwargs, meta=empty)
    blocks = X.to_delayed() if frame else X.rechunk({1: -1}).to_delayed().ravel()
    call = dask.delayed(_method_of)
    parts = [call(block, model, name, empty, args, kwargs) for block in blocks]
    if hasattr(shown, "columns"):
        frames = import_optional("dask.dataframe", extra="dask")
        return frames.from_delayed(parts, meta=empty, verify_meta=False)
    sizes = [np.nan] * len(blocks) if frame else X.chunks[0]
    array = import_optional("dask.array", extra="dask")
    arrays = [
        array.from_delayed(part, (size, *shown.shape[1:]), dtype=shown.dtype)
        for part, size in zip(parts, sizes, strict=True)
    ]
    return array.concatenate(arrays, allow_unknown_chunksizes=True)


def _method_of(block: Any, model: Any, name: str, empty: Any, args: Any, kwargs: Any) -> Any:
    """The result for one partition."""
    if not len(block):
        return empty
    return getattr(model, name)(block, *args, **kwargs)
