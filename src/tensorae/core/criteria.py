"""Rows -> their nearest neighbours -> how much a clustering cuts neighbours apart.

A likelihood likes "tight and diffuse": one narrow cluster, and a wide one around it that takes what
is left of several groups. The members of such a cluster have neighbours that are not its own.

Shapes: n samples, d features, m neighbours.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from scipy.spatial import cKDTree
from torch import Tensor

from tensorae.core.compress import RowSpace
from tensorae.core.families import Parameters, inverse_traces
from tensorae.core.missing import costs_with_missing, log_correction
from tensorae.core.mixture import Mixture, n_parameters
from tensorae.core.statistics import positive
from tensorae.data.rows import Chunk, Rows

__all__ = [
    "Criteria",
    "DEEP",
    "NeighborGraph",
    "SHALLOW",
    "TiedVariance",
    "agreement",
    "criteria_of",
    "gain_of_two",
    "lie_apart",
    "log_joint",
    "merged",
    "non_gaussianity",
    "tied_variance",
    "touching_share",
    "valley",
    "whitening",
]

NEIGHBORS = 10
# Rows that tell whether clusters lie apart, and the share of a cluster's neighbours that may be in
# others then.
LOOKED_AT, APART = 2000, 0.03
# In more features a tree is no faster than all distances, of which so many are held at a time.
TREE_WIDTH, DISTANCES = 8, 4_000_000
# Directions with less than this share of the largest variance are not blown up.
FLATTEST = 1e-9


@dataclass(frozen=True)
class NeighborGraph:
    """Nearest neighbours of the different ones among some rows.

    Rows that occur twice count as one of twice the weight: a copy is no neighbour.

    Attributes
    ----------
    places : Tensor of shape (q,)
        Where the different rows are.
    weights : Tensor of shape (q,)
    plain, white : Tensor of shape (q, m)
        Their neighbours, as rows are and with all variances made equal.
    """

    places: Tensor
    weights: Tensor
    plain: Tensor
    white: Tensor

    @classmethod
    def of(cls, x: Tensor, weights: Tensor) -> NeighborGraph:
        """Graph of centred rows (n, d) with weights (n,)."""
        x, weights = x.to(torch.float64), weights.to(torch.float64)
        axes = whitening(x, weights)
        different, copies = torch.unique(x, dim=0, return_inverse=True)
        places = torch.empty(len(different), dtype=torch.long, device=x.device)
        places[copies] = torch.arange(len(x), device=x.device)
        total = weights.new_zeros(len(different)).index_add_(0, copies, weights)
        present = total > 0
        different = different[present]
        return cls(
            places[present], total[present], _neighbors(different), _neighbors(different @ axes)
        )

    def cuts(self, labels: Tensor, n_clusters: int) -> tuple[float, float]:
        """Share of neighbours in other clusters, as a mean over clusters, in either graph.

        An empty cluster counts one.
        """
        labels = labels[self.places].long()
        counts = torch.zeros(n_clusters, dtype=torch.float64, device=labels.device)
        counts.index_add_(0, labels, self.weights)
        plain, white = (self._cut(graph, labels, counts) for graph in (self.plain, self.white))
        return plain, white

    def _cut(self, neighbors: Tensor, labels: Tensor, counts: Tensor) -> float:
        if not neighbors.numel():
            return 0.0
        elsewhere = (labels[neighbors] != labels.unsqueeze(1)).to(torch.float64).mean(1)
        sums = torch.zeros_like(counts).index_add_(0, labels, elsewhere * self.weights)
        return float(torch.where(counts > 0, sums / positive(counts), 1).mean())


def lie_apart(rows: Rows, order: Tensor, labels: Tensor) -> bool:
    """Tell whether no cluster shares neighbours with another, so that a search can end.

    A cluster that was cut in two shares many, and so do its parts.
    """
    chosen = order[:: max(1, len(order) // LOOKED_AT)]
    neighbors, labels = _neighbors(rows.select(chosen)), labels[chosen].long()
    if not neighbors.numel():
        return False
    elsewhere = (labels[neighbors] != labels.unsqueeze(1)).to(torch.float64).mean(1)
    k = int(labels.max()) + 1
    sums = elsewhere.new_zeros(k).index_add_(0, labels, elsewhere)
    return bool((sums <= APART * torch.bincount(labels, minlength=k)).all())


def agreement(first: Tensor, second: Tensor, weights: Tensor) -> float:
    """Adjusted Rand index of two sets of labels (n,): one where they say the same, zero by chance.

    Hubert and Arabie, "Comparing partitions", 1985; rows count as their weights (n,) say.
    """
    rows, columns = (labels.long() - int(labels.min()) for labels in (first, second))
    height, width = int(rows.max()) + 1, int(columns.max()) + 1
    cells = torch.zeros(height * width, dtype=torch.float64, device=first.device)
    table = cells.index_add_(0, rows * width + columns, weights.to(torch.float64)).view(
        height, width
    )
    together, in_first, in_second, pairs = (
        float((counts * (counts - 1) / 2).sum())
        for counts in (table, table.sum(1), table.sum(0), table.sum())
    )
    by_chance = in_first * in_second / max(pairs, 1.0)
    most = (in_first + in_second) / 2
    return 1.0 if most == by_chance else (together - by_chance) / (most - by_chance)


def whitening(x: Tensor, weights: Tensor) -> Tensor:
    """Matrix (d, d) that gives centred rows (n, d) the same variance in every direction."""
    weights = weights.to(x.dtype)
    values, vectors = torch.linalg.eigh((x * weights.unsqueeze(1)).mT @ x / weights.sum())
    floor = (FLATTEST * values[-1]).clamp(min=torch.finfo(x.dtype).tiny)
    axes: Tensor = vectors / values.clamp(min=floor).sqrt()
    return axes


def _neighbors(x: Tensor) -> Tensor:
    m = min(NEIGHBORS, len(x) - 1)
    if m < 1:
        return torch.empty(len(x), 0, dtype=torch.long, device=x.device)
    if x.shape[1] > TREE_WIDTH:
        found = [
            torch.cdist(part, x).topk(m + 1, dim=1, largest=False).indices
            for part in x.split(DISTANCES // len(x) + 1)
        ]
        return torch.cat(found)[:, 1:]
    points = x.cpu().numpy()
    return torch.as_tensor(cKDTree(points).query(points, m + 1)[1][:, 1:], device=x.device)


# Likelihood criteria: BIC, ICL -------------------------------------------------------------------
#
# A fitted model and rows -> what speaks for it, without labels.
#
# The likelihood alone always prefers more clusters and more parameters, and BIC, too, covers one
# cluster that is not Gaussian by several. The integrated completed likelihood (ICL; Biernacki,
# Celeux and Govaert, 2000) also charges the entropy of the assignments: to cut a box into two
# gains exactly as much density as it costs in entropy, so that only clusters with something
# between them pay.


@dataclass(frozen=True)
class Criteria:
    """What speaks for a model, and what it costs.

    Attributes
    ----------
    log_likelihood : float
        Of all rows, under the density of section 5.
    entropy : float
        Of the assignments of all rows: how unclear they are.
    n_parameters : int
    n : float
        How many rows the weights stand for.
    sizes : tuple of float
        Rows of which each cluster is the most probable one.
    hierarchical_price : float
        What parameters cost where those of a cluster are charged by its own size (J. Zhao, 2014).
    """

    log_likelihood: float
    entropy: float
    n_parameters: int
    n: float
    sizes: tuple[float, ...]
    hierarchical_penalty: float

    @property
    def penalty(self) -> float:
        """What the parameters cost."""
        return self.n_parameters * math.log(self.n) / 2

    @property
    def bic(self) -> float:
        """Bayesian information criterion: the lower the better."""
        return 2 * (self.penalty - self.log_likelihood)

    @property
    def hierarchical_bic(self) -> float:
        """Hierarchical BIC: the lower the better."""
        return 2 * (self.hierarchical_penalty - self.log_likelihood)

    @property
    def icl(self) -> float:
        """Integrated completed likelihood on the scale of BIC: the lower the better."""
        return self.bic + 2 * self.entropy


def log_joint(model: Mixture, x: Tensor) -> Tensor:
    """Log of weight times density (m, k) of rows (m, d + L) in each cluster of one start.

    Where values are missing (NaN), the density is that of the others.
    """
    holes = x.isnan()
    if not bool(holes.any()):
        return model.log_joint(model.costs(x))
    joint = model.log_joint(costs_with_missing(model, x))
    if not model.tied:
        return joint
    return joint + holes.sum(1, keepdim=True) * log_correction(model.unit)


def criteria_of(
    rows: Rows,
    parameters: Parameters,
    *,
    effective_n: float,
    tied: TiedVariance,
    given_penalty: bool = False,
    common: bool = False,
    level_parameters: int = 0,
) -> Criteria:
    """Evidence for the parameters of one start (no dimension of starts) on the rows they fit.

    Parameters
    ----------
    rows : Rows
        In the coordinates of the parameters.
    parameters : Parameters
    n_evidence : float
        How many rows the weights stand for.
    tied : TiedVariance
        Variance that values stand for: the likelihood is that of such intervals, not of points.
    given_penalty : bool
        Whether λ was given, not estimated.
    common : bool
        Whether own spreads are one, pooled over the clusters.
    level_parameters : int
        Free probabilities of the levels of categorical columns in a cluster.

    Returns
    -------
    Evidence
    """
    model, k = parameters.model, parameters.counts.shape[-1]
    if model.tied and model.n_features:  # own spreads have it already
        model = model.tied_with(noise=model.unit + tied.trace / model.n_features)
    likelihood, entropy = torch.zeros(2, dtype=torch.float64, device=rows.device)
    sizes = torch.zeros(k, dtype=torch.float64, device=rows.device)

    def add(sums: tuple[Tensor, ...], chunk: Chunk) -> None:
        joint = log_joint(model, chunk.observed.to(torch.float64))
        weights = chunk.weight.to(torch.float64)
        sums[0].add_(weights @ torch.logsumexp(joint, dim=1))
        sums[1].add_(weights @ torch.special.entr(joint.softmax(1)).sum(1))
        sums[2].index_add_(0, joint.argmax(1), weights)

    rows.reduce(add, (likelihood, entropy, sizes))
    likelihood -= sizes @ _tied_distances(model, tied) / 2
    rows_per_weight = effective_n / rows.total
    count = n_parameters(
        parameters.latent_dims.cpu().numpy(),
        parameters.n_features,
        own=not model.tied,
        penalty=float(model.latent_penalty),
        given=given_penalty,
        common=common,
        level_parameters=level_parameters,
    )
    own = (count - (k - 1)) / k
    logs = (parameters.counts * rows_per_weight).clamp(min=1).log().sum()
    return Criteria(
        log_likelihood=float(likelihood) * rows_per_weight,
        entropy=float(entropy) * rows_per_weight,
        n_parameters=count,
        n=effective_n,
        sizes=tuple((sizes * rows_per_weight).tolist()),
        hierarchical_penalty=(own * float(logs) + (k - 1) * math.log(effective_n)) / 2,
    )


def _tied_distances(model: Mixture, tied: TiedVariance) -> Tensor:
    """tr(Σ_j⁻¹ F), shape (k,): squared distances that the intervals of values add."""
    components = model.components.to(torch.float64)
    return inverse_traces(components, model.along, model.noise, tied.covariance, tied.trace)


# Separation of two clusters ----------------------------------------------------------------------
#
# Two clusters -> whether a valley lies between them, or one heap was cut in two.
#
# A likelihood covers one cluster that is not Gaussian, such as a skewed one, by two. Between
# clusters of their own lie fewer samples than in either. So samples of both are projected on the
# line that tells them apart, and three neighbouring windows of equal width are compared: z is how
# much fewer samples are in the middle one, in standard deviations. The line is found from one half
# of the samples and used for the other, since in many directions some line always shows a gap.

# Widths of the windows, as shares of the distance between the clusters' medians.
VALLEY_WIDTHS = (1 / 3, 1 / 4, 1 / 5, 1 / 6, 1 / 8)
PLACES = 41
# Ways to halve samples, which come in an order of their own.
HALVINGS = (1, 2, 3, 5, 7)
# Below this there is no valley, above the other there certainly is one.
SHALLOW, DEEP = 1.9, 3.5
# Nats per sample that two Gaussians gain over one where clusters of different shape touch.
SMALL_GAIN = 0.5


def valley(first: Tensor, second: Tensor) -> float:
    """z-score of the valley between two sets of samples, (n, d) and (m, d).

    The mean over several ways to halve them. One heap that was cut in two hardly ever gives more
    than 3.2, whatever its shape, size and number of features; the median is 1.7.
    """
    return sum(_halved_valley(first, second, run) for run in HALVINGS) / len(HALVINGS)


def _halved_valley(first: Tensor, second: Tensor, run: int) -> float:
    """Valley where runs of so many samples go to one half and then to the other."""
    one, two = (torch.arange(len(part), device=part.device) // run % 2 for part in (first, second))
    projected = []
    for half in (0, 1):
        line = _line(first[one != half], second[two != half])
        here, there = first[one == half] @ line, second[two == half] @ line
        if not here.numel() or not there.numel():
            return 0.0
        low, high = here.median(), there.median()
        if not bool(high > low):
            return 0.0
        projected.append((torch.cat([here, there]) - low) / (high - low))
    return _deepest(torch.cat(projected).sort().values)


def gain_of_two(first: Tensor, second: Tensor) -> float:
    """Nats per sample that two Gaussians gain over one, less BIC's price of the second.

    Samples are (n, d) and (m, d); each belongs to its own Gaussian.
    """
    both = torch.cat([first, second])
    n, d = both.shape
    prior = _scatter(both) / n
    prior = prior + 1e-9 * prior.diagonal().mean() * torch.eye(d, dtype=prior.dtype).to(prior)
    share = len(first) / n
    shares = torch.tensor([share, 1 - share])
    volumes = [_log_volume(part, prior) for part in (both, first, second)]
    gain = (volumes[0] - share * volumes[1] - (1 - share) * volumes[2]) / 2
    penalty = (1 + d + d * (d + 1) / 2) * torch.tensor(float(n)).log() / (2 * n)
    return float(gain) - float(torch.special.entr(shares).sum()) - float(penalty)


def _line(first: Tensor, second: Tensor) -> Tensor:
    """Fisher's direction (d,) between two sets of samples; covariances are shrunk a little."""
    if not len(first) or not len(second):
        return first.new_ones(first.shape[1])
    n, d = len(first) + len(second), first.shape[1]
    within = (_scatter(first) + _scatter(second)) / max(n, 1)
    ridge = within.diagonal().sum() / max(n, 1)
    tiny = torch.finfo(within.dtype).tiny
    eye = torch.eye(d, dtype=within.dtype, device=within.device)
    step = second.mean(0) - first.mean(0)
    line: Tensor = torch.linalg.solve(within + (ridge + tiny) * eye, step)
    return line


def _deepest(points: Tensor) -> float:
    """Largest z-score of a middle window between 0 and 1 of sorted points (n,)."""
    scores = []
    for width in VALLEY_WIDTHS:
        centers = torch.linspace(width / 2, 1 - width / 2, PLACES).to(points)
        # Samples at the medians themselves, all of them maybe, are in the outer windows.
        sides = torch.tensor([[-1.5 - 1e-6], [-0.5], [0.5], [1.5 + 1e-6]]).to(points)
        edges = centers + width * sides
        counts = torch.searchsorted(points, edges).diff(dim=0)
        beside, middle = torch.minimum(counts[0], counts[2]), counts[1]
        scores.append((beside - middle) / (beside + middle).clamp(min=1).sqrt())
    return float(torch.cat(scores).max())


def _scatter(x: Tensor) -> Tensor:
    """Scatter matrix (d, d) about the mean."""
    centered = x - x.mean(0)
    return centered.mT @ centered


def _log_volume(x: Tensor, prior: Tensor) -> Tensor:
    """Log-determinant of the covariance, with one sample more as the prior says."""
    volume: Tensor = torch.linalg.slogdet((_scatter(x) + prior) / (len(x) + 1)).logabsdet
    return volume


def merged(x: Tensor, labels: Tensor) -> Sequence[Tensor]:
    """Samples (m, d) of each cluster, after all pairs that are one heap were put together.

    A pair is one heap where it has no valley and two Gaussians gain little over one: clusters of
    different shape may touch without a valley.
    """
    parts = [x[labels == j] for j in labels.unique()]
    pairs = {(a, b): _pair(parts[a], parts[b]) for b in range(len(parts)) for a in range(b)}
    alive = set(range(len(parts)))
    while True:
        heaps = {pair: g for pair, (z, g) in pairs.items() if z < SHALLOW and g < SMALL_GAIN}
        if not heaps:
            return [parts[j] for j in sorted(alive)]
        a, b = min(heaps, key=lambda pair: heaps[pair])
        # In turns, so that halves of the whole are halves of both.
        parts[a] = torch.cat([parts[a], parts[b]])
        alive.remove(b)
        pairs = {pair: found for pair, found in pairs.items() if not {a, b} & set(pair)}
        for c in alive - {a}:
            low, high = min(a, c), max(a, c)
            pairs[low, high] = _pair(parts[low], parts[high])


def _pair(first: Tensor, second: Tensor) -> tuple[float, float]:
    return valley(first, second), gain_of_two(first, second)


# Diagnostics of the chosen clusters --------------------------------------------------------------
#
# Clusters -> whether they are blobs at all, or pieces of rings, spirals and other shapes.

# Samples of a cluster that its density is estimated from, and how few say nothing.
MOST_SAMPLES, LEAST_SAMPLES = 200, 10
# Widths of the kernels, in standard deviations; the best one counts.
KERNEL_WIDTHS = (0.08, 0.12, 0.18, 0.27, 0.4, 0.6, 0.9)
# In more features kernels say nothing.
MOST_FEATURES = 10


def touching_share(x: Tensor, labels: Tensor) -> float:
    """Share of the samples (n, d) whose cluster has another one with no valley in between."""
    names = labels.unique().tolist()
    parts = {name: x[labels == name] for name in names}
    touch = {
        name
        for place, first in enumerate(names)
        for second in names[:place]
        if valley(parts[second], parts[first]) < SHALLOW
        for name in (first, second)
    }
    return sum(len(parts[name]) for name in touch) / len(x)


def non_gaussianity(x: Tensor, labels: Tensor) -> float:
    """How much closer than Gaussians kernels come to the clusters, in nats per number in X.

    The density at each sample is estimated from the others of its cluster.
    """
    n, d = x.shape
    if d > MOST_FEATURES:
        return 0.0
    gained = 0.0
    for name in labels.unique().tolist():
        members = x[labels == name]
        gained += len(members) * _gain_of_kernels(members)
    return gained / (n * d)


def _gain_of_kernels(x: Tensor) -> float:
    """Leave-one-out kernel log-density less Gaussian log-density, nats per sample."""
    x = x[:: -(-len(x) // MOST_SAMPLES)]
    n, d = x.shape
    x = x - x.mean(0)
    covariance = x.mT @ x / n
    values, vectors = torch.linalg.eigh(covariance)
    if n < LEAST_SAMPLES or not bool(values[0] > 1e-9 * values[-1]):
        return 0.0  # a plane has no density
    white = x @ vectors / values.sqrt()
    squares = torch.cdist(white, white).square().fill_diagonal_(torch.inf)
    nearest = squares.amin(1)
    best = max(
        float(
            (
                (-(squares - nearest[:, None]) / (2 * width**2)).exp().sum(1).log()
                - nearest / (2 * width**2)
            ).mean()
            - d * torch.tensor(width).log()
        )
        for width in KERNEL_WIDTHS
    )
    by_gaussian = -float(white.square().sum(1).mean()) / 2
    return best - float(torch.tensor(float(n - 1)).log()) - by_gaussian


# Columns with tied values ------------------------------------------------------------------------
#
# Columns with tied values -> the variance that such values stand for.
#
# The density of a Gaussian on a single value has no bound. Where many rows share a value (yes/no
# columns, counts, columns of mostly zeros), a cluster of those rows would therefore win every
# comparison of likelihoods. So a value is taken for an interval around it, as rounding makes one:
# adding the variance f of that interval to a column with variance v leaves at most log(1 + v/f) / 2
# nats per row to be gained by putting equal values together. With
#
#     f = v ρ² / (1 - ρ²),    ρ the probability that two random rows have the same value,
#
# that is -log ρ, the Rényi entropy of the values, which no clustering can exceed. For m equally
# frequent values in equal steps it is the variance step²/12 of rounding, as in Sheppard's
# correction, and for continuous columns it is zero.

# Share of the rows from which on a value counts as tied; ties of a few rows are rounding.
TIED_SHARE = 0.02
# Values that are looked at.
ENTRIES = 2_000_000
# Digits of a row beyond these, in units of the data's extent, count as random.
DIGITS = 1000


class TiedVariance(NamedTuple):
    """Intervals that tied values stand for."""

    variances: Tensor  # (d,), variance of a uniform place inside them, for each column
    covariance: Tensor  # (p, p), the same in the coordinates of the rows
    trace: float  # sum of the variances
    steps: Tensor  # (d, p), half the interval of each column, in these coordinates
    unit: Tensor  # (), extent of the data

    def dithered(self, x: Tensor) -> Tensor:
        """Rows (n, p) at a random place of their intervals, the same for equal rows.

        Neighbourhoods and valleys then are those of the intervals, too. What is random comes from
        the other digits of the row, so that neither order nor copies of rows matter.
        """
        if not self.trace:
            return x
        mix = np.random.RandomState(0).standard_normal((x.shape[1], len(self.steps)))
        places = (DIGITS * (x / self.unit) @ torch.as_tensor(mix).to(x)).frac().abs()
        return x + (2 * places - 1) @ self.steps.to(x)


def tied_variance(sample: Rows, span: RowSpace | None = None) -> TiedVariance:
    """Variance that the values of each column of a sample stand for.

    The sample is centred, in an order in which copies of a row come one after the other; ``span``
    is the plane in whose coordinates it is, if any.
    """
    x, weights = (
        sample.numbers().observed().to(torch.float64),
        sample.weights.to(torch.float64),
    )
    step = max(1, x.numel() // ENTRIES)
    x, weights = x[::step], weights[::step]
    if span is not None:  # ties are those of the columns, not of the coordinates of their span
        x = x @ span.axes.to(torch.float64)
        unit = 1e-9 * x.abs().amax().clamp(min=torch.finfo(torch.float64).tiny)
        x = (x / unit).round() * unit
    there = ~x.isnan()
    x, weights = x.nan_to_num(0.0), weights.unsqueeze(1) * there
    shares = weights / weights.sum(0).clamp(min=torch.finfo(torch.float64).tiny)
    variances = (shares * (x - (shares * x).sum(0)).square()).sum(0)
    rho = _collisions(torch.where(there, x, torch.inf), shares)
    floor = variances * rho**2 / (1 - rho**2).clamp(min=1e-3)
    axes = torch.eye(len(floor)).to(floor) if span is None else span.axes.to(torch.float64)
    return TiedVariance(
        variances=floor,
        covariance=(axes * floor) @ axes.mT,
        trace=float(floor.sum()),
        steps=(3 * floor).sqrt().unsqueeze(1) * axes.mT,
        unit=variances.sum().sqrt(),
    )


def _collisions(x: Tensor, shares: Tensor) -> Tensor:
    """Probability (d,) that two random rows of (n, d) are tied.

    Values of a single row are no ties, however often the row occurs.
    """
    different = torch.ones_like(shares)
    different[1:] = (x[1:] != x[:-1]).any(1, keepdim=True).to(shares)
    ordered, order = x.sort(0)
    changes = torch.zeros_like(order)
    changes[1:] = ordered[1:] != ordered[:-1]
    value = changes.cumsum(0)
    total, n_rows = (
        torch.zeros_like(shares).scatter_add_(0, value, part.gather(0, order))
        for part in (shares, different)
    )
    return torch.where((total >= TIED_SHARE) & (n_rows > 1), total, 0).square().sum(0)
