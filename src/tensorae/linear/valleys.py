"""Two clusters -> whether a valley lies between them, or one heap was cut in two.

A likelihood covers one cluster that is not Gaussian, such as a skewed one, by two. Between clusters
of their own lie fewer samples than in either. So samples of both are projected on the line that
tells them apart, and three neighbouring windows of equal width are compared: z is how much fewer
samples are in the middle one, in standard deviations. The line is found from one half of the
samples and used for the other, since in many directions some line always shows a gap.

Shapes: n samples, d features.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

__all__ = ["DEEP", "SHALLOW", "gain_of_two", "merged", "valley"]

# Widths of the windows, as shares of the distance between the clusters' medians.
WIDTHS = (1 / 3, 1 / 4, 1 / 5, 1 / 6, 1 / 8)
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
    price = (1 + d + d * (d + 1) / 2) * torch.tensor(float(n)).log() / (2 * n)
    return float(gain) - float(torch.special.entr(shares).sum()) - float(price)


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
    for width in WIDTHS:
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
