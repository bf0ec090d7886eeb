# ruff: noqa: D205, D400
"""
Photographs: removing text and scratches, filling missing pixels
================================================================

Patches of a photograph lie near many low-dimensional subspaces: sky, roof tiles, edges in every
direction. ``tensorae.photos.inpaint`` fits a mixture of them to the known pixels of a single
picture, without other pictures, and fills the missing pixels by their expected values.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_image

from tensorae.photos import inpaint

photo = load_sample_image("china.jpg")[150:246, 250:378]
height, width = photo.shape[:2]


def show(*pictures):
    """Pictures side by side, pixel by pixel."""
    _, axes = plt.subplots(1, len(pictures), figsize=(11, 3.4), layout="constrained")
    for ax, (title, picture) in zip(axes, pictures, strict=True):
        ax.imshow(picture, interpolation="nearest")
        ax.set_title(title)
        ax.set_axis_off()
    plt.show()


def psnr(picture):
    """Decibels of the noise that an error is like; 3 more mean half of the squared error."""
    return 10 * np.log10(255**2 / np.square(picture.astype(float) - photo).mean())


# %%
# Scratches and text hide some pixels completely. A mask marks them; here matplotlib draws it, for
# your pictures a paint program can. Other pixels do not change.

figure = plt.figure(figsize=(width / 100, height / 100), dpi=100, facecolor="black")
for row in range(6):
    figure.text(0.02, 0.88 - 0.16 * row, "missing pixels are filled", color="white", size=6.5)
line = plt.Line2D([0.1, 0.5, 0.95], [0.05, 0.8, 0.3], color="white", linewidth=2)
figure.add_artist(line)
figure.canvas.draw()
mask = np.asarray(figure.canvas.buffer_rgba())[:height, :width, 0] > 60
plt.close(figure)

damaged = np.where(mask[..., None], 255, photo).astype(np.uint8)
restored = inpaint(damaged, mask)
print(f"{mask.mean():.0%} of the pixels are gone")
print(f"damaged {psnr(damaged):.1f} dB, restored {psnr(restored):.1f} dB")
show(("damaged", damaged), ("restored", restored), ("the truth", photo))

# %%
# Three of four pixels may be missing at random, for example because of a broken sensor.

lost = np.random.RandomState(0).uniform(size=(height, width)) < 0.75
damaged = np.where(lost[..., None], 0, photo).astype(np.uint8)
restored = inpaint(damaged, lost)
print(f"{lost.mean():.0%} of the pixels are gone, restored {psnr(restored):.1f} dB")
show(("damaged", damaged), ("restored", restored), ("the truth", photo))
