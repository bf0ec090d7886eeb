# ruff: noqa: D205, D400
"""
Samples that fit no cluster
===========================

``score_samples`` is the log-density under all clusters: a low value means that no cluster describes
the sample. Here, one digit at a time is left out of the training images and added to the test
images.
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
    """Images without the digit, a test set with it, and which test images show it."""
    train, usual = train_test_split(X[y != unseen], test_size=0.3, random_state=0)
    others = X[y == unseen]
    return train, np.vstack([usual, others]), np.repeat([False, True], [len(usual), len(others)])


train, test, is_unseen = split(unseen=8)
model = LinearTAE(9, latent_dim=5, latent_penalty=0.1, n_init=5, random_state=0).fit(train)
anomaly_score = -model.score_samples(test)

figure, ax = plt.subplots(figsize=(7, 3.4), layout="constrained")
bins = np.linspace(anomaly_score.min(), anomaly_score.max(), 50)
ax.hist(anomaly_score[~is_unseen], bins, alpha=0.7, label="digits of the training data")
ax.hist(anomaly_score[is_unseen], bins, alpha=0.7, label="eights, not in the training data")
ax.set(xlabel="minus the log-density", ylabel="images")
ax.legend()
plt.show()

# %%
# The most unusual images, and their reconstructions by the best autoencoder. No autoencoder has
# learned an eight.

worst = anomaly_score.argsort()[::-1][:12]
figure, axes = plt.subplots(2, 12, figsize=(11, 2.2), layout="constrained")
for column, row in zip(axes.T, worst, strict=True):
    for ax, image in zip(column, (test[row], model.reconstruct(test[[row]])[0]), strict=True):
        ax.imshow(image.reshape(8, 8), cmap="gray_r", vmin=0, vmax=1)
        ax.set_axis_off()
figure.suptitle("Images of the lowest density (above), reconstructed (below)")
plt.show()

# %%
# The same for every digit in turn, compared with other methods that give such a score. The area
# under the ROC curve is 1 if the ranking is perfect, and 0.5 if it is random.


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
        train, test, is_unseen = split(digit)
        areas.append(roc_auc_score(is_unseen, method(train, test)))
    print(f"{name:24}", *(f"{area:5.2f}" for area in areas), f" {np.mean(areas):.3f}")
