"""All that a fitted model can answer; run as a program, it asks models that it loads from files."""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
from torch import nn

import tensorae


class WithBatchNorm(nn.Module):
    """An autoencoder of one's own whose state has whole numbers and shared weights in it."""

    def __init__(self, activation=nn.Tanh):
        super().__init__()
        shared = nn.Linear(8, 8)
        self.encoder = nn.Sequential(
            nn.Linear(5, 8), nn.BatchNorm1d(8), activation(), shared, nn.Linear(8, 2)
        )
        self.decoder = nn.Sequential(nn.Linear(2, 8), activation(), shared, nn.Linear(8, 5))

    def shared_parts(self):
        return ["encoder.0", "encoder.1", "encoder.3", "decoder.3"]


def with_columns(X):
    return pd.DataFrame(X, columns=[f"größe {i}" for i in range(X.shape[1])])


def answers(model, X):
    """Name -> array, of every method."""
    labels, codes = model.predict(X), model.transform(X)
    given = {
        "predict": labels,
        "predict_proba": model.predict_proba(X),
        "transform": codes,
        "inverse_transform": model.inverse_transform(codes, labels),
        "reconstruct": model.reconstruct(X),
        "costs": model.costs(X),
        "score_samples": model.score_samples(X),
    }
    if isinstance(model, tensorae.LinearTAE):
        given["denoise"] = model.denoise(X, 0.1)
        given["denoise_auto"] = model.denoise(X, "auto")
        given["denoise_clean"] = model.denoise(X, 0.1, fitted_on="clean")
    else:
        if model._blend is not None:
            given["denoise"] = model.denoise(X)
        if model.module_.variational:
            given["sample"] = model.sample(7, random_state=0)[0]
    return given


def main(folder):
    for path in sorted(folder.glob("*.tae")):
        X = np.load(path.with_suffix(".npy"))
        own = WithBatchNorm if path.stem.startswith("own") else None
        model = tensorae.load(path, architecture=own)
        X = with_columns(X) if hasattr(model, "feature_names_in_") else X
        np.savez(path.with_suffix(".npz"), **answers(model, X))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
