# ruff: noqa: D205, D400
"""
An embedding for each digit
===========================

``TAE`` trains a convolutional autoencoder for each cluster of images. A code of two numbers then
need not separate the clusters, as in a common embedding: it can describe how a digit is *written*.
The example uses four digits that separate well; among 0 to 3, some ones end up with the twos.
"""

# sphinx_gallery_thumbnail_number = 3

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import adjusted_rand_score

from tensorae import TAE
from tensorae.plot import plot_embedding, plot_history, plot_reconstructions

digits = load_digits()
chosen = np.isin(digits.target, [0, 2, 4, 6])
images, classes = digits.data[chosen].reshape(-1, 8, 8) / 16, digits.target[chosen]

model = TAE(n_clusters=4, latent_dim=2, architecture="conv", max_epochs=40, random_state=0)
model.fit(images)
print(f"adjusted Rand index: {adjusted_rand_score(classes, model.labels_):.3f}")

# %%
# The course of the training: labels change at first. In the shaded half they are fixed, and the
# networks train on their own images.

ax = plot_history(model)
plt.show()

# %%
# Codes of different clusters have different coordinates, so each cluster has its own map.

axes = plot_embedding(model, images)
plt.show()

# %%
# What do the two numbers mean? Decode a path through each map, from the 5 % to the 95 % quantile of
# the first number, with the second at its median:

codes = model.transform(images)
steps = 9
figure, axes = plt.subplots(4, steps, figsize=(8, 3.8), layout="constrained")
for label, row in enumerate(axes):
    own = codes[model.labels_ == label]
    way = np.tile(np.median(own, axis=0), (steps, 1))
    way[:, 0] = np.linspace(*np.quantile(own[:, 0], [0.05, 0.95]), steps)
    pictures = model.inverse_transform(way, np.full(steps, label))
    for ax, picture in zip(row, pictures, strict=True):
        ax.imshow(picture, cmap="gray_r", vmin=0, vmax=1)
        ax.set_axis_off()
figure.suptitle("A path along the first number of the code, for each cluster")
plt.show()

# %%
# And how much of an image two numbers preserve:

grid = plot_reconstructions(model, images, n=12)
plt.show()
