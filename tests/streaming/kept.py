"""Fits that may be killed at any moment; run in processes of their own."""

import sys
import warnings
from pathlib import Path

import numpy as np
import torch

from tensorae import TAE, Batches, LinearTAE
from tensorae.deep import training
from tensorae.linear import solver


def rows(n=4000, d=6, k=4):
    rng = np.random.default_rng(0)
    centers, axes = 1.2 * rng.normal(size=(k, d)), rng.normal(size=(k, 2, d))
    y = rng.integers(k, size=n)
    codes = rng.normal(size=(n, 2))
    along = np.einsum("nh,nhd->nd", codes, axes[y])
    return (centers[y] + along + 0.5 * rng.normal(size=(n, d))).astype("float32")


def fit(kind, model_file, checkpoint, every):
    """Fit ``kind`` and save it; samples are small, so that long phases are those that are kept."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    solver.SAMPLE_ROWS = (300, 300)
    training.SAMPLE_ROWS = 300
    X = rows()
    if kind == "linear":
        model = LinearTAE(4, 2, init=X[:4], tol=0, max_iter=40)
        data = Batches(X, batch_rows=1000)
    elif kind == "linear, in memory":
        model = LinearTAE(4, 2, init=X[:4], tol=0, max_iter=40)
        data = X
    elif kind == "deep":
        model = TAE(4, 2, random_state=0, max_epochs=4)
        data = Batches(X, batch_rows=1000)
    else:
        model = TAE(4, 2, random_state=0, max_epochs=40, noise=0.1)
        data = X[:300]
    model.fit(data, checkpoint=checkpoint, checkpoint_every=every)
    model.save(model_file)


if __name__ == "__main__":
    fit(sys.argv[1], Path(sys.argv[2]), sys.argv[3], float(sys.argv[4]))
