# ruff: noqa: D205, D400
"""
Numbers and categories: the penguins with island and sex
========================================================

``LinearTAE`` takes data frames with text, categories and truth values. Each cluster has a
probability for each level, beside its centre and its components; nothing has to be encoded first.
"""

import matplotlib.pyplot as plt
import numpy as np
from palmerpenguins import load_penguins
from sklearn.metrics import adjusted_rand_score

from tensorae import LinearTAE

raw = load_penguins()
raw = raw[raw["body_mass_g"].notna()]
numbers = ["bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g"]
table = raw[[*numbers, "island", "sex"]].copy()
table[numbers] = (table[numbers] - table[numbers].mean()) / table[numbers].std()
print(table.head(3))

# %%
# The species serves to score only. The sex of some birds is unknown; they are clustered, too.

model = LinearTAE(n_clusters=3, random_state=0).fit(table)
alone = LinearTAE(n_clusters=3, random_state=0).fit(table[numbers])
print(f"all columns   ARI {adjusted_rand_score(raw['species'], model.labels_):.2f}")
print(f"numbers only  ARI {adjusted_rand_score(raw['species'], alone.labels_):.2f}")

# %%
# On which island does each cluster live?

figure, axes = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained", sharey=True)
for ax, name, levels, shares in zip(
    axes, ("island", "sex"), model.categories_, model.level_probabilities_, strict=True
):
    left = np.zeros(len(shares))
    for level, share in zip(levels, np.transpose(shares), strict=False):
        ax.barh(range(len(shares)), share, left=left, label=level)
        left += share
    ax.set(title=name, xlabel="probability", yticks=range(len(shares)))
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=len(levels), frameon=False)
axes[0].set_ylabel("cluster")
plt.show()

# %%
# How many groups are there? Left to choose, the model finds six: males and females of each species.

chosen = LinearTAE(n_clusters=range(2, 9), random_state=0).fit(table)
for label in range(len(chosen.cluster_centers_)):
    own = raw[chosen.labels_ == label]
    first = own["species"].mode()[0], own["sex"].mode()[0]
    print(f"cluster {label}: {len(own):3} birds, most of them {', '.join(first)}")

# %%
# Then ``impute`` can tell the sex of birds by their measurements; ``level_proba`` says how certain
# that is. To check it, the sex of some more birds is hidden. With one cluster for each species it
# would be a guess.

rng = np.random.RandomState(1)
unknown = table["sex"].isna().to_numpy()
hidden = (rng.random_sample(len(table)) < 0.2) & ~unknown
partly = table.copy()
partly.loc[hidden, "sex"] = None
for k in (3, 6):
    model = LinearTAE(n_clusters=k, random_state=0).fit(partly)
    right = (model.impute(partly)["sex"] == table["sex"])[hidden]
    print(f"{k} clusters: {right.mean():.0%} of {hidden.sum()} hidden values are right")

filled, shares = chosen.impute(table), chosen.level_proba(table)[1].max(axis=1)
for row in np.flatnonzero(unknown):
    print(f"row {row}: {filled['sex'].iloc[row]} ({shares[row]:.0%})")
