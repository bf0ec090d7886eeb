# ruff: noqa: D205, D400
"""
Simpson's paradox among penguins
================================

Longer bills are *shallower* bills, if you look at all penguins of the Palmer Archipelago at once.
Inside every species it is the other way round. One representation of the data can only show the
first; tensorae finds the second without being told the species.
"""

import matplotlib.pyplot as plt
from sklearn.metrics import adjusted_rand_score
from sklearn.metrics.cluster import contingency_matrix

from tensorae import LinearTAE
from tensorae.datasets import load_penguins
from tensorae.inspect import trend_reversals
from tensorae.plot import plot_clusters, plot_embedding

penguins = load_penguins(2)  # bill length and depth, in millimetres
X, names = penguins.data, penguins.feature_names

model = LinearTAE(n_clusters=3, latent_dim=1, latent_penalty=0.1, random_state=0).fit(X)
ax = plot_clusters(model, X, feature_names=names)
ax.set_title("Down overall, up inside every cluster")
plt.show()

# %%
# The dashed line is the first principal direction of all birds: what one linear autoencoder, or
# PCA, would keep of them. The coloured lines are the main directions of the three clusters.
#
# The species were not used. They agree with what was found:

print("rows: species, columns: clusters")
table = contingency_matrix(penguins.target, model.labels_)
for species, row in zip(penguins.target_names, table, strict=True):
    print(f"{species:10}", *(f"{count:4d}" for count in row))
print(f"\nadjusted Rand index: {adjusted_rand_score(penguins.target, model.labels_):.3f}")

# %%
# Is the reversal more than chance? ``trend_reversals`` tests every pair of features, here only
# one, with confidence intervals for the slope overall, inside the clusters in common, and in each
# of them.

print(trend_reversals(X, model.labels_, feature_names=names))

# %%
# Each bird now has two numbers: its cluster, and its place along the main direction of that
# cluster.

ax = plot_embedding(model, X)
ax.set_title("Place of each bird on the axis of its own cluster (mm from the centre)")
plt.show()
