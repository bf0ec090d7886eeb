# ruff: noqa: D205, D400
"""
Large data with Dask: a fit where the partitions are
====================================================

Tables that one machine cannot hold are often Dask collections, in partitions on several machines.
``LinearTAE`` fits them there: each pass is a task for each partition, and only sums travel.
"""

import dask
import dask.array as da
import matplotlib.pyplot as plt
import numpy as np

from tensorae import LinearTAE
from tensorae.datasets import lines_3d

# %%
# Partitions are made on the workers; here, in threads of this machine. With a cluster, start a
# ``dask.distributed.Client`` first, read ``dask.dataframe.read_parquet(...)``, and keep the rows in
# the memory of the workers by ``.persist()``.

ROWS, PARTITIONS = 9_000, 12


def partition(number):
    return lines_3d(ROWS, random_state=number)[0]


d = partition(0).shape[1]
parts = [
    da.from_delayed(dask.delayed(partition)(number), (ROWS, d), float)
    for number in range(PARTITIONS)
]
X = da.concatenate(parts).persist()
print(f"{X.shape[0]:,} rows of {X.shape[1]} numbers in {X.numblocks[0]} partitions")

model = LinearTAE(n_clusters=3, latent_dim=1, random_state=0).fit(X)
print(f"{model.n_iter_} iterations; clusters of", model.cluster_sizes_, "rows")

# %%
# Results are lazy, with the partitions of the rows: nothing is computed until it is asked for, and
# then where the rows are.

labels, scores = model.predict(X), model.score_samples(X)
print(labels)
counts = [(labels == j).sum() for j in range(3)]
print("counted by the workers:", dask.compute(*counts))

# %%
# For a picture, a histogram of each cluster comes to the client, and no row.

codes = model.transform(X)[:, 0]
edges = np.linspace(-12, 12, 61)
histograms = dask.compute(*[da.histogram(codes[labels == j], edges)[0] for j in range(3)])
figure, ax = plt.subplots(figsize=(7, 3.5), layout="constrained")
for j, counts in enumerate(histograms):
    ax.stairs(counts, edges, label=f"cluster {j}")
ax.set(xlabel="code", ylabel="rows", title="Codes of all rows, counted where they are")
ax.legend(frameon=False)
plt.show()

# %%
# The model is the one that a fit in memory gives, up to rounding.

here = LinearTAE(n_clusters=3, latent_dim=1, random_state=0).fit(X.compute())
difference = abs(here.cluster_centers_ - model.cluster_centers_).max()
print(f"largest difference of the centres: {difference:.0e}")
