"""Options that several commands share, as dataclasses; and how a command takes them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

if TYPE_CHECKING:
    from tensorae.data import ReadOptions

__all__ = [
    "DATA",
    "MODEL_FILE",
    "Format",
    "Keep",
    "OutputOptions",
    "ReadingOptions",
    "VoiceOptions",
    "with_options",
]

READING = "Reading"
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


class Format(StrEnum):
    """Kinds of files, as ``tensorae.data.FORMATS``."""

    csv = "csv"
    tsv = "tsv"
    parquet = "parquet"
    arrow = "arrow"
    npy = "npy"
    image = "image"


class Keep(StrEnum):
    """Which columns of the input come along."""

    unused = "unused"
    all = "all"
    none = "none"


@dataclass(frozen=True)
class ReadingOptions:
    """How to read the data."""

    drop_missing: Annotated[
        bool,
        typer.Option("--drop-missing", help="Leave out rows with gaps.", rich_help_panel=READING),
    ] = False
    na: Annotated[
        list[str] | None,
        typer.Option("--na", help="Text that means a gap, such as ?.", rich_help_panel=READING),
    ] = None
    format: Annotated[
        Format | None,
        typer.Option("--format", help="In place of the ending.", rich_help_panel=READING),
    ] = None
    delimiter: Annotated[
        str | None,
        typer.Option("--delimiter", help="Stands between values.", rich_help_panel=READING),
    ] = None
    decimal: Annotated[
        str, typer.Option("--decimal", help="Decimal point.", rich_help_panel=READING)
    ] = "."
    encoding: Annotated[
        str, typer.Option("--encoding", help="Of text files.", rich_help_panel=READING)
    ] = "utf-8"

    def as_flags(self) -> list[str]:
        """What was said on the command line, to be said again."""
        flags = ["--drop-missing"] if self.drop_missing else []
        flags += [flag for text in self.na or () for flag in ("--na", text)]
        for name in ("format", "delimiter", "decimal", "encoding"):
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
        )


@dataclass(frozen=True)
class VoiceOptions:
    """What to say."""

    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")] = False
    json: Annotated[bool, typer.Option("--json", help="One JSON object for scripts.")] = False


@dataclass(frozen=True)
class OutputOptions:
    """Where results go, and what goes with them."""

    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            help="File .csv, .tsv, .parquet, .arrow or .npy; CSV on standard output without it.",
        ),
    ] = None
    keep: Annotated[Keep, typer.Option("--keep", help="Columns of the input that come along.")] = (
        Keep.unused
    )


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command take dataclasses of options: each field becomes an option of its own.

    Parameters
    ----------
    command : callable
        Some of its arguments are annotated with a dataclass, whose fields are annotated for
        typer.

    Returns
    -------
    callable
        The same with the fields as arguments, as typer wants to see it.
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    parameters = []
    for name, parameter in inspect.signature(command).parameters.items():
        if name in groups:
            parameters += _parameters_of(groups[name])
        else:
            kind = inspect.Parameter.KEYWORD_ONLY
            parameters.append(parameter.replace(kind=kind, annotation=hints[name]))

    @functools.wraps(command)
    def run(**given: Any) -> None:
        for name, group in groups.items():
            own = {field.name: given.pop(field.name) for field in fields(group)}
            given[name] = group(**own)
        command(**given)

    del run.__dict__["__wrapped__"]  # typer must not look behind it
    run.__dict__["__signature__"] = inspect.Signature(parameters)
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _parameters_of(group: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=_default(field),
            annotation=hints[field.name],
        )
        for field in fields(group)
    ]


def _default(field: Field[Any]) -> Any:
    return inspect.Parameter.empty if field.default is MISSING else field.default
