"""``tensorae score``: how badly rows fit, by a model of clusters or one that finds outliers.

Shapes: n rows, m rows that are named.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tensorae.cli.apply import Result, read_inputs, write_result
from tensorae.cli.inputs import ApplyInputs, ApplyOptions
from tensorae.cli.options import OutputOptions, with_options

__all__ = ["detected", "score"]


@with_options
def score(
    top: Annotated[
        int | None, typer.Option("--top", min=1, help="Only this many rows, worst first.")
    ] = None,
    *,
    output: OutputOptions,
    options: ApplyOptions,
) -> None:
    """Score how badly each row fits its cluster: a high score is an anomaly.

    The score is minus the log-density of the row, on the scale of the model (a bound on it with
    --model vae). Other networks have no density: theirs is the smallest cost of the row. With a
    model that finds outliers (tensorae outliers --model), the columns are those of tensorae
    outliers.
    """
    inputs = read_inputs(options, output, detectors=True)
    if inputs.is_detector:
        write_result(inputs, output, detected(inputs, top))
        return
    labels, scores = inputs.ask("predict"), -inputs.ask("score_samples")
    columns = {"cluster": inputs.cluster_column(labels), "anomaly_score": scores}
    facts = {"mean_score": float(scores.mean()), "worst_score": float(scores.max())}
    worst = None
    if top is not None:
        worst = (-scores).argsort(kind="stable")[:top]
        columns = {"row": inputs.rows.numbers, **columns}
        columns = {name: values[worst] for name, values in columns.items()}
        scores = scores[worst]
    write_result(inputs, output, Result(columns, scores, facts, chosen=worst))


def detected(inputs: ApplyInputs, top: int | None) -> Result:
    """What a detector says about rows: all of them, or the oddest."""
    import numpy as np

    from tensorae.inspect import outliers as explained

    with inputs.messages.warnings_as_notes():
        found = explained(inputs.model, inputs.rows, n_rows=top)
    place = np.array([one.row for one in found], dtype=np.intp)
    order = np.argsort(place) if top is None else np.arange(len(place))
    odd = [found[int(number)] for number in order]
    columns: dict[str, Any] = {
        "outlier": np.array(["yes" if one.outlier else "no" for one in odd], dtype=object),
        "score": np.array([one.score for one in odd]),
        "probability": np.array([one.probability for one in odd]),
        "because": np.array([one.because for one in odd], dtype=object),
    }
    if top is not None:
        columns = {"row": inputs.rows.numbers[place], **columns}
    facts = {
        "n_outliers": int((inputs.ask("predict") < 0).sum()),
        "worst_score": float(columns["score"].max()),
    }
    return Result(columns, columns["score"], facts, chosen=None if top is None else place)
