"""``tensorae predict``, ``transform``, ``denoise`` and ``score``.

Shapes: n rows, k clusters, h latent.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tensorae.cli.options import (
    DATA,
    MODEL_FILE,
    OutputOptions,
    ReadingOptions,
    VoiceOptions,
    with_options,
)
from tensorae.cli.voice import Voice
from tensorae.exceptions import InvalidParameterError

if TYPE_CHECKING:
    from tensorae.cli.results import Job

__all__ = ["denoise", "predict", "score", "transform"]


class FittedOn(StrEnum):
    """Whether the rows of the fit had the noise, too."""

    noisy = "noisy"
    clean = "clean"


@with_options
def predict(
    model_file: MODEL_FILE,
    data: DATA,
    proba: Annotated[
        bool, typer.Option("--proba", help="Add the probability of each cluster.")
    ] = False,
    *,
    output: OutputOptions,
    reading: ReadingOptions,
    voice: VoiceOptions,
) -> None:
    """Say which cluster each row belongs to."""
    from tensorae.cli.results import Result, check_output, give_result, start_job

    check_output(output.output, [model_file, *data])
    job = start_job(model_file, data, reading, Voice(voice))
    labels = _ask(job, "predict")
    columns: dict[str, Any] = {"cluster": job.cluster_column(labels)}
    array = labels
    if proba:
        array = _ask(job, "predict_proba")
        names = job.preparation.names or range(array.shape[1])
        columns |= {f"probability_{name}": array[:, place] for place, name in enumerate(names)}
    give_result(job, output, Result(columns, array), {"clusters": _sizes(job, labels)})


@with_options
def transform(
    model_file: MODEL_FILE,
    data: DATA,
    output: OutputOptions,
    reading: ReadingOptions,
    voice: VoiceOptions,
) -> None:
    """Embed each row by the autoencoder of its cluster.

    Codes of different clusters have different axes, so that the cluster stands beside the code.
    """
    from tensorae.cli.results import Result, check_output, give_result, start_job

    check_output(output.output, [model_file, *data])
    job = start_job(model_file, data, reading, Voice(voice))
    labels, codes = _ask(job, "predict"), _ask(job, "transform")
    columns = {"cluster": job.cluster_column(labels)}
    columns |= {f"code_{place + 1}": codes[:, place] for place in range(codes.shape[1])}
    give_result(job, output, Result(columns, codes), {"clusters": _sizes(job, labels)})


@with_options
def denoise(
    model_file: MODEL_FILE,
    data: DATA,
    noise: Annotated[
        str | None,
        typer.Option(
            "--noise",
            help="Standard deviation of the noise on the scale of the model, or auto (linear-tae).",
            show_default="auto",
        ),
    ] = None,
    fitted_on: Annotated[
        FittedOn, typer.Option("--fitted-on", help="Rows of the fit had this noise, or none.")
    ] = FittedOn.noisy,
    *,
    output: OutputOptions,
    reading: ReadingOptions,
    voice: VoiceOptions,
) -> None:
    """Take noise out of each row; columns keep their names and units.

    Images go to a .npy file, or to a folder: -o cleaned/
    """
    from tensorae.cli.results import Result, check_output, give_result, start_job

    check_output(output.output, [model_file, *data], folders=True)
    job = start_job(model_file, data, reading, Voice(voice))
    clean = _cleaned(job, noise, fitted_on)
    values = job.preparation.undo(clean)
    names = job.preparation.columns or [f"x{place}" for place in range(values.shape[1])]
    columns = {name: values[:, place] for place, name in enumerate(names)}
    shift = float(((clean - job.rows.X) ** 2).mean()) ** 0.5
    give_result(job, output, Result(columns, values, images=True), {"mean_change": shift})


@with_options
def score(
    model_file: MODEL_FILE,
    data: DATA,
    top: Annotated[
        int | None, typer.Option("--top", min=1, help="Only this many rows, worst first.")
    ] = None,
    *,
    output: OutputOptions,
    reading: ReadingOptions,
    voice: VoiceOptions,
) -> None:
    """Score how badly each row fits its cluster: a high score is an anomaly.

    The score is the cost of the row in its cluster, on the scale of the model.
    """
    import numpy as np

    from tensorae.cli.results import Result, check_output, give_result, start_job

    check_output(output.output, [model_file, *data])
    job = start_job(model_file, data, reading, Voice(voice))
    labels, scores = _ask(job, "predict"), -_ask(job, "score_samples")
    columns = {"cluster": job.cluster_column(labels), "anomaly_score": scores}
    summary = {"mean_score": float(scores.mean()), "worst_score": float(scores.max())}
    if top is None:
        give_result(job, output, Result(columns, scores), summary)
        return
    order = np.argsort(-scores, kind="stable")[:top]
    columns = {
        "row": job.rows.numbers[order],
        **{name: values[order] for name, values in columns.items()},
    }
    give_result(job, output, Result(columns, scores[order], rows=order), summary)


def _ask(job: Job, method: str, *arguments: Any, **options: Any) -> Any:
    with job.voice.listening():
        return getattr(job.model, method)(job.rows.X, *arguments, **options)


def _sizes(job: Job, labels: Any) -> list[dict[str, Any]]:
    import numpy as np

    counts = np.bincount(labels, minlength=len(job.model.cluster_centers_))
    names = job.preparation.names or [None] * len(counts)
    return [
        {"label": label, "name": name, "size": int(size)}
        for label, (name, size) in enumerate(zip(names, counts, strict=True))
    ]


def _cleaned(job: Job, noise: str | None, fitted_on: FittedOn) -> Any:
    """Ask the model for clean rows; a network knows its noise, a LinearTAE is told."""
    import numpy as np

    if hasattr(job.model, "module_"):
        if noise is not None or fitted_on is not FittedOn.noisy:
            raise typer.BadParameter(
                "a network takes out the noise that it was fitted for, see tensorae fit --noise.",
                param_hint="--noise",
            )
        try:
            return _ask(job, "denoise")
        except InvalidParameterError:
            raise InvalidParameterError(
                "the network was not trained to take out noise; fit it with --noise 0.1 (its "
                "standard deviation), for example."
            ) from None
    amount: float | str = noise or "auto"
    if amount != "auto":
        try:
            amount = float(amount)
        except ValueError:
            raise typer.BadParameter(
                f"must be a number or auto, got {noise!r}.", param_hint="--noise"
            ) from None
    clean = _ask(job, "denoise", amount, fitted_on=fitted_on.value)
    if amount == "auto" and np.array_equal(clean, job.rows.X):
        job.voice.note("no noise was found, so nothing changed; say how much there is by --noise.")
    return clean
