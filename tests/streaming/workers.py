"""What processes of their own do in these tests: fits that may be killed, fits that share the rows.

The last lines call a function by its name, with arguments from the command line (``torchrun``) or
from ``conftest.py``, which starts this file in a process that has loaded the libraries already.
"""

import json
import os
import sys
import warnings
from pathlib import Path

import numpy as np
import torch
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from sklearn.datasets import load_iris, make_circles
from sklearn.exceptions import ConvergenceWarning
from torch import distributed as dist

from tensorae import TAE, Batches, LinearTAE
from tensorae.data.processes import joined_by_torchrun
from tensorae.deep import train


def small_samples(rows):
    """A deep fit on batches begins on so few rows in memory; without this, on twenty thousand."""
    train.SAMPLE_ROWS = rows


def clustered(n, d, k, dtype="float64", spread=1.5):
    """Rows in the order of their clusters, so that each of many processes has few clusters."""
    rng = np.random.default_rng(0)
    centers, axes = spread * rng.normal(size=(k, d)), rng.normal(size=(k, 2, d))
    y = np.sort(rng.integers(k, size=n))
    along = np.einsum("nh,nhd->nd", rng.normal(size=(n, 2)), axes[y])
    return (centers[y] + along + 0.3 * rng.normal(size=(n, d))).astype(dtype)


# Fits that may be killed at any moment ------------------------------------------------------------


def fit_and_save(kind, model_file, checkpoint, every):
    """Fit ``kind`` with a checkpoint every so many seconds, and save the model."""
    small_samples(100)
    X = clustered(2000, 6, 4, "float32")
    linear = LinearTAE(4, 2, init=X[::500], tol=0, max_iter=40, latent_penalty=0.1)
    deep = TAE(4, 2, random_state=0, max_epochs=4)
    noisy = TAE(4, 2, random_state=0, max_epochs=20, noise=0.1)
    model, data = {
        "linear": (linear, Batches(X, batch_rows=500)),
        "linear, in memory": (linear, X),
        "deep": (deep, Batches(X, batch_rows=500)),
        "deep, in memory": (noisy, X[::10]),
    }[kind]
    model.fit(data, checkpoint=checkpoint, checkpoint_every=float(every))
    model.save(model_file)


def fit_and_die_once(data, output):
    """One of the processes of torchrun: the second dies in its third epoch, the first time."""
    small_samples(100)
    marker = Path(f"{output}.died")
    with joined_by_torchrun() as group:

        def die_once(epoch):
            if epoch.epoch == 3 and group.rank == 1 and not marker.exists():
                marker.touch()
                os.kill(os.getpid(), 9)

        model = TAE(3, 1, random_state=0, max_epochs=6, callbacks=die_once)
        model.fit(Batches(data), checkpoint=f"{output}.ckpt", checkpoint_every=0)
        if group.rank == 0:
            model.save(output)


# Fits that share the rows -------------------------------------------------------------------------


def linear_cases():
    iris = load_iris().data
    yield "iris", iris, LinearTAE(3, 1, random_state=0, latent_penalty=0.1)
    yield "em", iris, LinearTAE(3, 1, random_state=0, assignment="em", latent_penalty=0.1)
    yield "auto", iris, LinearTAE(3, 1, random_state=0, latent_penalty="auto")
    # More rows than a search for starts looks at.
    yield "sampled", clustered(11_001, 5, 4), LinearTAE(4, 2, random_state=0, latent_penalty=0.1)
    yield "own", iris, LinearTAE(3, 2, spread="own", random_state=0)
    yield "all auto, sampled", clustered(4801, 5, 4), LinearTAE(4, random_state=0)
    yield "counted", iris[:100], LinearTAE((1, 2), random_state=0)
    # More entries than are worth a copy in double precision.
    yield (
        "single precision",
        clustered(44_001, 6, 4, "float32"),
        LinearTAE(4, 2, random_state=0, latent_penalty=0.1),
    )
    has_missing = np.where(np.random.default_rng(0).random(iris.shape) < 0.2, np.nan, iris)
    has_missing[np.isnan(has_missing).all(axis=1)] = iris[0]
    yield "gaps", has_missing, LinearTAE(3, 1, spread="own", random_state=0)
    yield "gaps, hard", has_missing, LinearTAE(3, 1, random_state=0, latent_penalty=0.1)
    yield "centres", iris, LinearTAE(3, 1, init=iris[[0, 60, 120]], latent_penalty=0.1)
    yield (
        "empty clusters",
        np.repeat(iris[:6], 30, axis=0),
        LinearTAE(8, 1, random_state=0, latent_penalty=0.1),
    )
    for name, n in (("categories", 400), ("categories, sampled", 9001)):
        yield name, mixed(n), LinearTAE(3, random_state=0, categorical_features=[2, 4])


def mixed(n):
    """Numbers and, in columns 2 and 4, categories; some levels are rare, some values missing."""
    rng = np.random.default_rng(0)
    y = np.sort(rng.integers(3, size=n))
    X = rng.normal(size=(n, 5)) + 3 * rng.normal(size=(3, 5))[y]
    X[:, 2] = np.where(rng.random(n) < 0.8, np.array([7, 3, 5])[y], rng.integers(9, size=n))
    X[:, 4] = rng.random(n) < np.array([0.1, 0.5, 0.9])[y]
    X[rng.random(n) < 0.1, 4] = np.nan
    return X


class Joined:
    """In place of UMAP, which takes long: what hangs together by neighbours is a blob."""

    def __init__(self, *, n_components, precomputed_knn, **_):
        self.size, self.near = n_components, precomputed_knn[0][:, :6]

    def fit_transform(self, X):
        pairs = np.repeat(np.arange(len(X)), self.near.shape[1]), self.near.ravel()
        graph = coo_array((np.ones(self.near.size), pairs), shape=(len(X), len(X)))
        parts = connected_components(graph, directed=False)[1]
        rng = np.random.RandomState(0)
        return 10 * rng.randn(parts.max() + 1, self.size)[parts] + rng.randn(len(X), self.size)


def curved_cases():
    """Rings from their neighbourhoods: read pass by pass, and few enough for memory."""
    sys.modules["umap"] = type(sys)("umap")
    sys.modules["umap"].UMAP = Joined
    for name, n in (("manifold", 1500), ("small manifold", 240)):
        X, _ = make_circles(n, factor=0.4, noise=0.04, shuffle=False, random_state=0)
        yield name, X, TAE(2, 1, init="manifold", random_state=0)


def fit_share(rank, size, folder):
    """Fit every case with the rows shared by ``size`` processes, and write what was found."""
    small_samples(300)
    if size > 1:
        dist.init_process_group(
            "gloo", init_method=f"file://{folder}/group", rank=rank, world_size=size
        )
    found = {}
    # Each process has few clusters, of which all have members.
    warnings.simplefilter("error", ConvergenceWarning)
    apart = LinearTAE(3, 1, random_state=0, latent_penalty=0.1).fit(
        Batches(np.repeat(np.eye(3) * 9, 20, axis=0))
    )
    apart.save(Path(folder, f"{rank}.tae"))
    warnings.simplefilter("ignore")
    for name, X, model in linear_cases():
        model.fit(Batches(X, batch_rows=501))
        found[name] = {
            "labels": model.labels_.tolist(),
            "loss": model.loss_,
            "centers": model.cluster_centers_.tolist(),
            "components": model.components_.tolist(),
        }
    X = clustered(2000, 6, 4, "float32")
    deep = TAE(4, 2, random_state=0, max_epochs=4).fit(Batches(X, batch_rows=500))
    found["deep"] = {"labels": deep.labels_.tolist(), "loss": deep.loss_}
    small = TAE(3, 1, random_state=0, max_epochs=10).fit(Batches(load_iris().data))
    found["small deep"] = {"labels": small.labels_.tolist(), "loss": small.loss_}
    options = {"architecture": "vae", "sharing": "layers", "random_state": 0}
    shared = TAE(4, 2, max_epochs=4, **options).fit(Batches(X, batch_rows=500))
    found["shared"] = {"labels": shared.labels_.tolist(), "loss": shared.loss_}
    small = TAE(3, 1, max_epochs=10, **options).fit(Batches(load_iris().data))
    found["small shared"] = {"labels": small.labels_.tolist(), "loss": small.loss_}
    for name, X, model in curved_cases() if size < 4 else ():
        model.fit(Batches(X, batch_rows=400))
        found[name] = {"labels": model.labels_.tolist(), "loss": model.loss_}
    Path(folder, f"{rank}.json").write_text(json.dumps(found))
    if size > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    function, *arguments = globals().get("call") or sys.argv[1:]
    globals()[function](*arguments)
