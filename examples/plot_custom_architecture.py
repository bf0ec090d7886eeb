# ruff: noqa: D205, D400
"""
Rings: a custom autoencoder
===========================

Three rings are linked like a chain. Neither straight lines nor general networks separate them well.
But ``architecture`` accepts *any* autoencoder, and one for rings needs only a center and a radius:
three numbers. Its code is an angle.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.metrics import adjusted_rand_score
from torch import nn

from tensorae import TAE, LinearTAE
from tensorae.plot import plot_clusters

rng = np.random.RandomState(0)
angles = rng.uniform(0, 2 * np.pi, 450)
y = np.repeat([0, 1, 2], 150)
X = np.column_stack([np.cos(angles) + 1.3 * y, np.sin(angles)])
X += 0.05 * rng.standard_normal(X.shape)


class Ring(nn.Module):
    """Encodes a point as its angle, decodes an angle as a point of the ring."""

    def __init__(self):
        super().__init__()
        self.middle = nn.Parameter(torch.zeros(2))
        self.radius = nn.Parameter(torch.ones(()))

    def encode(self, x):
        """Angles (n, 1) of points (n, 2)."""
        off = x - self.middle
        return torch.atan2(off[:, 1], off[:, 0])[:, None]

    def decode(self, z):
        """Points (n, 2) at angles (n, 1)."""
        return self.middle + self.radius * torch.cat([z.cos(), z.sin()], dim=1)


# %%
# The size of an angle has no meaning, so it should cost nothing: ``latent_penalty=0``. The start is
# a linear model, as always; the rings emerge while labels and networks are trained in turn.

models = {
    "LinearTAE": LinearTAE(n_clusters=3, latent_dim=1, latent_penalty=0.1, random_state=0),
    'TAE, "mlp"': TAE(n_clusters=3, latent_dim=1, random_state=0),
    "TAE, rings": TAE(3, latent_dim=1, architecture=Ring, latent_penalty=0.0, random_state=0),
}

figure, axes = plt.subplots(1, 3, figsize=(13, 3), layout="constrained", sharey=True)
for ax, (name, model) in zip(axes, models.items(), strict=True):
    plot_clusters(model.fit(X), X, overall=False, legend=False, ax=ax)
    ax.set_title(f"{name}: adjusted Rand index {adjusted_rand_score(y, model.labels_):.2f}")
    ax.set_aspect("equal")
plt.show()

# %%
# The remaining errors are at the crossings, where a point belongs to either ring. The learned
# values can be read from the modules, which see the data relative to the center of their cluster
# and in units of ``scale``.

module = models["TAE, rings"].module_
for ring, center in zip(module.autoencoders, module.centers, strict=True):
    middle = (center + module.scale * ring.middle).tolist()
    print(f"middle ({middle[0]:.2f}, {middle[1]:.2f}), radius {module.scale * ring.radius:.2f}")

# %%
# In this way, any knowledge about the groups can be built into the network: the method only
# requires something that encodes and decodes.
