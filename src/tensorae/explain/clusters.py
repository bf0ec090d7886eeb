"""A fitted model -> what makes up each cluster.

Shapes: n samples, k clusters, d features, h latent, m members of a cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorae.exceptions import InvalidInputError, InvalidParameterError
from tensorae.explain.directions import principal_directions
from tensorae.explain.inputs import ModelRows, check_fitted, model_names
from tensorae.explain.results import ClusterSummary, Component, Description, Loading

__all__ = ["describe"]

Array = NDArray[Any]


def describe(
    model: Any,
    X: Any = None,
    *,
    feature_names: Sequence[str] | None = None,
    n_features: int = 5,
    n_members: int = 5,
) -> Description:
    """Tell what a fitted model found: size, centre, main features and members of each cluster.

    Parameters
    ----------
    model : LinearTAE or TAE
        Fitted.
    X : array-like of shape (n, d), optional
        Samples to describe the clusters by, those of the fit as a rule. Without it a
        ``LinearTAE`` is described by its own numbers, and no rows are named; a ``TAE`` needs it.
    feature_names : sequence of str, optional
        Taken from X or the model where they know them; otherwise x0, x1, …
    n_features : int, default=5
        Main features to list for a component and a cluster.
    n_members : int, default=5
        Typical and worst rows to list for a cluster.

    Returns
    -------
    Description

    Notes
    -----
    The components of a ``LinearTAE`` are its own. Those of a ``TAE`` are the principal directions
    of what the autoencoder gives back for the members of its cluster: the variation that the code
    keeps, over the whole cluster, where the slope of the decoder would hold at one point only. For
    a linear autoencoder the two agree.

    Loadings are in the units of the samples, as the model sees them: a feature with large numbers
    dominates. Scale the features before the fit where that is not meant.

    Examples
    --------
    >>> from tensorae import LinearTAE
    >>> from tensorae.datasets import load_penguins
    >>> from tensorae.explain import describe
    >>> penguins = load_penguins(scale="max")
    >>> X, names = penguins.data, penguins.feature_names
    >>> model = LinearTAE(3, latent_dim=1, random_state=0).fit(X)
    >>> print(describe(model, X, feature_names=names, n_features=2, n_members=3)[0])
    cluster 0: 145 members (43.5 %), 69.1 % of its variance kept
      unlike the rest  bill_length_mm -1.70, flipper_length_mm -1.41
      component 0      body_mass_g +0.78, bill_depth_mm +0.51  (69.1 %)
      typical rows     90, 65, 128
      worst rows       9, 75, 14
    """
    _check_count("n_features", n_features, 1)
    _check_count("n_members", n_members, 0)
    if X is None:
        facts = _from_model(model, feature_names)
    else:
        facts = _from_samples(model, ModelRows.of(model, X, feature_names), n_members)
    clusters = tuple(_summary(facts, label, n_features) for label in range(len(facts.sizes)))
    return Description(clusters, facts.names, int(facts.sizes.sum()), type(model).__name__)


@dataclass(frozen=True)
class _Facts:
    """What the summaries are written from."""

    names: tuple[str, ...]
    sizes: Array  # (k,)
    shares: Array  # (k,)
    centers: Array  # (k, d)
    others: Array  # (k, d): mean of the samples of all other clusters
    spread: Array  # (d,): standard deviation over all samples
    components: list[Array]  # each (h, d)
    variances: list[Array]  # each (h,)
    ratios: list[Array]  # each (h,)
    explained: Array  # (k,)
    members: list[tuple[tuple[int, ...], tuple[int, ...]]]  # typical and worst rows


def _summary(facts: _Facts, label: int, n_features: int) -> ClusterSummary:
    components = zip(
        facts.components[label], facts.variances[label], facts.ratios[label], strict=True
    )
    typical, worst = facts.members[label]
    return ClusterSummary(
        label=label,
        size=int(facts.sizes[label]),
        share=float(facts.shares[label]),
        center=facts.centers[label],
        explained=float(facts.explained[label]),
        components=tuple(
            Component(float(variance), float(share), _main(row, facts.names, n_features), row)
            for row, variance, share in components
        ),
        defining=_main(_difference(facts, label), facts.names, n_features),
        typical=typical,
        worst=worst,
    )


def _difference(facts: _Facts, label: int) -> Array:
    """Centre minus mean of the others (d,), in standard deviations; 0 where nothing varies."""
    apart = facts.centers[label] - facts.others[label]
    # Over all samples, not inside the clusters: it is never zero where the centres differ.
    return np.where(facts.spread > 0, apart / np.where(facts.spread > 0, facts.spread, 1), 0)


def _main(values: Array, names: tuple[str, ...], count: int) -> tuple[Loading, ...]:
    """Features with the largest values, whatever their sign; none that are zero."""
    order = np.argsort(-np.abs(values), kind="stable")[:count]
    return tuple(Loading(names[i], float(values[i])) for i in order if values[i] != 0)


# By the model's own numbers ---------------------------------------------------------------------


def _from_model(model: Any, feature_names: Sequence[str] | None) -> _Facts:
    check_fitted(model)
    if not hasattr(model, "components_"):
        raise InvalidInputError(
            f"X must be given to describe a {type(model).__name__}: it knows no components, only "
            "what it makes of samples; pass the samples of the fit."
        )
    centers, shares = _doubled(model.cluster_centers_), _doubled(model.weights_)
    components, variances = _doubled(model.components_), _doubled(model.explained_variance_)
    # Along the components the variances are known; the rest is spread evenly over what is left.
    along = np.einsum("kh,khd->kd", variances, components**2)
    inside = along + _doubled(model.noise_variance_)[:, None] * (1 - (components**2).sum(1))
    mean = shares @ centers
    variance = shares @ (np.clip(inside, 0, None) + (centers - mean) ** 2)
    ratios = _doubled(model.explained_variance_ratio_)
    return _Facts(
        names=model_names(model, feature_names),
        sizes=np.bincount(model.labels_, minlength=len(centers)),
        shares=shares,
        centers=centers,
        others=_means_of_others(shares, centers, centers),
        spread=np.sqrt(variance),
        components=list(components),
        variances=list(variances),
        ratios=list(ratios),
        explained=np.clip(ratios.sum(1), 0, 1),
        members=[((), ())] * len(centers),
    )


# By samples -------------------------------------------------------------------------------------


def _from_samples(model: Any, rows: ModelRows, n_members: int) -> _Facts:
    centers = _doubled(model.cluster_centers_)
    members = [np.flatnonzero(rows.labels == label) for label in range(len(centers))]
    sizes = np.array([len(own) for own in members])
    means, spread = _means_and_spread(rows.values, members)
    costs = -np.asarray(model.score_samples(rows.given))
    along = _own_components(model) if hasattr(model, "components_") else _kept(model, rows, members)
    return _Facts(
        names=rows.names,
        sizes=sizes,
        shares=sizes / sizes.sum(),
        centers=centers,
        others=_means_of_others(sizes, means, centers),
        spread=spread,
        components=[part.components for part in along],
        variances=[part.variances for part in along],
        ratios=[part.ratios for part in along],
        explained=np.array([part.explained for part in along]),
        members=[_extremes(costs, own, n_members) for own in members],
    )


@dataclass(frozen=True)
class _Along:
    """Directions of one cluster and what varies along them."""

    components: Array  # (h, d)
    variances: Array  # (h,)
    ratios: Array  # (h,)
    explained: float


def _own_components(model: Any) -> list[_Along]:
    ratios = _doubled(model.explained_variance_ratio_)
    columns = (_doubled(model.components_), _doubled(model.explained_variance_), ratios)
    return [_Along(*row, float(np.clip(row[2].sum(), 0, 1))) for row in zip(*columns, strict=True)]


def _kept(model: Any, rows: ModelRows, members: list[Array]) -> list[_Along]:
    """Principal directions of what the autoencoders give back for their members."""
    h = len(model.get_feature_names_out())
    given_back = np.asarray(model.reconstruct(rows.given)).reshape(rows.values.shape)
    return [_kept_of(_doubled(rows.values[own]), _doubled(given_back[own]), h) for own in members]


def _kept_of(x: Array, given_back: Array, h: int) -> _Along:
    """The same for one cluster: members (m, d) and what was made of them (m, d)."""
    if len(x) == 0:
        return _Along(np.empty((0, x.shape[1])), np.empty(0), np.empty(0), 0.0)
    off = x - x.mean(0)
    whole = float((off**2).sum())
    left = float(((x - given_back) ** 2).sum())
    components = principal_directions(given_back - given_back.mean(0), h)
    along = ((off @ components.T) ** 2).sum(0)
    # Ordered by the members' variance, as the components of a linear model are.
    order = np.argsort(-along, kind="stable")
    components, along = components[order], along[order]
    if whole == 0:
        return _Along(components, along, along, 0.0)
    explained = min(max(1 - left / whole, 0.0), 1.0)
    return _Along(components, along / len(x), along / whole, explained)


def _means_and_spread(values: Array, members: list[Array]) -> tuple[Array, Array]:
    """Mean (k, d) of each cluster and standard deviation (d,) over all samples."""
    n, d = values.shape
    means, squares = np.zeros((len(members), d)), np.zeros(d)
    overall = values.mean(0, dtype=np.float64)
    for label, own in enumerate(members):
        if len(own):
            means[label] = values[own].mean(0, dtype=np.float64)
            squares += ((values[own] - overall) ** 2).sum(0)
    spread = np.sqrt(squares / n)
    # What rounding makes of a feature that does not vary is no spread.
    rounding = 8 * np.finfo(values.dtype).eps if values.dtype.kind == "f" else 0.0
    return means, np.where(spread > rounding * np.abs(values).max(0), spread, 0)


def _means_of_others(sizes: Array, means: Array, centers: Array) -> Array:
    """Mean (k, d) of all samples outside each cluster; its own centre where there are none."""
    rest = (sizes.sum() - sizes)[:, None]
    sums = (sizes @ means) - sizes[:, None] * means
    return np.where(rest > 0, sums / np.where(rest > 0, rest, 1), centers)


def _extremes(costs: Array, own: Array, count: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    order = own[np.argsort(costs[own], kind="stable")]
    return tuple(order[:count].tolist()), tuple(order[::-1][:count].tolist())


def _doubled(values: Any) -> Array:
    return np.asarray(values, np.float64)


def _check_count(name: str, value: Any, low: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < low:
        raise InvalidParameterError(
            f"{name} must be a whole number from {low} on, got {value!r}; 5 is usual."
        )
