# ruff: noqa: D205, D400
"""
Crossing lines: hard and soft assignments
=========================================

With hard assignments (``assignment="lloyd"``), every sample belongs to one cluster, even if
clusters overlap. ``predict_proba`` gives the probability of each cluster, and ``assignment="em"``
uses these probabilities during the fit, too. Two crossing lines show the difference: three quarters
of the samples lie along 10°, one quarter along 60°.
"""

import matplotlib.pyplot as plt
import numpy as np

from tensorae import LinearTAE
from tensorae.plot import plot_confidence

rng = np.random.RandomState(1)


def line(n, degrees):
    along, across = 3.0 * rng.standard_normal(n), 0.6 * rng.standard_normal(n)
    angle = np.deg2rad(degrees)
    turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    return np.column_stack([along, across]) @ turn


X = np.vstack([line(300, 10), line(100, 60)])

hard = LinearTAE(n_clusters=2, latent_dim=1, latent_penalty=0.1, random_state=0).fit(X)
soft = LinearTAE(2, latent_dim=1, latent_penalty=0.1, assignment="em", random_state=0).fit(X)

figure, axes = plt.subplots(1, 2, figsize=(10.5, 4), layout="constrained", sharey=True)
for ax, shown, title in (
    (axes[0], hard.labels_, 'assignment="lloyd": the labels'),
    (axes[1], soft.predict_proba(X)[:, 1], 'assignment="em": the probabilities'),
):
    dots = ax.scatter(*X.T, c=shown, cmap="cividis", vmin=0, vmax=1, s=16)
    ax.set(title=title, xlabel="feature 0", aspect="equal")
axes[0].set_ylabel("feature 1")
figure.colorbar(dots, ax=axes, label="probability of cluster 1", shrink=0.8)
plt.show()

# %%
# Where the lines cross, labels are arbitrary. Hard assignments divide the crossing evenly between
# the clusters, so the small one looks larger than it is. Soft assignments account for the fact that
# most samples there belong to the large one:


def tell(name, model):
    angles = np.rad2deg(np.arctan2(*model.components_[:, 0, ::-1].T)) % 180
    print(
        f"{name:22} angles {angles.round().astype(int)}  shares {model.weights_.round(2)}  "
        f"λ = {model.latent_penalty_:.3f}"
    )


tell("lloyd", hard)
tell("em", soft)

# %%
# The true values are 10° and 60°, 0.75 and 0.25, and λ = 0.6² / 3² = 0.04. Soft assignments recover
# all of them, also if λ is estimated. With hard labels, the estimate can fail on such data:
# shorter, rounder clusters explain it nearly as well.

both = LinearTAE(2, latent_dim=1, spread="shared", assignment="em", random_state=0).fit(X)
tell("em, estimated λ", both)
cut = LinearTAE(2, latent_dim=1, spread="shared", assignment="lloyd", random_state=0).fit(X)
tell("lloyd, estimated λ", cut)

# %%
# How certain is the cluster of each sample? Samples to the left of the line are uncertain.
# ``predict`` returns the most probable cluster, so no value is below one half. With soft
# assignments, the frequency of each cluster counts, too: at the crossing, the large one gets all
# samples.

ax = plot_confidence(both, X)
ax.set_title("Probability of the own cluster")
plt.show()
