"""Options that belong together, as dataclasses; and how a command takes them.

Shapes: d features.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

if TYPE_CHECKING:
    from tensorae.data import ReadOptions

__all__ = [
    "DATA",
    "MODEL_FILE",
    "ColumnOptions",
    "FileOptions",
    "Keep",
    "OutputOptions",
    "ReadingOptions",
    "StreamOptions",
    "in_columns",
    "number_or_auto",
    "parsed_shape",
    "refuse_replacing",
    "with_options",
]

DATA = Annotated[
    list[str],
    typer.Argument(
        metavar="DATA",
        help="CSV, TSV, Parquet, Arrow or .npy files, folders of them or of images, or - for "
        "standard input.",
        show_default=False,
    ),
]
MODEL_FILE = Annotated[
    Path, typer.Argument(metavar="MODEL", help="File written by fit.", show_default=False)
]
in_columns = functools.partial(typer.Option, rich_help_panel="Columns")
in_reading = functools.partial(typer.Option, rich_help_panel="Reading")
in_large_data = functools.partial(typer.Option, rich_help_panel="Large data")


Format = StrEnum("Format", ["csv", "tsv", "parquet", "arrow", "npy", "image"])  # data.FORMATS
Scale = StrEnum("Scale", ["auto", "none", "standard", "max"])  # data.SCALES
# Which columns of the input come along; the unused ones are those that the model does not take.
Keep = StrEnum("Keep", ["all", "text", "unused", "none"])


# What to read and what to write -----------------------------------------------------------------


@dataclass(frozen=True)
class ReadingOptions:
    """How to read the data."""

    na: Annotated[
        list[str] | None, in_reading("--na", help="Text that means a gap, such as ?.")
    ] = None
    format: Annotated[Format | None, in_reading("--format", help="In place of the ending.")] = None
    delimiter: Annotated[str | None, in_reading("--delimiter", help="Stands between values.")] = (
        None
    )
    decimal: Annotated[str, in_reading("--decimal", help="Decimal point.")] = "."
    thousands: Annotated[
        str | None, in_reading("--thousands", help="Stands between thousands, as in 1,000.")
    ] = None
    encoding: Annotated[str, in_reading("--encoding", help="Of text files.")] = "utf-8"
    no_header: Annotated[
        bool, in_reading("--no-header", help="The first line of text is a row: names are x0, x1 …")
    ] = False
    resize: Annotated[
        str | None, in_reading("--resize", help="Bring images to width x height, as in 28x28.")
    ] = None

    def __post_init__(self) -> None:
        self.as_read_options()  # before any work

    def as_flags(self) -> list[str]:
        """What was said on the command line, to be said again."""
        flags = ["--no-header"] if self.no_header else []
        flags += [flag for text in self.na or () for flag in ("--na", text)]
        for name in ("format", "delimiter", "decimal", "thousands", "encoding", "resize"):
            value = getattr(self, name)
            if value != getattr(ReadingOptions, name):
                flags += [f"--{name}", str(value)]
        return flags

    def as_read_options(self) -> ReadOptions:
        """The same as ``tensorae.data`` takes it."""
        from tensorae.data import ReadOptions

        missing = tuple(text for entry in self.na or () for text in (entry, *entry.split(",")))
        return ReadOptions(
            format=None if self.format is None else self.format.value,
            delimiter="\t" if self.delimiter in ("\\t", "tab") else self.delimiter,
            decimal=self.decimal,
            encoding=self.encoding,
            missing=missing,
            header=not self.no_header,
            thousands=self.thousands,
            resize=_parsed_size(self.resize),
        )


@dataclass(frozen=True)
class FileOptions:
    """Where results go."""

    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            help="File .csv, .tsv, .parquet, .arrow or .npy; CSV on standard output without it.",
        ),
    ] = None
    safe: Annotated[
        bool,
        typer.Option(
            "--safe-text/--raw-text",
            help="In CSV, put ' before text that a spreadsheet would take for a formula.",
        ),
    ] = True

    @property
    def path(self) -> Path | None:
        """File or folder to write; None for standard output."""
        return None if self.output in (None, "-") else Path(str(self.output))

    @property
    def is_text(self) -> bool:
        """Whether it is CSV, as spreadsheets read it."""
        from tensorae.data import format_of

        return self.path is None or format_of(self.path) in ("csv", "tsv")

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder, or to become one."""
        return self.path is not None and (str(self.output).endswith("/") or self.path.is_dir())


@dataclass(frozen=True)
class OutputOptions(FileOptions):
    """Where results go, and what goes with them."""

    keep: Annotated[Keep, typer.Option("--keep", help="Columns of the input that come along.")] = (
        Keep.all
    )


def refuse_replacing(
    output: Path,
    data: Sequence[str],
    reading: ReadingOptions,
    *others: Path,
    option: str = "--output",
    folder: bool = False,
) -> None:
    """Refuse to write over what is read: files that are named, in folders or behind patterns.

    A folder is one that gets an image for each image that is read.
    """
    from tensorae._files import find_same
    from tensorae.data import find_files, image_paths

    named = [entry for entry in data if entry != "-"]
    files = find_files(named, reading.as_read_options())
    inputs = [*others, *map(Path, named), *(file.path for file in files if file.path is not None)]
    written = image_paths(output, [file.label for file in files]) if folder else []
    same = find_same([output, *written], inputs)
    if same is not None:
        raise typer.BadParameter(
            f"it must not replace what is read, got {str(same)!r}; give another name.",
            param_hint=option,
        )


# What to fit ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ColumnOptions:
    """What to take from the table."""

    drop_missing: Annotated[
        bool,
        in_columns(
            "--drop-missing",
            help="Leave out rows with gaps; linear-tae can do with them, networks cannot.",
        ),
    ] = False
    columns: Annotated[list[str] | None, in_columns("--columns", help="Fit just these: a,b,c.")] = (
        None
    )
    ignore: Annotated[
        list[str] | None, in_columns("--ignore", help="Fit all but these: id,name.")
    ] = None
    labels: Annotated[
        str | None, in_columns("--labels", help="Column of the few known labels, else empty.")
    ] = None
    scale: Annotated[
        Scale,
        in_columns("--scale", help="Bring columns to one scale; auto: where their units differ."),
    ] = Scale.auto

    def __post_init__(self) -> None:
        if self.columns and self.ignore:
            raise typer.BadParameter(
                "give --columns or --ignore, not both.", param_hint="--columns"
            )


@dataclass(frozen=True)
class StreamOptions:
    """How to go about data that does not fit in memory."""

    stream: Annotated[
        bool,
        in_large_data(
            "--stream", help="Read pass by pass, not into memory; always so under torchrun."
        ),
    ] = False
    checkpoint: Annotated[
        Path | None,
        in_large_data(
            "--checkpoint", help="File to keep the state in; the same command goes on from it."
        ),
    ] = None
    checkpoint_every: Annotated[
        float, in_large_data("--checkpoint-every", min=0, help="Seconds between writes.")
    ] = 60.0


def number_or_auto(text: str, option: str) -> float | str:
    """Read what stands behind an option that takes a number or "auto"."""
    if text == "auto":
        return text
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(
            f"must be a number or auto, got {text!r}.", param_hint=option
        ) from None


def parsed_shape(
    text: str | None, option: str = "--shape", lengths: Sequence[int] = (2, 3)
) -> tuple[int, ...] | None:
    """Read what stands behind an option that takes sizes, such as 28x28."""
    if text is None:
        return None
    parts = text.lower().split("x")
    if len(parts) not in lengths or not all(part.isdecimal() and int(part) for part in parts):
        raise typer.BadParameter(f"must be like 28x28, got {text!r}.", param_hint=option)
    return tuple(int(part) for part in parts)


def _parsed_size(text: str | None) -> tuple[int, int] | None:
    size = parsed_shape(text, "--resize", (2,))
    return None if size is None else (size[0], size[1])


# How a command takes them -----------------------------------------------------------------------


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command take dataclasses of options: each field becomes an option of its own.

    Fields are annotated for typer, or with dataclasses in turn.
    """
    parameters = _flat(command)

    @functools.wraps(command)
    def run(**given: Any) -> None:
        _call(command, given)

    del run.__dict__["__wrapped__"]  # typer must not look behind it
    run.__dict__["__signature__"] = inspect.Signature(parameters)
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _arguments(function: Any) -> dict[str, inspect.Parameter]:
    """Arguments of a function or a dataclass, by keyword; annotations are no longer text."""
    hints = get_type_hints(function, include_extras=True)
    return {
        name: parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[name])
        for name, parameter in inspect.signature(function).parameters.items()
    }


def _flat(function: Any) -> list[inspect.Parameter]:
    """Arguments of a function, with the fields of a dataclass in its place."""
    found = []
    for argument in _arguments(function).values():
        group = argument.annotation
        found += _flat(group) if is_dataclass(group) else [argument]
    return found


def _call(function: Any, given: Mapping[str, Any]) -> Any:
    """Call a function whose dataclasses are given by their fields."""
    arguments = {}
    for name, argument in _arguments(function).items():
        group = argument.annotation
        arguments[name] = _call(group, given) if is_dataclass(group) else given[name]
    return function(**arguments)
