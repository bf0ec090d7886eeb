"""``tensorae impute``: a table with its gaps filled, and all else as it was.

Shapes: n rows, d features.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tensorae.cli.inputs import ApplyInputs, ModelAndData, new_names
from tensorae.cli.options import FileOptions, with_options
from tensorae.exceptions import InvalidParameterError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["impute"]


@with_options
def impute(
    round_integers: Annotated[
        bool,
        typer.Option("--round-integers", help="Round what is filled in between whole numbers."),
    ] = False,
    std: Annotated[
        bool,
        typer.Option("--std", help="Add columns …_std: how uncertain each filled value is."),
    ] = False,
    *,
    output: FileOptions,
    options: ModelAndData,
) -> None:
    """Fill gaps by what the cluster of a row says, given what the row shows; the rest stays.

    All columns come along, and values that are there stay as they are written. Only columns of
    the model are filled, in their own units. Needs a linear-tae model.
    """
    options.check_output(output)
    inputs = options.read()
    if not hasattr(inputs.model, "impute"):
        raise InvalidParameterError(
            f"gaps can be filled by a LinearTAE, got a {type(inputs.model.estimator).__name__} in "
            f"{str(options.model_file)!r}; fit one with --model linear-tae."
        )
    filling = _filling(inputs, round_integers=round_integers, with_std=std)
    _note_what_stays(inputs)
    _write(inputs, output, filling)


# Fill -------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Filling:
    """What was filled in, for all n rows of the table.

    Attributes
    ----------
    names : tuple of str
        Of the d columns of the model.
    holes : ndarray of shape (n, d)
        Where something was filled in.
    values : ndarray of shape (n, d)
        In the units of the table.
    std : ndarray of shape (n, d) or None
        Standard deviation of what was filled in.
    whole : ndarray of shape (d,)
        Columns whose gaps get whole numbers.
    """

    names: tuple[str, ...]
    holes: NDArray[Any]
    values: NDArray[Any]
    std: NDArray[Any] | None
    whole: NDArray[Any]

    @property
    def counts(self) -> dict[str, int]:
        """How many values were filled in, for each column that had gaps."""
        pairs = zip(self.names, self.holes.sum(0).tolist(), strict=True)
        return {name: count for name, count in pairs if count}


def _filling(inputs: ApplyInputs, *, round_integers: bool, with_std: bool) -> Filling:
    import numpy as np

    rows = inputs.rows
    there = ~np.isnan(rows.values)
    values: NDArray[Any] = inputs.ask("impute").reshape(len(rows.X), -1)
    whole = np.zeros(values.shape[1], dtype=bool)
    if round_integers:
        whole = ((rows.values == np.round(rows.values)) | ~there).all(0) & there.any(0)
        values = np.where(whole & ~there, np.round(values), values)
    std = None
    if with_std:
        std = rows.filled(inputs.ask("impute_std"))
    holes = np.zeros((rows.table.n_rows, values.shape[1]), dtype=bool)
    holes[rows.numbers] = ~there
    names = inputs.preparation.columns
    if names is None:
        from tensorae.data import number_columns

        named = rows.table.samples is None
        names = number_columns(rows.table) if named else _plain_names(values)
    return Filling(tuple(names), holes, rows.filled(values), std, whole)


def _plain_names(values: NDArray[Any]) -> tuple[str, ...]:
    return tuple(f"x{j}" for j in range(values.shape[1]))


def _note_what_stays(inputs: ApplyInputs) -> None:
    """Name columns with gaps that the model knows nothing about."""
    from tensorae.data import count_missing, listed, shown

    counts = count_missing(inputs.rows.table, inputs.rows.unused)
    if counts:
        details = [f"{shown(name)} ({count})" for name, count in counts.items()]
        inputs.messages.note(
            f"gaps stay in columns that are none of the model's: {listed(details)}."
        )


# Write ------------------------------------------------------------------------------------------


def _write(inputs: ApplyInputs, output: FileOptions, filling: Filling) -> None:
    """Write the table where it should go, and say what was filled."""
    from tensorae.data import counted, output_format, write_array, write_csv, write_table

    path, messages, n = output.path, inputs.messages, inputs.rows.table.n_rows
    counts = filling.counts
    total = sum(counts.values())
    said = f"filled {counted(total, 'value')} in {counted(len(counts), 'column')}"
    facts = {"n_rows": n, "n_filled": total, "filled": counts}
    if path is None and messages.json:
        messages.give({**facts, "rows": _joined(inputs, output, filling).to_pylist()})
    elif path is None:
        write_csv(sys.stdout.buffer, _joined(inputs, output, filling), safe=output.safe)
        sys.stdout.buffer.flush()
        messages.note(f"{said}.")
    else:
        if output_format(path) == "npy":
            write_array(path, _as_array(inputs, filling))
        else:
            write_table(path, _joined(inputs, output, filling), safe=output.safe)
        messages.say(f"Wrote {output.output}: {counted(n, 'row')}, {said}.")
        messages.give({"output": output.output, **facts})


def _as_array(inputs: ApplyInputs, filling: Filling) -> NDArray[Any]:
    """All rows (n, ...) of an array, or the columns of the model, as .npy files hold them."""
    import numpy as np

    table = inputs.rows.table
    if filling.std is not None:
        raise InvalidParameterError(
            ".npy files have no place for the columns of --std; choose .csv or .parquet."
        )
    if table.samples is None:
        return filling.values
    original = table.samples
    filled = filling.values.reshape(original.shape).astype(original.dtype, copy=False)
    return np.where(filling.holes.reshape(original.shape), filled, original)


def _joined(inputs: ApplyInputs, output: FileOptions, filling: Filling) -> Any:
    """The table (pyarrow's) with its gaps filled, and the uncertainties behind it."""
    from tensorae.data import arrow

    table = inputs.rows.table
    if table.samples is not None:  # an array: its columns have no names but those made up here
        array = _as_array(inputs, Filling(**{**vars(filling), "std": None}))
        flat = array.reshape(table.n_rows, -1)
        frame = arrow().table({name: flat[:, j] for j, name in enumerate(filling.names)})
    else:
        text = output.is_text and not inputs.messages.json
        frame = table.as_written(table.columns) if text else table.frame
        for j, name in enumerate(filling.names):
            if filling.holes[:, j].any():
                place = frame.schema.names.index(name)
                # Numbers do not go between texts that are written in another way.
                written = table.frame if name in inputs.preparation.formats else frame
                column = _filled_column(table.frame[name], written[name], filling, j)
                frame = frame.set_column(place, name, column)
    new = _std_columns(filling)
    names = new_names(frame.schema.names, tuple(new), output, inputs.messages)
    # What pandas wrote down about types need not be true of columns that are filled.
    joined = arrow().table([*frame.columns, *new.values()], names=names)
    return joined.replace_schema_metadata(frame.schema.metadata if not new else None)


def _filled_column(column: Any, written: Any, filling: Filling, j: int) -> Any:
    """A column with its gaps filled: as text where it is written as text, else as numbers."""
    from tensorae.data import arrow

    pa, compute = arrow(), arrow("compute")
    types = pa.types
    holes, values = pa.array(filling.holes[:, j]), filling.values[:, j]
    kind = column.type.value_type if types.is_dictionary(column.type) else column.type
    truth, whole = types.is_boolean(kind), bool(filling.whole[j])
    if str(written.type) == "string" and str(kind) != "string" and (whole or not truth):
        target = pa.bool_() if truth else pa.int64() if whole else pa.float64()
        texts = pa.array(values).cast(target, safe=False).cast(pa.string())
        return compute.if_else(holes, texts, written)
    if types.is_decimal(kind):
        exact = [Decimal(f"{value:.{kind.scale}f}") for value in values.tolist()]
        filled = pa.array(exact, kind)
    else:
        # Between whole numbers there are others, unless they are rounded.
        stays = types.is_floating(kind) or ((truth or types.is_integer(kind)) and whole)
        kind = kind if stays else pa.float64()
        filled = pa.array(values).cast(kind, safe=False)
    return compute.if_else(holes, filled, column.cast(kind, safe=False))


def _std_columns(filling: Filling) -> Mapping[str, Any]:
    """How uncertain each filled value is; empty where nothing was filled."""
    from tensorae.data import arrow

    if filling.std is None:
        return {}
    return {
        f"{name}_std": arrow().array(filling.std[:, j], mask=~filling.holes[:, j])
        for j, name in enumerate(filling.names)
        if filling.holes[:, j].any()
    }
