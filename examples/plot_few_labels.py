# ruff: noqa: D205, D400
"""
A few known labels
==================

Labels are expensive, images are not. ``fit(X, labels=…)`` takes the labels that are known, with -1
elsewhere. They initialise the clusters, and cluster j keeps the label j, so ``predict`` returns
classes.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression

from tensorae import LinearTAE

digits = load_digits()
X, y = PCA(30, random_state=0).fit_transform(digits.data), digits.target


def some_labels(per_class, seed):
    """Keep this many labels of each class; -1 for the others."""
    rng = np.random.RandomState(seed)
    labels = np.full(len(y), -1)
    for digit in range(10):
        labels[rng.choice(np.flatnonzero(y == digit), per_class, replace=False)] = digit
    return labels


counts = [1, 2, 5, 10, 20]
ours, supervised = [], []
for per_class in counts:
    right = []
    for seed in range(3):
        labels = some_labels(per_class, seed)
        known = labels >= 0
        model = LinearTAE(n_clusters=10, latent_dim=5, latent_penalty=0.1).fit(X, labels=labels)
        judge = LogisticRegression(max_iter=2000).fit(X[known] / 16, y[known])
        guesses = model.predict(X[~known]), judge.predict(X[~known] / 16)
        right.append([(guess == y[~known]).mean() for guess in guesses])
    ours.append(np.mean(right, axis=0)[0])
    supervised.append(np.mean(right, axis=0)[1])

figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
ax.plot(counts, ours, marker="o", label="LinearTAE: all images, few labels")
ax.plot(counts, supervised, marker="s", label="LogisticRegression: the labelled images alone")
ax.set(xscale="log", xlabel="labelled images of each digit", ylabel="accuracy on all others")
ax.set_xticks(counts, [str(count) for count in counts])
ax.legend(loc="lower right")
plt.show()

# %%
# Labels are an initialisation, not a constraint: a labelled image is assigned to the cluster that
# it fits best. Those that changed are worth checking; they are unusual images or wrong labels.

labels = some_labels(20, seed=0)
wrong = np.flatnonzero(labels >= 0)[:5]
labels[wrong] = (labels[wrong] + 1) % 10  # five slips of the pen
model = LinearTAE(n_clusters=10, latent_dim=5, latent_penalty=0.1).fit(X, labels=labels)
known = labels >= 0
moved = np.flatnonzero(known & (model.labels_ != labels))
print(f"{len(moved)} of {known.sum()} labelled images changed their cluster,")
print(f"among them {np.isin(wrong, moved).sum()} of the {len(wrong)} with a wrong label")

figure, axes = plt.subplots(1, len(moved[:10]), figsize=(11, 1.7), layout="constrained")
for ax, row in zip(axes, moved[:10], strict=True):
    ax.imshow(digits.data[row].reshape(8, 8), cmap="gray_r")
    ax.set_title(f"{labels[row]} → {model.labels_[row]}", fontsize=10)
    ax.set_axis_off()
plt.show()
