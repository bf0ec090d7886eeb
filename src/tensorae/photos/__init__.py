"""Photographs, by the mixture of subspaces that their patches lie near: clean, whole, larger.

images.py      a picture as planes of numbers, and back as what it was
checks.py      arguments, or one clear sentence about what is wrong
files.py       a photograph from a file; reading.py and writing.py: PNG, JPEG, TIFF and WebP
details.py     what files tell beside pixels; exif.py: cameras; deep_colour.py: 16 bits a colour
comparison.py  before and after, side by side
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tensorae.photos.denoising import denoise
    from tensorae.photos.enlarging import enlarge
    from tensorae.photos.inpainting import inpaint
    from tensorae.photos.noise import estimate_noise

__all__ = ["denoise", "enlarge", "estimate_noise", "inpaint"]

_HOMES = {
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
