"""Whatever is in an image file: a picture that can be written again, or one sentence."""

import shutil
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from tensorae import photos
from tensorae.cli import main
from tensorae.exceptions import InvalidInputError
from tensorae.photos.files import Photo, encode, read_photo, write_photo

Image = pytest.importorskip("PIL.Image")
pytestmark = pytest.mark.filterwarnings("ignore")
NOISE = photos.NoiseModel.white(5.0)


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
            assert encode(photo, "TIFF")
            assert photo.pixels.ndim == 2 or photo.pixels.shape[2] == 3
            if photo.white is not None:
                write_photo(tmp_path / "again.png", photo)
                again = read_photo(tmp_path / "again.png")
                np.testing.assert_array_equal(again.pixels, photo.pixels)
            return
        assert "damaged.png" in message
        assert ";" in message

    trials(60, trial)


WORDS = [
    "denoise", "inpaint", "enlarge", "a.png", "b.jpg", "c.webp", "mask.png", "text.png", "in",
    "out", "out/", "new.png", "new.jpg", "new.gif", "no/new.png", "in/a.png", "missing.png",
    "*.png", ".", "-", "", " ", "-o", "--output", "--mask", "alpha", "masks", "--noise", "--by",
    "--blur", "--jobs", "--passes", "--grow", "--fast", "--compare", "--force", "--json", "-q",
    "--help", "0", "1", "2", "-1", "1e9", "nan", "inf", "auto", "\udcff", "é", "--", "[", "**",
    "/dev/null", "x" * 300,
]  # fmt: skip


def test_any_command_line_ends_with_a_result_or_a_sentence(trials, tmp_path, monkeypatch, capsys):
    """What is read stays as it is, unless it was given over by --force."""
    monkeypatch.setitem(vars(photos), "estimate_noise", lambda image, **_: NOISE)
    monkeypatch.setitem(vars(photos), "denoise", lambda image, noise=None, **_: image // 2)
    monkeypatch.setitem(vars(photos), "inpaint", lambda image, mask, noise=None, **_: image // 2)
    monkeypatch.setitem(
        vars(photos), "enlarge", lambda image, n, **_: image.repeat(n, 0).repeat(n, 1)
    )
    values = np.random.RandomState(0).randint(0, 256, (9, 11, 4)).astype(np.uint8)

    def trial(rng):
        here = tmp_path / "here"
        shutil.rmtree(here, ignore_errors=True)
        for folder in ("in", "masks"):
            (here / folder).mkdir(parents=True)
        monkeypatch.chdir(here)
        for name in ("a.png", "in/a.png", "c.webp"):
            Image.fromarray(values).save(name)
        for name in ("mask.png", "masks/a.png"):
            Image.fromarray(values[..., 0]).save(name)
        Image.fromarray(values[..., :3]).save("b.jpg")
        (here / "text.png").write_text("text")
        before = {path: path.read_bytes() for path in here.rglob("*.*")}
        starts = [["denoise", "a.png", "-o", "new.png"], ["denoise", "in", "-o", "out"], [],
                  ["inpaint", "in", "--mask", "masks", "-o"], ["enlarge", "b.jpg", "-o"],
                  ["inpaint", "b.jpg", "--mask", "mask.png", "-o", "new.jpg"]]  # fmt: skip
        words = starts[rng.randint(len(starts))]
        words = [*words, *(WORDS[rng.randint(len(WORDS))] for _ in range(rng.randint(1, 6)))]
        with pytest.raises(SystemExit) as end:
            main(["photo", *words])
        said = f"{words}: {capsys.readouterr().err[-1500:]}"
        assert (end.value.code or 0) in (0, 1, 2), said
        assert "internal error" not in said
        assert "Traceback" not in said
        # What was there in the place of a result may be replaced; what is read only by force.
        outputs = [second for first, second in pairwise(words) if first in ("-o", "--output")]
        for path in before:
            if path.read_bytes() != before[path]:
                label, places = path.relative_to(here), [Path(name) for name in outputs]
                assert {label, *label.parents} & set(places), said
                assert words.count(label.as_posix()) < 2 or "--force" in words, said

    trials(40, trial)
