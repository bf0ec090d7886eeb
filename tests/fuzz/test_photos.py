"""Whatever is in an image file: a picture that can be written again, or one sentence."""

import numpy as np
import pytest

from tensorae.exceptions import InvalidInputError
from tensorae.photos.files import Photo
from tensorae.photos.reading import read_photo
from tensorae.photos.writing import encoded, write_photo

Image = pytest.importorskip("PIL.Image")
pytestmark = pytest.mark.filterwarnings("ignore")


def some_file(rng, folder):
    """Bytes of a small picture of any kind, with tags."""
    exif = Image.Exif()
    exif[271], exif[274] = "Maker", int(rng.randint(1, 9))
    exif[34665] = {33434: 0.01, 36867: "2020:01:02 03:04:05"}
    mode = ["L", "RGB", "RGBA", "P", "1", "I;16", "sixteen"][rng.randint(7)]
    kind = ["png", "tif", "webp", "jpg"][rng.randint(4)]
    path = folder / f"source.{kind}"
    values = rng.randint(0, 65536, (9, 11, 4)).astype(np.uint16)
    if mode == "sixteen" and kind in ("png", "tif"):
        write_photo(path, Photo(values[..., :3], values[..., 3]))
        return path
    image = Image.fromarray((values >> 8).astype(np.uint8))
    if mode == "I;16" and kind in ("png", "tif"):
        image = Image.fromarray(values[..., 0])
    elif kind == "jpg":
        image = image.convert("L" if mode == "L" else "RGB")
    elif mode not in ("I;16", "sixteen"):
        image = image.convert("RGB").convert(mode)
    image.save(path, exif=exif.tobytes())
    return path


def damaged(data, rng):
    """Bytes with some flipped, cut out, doubled, or put in."""
    data = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        place, length = rng.randint(len(data) + 1), int(rng.choice([1, 2, 8, 100]))
        kind = rng.randint(5)
        if kind < 2 and place < len(data):
            data[place] = rng.randint(256)
        elif kind == 2:
            del data[place : place + length]
        elif kind == 3:
            data[place:place] = rng.bytes(length)
        else:
            data[place:place] = data[place : place + length]
    return bytes(data)


def test_a_damaged_image_file_is_an_error_or_a_picture(trials, tmp_path):
    path = tmp_path / "damaged.png"

    def trial(rng):
        path.write_bytes(damaged(some_file(rng, tmp_path).read_bytes(), rng))
        try:
            photo = read_photo(path)
        except InvalidInputError as error:
            message = str(error)
        else:
            assert encoded(photo, "TIFF")
            assert photo.pixels.ndim == 2 or photo.pixels.shape[2] == 3
            if photo.white is not None:
                write_photo(tmp_path / "again.png", photo)
                again = read_photo(tmp_path / "again.png")
                np.testing.assert_array_equal(again.pixels, photo.pixels)
            return
        assert "damaged.png" in message
        assert ";" in message

    trials(60, trial)
