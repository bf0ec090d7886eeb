"""A photograph that goes through a file keeps its pixels and its metadata."""

import io
import itertools
import struct
import zlib
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image, ImageOps, PngImagePlugin

from tensorae.exceptions import FileWriteError, InvalidInputError, InvalidParameterError
from tensorae.photos.files import (
    Metadata,
    Photo,
    check_format,
    orient,
    photo_format,
    read_mask,
    read_photo,
    resize_plane,
    side_by_side,
    write_photo,
)

tifffile = pytest.importorskip("tifffile")
EXTENSIONS = ["png", "tif", "webp", "jpg"]
JPEG_ERROR = 25  # of noise, at quality 95


def upright(photo, plane="pixels"):
    """Pixels as they are shown; Pillow turns those of TIFF files while it reads."""
    return orient(getattr(photo, plane), photo.metadata.orientation)


def tags(photo):
    exif = Image.Exif()
    exif.load(photo.metadata.exif)
    return exif.get(271), dict(exif.get_ifd(34665)), dict(exif.get_ifd(34853))


# Round trips --------------------------------------------------------------------------------------

STORED = [
    (extension, dtype, grey, alpha)
    for extension, dtype, grey, alpha in itertools.product(
        EXTENSIONS, ["uint8", "uint16", "float32"], [False, True], [False, True]
    )
    if not (dtype == "float32" and (extension != "tif" or alpha or not grey))
    and not (extension in ("webp", "jpg") and dtype != "uint8")
    and not (extension == "jpg" and alpha)
]


@pytest.mark.parametrize(("extension", "dtype", "grey", "alpha"), STORED)
def test_a_round_trip_keeps_pixels_and_metadata(make, tmp_path, extension, dtype, grey, alpha):
    path, photo = tmp_path / f"a.{extension}", make(dtype, grey=grey, alpha=alpha)
    assert check_format(photo, photo_format(path), photo.size) == []
    write_photo(path, photo)
    again = read_photo(path)
    before, after = upright(photo), upright(again)
    if after.ndim > before.ndim:  # WebP has no grey, and few read 16-bit TIFF greys with alpha
        assert extension == "webp" or (extension, dtype, alpha) == ("tif", "uint16", True)
        before = np.repeat(before[..., None], 3, 2)
    assert after.dtype == dtype
    np.testing.assert_allclose(after, before, atol=JPEG_ERROR if extension == "jpg" else 0)
    assert (again.alpha is None) == (photo.alpha is None)
    if alpha:
        np.testing.assert_array_equal(upright(again, "alpha"), upright(photo, "alpha"))
    assert tags(again) == tags(photo)
    if extension in ("png", "jpg"):  # WebP has the resolution there, too
        assert again.metadata.exif == photo.metadata.exif
    assert again.metadata.icc_profile == photo.metadata.icc_profile
    assert again.metadata.xmp == photo.metadata.xmp
    np.testing.assert_allclose(again.metadata.dpi, photo.metadata.dpi, rtol=1e-4)
    assert again.notes == ()


@pytest.mark.parametrize("extension", EXTENSIONS)
def test_other_programs_show_the_same_photograph(make, tmp_path, extension):
    path, photo = tmp_path / f"a.{extension}", make()
    write_photo(path, photo)
    with path.open("rb") as file, Image.open(file) as image:
        shown = np.asarray(ImageOps.exif_transpose(image))
    np.testing.assert_allclose(shown, upright(photo), atol=JPEG_ERROR * (extension == "jpg"))


@pytest.mark.parametrize("compression", ["raw", "tiff_lzw", "tiff_adobe_deflate"])
def test_a_tiff_file_stays_compressed(tmp_path, compression):
    Image.new("L", (90, 190)).save(tmp_path / "a.tif", compression=compression)
    write_photo(tmp_path / "b.tif", read_photo(tmp_path / "a.tif"))
    assert ((tmp_path / "b.tif").stat().st_size < 9000) == (compression != "raw")
    assert read_photo(tmp_path / "b.tif").metadata.compressed == (compression != "raw")


def test_texts_and_colour_chunks_stay_in_png(tmp_path):
    info = PngImagePlugin.PngInfo()
    info.add_text("Title", "Über den Dächern")
    info.add(b"gAMA", struct.pack(">I", 45455))
    info.add(b"sRGB", b"\1")
    info.add(b"cHRM", struct.pack(">8I", *range(31000, 31008)))
    Image.new("RGB", (16, 12)).save(tmp_path / "a.png", pnginfo=info)
    photo = read_photo(tmp_path / "a.png")
    for dtype in ("uint8", "uint16"):
        write_photo(tmp_path / "b.png", replace(photo, pixels=photo.pixels.astype(dtype)))
        with Image.open(tmp_path / "b.png") as again:
            assert again.text == {"Title": "Über den Dächern"}
            assert again.info["gamma"] == 0.45455
            assert again.info["srgb"] == 1
            primaries = [x / 1e5 for x in range(31000, 31008)]
            assert again.info["chromaticity"] == pytest.approx(primaries)
    assert "texts" in check_format(photo, "JPEG", photo.size)[0]


@pytest.mark.parametrize("lossless", [True, False])
def test_webp_stays_lossless_or_lossy(rng, tmp_path, lossless):
    image = Image.fromarray((rng.random_sample((64, 64, 3)) * 255).astype("uint8"))
    exif = b"Exif\0\0II*\0\x08\0\0\0\0\0"
    image.save(tmp_path / "a.webp", exif=exif, lossless=lossless)
    photo = read_photo(tmp_path / "a.webp")
    assert photo.metadata.lossless == lossless
    write_photo(tmp_path / "b.webp", photo)
    assert (read_photo(tmp_path / "b.webp").pixels == photo.pixels).all() == lossless


def test_a_stale_preview_is_left_out(make, tmp_path):
    photo, (heading, length) = make(), (6, 8)
    exif = bytearray(photo.metadata.exif)
    order = {b"II": "<", b"MM": ">"}[bytes(exif[heading : heading + 2])]
    (count,) = struct.unpack_from(f"{order}H", exif, heading + length)
    next_tags = heading + length + 2 + 12 * count
    struct.pack_into(f"{order}I", exif, next_tags, len(exif) - heading)
    place = len(exif) - heading + 2 + 2 * 12 + 4
    exif += struct.pack(f"{order}H", 2)
    exif += struct.pack(f"{order}HHII", 513, 4, 1, place)
    exif += struct.pack(f"{order}HHIII", 514, 4, 1, 7, 0) + b"PREVIEW"
    Image.fromarray(photo.pixels).save(tmp_path / "a.jpg", exif=bytes(exif))
    assert b"PREVIEW" in (tmp_path / "a.jpg").read_bytes()
    write_photo(tmp_path / "b.jpg", read_photo(tmp_path / "a.jpg"))
    assert b"PREVIEW" not in (tmp_path / "b.jpg").read_bytes()
    assert tags(read_photo(tmp_path / "b.jpg")) == tags(photo)


def test_size_tags_and_alpha_follow_a_change_of_size(make):
    photo = make(alpha=True)
    larger = photo.with_pixels(np.zeros((24, 32, 3), np.uint8))
    inside = tags(larger)[1]
    assert (inside[40962], inside[40963]) == (32, 24)
    assert larger.alpha.shape == (24, 32)
    assert abs(larger.alpha.mean() - photo.alpha.mean()) < 5
    assert photo.with_pixels(photo.pixels).alpha is photo.alpha


# 16 bits ------------------------------------------------------------------------------------------


def png16(values, kind, *more):
    """A plain PNG file with 16 bits per channel, made by hand."""
    height, width = values.shape[:2]
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in values)
    head = struct.pack(">IIBBBBB", width, height, 16, kind, 0, 0, 0)
    chunks = [(b"IHDR", head), *more, (b"IDAT", zlib.compress(rows)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks
    )


@pytest.mark.parametrize(("kind", "channels"), [(0, 1), (2, 3), (4, 2), (6, 4)])
def test_all_16_bits_of_foreign_png_files_are_read(rng, tmp_path, kind, channels):
    values = rng.randint(0, 65536, (12, 16, channels)).astype(np.uint16)
    (tmp_path / "a.png").write_bytes(png16(values, kind))
    photo = read_photo(tmp_path / "a.png")
    colours = values[..., :3] if channels > 2 else values[..., 0]
    np.testing.assert_array_equal(photo.pixels, colours)
    if channels in (2, 4):
        np.testing.assert_array_equal(photo.alpha, values[..., -1])


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("layout", ["contig", "separate"])
@pytest.mark.parametrize("compression", [None, "lzw", "zlib"])
def test_all_16_bits_of_foreign_tiff_files_are_read(rng, tmp_path, order, layout, compression):
    values = rng.randint(0, 65536, (12, 16, 3)).astype(np.uint16)
    stored = np.moveaxis(values, -1, 0) if layout == "separate" else values
    tifffile.imwrite(
        tmp_path / "a.tif", stored, photometric="rgb", planarconfig=layout, byteorder=order,
        compression=compression,
    )  # fmt: skip
    photo = read_photo(tmp_path / "a.tif")
    np.testing.assert_array_equal(photo.pixels, values)
    assert photo.pixels.dtype == np.uint16


@pytest.mark.parametrize("extension", ["jpg", "webp"])
def test_where_16_bits_become_8_white_stays_white_and_a_note_says_so(make, tmp_path, extension):
    path = tmp_path / f"a.{extension}"
    photo = replace(make("uint16"), pixels=np.full((12, 16, 3), 65535, np.uint16))
    assert "8 of 16 bits" in check_format(photo, photo_format(path), photo.size)[0]
    write_photo(path, photo)
    assert (read_photo(path).pixels == 255).all()


# Other modes --------------------------------------------------------------------------------------


def test_palettes_become_colours_with_a_note(rng, tmp_path):
    image = Image.fromarray((rng.random_sample((12, 16, 3)) * 255).astype("uint8"))
    palette = image.quantize(16)
    palette.save(tmp_path / "a.png")
    photo = read_photo(tmp_path / "a.png")
    np.testing.assert_array_equal(photo.pixels, np.asarray(palette.convert("RGB")))
    assert "palette" in photo.notes[0]
    palette.save(tmp_path / "b.png", transparency=3)
    photo = read_photo(tmp_path / "b.png")
    np.testing.assert_array_equal(photo.alpha == 0, np.asarray(palette) == 3)


def test_one_bit_becomes_grey_with_a_note(tmp_path):
    Image.fromarray(np.eye(12, dtype=bool)).save(tmp_path / "a.png")
    photo = read_photo(tmp_path / "a.png")
    np.testing.assert_array_equal(photo.pixels, 255 * np.eye(12, dtype=np.uint8))
    assert "1 bit per pixel" in photo.notes[0]


@pytest.mark.parametrize(
    ("dtype", "grey"), [("uint8", True), ("uint8", False), ("uint16", True), ("uint16", False)]
)
def test_a_transparent_colour_becomes_alpha(tmp_path, dtype, grey):
    values = np.full((12, 16) if grey else (12, 16, 3), 3, dtype)
    values[2, 3], path = 7, tmp_path / "a.png"
    if dtype == "uint8":
        Image.fromarray(values).save(path, transparency=7 if grey else (7, 7, 7))
    else:
        key = (b"tRNS", struct.pack(">H", 7) * (1 if grey else 3))
        path.write_bytes(png16(values, 0 if grey else 2, key))
    photo = read_photo(path)
    assert np.argwhere(photo.alpha == 0).tolist() == [[2, 3]]
    assert photo.alpha.max() == np.iinfo(dtype).max
    np.testing.assert_array_equal(photo.pixels, values)
    assert "transparent colour" in photo.notes[0]


@pytest.mark.parametrize("mode", ["CMYK", "LAB", "I", "premultiplied"])
def test_unsupported_colours_are_refused(tmp_path, mode):
    if mode == "premultiplied":
        values = np.zeros((12, 16, 4), np.uint16)
        tifffile.imwrite(tmp_path / "a.tif", values, photometric="rgb", extrasamples=["assocalpha"])
    else:
        Image.new(mode, (16, 12)).save(tmp_path / "a.tif")
    with pytest.raises(InvalidInputError, match="convert it first"):
        read_photo(tmp_path / "a.tif")


@pytest.mark.parametrize("extension", ["png", "webp", "tif"])
def test_files_of_several_images_are_refused(tmp_path, extension):
    first, second = Image.new("RGB", (16, 12)), Image.new("RGB", (16, 12), "white")
    first.save(tmp_path / f"a.{extension}", save_all=True, append_images=[second])
    with pytest.raises(InvalidInputError, match="one image, got 2"):
        read_photo(tmp_path / f"a.{extension}")


def test_the_first_image_of_a_phone_is_taken(tmp_path):
    first, second = Image.new("RGB", (16, 12), "red"), Image.new("RGB", (16, 12))
    first.save(tmp_path / "a.mpo", save_all=True, append_images=[second])
    photo = read_photo((tmp_path / "a.mpo").rename(tmp_path / "a.jpg"))
    assert photo.pixels[0, 0, 0] > 200
    assert "further images" in photo.notes[0]
    assert not photo.metadata.lossless


# What cannot be read or written -------------------------------------------------------------------


@pytest.mark.parametrize(
    "content", [b"", b"hello", b"GIF89a" + bytes(100), b"\x89PNG\r\n\x1a\n" + bytes(30)]
)
def test_what_is_not_an_image_is_refused_by_name(tmp_path, content):
    (tmp_path / "a.png").write_bytes(content)
    with pytest.raises(InvalidInputError, match=r"a\.png' .*;"):
        read_photo(tmp_path / "a.png")


@pytest.mark.parametrize("name", ["missing.png", ".", "a\0b.png"])
def test_what_cannot_be_opened_is_refused(tmp_path, name):
    with pytest.raises(InvalidInputError, match="cannot read"):
        read_photo(tmp_path / name)


@pytest.mark.parametrize("extension", EXTENSIONS)
@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
def test_a_truncated_file_is_refused(make, tmp_path, extension, dtype):
    path = tmp_path / f"a.{extension}"
    write_photo(path, make(dtype, metadata=Metadata()))
    path.write_bytes(path.read_bytes()[:-150])
    with pytest.raises(InvalidInputError, match=r"damaged|not a readable"):
        read_photo(path)


@pytest.mark.parametrize("cut", [0, 20, 60, 100])
@pytest.mark.parametrize("extension", EXTENSIONS)
def test_damaged_exif_keeps_the_orientation(make, tmp_path, cut, extension):
    photo = make()
    exif = bytearray(photo.metadata.exif)
    exif[len(exif) - cut :] = bytes([255]) * (cut // 2)
    Image.fromarray(photo.pixels).save(tmp_path / "a.jpg", exif=bytes(exif))
    again = read_photo(tmp_path / "a.jpg")
    assert again.metadata.orientation == 6
    write_photo(tmp_path / f"b.{extension}", again)
    written = read_photo(tmp_path / f"b.{extension}")
    # Lossy where the input was; WebP halves the resolution of colours, and these are noise.
    error = {"jpg": JPEG_ERROR, "webp": 99}.get(extension, 0)
    np.testing.assert_allclose(upright(written), upright(again), atol=error)


def test_too_many_pixels_are_refused(monkeypatch, tmp_path):
    Image.new("L", (64, 64)).save(tmp_path / "a.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    with pytest.raises(InvalidInputError, match="million pixels"):
        read_photo(tmp_path / "a.png")


def test_what_a_format_cannot_store_is_refused_before_it_is_written(make, tmp_path):
    for name, photo, error, said in [
        ("a.jpg", make(alpha=True), InvalidInputError, "JPEG cannot store transparency"),
        ("a.png", make("float32", grey=True), InvalidInputError, "PNG cannot store floats"),
        ("a.gif", make(), InvalidParameterError, "must end in"),
        ("no/a.png", make(), FileWriteError, "folder does not exist"),
    ]:
        with pytest.raises(error, match=said):
            write_photo(tmp_path / name, photo)
    with pytest.raises(InvalidInputError, match="at most 16383 pixels per side, got 20000 x 12"):
        check_format(make(), "WEBP", (20000, 12))
    assert list(tmp_path.iterdir()) == []


def test_metadata_that_is_too_long_for_jpeg_is_dropped_with_a_note(make, tmp_path):
    exif = Image.Exif()
    exif[270] = "a" * 70_000
    photo = make(metadata=Metadata(exif.tobytes(), xmp=b"x" * 70_000))
    (note,) = check_format(photo, "JPEG", photo.size)
    assert "EXIF" in note
    assert "XMP" in note
    write_photo(tmp_path / "a.jpg", photo)
    assert read_photo(tmp_path / "a.jpg").metadata.exif == b""


@pytest.mark.parametrize(
    ("extension", "dtype", "alpha", "lost"),
    [
        ("webp", "uint8", False, True), ("tif", "uint16", True, True),
        ("tif", "uint16", False, False), ("png", "uint16", True, False),
    ],
)  # fmt: skip
def test_a_grey_profile_is_not_put_on_colours(make, tmp_path, extension, dtype, alpha, lost):
    profile, path = bytearray(make().metadata.icc_profile), tmp_path / f"a.{extension}"
    profile[16:20] = b"GRAY"
    photo = make(dtype, grey=True, alpha=alpha, metadata=Metadata(icc_profile=bytes(profile)))
    notes = check_format(photo, photo_format(path), photo.size)
    assert any("grey profile" in note for note in notes) == lost
    write_photo(path, photo)
    again = read_photo(path)
    assert (again.metadata.icc_profile == b"") == lost
    assert (again.pixels.ndim == 3) == lost


# Orientation, masks, comparisons ------------------------------------------------------------------


@pytest.mark.parametrize("orientation", range(1, 9))
def test_orientation_is_what_pillow_does_and_can_be_inverted(rng, orientation):
    values = (rng.random_sample((12, 16, 3)) * 255).astype("uint8")
    exif, file = Image.Exif(), io.BytesIO()
    exif[274] = orientation
    Image.fromarray(values).save(file, "PNG", exif=exif)
    with Image.open(file) as image:
        shown = np.asarray(ImageOps.exif_transpose(image))
    np.testing.assert_array_equal(orient(values, orientation), shown)
    np.testing.assert_array_equal(orient(shown, orientation, inverse=True), values)


@pytest.mark.parametrize("orientation", [1, 3, 6, 7])
def test_a_mask_is_drawn_on_the_photograph_as_it_is_shown(rng, make, tmp_path, orientation):
    missing = rng.random_sample((12, 16)) < 0.3
    Image.fromarray(orient(missing, orientation)).save(tmp_path / "mask.png")
    found = read_mask(tmp_path / "mask.png", make(orientation=orientation))
    np.testing.assert_array_equal(found, missing)


def test_every_pixel_that_is_not_black_is_missing(make, tmp_path):
    photo, values = make(orientation=1), np.zeros((12, 16, 4), np.uint8)
    values[..., 3] = 255
    values[1, 1, 0] = 1
    values[2, 2] = 255
    values[3, 3] = (255, 255, 255, 0)  # transparent, so not drawn
    Image.fromarray(values).save(tmp_path / "mask.png")
    found = read_mask(tmp_path / "mask.png", photo)
    assert np.argwhere(found).tolist() == [[1, 1], [2, 2]]
    soft = np.where(np.arange(16) < 8, 20, 250).astype(np.uint8)
    Image.fromarray(np.tile(soft, (12, 1))).save(tmp_path / "mask.jpg", quality=95)
    found = read_mask(tmp_path / "mask.jpg", photo)
    np.testing.assert_array_equal(found, np.tile(np.arange(16) >= 8, (12, 1)))


def test_a_mask_of_another_size_is_refused_with_both_sizes(make, tmp_path):
    Image.new("L", (16, 12)).save(tmp_path / "mask.png")
    with pytest.raises(InvalidInputError, match="12 x 16, got 16 x 12"):
        read_mask(tmp_path / "mask.png", make())  # which is shown turned by 90 degrees


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float32"])
def test_a_comparison_shows_both_photographs_upright_below_a_line_of_text(make, dtype):
    before, after = make(dtype, grey=True), make(dtype, grey=True)
    both = side_by_side(before, after)
    body = both.pixels[-16:]
    assert both.pixels.dtype == np.uint8
    assert body.shape == (16, 12 + 8 + 12)
    top = {"uint8": 1, "uint16": 257}.get(dtype)
    low, high = after.pixels.min(), after.pixels.max()
    for part, photo in ((body[:, :12], before), (body[:, -12:], after)):
        values = upright(photo)
        shown = values / top if top else 255 * ((values - low) / (high - low)).clip(0, 1)
        np.testing.assert_allclose(part, shown, atol=0.51)
    strip = both.pixels[:-16]
    assert strip.max() == 255
    assert strip[:, :12].min() < 128
    assert strip[:, -12:].min() < 128


def test_a_comparison_brings_a_smaller_photograph_to_the_size_of_the_other(make):
    before = make(alpha=True)
    after = before.with_pixels(before.pixels.repeat(2, 0).repeat(2, 1))
    both = side_by_side(before, after)
    assert both.pixels.shape[1:] == (24 + 8 + 24, 3)
    assert both.metadata.icc_profile == before.metadata.icc_profile


def test_transparent_pixels_are_white_in_a_comparison():
    photo = Photo(np.zeros((12, 16), np.uint8), np.zeros((12, 16), np.uint8))
    assert (side_by_side(photo, photo).pixels[-12:] == 255).all()


def test_alpha_stays_on_the_pixels_it_belongs_to():
    alpha = np.random.RandomState(0).randint(0, 255, (12, 17)).astype(np.uint8)
    larger = resize_plane(alpha, (51, 36))
    np.testing.assert_allclose(larger[::3, ::3].astype(int), alpha.astype(int), atol=1)
