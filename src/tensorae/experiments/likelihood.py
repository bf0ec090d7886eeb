"""The task "EM": the same data by ``lloyd`` and by ``em`` (section 5), by both yardsticks."""

# n samples, k clusters, d features, h latent

from __future__ import annotations

import time

import numpy as np
from scipy.special import logsumexp
from sklearn.metrics import adjusted_rand_score

from tensorae.estimators.linear import LinearTAE
from tensorae.experiments.experiment import Outcome, Part
from tensorae.experiments.problems import PROBLEMS, load

__all__ = ["METHODS", "TASK", "log_likelihood", "run"]

Array = np.ndarray

TASK = "EM"
METHODS = ("lloyd", "em")


def run(part: Part) -> Outcome:
    """Fit by one rule; tell its loss (Eq. 3), its mean log-likelihood and its labels."""
    problem, data = PROBLEMS[part.dataset], load(part.dataset, part.seed, quick=part.quick)
    began = time.perf_counter()
    model = LinearTAE(
        problem.n_clusters, problem.latent_dim, assignment=part.method, random_state=part.seed
    ).fit(data.X)
    seconds = time.perf_counter() - began
    posterior = model.predict_proba(data.X)
    values = {
        "loss": float(model.loss_ / len(data.X)),
        "log-likelihood": log_likelihood(model, data.X),
        "ARI": float(adjusted_rand_score(data.y, model.labels_)),
        "rows below 0.9 certainty": float((posterior.max(1) < 0.9).mean()),
    }
    arrays = {
        "labels": model.labels_.tolist(),
        "centers": model.cluster_centers_.tolist(),
        "certainty": posterior.max(1).round(4).tolist(),
        "objective": model.objective_path_.tolist(),
    }
    return Outcome(values, arrays, seconds)


def log_likelihood(model: LinearTAE, X: Array) -> float:
    """Mean log-density of samples under the model of section 5.

    A mixture of Gaussians with means C_j and precision ``(I - (1-λ) U_j'U_j) / s²``. The
    determinant is the same for all clusters; s² is the mean cost per number in X.

    Parameters
    ----------
    model : LinearTAE
        Fitted.
    X : ndarray of shape (n, d)

    Returns
    -------
    float
    """
    (_, h, d), penalty = model.components_.shape, model.latent_penalty_
    costs = model.noise_variance_ * (d - h) + penalty * model.explained_variance_.sum(1)
    variance = float(model.weights_ @ costs) / d
    joint = np.log(model.weights_) - model.costs(X) / (2 * variance)
    constant = (h * np.log(penalty) - d * np.log(2 * np.pi * variance)) / 2
    return float(logsumexp(joint, axis=1).mean() + constant)
