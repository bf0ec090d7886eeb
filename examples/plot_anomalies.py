# ruff: noqa: D205, D400
"""
Samples that fit no cluster
===========================

``score_samples`` is the log-density under all clusters: low means that none of them can describe
the sample. To try it, one digit at a time is kept from the model and slipped in among
the test images.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

from tensorae import LinearTAE

digits = load_digits()
X, y = digits.data / 16, digits.target


def split(unseen):
    """Images without the digit, and a test set with it; who is odd there."""
    train, usual = train_test_split(X[y != unseen], test_size=0.3, random_state=0)
    odd = X[y == unseen]
    return train, np.vstack([usual, odd]), np.repeat([False, True], [len(usual), len(odd)])


train, test, odd = split(unseen=8)
model = LinearTAE(9, latent_dim=5, latent_penalty=0.1, n_init=5, random_state=0).fit(train)
oddness = -model.score_samples(test)

figure, ax = plt.subplots(figsize=(7, 3.4), layout="constrained")
bins = np.linspace(oddness.min(), oddness.max(), 50)
ax.hist(oddness[~odd], bins, alpha=0.7, label="digits like those of the fit")
ax.hist(oddness[odd], bins, alpha=0.7, label="eights, never seen")
ax.set(xlabel="minus the log-density", ylabel="images")
ax.legend()
plt.show()

# %%
# The oddest images, and what the best autoencoder makes of them: it has no eight to offer.

worst = oddness.argsort()[::-1][:12]
figure, axes = plt.subplots(2, 12, figsize=(11, 2.2), layout="constrained")
for column, row in zip(axes.T, worst, strict=True):
    for ax, image in zip(column, (test[row], model.reconstruct(test[[row]])[0]), strict=True):
        ax.imshow(image.reshape(8, 8), cmap="gray_r", vmin=0, vmax=1)
        ax.set_axis_off()
figure.suptitle("Images of the lowest density (above), reconstructed (below)")
plt.show()

# %%
# The same for every digit in turn, beside others who give such a score. Area under the ROC curve:
# 1 is perfect, 0.5 a guess.


def distances(train, test):
    return KMeans(9, n_init=5, random_state=0).fit(train).transform(test).min(axis=1)


def residuals(train, test):
    pca = PCA(10).fit(train)
    return ((test - pca.inverse_transform(pca.transform(test))) ** 2).sum(axis=1)


def densities(train, test):
    model = LinearTAE(9, latent_dim=5, latent_penalty=0.1, n_init=5, random_state=0)
    return -model.fit(train).score_samples(test)


def isolation(train, test):
    return -IsolationForest(n_estimators=50, random_state=0).fit(train).score_samples(test)


print(f"{'unseen digit':24}", *(f"{digit:5d}" for digit in range(10)), "  mean")
for name, method in {
    "LinearTAE": densities,
    "KMeans, distance": distances,
    "PCA, 10 components": residuals,
    "IsolationForest": isolation,
}.items():
    areas = []
    for digit in range(10):
        train, test, odd = split(digit)
        areas.append(roc_auc_score(odd, method(train, test)))
    print(f"{name:24}", *(f"{area:5.2f}" for area in areas), f" {np.mean(areas):.3f}")
