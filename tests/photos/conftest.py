"""Shared by the tests of photographs: files of every kind, with all that they can tell."""

import numpy as np
import pytest

Image = pytest.importorskip("PIL.Image")
ImageCms = pytest.importorskip("PIL.ImageCms")

from tensorae.photos.details import Details  # noqa: E402
from tensorae.photos.files import Photo  # noqa: E402


@pytest.fixture(scope="session")
def told():
    """Return details with EXIF (turned by 90 degrees, a place, a date), a profile and more."""
    exif = Image.Exif()
    exif[271], exif[274] = "Maker", 6
    exif[34665] = {33434: 0.01, 36867: "2020:01:02 03:04:05", 40962: 16, 40963: 12}
    exif[34853] = {1: "N", 2: (1.0, 2.0, 3.0)}
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    xmp = b"<x:xmpmeta xmlns:x='adobe:ns:meta/'/>"
    return Details(exif.tobytes(), profile, xmp, (300.0, 150.0), orientation=6)


@pytest.fixture
def make(rng, told):
    """Return a function that makes a picture of a type, with colours and transparency or not."""

    def made(dtype="uint8", *, grey=False, alpha=False, details=told):
        top = {"uint8": 255, "uint16": 65535}.get(dtype, 1)
        values = (rng.random_sample((12, 16, 4)) * top).astype(dtype)
        return Photo(
            np.ascontiguousarray(values[..., 0] if grey else values[..., :3]),
            np.ascontiguousarray(values[..., 3]) if alpha else None,
            details,
        )

    return made
