# ruff: noqa: D205, D400
"""
Rings and moons: start from neighbours
======================================

Curved groups have no plane of their own, so that a linear start cuts them into straight pieces.
``init="manifold"`` starts from who is near whom (UMAP; the extra ``manifold``), and assignments
rest until each network has learned its curve.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_circles, make_moons

from tensorae import TAE, LinearTAE, embed

sets = {
    "two moons": make_moons(300, noise=0.06, random_state=0)[0],
    "two rings": make_circles(400, factor=0.4, noise=0.04, random_state=0)[0],
}

figure, axes = plt.subplots(2, 3, figsize=(9, 6), layout="constrained")
for (name, X), row in zip(sets.items(), axes, strict=True):
    places = embed(X, 2, random_state=0)
    linear = LinearTAE(2, 1, latent_penalty=0.02, random_state=0).fit(X)
    deep = TAE(2, 1, init="manifold", latent_penalty=0.02, random_state=0).fit(X)
    row[0].scatter(*X.T, c=linear.labels_, s=6, cmap="coolwarm")
    row[0].set(title=f"{name}: LinearTAE", aspect="equal")
    row[1].scatter(*places.T, c=deep.labels_, s=6, cmap="coolwarm")
    row[1].set(title="neighbours lie together", xticks=[], yticks=[])
    row[2].scatter(*X.T, c=deep.labels_, s=6, cmap="coolwarm", alpha=0.4)
    row[2].scatter(*deep.reconstruct(X).T, s=3, c="black")
    row[2].set(title="TAE, and its curves (black)", aspect="equal")
plt.show()

# %%
# The code has one number, so that a ring has to be cut open somewhere: the two ends of the code lie
# side by side in the data. Samples at the ends pay the most for their code, up to three times the
# mean. A small ``latent_penalty`` keeps that from deciding who belongs where.

X = sets["two rings"]
figure, axes = plt.subplots(1, 2, figsize=(8, 3.6), layout="constrained")
for penalty, ax in zip((0.1, 0.02), axes, strict=True):
    model = TAE(2, 1, init="manifold", latent_penalty=penalty, random_state=0).fit(X)
    radius = np.linalg.norm(X, axis=1)
    wrong = (model.labels_ == model.labels_[radius.argmin()]) != (radius < 0.7)
    ax.scatter(*X.T, c=model.transform(X)[:, 0], s=10, cmap="viridis")
    ax.scatter(*X[wrong].T, s=40, facecolors="none", edgecolors="red")
    ax.set(title=f"latent_penalty={penalty}: {wrong.sum()} on the wrong ring", aspect="equal")
plt.show()
