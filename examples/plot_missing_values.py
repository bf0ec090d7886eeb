# ruff: noqa: D205, D400
"""
Missing values: penguins with a third of the numbers gone
=========================================================

Measurements get lost. Most methods want the table filled before they start, and whoever fills it
with means pulls every bird towards the middle. ``LinearTAE`` takes NaN as it is: it fits the
clusters to the values that are there, and then knows what to expect where there is none.
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
X_gaps = np.where(gone, np.nan, X)
whole = ~gone.any(axis=1)
print(f"{gone.mean():.0%} of the values are gone; {whole.mean():.0%} of the birds are whole")

# %%
# Dropping the birds that are not whole would leave few. The species are found among all of them:

model = LinearTAE(n_clusters=3, random_state=0).fit(X_gaps)
means = SimpleImputer().fit_transform(X_gaps)
kmeans = KMeans(3, n_init=10, random_state=0).fit(means)
print(f"LinearTAE on the gaps       ARI {adjusted_rand_score(species, model.labels_):.2f}")
print(f"means filled in, k-means    ARI {adjusted_rand_score(species, kmeans.labels_):.2f}")

# %%
# ``impute`` puts into each gap what the bird's own cluster says, given the rest of the bird.
# Values that are there stay as they are. Means make a cross in the middle that no bird lives on.

filled = model.impute(X_gaps)
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
figure.suptitle("Grey: both values there. Coloured by species: one or both are gone")
plt.show()

# %%
# How far may it be off? ``impute_std`` says so for each gap. The wider it says, the farther the
# filled values are from the truth; and nine of ten lie where nine of ten should.

deviation = model.impute_std(X_gaps)[gone]
error = (filled - X)[gone]
inside = np.abs(error) <= 1.645 * deviation
print(f"{inside.mean():.0%} of the true values lie within 1.645 standard deviations")

figure, ax = plt.subplots(figsize=(6.5, 4), layout="constrained")
ax.scatter(deviation, np.abs(error), c=np.where(inside, "#0072b2", "#d55e00"), s=14)
reach = np.array([0, deviation.max() * 1.05])
ax.plot(reach, 1.645 * reach, color="0.3")
ax.annotate("90 % should lie below", (0.7 * reach[1], 1.2 * reach[1]), ha="right", va="bottom")
ax.set(xlabel="impute_std: what is expected", ylabel="distance to the truth")
ax.set(title="Uncertainty of each filled value", xlim=(0, reach[1]), ylim=(0, None))
plt.show()

# %%
# A filled table looks as if it were measured, but it varies too little: expected values are less
# extreme than true ones. Draws from what may be in the gaps vary as they should, and carry the
# doubt along: do your analysis on each, and see how much the results differ.

draws = model.impute(X_gaps, n_draws=20, random_state=0)


def spread(table):
    return table[gone[:, 0], 0].std()


print(f"standard deviation of the lost values of {names[0]}: {spread(X):.2f}")
print(f"means of the columns {spread(means):.2f}, impute {spread(filled):.2f}")
each = [spread(draw) for draw in draws]
print(f"draws {np.mean(each):.2f} ± {np.std(each):.2f}")
