# ruff: noqa: D205, D400
"""
How many clusters? Elbows and agreement
=======================================

No label says how many clusters there are. Two things can be asked of the data itself. How much
better are samples described that the model has *not* seen, with one cluster more? And do models
that were fitted on different halves of the data find the *same* clusters? ``tensorae.choose`` asks
a third: how likely is the data. Here is the look by eye.
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
    """Fit on random halves, label all rows, and compare: 1 where all find the same clusters."""
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
# turns round, because smaller pieces always describe a sample somewhat better; so the lowest cost
# is no criterion, the elbow is. ``score``, the log-density, which ``cross_val_score`` asks for by
# itself, does turn round: here it is highest for four clusters, and three are hardly below.
#
# Agreement is complete at two clusters, nearly so at three, lower at four and lost at five: there
# the data no longer says where to cut. Look for the *largest* number before agreement breaks
# down. There are three species here, though neither picture has been told.
#
# One cluster agrees with itself whatever the data, so agreement alone cannot tell whether there
# are clusters at all. The first steps of the elbow do.
