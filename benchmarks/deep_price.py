"""What k autoencoders cost: whole fits of TAE in units of training one plain autoencoder.

Parts: "price" (k = 10, two architectures), "loss" (what the naive loop over k reaches), "growth"
(k from 2 to 50) and "clustpy" (DCN and DEC of ClustPy, where it is installed). Each part is kept,
so they can be run one by one, with another interpreter where ClustPy lives elsewhere.
"""

# n samples, k clusters, d features, h latent

from __future__ import annotations

import argparse
import functools
import importlib.metadata
import importlib.util
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from _common import (
    RESULTS,
    Timing,
    duration,
    interleave,
    limited_threads,
    parser,
    progress,
    publish,
    spread,
    table,
)
from _deep import BATCH_SIZE, LEARNING_RATE, StartRecord, plain_autoencoder, start_on_record
from _problems import clustered_subspaces, random_rows
from sklearn.metrics import adjusted_rand_score
from torch import Tensor

from tensorae import TAE, tensorize
from tensorae.datasets import load_mnist
from tensorae.deep.architectures import built_in
from tensorae.deep.directions import principal_directions
from tensorae.deep.module import TensorizedAutoencoder

Array = np.ndarray

LATENT_DIM, WIDTH, PENALTY = 10, 256, 0.1
IMAGE = (1, 28, 28)
SHAPES = {"mlp": None, "conv": IMAGE}
GROWTH = (2, 5, 10, 20, 50)
# Share of the epochs on fixed assignments, the learning rate falling to zero, as in TAE.
CLOSING_SHARE = 0.2
# ClustPy's defaults are 100 epochs of pre-training and 150 of clustering.
PRETRAINING_SHARE = 0.4


@dataclass(frozen=True)
class Data:
    """Rows to train on, and the classes where there are any."""

    X: Array
    y: Array | None
    source: str


# Competitors --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TaeRun:
    """A fitted model, where it began, and what its parts took."""

    model: TAE
    start: StartRecord
    epochs: float


def fit_tae(X: Array, architecture: str, k: int, *, epochs: int, seed: int) -> TaeRun:
    """Fit with all epochs: patience never ends it, so that epochs are equal."""
    model = TAE(
        k,
        LATENT_DIM,
        architecture=architecture,
        latent_penalty=PENALTY,
        input_shape=SHAPES[architecture],
        max_epochs=epochs,
        batch_size=BATCH_SIZE,
        patience=epochs,
        random_state=seed,
    )
    with start_on_record() as start:
        model.fit(X)
    assert model.n_iter_ == epochs
    return TaeRun(model, start, sum(model.history_["seconds"]))


def fit_plain(X: Array, architecture: str, *, epochs: int, seed: int) -> Any:
    return plain_autoencoder(
        X, architecture, LATENT_DIM, epochs=epochs, shape=SHAPES[architecture], seed=seed
    )


class NaiveLoop:
    """The meta-algorithm as it is written: each mixed batch goes through all k autoencoders.

    Parameters
    ----------
    X : array of shape (n, d)
    labels : array of shape (n,)
        First labels; S is their one-hot form.
    architecture : str
    k, batch_size : int
    """

    def __init__(
        self, X: Array, labels: Array, architecture: str, k: int, batch_size: int = BATCH_SIZE
    ) -> None:
        torch.manual_seed(0)
        self.batch_size = batch_size
        rows = torch.as_tensor(X, dtype=torch.float64)
        rows = rows - rows.mean(0)
        self.unit = float(rows.square().mean().sqrt())
        self.x, self.labels = (rows / self.unit).float(), torch.as_tensor(labels).long()
        shape = SHAPES[architecture] or (X.shape[1],)
        make = built_in(architecture, shape, LATENT_DIM)
        self.module: TensorizedAutoencoder = tensorize(make, k, input_shape=shape)
        self.place_centers()
        offsets = self.x - self.module.centers.flatten(1)[self.labels]
        self.module.scale = offsets.square().mean().sqrt()
        for j in range(k):
            network: Any = self.module.autoencoders[j]
            network.start_from(principal_directions(offsets[self.labels == j], LATENT_DIM))
        self.optimizer = torch.optim.Adam(self.module.parameters(), lr=LEARNING_RATE, fused=True)

    def place_centers(self) -> None:
        """Move centres to the means of their members; one without members stays."""
        centers = self.module.centers.flatten(1).clone()
        for j in self.labels.unique().tolist():
            centers[j] = self.x[self.labels == j].mean(0)
        self.module.set_centers(centers)

    def run_epoch(self, lr: float = LEARNING_RATE, *, refresh: bool = False) -> None:
        """Take a step per batch on the sum of S * costs; then S and C follow where asked to."""
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        k = self.module.n_clusters
        assignments = torch.nn.functional.one_hot(self.labels, k).float()
        cheapest = self.labels.clone()
        for batch in torch.randperm(len(self.x)).split(self.batch_size):
            costs = self.costs(self.x[batch])
            loss = (assignments[batch] * costs).sum(1).mean()
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()
            self.optimizer.step()
            cheapest[batch] = costs.detach().argmin(1)
        if refresh:
            self.labels = cheapest
            self.place_centers()

    def costs(self, x: Tensor) -> Tensor:
        """Costs (m, k), in units of the scale: what TAE minimises too."""
        return torch.stack(objectives(self.module, x, PENALTY), dim=1)

    def loss(self) -> float:
        """Sum of the smallest costs, in units of the data."""
        return self.unit**2 * smallest_costs(self.module, self.x, PENALTY)


def objectives(module: TensorizedAutoencoder, x: Tensor, penalty: float) -> list[Tensor]:
    """Cost (m,) of rows under each autoencoder, codes measured by what they decode to."""
    seen = [(x - center) / module.scale for center in module.centers.flatten(1)]
    return [
        module.objective(j, module.shaped(u), module.shaped(u), penalty) for j, u in enumerate(seen)
    ]


def smallest_costs(module: TensorizedAutoencoder, x: Tensor, penalty: float) -> float:
    """Sum over rows of the smallest cost, in units of the rows."""
    module.eval()
    with torch.no_grad():
        parts = [torch.stack(objectives(module, part, penalty)).amin(0) for part in x.split(1000)]
    module.train()
    return float(module.scale) ** 2 * float(torch.cat(parts).double().sum())


# Part "price" -------------------------------------------------------------------------------------

PRICE_COLUMNS = [
    "architecture", "epochs", "plain autoencoder", "TAE", "TAE / plain", "to reach", "reached",
    "start", "epochs with refreshes", "rest", "naive loop / plain",
]  # fmt: skip

PRICE_NOTE = """\
## Price

Whole fits from an array, k = {k}, {rows}, h = {h} (mlp: {d}-{width}-{h}), batches of {batch}, equal
epochs. TAE: `fit` with its linear start, all refreshes and the final assignment. Plain: one
autoencoder of the same built-in architecture, centred and scaled in the same way, Adam with a fused
step, no noise. They take turns, {rounds} rounds: medians, and ratios round by round as median
[lowest, highest]. The three columns after "reached" split TAE / plain: linear start, epochs with
the refreshes, and the rest (checks, closing assignment, publishing). The naive loop sends each
mixed batch through all k autoencoders; {naive} of its epochs timed and scaled."""


def price_rows(data: Data, arguments: argparse.Namespace) -> str:
    rows = []
    for architecture in arguments.architectures:
        epochs = arguments.conv_epochs if architecture == "conv" else arguments.epochs
        progress(f"price, {architecture}, {epochs} epochs")
        rows.append(price_row(data.X, architecture, epochs, arguments))
    note = PRICE_NOTE.format(
        k=arguments.clusters,
        rows=data.source,
        d=data.X.shape[1],
        h=LATENT_DIM,
        width=WIDTH,
        batch=BATCH_SIZE,
        rounds=arguments.repeats,
        naive=arguments.naive_timed,
    )
    return f"{note}\n\n{table(PRICE_COLUMNS, rows)}"


def price_row(X: Array, architecture: str, epochs: int, arguments: argparse.Namespace) -> list[str]:
    k = arguments.clusters
    timings = raced(X, architecture, k, epochs, arguments.repeats)
    tae, plain = timings["TAE"], timings["plain"].seconds
    ratio = tae.seconds / plain
    starts = np.array([run.start.seconds for run in tae.returned]) / plain
    trained = np.array([run.epochs for run in tae.returned]) / plain
    progress(f"naive loop, {architecture}")
    naive = naive_seconds(X, tae.returned[0], architecture, k, arguments.naive_timed)
    shares = (starts, trained, ratio - starts - trained)
    return [
        architecture,
        str(epochs),
        duration(float(np.median(plain))),
        duration(float(np.median(tae.seconds))),
        spread(ratio),
        "≤ 1.5, aim 1.2",
        "yes" if np.median(ratio) <= 1.5 else "NO",
        *(f"{np.median(share):.2f}" for share in shares),
        f"{naive * epochs / float(np.median(plain)):.1f}",
    ]


def raced(X: Array, architecture: str, k: int, epochs: int, rounds: int) -> dict[str, Timing]:
    """Time whole trainings in turn; a small one before loads what is loaded once."""
    few = X[: max(20 * k, 200)]
    fit_tae(few, architecture, k, epochs=1, seed=0)
    fit_plain(few, architecture, epochs=1, seed=0)
    competitors: dict[str, Callable[[int], Any]] = {
        "plain": lambda seed: fit_plain(X, architecture, epochs=epochs, seed=seed),
        "TAE": lambda seed: fit_tae(X, architecture, k, epochs=epochs, seed=seed),
    }
    return interleave(competitors, rounds=rounds, warm_up=False)


def naive_seconds(X: Array, run: TaeRun, architecture: str, k: int, epochs: int) -> float:
    """Seconds of one epoch of the naive loop, from the same first labels."""
    loop = NaiveLoop(X, run.start.labels_of(X), architecture, k)
    began = time.perf_counter()
    for _ in range(epochs):
        loop.run_epoch()
    return (time.perf_counter() - began) / epochs


# Part "loss" --------------------------------------------------------------------------------------

NAIVE_LOOPS = {
    "naive, S of the start": {},
    "naive, S refreshed": {"refresh": True},
    "naive, S refreshed, batches of 64 k": {"refresh": True, "wide": True},
}
LOSS_COLUMNS = ["seed", "start", "TAE", *NAIVE_LOOPS, *(f"TAE / {name}" for name in NAIVE_LOOPS)]

LOSS_NOTE = """\
## Loss beside the naive loop

{rows} rows, mlp, k = {k}, {epochs} epochs, the same first labels and networks that begin as the
main directions of their clusters. Naive loop: each mixed batch through all k autoencoders, loss =
sum of S * costs, no noise, the learning rate falling to zero in the last half of the epochs; S is
that of the start, or is refreshed (with the centres) after every epoch before that half. With
batches of 64 its networks take n / 64 steps an epoch, with batches of 64 k as many as those of TAE,
whose batches of 64 are of one cluster: n / (64 k). Loss: sum over samples of the smallest cost,
codes measured by what they decode to; "start" is that of the networks before training. `loss_` of
TAE differs from its column by {gap:.2g} % at most. To reach: at most 1.01."""


def loss_rows(data: Data, arguments: argparse.Namespace) -> str:
    k, epochs = arguments.clusters, arguments.naive_epochs
    X = random_rows(data.X, min(arguments.naive_rows, len(data.X)))
    rows, gaps = [], []
    for seed in range(arguments.repeats):
        progress(f"loss, seed {seed}: TAE")
        run = fit_tae(X, "mlp", k, epochs=epochs, seed=seed)
        ours = tae_loss(run.model, X)
        gaps.append(100 * abs(run.model.loss_ / ours - 1))
        labels = run.start.labels_of(X)
        progress(f"loss, seed {seed}: naive loop")
        losses = [naive_loss(X, labels, k, epochs, **how) for how in NAIVE_LOOPS.values()]
        start = NaiveLoop(X, labels, "mlp", k).loss()
        rows.append(
            [str(seed)]
            + [f"{loss:.0f}" for loss in (start, ours, *losses)]
            + [f"{ours / loss:.3f}" for loss in losses]
        )
    note = LOSS_NOTE.format(rows=f"{len(X):,}", k=k, epochs=epochs, gap=max(gaps))
    return f"{note}\n\n{table(LOSS_COLUMNS, rows)}"


def tae_loss(model: TAE, X: Array) -> float:
    """The loss of a fitted model by the formula that the naive loop is measured by."""
    module = model.module_
    x = torch.as_tensor(X, dtype=module.scale.dtype)
    return smallest_costs(module, x, float(module.latent_penalty))


def naive_loss(
    X: Array, labels: Array, k: int, epochs: int, *, refresh: bool = False, wide: bool = False
) -> float:
    loop = NaiveLoop(X, labels, "mlp", k, k * BATCH_SIZE if wide else BATCH_SIZE)
    closing = int(CLOSING_SHARE * epochs)
    for epoch in range(epochs):
        left = epochs - epoch
        lr = LEARNING_RATE * min(1.0, left / closing) if closing else LEARNING_RATE
        loop.run_epoch(lr, refresh=refresh and left > closing)
    return loop.loss()


# Part "growth" ------------------------------------------------------------------------------------

GROWTH_COLUMNS = ["k", "plain autoencoder", "TAE", "TAE / plain",
                  "start", "epochs with refreshes", "rest"]  # fmt: skip

GROWTH_NOTE = """\
## Growth with k

As above, mlp, {epochs} epochs. The start does not grow with the epochs: at few of them its share is
larger."""


def growth_rows(data: Data, arguments: argparse.Namespace) -> str:
    rows = []
    for k in arguments.growth:
        progress(f"growth, k = {k}")
        timings = raced(data.X, "mlp", k, arguments.growth_epochs, arguments.repeats)
        tae, plain = timings["TAE"], timings["plain"].seconds
        ratio = tae.seconds / plain
        starts = np.array([run.start.seconds for run in tae.returned]) / plain
        trained = np.array([run.epochs for run in tae.returned]) / plain
        rows.append(
            [
                str(k),
                duration(float(np.median(plain))),
                duration(float(np.median(tae.seconds))),
                spread(ratio),
                *(f"{np.median(s):.2f}" for s in (starts, trained, ratio - starts - trained)),
            ]
        )
    note = GROWTH_NOTE.format(epochs=arguments.growth_epochs)
    return f"{note}\n\n{table(GROWTH_COLUMNS, rows)}"


# Part "clustpy" -----------------------------------------------------------------------------------

CLUSTPY_NOTE = """\
## Beside ClustPy

k = {k}, {rows}, layers {layers}, {epochs} epochs (ClustPy: {first} of pre-training and {second} of
clustering, in the proportion of its defaults), batches of {batch}, clustpy {version}, torch
{torch}. Whole fits in turn, {rounds} rounds. To reach: above 1."""


def clustpy_rows(data: Data, arguments: argparse.Namespace) -> str | None:
    if importlib.util.find_spec("clustpy") is None:
        progress("ClustPy is not installed: its part is left as it is")
        return None
    from clustpy.deep import DCN, DEC
    from clustpy.deep.neural_networks import FeedforwardAutoencoder

    X, k, epochs = data.X, arguments.clusters, arguments.epochs
    first = int(PRETRAINING_SHARE * epochs)
    layers = [X.shape[1], WIDTH, LATENT_DIM]
    scaled = ((X - X.mean(0)) / (X - X.mean(0)).std()).astype(np.float32)
    network = functools.partial(FeedforwardAutoencoder, layers)

    def peer(method: Callable[..., Any]) -> Callable[[int], Any]:
        def run(seed: int) -> Any:
            model = method(
                k,
                batch_size=BATCH_SIZE,
                pretrain_epochs=first,
                clustering_epochs=epochs - first,
                neural_network=network(random_state=seed),
                embedding_size=LATENT_DIM,
                random_state=seed,
                device=torch.device("cpu"),
            )
            return model.fit(scaled)

        return run

    progress("ClustPy")
    competitors: dict[str, Callable[[int], Any]] = {
        "TAE": lambda seed: fit_tae(X, "mlp", k, epochs=epochs, seed=seed).model,
        "DCN": peer(DCN),
        "DEC": peer(DEC),
    }
    timings = interleave(competitors, rounds=arguments.repeats, warm_up=False)
    rows = [
        [
            name,
            duration(float(np.median(timing.seconds))),
            spread(timing.seconds / timings["TAE"].seconds),
            ari(data.y, timing.returned),
        ]
        for name, timing in timings.items()
    ]
    note = CLUSTPY_NOTE.format(
        k=k,
        rows=data.source,
        layers="-".join(map(str, layers)),
        epochs=epochs,
        first=first,
        second=epochs - first,
        batch=BATCH_SIZE,
        version=importlib.metadata.version("clustpy"),
        torch=torch.__version__,
        rounds=arguments.repeats,
    )
    return f"{note}\n\n{table(['method', 'seconds', 'time / TAE', 'ARI'], rows)}"


def ari(y: Array | None, models: list[Any]) -> str:
    if y is None:
        return "–"
    return f"{np.mean([adjusted_rand_score(y, model.labels_) for model in models]):.3f}"


# Command line -------------------------------------------------------------------------------------

PARTS: dict[str, Callable[[Data, argparse.Namespace], str | None]] = {
    "price": price_rows,
    "loss": loss_rows,
    "growth": growth_rows,
    "clustpy": clustpy_rows,
}


def load_data(arguments: argparse.Namespace) -> Data:
    """MNIST, ten thousand images where its files are and five thousand else, or random rows."""
    if arguments.synthetic:
        X = clustered_subspaces(10_000, 784, 10)[: arguments.rows]
        return Data(X, None, f"{len(X):,} x 784 random rows")
    bunch = load_mnist()
    X = bunch.data[: arguments.rows]
    # The path of a file says nothing to a reader elsewhere.
    source = f"{len(X):,} x {X.shape[1]} (MNIST)"
    return Data(X, bunch.target[: arguments.rows], source)


def main(arguments: argparse.Namespace) -> None:
    data = load_data(arguments)
    file = RESULTS / ("deep_price-quick.json" if arguments.quick else "deep_price.json")
    kept = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    for part in arguments.parts:
        text = PARTS[part](data, arguments)
        if text is not None:
            kept[part] = text
            file.write_text(json.dumps(kept, indent=1, ensure_ascii=False), encoding="utf-8")
    texts = [kept[part] for part in PARTS if part in kept]
    publish("deep_price", "Price of k autoencoders", *texts, quick=arguments.quick)


def command_line() -> argparse.Namespace:
    options = parser(__doc__, threads=2)
    options.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    options.add_argument("--architectures", nargs="+", choices=SHAPES, default=list(SHAPES))
    options.add_argument("--epochs", type=int, default=100, help="of the mlp and of ClustPy")
    options.add_argument("--conv-epochs", type=int, default=50)
    options.add_argument("--growth-epochs", type=int, default=20)
    options.add_argument("--growth", nargs="+", type=int, default=GROWTH, help="values of k")
    options.add_argument("--clusters", type=int, default=10, help="k of all other parts")
    options.add_argument("--rows", type=int, default=10_000)
    options.add_argument("--repeats", type=int, default=2, help="rounds, and seeds of the loss")
    options.add_argument("--naive-timed", type=int, default=1, help="epochs that are timed")
    options.add_argument("--naive-epochs", type=int, default=20, help="of the loss")
    options.add_argument("--naive-rows", type=int, default=3000, help="of the loss")
    options.add_argument("--synthetic", action="store_true", help="random rows, no MNIST")
    arguments = options.parse_args()
    if arguments.quick:
        arguments.rows, arguments.naive_rows = min(arguments.rows, 600), 300
        arguments.epochs = arguments.conv_epochs = arguments.growth_epochs = 3
        arguments.naive_epochs, arguments.growth, arguments.repeats = 3, (2, 5), 1
    return arguments


if __name__ == "__main__":
    given = command_line()
    with limited_threads(given.threads):
        main(given)
