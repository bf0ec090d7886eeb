# ruff: noqa: D205, D400
"""
Photographs: removing noise
===========================

Patches of a photograph lie near many low-dimensional subspaces: sky, roof tiles, edges in every
direction. ``tensorae.photos.denoise`` fits a mixture of them to the noisy picture itself, without
other pictures, and shrinks every patch towards the subspaces that it may belong to.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_image

from tensorae.photos import denoise, estimate_noise

photo = load_sample_image("china.jpg")[60:220, 230:450]
noise = 25 * np.random.RandomState(0).standard_normal(photo.shape)
noisy = np.clip(np.round(photo + noise), 0, 255).astype(np.uint8)


def show(*pictures):
    """Pictures side by side, pixel by pixel."""
    _, axes = plt.subplots(1, len(pictures), figsize=(11, 2.9), layout="constrained")
    for ax, (title, picture) in zip(axes, pictures, strict=True):
        ax.imshow(picture, interpolation="nearest")
        ax.set_title(title)
        ax.set_axis_off()
    plt.show()


def psnr(picture):
    """Decibels of the noise that an error is like; 3 more mean half of the squared error."""
    return 10 * np.log10(255**2 / np.square(picture.astype(float) - photo).mean())


# %%
# The noise has a standard deviation of 25 on a scale of 255. It need not be known: it is estimated
# from the flattest patches. The result has the type and the range of the input.

print(f"noise of 25, estimated {estimate_noise(noisy).sigma:.1f}")
clean = denoise(noisy)
show(
    (f"noisy, {psnr(noisy):.1f} dB", noisy),
    (f"denoise(noisy), {psnr(clean):.1f} dB", clean),
    ("the truth", photo),
)

# %%
# With more noise, less detail remains: what cannot be distinguished from noise is removed, and
# nothing is invented. ``quality="fast"`` takes about a tenth of the time.

noisy = photo + 2.0 * noise
best, fast = denoise(noisy, noise=50), denoise(noisy, noise=50, quality="fast")
show(
    (f"noisy, {psnr(noisy):.1f} dB", np.clip(noisy, 0, 255).astype(np.uint8)),
    (f"best, {psnr(best):.1f} dB", np.clip(best, 0, 255).astype(np.uint8)),
    (f"fast, {psnr(fast):.1f} dB", np.clip(fast, 0, 255).astype(np.uint8)),
)

# %%
# A camera smooths and compresses its noise, so that neighbouring pixels and channels are alike: it
# becomes grain. ``estimate_noise`` measures that in the flat parts of the picture. This photograph
# is as the camera left it. Its dark background is shown twice as bright, and what was removed eight
# times: grain of a few pixels, and hardly anything of the picture.

flower = load_sample_image("flower.jpg")
model = estimate_noise(flower)
taken = flower[:130, :180]
clean = denoise(taken, model)


def brighter(picture):
    """Twice as bright."""
    return np.minimum(2.0 * picture, 255).astype(np.uint8)


removed = np.clip(128 + 8.0 * (taken.astype(float) - clean), 0, 255).astype(np.uint8)
show(
    ("as taken", brighter(taken)),
    (f"denoised, σ = {model.sigma:.1f}", brighter(clean)),
    ("removed", removed),
)

# %%
# The noise model: standard deviation by brightness, and correlation with the pixels around, within
# the green channel and between red and green.

_, axes = plt.subplots(1, 3, figsize=(11, 3), layout="constrained")
brightness = np.arange(256)
for channel, name in enumerate(("red", "green", "blue")):
    axes[0].plot(brightness, np.sqrt(model.variance(brightness, channel)), color=name, label=name)
axes[0].set(xlabel="brightness", ylabel="σ", ylim=(0, None), title="noise")
axes[0].legend()
for ax, (title, one, other) in zip(
    axes[1:], [("green", 1, 1), ("red and green", 0, 1)], strict=True
):
    ax.imshow(model.correlation[one, other], vmin=-1, vmax=1, cmap="RdBu_r", extent=(-7.5, 7.5) * 2)
    ax.set(title=f"correlation, {title}", xlabel="pixels")
plt.show()
