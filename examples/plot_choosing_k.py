# ruff: noqa: D205, D400
"""
How many clusters? Elbows and agreement
=======================================

Without labels, two questions can be asked of the data. How much better does one cluster more
describe samples that the model has *not* seen? And do models fitted to different halves of the data
find the *same* clusters? ``tensorae.choose`` also uses the likelihood. This example looks at the
first two by eye.
"""

from itertools import combinations

import matplotlib.pyplot as plt
import numpy as np
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score
from sklearn.model_selection import KFold, cross_val_score

from tensorae import LinearTAE
from tensorae.datasets import load_penguins

X = load_penguins(scale="max").data


def agreement(model, X, n_halves=4):
    """Fit random halves, label all rows, and compare: 1 if all find the same clusters."""
    found = []
    for seed in range(n_halves):
        half = np.random.RandomState(seed).permutation(len(X))[: len(X) // 2]
        found.append(clone(model).fit(X[half]).predict(X))
    return np.mean([adjusted_rand_score(a, b) for a, b in combinations(found, 2)])


def cost(model, X, y=None):  # noqa: ARG001
    """Mean cost of samples under their best autoencoders (Eq. 3 of the paper)."""
    return model.costs(X).min(axis=1).mean()


numbers = range(1, 6)
models = [LinearTAE(k, latent_dim=1, latent_penalty=0.1, random_state=0) for k in numbers]
folds = KFold(5, shuffle=True, random_state=0)
held_out = [cross_val_score(model, X, cv=folds, scoring=cost).mean() for model in models]
alike = [agreement(model, X) for model in models]

figure, axes = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
axes[0].plot(numbers, held_out, marker="o")
axes[0].set(xlabel="clusters", ylabel="mean cost of a held-out sample", ylim=(0, None))
axes[1].plot(numbers, alike, marker="o")
axes[1].set(xlabel="clusters", ylabel="agreement of halves", ylim=(0, 1.05))
for ax in axes:
    ax.axvline(3, color="grey", linestyle=":")
plt.show()

# %%
# The held-out cost falls steeply up to three clusters and slowly after that: an elbow. It never
# rises, because smaller clusters always describe samples a little better, so its minimum is not a
# criterion; the elbow is. ``score``, the log-density, which ``cross_val_score`` uses by default,
# does have a maximum: here at four clusters, hardly above three.
#
# Agreement is complete for two clusters, nearly so for three, lower for four, and gone for five:
# beyond that, the data does not determine the clusters. Take the *largest* number before agreement
# breaks down. There are three species, which neither curve has used.
#
# A single cluster always agrees with itself, so agreement cannot tell whether there are clusters at
# all. The first steps of the elbow can.
