"""What each part of the training of TAE is worth: the recipe with one part changed at a time.

Figures are ARI of the start and of the fit, and how well the fits of different seeds agree, which
needs no classes. Finished fits are kept in a file, so that an interrupted run goes on.
"""

# n samples, k clusters, d features, h latent

from __future__ import annotations

import argparse
import itertools
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from _common import RESULTS, limited_threads, parser, publish, table
from _deep import FIVE, OTHER_FIVE, UNBALANCED, Cache, Figures, deep_sets, figure, run_jobs
from sklearn.metrics import adjusted_rand_score
from torch import nn

from tensorae import TAE
from tensorae.deep import assign, epoch, initial
from tensorae.deep.assign import Copies
from tensorae.deep.networks import MLPAutoencoder

SETS = ("iris", "penguins 4, max", "digits", FIVE, UNBALANCED, OTHER_FIVE)
# One part changed: a constant of a module, or a parameter of the estimator.
CHANGES: dict[str, Mapping[tuple[Any, str] | str, Any]] = {
    "the recipe": {},
    "start: rows not averaged": {(initial, "MAX_NEIGHBORS"): 0},
    "start: 50 main directions": {(initial, "MAIN_DIRECTIONS"): 50},
    "start: 10 main directions": {(initial, "MAIN_DIRECTIONS"): 10},
    "start: one search": {(initial, "SEARCHES"): 1},
    "start: k-means++ alone": {"init": "k-means++"},
    "network without linear path": {"architecture": "plain"},
    "one fold: networks score their own members": {"cross_fit": False},
    "no input noise": {(epoch, "INPUT_NOISE"): 0.0},
    "input noise 1": {(epoch, "INPUT_NOISE"): 1.0},
    "all clusters at every refresh": {(assign, "CANDIDATES"): 1000},
    "learning rate 1e-3": {"lr": 1e-3},
    "λ = 0": {"latent_penalty": 0.0},
}
ARI, LOSS = "ari", "loss"


class PlainMLP(nn.Module):
    """The built-in MLP without its linear path."""

    def __init__(self, d: int, h: int) -> None:
        super().__init__()
        layers = MLPAutoencoder(d, h)
        self.encoder, self.decoder = layers.encoder, layers.decoder
        for layer in (*self.encoder, *self.decoder):
            if isinstance(layer, nn.Linear):
                layer.reset_parameters()


def run_one(name: str, change: str, seed: int) -> Figures:
    """One fit with one part changed; the labels are kept to compare seeds."""
    one = deep_sets()[name]
    X, y = one.load()
    options = {**one.options("mlp"), "random_state": seed}
    with ExitStack() as stack:
        for what, value in CHANGES[change].items():
            if isinstance(what, tuple):
                stack.enter_context(patch.object(*what, value))
            elif what == "cross_fit":
                stack.enter_context(patch.object(Copies, "of", _one_copy))
            elif value == "plain":
                options["architecture"] = lambda: PlainMLP(X.shape[1], one.latent_dim)
            else:
                options[what] = value
        model = TAE(**options).fit(X)
    figures: Figures = {ARI: adjusted_rand_score(y, model.labels_), LOSS: model.loss_}
    figures["labels"] = "".join(chr(65 + label) for label in model.labels_)  # type: ignore[assignment]
    return figures


def _one_copy(module: Any, n: int, generator: Any) -> Copies:  # noqa: ARG001
    return Copies((module,))


def cell(cache: Cache, name: str, change: str, seeds: int) -> str:
    fits = [cache.find((name, change, seed)) for seed in range(seeds)]
    known = [fit for fit in fits if fit is not None]
    if not known:
        return "–"
    scores = np.array([figure(fit, ARI) for fit in known])
    labels = [list(str(fit["labels"])) for fit in known]
    agreement = [adjusted_rand_score(a, b) for a, b in itertools.combinations(labels, 2)]
    agree = f" ({np.mean(agreement):.2f})" if agreement else ""
    return f"{scores.mean():.3f} ± {scores.std():.3f}{agree}"


NOTE = """\
Adjusted Rand index of TAE with the built-in MLP, mean ± standard deviation over {seeds} seeds; in
brackets how well the labels of different seeds agree (their mean ARI with each other), which needs
no classes. Each row changes one part of the recipe. h = 1 on iris and penguins, 5 on digits, 10 on
MNIST."""


def main(arguments: argparse.Namespace) -> None:
    quick = arguments.quick
    file = arguments.cache or RESULTS / f"deep_recipe{'-quick' if quick else ''}.json"
    cache = Cache(file, any_code=arguments.any_code)
    jobs = list(itertools.product(arguments.sets, CHANGES, range(arguments.seeds)))
    run_jobs(run_one, jobs, cache, processes=arguments.processes)
    rows = [
        [change, *(cell(cache, name, change, arguments.seeds) for name in arguments.sets)]
        for change in CHANGES
    ]
    note = NOTE.format(seeds=arguments.seeds)
    columns = ["changed", *arguments.sets]
    publish(
        "deep_recipe", "The recipe of TAE, part by part", note, table(columns, rows), quick=quick
    )


def command_line() -> argparse.Namespace:
    options = parser(__doc__, threads=1)
    options.add_argument("--sets", nargs="+", choices=SETS, metavar="SET")
    options.add_argument("--seeds", type=int, help="how many, from 0 (default 3)")
    options.add_argument("--processes", type=int, default=2, help="one thread each")
    options.add_argument("--cache", type=Path, help="file of finished fits")
    options.add_argument(
        "--any-code", action="store_true", help="reuse fits by other versions of the library"
    )
    arguments = options.parse_args()
    arguments.seeds = arguments.seeds or (1 if arguments.quick else 3)
    arguments.sets = arguments.sets or list(SETS[:1] if arguments.quick else SETS)
    return arguments


if __name__ == "__main__":
    given = command_line()
    with limited_threads(given.threads):
        main(given)
