"""``tensorae photo``: pictures in, pictures out, and nothing lost on the way.

What the functions make of pixels is tested with them; here cheap ones stand in for them.
"""

import json
import os
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from tensorae import photos
from tensorae.exceptions import InvalidInputError

Image = pytest.importorskip("PIL.Image")

SIGMA = photos.NoiseModel.white(12.5)


@pytest.fixture(autouse=True)
def asked(monkeypatch):
    """Put cheap functions in place of the real ones; return what they were asked for."""
    calls = []

    def note(name, image, *arguments, progress=None, **options):
        if min(image.shape[:2]) < 8:
            raise InvalidInputError("image must be at least 8 x 8 pixels.")
        progress(1, 2)
        calls.append(SimpleNamespace(name=name, image=image, arguments=arguments, **options))

    def denoise(image, noise=None, **options):
        note("denoise", image, noise, **options)
        return image // 2

    def inpaint(image, mask, noise=None, **options):
        note("inpaint", image, mask, noise, **options)
        holes = mask if image.ndim == 2 else mask[..., None]
        return np.where(holes, 9, image).astype(image.dtype)

    def enlarge(image, factor=2, **options):
        note("enlarge", image, factor, **options)
        return image.repeat(factor, 0).repeat(factor, 1)

    # They are looked up by name when they are first asked for; what is here goes first.
    monkeypatch.setitem(vars(photos), "estimate_noise", lambda image, **_: SIGMA)
    for function in (denoise, inpaint, enlarge):
        monkeypatch.setitem(vars(photos), function.__name__, function)
    return calls


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Work in a folder of this test's own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    return tmp_path


@pytest.fixture
def picture(rng, here):
    """Return a function that writes a picture and returns its pixels."""

    def write(name="a.png", size=(12, 16), mode="RGB", **options):
        bands = len(Image.new(mode, (1, 1)).getbands())
        values = (rng.random_sample((*size, bands)) * 255).astype(np.uint8)
        path = here / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(values[..., 0] if bands == 1 else values).save(path, **options)
        return values[..., 0] if bands == 1 else values

    return write


def read(path):
    with Image.open(path) as image:
        return np.asarray(image)


# Commands -----------------------------------------------------------------------------------------


def test_denoise_hands_pixels_over_and_writes_what_comes_back(ran, picture, asked):
    values = picture()
    said = ran("photo", "denoise", "a.png", "-o", "b.png", "--noise", "20", "--passes", "1")
    assert said.out == "Wrote b.png: 16 x 12, noise 20 of 255.\n"
    assert said.err == ""
    (call,) = asked
    np.testing.assert_array_equal(call.image, values)
    assert (call.arguments, call.passes, call.quality, call.n_jobs) == ((20.0,), 1, "best", None)
    np.testing.assert_array_equal(read("b.png"), values // 2)
    said = ran("photo", "denoise", "a.png", "-o", "b.png", "--fast", "--jobs", "3")
    assert "noise 12.5 of 255 (estimated)" in said.out
    assert (asked[1].arguments, asked[1].quality, asked[1].n_jobs) == ((SIGMA,), "fast", 3)


def test_noise_means_the_same_in_8_and_in_16_bits_and_floats_have_their_own_units(ran, here, asked):
    Image.fromarray(np.arange(192, dtype=np.uint16).reshape(12, 16) * 300).save("a.png")
    ran("photo", "denoise", "a.png", "-o", "b.tif", "--noise", "10")
    assert asked[0].arguments == (10 * 257,)
    assert read("b.tif").dtype == np.uint16
    told = json.loads(ran("photo", "denoise", "a.png", "-o", "b.tif", "--json").out)
    assert told["pictures"][0]["noise"] == pytest.approx(12.5 / 257)
    Image.fromarray(np.linspace(0, 1, 192, dtype=np.float32).reshape(12, 16)).save("a.tif")
    said = ran("photo", "denoise", "a.tif", "-o", "b.tif", "--noise", "0.1")
    assert asked[-1].arguments == (0.1,)
    assert "noise 0.1." in said.out


@pytest.mark.parametrize("found", [0.0, 0.2])  # the second is less than rounding
def test_where_no_noise_is_found_nothing_changes(ran, picture, asked, monkeypatch, found):
    values = picture()
    noise = photos.NoiseModel.white(found)
    monkeypatch.setattr(photos, "estimate_noise", lambda image, **_: noise)
    said = ran("photo", "denoise", "a.png", "-o", "b.png")
    assert "a.png: no noise was found" in said.err
    np.testing.assert_array_equal(read("b.png"), values)
    assert asked == []


def test_inpaint_fills_what_is_not_black_in_the_mask(ran, picture, asked):
    values = picture()
    mask = np.zeros((12, 16), np.uint8)
    mask[0, 4] = 255
    Image.fromarray(mask).save("mask.png")
    fill = ("photo", "inpaint", "a.png", "--mask", "mask.png", "-o", "b.png")
    assert "filled 0.521 % of the pixels" in ran(*fill).out
    np.testing.assert_array_equal(asked[0].arguments[0], mask > 0)
    assert asked[0].arguments[1] is None
    filled = read("b.png")
    assert (filled[mask > 0] == 9).all()
    np.testing.assert_array_equal(filled[mask == 0], values[mask == 0])
    assert json.loads(ran(*fill, "--json").out)["pictures"][0]["n_filled"] == 1
    ran(*fill, "--grow", "2")  # over soft edges
    found = np.argwhere(asked[-1].arguments[0])
    assert found.min(0).tolist() == [0, 2]
    assert found.max(0).tolist() == [2, 6]
    assert len(found) == 3 * 5


def test_transparent_pixels_can_be_what_is_missing(ran, picture, asked):
    values = picture(mode="RGBA")
    values[..., 3] = 255
    values[2:4, 5, 3] = (0, 99)
    Image.fromarray(values).save("a.png")
    ran("photo", "inpaint", "a.png", "--mask", "alpha", "-o", "b.jpg", "--noise", "5")
    assert np.argwhere(asked[0].arguments[0]).tolist() == [[2, 5], [3, 5]]
    assert asked[0].arguments[1] == 5
    assert read("b.jpg").shape == (12, 16, 3)  # so that JPEG will do


def test_a_folder_has_masks_by_name(ran, run, picture, asked):
    for name in ("in/a.jpg", "in/sub/b.png"):
        picture(name)
    picture("masks/a.png", mode="L")
    picture("masks/sub/b.png", mode="L")
    ran("photo", "inpaint", "in", "--mask", "masks", "-o", "out")
    assert len(asked) == 2
    picture("in/c.png")
    outcome = run("photo", "inpaint", "in", "--mask", "masks", "-o", "out")
    assert outcome.code == 1
    assert "add 'c.png'" in outcome.err


def test_enlarge_brings_transparency_along(ran, picture, asked):
    values = picture(mode="RGBA")
    said = ran("photo", "enlarge", "a.png", "--by", "3", "--blur", "0.5", "-o", "b.webp")
    assert "Wrote b.webp: 48 x 36, 3 times the size." in said.out
    assert (asked[0].arguments, asked[0].blur) == ((3,), 0.5)
    larger = read("b.webp")
    assert larger.shape == (36, 48, 4)
    same = larger[::3, ::3, 3].astype(int)
    assert abs(same - values[..., 3]).max() < 3


@pytest.mark.parametrize("ending", ["png", "jpg", "tif", "webp"])
def test_what_files_tell_goes_from_kind_to_kind(ran, picture, ending):
    exif = Image.Exif()
    exif[274], exif[271] = 6, "Maker"
    for source in ("png", "jpg", "tif", "webp"):
        picture(f"a.{source}", exif=exif, dpi=(300, 300), icc_profile=b"profile" * 30)
        ran("photo", "denoise", f"a.{source}", "-o", f"b.{ending}", "-q")
        with open(f"b.{ending}", "rb") as file, Image.open(file) as image:  # noqa: PTH123
            tags = image.getexif()
            assert (tags.get(274, 1) == 6) == (source != "tif")
            assert tags[271] == "Maker"
            assert image.info["icc_profile"] == b"profile" * 30
            image.load()
            assert image.size == ((12, 16) if "tif" in (source, ending) else (16, 12))
            if ending != "webp" and source != "webp":
                assert image.info["dpi"] == pytest.approx((300, 300), rel=1e-3)


# Several pictures ---------------------------------------------------------------------------------


def test_folders_keep_their_order_and_names(ran, picture, here, asked):
    names = ["in/a-2.png", "in/a-10.jpg", "in/sub/c.webp", "in/.hidden.png", "in/text.txt"]
    for number, name in enumerate(names[:-1]):
        picture(name, size=(12 + number, 16))
    (here / names[-1]).write_text("no picture")
    said = ran("photo", "denoise", "in", "-o", "in/out", "--compare")
    assert [call.image.shape[0] for call in asked] == [12, 13, 14]
    written = sorted(p.relative_to(here / "in/out") for p in (here / "in/out").rglob("*.*"))
    assert [path.as_posix() for path in written] == [
        "a-10-compare.png", "a-10.jpg", "a-2-compare.png", "a-2.png", "sub/c-compare.png",
        "sub/c.webp",
    ]  # fmt: skip
    assert said.out.count("Wrote") == 3
    ran("photo", "denoise", "in", "-o", "in/out/")  # results are not taken for pictures to do
    assert len(asked) == 6


def test_folders_are_made_and_patterns_looked_up(ran, picture, here):
    picture("in/a.png")
    ran("photo", "denoise", "in/a.png", "-o", "new/folder/")
    ran("photo", "denoise", "in", "-o", "other/one")
    ran("photo", "denoise", "in/?.png", "-o", "third/")
    for folder in ("new/folder", "other/one", "third"):
        assert (here / folder / "a.png").exists()


def test_the_others_are_done_where_one_cannot_be(run, picture, here):
    picture("in/a.png")
    picture("in/c.png")
    (here / "in/b.png").write_text("text")
    outcome = run("photo", "denoise", "in", "-o", "out", "--json")
    assert outcome.code == 1
    assert "b.png failed: 'in/b.png' is not a readable PNG" in outcome.err
    assert "1 of 3 pictures failed" in outcome.err
    told = json.loads(outcome.out)
    assert [entry["output"] for entry in told["pictures"]] == ["out/a.png", "out/c.png"]
    assert told["failed"][0]["input"] == "in/b.png"
    assert sorted(path.name for path in (here / "out").iterdir()) == ["a.png", "c.png"]


def test_ctrl_c_leaves_what_is_finished(run, picture, here, monkeypatch):
    for name in ("a", "b", "c"):
        picture(f"in/{name}.png")
    denoise, calls = photos.denoise, []

    def interrupted(*arguments, **options):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return denoise(*arguments, **options)

    monkeypatch.setattr(photos, "denoise", interrupted)
    outcome = run("photo", "denoise", "in", "-o", "out")
    assert outcome.code == 130
    assert "1 of 3 pictures are finished and kept" in outcome.err
    assert [path.name for path in (here / "out").iterdir()] == ["a.png"]


@pytest.mark.parametrize(("jobs", "seconds", "said"), [
    (1, 3.0, "a.png: this takes about 2 minutes"),  # 40 tiles of 3 seconds
    (2, 3.0, "a.png: this takes about 60 seconds"),
    (1, 0.3, None),
])  # fmt: skip
def test_a_large_picture_says_how_long_it_takes_after_the_first_tiles(
    ran, picture, monkeypatch, jobs, seconds, said
):
    clock = [100.0]

    def denoise(image, noise=None, *, n_jobs, progress, **options):
        clock[0] += 7  # before the first tile: nothing that each of them needs
        for done in range(41):
            progress(done, 40)
            clock[0] += seconds * ((done + 1) % n_jobs == 0)
        return image

    monkeypatch.setattr(photos, "denoise", denoise)
    module = sys.modules["tensorae.cli.photo"]  # its package has a command of that name
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    picture()
    told = ran("photo", "denoise", "a.png", "-o", "b.png", "--jobs", str(jobs))
    assert ("this takes" in told.err) == (said is not None)
    assert (said or "") in told.err


# Comparisons and notes ----------------------------------------------------------------------------


def test_compare_shows_before_and_after(ran, picture):
    values = picture()
    told = ran("photo", "denoise", "a.png", "-o", "b.jpg", "--compare", "--json")
    assert json.loads(told.out)["pictures"][0]["comparison"] == "b-compare.png"
    both = read("b-compare.png")[-12:]
    np.testing.assert_array_equal(both[:, :16], values)
    np.testing.assert_array_equal(both[:, -16:], values // 2)


def test_what_is_converted_is_said(ran, picture, asked):
    picture("a.png", mode="L")
    with Image.open("a.png") as image:
        image.quantize(8).save("p.png")
        image.convert("1").save("b.png")
    for name, said in (("p.png", "palette"), ("b.png", "1 bit per pixel")):
        outcome = ran("photo", "denoise", name, "-o", "out.png")
        assert f"tensorae: note: {name}: " in outcome.err
        assert said in outcome.err
    quiet = ran("photo", "denoise", "p.png", "-o", "out.png", "-q")
    assert (quiet.out, quiet.err) == ("", "")


# What goes wrong ----------------------------------------------------------------------------------


def test_a_picture_is_replaced_by_force_only(run, ran, picture, here):
    values = picture()
    (here / "link.png").symlink_to("a.png")
    for output in ("a.png", "./a.png", "link.png", "."):
        outcome = run("photo", "denoise", "a.png", "-o", output)
        assert outcome.code == 2
        assert "--force" in outcome.err
        np.testing.assert_array_equal(read("a.png"), values)
    ran("photo", "denoise", "a.png", "-o", "a.png", "--force")
    np.testing.assert_array_equal(read("a.png"), values // 2)


@pytest.mark.parametrize(
    "arguments",
    [
        ("inpaint", "in/a.png", "--mask", "mask.png", "-o", "mask.png", "--force"),
        ("inpaint", "in/a.png", "--mask", "x-compare.png", "-o", "x.png", "--compare"),
        ("inpaint", "in", "--mask", "masks", "-o", "masks", "--force"),
        ("denoise", "in/a.png", "in/b.png", "-o", "in"),
    ],
)
def test_other_files_that_are_read_are_never_replaced(run, picture, here, arguments):
    for name in ("in/a.png", "in/b.png"):
        picture(name)
    for name in ("mask.png", "x-compare.png", "masks/a.png", "masks/b.png"):
        picture(name, mode="L")
    before = {path: path.read_bytes() for path in here.rglob("*.png")}
    outcome = run("photo", *arguments)
    assert outcome.code == 2
    assert "must not replace" in outcome.err
    assert {path: path.read_bytes() for path in here.rglob("*.png")} == before


def test_two_pictures_never_become_one(run, picture, here):
    picture("x/a.png")
    picture("y/a.png")
    outcome = run("photo", "denoise", "x/a.png", "y/a.png", "-o", "out/")
    assert outcome.code == 1
    assert "would both be written to 'out/a.png'" in outcome.err
    assert not (here / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("denoise", "no.png", "-o", "b.png"), 1, "cannot read 'no.png'"),
        (("denoise", "text.png", "-o", "b.png"), 1, "'text.png' is not a readable PNG"),
        (("denoise", "cut.png", "-o", "b.png"), 1, "'cut.png' is damaged"),
        (("denoise", "data.csv", "-o", "b.png"), 1, "must end in .png, .jpg"),
        (("denoise", "a.png", "-o", "b.gif"), 1, "must end in .png, .jpg"),
        (("denoise", "a.png", "-o", "b"), 1, "must end in .png, .jpg"),
        (("denoise", "a.png", "-o", "no/b.png"), 1, "its folder does not exist"),
        (("denoise", "tiny.png", "-o", "b.png"), 1, "at least 8 x 8"),
        (("denoise", "cmyk.tif", "-o", "b.png"), 1, "mode CMYK; convert it first"),
        (("denoise", "alpha.png", "-o", "b.jpg"), 1, "JPEG cannot store transparency"),
        (("denoise", "empty", "-o", "out/"), 1, "the folder 'empty' contains no"),
        (("denoise", "a.png", "-o", "b.png", "--noise", "0"), 2, "must be a number above 0"),
        (("denoise", "a.png", "-o", "b.png", "--noise", "nan"), 2, "must be a number above 0"),
        (("denoise", "a.png", "tiny.png", "-o", "b.png"), 2, "must be a folder"),
        (("denoise", "empty/..", "-o", "b.png"), 2, "must be a folder"),
        (("denoise", "a.png"), 2, "--output"),
        (("inpaint", "a.png", "-o", "b.png"), 2, "--mask"),
        (("inpaint", "a.png", "--mask", "tiny.png", "-o", "b.png"), 1, "16 x 12, got 5 x 4"),
        (("inpaint", "a.png", "--mask", "alpha", "-o", "b.png"), 1, "must have transparent pixels"),
        (("inpaint", "a.png", "--mask", "no.png", "-o", "b.png"), 1, "cannot read 'no.png'"),
        (("enlarge", "a.png", "--by", "5", "-o", "b.png"), 2, "--by"),
        (("enlarge", "wide.png", "--by", "4", "-o", "b.webp"), 1, "at most 16383 pixels per side"),
    ],
)
def test_what_goes_wrong_is_said_and_leaves_no_file(run, picture, here, arguments, code, said):
    picture()
    picture("tiny.png", size=(4, 5))
    picture("alpha.png", mode="RGBA")
    picture("wide.png", size=(8, 4100), mode="L")
    Image.new("CMYK", (16, 12)).save("cmyk.tif")
    (here / "text.png").write_text("hello")
    (here / "data.csv").write_text("a,b")
    (here / "cut.png").write_bytes((here / "a.png").read_bytes()[:-99])
    (here / "empty").mkdir()
    before = sorted(here.iterdir())
    outcome = run("photo", *arguments)
    assert outcome.code == code
    assert said in outcome.error
    if code == 1:
        assert outcome.err.count("\n") == 1
    assert sorted(here.iterdir()) == before


def test_an_old_result_survives_what_goes_wrong(run, picture, here, monkeypatch):
    picture()
    (here / "b.png").write_bytes(b"old")

    def broken(*arguments, **options):
        raise InvalidInputError("no.")

    monkeypatch.setattr(photos, "denoise", broken)
    assert run("photo", "denoise", "a.png", "-o", "b.png").code == 1
    assert (here / "b.png").read_bytes() == b"old"


def test_without_pillow_it_says_what_to_install(run, picture, monkeypatch):
    picture()
    monkeypatch.setitem(__import__("sys").modules, "PIL.Image", None)
    outcome = run("photo", "denoise", "a.png", "-o", "b.png")
    assert outcome.code == 1
    assert 'pip install "tensorae[photos]"' in outcome.err
