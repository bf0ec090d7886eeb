# ruff: noqa: D205, D400
"""
Missing values: penguins without a third of the numbers
=======================================================

Most methods need complete tables, and filling with means pulls every row towards the middle.
``LinearTAE`` accepts NaN: it fits the clusters to the observed values, and predicts the others.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans
from sklearn.impute import SimpleImputer
from sklearn.metrics import adjusted_rand_score

from tensorae import LinearTAE
from tensorae.datasets import load_penguins

penguins = load_penguins(scale="standard")
X, species, names = penguins.data, penguins.target, penguins.feature_names

rng = np.random.RandomState(0)
gone = rng.random_sample(X.shape) < 0.44
gone[np.arange(len(X)), rng.randint(X.shape[1], size=len(X))] = False  # one value stays, at least
X_missing = np.where(gone, np.nan, X)
whole = ~gone.any(axis=1)
print(f"{gone.mean():.0%} of the values are missing; {whole.mean():.0%} of the birds are complete")

# %%
# Few birds would be left if incomplete ones were dropped. The species are found among all of them:

model = LinearTAE(n_clusters=3, random_state=0).fit(X_missing)
means = SimpleImputer().fit_transform(X_missing)
kmeans = KMeans(3, n_init=10, random_state=0).fit(means)
print(f"LinearTAE, missing values   ARI {adjusted_rand_score(species, model.labels_):.2f}")
print(f"means imputed, k-means      ARI {adjusted_rand_score(species, kmeans.labels_):.2f}")

# %%
# ``impute`` fills each missing value by its expected value in the cluster of the bird, given its
# other values. Observed values do not change. Means form a cross in the middle, far from all birds.

filled = model.impute(X_missing)
for name, table in (("means of the columns", means), ("impute", filled)):
    print(f"{name:22} RMSE {np.sqrt(np.square(table - X)[gone].mean()):.2f}")

colors = np.array(["#0072b2", "#d55e00", "#009e73"])
figure, axes = plt.subplots(1, 3, figsize=(11, 4), layout="constrained", sharex=True, sharey=True)
some = gone[:, :2].any(axis=1)
for ax, table, title in (
    (axes[0], X, "the truth"),
    (axes[1], means, "means of the columns"),
    (axes[2], filled, "LinearTAE.impute"),
):
    ax.scatter(*table[~some, :2].T, c="0.8", s=12)
    ax.scatter(*table[some, :2].T, c=colors[species[some]], s=14)
    ax.set(title=title, xlabel=f"{names[0]}, standardised")
axes[0].set_ylabel(f"{names[1]}, standardised")
figure.suptitle("Grey: both values observed. Coloured by species: one or both are missing")
plt.show()

# %%
# How uncertain are the filled values? ``impute_std`` says so for each. Larger values go with larger
# errors, and the intervals of 90 % contain about 90 % of the true values.

deviation = model.impute_std(X_missing)[gone]
error = (filled - X)[gone]
inside = np.abs(error) <= 1.645 * deviation
print(f"{inside.mean():.0%} of the true values lie within 1.645 standard deviations")

figure, ax = plt.subplots(figsize=(6.5, 4), layout="constrained")
ax.scatter(deviation, np.abs(error), c=np.where(inside, "#0072b2", "#d55e00"), s=14)
reach = np.array([0, deviation.max() * 1.05])
ax.plot(reach, 1.645 * reach, color="0.3")
ax.annotate("90 % should lie below", (0.7 * reach[1], 1.2 * reach[1]), ha="right", va="bottom")
ax.set(xlabel="impute_std: expected error", ylabel="error")
ax.set(title="Uncertainty of each filled value", xlim=(0, reach[1]), ylim=(0, None))
plt.show()

# %%
# A filled table varies too little, because expected values are less extreme than true ones. Draws
# vary as they should, and carry the uncertainty along: repeat your analysis on each draw, and see
# how much the results differ.

draws = model.impute(X_missing, n_draws=20, random_state=0)


def spread(table):
    return table[gone[:, 0], 0].std()


print(f"standard deviation of the missing values of {names[0]}: {spread(X):.2f}")
print(f"means of the columns {spread(means):.2f}, impute {spread(filled):.2f}")
each = [spread(draw) for draw in draws]
print(f"draws {np.mean(each):.2f} ± {np.std(each):.2f}")
