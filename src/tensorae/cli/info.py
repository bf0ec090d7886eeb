"""``tensorae info``: the contents of a model file; and how clusters are described."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tensorae.cli.messages import Messages
from tensorae.cli.options import MODEL_FILE, with_options

if TYPE_CHECKING:
    from tensorae.data.preparation import Preparation
    from tensorae.inspect import Description

WIDTH = 14  # of the names of facts
MAX_CLUSTERS, MAX_COLUMNS = 12, 20
N_FEATURES = 3


@with_options
def info(
    model_file: MODEL_FILE,
    messages: Messages,
    card: Annotated[
        bool, typer.Option("--card", help="Print a model card in Markdown instead.")
    ] = False,
) -> None:
    """Show the contents of a model file."""
    from tensorae import load
    from tensorae.data.preparation import Preparation
    from tensorae.exceptions import InvalidParameterError
    from tensorae.persist import read_header

    header = read_header(model_file)
    if card:
        model = load(model_file)
        if not hasattr(model, "card"):
            raise InvalidParameterError(
                f"--card needs a LinearTAE or a TAE, got a file of {header['class']}; leave it out."
            )
        text: str = model.card()
        messages.say(*text.splitlines())
        messages.give({**header, "card": text})
        return
    preparation = Preparation.of_header(header, str(model_file))
    for name, value in _facts(header, preparation).items():
        messages.say(f"{name:<{WIDTH}}{value}")
    linear = header["class"] == "LinearTAE"
    model = load(model_file) if linear else None
    sizes = None if linear else header["training"]["cluster_sizes"]
    lines, entries = describe_stored_clusters(model, sizes, preparation)
    messages.say("", *lines)
    messages.give({**header, "clusters": entries})


def _facts(header: dict[str, Any], preparation: Preparation) -> dict[str, str]:
    from tensorae._text import listed

    training, columns = header["training"], preparation.columns
    facts = {
        "model": header["class"],
        "fitted on": f"{training['n_samples']} rows by {training['n_features']} columns",
        "columns": "no names" if columns is None else listed(columns, MAX_COLUMNS),
        "scale": preparation.scaling.name,
    }
    if training.get("spread") is not None:  # of a linear model
        names = {"own": "own: each cluster has its own", "shared": "shared by all clusters"}
        dims = training.get("latent_dims", [])
        facts["spread"] = names.get(training["spread"], training["spread"])
        facts["latent dims"] = ", ".join(map(str, dims if len(set(dims)) > 1 else dims[:1]))
    facts |= {
        "loss": f"{training['loss']:.6g}" if training.get("loss") is not None else "unknown",
        "parameters": ", ".join(f"{name}={v!r}" for name, v in header["parameters"].items()),
        "created": f"{header['created']} by tensorae {header['versions'].get('tensorae', '?')}",
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


# Clusters ---------------------------------------------------------------------------------------


def describe_stored_clusters(
    model: Any, sizes: Sequence[int] | None, preparation: Preparation
) -> tuple[list[str], list[dict[str, Any]]]:
    """Lines for people and entries for scripts, from a model and the cluster sizes alone."""
    from tensorae.inspect import describe

    if not hasattr(getattr(model, "estimator", model), "components_"):
        # A network needs rows to say more.
        entries, total = size_entries(sizes or (), preparation), max(sum(sizes or ()), 1)
        lines = [
            f"{_title(entry['label'], preparation)}: {entry['size']} rows "
            f"({100 * entry['size'] / total:.1f} %)"
            for entry in entries
        ]
        return lines, entries
    found = describe(model, n_features=N_FEATURES)
    if sizes is not None:  # the labels in the model are those of one process of several
        pairs = zip(found, sizes, strict=True)
        clusters = tuple(replace(cluster, size=size) for cluster, size in pairs)
        found = replace(found, clusters=clusters)
    return describe_clusters(found, preparation)


def describe_clusters(
    description: Description, preparation: Preparation
) -> tuple[list[str], list[dict[str, Any]]]:
    """Lines for people and entries for scripts; centers are in the units of the table."""
    from tensorae._text import counted

    columns, lines, entries = preparation.number_columns, list[str](), list[dict[str, Any]]()
    for label, cluster in enumerate(description):
        entry = cluster.to_dict()
        entry["name"] = preparation.names[label] if preparation.names else None
        del entry["typical"], entry["worst"]  # rows are for the report
        entries.append(entry)
        if label >= MAX_CLUSTERS:
            continue
        kept = "round" if cluster.round else f"{100 * cluster.explained:.0f} % of its variance kept"
        lines.append(
            f"{_title(cluster.label, preparation)}: {counted(cluster.size, 'row')} "
            f"({100 * cluster.share:.1f} %), {kept}"
        )
        if columns is not None and cluster.defining:
            names = [loading.feature for loading in cluster.defining]
            center = (f"{name} {cluster.center[columns.index(name)]:.4g}" for name in names)
            lines.append(f"  unlike the rest   {', '.join(map(str, cluster.defining))}")
            lines.append(f"  center            {', '.join(center)}")
        if cluster.levels:
            lines.append(f"  categories        {', '.join(map(str, cluster.levels))}")
        if columns is not None and cluster.components:
            loadings = ", ".join(map(str, cluster.components[0].loadings))
            lines.append(f"  varies most along {loadings}")
    if len(entries) > MAX_CLUSTERS:
        lines.append(f"and {len(entries) - MAX_CLUSTERS} more clusters")
    return lines, entries


def size_entries(sizes: Sequence[int], preparation: Preparation) -> list[dict[str, Any]]:
    """Label, name and size of each cluster, for scripts."""
    names = preparation.names or [None] * len(sizes)
    return [
        {"label": label, "name": name, "size": size}
        for label, (name, size) in enumerate(zip(names, sizes, strict=True))
    ]


def _title(label: int, preparation: Preparation) -> str:
    return f"cluster {label}{f' ({preparation.names[label]})' if preparation.names else ''}"
