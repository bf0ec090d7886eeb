# ruff: noqa: D205, D400
"""
New digits from every cluster: a variational TAE
================================================

``architecture="vae"`` gives every cluster a variational autoencoder: codes follow a normal
distribution, so a code that is *drawn* decodes to a new image. The model is not given the classes.
It finds the groups, learns how each is written, and can generate more of each.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import adjusted_rand_score

from tensorae import TAE

digits = load_digits()
chosen = np.isin(digits.target, [0, 1, 2, 3, 4, 6, 7])
images, classes = digits.data[chosen].reshape(-1, 8, 8) / 16, digits.target[chosen]
train, test = images[::2], images[1::2]

model = TAE(7, latent_dim=8, architecture="vae", sharing="layers", max_epochs=60, random_state=0)
model.fit(train)
print(f"adjusted Rand index: {adjusted_rand_score(classes[::2], model.labels_):.2f}")

# %%
# Each row is a cluster: some of its members on the left, generated samples on the right. ``sample``
# takes the cluster as ``labels``; without ``noise``, it shows what the drawn codes decode to.

n = 9
order = np.argsort([classes[::2][model.labels_ == j].mean() for j in range(7)])
figure, axes = plt.subplots(
    7, 2 * n + 1, figsize=(9.5, 4), gridspec_kw={"wspace": 0, "hspace": 0.06}
)
for row, label in zip(axes, order, strict=True):
    members = train[model.labels_ == label][:n]
    drawn, _ = model.sample(n, labels=label, noise=False)
    for ax in row:
        ax.set_axis_off()
    for ax, picture in zip([*row[:n], *row[n + 1 :]], [*members, *drawn], strict=True):
        ax.imshow(picture, cmap="gray_r", vmin=0, vmax=1)
axes[0, n // 2].set_title("members of the cluster")
axes[0, n + 1 + n // 2].set_title("new samples from it")
plt.show()

# %%
# The model is a density, and ``score_samples`` a lower bound on its logarithm: for held-out images,
# for draws from the model, and for digits that it has never seen. (Draws are more alike than real
# images: the model has a single noise level, and real images are clean or blurred.)

other = digits.data[~chosen].reshape(-1, 8, 8) / 16
groups = {
    "held out, of the same digits": test,
    "drawn from the model": model.sample(500)[0],
    "digits 5, 8 and 9": other,
}
figure, ax = plt.subplots(figsize=(8, 3), layout="constrained")
bins = np.linspace(-150, 80, 70)
for name, some in groups.items():
    scores = np.clip(model.score_samples(some), *bins[[0, -1]])
    ax.hist(scores, bins, density=True, histtype="step", linewidth=1.6, label=name)
ax.set(xlabel="bound on the log-density (nats)", yticks=[])
ax.spines[["top", "left", "right"]].set_visible(False)
ax.legend(frameon=False, loc="upper left")
plt.show()

# %%
# Codes are meaningful: between two members of a cluster lie other plausible ones.

label = order[2]
codes = model.transform(train[model.labels_ == label])
ends = codes[codes[:, 0].argmin()], codes[codes[:, 0].argmax()]
way = np.linspace(*ends, 12)
figure, axes = plt.subplots(1, 12, figsize=(9.5, 1), gridspec_kw={"wspace": 0.05})
for ax, picture in zip(axes, model.inverse_transform(way, np.full(12, label)), strict=True):
    ax.imshow(picture, cmap="gray_r", vmin=0, vmax=1)
    ax.set_axis_off()
figure.suptitle("From one member to another", y=1.1)
plt.show()
