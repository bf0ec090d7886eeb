"""Options that several commands share, as dataclasses; and how a command takes them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from tensorae.cli.messages import refuse_closed_output

if TYPE_CHECKING:
    from tensorae.data.files import ReadOptions

in_columns = functools.partial(typer.Option, rich_help_panel="Columns")
in_reading = functools.partial(typer.Option, rich_help_panel="Reading")

Format = StrEnum(  # data.FORMATS
    "Format", ["csv", "tsv", "parquet", "arrow", "jsonl", "excel", "npy", "image"]
)
Scale = StrEnum("Scale", ["auto", "none", "standard", "max", "log"])  # data.SCALES
# Input columns that are copied to the output; "unused" are those that the model does not use.
Keep = StrEnum("Keep", ["all", "text", "unused", "none"])


# Parsers: typer names the option where they refuse a value ----------------------------------------


def number_or_auto(text: str) -> float | str:
    """Read a number or "auto"."""
    if text == "auto":
        return text
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"must be a number or auto, got {text!r}.") from None


def image_shape(text: str) -> tuple[int, ...]:
    """Read the shape of an image, such as 28x28 or 3x32x32."""
    parts = text.lower().split("x")
    if len(parts) not in (2, 3) or not all(part.isdecimal() and int(part) for part in parts):
        raise typer.BadParameter(f"must have the form 28x28, got {text!r}.")
    return tuple(int(part) for part in parts)


def image_size(text: str) -> tuple[int, ...]:
    """Read width and height, such as 28x28."""
    size = image_shape(text)
    if len(size) != 2:
        raise typer.BadParameter(f"must be width x height, such as 28x28, got {text!r}.")
    return size


def parsed(
    parser: Callable[[str], Any], *flags: str, metavar: str = "<str>", **settings: Any
) -> Any:
    """Make an option that is read by a parser; a field with it is annotated with Any."""
    return typer.Option(*flags, parser=parser, metavar=metavar, **settings)


def categories(text: str) -> Any:
    """Read names of columns, auto or none."""
    return text if text in ("auto", "none") else [text]


# Options ----------------------------------------------------------------------------------------

DATA = Annotated[
    list[str],
    typer.Argument(
        metavar="DATA",
        help="CSV, TSV, Parquet, Arrow or .npy files, folders of these or of images, or - for "
        "standard input.",
        show_default=False,
    ),
]
MODEL_FILE = Annotated[
    Path,
    typer.Argument(metavar="MODEL", help="Model file written by fit.", show_default=False),
]
SEED = Annotated[
    int, typer.Option("--seed", min=0, help="Random seed; the same seed gives the same model.")
]
SCALE = Annotated[
    Scale,
    in_columns(
        "--scale",
        help="How to scale columns; auto: standardise if their units differ, with logarithms of "
        "skewed columns.",
    ),
]


CATEGORIES = Annotated[
    Any,
    parsed(
        categories,
        "--categories",
        metavar="a,b|auto|none",
        help="Columns to fit as categories: names, auto (text with few levels, truth values), or "
        "none.",
        rich_help_panel="Columns",
    ),
]


@dataclass(frozen=True)
class ReadingOptions:
    """How to read the data."""

    na: Annotated[
        list[str] | None, in_reading("--na", help="Text that means a missing value, such as ?.")
    ] = None
    format: Annotated[
        Format | None, in_reading("--format", help="Format, if the file extension does not tell.")
    ] = None
    delimiter: Annotated[
        str | None, in_reading("--delimiter", help="Character between values.")
    ] = None
    decimal: Annotated[str, in_reading("--decimal", help="Decimal point.")] = "."
    thousands: Annotated[
        str | None, in_reading("--thousands", help="Thousands separator, as in 1,000.")
    ] = None
    encoding: Annotated[str, in_reading("--encoding", help="Encoding of text files.")] = "utf-8"
    no_header: Annotated[
        bool,
        in_reading("--no-header", help="The first line is data; columns are named x0, x1, …"),
    ] = False
    sheet: Annotated[
        str | None, in_reading("--sheet", help="Sheet of an Excel file; the first by default.")
    ] = None
    resize: Annotated[
        Any,
        parsed(
            image_size,
            "--resize",
            help="Resize images to width x height, such as 28x28.",
            rich_help_panel="Reading",
        ),
    ] = None

    def as_flags(self) -> list[str]:
        """The same options as they were given on the command line."""
        flags = ["--no-header"] if self.no_header else []
        flags += [flag for text in self.na or () for flag in ("--na", text)]
        for name in ("format", "delimiter", "decimal", "thousands", "encoding", "sheet"):
            value = getattr(self, name)
            if value != getattr(ReadingOptions, name):
                flags += [f"--{name}", str(value)]
        return (
            flags if self.resize is None else [*flags, "--resize", "x".join(map(str, self.resize))]
        )

    def as_read_options(self) -> ReadOptions:
        """The same options as ``tensorae.data`` takes them."""
        from tensorae.data.files import ReadOptions

        missing = tuple(text for entry in self.na or () for text in (entry, *entry.split(",")))
        return ReadOptions(
            format=None if self.format is None else self.format.value,
            delimiter="\t" if self.delimiter in ("\\t", "tab") else self.delimiter,
            decimal=self.decimal,
            encoding=self.encoding,
            missing=missing,
            header=not self.no_header,
            thousands=self.thousands,
            resize=self.resize,
            sheet=self.sheet,
        )


@dataclass(frozen=True)
class ColumnOptions:
    """Which columns to use."""

    columns: Annotated[
        list[str] | None, in_columns("--columns", help="Use only these columns: a,b,c.")
    ] = None
    ignore: Annotated[
        list[str] | None, in_columns("--ignore", help="Use all columns but these: id,name.")
    ] = None

    def __post_init__(self) -> None:
        if self.columns and self.ignore:
            raise typer.BadParameter(
                "give --columns or --ignore, not both.", param_hint="--columns"
            )


@dataclass(frozen=True)
class FileOptions:
    """Where results go."""

    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            help="File to write: .csv, .tsv, .parquet, .arrow or .npy; without it, CSV goes to "
            "standard output.",
        ),
    ] = None
    safe: Annotated[
        bool,
        typer.Option(
            "--safe-text/--raw-text",
            help="In CSV, put ' before text that a spreadsheet would run as a formula.",
        ),
    ] = True

    @property
    def path(self) -> Path | None:
        """File or folder to write; None for standard output."""
        return None if self.output in (None, "-") else Path(str(self.output))

    @property
    def is_text(self) -> bool:
        """Whether CSV or TSV is written."""
        from tensorae.data.files import format_of

        return self.path is None or format_of(self.path) in ("csv", "tsv")

    @property
    def is_folder(self) -> bool:
        """Whether a folder is named."""
        return self.path is not None and (str(self.output).endswith("/") or self.path.is_dir())

    def check(
        self, data: Sequence[str], reading: ReadingOptions, *others: Path, folders: bool = False
    ) -> None:
        """Refuse, before any work, what cannot or must not be written."""
        from tensorae.data.files import output_format

        if self.path is None:
            refuse_closed_output()
            return
        folder = folders and self.is_folder
        check_target(self.path, data, reading, *others, folder=folder)
        if not folder:
            output_format(self.path)


@dataclass(frozen=True)
class OutputOptions(FileOptions):
    """Where results go, and which input columns are copied."""

    keep: Annotated[Keep, typer.Option("--keep", help="Input columns to copy to the output.")] = (
        Keep.all
    )


def check_target(
    target: Path,
    data: Sequence[str],
    reading: ReadingOptions,
    *others: Path,
    option: str = "--output",
    folder: bool = False,
) -> None:
    """Refuse, before any work, to write to a place that is read or that is not writable.

    A folder gets one image for each image that is read.
    """
    from tensorae._files import check_writable, find_same
    from tensorae.data.files import find_files
    from tensorae.data.writing import image_paths

    named = [entry for entry in data if entry != "-"]
    files = find_files(named, reading.as_read_options())
    inputs = [*others, *map(Path, named), *(file.path for file in files if file.path is not None)]
    written = image_paths(target, [file.label for file in files]) if folder else []
    same = find_same([target, *written], inputs)
    if same is not None:
        raise typer.BadParameter(
            f"must not replace an input file, got {str(same)!r}; choose another name.",
            param_hint=option,
        )
    if not folder:
        check_writable(target)


# How a command takes them -----------------------------------------------------------------------


def with_options(
    command: Callable[..., None], arguments: Mapping[str, inspect.Parameter] | None = None
) -> Callable[..., None]:
    """Let a command take dataclasses of options: each field becomes an option of its own.

    Fields are annotated for typer, or with dataclasses in turn. The arguments are those of the
    command, unless they are given.
    """
    arguments = arguments or arguments_of(command)
    parameters = _flat(arguments)

    @functools.wraps(command)
    def run(**given: Any) -> None:
        command(**_grouped(arguments, given))

    del run.__dict__["__wrapped__"]  # typer must not look behind it
    run.__dict__["__signature__"] = inspect.Signature(parameters)
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def arguments_of(function: Any) -> dict[str, inspect.Parameter]:
    """Keyword arguments of a function or a dataclass, with their annotations evaluated."""
    hints = get_type_hints(function, include_extras=True)
    return {
        name: parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[name])
        for name, parameter in inspect.signature(function).parameters.items()
    }


def _flat(arguments: Mapping[str, inspect.Parameter]) -> list[inspect.Parameter]:
    """Arguments, with each dataclass replaced by its fields."""
    found = []
    for argument in arguments.values():
        group = argument.annotation
        found += _flat(arguments_of(group)) if is_dataclass(group) else [argument]
    return found


def _grouped(
    arguments: Mapping[str, inspect.Parameter], given: Mapping[str, Any]
) -> dict[str, Any]:
    """Values of arguments, with each dataclass made from the values of its fields."""
    values = {}
    for name, argument in arguments.items():
        group: Any = argument.annotation
        if isinstance(group, type) and is_dataclass(group):
            values[name] = group(**_grouped(arguments_of(group), given))
        else:
            values[name] = given[name]
    return values
