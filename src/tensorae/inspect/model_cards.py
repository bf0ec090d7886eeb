"""Fitted models as cards, for notebooks and model hubs, from their attributes alone.

Shapes: k clusters, d features, m mixtures.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import sklearn
import torch

from tensorae import __version__, _notebook
from tensorae._text import counted, percent
from tensorae.inspect.clusters import cluster_table, describe, means_of_others
from tensorae.inspect.comparison import ComparisonView
from tensorae.inspect.samples import (
    estimator_of,
    has_own_spreads,
    is_linear,
    is_variational,
    latent_dim,
    model_names,
)

if TYPE_CHECKING:
    from tensorae.imputer import ImputerTAE
    from tensorae.outliers import OutlierTAE

__all__ = ["choice_card", "imputer_card", "markdown_card", "model_card", "outlier_card"]

N_FEATURES, MAX_CLUSTERS, MAX_NAMES = 3, 12, 50
NOTE = "Unlike the rest: distance of the cluster's centre from the mean of the others, in {}."


def model_card(model: Any) -> str:
    """A ``LinearTAE`` or a ``TAE``, or a ``TableModel`` of one, in the units of the table."""
    table_model, model = model, estimator_of(model)
    linear = is_linear(model)
    # Single pixels mean nothing, so nothing is said of the centres of images.
    several = len(model.cluster_centers_) > 1 and (linear or len(model.input_shape_) != 3)
    if linear:
        comparison, unit = model.comparison_, "standard deviations over all rows"
        clusters = _cluster_table(describe(table_model, n_features=N_FEATURES).clusters)
    else:
        comparison, unit = {}, "the units of the feature"
        clusters = _network_clusters(table_model, several=several)
    compared = ComparisonView.of(comparison).html_table() if comparison else ""
    return _notebook.card(
        _notebook.heading(type(model).__name__, _rows(model, int(np.sum(model.cluster_sizes_)))),
        _notebook.facts(_settings(model)),
        _notebook.paragraph(model.reason_) if comparison else "",
        clusters,
        _notebook.paragraph(NOTE.format(unit), quiet=True) if several else "",
        _notebook.fold("Settings that were compared", compared) if comparison else "",
        _parameters(model),
    )


def outlier_card(model: OutlierTAE) -> str:
    """Its threshold, and the clusters that explanations refer to."""
    threshold = "score above that of 99 % of ordinary rows"
    if model.contamination != "auto":
        threshold = f"{100 * model.contamination:g} % of rows"
    clusters = describe(
        model.reference_,
        feature_names=model_names(model),
        scaler=model.scaling_,
        n_features=N_FEATURES,
    )
    return _notebook.card(
        _notebook.heading(type(model).__name__, _rows(model, model.n_samples_)),
        _notebook.facts([("outliers", threshold), ("offset", f"{model.offset_:.4g}")]),
        _notebook.paragraph("Clusters of ordinary rows, to which explanations refer:", quiet=True),
        _cluster_table(clusters.clusters),
        _parameters(model),
    )


def imputer_card(model: ImputerTAE) -> str:
    """Its mixtures, with their weights and errors."""
    columns = (model.n_clusters_, model.weights_, model.hidden_errors_)
    rows = [
        (str(k), _notebook.Share(float(weight)), "" if np.isnan(error) else f"{error:.3f}")
        for k, weight, error in zip(*columns, strict=True)
    ]
    note = "Error: root mean square on values that were held out, in standard deviations."
    return _notebook.card(
        _notebook.heading(
            type(model).__name__,
            f", fitted to {model.n_features_in_} features; {counted(len(rows), 'mixture')}, "
            f"at most {model.n_iter_} passes",
        ),
        _notebook.paragraph(
            "A missing value becomes the weighted mean of the expectations of the mixtures.",
            quiet=True,
        ),
        _notebook.table(("clusters", "weight", "error"), rows) if rows else "",
        _notebook.paragraph(note, quiet=True),
        _parameters(model),
    )


def choice_card(reason: str, table: Mapping[str, list[Any]]) -> str:
    """The fits that ``choose`` compared, and the reason for the chosen one."""
    parts = [_notebook.heading("Choice", f": {reason}")]
    if table:
        note = (
            "ICL: difference to the lowest of all fits; lower is better. Split: share of "
            "neighbours in different clusters, which is considered, too."
        )
        parts += [ComparisonView.of(table).html_table(), _notebook.paragraph(note, quiet=True)]
    return _notebook.card(*parts)


def _rows(model: Any, n: int) -> str:
    return f", fitted on {counted(n, 'row')} of {model.n_features_in_:,} features"


def _cluster_table(clusters: Any) -> str:
    return cluster_table(clusters, n_components=1, max_rows=MAX_CLUSTERS)


def _settings(model: Any) -> list[tuple[str, str]]:
    """Names and values of k, h, λ, spread, loss and steps."""
    k, linear = len(model.cluster_centers_), is_linear(model)
    dims = [int(h) for h in model.latent_dims_] if linear else [latent_dim(model)]
    low, high = min(dims), max(dims)
    found = [("clusters", str(k)), ("components", str(high) if low == high else f"{low} to {high}")]
    if is_variational(model):
        found.append(("noise variance", f"{float(model.noise_variance_):.3g}"))
    elif not has_own_spreads(model):
        found.append(("λ", f"{float(model.latent_penalty_):.3g}"))
    loss = ("loss", f"{float(model.loss_):.6g}")
    if linear:
        pooled = ", one covariance for all" if model.pooled_ else ""
        steps = f"{model.n_iter_}{'' if model.converged_ else ', not converged'}"
        return [*found, ("spread", f"{model.spread_}{pooled}"), loss, ("iterations", steps)]
    kept = "" if model.best_epoch_ == model.n_iter_ else f", number {model.best_epoch_} kept"
    return [*found, loss, ("epochs", f"{model.n_iter_}{kept}")]


def _network_clusters(model: Any, *, several: bool) -> str:
    """Sizes and, for several, the features in which each centre is farthest from the others."""
    sizes = np.asarray(model.cluster_sizes_)
    shares = sizes / max(int(sizes.sum()), 1)
    head, rows = ["cluster", "members", "share"], []
    names, centers = model_names(model), np.asarray(model.cluster_centers_, np.float64)
    off = centers - means_of_others(sizes, centers, centers)
    for label, (size, share) in enumerate(zip(sizes, shares, strict=True)):
        row: list[_notebook.Cell] = [str(label), str(size), _notebook.Share(float(share))]
        if several:
            first = np.argsort(-np.abs(off[label]), kind="stable")[:N_FEATURES]
            row.append(tuple(f"{names[j]} {off[label, j]:+.3g}" for j in first if off[label, j]))
        rows.append(row)
    head += ["unlike the rest"] * several
    return _notebook.table(head, rows, words=(3,), max_rows=MAX_CLUSTERS)


def _parameters(model: Any) -> str:
    return _notebook.fold("Parameters", _notebook.code(repr(model)))


# Markdown ---------------------------------------------------------------------------------------


def markdown_card(model: Any) -> str:
    """A ``LinearTAE``, a ``TAE`` or a ``TableModel`` of one in Markdown, with YAML for hubs."""
    estimator, names = estimator_of(model), model_names(model)
    kind = type(estimator).__name__
    sizes = np.asarray(estimator.cluster_sizes_)
    preparation = getattr(model, "preparation", None)
    data = [
        ("rows", f"{int(sizes.sum()):,}"),
        ("columns", f"{estimator.n_features_in_:,}"),
        ("names", ", ".join(map(str, names[:MAX_NAMES])) + ", …" * (len(names) > MAX_NAMES)),
        ("scale", "that of the columns" if preparation is None else preparation.scaling.name),
    ]
    rows: list[tuple[str, ...]] = [
        (str(label), f"{size:,}", percent(size / max(sizes.sum(), 1)))
        for label, size in enumerate(sizes.tolist())
    ]
    head: tuple[str, ...] = ("cluster", "rows", "share")
    if is_linear(estimator):
        clusters = describe(model, n_features=N_FEATURES).clusters
        head = (*head, "unlike the rest")
        rows = [
            (*row, ", ".join(map(str, cluster.defining)))
            for row, cluster in zip(rows, clusters, strict=True)
        ]
    given = estimator.get_params(deep=False)
    versions = {
        "tensorae": __version__,
        "torch": torch.__version__,
        "scikit-learn": sklearn.__version__,
        "Python": platform.python_version(),
    }
    parameters = [(name, f"`{value!r:.200}`") for name, value in given.items()]
    reason = getattr(estimator, "reason_", "")
    settings = [*([reason, ""] if reason else []), *_pairs(_settings(estimator))]
    use = ["from tensorae import load", "", 'model = load("model.tae")', "model.predict(X)"]
    number = counted(len(sizes), "cluster")
    lines = [
        *("---", "library_name: tensorae", "tags:"),
        *(f"- {tag}" for tag in ("clustering", "autoencoder", "tabular", kind.lower())),
        *("---", "", f"# {kind} with {number}", ""),
        f"A tensorized autoencoder: {number} of rows with one representation each. It assigns rows "
        "to clusters, embeds and reconstructs them, and says how well they fit.",
        *_section("Data", _pairs(data)),
        *_section("Settings", settings),
        *_section("Clusters", _markdown_table(head, rows)),
        *_section("Parameters", _pairs(parameters)),
        *_section("Versions", _pairs(versions.items())),
        *_section("Use", ["```python", *use, "```"]),
    ]
    return "\n".join([*lines, ""])


def _section(title: str, lines: Sequence[str]) -> list[str]:
    return ["", f"## {title}", "", *lines]


def _pairs(pairs: Iterable[tuple[str, str]]) -> list[str]:
    return [f"- **{_escaped(name)}**: {_escaped(value)}" for name, value in pairs]


def _markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [head, ["---"] * len(head), *rows]
    return ["| " + " | ".join(map(_escaped, line)) + " |" for line in lines]


def _escaped(text: str) -> str:
    """Text of a name or value on one line of Markdown, without columns or tags of its own."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
