"""Commands on a fitted model and a table, all in one flow: check, read, compute, write.

A command is a function of the inputs that returns a ``Result``; ``applied`` gives it the options
that all of them share. Shapes: n rows of the table, m of them usable, d features.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tensorae.cli.info import size_entries
from tensorae.cli.messages import Messages
from tensorae.cli.options import (
    CATEGORIES,
    DATA,
    MODEL_FILE,
    SEED,
    ColumnOptions,
    FileOptions,
    Keep,
    OutputOptions,
    ReadingOptions,
    arguments_of,
    check_target,
    number_or_auto,
    parsed,
    with_options,
)
from tensorae.exceptions import InvalidInputError, InvalidParameterError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tensorae import TableModel
    from tensorae.data.preparation import Preparation, PreparedTable

FittedOn = StrEnum("FittedOn", ["noisy", "clean"])  # whether the rows of the fit had noise, too
TOP = Annotated[
    int | None,
    typer.Option("--top", min=1, help="Write only this many rows, highest score first."),
]


# The flow ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ModelAndData:
    """Which model to apply to which data."""

    model_file: MODEL_FILE
    data: DATA
    reading: ReadingOptions
    messages: Messages

    def read(self, output: FileOptions, *, gaps: bool = True) -> ApplyInputs:
        """Load the model, read the table and prepare it for the model."""
        from tensorae import TableModel, load
        from tensorae.data.preparation import Preparation
        from tensorae.data.table import read_table
        from tensorae.persist import read_header

        kind = read_header(self.model_file)["class"]
        if kind in ("Pipeline", "Scattering"):
            raise InvalidInputError(
                f"{str(self.model_file)!r} must hold a model of tables or images, got a {kind}; "
                "apply it in Python: tensorae.load."
            )
        model = load(self.model_file)
        if not isinstance(model, TableModel):  # saved from Python: columns keep their scale
            name = str(self.model_file)
            model = TableModel(model, Preparation.of_header(read_header(name), name))
        if model.preparation.foreign:
            self.messages.note(
                "the preprocessing stored in the model file was not written by this command "
                "line, so columns are used unchanged; tensorae info --json shows it."
            )
        table = read_table(self.data, self.reading.as_read_options())
        rows = model.prepare(table, drop_missing=True, gaps=gaps)
        for note in rows.notes:
            self.messages.note(note)
        return ApplyInputs(model, rows, output, self.messages)


@dataclass(frozen=True)
class ApplyOptions(ModelAndData):
    """The same, and what to do about missing values."""

    drop_missing: Annotated[
        bool, typer.Option("--drop-missing", help="Give no results for rows with missing values.")
    ] = False

    def read(self, output: FileOptions, *, gaps: bool = True) -> ApplyInputs:
        """Load the model, read the table and prepare it for the model."""
        return super().read(output, gaps=gaps and not self.drop_missing)


@dataclass(frozen=True, eq=False)
class ApplyInputs:
    """A fitted model, a table that is prepared for it, and where results go."""

    model: TableModel
    rows: PreparedTable
    output: FileOptions
    messages: Messages

    @property
    def preparation(self) -> Preparation:
        """Columns, scale and names of clusters."""
        return self.model.preparation

    @property
    def is_detector(self) -> bool:
        """Whether the model detects outliers."""
        return hasattr(self.model, "offset_")

    @property
    def as_text(self) -> bool:
        """Whether input columns are copied as they were written, such as 007."""
        return self.output.is_text and not self.messages.json

    @property
    def kept(self) -> tuple[str, ...]:
        """Input columns that are copied to the output, in their order."""
        from tensorae.data.columns import text_columns

        table, keep = self.rows.table, getattr(self.output, "keep", Keep.all)
        if keep is Keep.text:
            return text_columns(table)
        return {Keep.all: tuple(table.columns), Keep.unused: self.rows.unused, Keep.none: ()}[keep]

    def ask(self, method: str, *arguments: Any, **options: Any) -> NDArray[Any]:
        """Call a method of the model on the rows; the answer is in the units of the table."""
        with self.messages.warnings_as_notes():
            answer: NDArray[Any] = getattr(self.model, method)(self.rows, *arguments, **options)
        return answer

    def clusters(self) -> tuple[NDArray[Any], dict[str, Any], dict[str, Any]]:
        """Labels (m,); the column of clusters, by name if they have names; and their sizes."""
        import numpy as np

        labels, names = self.ask("predict"), self.preparation.names
        sizes = np.bincount(labels, minlength=len(self.model.cluster_centers_)).tolist()
        column = np.array(names, dtype=object)[labels] if names else labels
        return labels, {"cluster": column}, {"clusters": size_entries(sizes, self.preparation)}


@dataclass(frozen=True, eq=False)
class Result:
    """What a command computed, of the m rows or of those that are chosen."""

    columns: Mapping[str, NDArray[Any]]  # new columns
    array: NDArray[Any]  # the same for a .npy file, of m or of all n rows
    facts: dict[str, Any]  # for scripts
    summary: str = ""  # for people, besides the number of rows
    images: bool = False  # whether the array holds images, which can be written as such
    chosen: NDArray[np.intp] | None = None  # of the m rows, in this order; None for all
    table: Any = None  # what new columns are added to, instead of the columns of the input


def applied(
    output: type[FileOptions] = OutputOptions,
    options: type[ModelAndData] = ApplyOptions,
    *,
    folders: bool = False,
    detectors: bool = False,
) -> Callable[[Callable[..., Result]], Callable[..., None]]:
    """Make a command of a function of the inputs, with these options besides its own.

    Results may go to a folder of images, and the model may detect outliers, only where allowed.
    """

    def decorate(compute: Callable[..., Result]) -> Callable[..., None]:
        @functools.wraps(compute)
        def command(output: FileOptions, options: ModelAndData, **own: Any) -> None:
            output.check(options.data, options.reading, options.model_file, folders=folders)
            inputs = options.read(output)
            if inputs.is_detector and not detectors:
                raise InvalidParameterError(
                    f"{str(options.model_file)!r} must be a model with clusters, got one that "
                    "detects outliers; use tensorae score or tensorae report."
                )
            write_result(inputs, compute(inputs, **own))

        arguments = arguments_of(compute)
        del arguments["inputs"]
        for name, group in (("output", output), ("options", options)):
            arguments[name] = inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, annotation=group
            )
        return with_options(command, arguments)

    return decorate


def write_result(inputs: ApplyInputs, result: Result) -> None:
    """Write a result as a whole or not at all, and say what was written."""
    from tensorae._text import counted
    from tensorae.data.files import output_format
    from tensorae.data.writing import write_array, write_csv, write_table

    output, rows, messages = inputs.output, inputs.rows, inputs.messages
    path, n = output.path, rows.table.n_rows
    n_written = n if result.chosen is None else len(result.chosen)
    facts = {"n_rows": n_written, "n_left_out": n - len(rows.numbers), **result.facts}
    if path is None and messages.json:
        messages.give({**facts, "rows": _joined(inputs, result).to_pylist()})
    elif path is None:
        write_csv(sys.stdout.buffer, _joined(inputs, result), safe=output.safe)
        sys.stdout.buffer.flush()
        if result.summary:
            messages.note(f"{result.summary}.")
    else:
        if output.is_folder:
            _write_images(path, inputs, result)
        elif output_format(path) == "npy":
            whole = len(result.array) == n_written
            write_array(path, result.array if whole else rows.filled(result.array))
        else:
            write_table(path, _joined(inputs, result), safe=output.safe)
        done = [counted(n_written, "row"), *filter(None, [result.summary])]
        messages.say(f"Wrote {output.output}: {', '.join(done)}.")
        messages.give({"output": output.output, **facts})


def _write_images(folder: Path, inputs: ApplyInputs, result: Result) -> None:
    from tensorae.data.writing import write_images

    table = inputs.rows.table
    if not result.images or "file" not in table.columns:
        raise InvalidParameterError(
            f"only images can be written to a folder, got {str(folder)!r} for a table; name a "
            "file instead."
        )
    write_images(folder, table.frame["file"].to_pylist(), result.array)


def _joined(inputs: ApplyInputs, result: Result) -> Any:
    """Copied columns in their order, then the new ones: a pyarrow Table."""
    from tensorae.data.files import arrow
    from tensorae.data.writing import safe_text

    rows, output, copied = inputs.rows, inputs.output, result.table
    if copied is None:
        names = inputs.kept
        copied = rows.table.as_written(names) if inputs.as_text else rows.table.select(names)
        if result.chosen is not None and names:
            copied = copied.take(rows.numbers[result.chosen])
    as_column = rows.column if result.chosen is None else arrow().array
    new = {name: as_column(values) for name, values in result.columns.items()}
    # No two columns share a name: one of the input gives way to a new one.
    before, after = [*copied.schema.names, *new], []
    taken = set(before)
    for name in copied.schema.names:
        other = name
        while other in new or (other != name and other in taken):
            other = f"{other}_input"
        taken.add(other)
        after.append(other)
    after += new
    if output.safe and output.is_text:
        after = [safe_text(name) for name in after]
    changed = [f"{old} is {now}" for old, now in zip(before, after, strict=True) if old != now]
    if changed:
        inputs.messages.note(f"columns are renamed in the output: {', '.join(changed)}.")
    joined = arrow().table([*copied.columns, *new.values()], names=after)
    # An index that pandas noted must not become one again beside columns that it does not fit.
    return joined.replace_schema_metadata(None if new else copied.schema.metadata)


# Commands ---------------------------------------------------------------------------------------


@applied()
def predict(
    inputs: ApplyInputs,
    proba: Annotated[
        bool, typer.Option("--proba", help="Add the probability of each cluster.")
    ] = False,
) -> Result:
    """Predict the cluster of each row.

    Adds the column cluster, and probability_... for each cluster with --proba.
    """
    labels, columns, facts = inputs.clusters()
    if not proba:
        return Result(columns, labels, facts)
    array = inputs.ask("predict_proba")
    names = inputs.preparation.names or range(array.shape[1])
    columns |= {f"probability_{name}": array[:, j] for j, name in enumerate(names)}
    return Result(columns, array, facts)


@applied()
def transform(inputs: ApplyInputs) -> Result:
    """Embed each row by the autoencoder of its cluster.

    Adds the columns cluster, code_1, code_2 and so on. Codes of different clusters have different
    axes, so compare them within a cluster only.
    """
    _, columns, facts = inputs.clusters()
    codes = inputs.ask("transform")
    columns |= {f"code_{j + 1}": codes[:, j] for j in range(codes.shape[1])}
    return Result(columns, codes, facts)


@applied(folders=True)
def denoise(
    inputs: ApplyInputs,
    noise: Annotated[
        str | None,
        typer.Option(
            "--noise",
            help="Standard deviation of the noise on the scale of the model, or auto (linear-tae).",
            show_default="auto",
        ),
    ] = None,
    fitted_on: Annotated[
        FittedOn,
        typer.Option("--fitted-on", help="Whether the training rows had this noise or none."),
    ] = FittedOn.noisy,
) -> Result:
    """Remove noise from each row; columns keep their units.

    Adds clean columns named ..._denoised; they keep their own names if the originals are not
    copied (--keep). Images go to a .npy file, or to a folder: -o cleaned/
    """
    import numpy as np

    values = inputs.rows.values
    clean = _denoised(inputs, noise, fitted_on)
    names, copied = inputs.preparation.number_columns, set(inputs.kept)
    columns = {
        f"{name}_denoised" if name in copied else name: clean[:, j]
        for j, name in enumerate(names or [f"x{j}" for j in range(clean.shape[1])])
    }
    apply = inputs.preparation.scaling.apply
    change = (apply(clean) - apply(values))[~np.isnan(values)]
    shape = inputs.preparation.shape or inputs.rows.table.shape
    return Result(
        columns,
        clean if shape is None else clean.reshape(-1, *shape),
        {"mean_change": float((change**2).mean()) ** 0.5},
        images=shape is not None and len(shape) > 1,
    )


def _denoised(inputs: ApplyInputs, noise: str | None, fitted_on: FittedOn) -> NDArray[Any]:
    """Clean rows (m, d): a network knows its noise, a LinearTAE is told or estimates it."""
    values = inputs.rows.values
    if hasattr(inputs.model.estimator, "module_"):
        if noise is not None or fitted_on is not FittedOn.noisy:
            raise typer.BadParameter(
                "a network removes the noise that it was trained with; see tensorae fit --noise.",
                param_hint="--noise",
            )
        try:
            return inputs.ask("denoise").reshape(values.shape)
        except InvalidParameterError:
            raise InvalidParameterError(
                "the network was not trained to remove noise; fit it with --noise and the "
                "standard deviation of the noise, such as --noise 0.1."
            ) from None
    amount = number_or_auto(noise or "auto")
    clean = _numbers(inputs, inputs.ask("denoise", amount, fitted_on=fitted_on.value))
    # Missing values (NaN) are filled in any case.
    if amount == "auto" and ((clean == values) | (values != values)).all():
        inputs.messages.note("no noise was found and nothing changed; set the noise by --noise.")
    return clean


def _numbers(inputs: ApplyInputs, answer: Any) -> NDArray[Any]:
    """Numbers (m, d) of rows; those of a model with categories are a pyarrow Table."""
    import numpy as np

    if inputs.preparation.categories:
        columns = [answer[name].to_numpy() for name in inputs.preparation.number_columns or ()]
        answer = np.stack(columns, 1) if columns else np.empty(inputs.rows.values.shape)
    rows: NDArray[Any] = answer.reshape(inputs.rows.values.shape)
    return rows


@applied(FileOptions, ModelAndData)
def impute(
    inputs: ApplyInputs,
    round_integers: Annotated[
        bool, typer.Option("--round-integers", help="Round filled values in columns of integers.")
    ] = False,
    std: Annotated[
        bool,
        typer.Option("--std", help="Add columns ..._std: standard deviation of filled values."),
    ] = False,
) -> Result:
    """Fill missing values by what the cluster of a row and its other values predict.

    All columns are copied, and existing values stay as they are written. Only columns of the
    model are filled, numbers in their own units and categories by the most probable level. Needs a
    linear-tae model.
    """
    import numpy as np

    from tensorae._text import counted, listed, shown
    from tensorae.data.columns import count_missing, number_columns
    from tensorae.data.files import arrow

    rows, table, estimator = inputs.rows, inputs.rows.table, inputs.model.estimator
    if not hasattr(inputs.model, "impute"):
        raise InvalidParameterError(
            f"impute needs a LinearTAE, got a {type(estimator).__name__}; fit a model with "
            "--model linear-tae."
        )
    if std and inputs.output.path is not None and inputs.output.path.suffix == ".npy":
        raise InvalidParameterError(
            "a .npy file has no place for the columns of --std; choose .csv or .parquet."
        )
    missing: NDArray[Any] = np.isnan(rows.values)
    answer: Any = inputs.ask("impute")
    values = _numbers(inputs, answer)
    whole: NDArray[Any] = np.zeros(values.shape[1], dtype=bool)
    if round_integers:
        whole = ((rows.values == np.round(rows.values)) | missing).all(0) & ~missing.all(0)
        values = np.where(whole & missing, np.round(values), values)
    names: Sequence[str] = inputs.preparation.number_columns or ()
    spread = values
    if std:
        places = [rows.columns.index(name) for name in names] if rows.levels else slice(None)
        spread = inputs.ask("impute_std")[:, places]
    if not names and table.samples is None:
        names = number_columns(table)
    names = names or [f"x{j}" for j in range(values.shape[1])]
    counts = {
        name: count for name, count in zip(names, missing.sum(0).tolist(), strict=True) if count
    }
    filled_texts = {
        name: int(texts.null_count - answer[name].null_count)
        for name, texts in rows.levels.items()
        if texts.null_count
    }
    left = count_missing(table, rows.unused)
    if left:
        details = listed([f"{shown(name)} ({count})" for name, count in left.items()])
        inputs.messages.note(f"missing values remain in columns outside the model: {details}.")

    array = rows.filled(values)
    holes: NDArray[Any] = np.zeros(array.shape, dtype=bool)
    holes[rows.numbers] = missing
    if table.samples is None:
        frame = table.as_written(table.columns) if inputs.as_text else table.frame
        for j, name in enumerate(names):
            if name in counts:
                # Numbers do not go between texts that are written in another way.
                written = table.frame if name in inputs.preparation.formats else frame
                column = _filled_column(
                    table.frame[name], written[name], holes[:, j], array[:, j], whole=whole[j]
                )
                frame = frame.set_column(frame.schema.names.index(name), name, column)
        for name, count in filled_texts.items():
            if count:
                column = _filled_level(frame[name], rows.levels[name], answer[name], rows)
                frame = frame.set_column(frame.schema.names.index(name), name, column)
                counts[name] = count
    else:  # an array: its columns have no names of their own
        original = table.samples.reshape(holes.shape)
        flat = np.where(holes, array.astype(original.dtype, copy=False), original)
        frame = arrow().table({name: flat[:, j] for j, name in enumerate(names)})
        array = flat.reshape(table.samples.shape)
    return Result(
        {
            f"{name}_std": np.ma.array(spread[:, j], mask=~missing[:, j])
            for j, name in enumerate(names)
            if std and name in counts and name not in filled_texts
        },
        array,
        {"n_filled": sum(counts.values()), "filled": counts},
        f"filled {counted(sum(counts.values()), 'value')} in {counted(len(counts), 'column')}",
        table=frame,
    )


def _filled_level(written: Any, levels: Any, answer: Any, rows: PreparedTable) -> Any:
    """Fill a column (n,) of categories, in the type in which it is written."""
    import numpy as np

    from tensorae.data.files import arrow

    pa, compute, types = arrow(), arrow("compute"), arrow().types
    place = np.full(rows.table.n_rows, -1)
    place[rows.numbers] = np.arange(len(rows.numbers))
    where = pa.array(place, mask=place < 0)
    holes = compute.fill_null(levels.is_null().take(where), False)
    kind = written.type.value_type if types.is_dictionary(written.type) else written.type
    cells = answer.combine_chunks()
    cells = cells.cast(cells.type.value_type) if types.is_dictionary(cells.type) else cells
    return compute.if_else(holes, cells.take(where).cast(kind, safe=False), written.cast(kind))


def _filled_column(
    column: Any, written: Any, holes: NDArray[Any], values: NDArray[Any], *, whole: bool
) -> Any:
    """Fill a column (n,): as text if it is written as text, else as numbers of its type."""
    from tensorae.data.files import arrow

    pa, compute = arrow(), arrow("compute")
    types = pa.types
    kind = column.type.value_type if types.is_dictionary(column.type) else column.type
    truth = types.is_boolean(kind)
    if str(written.type) == "string" and str(kind) != "string" and (whole or not truth):
        target = pa.bool_() if truth else pa.int64() if whole else pa.float64()
        texts = pa.array(values).cast(target, safe=False).cast(pa.string())
        return compute.if_else(pa.array(holes), texts, written)
    if types.is_decimal(kind):
        filled = pa.array([Decimal(f"{value:.{kind.scale}f}") for value in values.tolist()], kind)
    else:
        # Filled values are fractions, unless they are rounded.
        stays = types.is_floating(kind) or ((truth or types.is_integer(kind)) and whole)
        kind = kind if stays else pa.float64()
        filled = pa.array(values).cast(kind, safe=False)
    return compute.if_else(pa.array(holes), filled, column.cast(kind, safe=False))


@applied(detectors=True)
def score(inputs: ApplyInputs, top: TOP = None) -> Result:
    """Score how badly each row fits its cluster: a high score means an anomaly.

    Adds the columns cluster and anomaly_score: minus the log-density of the row, on the scale of
    the model (a bound on it with --model vae; other networks have no density and give the
    smallest cost of the row). With a model of tensorae outliers, adds the columns of that command.
    """
    if inputs.is_detector:
        return _detected(inputs, top)
    _, columns, _ = inputs.clusters()
    scores = -inputs.ask("score_samples")
    columns["anomaly_score"] = scores
    facts = {"mean_score": float(scores.mean()), "worst_score": float(scores.max())}
    if top is None:
        return Result(columns, scores, facts)
    worst = (-scores).argsort(kind="stable")[:top]
    columns = {"row": inputs.rows.numbers, **columns}
    columns = {name: values[worst] for name, values in columns.items()}
    return Result(columns, scores[worst], facts, chosen=worst)


def _detected(inputs: ApplyInputs, top: int | None) -> Result:
    """What a detector says about all rows, or about those with the highest scores."""
    import numpy as np

    from tensorae.inspect import outliers as explained

    with inputs.messages.warnings_as_notes():
        found = explained(inputs.model, inputs.rows, n_rows=top)
    place = np.array([one.row for one in found], dtype=np.intp)
    order = np.argsort(place) if top is None else np.arange(len(place))
    listed = [found[int(number)] for number in order]
    columns: dict[str, Any] = {
        "outlier": np.array(["yes" if one.outlier else "no" for one in listed], dtype=object),
        "score": np.array([one.score for one in listed]),
        "probability": np.array([one.probability for one in listed]),
        "because": np.array([one.because for one in listed], dtype=object),
    }
    if top is not None:
        columns = {"row": inputs.rows.numbers[place], **columns}
    facts = {
        "n_outliers": int((inputs.ask("predict") < 0).sum()),
        "worst_score": float(columns["score"].max()),
    }
    return Result(columns, columns["score"], facts, chosen=None if top is None else place)


@with_options
def outliers(
    data: DATA,
    top: TOP = None,
    contamination: Annotated[
        Any,
        parsed(
            number_or_auto,
            "--contamination",
            help="Share of the rows that are outliers, or auto: calibrated on the data.",
        ),
    ] = "auto",
    seed: SEED = 0,
    model: Annotated[
        Path | None, typer.Option("--model", help="Model file to write, for tensorae score.")
    ] = None,
    page: Annotated[
        Path | None, typer.Option("--report", help="HTML file that explains the outliers.")
    ] = None,
    drop_missing: Annotated[
        bool, typer.Option("--drop-missing", help="Leave out rows with missing values.")
    ] = False,
    *,
    categories: CATEGORIES = "none",
    columns: ColumnOptions,
    output: OutputOptions,
    reading: ReadingOptions,
    messages: Messages,
) -> None:
    """Detect outliers in a table, and say why; no model file is needed.

    Adds the columns outlier (yes or no), score (high means unusual), probability (share of
    ordinary rows that are less unusual) and because (the unusual features, with what was expected).
    """
    from tensorae import OutlierTAE, TableModel
    from tensorae.data.preparation import Preparation
    from tensorae.data.selection import category_kinds
    from tensorae.data.table import read_table

    for name, path in (("--model", model), ("--report", page)):
        if path is not None:
            check_target(path, data, reading, option=name)
    output.check(data, reading)
    table = read_table(data, reading.as_read_options())
    spec = None if categories == "none" else categories
    chosen: dict[str, Any] = {"columns": columns.columns or (), "ignore": columns.ignore or ()}
    preparation, rows = Preparation.learn(
        table,
        1,
        **chosen,
        categories=category_kinds(table, spec, **chosen),
        scale="none",  # the detector scales columns itself
        drop_missing=drop_missing,
        gaps=True,
    )
    for note in rows.notes:
        messages.note(note)
    detector = OutlierTAE(contamination, random_state=seed)
    with messages.warnings_as_notes(), messages.progress("fitting"):
        detector.fit(rows.X)
    inputs = ApplyInputs(TableModel(detector, preparation), rows, output, messages)
    if model is not None:
        inputs.model.save(model)
    if page is not None:
        with messages.warnings_as_notes(), messages.progress("writing"):
            title = f"{Path(rows.table.name).name}: outliers"
            inputs.model.report(rows, page, title=title, n_outliers=top or 20)
    write_result(inputs, _detected(inputs, top))


@with_options
def report(
    output: Annotated[Path, typer.Option("--output", "-o", help="HTML file to write.")] = Path(
        "report.html"
    ),
    title: Annotated[str | None, typer.Option("--title", help="Title of the page.")] = None,
    max_points: Annotated[
        int, typer.Option("--max-points", min=1, help="Maximum number of points in the plot.")
    ] = 5000,
    *,
    options: ApplyOptions,
) -> None:
    """Write an HTML report on the clusters: cards, interactive plot, reversed trends, outliers."""
    check_target(output, options.data, options.reading, options.model_file)
    inputs, messages = options.read(FileOptions()), options.messages
    topic = "outliers"
    if not inputs.is_detector:
        topic = f"{len(inputs.model.cluster_centers_)} clusters"
    with messages.progress("writing"), messages.warnings_as_notes():
        page = inputs.model.report(
            inputs.rows,
            output,
            title=title or f"{Path(inputs.rows.table.name).name}: {topic}",
            max_points=max_points,
        )
    messages.say(f"Wrote {page}; open it in a browser.")
    messages.give({"output": str(page), "n_rows": len(inputs.rows.numbers)})
