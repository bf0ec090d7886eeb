"""Three tasks that look at the linear model closely: Simpson's paradox, Theorem 2.2, and EM.

Labels that a fit ends with define clusters; Theorem 2.2 says that centres are their means and
components their top eigenvectors. Both are computed here anew, from samples and labels alone.
"""

# n samples, k clusters, d features, h latent

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score

from paper.baselines import LATENT_PENALTY, relaxed_run
from paper.experiment import Measurement, Trial, timed
from paper.problems import Problem, match_clusters
from tensorae import TAE, LinearTAE

__all__ = [
    "EM", "RULES", "SIMPSON", "THEOREM", "THEOREM_METHODS", "angle", "axes",
    "measure_em", "measure_simpson", "measure_theorem",
]  # fmt: skip

Array = np.ndarray

SIMPSON, THEOREM, EM = "Simpson", "Theorem 2.2", "EM"
EM_METHODS = ("lloyd", "em")
THEOREM_METHODS = {
    "exact": "LinearTAE, solved exactly",
    "gradient": "TAE of linear networks, Adam",
    "option 1": "gradient run with relaxed S, option 1",
    "option 2": "gradient run with relaxed S, option 2",
    "overall": "PCA of all samples",
}
RULES = {"option 1": "constrained", "option 2": "projected"}
UNSURE = 0.9  # a posterior below it

# Simpson's paradox (d = 2) --------------------------------------------------------------------


def measure_simpson(trial: Trial) -> Measurement:
    """Compare the main axes of the clusters, of the classes and of all samples together."""
    problem, data = trial.problem, trial.load()
    estimator = LinearTAE(
        problem.n_clusters, 1, latent_penalty=LATENT_PENALTY, random_state=trial.seed
    )
    model, seconds = timed(estimator.fit, data.X)
    overall = PCA(1).fit(data.X)
    values = {
        "ARI": float(adjusted_rand_score(data.y, model.labels_)),
        "slope overall": _slope(overall.components_[0]),
    }
    classes = match_clusters(model.labels_, data.y, problem.n_clusters)
    for j, name in enumerate(data.class_names[c] for c in classes):
        members = PCA(1).fit(data.X[data.y == classes[j]])
        axis = model.components_[j, 0]
        values[f"slope in the cluster of {name}"] = _slope(axis)
        values[f"slope in the class {name}"] = _slope(members.components_[0])
        values[f"degrees between them, {name}"] = angle(axis, members.components_[0])
    arrays = {
        "labels": model.labels_.tolist(),
        "classes": classes.tolist(),
        "centers": model.cluster_centers_.tolist(),
        "axes": model.components_[:, 0].tolist(),
        "spreads": np.sqrt(model.explained_variance_[:, 0]).tolist(),
        "overall center": overall.mean_.tolist(),
        "overall axis": overall.components_[0].tolist(),
        "overall spread": float(np.sqrt(overall.explained_variance_[0])),
    }
    return Measurement(trial, values, arrays, seconds)


def _slope(direction: Array) -> float:
    """Change of the second feature for one unit of the first along a direction."""
    return float(direction[1] / direction[0])


# Theorem 2.2 ----------------------------------------------------------------------------------


def measure_theorem(trial: Trial) -> Measurement:
    """Fit by one method and measure angles, centres, loss and the entropy of S."""
    problem, data = trial.problem, trial.load()
    if trial.method == "overall":
        return _measure_overall(trial, problem.latent_dim, data.X, data.y)
    (model, components), seconds = timed(_fit, trial.method, problem, data.X, trial.seed)
    labels, centers = model.labels_, np.asarray(model.cluster_centers_, dtype=float)
    spread = np.sqrt(data.X.var(axis=0).sum())
    clusters = [data.X[labels == j] for j in range(problem.n_clusters)]
    classes = match_clusters(labels, data.y, problem.n_clusters)
    to_own = [angle(U, axes(x)) for U, x in zip(components, clusters, strict=True)]
    to_class = [angle(components[j], axes(data.X[data.y == c])) for j, c in enumerate(classes)]
    offsets = [np.linalg.norm(C - x.mean(axis=0)) for C, x in zip(centers, clusters, strict=True)]
    values = {
        "largest angle to own eigenvectors": max(to_own),
        "largest angle to the class's eigenvectors": max(to_class),
        "largest distance of centre and mean": float(max(offsets) / spread),
        "loss": float(model.loss_),
    }
    if trial.method not in RULES:
        return Measurement(trial, values, seconds=seconds)
    path = model.entropy_path_
    values |= {"entropy at the start": float(path[0]), "entropy at the end": float(path[-1])}
    return Measurement(trial, values, {"entropy": path.round(6).tolist()}, seconds)


def _fit(method: str, problem: Problem, X: Array, seed: int) -> tuple[Any, Array]:
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
    linear = LinearTAE(k, h, latent_penalty=LATENT_PENALTY, random_state=seed).fit(X)
    return linear, np.asarray(linear.components_, dtype=float)


def _measure_overall(trial: Trial, h: int, X: Array, y: Array) -> Measurement:
    pca, seconds = timed(PCA(h).fit, X)
    angles = [angle(pca.components_, axes(X[y == c], h)) for c in np.unique(y)]
    values = {"largest angle to the class's eigenvectors": max(angles)}
    return Measurement(trial, values, seconds=seconds)


def angle(one: Array, other: Array) -> float:
    """Return the angle between two lines (d,), or the largest one between two subspaces (h, d).

    Rows are orthonormal; the angle is in degrees, from 0 to 90.
    """
    one, other = np.atleast_2d(one), np.atleast_2d(other)
    # The sine is exact where the cosine would lose small angles to rounding.
    residual = other - other @ one.T @ one
    sine = np.linalg.svd(residual, compute_uv=False)[0]
    return float(np.degrees(np.arcsin(min(1.0, float(sine)))))


def axes(x: Array, h: int = 1) -> Array:
    """Top eigenvectors (h, d) of the scatter of rows (m, d)."""
    offsets = x - x.mean(axis=0)
    vectors: Array = np.linalg.eigh(offsets.T @ offsets)[1]
    return vectors[:, ::-1][:, :h].T


# Expectation maximisation (section 5) ---------------------------------------------------------


def measure_em(trial: Trial) -> Measurement:
    """Fit by ``lloyd`` or ``em``; tell loss (Eq. 3), mean log-likelihood and labels."""
    problem, data = trial.problem, trial.load()
    estimator = LinearTAE(
        problem.n_clusters,
        problem.latent_dim,
        latent_penalty=LATENT_PENALTY,
        assignment=trial.method,
        random_state=trial.seed,
    )
    model, seconds = timed(estimator.fit, data.X)
    certainty = model.predict_proba(data.X).max(1)
    values = {
        "loss": float(model.loss_ / len(data.X)),
        "log-likelihood": model.score(data.X),
        "ARI": float(adjusted_rand_score(data.y, model.labels_)),
        "rows below 0.9 certainty": float((certainty < UNSURE).mean()),
    }
    arrays = {
        "labels": model.labels_.tolist(),
        "centers": model.cluster_centers_.tolist(),
        "certainty": certainty.round(4).tolist(),
        "objective": model.objective_path_.tolist(),
    }
    return Measurement(trial, values, arrays, seconds)
