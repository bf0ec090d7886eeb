"""What makes up each cluster of a fitted model: size, centre, features, components, members.

Shapes: n samples, k clusters, d features, h latent, m members of a cluster.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tensorae import _notebook
from tensorae._optional import import_optional
from tensorae._parameters import check_integer
from tensorae._text import counted, percent, shown
from tensorae.data.scaling import Scaling
from tensorae.exceptions import InvalidInputError
from tensorae.inspect.samples import (
    ClusteredSamples,
    DictMixin,
    categories_of,
    column_names,
    in_units,
    is_linear,
    model_names,
    unwrapped,
)

if TYPE_CHECKING:
    from tensorae.inspect.samples import FittedModel

__all__ = [
    "MEDIUM_EFFECT",
    "ClusterSummary",
    "Component",
    "Description",
    "LevelShare",
    "Loading",
    "Missing",
    "Observed",
    "cluster_table",
    "describe",
    "describe_samples",
    "means_of_others",
    "principal_directions",
]

Array = NDArray[Any]

# Smaller differences are not mentioned: Cohen's d of means, h of shares.
MEDIUM_EFFECT = 0.5
MAX_COMPONENTS = 3  # of a cluster in a notebook


def describe(
    model: FittedModel,
    X: Any = None,
    *,
    feature_names: Sequence[str] | None = None,
    scaler: Any = None,
    n_features: int = 5,
    n_members: int = 5,
) -> Description:
    """Describe the clusters of a fitted model: sizes, centres, main features and members.

    Parameters
    ----------
    model : LinearTAE, TAE or TableModel
        Fitted.
    X : array-like of shape (n, d), optional
        Samples to describe the clusters by, usually those of the fit; for a ``TableModel`` a table
        in its own units. Without it, a ``LinearTAE`` is described by its parameters and no rows
        are named; a ``TAE`` needs it.
    feature_names : sequence of str, optional
        Taken from X or the model if they have names; otherwise x0, x1, …
    scaler : scaler of scikit-learn, optional
        The fitted scaler that brought the features to the scale of the fit, such as a
        ``StandardScaler``. X and the centres are then in the units of the features.
    n_features : int, default=5
        Main features to list for a component and a cluster.
    n_members : int, default=5
        Typical and worst rows to list for a cluster.

    Returns
    -------
    Description

    Notes
    -----
    The components of a ``LinearTAE`` are its own, as many as each cluster has: none if it is
    round. Those of a ``TAE`` are the principal directions of the reconstructions of the members:
    the variation that the code keeps over the whole cluster, not the slope of the decoder at one
    point. For a linear autoencoder the two agree.

    Loadings are on the scale of the model, on which features with large numbers dominate; scale
    the features before the fit to avoid this. ``step`` is in the units of the features.

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
    estimator, feature_names, scaler = unwrapped(model, feature_names, scaler)
    statistics = _model_statistics(estimator)
    names = model_names(estimator, feature_names)
    scaling = Scaling.like(scaler, len(names))
    middle = statistics.sizes @ statistics.centers / max(statistics.sizes.sum(), 1)
    spread = scaling.undo_deviation(middle, statistics.spread)
    levels = _model_levels(estimator)
    return _description(
        levels,
        statistics,
        names,
        scaling,
        None,
        spread,
        n_features,
        0,
        type(estimator).__name__,
    )


def describe_samples(
    samples: ClusteredSamples,
    *,
    numbered: bool = False,
    n_features: int = 5,
    n_members: int = 0,
) -> Description:
    """The same of samples whose clusters are known; ``numbered`` names features by numbers."""
    names = tuple(map(str, range(samples.d))) if numbered else samples.names
    statistics, scaling = _sample_statistics(samples.scaled), samples.scaling
    means, spread = scaling.undo(statistics.means), statistics.spread * scaling.unit
    if not scaling.linear:  # the mean of logarithms is not that of the values
        observed = Observed.of(samples)
        means = np.where(samples.sizes[:, None] > 0, observed.means, means)
        spread = observed.spread
    levels = _observed_levels(samples)
    name = type(samples.model).__name__
    return _description(
        levels, statistics, names, scaling, means, spread, n_features, n_members, name
    )


# Results ------------------------------------------------------------------------------------------


class Loading(NamedTuple):
    """A feature and its value."""

    feature: str
    value: float

    def __str__(self) -> str:
        return f"{self.feature} {self.value:+.2f}"


class LevelShare(NamedTuple):
    """A level of a category that is more or less frequent in a cluster than in the others."""

    feature: str
    level: Any
    share: float  # of the cluster
    elsewhere: float  # of all other clusters

    @property
    def effect(self) -> float:
        """Cohen's h, an effect size for shares."""
        return cohen_h(self.share, self.elsewhere)

    def __str__(self) -> str:
        return (
            f"{shown(self.feature)} is {self.level} in {percent(self.share, 0)} "
            f"({percent(self.elsewhere, 0)} elsewhere)"
        )


def cohen_h(share: float, elsewhere: float) -> float:
    """Effect size of a difference of shares."""
    own, others = (2 * math.asin(math.sqrt(min(max(p, 0.0), 1.0))) for p in (share, elsewhere))
    return own - others


class Missing(NamedTuple):
    """A feature that is missing more or less often in a cluster than in the others."""

    feature: str
    share: float  # of the members
    elsewhere: float  # of all other samples

    @property
    def effect(self) -> float:
        """Cohen's h, an effect size for shares."""
        return cohen_h(self.share, self.elsewhere)

    def __str__(self) -> str:
        return (
            f"{shown(self.feature)} missing in {percent(self.share, 0)} "
            f"({percent(self.elsewhere, 0)} elsewhere)"
        )


@dataclass(frozen=True, eq=False)
class Component(DictMixin):
    """One direction in which a cluster varies.

    Attributes
    ----------
    variance : float
        Of the cluster's members along it.
    share : float
        Of the total variance of the cluster.
    loadings : tuple of Loading
        Its main features, largest first.
    direction : ndarray of shape (d,)
        The loadings of all features, on the scale of the model; their squares sum to one.
    step : ndarray of shape (d,)
        One standard deviation along it, in the units of the features.
    """

    variance: float
    share: float
    loadings: tuple[Loading, ...]
    direction: NDArray[Any] = field(repr=False)
    step: NDArray[Any] = field(repr=False)


@dataclass(frozen=True, eq=False)
class ClusterSummary(DictMixin):
    """One cluster: its size, its centre, and the features in which it varies and differs.

    Attributes
    ----------
    label : int
    size : int
        Samples in it.
    share : float
        Of all samples.
    center : ndarray of shape (d,)
        In the units of the features.
    explained : float
        Share of its variance that its autoencoder explains.
    components : tuple of Component
        Largest variance first; none if the cluster is round.
    defining : tuple of Loading
        The features in which the members differ most from all other samples: the difference of
        the means over observed values, in standard deviations over all samples. Empty if there is
        one cluster.
    typical : tuple of int
        Rows that fit best, best first: by cost or, with own spreads, by density. Empty without
        samples.
    worst : tuple of int
        Rows that fit worst, worst first.
    levels : tuple of LevelShare
        Levels of categories that are clearly more or less frequent than in the other clusters,
        clearest first; empty for models without categories.
    missing : tuple of Missing
        Features that are missing clearly more or less often than in the other clusters, clearest
        first.
    mean : ndarray of shape (d,) or None
        Of the observed values of the members, in the units of the features; NaN if there are none.
        None without samples.
    missing_share : ndarray of shape (d,) or None
        Share of the members without a value; None if no value is missing.
    """

    label: int
    size: int
    share: float
    center: NDArray[Any]
    explained: float
    components: tuple[Component, ...]
    defining: tuple[Loading, ...]
    typical: tuple[int, ...]
    worst: tuple[int, ...]
    missing: tuple[Missing, ...] = ()
    mean: NDArray[Any] | None = None
    missing_share: NDArray[Any] | None = None
    levels: tuple[LevelShare, ...] = ()

    @property
    def round(self) -> bool:
        """Whether it has members but no components."""
        return self.size > 0 and not self.components

    def __str__(self) -> str:
        lines = [f"cluster {self.label}{self._head}"]
        if self.defining:
            lines.append(f"  unlike the rest  {_listed(self.defining)}")
        if self.levels:
            lines.append(f"  categories       {_listed(self.levels)}")
        if self.missing:
            lines.append(f"  missing values   {_listed(self.missing)}")
        for number, component in enumerate(self.components):
            head = f"component {number}".ljust(15)
            share = percent(component.share)
            lines.append(f"  {head}  {_listed(component.loadings)}  ({share})")
        if self.typical:
            lines.append(f"  typical rows     {_listed(self.typical)}")
            lines.append(f"  worst rows       {_listed(self.worst)}")
        return "\n".join(lines)

    @property
    def _head(self) -> str:
        kept = "round" if self.round else f"{percent(self.explained)} of its variance kept"
        return f": {counted(self.size, 'member')} ({percent(self.share)}), {kept}"

    def _repr_html_(self) -> str:
        return _notebook.card(
            _notebook.heading(f"cluster {self.label}", self._head), cluster_table([self])
        )


@dataclass(frozen=True, repr=False, eq=False)
class Description(DictMixin, Sequence[ClusterSummary]):
    """What a fitted model found: a sequence of :class:`ClusterSummary`, indexed by label.

    Attributes
    ----------
    model : str
        Name of the estimator.
    n_samples : int
        Sum of the sizes.
    feature_names : tuple of str
    clusters : tuple of ClusterSummary
        In the order of their labels.
    spread : ndarray of shape (d,)
        Standard deviation of each feature over all samples, in its units.
    """

    model: str
    n_samples: int
    feature_names: tuple[str, ...]
    clusters: tuple[ClusterSummary, ...]
    spread: NDArray[Any]

    def __len__(self) -> int:
        return len(self.clusters)

    def __getitem__(self, label: Any) -> Any:
        return self.clusters[label]

    def __repr__(self) -> str:
        return "\n\n".join([self.model + self._head, *map(str, self.clusters)])

    @property
    def _head(self) -> str:
        return (
            f": {self.n_samples} samples, {len(self.feature_names)} features, "
            f"{counted(len(self.clusters), 'cluster')}"
        )

    def _repr_html_(self) -> str:
        return _notebook.card(
            _notebook.heading(self.model, self._head), cluster_table(self.clusters)
        )

    def to_frame(self) -> Any:
        """One row for each cluster: size, share, explained variance, main features and centre.

        Returns
        -------
        pandas.DataFrame
            Indexed by the label; a column ``center_…`` for each feature.
        """
        pandas = import_optional("pandas")
        columns: dict[str, list[Any]] = {
            name: [getattr(cluster, name) for cluster in self.clusters]
            for name in ("size", "share", "explained")
        }
        columns["defining"] = [_listed(cluster.defining) for cluster in self.clusters]
        index = pandas.Index([cluster.label for cluster in self.clusters], name="cluster")
        centers = pandas.DataFrame(
            np.stack([cluster.center for cluster in self.clusters]),
            columns=[f"center_{name}" for name in self.feature_names],
            index=index,
        )
        return pandas.concat([pandas.DataFrame(columns, index=index), centers], axis=1)


def _listed(entries: tuple[Any, ...]) -> str:
    return ", ".join(map(str, entries))


def cluster_table(
    clusters: Sequence[ClusterSummary],
    *,
    n_components: int = MAX_COMPONENTS,
    max_rows: int = _notebook.MAX_ROWS,
) -> str:
    """One row for each cluster; empty columns are left out."""
    columns: dict[str, list[_notebook.Cell]] = {
        "cluster": [str(one.label) for one in clusters],
        "members": [str(one.size) for one in clusters],
        "share": [_notebook.Share(one.share) for one in clusters],
        "variance kept": ["round" if one.round else percent(one.explained) for one in clusters],
    }
    numbers = len(columns)
    columns |= {
        "unlike the rest": [tuple(map(str, one.defining)) for one in clusters],
        "categories": [tuple(map(str, one.levels)) for one in clusters],
        "missing values": [tuple(map(str, one.missing)) for one in clusters],
        "varies along": [_along(one, n_components) for one in clusters],
        "typical rows": [_listed(one.typical) for one in clusters],
        "worst rows": [_listed(one.worst) for one in clusters],
    }
    columns = {name: cells for name, cells in columns.items() if any(cells)}
    rows = list(zip(*columns.values(), strict=True))
    words = range(numbers, len(columns))
    return _notebook.table(list(columns), rows, words=words, max_rows=max_rows)


def _along(cluster: ClusterSummary, n_components: int) -> tuple[str, ...]:
    """A line for each of the first components, whose loadings are not broken."""
    lines = []
    for one in cluster.components[:n_components]:
        loadings = ", ".join(str(loading).replace(" ", "\u00a0") for loading in one.loadings)
        lines.append(f"{loadings} ({percent(one.share)})".replace(" %", "\u00a0%"))
    more = len(cluster.components) - len(lines)
    return (*lines, f"… and {more} more") if more > 0 else tuple(lines)


# Computation --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Directions:
    """Directions in which a cluster varies."""

    components: Array  # (h, d)
    variances: Array  # (h,)
    ratios: Array  # (h,)
    explained: float


@dataclass(frozen=True)
class _Statistics:
    """What a description is written from, on the scale of the model."""

    sizes: Array  # (k,)
    centers: Array  # (k, d)
    means: Array  # (k, d): of the members, or the centres without samples
    others: Array  # (k, d): mean of the samples of all other clusters
    spread: Array  # (d,): standard deviation over all samples
    missing: Array | None  # (2, k, d): share of missing values of the members, and of all others
    directions: list[_Directions]
    members: list[Array] | None = None  # rows of each cluster, lowest cost first


def _description(
    levels: list[list[LevelShare]],
    statistics: _Statistics,
    names: tuple[str, ...],
    scaling: Scaling,
    means: Array | None,
    spread: Array,
    n_features: int,
    n_members: int,
    name: str,
) -> Description:
    """``means`` (k, d) and ``spread`` (d,) of the samples are in the units of the features.

    ``levels`` are those of each cluster.
    """
    clusters, n = [], int(statistics.sizes.sum())
    for label, own in enumerate(statistics.directions):
        # Standard deviations over all samples are not zero where the centres differ.
        apart = in_units(statistics.means[label] - statistics.others[label], statistics.spread)
        missing, members = statistics.missing, np.empty(0, np.intp)
        if statistics.members is not None:
            members = statistics.members[label]
        components = zip(own.components, own.variances, own.ratios, strict=True)
        clusters.append(
            ClusterSummary(
                label=label,
                size=int(statistics.sizes[label]),
                share=float(statistics.sizes[label] / max(n, 1)),
                center=scaling.undo(statistics.centers[label]),
                explained=own.explained,
                components=tuple(
                    Component(
                        variance=float(variance),
                        share=float(ratio),
                        loadings=_largest(direction, names, n_features),
                        direction=direction,
                        step=scaling.undo_deviation(
                            statistics.centers[label], np.sqrt(max(variance, 0)) * direction
                        ),
                    )
                    for direction, variance, ratio in components
                ),
                defining=_largest(np.nan_to_num(apart), names, n_features),
                typical=tuple(members[:n_members].tolist()),
                worst=tuple(members[::-1][:n_members].tolist()),
                missing=() if missing is None else _missing(missing[:, label], names),
                mean=None if means is None else means[label],
                missing_share=None if missing is None else missing[0, label],
                levels=_clear(levels[label], n_features),
            )
        )
    return Description(name, n, names, tuple(clusters), spread)


def _model_levels(model: Any) -> list[list[LevelShare]]:
    """Of each cluster, the probabilities of all levels in it and in all others."""
    weights, names = np.asarray(model.weights_, np.float64), column_names(model)
    found: list[list[LevelShare]] = [[] for _ in weights]
    categories = categories_of(model)
    if categories is None:
        return found
    for column, levels, chances in zip(
        categories.columns, model.categories_, model.level_probabilities_, strict=True
    ):
        for label, here, others in _with_others(weights[:, None] * chances):
            found[label] += _shares(names[column.place], levels.tolist(), here, others)
    return found


def _observed_levels(samples: ClusteredSamples) -> list[list[LevelShare]]:
    """The same of the samples: shares of those whose level is known."""
    found: list[list[LevelShare]] = [[] for _ in range(samples.k)]
    for one in samples.categories:
        for label, here, others in _with_others(one.counts(samples.labels, samples.k)):
            found[label] += _shares(one.name, one.levels, here, others)
    return found


def _with_others(counts: Array) -> Iterator[tuple[int, Array, Array]]:
    """Clusters with their shares of levels, and those of all others, where there are both."""
    for label, own in enumerate(counts):
        others = np.delete(counts, label, axis=0).sum(0)
        if own.sum() > 0 and others.sum() > 0:
            yield label, own / own.sum(), others / others.sum()


def _shares(name: str, levels: Sequence[Any], here: Array, others: Array) -> list[LevelShare]:
    rows = zip(levels, here.tolist(), others.tolist(), strict=True)
    every = [LevelShare(name, *row) for row in rows]
    # Of two levels both say the same.
    return every if len(every) != 2 else [max(every, key=lambda one: one.effect)]


def _clear(levels: list[LevelShare], count: int) -> tuple[LevelShare, ...]:
    """Levels whose shares in a cluster and in all others clearly differ."""
    clear = [one for one in levels if abs(one.effect) >= MEDIUM_EFFECT]
    return tuple(sorted(clear, key=lambda one: -abs(one.effect))[:count])


def _missing(shares: Array, names: tuple[str, ...]) -> tuple[Missing, ...]:
    """Features whose shares (2, d) of missing values, here and elsewhere, clearly differ."""
    found = [Missing(*one) for one in zip(names, *shares.tolist(), strict=True)]
    found = [one for one in found if abs(one.effect) >= MEDIUM_EFFECT]
    return tuple(sorted(found, key=lambda one: -abs(one.effect)))


def _largest(values: Array, names: tuple[str, ...], count: int) -> tuple[Loading, ...]:
    """Features with the largest absolute values, without those that are zero."""
    order = np.argsort(-np.abs(values), kind="stable")[:count]
    return tuple(Loading(names[i], float(values[i])) for i in order if values[i] != 0)


def _model_statistics(model: Any) -> _Statistics:
    """From the parameters of a model."""
    if not is_linear(model):
        raise InvalidInputError(
            f"X must be given to describe a {type(model).__name__}, which has no components of its "
            "own; pass the samples of the fit."
        )
    centers, weights = _float64(model.cluster_centers_), _float64(model.weights_)
    sizes = np.asarray(model.cluster_sizes_)
    components, variances = _float64(model.components_), _float64(model.explained_variance_)
    # The rest of the variance is spread evenly over the directions off the components.
    along = np.einsum("kh,khd->kd", variances, components**2)
    inside = along + _float64(model.noise_variance_)[:, None] * (1 - (components**2).sum(1))
    variance = weights @ (np.clip(inside, 0, None) + (centers - weights @ centers) ** 2)
    return _Statistics(
        sizes=sizes,
        centers=centers,
        means=centers,
        others=means_of_others(weights, centers, centers),
        spread=np.sqrt(variance),
        missing=None,
        directions=_model_directions(model),
    )


def _sample_statistics(samples: ClusteredSamples) -> _Statistics:
    """From samples on the scale of the model."""
    centers = _float64(samples.model.cluster_centers_)
    order = np.lexsort((samples.misfit, samples.labels))
    members = np.split(order, np.cumsum(samples.sizes)[:-1])
    observed = Observed.of(samples)
    means = np.where(samples.sizes[:, None] > 0, observed.means, centers)
    if is_linear(samples.model):
        directions = _model_directions(samples.model)
    else:
        directions = [
            _reconstructed_directions(
                _float64(samples.values[own]), _float64(samples.reconstructions[own]), samples.h
            )
            for own in members
        ]
    return _Statistics(
        sizes=samples.sizes,
        centers=centers,
        means=means,
        others=means_of_others(observed.counts, means, means),
        spread=observed.spread,
        missing=None if samples.missing is None else observed.missing(samples.sizes),
        directions=directions,
        members=members,
    )


@dataclass(frozen=True, eq=False)
class Observed:
    """Moments of the observed values, without those that are imputed.

    Attributes
    ----------
    counts : ndarray of shape (k, d)
        Values in each cluster.
    means : ndarray of shape (k, d)
        NaN where there are none.
    spread : ndarray of shape (d,)
        Standard deviation over all samples; 0 for a constant feature.
    """

    counts: Array
    means: Array
    spread: Array

    @classmethod
    def of(cls, samples: ClusteredSamples) -> Observed:
        """In the units of the samples."""
        k, d = samples.k, samples.d
        counts = np.repeat(samples.sizes[:, None], d, axis=1)
        means = np.full((k, d), np.nan)
        for label in np.flatnonzero(samples.sizes).tolist():
            own = samples.labels == label
            values = samples.values[own]
            if samples.missing is None:
                means[label] = values.mean(0, dtype=np.float64)
                continue
            is_observed = ~samples.missing[own]
            counts[label] = is_observed.sum(0)
            sums = np.where(is_observed, values, 0).sum(0, dtype=np.float64)
            means[label] = np.where(counts[label] > 0, sums / np.maximum(counts[label], 1), np.nan)
        if samples.missing is None:
            return cls(counts, means, samples.spread)
        total = np.maximum(counts.sum(0), 1)
        mean = np.nansum(counts * means, axis=0) / total
        off = np.where(samples.missing, 0, samples.values - mean)
        spread = np.sqrt((off**2).sum(0, dtype=np.float64) / total)
        # ``samples.spread`` is 0 for features that vary by rounding errors only.
        return cls(counts, means, np.where(samples.spread > 0, spread, 0))

    def missing(self, sizes: Array) -> Array:
        """Share (2, k, d) of missing values of the members of each cluster, and of all others."""
        missing = sizes[:, None] - self.counts
        others = np.maximum(sizes.sum() - sizes, 1)[:, None]
        return np.stack(
            [missing / np.maximum(sizes, 1)[:, None], (missing.sum(0) - missing) / others]
        )

    @property
    def explained(self) -> float:
        """Share of the variance that is between the means of the clusters."""
        total = np.maximum(self.counts.sum(0), 1)
        means = np.nan_to_num(self.means)
        mean = (self.counts * means).sum(0) / total
        between = (self.counts * (means - mean) ** 2).sum(0) / total
        whole = float((self.spread**2).sum())
        return float(between.sum()) / whole if whole else 0.0


def means_of_others(sizes: Array, means: Array, centers: Array) -> Array:
    """Mean (k, d) of all samples outside each cluster; its own centre if there are none.

    Sizes are numbers of members (k,), or numbers of observed values (k, d).
    """
    counts = sizes[:, None] if sizes.ndim == 1 else sizes
    rest, own = counts.sum(0) - counts, counts * np.nan_to_num(means)
    sums = own.sum(0) - own
    return np.where(rest > 0, sums / np.where(rest > 0, rest, 1), centers)


def _model_directions(model: Any) -> list[_Directions]:
    ratios = _float64(model.explained_variance_ratio_)
    explained = np.clip(ratios.sum(1), 0, 1).tolist()
    columns = (_float64(model.components_), _float64(model.explained_variance_), ratios)
    # Clusters may have fewer components than the array holds.
    return [
        _Directions(rows[:h], variances[:h], shares[:h], kept)
        for rows, variances, shares, h, kept in zip(
            *columns, model.latent_dims_, explained, strict=True
        )
    ]


def _reconstructed_directions(x: Array, reconstructed: Array, h: int) -> _Directions:
    """Principal directions of the reconstructions (m, d) of members (m, d)."""
    if len(x) == 0:
        return _Directions(np.empty((0, x.shape[1])), np.empty(0), np.empty(0), 0.0)
    off = x - x.mean(0)
    total, error = float((off**2).sum()), float(((x - reconstructed) ** 2).sum())
    components = principal_directions(reconstructed - reconstructed.mean(0), h)
    along = ((off @ components.T) ** 2).sum(0)
    # Ordered by the variance of the members, as in a linear model.
    order = np.argsort(-along, kind="stable")
    components, along = components[order], along[order]
    if total == 0:
        return _Directions(components, along, along, 0.0)
    explained = min(max(1 - error / total, 0.0), 1.0)
    return _Directions(components, along / len(x), along / total, explained)


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


def _float64(values: Any) -> Array:
    return np.asarray(values, np.float64)
