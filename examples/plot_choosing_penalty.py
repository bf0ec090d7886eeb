# ruff: noqa: D205, D400
"""
Choosing λ, and a case where estimating it fails
================================================

``latent_penalty`` (λ) is the cost of a large distance along the main directions of a cluster: near
0, clusters may be long lines; at 1, they are round. ``"auto"`` estimates it by maximum likelihood.
This example shows when that works, when it does not, and how to notice without labels.
"""

from itertools import combinations

import matplotlib.pyplot as plt
import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import adjusted_rand_score
from sklearn.preprocessing import scale

from tensorae import LinearTAE
from tensorae.datasets import load_penguins


def agreement(model, X, n_halves=4):
    """Fit random halves, label all rows, and compare: 1 if all find the same clusters."""
    found = []
    for seed in range(n_halves):
        half = np.random.RandomState(seed).permutation(len(X))[: len(X) // 2]
        found.append(clone(model).fit(X[half]).predict(X))
    return np.mean([adjusted_rand_score(a, b) for a, b in combinations(found, 2)])


penguins, cancer = load_penguins(2), load_breast_cancer()
paper = {"spread": "shared", "assignment": "lloyd"}  # one λ for all clusters
problems = {
    "penguins, bill": (penguins.data, penguins.target, LinearTAE(3, latent_dim=1, **paper)),
    # Ten starts and no search after them: the search is long where starts do not agree.
    "breast cancer": (
        scale(cancer.data),
        cancer.target,
        LinearTAE(2, latent_dim=2, n_init=10, **paper),
    ),
}
values = [0.03, 0.05, 0.1, 0.2, 0.5, 1.0]

# %%
# For each λ: the agreement of models fitted to different halves, which needs no labels, and for
# comparison the agreement with the classes, which are unknown in practice.

figure, axes = plt.subplots(1, 2, figsize=(11, 4), layout="constrained", sharey=True)
for ax, (name, (X, y, model)) in zip(axes, problems.items(), strict=True):
    rows = []
    for value in [*values, "auto"]:
        model.set_params(latent_penalty=value, random_state=0).fit(X)
        rows.append((agreement(model, X), adjusted_rand_score(y, model.labels_)))
    halves, classes = np.transpose(rows)
    ax.semilogx(values, halves[:-1], marker="o", label="agreement of halves")
    ax.semilogx(values, classes[:-1], marker="s", label="with the classes")
    estimate = model.latent_penalty_  # the last model had "auto"
    ax.plot([estimate] * 2, rows[-1], "k*", markersize=12, label='"auto"')
    ax.set(title=name, xlabel="λ", ylim=(0, 1.05))
axes[0].set_ylabel("adjusted Rand index")
axes[0].legend(loc="lower left")
plt.show()

# %%
# For the penguins, the estimate is right: 0.09, where agreement is high and the clusters are the
# species. (Round clusters, λ = 1, agree with each other as well, but are not the species. Stability
# alone does not make clusters right; look at a plot of them, too.)
#
# For the breast-cancer data, it is wrong. The model behind "auto" has the *same* variances along
# and off the main directions in all clusters. Here, the classes differ in exactly that: malignant
# tumours vary far more.

X, y, _ = problems["breast cancer"]
for number, name in enumerate(cancer.target_names):
    print(f"{name:10} variance of a feature, on average: {X[y == number].var(axis=0).mean():.2f}")

# %%
# Very long clusters (small λ) then gain likelihood by cutting across the classes. Agreement reveals
# it: at the estimate, halves of the data find clusters that have little in common, and they agree
# more as λ grows. So do not rely on an estimate at which halves disagree; increase λ to the
# smallest value at which they agree well.
