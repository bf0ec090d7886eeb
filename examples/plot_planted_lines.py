# ruff: noqa: D205, D400
"""
Lines that k-means cannot find
==============================

Two long clusters lie side by side: the first of the paper's planted data sets. K-means cuts both in
two, because it looks for the nearest center. A plain autoencoder has one direction for all samples.
A tensorized one finds the *line* that describes each sample best.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture

from tensorae import TAE, LinearTAE
from tensorae.datasets import parallel_lines
from tensorae.plot import cluster_colors

X, y = parallel_lines(random_state=0)  # 150 samples, 2 planted features and 3 of noise

# %%
# One autoencoder for all samples is ``TAE`` with one cluster. To get clusters from it, k-means is
# applied to its codes.

plain = TAE(n_clusters=1, latent_dim=1, max_epochs=100, random_state=0).fit(X)
found = {
    "KMeans": KMeans(2, n_init=10, random_state=0).fit_predict(X),
    "AE, then KMeans": KMeans(2, n_init=10, random_state=0).fit_predict(plain.transform(X)),
    "GaussianMixture": GaussianMixture(2, n_init=10, random_state=0).fit_predict(X),
    "LinearTAE": LinearTAE(
        n_clusters=2, latent_dim=1, latent_penalty=0.1, random_state=0
    ).fit_predict(X),
}

figure, axes = plt.subplots(1, 4, figsize=(12, 3.4), layout="constrained", sharey=True)
colors = cluster_colors(2)
for ax, (name, labels) in zip(axes, found.items(), strict=True):
    ax.scatter(X[:, 0], X[:, 1], c=[colors[label] for label in labels], s=14)
    ax.set_title(f"{name}\nadjusted Rand index {adjusted_rand_score(y, labels):.2f}", fontsize=10)
    ax.set_xlabel("feature 0")
axes[0].set_ylabel("feature 1")
plt.show()

# %%
# A Gaussian mixture with full covariances finds the lines, too, because these clusters *are*
# Gaussian. But it has to estimate a whole covariance for each cluster where a line needs one
# direction, and it depends more on its starts. Ten new draws of the same data:

models = {
    "KMeans": KMeans(2, n_init=10, random_state=0),
    "GaussianMixture": GaussianMixture(2, n_init=10, random_state=0),
    "LinearTAE": LinearTAE(n_clusters=2, latent_dim=1, latent_penalty=0.1, random_state=0),
}
for name, model in models.items():
    scores = []
    for seed in range(10):
        X_new, y_new = parallel_lines(random_state=seed)
        scores.append(adjusted_rand_score(y_new, model.fit_predict(X_new)))
    print(f"{name:16} mean {np.mean(scores):.3f}, lowest {np.min(scores):.3f}")

# %%
# With ``latent_penalty=1``, a distance along the line costs as much as one off it, and the linear
# model is k-means: the same centers from the same start.

start = X[:2]
means = KMeans(2, init=start, n_init=1, tol=0).fit(X).cluster_centers_
same = LinearTAE(n_clusters=2, latent_dim=1, latent_penalty=1.0, init=start).fit(X)
print("largest difference of a centre:", np.abs(same.cluster_centers_ - means).max().round(12))
