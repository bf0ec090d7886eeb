"""De-noise, fill and enlarge photographs, by a mixture of subspaces fitted to their patches.

images.py         images as float planes and back, checks of arguments
files.py          PNG, JPEG, TIFF and WebP files with their metadata
patches.py        patches and overlapping tiles
noise.py          how much noise a picture has
denoising.py      known noise; patch_mixture.py: missing pixels, for inpainting.py and enlarging.py
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tensorae.photos.denoising import denoise
    from tensorae.photos.enlarging import enlarge
    from tensorae.photos.inpainting import inpaint
    from tensorae.photos.noise import NoiseModel, estimate_noise

__all__ = ["NoiseModel", "denoise", "enlarge", "estimate_noise", "inpaint"]

_HOMES = {
    "NoiseModel": "tensorae.photos.noise",
    "denoise": "tensorae.photos.denoising",
    "enlarge": "tensorae.photos.enlarging",
    "estimate_noise": "tensorae.photos.noise",
    "inpaint": "tensorae.photos.inpainting",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'tensorae.photos' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
