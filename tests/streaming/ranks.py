"""What each process of a group does in the tests; started by torchrun."""

import json
import sys
import warnings
from pathlib import Path

import numpy as np
import torch

from tensorae import TAE, Batches, LinearTAE
from tensorae.datasets import load_iris
from tensorae.deep import training
from tensorae.linear import solver
from tensorae.rows.processes import joined_by_torchrun


def rows(n, d, k, dtype="float64", seed=0):
    rng = np.random.default_rng(seed)
    centers, axes = 1.5 * rng.normal(size=(k, d)), rng.normal(size=(k, 2, d))
    y = np.sort(rng.integers(k, size=n))  # each process has few of the clusters
    codes = rng.normal(size=(n, 2))
    along = np.einsum("nh,nhd->nd", codes, axes[y])
    return (centers[y] + along + 0.3 * rng.normal(size=(n, d))).astype(dtype)


def linear_cases():
    iris = load_iris().data
    yield "iris", iris, LinearTAE(3, 1, random_state=0)
    yield "em", iris, LinearTAE(3, 1, random_state=0, assignment="em")
    yield "auto", iris, LinearTAE(3, 1, random_state=0, latent_penalty="auto")
    yield "sampled", rows(3001, 5, 4), LinearTAE(4, 2, random_state=0)
    yield "single precision", rows(44_001, 6, 4, "float32"), LinearTAE(4, 2, random_state=0)
    yield "centres", iris, LinearTAE(3, 1, init=iris[[0, 60, 120]])
    yield "empty clusters", np.repeat(iris[:6], 30, axis=0), LinearTAE(8, 1, random_state=0)


def main(output):
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    solver.SAMPLE_ROWS = (300, 300)
    training.SAMPLE_ROWS = 500
    with joined_by_torchrun() as group:
        found = {}
        for name, X, model in linear_cases():
            model.fit(Batches(X, batch_rows=101))
            found[name] = {
                "labels": model.labels_.tolist(),
                "loss": model.loss_,
                "centers": model.cluster_centers_.tolist(),
                "components": model.components_.tolist(),
            }
        X = rows(3000, 6, 4, "float32")
        deep = TAE(4, 2, random_state=0, max_epochs=4).fit(Batches(X, batch_rows=500))
        found["deep"] = {"labels": deep.labels_.tolist(), "loss": deep.loss_}
        small = TAE(3, 1, random_state=0, max_epochs=10).fit(Batches(load_iris().data))
        found["small deep"] = {"labels": small.labels_.tolist(), "loss": small.loss_}
        (output / f"{group.rank}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
