"""The task "Simpson": main axes of the clusters, of the classes and of all samples together."""

# n samples, k clusters, d = 2 features

from __future__ import annotations

import time

import numpy as np
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score

from tensorae.estimators.linear import LinearTAE
from tensorae.experiments.experiment import Outcome, Part
from tensorae.experiments.matching import angle, match_clusters
from tensorae.experiments.problems import PROBLEMS, load

__all__ = ["TASK", "run"]

TASK = "Simpson"


def run(part: Part) -> Outcome:
    """Fit ``LinearTAE`` and compare its first components with those of the classes."""
    problem, data = PROBLEMS[part.dataset], load(part.dataset, part.seed, quick=part.quick)
    began = time.perf_counter()
    model = LinearTAE(problem.n_clusters, 1, random_state=part.seed).fit(data.X)
    seconds = time.perf_counter() - began
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
    return Outcome(values, arrays, seconds)


def _slope(direction: np.ndarray) -> float:
    """Change of the second feature for one unit of the first along a direction."""
    return float(direction[1] / direction[0])
