"""CSV and TSV -> a table, or one sentence that says what is wrong and where."""

from __future__ import annotations

import codecs
from typing import Any

from tensorae.exceptions import InvalidInputError, InvalidParameterError
from tensorae.tables.formats import ReadOptions
from tensorae.tables.sources import Source, arrow

__all__ = ["MISSING", "read_delimited"]

HEAD = 1 << 16
BLOCK = 1 << 26
# What stands for a missing number, as in pandas.
MISSING = (
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN",
    "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null",
)  # fmt: skip
UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
OTHER_DELIMITERS = ";\t|"


def read_delimited(source: Source, options: ReadOptions) -> Any:
    """Read a table with a header line.

    Parameters
    ----------
    source : Source
    options : ReadOptions

    Returns
    -------
    pyarrow.Table
    """
    utf8 = _is_utf8(options.encoding)
    try:
        with source.open() as stream:
            head: bytes = stream.read(HEAD)
    except OSError as error:
        raise _unreadable(source, error) from None
    _check_head(source, head, utf8=utf8)
    delimiter = options.delimiter or _delimiter(source, head.decode(options.encoding, "replace"))
    table = _read(source, options, delimiter)
    if utf8:
        _check_utf8(source, table)
    if not table.num_rows:
        raise InvalidInputError(f"{source.name!r} has a header and no rows; give it some.")
    return table


def _is_utf8(encoding: str) -> bool:
    try:
        return codecs.lookup(encoding).name == "utf-8"
    except LookupError:
        raise InvalidParameterError(
            f"encoding must be a known one, got {encoding!r}; latin-1 and utf-16 are usual."
        ) from None


def _check_head(source: Source, head: bytes, *, utf8: bool) -> None:
    if not head.strip():
        raise InvalidInputError(f"{source.name!r} is empty; give a table with a header line.")
    if utf8 and head.startswith(UTF_16):
        raise InvalidInputError(f"{source.name!r} is UTF-16 text; add --encoding utf-16.")
    if utf8 and b"\0" in head:
        raise InvalidInputError(
            f"{source.name!r} is no text but binary data; check the file, or say with --format "
            "what it is."
        )


def _delimiter(source: Source, head: str) -> str:
    """The usual one, unless the header line has another one only."""
    if source.format == "tsv":
        return "\t"
    header = head.lstrip().partition("\n")[0]
    others = [mark for mark in OTHER_DELIMITERS if mark in header]
    return others[0] if others and "," not in header else ","


def _read(source: Source, options: ReadOptions, delimiter: str) -> Any:
    pa, csv = arrow(), arrow("csv")
    settings = {
        "parse_options": csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        "convert_options": csv.ConvertOptions(
            null_values=[*MISSING, *options.missing],  # in columns of numbers; text stays as it is
            decimal_point=options.decimal,
        ),
    }
    reading = {"encoding": options.encoding, "block_size": BLOCK}
    try:
        with source.open() as stream:
            return csv.read_csv(stream, read_options=csv.ReadOptions(**reading), **settings)
    except UnicodeError:
        raise InvalidInputError(
            f"{source.name!r} is no {options.encoding} text; try another --encoding."
        ) from None
    except (pa.ArrowException, OSError, EOFError, ValueError) as error:
        raise _explain(source, reading, settings, delimiter, error) from None


def _explain(
    source: Source,
    reading: dict[str, Any],
    settings: dict[str, Any],
    delimiter: str,
    error: Exception,
) -> InvalidInputError:
    """Read once more, row by row, to find the rows that are too long or too short."""
    csv = arrow("csv")
    wrong: list[Any] = []

    def note(row: Any) -> str:
        wrong.append(row)
        return "skip"

    settings["parse_options"].invalid_row_handler = note
    try:
        with source.open() as stream:
            options = csv.ReadOptions(**reading, use_threads=False)
            csv.read_csv(stream, read_options=options, **settings)
    except Exception:  # what matters is in ``error`` already
        wrong = []
    if not wrong:
        return _unreadable(source, error)
    first, more = wrong[0], len(wrong) - 1
    others = f", and so it goes in {more} more line{'s' * (more > 1)}" if more else ""
    return InvalidInputError(
        f"line {first.number} of {source.name!r} has {first.actual_columns} values, but the header "
        f"has {first.expected_columns}{others}; mend the file, or say with --delimiter what "
        f"stands between values if it is not {delimiter!r}."
    )


def _unreadable(source: Source, error: Exception) -> InvalidInputError:
    reason = " ".join(str(error).split())[:150].rstrip(".")
    return InvalidInputError(
        f"{source.name!r} cannot be read as text in columns ({reason}); check the file."
    )


def _check_utf8(source: Source, table: Any) -> None:
    pa = arrow()
    try:
        names = table.column_names
        broken = [name for name in names if pa.types.is_binary(table.schema.field(name).type)]
    except UnicodeDecodeError:
        broken = ["the header"]
    except KeyError:  # two columns of one name; that is for others to say
        return
    if broken:
        raise InvalidInputError(
            f"{source.name!r} is not UTF-8 text (see {broken[0]}); add its encoding, "
            "--encoding latin-1 as a rule."
        )
