# ruff: noqa: D205, D400
"""
Photographs: twice the size
===========================

Enlarging a photograph means filling in missing pixels: of the finer grid, every second pixel in
every second row is known. Pictures look alike at different sizes, so the picture itself shows what
its edges look like. ``tensorae.photos.enlarge`` fits a mixture of subspaces to both sizes.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.ndimage import gaussian_filter, zoom
from sklearn.datasets import load_sample_image

from tensorae.photos import enlarge

photo = load_sample_image("flower.jpg")[150:246, 240:368]


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


def spline(small):
    """Cubic spline through the pixels, which lie on every second one of the result."""
    rows, columns = small.shape[:2]
    wide = np.pad(small, ((0, 1), (0, 1), (0, 0)), mode="edge").astype(float)
    size = ((2 * rows + 1) / (rows + 1), (2 * columns + 1) / (columns + 1), 1)
    return zoom(wide, size, order=3)[: 2 * rows, : 2 * columns].clip(0, 255).astype(np.uint8)


# %%
# If every second pixel of a photograph is removed, the enlarged result can be compared with the
# original.

small = photo[::2, ::2]
larger, splined = enlarge(small, 2), spline(small)
print(f"spline {psnr(splined):.2f} dB, enlarge {psnr(larger):.2f} dB")
show(("small", small), ("spline", splined), ("enlarge", larger), ("the truth", photo))

# %%
# Programs that reduce pictures blur them first. If the blur is given, ``enlarge`` inverts it:
# blurred again, its result is the small picture.

blur = 1.0
small = gaussian_filter(photo, (blur, blur, 0))[::2, ::2]
larger, splined = enlarge(small, 2, blur=blur), spline(small)
again = gaussian_filter(larger.astype(float), (blur, blur, 0))[::2, ::2]
print(f"spline {psnr(splined):.2f} dB, enlarge {psnr(larger):.2f} dB")
print(f"blurred again, it differs from the small one by {np.abs(again - small).mean():.2f} of 255")
show(("small, blurred", small), ("spline", splined), ("enlarge", larger), ("the truth", photo))
