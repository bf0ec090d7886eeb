"""``tensorae info``: what a model file says about itself; and how clusters are described.

Shapes: k clusters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tensorae.cli.messages import Messages
from tensorae.cli.options import MODEL_FILE, with_options

if TYPE_CHECKING:
    from tensorae.data import Preparation
    from tensorae.inspect import ClusterSummary, Description

__all__ = [
    "N_FEATURES",
    "cluster_entries",
    "cluster_lines",
    "clusters_without_rows",
    "info",
    "size_entries",
]

WIDTH = 14
MOST_CLUSTERS, MOST_COLUMNS = 12, 20
N_FEATURES = 3


@with_options
def info(model_file: MODEL_FILE, messages: Messages) -> None:
    """Show what is in a model file."""
    from tensorae import load
    from tensorae.data import Preparation
    from tensorae.persist import read_header

    header = read_header(model_file)
    preparation = Preparation.of_header(header, str(model_file))
    for name, value in _facts(header, preparation).items():
        messages.say(f"{name:<{WIDTH}}{value}")
    linear = header["class"] == "LinearTAE"
    model = load(model_file) if linear else None
    sizes = None if linear else header["training"]["cluster_sizes"]
    lines, entries = clusters_without_rows(model, sizes, preparation)
    messages.say("", *lines)
    messages.give({**header, "clusters": entries})


def _facts(header: dict[str, Any], preparation: Preparation) -> dict[str, str]:
    from tensorae.data import listed

    training, versions = header["training"], header["versions"]
    parameters = ", ".join(f"{name}={value!r}" for name, value in header["parameters"].items())
    columns = preparation.columns
    facts = {
        "model": header["class"],
        "fitted on": f"{training['n_samples']} rows by {training['n_features']} columns",
        "columns": "no names" if columns is None else listed(columns, MOST_COLUMNS),
        "scale": preparation.scaling.name,
        **_settings(training),
        "loss": f"{training['loss']:.6g}" if training.get("loss") is not None else "unknown",
        "parameters": parameters,
        "created": f"{header['created']} by tensorae {versions.get('tensorae', '?')}",
        "file format": f"version {header['format_version']}",
    }
    reason = header["details"].get("reason")
    if isinstance(reason, str):
        facts["settings"] = reason
    if preparation.shape is not None:
        facts["images"] = " x ".join(map(str, preparation.shape))
    if preparation.labels is not None:
        facts["labels from"] = preparation.labels
    return facts


def _settings(training: dict[str, Any]) -> dict[str, str]:
    """Spread and latent dimensions that were used; files of 0.1.0 do not tell."""
    if training.get("spread") is None:
        return {}
    names = {"own": "own: each cluster has its own", "shared": "shared by all clusters"}
    dims = sorted(set(training.get("latent_dims", [])))
    span = str(dims[0]) if len(dims) == 1 else f"{', '.join(map(str, training['latent_dims']))}"
    return {"spread": names.get(training["spread"], training["spread"]), "latent dims": span}


def clusters_without_rows(
    model: Any, sizes: Sequence[int] | None, preparation: Preparation
) -> tuple[list[str], list[dict[str, Any]]]:
    """Lines for people and facts for scripts, by what a model knows itself, and sizes."""
    from tensorae.inspect import describe

    if not hasattr(
        getattr(model, "estimator", model), "components_"
    ):  # a network needs samples to say more
        entries, total = size_entries(sizes or (), preparation), max(sum(sizes or ()), 1)
        lines = [
            f"{_title(entry['label'], preparation)}: {entry['size']} rows "
            f"({100 * entry['size'] / total:.1f} %)"
            for entry in entries
        ]
        return lines, entries
    found = describe(model, n_features=N_FEATURES)
    if sizes is not None:  # where several processes have the rows, a model has the labels of one
        pairs = zip(found, sizes, strict=True)
        clusters = tuple(replace(cluster, size=size) for cluster, size in pairs)
        found = replace(found, clusters=clusters)
    return cluster_lines(found, preparation), cluster_entries(found, preparation)


def cluster_lines(description: Description, preparation: Preparation) -> list[str]:
    """A few lines for each cluster: how large, what sets it apart, along what it varies."""
    from tensorae.data import counted

    named = preparation.columns is not None
    lines = []
    for cluster in list(description)[:MOST_CLUSTERS]:
        kept = "round" if cluster.round else f"{100 * cluster.explained:.0f} % of its variance kept"
        lines.append(
            f"{_title(cluster.label, preparation)}: {counted(cluster.size, 'row')} "
            f"({100 * cluster.share:.1f} %), {kept}"
        )
        if named and cluster.defining:
            lines.append(f"  unlike the rest   {', '.join(map(str, cluster.defining))}")
            lines.append(f"  its centre is at  {_centre(cluster, preparation)}")
        if named and cluster.components:
            loadings = ", ".join(map(str, cluster.components[0].loadings))
            lines.append(f"  varies most along {loadings}")
    rest = len(description) - MOST_CLUSTERS
    return [*lines, f"and {rest} more clusters"] if rest > 0 else lines


def _centre(cluster: ClusterSummary, preparation: Preparation) -> str:
    """The centre in the features that set it apart, in the units of the table."""
    places = {name: place for place, name in enumerate(preparation.columns or ())}
    names = [loading.feature for loading in cluster.defining]
    return ", ".join(f"{name} {cluster.center[places[name]]:.4g}" for name in names)


def cluster_entries(description: Description, preparation: Preparation) -> list[dict[str, Any]]:
    """The same for scripts, and more; centres are in the units of the table."""
    entries = [cluster.to_dict() for cluster in description]
    for label, entry in enumerate(entries):
        entry["name"] = preparation.names[label] if preparation.names else None
        del entry["typical"], entry["worst"]  # rows are for the report
    return entries


def size_entries(sizes: Sequence[int], preparation: Preparation) -> list[dict[str, Any]]:
    """Label, name and size of each cluster, for scripts."""
    names = preparation.names or [None] * len(sizes)
    return [
        {"label": label, "name": name, "size": size}
        for label, (name, size) in enumerate(zip(names, sizes, strict=True))
    ]


def _title(label: int, preparation: Preparation) -> str:
    return f"cluster {label}{f' ({preparation.names[label]})' if preparation.names else ''}"
