"""``tensorae info``: what a model file says about itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensorae.cli.options import MODEL_FILE, VoiceOptions, with_options
from tensorae.cli.voice import Voice

if TYPE_CHECKING:
    from tensorae.data import Preparation

__all__ = ["info"]

WIDTH = 14


@with_options
def info(model_file: MODEL_FILE, voice: VoiceOptions) -> None:
    """Show what is in a model file."""
    from tensorae.data import Preparation
    from tensorae.storage import read_header

    speaker = Voice(voice)
    header = read_header(model_file)
    preparation = Preparation.of_header(header, str(model_file))
    for name, value in _facts(header, preparation).items():
        speaker.say(f"{name:<{WIDTH}}{value}")
    lines, entries = _clusters(str(model_file), header, preparation)
    speaker.say("", *lines)
    speaker.give({**header, "clusters": entries})


def _facts(header: dict[str, Any], preparation: Preparation) -> dict[str, str]:
    training, versions = header["training"], header["versions"]
    parameters = ", ".join(f"{name}={value!r}" for name, value in header["parameters"].items())
    columns = preparation.columns
    facts = {
        "model": header["class"],
        "fitted on": f"{training['n_samples']} rows by {training['n_features']} columns",
        "columns": "no names" if columns is None else ", ".join(columns),
        "scale": preparation.scaling.name,
        "loss": f"{training['loss']:.6g}" if training.get("loss") is not None else "unknown",
        "parameters": parameters,
        "created": f"{header['created']} by tensorae {versions.get('tensorae', '?')}",
        "file format": f"version {header['format_version']}",
    }
    if preparation.shape is not None:
        facts["images"] = " x ".join(map(str, preparation.shape))
    if preparation.labels is not None:
        facts["labels from"] = preparation.labels
    return facts


def _clusters(
    path: str, header: dict[str, Any], preparation: Preparation
) -> tuple[list[str], list[dict[str, Any]]]:
    """Lines for people and entries for scripts; a network needs samples to say more."""
    if header["class"] == "LinearTAE":
        from tensorae import load
        from tensorae.cli.summary import N_FEATURES, cluster_entries, cluster_lines
        from tensorae.explain import describe

        description = describe(load(path), feature_names=preparation.columns, n_features=N_FEATURES)
        return cluster_lines(description, preparation), cluster_entries(description, preparation)
    sizes = header["training"]["cluster_sizes"]
    names = preparation.names or [None] * len(sizes)
    entries = [
        {"label": label, "name": name, "size": size}
        for label, (name, size) in enumerate(zip(names, sizes, strict=True))
    ]
    titles = (f" ({entry['name']})" if entry["name"] else "" for entry in entries)
    lines = [
        f"cluster {entry['label']}{title}: {entry['size']} rows"
        for entry, title in zip(entries, titles, strict=True)
    ]
    return lines, entries
