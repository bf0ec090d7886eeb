# ruff: noqa: D205, D400
"""
Denoising images without clean examples
=======================================

A short code removes noise, and much of the image with it. ``LinearTAE.denoise`` shrinks instead:
each direction of a cluster by the share of its variance that is noise.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from tensorae import LinearTAE
from tensorae.datasets import add_noise
from tensorae.plot import plot_reconstructions

clean = load_digits().data / 16
noisy = add_noise(clean, scale=0.3, random_state=0)
noisy_train, noisy_test, _, clean_test = train_test_split(
    noisy, clean, test_size=0.2, random_state=0
)

# %%
# The model is fitted to noisy images only, and applied to others.

model = LinearTAE(10, latent_dim=5, latent_penalty=0.1, n_init=5, random_state=0).fit(noisy_train)
grid = plot_reconstructions(model, noisy_test, n=10, denoise=0.3, clean=clean_test)
plt.show()

# %%
# Mean squared error against the clean test images, for a little noise and a lot. The noise is
# given, or estimated by ``noise="auto"``.

rows = {"do nothing": [], "reconstruct": [], "denoise": [], 'denoise, noise="auto"': []}
scales = [0.05, 0.1, 0.2, 0.3]
for scale in scales:
    noisy = add_noise(clean, scale=scale, random_state=0)
    train, test, _, wanted = train_test_split(noisy, clean, test_size=0.2, random_state=0)
    model = LinearTAE(10, latent_dim=5, latent_penalty=0.1, n_init=5, random_state=0).fit(train)
    results = test, model.reconstruct(test), model.denoise(test, scale), model.denoise(test, "auto")
    for errors, result in zip(rows.values(), results, strict=True):
        errors.append(((result - wanted) ** 2).mean())

figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
for (name, errors), marker in zip(rows.items(), "os^x", strict=True):
    ax.plot(scales, errors, marker=marker, label=name)
ax.set(xlabel="standard deviation of the noise", ylabel="mean squared error", yscale="log")
ax.legend()
plt.show()

# %%
# With little noise, a reconstruction from five numbers is worse than doing nothing: most of what it
# discards belongs to the image. Shrinking is better than both everywhere, and does nothing if there
# is nothing to do.

print("error relative to doing nothing")
for name, errors in rows.items():
    print(f"{name:24}", *(f"{e:6.2f}" for e in np.array(errors) / rows["do nothing"]))
