"""What k autoencoders cost: whole fits of TAE in units of training one plain autoencoder.

Parts: "price" (k = 10, long and short fits), "loss" (what the naive loop over k reaches), "growth"
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
from _deep import BATCH_SIZE, StartRecord, plain_autoencoder, start_on_record
from _deep_naive import LATENT_DIM, PENALTY, SHAPES, NaiveLoop, naive_loss, smallest_costs
from _problems import clustered_subspaces, load_mnist, random_rows
from sklearn.metrics import adjusted_rand_score

from tensorae import TAE
from tensorae.deep.epoch import WARM_UP

Array = np.ndarray

WIDTH = 256
GROWTH = (2, 5, 10, 20, 50)
AIM = 1.15
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
class PriceRow:
    """One row of the price: what is fitted, and what TAE / plain is to reach, if anything."""

    architecture: str
    epochs: int
    rows: int
    reach: float | None


# Rows of the part "price"; few epochs show what does not grow with them.
PRICE_ROWS = {
    "mlp-100": PriceRow("mlp", 100, 10_000, 1.25),
    "conv-50": PriceRow("conv", 50, 10_000, 1.25),
    "mlp-30": PriceRow("mlp", 30, 5000, 1.4),
    "mlp-8": PriceRow("mlp", 8, 5000, None),
}


@dataclass(frozen=True)
class TaeRun:
    """A fitted model, where it began, and what its epochs took of the processor."""

    model: TAE
    start: StartRecord
    epochs: float


def fit_tae(X: Array, architecture: str, k: int, *, epochs: int, seed: int) -> TaeRun:
    """Fit with all epochs: patience never ends it, so that epochs are equal."""
    ends: list[float] = []
    model = TAE(
        k,
        LATENT_DIM,
        architecture=architecture,
        latent_penalty=PENALTY,
        input_shape=SHAPES[architecture],
        max_epochs=epochs,
        batch_size=BATCH_SIZE,
        patience=epochs,
        callbacks=[lambda _: ends.append(time.process_time())],
        random_state=seed,
    )
    with start_on_record() as start:
        model.fit(X)
    assert model.n_iter_ == epochs
    return TaeRun(model, start, ends[-1] - start.ended)


def fit_plain(X: Array, architecture: str, *, epochs: int, seed: int) -> Any:
    return plain_autoencoder(
        X, architecture, LATENT_DIM, epochs=epochs, shape=SHAPES[architecture], seed=seed
    )


# Part "price" -------------------------------------------------------------------------------------

PRICE_COLUMNS = [
    "architecture", "rows", "epochs", "plain autoencoder", "TAE", "TAE / plain", "to reach",
    "reached", "start", "epochs with refreshes", "rest", "naive loop / plain",
]  # fmt: skip

PRICE_NOTE = """\
## Price

Whole fits from an array, k = {k}, {rows}, h = {h} (mlp: {d}-{width}-{h}), batches of {batch}, equal
epochs. TAE: `fit` with its linear start, all refreshes and the final assignment. Plain: one
autoencoder of the same built-in architecture, centred and scaled in the same way, Adam with a fused
step, no noise. They take turns, {rounds} rounds. Times are processor seconds: with one thread, the
default, they are what the fit itself takes, whatever else the machine does, and so more reliable
than a clock. Medians, and ratios round by round as median [lowest, highest]. The three columns
after "reached" split TAE / plain: linear start, epochs with the refreshes, and the rest (checks,
closing assignment, publishing). Start and rest do not grow with the epochs. The naive loop sends
each mixed batch through all k autoencoders; {naive} of its epochs timed and scaled. Aim: {aim}."""


def price_rows(data: Data, arguments: argparse.Namespace) -> str:
    rows = []
    for name in arguments.price_rows:
        row = PRICE_ROWS[name]
        progress(f"price, {name}")
        rows.append(price_row(data.X[: row.rows], row, arguments))
    note = PRICE_NOTE.format(
        k=arguments.clusters,
        rows=data.source,
        d=data.X.shape[1],
        h=LATENT_DIM,
        width=WIDTH,
        batch=BATCH_SIZE,
        rounds=arguments.repeats,
        naive=arguments.naive_timed,
        aim=AIM,
    )
    return f"{note}\n\n{table(PRICE_COLUMNS, rows)}"


def price_row(X: Array, row: PriceRow, arguments: argparse.Namespace) -> list[str]:
    k, epochs = arguments.clusters, min(row.epochs, arguments.most_epochs)
    timings = run_halving(X, row.architecture, k, epochs, arguments.repeats)
    plain = float(np.median(timings["plain"].seconds))
    ratio = timings["TAE"].seconds / timings["plain"].seconds
    progress(f"naive loop, {row.architecture}")
    run = timings["TAE"].returned[0]
    naive = naive_seconds(X, run, row.architecture, k, arguments.naive_timed)
    reached = "–" if row.reach is None else "yes" if np.median(ratio) <= row.reach else "NO"
    return [
        row.architecture,
        f"{len(X):,}",
        str(epochs),
        *price_cells(timings),
        "–" if row.reach is None else f"≤ {row.reach}",
        reached,
        *share_cells(timings),
        f"{naive * epochs / plain:.1f}",
    ]


def price_cells(timings: dict[str, Timing]) -> list[str]:
    """Seconds of both, and their ratio."""
    tae, plain = timings["TAE"].seconds, timings["plain"].seconds
    return [duration(float(np.median(s))) for s in (plain, tae)] + [spread(tae / plain)]


def share_cells(timings: dict[str, Timing]) -> list[str]:
    """What the parts of a fit take, in units of the plain autoencoder."""
    tae, plain = timings["TAE"], timings["plain"].seconds
    starts = np.array([run.start.processor_seconds for run in tae.returned]) / plain
    trained = np.array([run.epochs for run in tae.returned]) / plain
    rest = tae.seconds / plain - starts - trained
    return [f"{np.median(share):.2f}" for share in (starts, trained, rest)]


def run_halving(X: Array, architecture: str, k: int, epochs: int, rounds: int) -> dict[str, Timing]:
    """Time whole trainings in turn; a small one before loads what is loaded once."""
    few = X[: max(20 * k, 200)]
    fit_tae(few, architecture, k, epochs=1, seed=0)
    fit_plain(few, architecture, epochs=1, seed=0)
    competitors: dict[str, Callable[[int], Any]] = {
        "plain": lambda seed: fit_plain(X, architecture, epochs=epochs, seed=seed),
        "TAE": lambda seed: fit_tae(X, architecture, k, epochs=epochs, seed=seed),
    }
    return interleave(competitors, rounds=rounds, warm_up=False, clock=time.process_time)


def naive_seconds(X: Array, run: TaeRun, architecture: str, k: int, epochs: int) -> float:
    """Seconds of one epoch of the naive loop, from the same first labels."""
    loop = NaiveLoop(X, run.start.labels_of(X), architecture, k)
    began = time.process_time()
    for _ in range(epochs):
        loop.run_epoch()
    return (time.process_time() - began) / epochs


# Part "loss" --------------------------------------------------------------------------------------

WIDE = {"refresh": True, "wide": True}
NAIVE_LOOPS: dict[str, dict[str, Any]] = {
    "naive, S of the start": {},
    "naive, S refreshed": {"refresh": True},
    "naive, S refreshed, batches of 64 k": WIDE,
    "the same, no rise of the rate": {**WIDE, "warm_up": 1},
    "the same, falling in the last fifth": {**WIDE, "warm_up": 1, "falling": 0.2},
}
LOSS_COLUMNS = ["seed", "start", "TAE", *NAIVE_LOOPS, *(f"TAE / {name}" for name in NAIVE_LOOPS)]

LOSS_NOTE = """\
## Loss beside the naive loop

{rows} rows, mlp, k = {k}, {epochs} epochs, the same first labels and networks that begin as the
main directions of their clusters. Naive loop: each mixed batch through all k autoencoders, loss =
sum of S * costs, no noise; the learning rate as in TAE, rising over the first {warm_up} steps and
falling to zero in the last half of the epochs; S is that of the start, or is refreshed (with the
centres) after every epoch before that half. With batches of 64 its networks take n / 64 steps an
epoch, with batches of 64 k as many as those of TAE, whose batches of 64 are of one cluster:
n / (64 k). The last two have the rate of Adam as it comes, from the first step on, and falling in
the last half or the last fifth only. Loss: sum over samples of the smallest cost, codes measured by
what they decode to; "start" is that of the networks before training. `loss_` of TAE differs from
its column by {gap:.2g} % at most. To reach: at most 1.05 beside as many steps (batches of 64 k)."""


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
    note = LOSS_NOTE.format(rows=f"{len(X):,}", k=k, epochs=epochs, gap=max(gaps), warm_up=WARM_UP)
    return f"{note}\n\n{table(LOSS_COLUMNS, rows)}"


def tae_loss(model: TAE, X: Array) -> float:
    """The loss of a fitted model by the formula that the naive loop is measured by."""
    module = model.module_
    x = torch.as_tensor(X, dtype=module.scale.dtype)
    return smallest_costs(module, x, float(module.latent_penalty))


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
        timings = run_halving(data.X, "mlp", k, arguments.growth_epochs, arguments.repeats)
        rows.append([str(k), *price_cells(timings), *share_cells(timings)])
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
    options = parser(__doc__, threads=1)
    options.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    options.add_argument("--price-rows", nargs="+", choices=PRICE_ROWS, default=list(PRICE_ROWS))
    options.add_argument("--epochs", type=int, default=100, help="of the part clustpy")
    options.add_argument("--growth-epochs", type=int, default=20)
    options.add_argument("--growth", nargs="+", type=int, default=GROWTH, help="values of k")
    options.add_argument("--clusters", type=int, default=10, help="k of all other parts")
    options.add_argument("--rows", type=int, default=10_000)
    options.add_argument("--repeats", type=int, default=2, help="rounds, and seeds of the loss")
    options.add_argument("--naive-timed", type=int, default=1, help="epochs that are timed")
    options.add_argument("--naive-epochs", type=int, default=20, help="of the loss")
    options.add_argument("--naive-rows", type=int, default=3000, help="of the loss")
    options.add_argument("--synthetic", action="store_true", help="random rows, no MNIST")
    options.set_defaults(most_epochs=max(row.epochs for row in PRICE_ROWS.values()))
    arguments = options.parse_args()
    if arguments.quick:
        arguments.rows, arguments.naive_rows = min(arguments.rows, 600), 300
        arguments.epochs = arguments.growth_epochs = arguments.most_epochs = 3
        arguments.naive_epochs, arguments.growth, arguments.repeats = 3, (2, 5), 1
    return arguments


if __name__ == "__main__":
    given = command_line()
    with limited_threads(given.threads):
        main(given)
