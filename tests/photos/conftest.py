"""Photographs of every kind, with all the metadata that files can hold."""

import numpy as np
import pytest

Image = pytest.importorskip("PIL.Image")
ImageCms = pytest.importorskip("PIL.ImageCms")

from tensorae.photos.files import Metadata, Photo  # noqa: E402


def exif_bytes(orientation=6):
    """EXIF data with an orientation, a date, a size and a place."""
    exif = Image.Exif()
    exif[271], exif[274] = "Maker", orientation
    exif[34665] = {33434: 0.01, 36867: "2020:01:02 03:04:05", 40962: 16, 40963: 12}
    exif[34853] = {1: "N", 2: (1.0, 2.0, 3.0)}
    return exif.tobytes()


@pytest.fixture(scope="session")
def metadata():
    """Return EXIF data (turned by 90 degrees), a profile, XMP and a resolution."""
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    xmp = b"<x:xmpmeta xmlns:x='adobe:ns:meta/'/>"
    return Metadata(exif_bytes(), profile, xmp, (300.0, 150.0))


@pytest.fixture
def make(rng, metadata):
    """Return a function that makes a photograph of a dtype, with colours and alpha or not."""

    def made(dtype="uint8", *, grey=False, alpha=False, metadata=metadata, orientation=None):
        if orientation is not None:
            metadata = Metadata(exif_bytes(orientation))
        top = {"uint8": 255, "uint16": 65535}.get(dtype, 1)
        values = (rng.random_sample((12, 16, 4)) * top).astype(dtype)
        return Photo(
            np.ascontiguousarray(values[..., 0] if grey else values[..., :3]),
            np.ascontiguousarray(values[..., 3]) if alpha else None,
            metadata,
        )

    return made
