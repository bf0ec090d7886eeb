"""A fitted model as a card for notebooks: what it is, its settings and why, and its clusters.

It asks for nothing but what the model keeps, so that showing a model needs no samples.

Shapes: k clusters, d features, m mixtures.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tensorae.inspect import html
from tensorae.inspect.clusters import describe, means_of_others
from tensorae.inspect.comparison import Compared
from tensorae.inspect.results import Description, cluster_table
from tensorae.inspect.samples import (
    estimator_of,
    has_components,
    has_own_spreads,
    is_variational,
    latent_dim,
    model_names,
)

__all__ = ["choice_card", "imputer_card", "model_card", "outlier_card"]

N_FEATURES, MOST_CLUSTERS = 3, 12
NOTES = {
    "spread": (
        "Unlike the rest: how far the cluster's centre is from the rows of the others, in standard "
        "deviations over all rows."
    ),
    "centers": (
        "Unlike the rest: how far the cluster's centre is from the mean of the others, in the "
        "units of the feature."
    ),
}


def model_card(model: Any) -> str:
    """A ``LinearTAE`` or a ``TAE``, or a ``TableModel`` of one, in the units of the table."""
    table_model, model = model, estimator_of(model)
    known = has_components(model)
    clusters = _described(table_model) if known else _counted_clusters(table_model)
    note = "spread" if known else "centers"
    several = len(model.cluster_centers_) > 1 and (known or not _is_image(model))
    return html.card(
        html.heading(type(model).__name__, _rows(model, int(np.sum(model.cluster_sizes_)))),
        html.facts(_settings(model)),
        html.paragraph(model.reason_) if getattr(model, "comparison_", None) else "",
        clusters,
        html.paragraph(NOTES[note], quiet=True) if several else "",
        _compared(getattr(model, "comparison_", {})),
        _parameters(model),
    )


def outlier_card(model: Any) -> str:
    """An ``OutlierTAE``."""
    auto = model.contamination == "auto"
    odd = "odder than 99 % of ordinary rows" if auto else f"{100 * model.contamination:g} % of rows"
    names = model_names(model)
    clusters = describe(
        model.reference_, feature_names=names, scaler=model.scaling_, n_features=N_FEATURES
    )
    return html.card(
        html.heading(type(model).__name__, _rows(model, model.n_samples_)),
        html.facts([("outliers", odd), ("offset", f"{model.offset_:.4g}")]),
        html.paragraph("Clusters of ordinary rows, which explanations name:", quiet=True),
        _short_table(clusters),
        _parameters(model),
    )


def imputer_card(model: Any) -> str:
    """An ``ImputerTAE``."""
    columns = (model.n_clusters_, model.weights_, model.hidden_errors_)
    rows = [
        (str(k), html.Share(float(weight)), "" if np.isnan(error) else f"{error:.3f}")
        for k, weight, error in zip(*columns, strict=True)
    ]
    m = len(rows)
    return html.card(
        html.heading(
            type(model).__name__,
            f", fitted to {model.n_features_in_} features; {m} mixture{'s' * (m != 1)}, "
            f"{model.n_iter_} passes at most",
        ),
        html.paragraph("A gap gets the weighted mean of what the mixtures expect.", quiet=True),
        html.table(("clusters", "counts for", "error"), rows) if rows else "",
        html.paragraph(
            "Error: root mean square for values that were hidden, in standard deviations.",
            quiet=True,
        ),
        _parameters(model),
    )


def choice_card(reason: str, table: Mapping[str, list[Any]]) -> str:
    """What was compared, and why one was chosen."""
    compared = Compared.of(table).html_table() if table else ""
    return html.card(
        html.heading("Choice", f": {reason}"),
        compared,
        html.paragraph(
            "ICL: above the lowest of all fits; less is better. Parted: share of neighbours in "
            "different clusters, which counts beside it.",
            quiet=True,
        )
        if compared
        else "",
    )


# Parts ------------------------------------------------------------------------------------------


def _rows(model: Any, n: int) -> str:
    return f", fitted on {n:,} row{'s' * (n != 1)} of {model.n_features_in_:,} features"


def _settings(model: Any) -> list[tuple[str, str]]:
    """k, h, λ, spread, loss and steps."""
    found = [("clusters", str(len(model.cluster_centers_))), ("components", _components(model))]
    if is_variational(model):
        found.append(("noise variance", f"{float(model.noise_variance_):.3g}"))
    elif not has_own_spreads(model):
        found.append(("λ", f"{float(model.latent_penalty_):.3g}"))
    if hasattr(model, "spread_"):
        pooled = ", one covariance for all" if getattr(model, "pooled_", False) else ""
        found.append(("spread", f"{model.spread_}{pooled}"))
    found.append(("loss", f"{float(model.loss_):.6g}"))
    if not hasattr(model, "converged_"):
        last = model.best_epoch_ == model.n_iter_
        kept = "" if last else f", number {model.best_epoch_} kept"
        return [*found, ("epochs", f"{model.n_iter_}{kept}")]
    steps = str(model.n_iter_) if model.converged_ else f"{model.n_iter_}, not converged"
    return [*found, ("iterations", steps)]


def _components(model: Any) -> str:
    """Length of a code, or what counts of it in the clusters."""
    if not has_components(model):
        return str(latent_dim(model))
    low, high = int(np.min(model.latent_dims_)), int(np.max(model.latent_dims_))
    return str(high) if low == high else f"{low} to {high}"


def _described(model: Any) -> str:
    return _short_table(describe(model, n_features=N_FEATURES))


def _short_table(description: Description) -> str:
    return cluster_table(description.clusters, n_components=1, most=MOST_CLUSTERS)


def _counted_clusters(model: Any) -> str:
    """Sizes, and where centres are: all that networks know of their clusters without samples."""
    sizes = np.asarray(model.cluster_sizes_)
    shares = sizes / max(int(sizes.sum()), 1)
    rows: list[tuple[html.Cell, ...]] = [
        (str(label), str(size), html.Share(float(share)))
        for label, (size, share) in enumerate(zip(sizes, shares, strict=True))
    ]
    head = ["cluster", "members", "share"]
    if len(sizes) == 1 or _is_image(estimator_of(model)):  # numbers of pixels tell nothing
        return html.table(head, rows, most=MOST_CLUSTERS)
    apart = zip(rows, _apart(model, sizes), strict=True)
    rows = [(*row, own) for row, own in apart]
    return html.table([*head, "unlike the rest"], rows, words=(3,), most=MOST_CLUSTERS)


def _is_image(model: Any) -> bool:
    return len(getattr(model, "input_shape_", ())) == 3


def _apart(model: Any, sizes: np.ndarray) -> list[tuple[str, ...]]:
    """The features in which each centre is farthest from the others, and how far."""
    names = model_names(model)
    centers = np.asarray(model.cluster_centers_, np.float64)
    off = centers - means_of_others(sizes, centers, centers)
    first = np.argsort(-np.abs(off), axis=1, kind="stable")[:, :N_FEATURES]
    return [
        tuple(f"{names[column]} {row[column]:+.3g}" for column in own if row[column])
        for row, own in zip(off, first, strict=True)
    ]


def _compared(table: Mapping[str, list[Any]]) -> str:
    if not table:
        return ""
    return html.fold("Settings that were compared", Compared.of(table).html_table())


def _parameters(model: Any) -> str:
    """As they were given."""
    return html.fold("Parameters", html.code(repr(model)))
