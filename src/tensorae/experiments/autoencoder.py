"""A plain autoencoder as a fair opponent: the same networks and training, one for all samples."""

# n samples, k clusters, d features, h latent

from __future__ import annotations

import numpy as np

from tensorae.deep.schedule import Schedule
from tensorae.estimators.deep import TAE
from tensorae.experiments.problems import Problem

__all__ = ["plain_autoencoder"]


def plain_autoencoder(
    problem: Problem, X: np.ndarray, seed: int, *, latent_dim: int, noise: float = 0.0
) -> TAE:
    """Train one autoencoder on all samples.

    It is ``TAE`` with a single cluster and no penalty: centred and scaled alike, started at the
    main directions alike, the same optimiser, batches and number of passes over the data.

    Parameters
    ----------
    problem : Problem
        Says the architecture, and for how many clusters a TAE would be trained.
    X : ndarray of shape (n, d)
    seed : int
    latent_dim : int
        Length of the code; at most d is used.
    noise : float
        Standard deviation of fresh noise on the inputs, for de-noising.

    Returns
    -------
    TAE
        Fitted; ``transform`` gives the codes.
    """
    plan = Schedule.plan(len(X), problem.n_clusters, n_copies=2)
    model = TAE(
        n_clusters=1,
        latent_dim=min(latent_dim, X.shape[1]),
        architecture=problem.architecture,
        input_shape=problem.input_shape,
        latent_penalty=0.0,
        max_epochs=plan.learning_epochs + plan.closing_epochs,
        noise=noise,
        random_state=seed,
    )
    return model.fit(X)
