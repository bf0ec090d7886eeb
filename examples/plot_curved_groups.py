# ruff: noqa: D205, D400
"""
Rings and moons: start from neighbours
======================================

Curved groups lie in no plane of their own, so a linear model cuts them into straight pieces.
``TAE`` starts from groups in the graph of nearest neighbours where these cut far fewer neighbours
apart, and keeps the assignments until each network has learned its curve.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import make_circles, make_moons

from tensorae import TAE, LinearTAE

sets = {
    "two moons": make_moons(300, noise=0.06, random_state=0)[0],
    "two rings": make_circles(300, factor=0.4, noise=0.04, random_state=0)[0],
}

figure, axes = plt.subplots(2, 2, figsize=(6, 6), layout="constrained")
for (name, X), row in zip(sets.items(), axes, strict=True):
    linear = LinearTAE(2, 1, latent_penalty=0.1, random_state=0).fit(X)
    deep = TAE(2, 1, random_state=0).fit(X)
    row[0].scatter(*X.T, c=linear.labels_, s=6, cmap="coolwarm")
    row[0].set(title=f"{name}: LinearTAE", aspect="equal")
    row[1].scatter(*X.T, c=deep.labels_, s=6, cmap="coolwarm", alpha=0.4)
    row[1].scatter(*deep.reconstruct(X).T, s=3, c="black")
    row[1].set(title="TAE, and its curves (black)", aspect="equal")
plt.show()

# %%
# The code is a single number, so a ring must be cut open somewhere, and the two ends of the code
# are neighbours in the data. A continuous code would have to run back along the ring between them.
# These networks propose two codes for each sample and use the one that decodes better, so the code
# can jump at the cut and no sample is lost there. The curves lie slightly inside the rings, because
# ``latent_penalty`` shrinks the decoded samples.

figure, axes = plt.subplots(1, 2, figsize=(8, 3.6), layout="constrained")
for j, ax in enumerate(axes):
    ring = X[deep.labels_ == j]
    ax.scatter(*X.T, s=4, c="lightgrey")
    points = ax.scatter(*ring.T, c=deep.transform(ring)[:, 0], s=12, cmap="viridis")
    ax.set(title=f"code of ring {j}", aspect="equal")
    figure.colorbar(points, ax=ax)
plt.show()
