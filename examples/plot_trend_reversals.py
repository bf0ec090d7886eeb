# ruff: noqa: D205, D400
"""
Why these clusters, and which trends turn round
===============================================

A cluster is worth as much as what one can say about it. ``describe`` lists what sets each cluster
apart and along which features it varies; ``trend_reversals`` looks for pairs of features whose
trend inside the clusters contradicts the overall one, and corrects for the number of pairs it
looked at.
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
# The same as a picture: along which features each cluster varies. Clusters 0 and 2 grow in the
# length of petal and sepal together; cluster 1, whose petals hardly vary, in length and width of
# the sepals.

ax = plot_loadings(model, feature_names=names)
plt.show()

# %%
# Six pairs of features are looked at. A pair counts as reversed where the slope over all flowers
# and the common slope inside the clusters have opposite signs, both beyond chance.

found = trend_reversals(X, model.labels_, feature_names=names)
print(found)

# %%
# As a table, for further work:

columns = ["x", "y", "overall", "within", "p_value", "reversed", "complete"]
print(found.to_frame()[columns].round(3).to_string(index=False))

# %%
# Over all flowers, wider sepals come with *narrower* petals. Inside each cluster wider sepals
# come with wider petals: the larger flower has more of both. The pair that textbooks show, sepal
# length and width, has opposite signs, too, but its overall slope is not beyond chance, so it is
# not counted.

strongest = found[0]
ax = plot_clusters(model, X, [strongest.x, strongest.y], feature_names=names)
ax.set_title(f"{strongest.y} against {strongest.x}")
plt.show()
