"""The task "Theorem 2.2": what the linear model has learned, beside what the theorem says.

Labels that a fit ends with define clusters; the theorem says that centres are their means and
components their top eigenvectors. Both are computed here anew, from samples and labels alone.
"""

# n samples, k clusters, d features, h latent

from __future__ import annotations

import time
from typing import Any

import numpy as np
from sklearn.decomposition import PCA

from tensorae.estimators.deep import TAE
from tensorae.estimators.linear import LinearTAE
from tensorae.experiments.experiment import Outcome, Part
from tensorae.experiments.matching import angle, match_clusters
from tensorae.experiments.problems import PROBLEMS, Problem, load
from tensorae.experiments.relaxed import relaxed_run

__all__ = ["METHODS", "TASK", "free_decoder_costs", "run"]

Array = np.ndarray

TASK = "Theorem 2.2"
METHODS = {
    "exact": "LinearTAE, solved exactly",
    "gradient": "TAE of linear networks, Adam",
    "option 1": "gradient run with relaxed S, option 1",
    "option 2": "gradient run with relaxed S, option 2",
    "overall": "PCA of all samples",
}
RULES = {"option 1": "constrained", "option 2": "projected"}


def run(part: Part) -> Outcome:
    """Fit by one method and measure angles, centres, loss and the entropy of S."""
    problem, data = PROBLEMS[part.dataset], load(part.dataset, part.seed, quick=part.quick)
    began = time.perf_counter()
    if part.method == "overall":
        return _overall(problem, data.X, data.y)
    model, components = _fitted(part.method, problem, data.X, part.seed)
    seconds = time.perf_counter() - began
    labels, centers = model.labels_, np.asarray(model.cluster_centers_, dtype=float)
    spread = np.sqrt(data.X.var(axis=0).sum())
    clusters = [data.X[labels == j] for j in range(problem.n_clusters)]
    classes = match_clusters(labels, data.y, problem.n_clusters)
    to_own = [angle(U, _axes(x)) for U, x in zip(components, clusters, strict=True)]
    to_class = [angle(components[j], _axes(data.X[data.y == c])) for j, c in enumerate(classes)]
    offsets = [np.linalg.norm(C - x.mean(axis=0)) for C, x in zip(centers, clusters, strict=True)]
    values = {
        "largest angle to own eigenvectors": max(to_own),
        "largest angle to the class's eigenvectors": max(to_class),
        "largest distance of centre and mean": float(max(offsets) / spread),
        "loss": float(model.loss_),
    }
    if part.method not in RULES:
        return Outcome(values, {}, seconds)
    path = model.entropy_path_
    values |= {"entropy at the start": float(path[0]), "entropy at the end": float(path[-1])}
    return Outcome(values, {"entropy": path.round(6).tolist()}, seconds)


def free_decoder_costs(angles: Array, scatter: Array, latent_penalty: float) -> tuple[Array, Array]:
    """Cost of one cluster by the angle of its encoder: tied decoder, and the best free one.

    The erratum of Theorem 2.2 in two dimensions: with a free decoder the optimum is elsewhere.

    Parameters
    ----------
    angles : ndarray of shape (a,)
        Of the encoder u to the first axis, in degrees.
    scatter : ndarray of shape (2, 2)
        Σ of the cluster.
    latent_penalty : float
        λ.

    Returns
    -------
    tied, free : ndarray of shape (a,)
        ``tr Σ - (1-λ) u Σ u'`` and ``tr Σ - |Σ u'|² / u Σ u' + λ u Σ u'``.
    """
    radians = np.radians(angles)
    u = np.stack([np.cos(radians), np.sin(radians)], axis=1)
    along = np.einsum("ai,ij,aj->a", u, scatter, u)
    image = u @ scatter
    whole = np.trace(scatter)
    tied = whole - (1 - latent_penalty) * along
    free = whole - (image**2).sum(1) / along + latent_penalty * along
    return tied, free


def _fitted(method: str, problem: Problem, X: Array, seed: int) -> tuple[Any, Array]:
    """Return a fitted model and its components (k, h, d)."""
    k, h = problem.n_clusters, problem.latent_dim
    if method in RULES:
        relaxed = relaxed_run(X, k, h, RULES[method], seed)
        return relaxed, relaxed.components_
    if method == "gradient":
        deep = TAE(k, h, architecture="linear", random_state=seed).fit(X)
        networks: Any = deep.module_.autoencoders
        rows = [network.directions().detach().numpy() for network in networks]
        return deep, np.stack(rows).astype(float)
    linear = LinearTAE(k, h, random_state=seed).fit(X)
    return linear, np.asarray(linear.components_, dtype=float)


def _overall(problem: Problem, X: Array, y: Array) -> Outcome:
    began = time.perf_counter()
    axis = PCA(problem.latent_dim).fit(X).components_
    seconds = time.perf_counter() - began
    angles = [angle(axis, _axes(X[y == c], problem.latent_dim)) for c in np.unique(y)]
    return Outcome({"largest angle to the class's eigenvectors": max(angles)}, {}, seconds)


def _axes(x: Array, h: int = 1) -> Array:
    """Top eigenvectors (h, d) of the scatter of rows (m, d)."""
    offsets = x - x.mean(axis=0)
    vectors: Array = np.linalg.eigh(offsets.T @ offsets)[1]
    return vectors[:, ::-1][:, :h].T
