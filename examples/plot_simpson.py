# ruff: noqa: D205, D400
"""
Simpson's paradox among penguins
================================

Among all penguins of the Palmer Archipelago, longer bills are *shallower*. Within every species,
they are deeper. A single representation of the data can only show the overall trend; tensorae finds
the trend within the species without knowing them.
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
# The dashed line is the first principal direction of all birds, which a single linear autoencoder,
# or PCA, would keep. The coloured lines are the main directions of the three clusters.
#
# The species were not used. They agree with the clusters:

print("rows: species, columns: clusters")
table = contingency_matrix(penguins.target, model.labels_)
for species, row in zip(penguins.target_names, table, strict=True):
    print(f"{species:10}", *(f"{count:4d}" for count in row))
print(f"\nadjusted Rand index: {adjusted_rand_score(penguins.target, model.labels_):.3f}")

# %%
# Is the reversal significant? ``trend_reversals`` tests every pair of features, here only one, with
# confidence intervals for the overall slope, the common slope within the clusters, and the slope in
# each of them.

print(trend_reversals(X, model.labels_, feature_names=names))

# %%
# Each bird now has two numbers: its cluster, and its position along the main direction of that
# cluster.

ax = plot_embedding(model, X)
ax.set_title("Position of each bird on the axis of its cluster (mm from the center)")
plt.show()
