"""What ``fit`` and ``info`` say about a model.

Shapes: k clusters.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tensorae.cli.voice import Voice

if TYPE_CHECKING:
    from tensorae.data import Preparation, PreparedTable
    from tensorae.explain import ClusterSummary, Description

__all__ = ["cluster_entries", "cluster_lines", "describe_fit"]

MOST_CLUSTERS = 12
N_FEATURES = 3


def describe_fit(
    voice: Voice,
    model: Any,
    rows: PreparedTable,
    preparation: Preparation,
    *,
    data: Sequence[str],
    flags: Sequence[str],
    output: Path,
) -> None:
    """Say what was found and how to go on."""
    from tensorae.data import counted
    from tensorae.explain import describe

    if voice.quiet and not voice.json:
        return
    with voice.listening():
        description = describe(
            model, rows.X, feature_names=preparation.columns, n_features=N_FEATURES, n_members=0
        )
    n, d = rows.X.shape
    scale = preparation.scaling.name
    width = counted(d, "number" if preparation.columns is None else "column")
    steps = counted(model.n_iter_, "iteration" if hasattr(model, "converged_") else "epoch")
    voice.say(
        f"{type(model).__name__}: {counted(len(description), 'cluster')}, {counted(n, 'row')} by "
        f"{width}{f', scaled by {scale}' if scale != 'none' else ''}; {steps}, "
        f"loss {model.loss_:.6g}",
        "",
        *cluster_lines(description, preparation),
    )
    table = shlex.join([*(data if "-" not in data else ["DATA"]), *flags])
    place = shlex.quote(str(output))
    voice.say(
        "",
        f"Wrote {output}. Go on with",
        f"  tensorae predict {place} {table} -o clusters.csv",
        f"  tensorae report {place} {table} -o report.html",
    )
    voice.give(
        {
            "model": str(output),
            "class": type(model).__name__,
            "n_rows": n,
            "n_features": d,
            "columns": preparation.columns,
            "scale": scale,
            "latent_penalty": model.latent_penalty_,
            "loss": model.loss_,
            "n_iter": model.n_iter_,
            "converged": getattr(model, "converged_", None),
            "clusters": cluster_entries(description, preparation),
        }
    )


def cluster_lines(description: Description, preparation: Preparation) -> list[str]:
    """A few lines for each cluster: how large, what sets it apart, along what it varies."""
    from tensorae.data import counted

    named = preparation.columns is not None
    lines = []
    for cluster in list(description)[:MOST_CLUSTERS]:
        lines.append(
            f"{_title(cluster, preparation)}: {counted(cluster.size, 'row')} "
            f"({100 * cluster.share:.1f} %), {100 * cluster.explained:.0f} % of its variance kept"
        )
        if named and cluster.defining:
            lines.append(f"  unlike the rest   {', '.join(map(str, cluster.defining))}")
        if named and cluster.components:
            loadings = ", ".join(map(str, cluster.components[0].loadings))
            lines.append(f"  varies most along {loadings}")
    rest = len(description) - MOST_CLUSTERS
    return [*lines, f"and {rest} more clusters"] if rest > 0 else lines


def cluster_entries(description: Description, preparation: Preparation) -> list[dict[str, Any]]:
    """The same for scripts, and more; centres are on the scale of the model."""
    entries = [cluster.to_dict() for cluster in description]
    for place, entry in enumerate(entries):
        entry["name"] = preparation.names[place] if preparation.names else None
        del entry["typical"], entry["worst"]  # rows are for the report
    return entries


def _title(cluster: ClusterSummary, preparation: Preparation) -> str:
    name = f" ({preparation.names[cluster.label]})" if preparation.names else ""
    return f"cluster {cluster.label}{name}"
