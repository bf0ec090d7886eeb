# ruff: noqa: D205, D400
"""
Explaining clusters, and reversed trends
========================================

``describe`` lists what distinguishes each cluster and along which features it varies.
``trend_reversals`` looks for pairs of features whose trend within the clusters contradicts the
overall one, and corrects for the number of pairs.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_iris

from tensorae import LinearTAE
from tensorae.inspect import describe, trend_reversals
from tensorae.plot import plot_clusters, plot_loadings

iris = load_iris()
X, names = iris.data, [name.removesuffix(" (cm)") for name in iris.feature_names]
model = LinearTAE(n_clusters=3, latent_dim=1, latent_penalty=0.1, random_state=0).fit(X)

for cluster in describe(model, X, feature_names=names, n_features=2, n_members=3):
    print(cluster)

# %%
# The features along which each cluster varies, as a figure. Clusters 0 and 2 vary in the length of
# petals and sepals together; cluster 1, whose petals hardly vary, in length and width of the
# sepals.

ax = plot_loadings(model, feature_names=names)
plt.show()

# %%
# Six pairs of features are tested. A pair is reversed if the overall slope and the common slope
# within the clusters have opposite signs, and both are significant.

found = trend_reversals(X, model.labels_, feature_names=names)
print(found)

# %%
# As a table:

columns = ["x", "y", "overall", "within", "p_value", "reversed", "complete"]
print(found.to_frame()[columns].round(3).to_string(index=False))

# %%
# Over all flowers, wider sepals go with *narrower* petals. Within each cluster, wider sepals go
# with wider petals, because larger flowers have more of both. The textbook pair, sepal length and
# width, has opposite signs, too, but its overall slope is not significant, so it is not counted.

strongest = found[0]
ax = plot_clusters(model, X, [strongest.x, strongest.y], feature_names=names)
ax.set_title(f"{strongest.y} against {strongest.x}")
plt.show()
