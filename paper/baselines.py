"""What the estimators are set beside, each trained by a loop of its own.

The plain autoencoder is a fair opponent: the same networks and training, one for all samples.

The published code's settings, as far as they can be expressed here. What differs from ``TAE``: the
squared error is a *mean* over features while the penalty on the code is a sum, so that λ counts d
times; networks are small, without bias, and start at random; the code is free to shrink while the
decoder grows; labels come from networks that were trained on the samples they score; nothing
revives a cluster that runs empty; the single autoencoder is not centred. Learning rate and batch
size are not known: a usual rate stands in, with batches so small that the networks of the small
sets have come to rest at the end. The loop is written with ``tensorize``, as any loop of one's own
would be.

The relaxed run is training as section 2.3 of the paper describes it: a gradient step on the
weights of the linear model (Eq. 3, tied decoder), then one on S by options 1 and 2 of
``tensorae.assignment``. It is here to watch S, not to be fast; several starts run side by side.
"""

# r starts, n samples, k clusters, d features, h latent

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from sklearn.cluster import KMeans, kmeans_plusplus
from torch import Tensor, nn

from paper.problems import Problem
from tensorae import TAE, tensorize
from tensorae.assignment import RULES, AssignmentContext
from tensorae.deep.module import TensorizedAutoencoder
from tensorae.deep.schedule import Schedule

__all__ = [
    "CODE_LENGTHS", "LATENT_PENALTY", "PublishedFit", "RelaxedRun", "default_tae",
    "plain_autoencoder", "published_autoencoder_labels", "published_tae", "relaxed_run",
]  # fmt: skip

Array = np.ndarray

LATENT_PENALTY = 0.1

# TAE and the plain autoencoder ----------------------------------------------------------------

CODE_LENGTHS: dict[str, Callable[[Problem], int]] = {
    "AE1": lambda problem: problem.latent_dim,
    "AE2": lambda problem: problem.latent_dim * problem.n_clusters,
}


def default_tae(problem: Problem, seed: int, *, noise: float = 0.0) -> TAE:
    """``TAE`` as it comes, for the k, h and architecture of a problem."""
    return TAE(
        problem.n_clusters,
        problem.latent_dim,
        architecture=problem.architecture,
        input_shape=problem.input_shape,
        noise=noise,
        random_state=seed,
    )


def plain_autoencoder(
    problem: Problem, X: Array, seed: int, *, latent_dim: int, noise: float = 0.0
) -> TAE:
    """Train one autoencoder on all samples (n, d); codes have ``latent_dim`` numbers, at most d.

    It is ``TAE`` with a single cluster and no penalty: centred and scaled alike, started at the
    main directions alike, the same optimiser, batches and number of passes over the data.
    """
    plan = Schedule.plan(len(X), problem.n_clusters, n_copies=2)
    model = default_tae(problem, seed, noise=noise)
    model.set_params(
        n_clusters=1,
        latent_dim=min(latent_dim, X.shape[1]),
        latent_penalty=0.0,
        max_epochs=plan.learning_epochs + plan.closing_epochs,
    )
    return model.fit(X)


# The published settings -----------------------------------------------------------------------

EPOCHS = 200
CONV_EPOCHS = 40  # it collapses in the first few
BATCH_SIZE, IMAGE_BATCH_SIZE = 8, 32
LEARNING_RATE = 1e-3


@dataclass(frozen=True)
class PublishedFit:
    """Labels (n,) and the networks."""

    labels: Array
    module: TensorizedAutoencoder


def published_tae(
    problem: Problem, X: Array, seed: int, *, epochs: int | None = None
) -> PublishedFit:
    """Train k autoencoders on samples (n, d) by the published recipe."""
    rows = _as_published(problem, X)
    d, k = X.shape[1], problem.n_clusters
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = tensorize(
            _network(problem, d, problem.latent_dim),
            k,
            input_shape=problem.input_shape,
            latent_penalty=LATENT_PENALTY * d,
        )
        labels = _nearest_seed(rows, k, seed)
        optimizer = torch.optim.Adam(module.parameters(), lr=LEARNING_RATE)
        for _ in range(epochs or _epochs(problem)):
            _move_centers(module, rows, labels)
            for j, cluster in _members(labels, k):
                for batch in _batches(problem, cluster):
                    _step(optimizer, module.costs_of(j, rows[batch]).mean() / d)
            with torch.no_grad():
                labels = module.costs(rows).argmin(1)
    return PublishedFit(labels.numpy(), module)


def published_autoencoder_labels(problem: Problem, X: Array, seed: int) -> Array:
    """Train one published network on all samples, then run k-means on its codes (n,)."""
    rows = _as_published(problem, X)
    shape = problem.input_shape or (X.shape[1],)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        encoder, decoder = _network(problem, X.shape[1], problem.latent_dim)()
        parameters = [*encoder.parameters(), *decoder.parameters()]
        optimizer = torch.optim.Adam(parameters, lr=LEARNING_RATE)
        for _ in range(_epochs(problem)):
            for batch in _batches(problem, torch.arange(len(rows))):
                x = rows[batch].view(-1, *shape)
                _step(optimizer, nn.functional.mse_loss(decoder(encoder(x)), x))
        with torch.no_grad():
            codes = encoder(rows.view(-1, *shape)).double().numpy()
    labels: Array = KMeans(problem.n_clusters, n_init=10, random_state=seed).fit_predict(codes)
    return labels


def _step(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()


def _as_published(problem: Problem, X: Array) -> Tensor:
    """Rows as the published code takes them: grey values to 255 unless the output is squashed."""
    unit = 255 if problem.image_shape is not None and problem.architecture != "conv" else 1
    return unit * torch.as_tensor(X, dtype=torch.float32)


def _network(problem: Problem, d: int, h: int) -> Callable[[], tuple[nn.Module, nn.Module]]:
    if problem.architecture == "conv":
        return lambda: _convolutional(h)
    if problem.architecture == "linear":
        return lambda: (nn.Linear(d, h, bias=False), nn.Linear(h, d, bias=False))
    return lambda: (
        nn.Sequential(nn.Linear(d, h, bias=False), nn.ReLU()),
        nn.Linear(h, d, bias=False),
    )


def _convolutional(h: int) -> tuple[nn.Module, nn.Module]:
    """Networks for images of 28 x 28."""
    encoder = nn.Sequential(
        nn.Conv2d(1, 4, 5), nn.ReLU(), nn.Conv2d(4, 8, 5), nn.ReLU(), nn.Flatten(),
        nn.Linear(3200, h),
    )  # fmt: skip
    decoder = nn.Sequential(
        nn.Linear(h, 400), nn.ReLU(), nn.Linear(400, 4000), nn.ReLU(),
        nn.Unflatten(1, (10, 20, 20)),
        nn.ConvTranspose2d(10, 10, 5), nn.ConvTranspose2d(10, 1, 5), nn.Sigmoid(),
    )  # fmt: skip
    return encoder, decoder


def _epochs(problem: Problem) -> int:
    return CONV_EPOCHS if problem.architecture == "conv" else EPOCHS


def _nearest_seed(rows: Tensor, n_clusters: int, seed: int) -> Tensor:
    """Labels (n,) by the nearest of k seeds that k-means++ draws."""
    seeds, _ = kmeans_plusplus(rows.numpy(), n_clusters, random_state=seed)
    return torch.cdist(rows, torch.as_tensor(seeds)).argmin(1)


def _members(labels: Tensor, n_clusters: int) -> Iterator[tuple[int, Tensor]]:
    """Yield each cluster that has samples, with their indices."""
    for j in range(n_clusters):
        indices = (labels == j).nonzero()[:, 0]
        if len(indices):
            yield j, indices


def _move_centers(module: TensorizedAutoencoder, rows: Tensor, labels: Tensor) -> None:
    """Put each centre at the mean of its members; one without members stays."""
    centers = module.centers.reshape(module.n_clusters, -1).expand(-1, rows.shape[1]).clone()
    for j, cluster in _members(labels, module.n_clusters):
        centers[j] = rows[cluster].mean(0)
    module.set_centers(centers)


def _batches(problem: Problem, rows: Tensor) -> tuple[Tensor, ...]:
    size = IMAGE_BATCH_SIZE if problem.image_shape is not None else BATCH_SIZE
    batches: tuple[Tensor, ...] = rows[torch.randperm(len(rows))].split(size)
    return batches


# Section 2.3, step by step --------------------------------------------------------------------

STEPS = 1000
STARTS = 10
RELAXED_LEARNING_RATE = 0.03
# A step on S, in units of one over the mean cost.
STEP_ON_ASSIGNMENTS = 0.1


@dataclass(frozen=True)
class RelaxedRun:
    """Where a run ends, and the way there: the mean entropy of a row of S, step by step."""

    labels_: Array  # (n,)
    cluster_centers_: Array  # (k, d)
    components_: Array  # (k, h, d)
    loss_: float
    entropy_path_: Array  # (steps + 1,)


def relaxed_run(
    X: Array,
    n_clusters: int,
    latent_dim: int,
    rule: str,
    seed: int,
    *,
    starts: int = STARTS,
    steps: int = STEPS,
) -> RelaxedRun:
    """Train from several starts by ``rule``, "constrained" or "projected"; return the best run."""
    mean, unit = X.mean(axis=0), X.std(axis=0).mean()
    x = torch.as_tensor((X - mean) / unit, dtype=torch.float64)
    S = torch.stack([_half_uniform(x, n_clusters, starts * seed + r) for r in range(starts)])
    generator = torch.Generator().manual_seed(seed)
    shape = (starts, n_clusters, x.shape[1], latent_dim)
    weights = torch.randn(shape, generator=generator, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.Adam([weights], lr=RELAXED_LEARNING_RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    entropies = []
    for _ in range(steps):
        entropies.append(_entropies(S))
        centers = _means(x, S)
        optimizer.zero_grad()
        (S * _costs(x, centers, _directions(weights))).sum().div(len(x)).backward()
        optimizer.step()
        schedule.step()
        with torch.no_grad():
            costs = _costs(x, centers, _directions(weights))
            S = RULES[rule].function(costs, S, _context(costs, S))
    entropies.append(_entropies(S))
    with torch.no_grad():
        centers, components = _means(x, S), _directions(weights)
        losses = (S * _costs(x, centers, components)).sum((1, 2))
    best = int(losses.argmin())
    return RelaxedRun(
        S[best].argmax(1).numpy(),
        mean + unit * centers[best].numpy(),
        components[best].numpy(),
        float(losses[best]) * unit**2,
        torch.stack(entropies)[:, best].numpy(),
    )


def _half_uniform(x: Tensor, k: int, seed: int) -> Tensor:
    """Assignments (n, k), half on the nearest k-means++ seed and half on all clusters alike."""
    nearest = nn.functional.one_hot(_nearest_seed(x, k, seed), k)
    return 0.5 * nearest.to(x.dtype) + 0.5 / k


def _means(x: Tensor, S: Tensor) -> Tensor:
    """Centres (r, k, d): weighted means."""
    return S.mT @ x / S.sum(1)[..., None]


def _directions(weights: Tensor) -> Tensor:
    """Orthonormal rows (r, k, h, d) from free weights (r, k, d, h)."""
    rows: Tensor = torch.linalg.qr(weights).Q.mT
    return rows


def _costs(x: Tensor, centers: Tensor, components: Tensor) -> Tensor:
    """Costs (r, n, k): |x-C|² - (1-λ)|U(x-C)|², the bracket of Eq. 3 with V = U'."""
    offsets = x[None, :, None] - centers[:, None]
    codes = torch.einsum("rkhd,rnkd->rnkh", components, offsets)
    return offsets.square().sum(-1) - (1 - LATENT_PENALTY) * codes.square().sum(-1)


def _context(costs: Tensor, S: Tensor) -> AssignmentContext:
    mean_costs = (S * costs).sum((1, 2)) / S.shape[1]
    return AssignmentContext(STEP_ON_ASSIGNMENTS / mean_costs, S.mean(1).log(), mean_costs)


def _entropies(S: Tensor) -> Tensor:
    """Mean entropy of a row (r,) in nats."""
    entropies: Tensor = torch.special.entr(S).sum(-1).mean(-1)
    return entropies
