"""A fitted model -> what makes up each cluster.

Shapes: n samples, k clusters, d features, h latent, m members of a cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorae._parameters import check_integer
from tensorae.data.scaling import Scaling
from tensorae.exceptions import InvalidInputError
from tensorae.inspect.results import ClusterSummary, Component, Description, Loading, Missing
from tensorae.inspect.samples import (
    ClusteredSamples,
    FittedModel,
    check_fitted,
    has_components,
    in_units,
    model_names,
    unwrapped,
)

__all__ = [
    "WORTH_A_WORD",
    "Observed",
    "describe",
    "describe_samples",
    "means_of_others",
    "principal_directions",
]

Array = NDArray[Any]

# From here on a difference is worth a word: a medium effect, by Cohen's d (means) and h (shares).
WORTH_A_WORD = 0.5


def describe(
    model: FittedModel,
    X: Any = None,
    *,
    feature_names: Sequence[str] | None = None,
    scaler: Any = None,
    n_features: int = 5,
    n_members: int = 5,
) -> Description:
    """Tell what a fitted model found: size, centre, main features and members of each cluster.

    Parameters
    ----------
    model : LinearTAE, TAE or TableModel
        Fitted.
    X : array-like of shape (n, d), optional
        Samples to describe the clusters by, those of the fit as a rule; for a ``TableModel`` a
        table in its own units. Without it a
        ``LinearTAE`` is described by its own numbers, and no rows are named; a ``TAE`` needs it.
    feature_names : sequence of str, optional
        Taken from X or the model where they know them; otherwise x0, x1, …
    scaler : scaler of scikit-learn, optional
        What brought the features to the scale of the fit, fitted, such as a ``StandardScaler``. X
        and the centres are then in the features' own units.
    n_features : int, default=5
        Main features to list for a component and a cluster.
    n_members : int, default=5
        Typical and worst rows to list for a cluster.

    Returns
    -------
    Description

    Notes
    -----
    The components of a ``LinearTAE`` are its own, as many as count in the cluster: none where it
    is round. Those of a ``TAE`` are the principal directions
    of what the autoencoder gives back for the members of its cluster: the variation that the code
    keeps, over the whole cluster, where the slope of the decoder would hold at one point only. For
    a linear autoencoder the two agree.

    Loadings are on the scale of the model: a feature with large numbers dominates. Scale the
    features before the fit where that is not meant; ``step`` has the same in their own units.

    Examples
    --------
    >>> from tensorae import LinearTAE
    >>> from tensorae.datasets import load_penguins
    >>> from tensorae.inspect import describe
    >>> penguins = load_penguins(scale="max")
    >>> X, names = penguins.data, penguins.feature_names
    >>> model = LinearTAE(3, latent_dim=1, latent_penalty=0.1, random_state=0).fit(X)
    >>> print(describe(model, X, feature_names=names, n_features=2, n_members=3)[0])
    cluster 0: 144 members (43.2 %), 69.4 % of its variance kept
      unlike the rest  bill_length_mm -1.70, flipper_length_mm -1.39
      component 0      body_mass_g +0.78, bill_depth_mm +0.51  (69.4 %)
      typical rows     90, 65, 128
      worst rows       9, 75, 14
    """
    check_integer("n_features", n_features, low=1)
    check_integer("n_members", n_members, low=0)
    if X is not None:
        samples = ClusteredSamples.of(model, X, feature_names, scaler)
        return describe_samples(samples, n_features=n_features, n_members=n_members)
    model, feature_names, scaler = unwrapped(model, feature_names, scaler)
    facts = _known_to(model)
    names = model_names(model, feature_names)
    return _description(model, facts, names, Scaling.like(scaler, len(names)), n_features, 0)


def describe_samples(
    samples: ClusteredSamples,
    *,
    numbered: bool = False,
    n_features: int = 5,
    n_members: int = 0,
) -> Description:
    """The same of samples that are sorted already; features may be called by their numbers."""
    names = tuple(map(str, range(samples.d))) if numbered else samples.names
    facts = _seen_in(samples.scaled)
    return _description(samples.model, facts, names, samples.scaling, n_features, n_members)


# Facts ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Directions:
    """Along what one cluster varies."""

    components: Array  # (h, d)
    variances: Array  # (h,)
    ratios: Array  # (h,)
    explained: float


@dataclass(frozen=True)
class _Facts:
    """What the summaries are written from, on the scale of the model."""

    sizes: Array  # (k,)
    shares: Array  # (k,)
    centers: Array  # (k, d)
    means: Array  # (k, d): of the members; the centres, where there are no samples
    others: Array  # (k, d): mean of the samples of all other clusters
    spread: Array  # (d,): standard deviation over all samples
    missing: Array | None  # (2, k, d): share that is missing of the members, and of all others
    directions: list[_Directions]
    members: list[Array]  # rows of each cluster, lowest cost first
    seen: bool  # whether all this is of samples, not of the model alone


def _description(
    model: FittedModel,
    facts: _Facts,
    names: tuple[str, ...],
    scaling: Scaling,
    n_features: int,
    n_members: int,
) -> Description:
    clusters = tuple(
        _summary(facts, label, names, scaling, n_features, n_members)
        for label in range(len(facts.sizes))
    )
    spread = facts.spread * scaling.unit
    return Description(type(model).__name__, int(facts.sizes.sum()), names, clusters, spread)


def _summary(
    facts: _Facts,
    label: int,
    names: tuple[str, ...],
    scaling: Scaling,
    n_features: int,
    n_members: int,
) -> ClusterSummary:
    own = facts.directions[label]
    components = zip(own.components, own.variances, own.ratios, strict=True)
    # Over all samples, not inside the clusters: no spread is zero where the centres differ.
    apart = np.nan_to_num(in_units(facts.means[label] - facts.others[label], facts.spread))
    return ClusterSummary(
        label=label,
        size=int(facts.sizes[label]),
        share=float(facts.shares[label]),
        center=scaling.undo(facts.centers[label]),
        explained=own.explained,
        components=tuple(
            Component(
                variance=float(variance),
                share=float(share),
                loadings=_main(row, names, n_features),
                direction=row,
                step=np.sqrt(max(variance, 0)) * row * scaling.unit,
            )
            for row, variance, share in components
        ),
        defining=_main(apart, names, n_features),
        typical=tuple(facts.members[label][:n_members].tolist()),
        worst=tuple(facts.members[label][::-1][:n_members].tolist()),
        missing=() if facts.missing is None else _missing(facts.missing[:, label], names),
        mean=scaling.undo(facts.means[label]) if facts.seen else None,
        missing_share=None if facts.missing is None else facts.missing[0, label],
    )


def _missing(shares: Array, names: tuple[str, ...]) -> tuple[Missing, ...]:
    """Features whose shares (2, d) of missing values, here and elsewhere, differ clearly."""
    found = [Missing(*one) for one in zip(names, *shares.tolist(), strict=True)]
    found = [one for one in found if abs(one.effect) >= WORTH_A_WORD]
    return tuple(sorted(found, key=lambda one: -abs(one.effect)))


def _main(values: Array, names: tuple[str, ...], count: int) -> tuple[Loading, ...]:
    """Features with the largest values, whatever their sign; none that are zero."""
    order = np.argsort(-np.abs(values), kind="stable")[:count]
    return tuple(Loading(names[i], float(values[i])) for i in order if values[i] != 0)


def _known_to(model: Any) -> _Facts:
    """By the model's own numbers."""
    check_fitted(model)
    if not has_components(model):
        raise InvalidInputError(
            f"X must be given to describe a {type(model).__name__}: it knows no components, only "
            "what it makes of samples; pass the samples of the fit."
        )
    centers, weights = _doubled(model.cluster_centers_), _doubled(model.weights_)
    sizes = np.asarray(model.cluster_sizes_)
    components, variances = _doubled(model.components_), _doubled(model.explained_variance_)
    # Along the components the variances are known; the rest is spread evenly over what is left.
    along = np.einsum("kh,khd->kd", variances, components**2)
    inside = along + _doubled(model.noise_variance_)[:, None] * (1 - (components**2).sum(1))
    mean = weights @ centers
    variance = weights @ (np.clip(inside, 0, None) + (centers - mean) ** 2)
    return _Facts(
        sizes=sizes,
        shares=sizes / max(int(sizes.sum()), 1),
        centers=centers,
        means=centers,
        others=means_of_others(weights, centers, centers),
        spread=np.sqrt(variance),
        missing=None,
        directions=_own_directions(model),
        members=[np.empty(0, np.intp)] * len(centers),
        seen=False,
    )


def _seen_in(samples: ClusteredSamples) -> _Facts:
    """By samples."""
    centers = _doubled(samples.model.cluster_centers_)
    order = np.lexsort((samples.misfit, samples.labels))
    members = np.split(order, np.cumsum(samples.sizes)[:-1])
    observed = Observed.of(samples)
    means = np.where(samples.sizes[:, None] > 0, observed.means, centers)
    known = has_components(samples.model)
    return _Facts(
        sizes=samples.sizes,
        shares=samples.sizes / samples.n,
        centers=centers,
        means=means,
        others=means_of_others(observed.counts, means, means),
        spread=observed.spread,
        missing=None if samples.gaps is None else observed.missing(samples.sizes),
        directions=_own_directions(samples.model) if known else _found_directions(samples, members),
        members=members,
        seen=True,
    )


@dataclass(frozen=True, eq=False)
class Observed:
    """Moments of the values that are there: what was filled in has no part in them.

    Attributes
    ----------
    counts : ndarray of shape (k, d)
        Values in each cluster.
    means : ndarray of shape (k, d)
        NaN where there are none.
    spread : ndarray of shape (d,)
        Standard deviation over all samples; 0 where a feature does not vary.
    """

    counts: Array
    means: Array
    spread: Array

    @classmethod
    def of(cls, samples: ClusteredSamples) -> Observed:
        """Go through the clusters; values are in the units that the samples are in."""
        k, d = samples.k, samples.d
        counts = np.repeat(samples.sizes[:, None], d, axis=1)
        means = np.full((k, d), np.nan)
        for label in np.flatnonzero(samples.sizes).tolist():
            own = samples.labels == label
            values = samples.values[own]
            if samples.gaps is None:
                means[label] = values.mean(0, dtype=np.float64)
                continue
            there = ~samples.gaps[own]
            counts[label] = there.sum(0)
            sums = np.where(there, values, 0).sum(0, dtype=np.float64)
            means[label] = np.where(counts[label] > 0, sums / np.maximum(counts[label], 1), np.nan)
        if samples.gaps is None:
            return cls(counts, means, samples.spread)
        total = np.maximum(counts.sum(0), 1)
        mean = np.nansum(counts * means, axis=0) / total
        off = np.where(samples.gaps, 0, samples.values - mean)
        spread = np.sqrt((off**2).sum(0, dtype=np.float64) / total)
        # ``samples.spread`` knows what rounding alone makes of a feature that does not vary.
        return cls(counts, means, np.where(samples.spread > 0, spread, 0))

    def missing(self, sizes: Array) -> Array:
        """Share (2, k, d) that is missing of the members of each cluster, and of all others."""
        lacking = sizes[:, None] - self.counts
        others = np.maximum(sizes.sum() - sizes, 1)[:, None]
        return np.stack(
            [lacking / np.maximum(sizes, 1)[:, None], (lacking.sum(0) - lacking) / others]
        )

    @property
    def explained(self) -> float:
        """Share of the variance that lies between the means of the clusters."""
        total = np.maximum(self.counts.sum(0), 1)
        means = np.nan_to_num(self.means)
        mean = (self.counts * means).sum(0) / total
        between = (self.counts * (means - mean) ** 2).sum(0) / total
        whole = float((self.spread**2).sum())
        return float(between.sum()) / whole if whole else 0.0


def means_of_others(sizes: Array, means: Array, centers: Array) -> Array:
    """Mean (k, d) of all samples outside each cluster; its own centre where there are none.

    Sizes (k,) are those of the clusters, or (k, d) the values that each has of a feature.
    """
    counts = sizes[:, None] if sizes.ndim == 1 else sizes
    rest, own = counts.sum(0) - counts, counts * np.nan_to_num(means)
    sums = own.sum(0) - own
    return np.where(rest > 0, sums / np.where(rest > 0, rest, 1), centers)


def _own_directions(model: Any) -> list[_Directions]:
    ratios = _doubled(model.explained_variance_ratio_)
    explained = np.clip(ratios.sum(1), 0, 1).tolist()
    columns = (_doubled(model.components_), _doubled(model.explained_variance_), ratios)
    counted = getattr(model, "latent_dims_", [ratios.shape[1]] * len(ratios))
    # Of clusters with fewer directions than others the rest says nothing.
    return [
        _Directions(rows[:h], variances[:h], shares[:h], kept)
        for rows, variances, shares, h, kept in zip(*columns, counted, explained, strict=True)
    ]


def _found_directions(samples: ClusteredSamples, members: list[Array]) -> list[_Directions]:
    """Principal directions of what the autoencoders give back for their members."""
    pairs = ((samples.values[own], samples.reconstructions[own]) for own in members)
    return [_directions_of(_doubled(x), _doubled(back), samples.h) for x, back in pairs]


def _directions_of(x: Array, given_back: Array, h: int) -> _Directions:
    """The same for one cluster: members (m, d) and what was made of them (m, d)."""
    if len(x) == 0:
        return _Directions(np.empty((0, x.shape[1])), np.empty(0), np.empty(0), 0.0)
    off = x - x.mean(0)
    whole = float((off**2).sum())
    left = float(((x - given_back) ** 2).sum())
    components = principal_directions(given_back - given_back.mean(0), h)
    along = ((off @ components.T) ** 2).sum(0)
    # Ordered by the members' variance, as the components of a linear model are.
    order = np.argsort(-along, kind="stable")
    components, along = components[order], along[order]
    if whole == 0:
        return _Directions(components, along, along, 0.0)
    explained = min(max(1 - left / whole, 0.0), 1.0)
    return _Directions(components, along / len(x), along / whole, explained)


def principal_directions(off: Array, h: int) -> Array:
    """Orthonormal rows (at most h, d) of largest variance, largest loading positive."""
    m, d = off.shape
    # The smaller of the two Gram matrices has the same spectrum.
    values, vectors = np.linalg.eigh(off.T @ off if d <= m else off @ off.T)
    first = np.argsort(-values)[:h]
    first = first[values[first] > 1e-12 * max(float(values.max()), np.finfo(float).tiny)]
    rows = vectors[:, first].T if d <= m else vectors[:, first].T @ off
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    largest = np.take_along_axis(rows, np.abs(rows).argmax(1)[:, None], axis=1)
    directions: Array = rows * np.sign(largest)
    return directions


def _doubled(values: Any) -> Array:
    return np.asarray(values, np.float64)
