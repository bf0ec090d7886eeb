"""A picture that goes through a file is the same picture, with all that the file tells."""

import io
import itertools
import struct
import zlib
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image, ImageOps, PngImagePlugin

from tensorae.exceptions import FileWriteError, InvalidInputError, InvalidParameterError
from tensorae.photos.comparison import side_by_side
from tensorae.photos.details import Details
from tensorae.photos.files import Photo, photo_format, resized, turned
from tensorae.photos.reading import read_mask, read_photo
from tensorae.photos.writing import losses, write_photo

PLAIN = Details()


def upright(photo):
    """Pixels as they are shown; Pillow turns those of TIFF files while it reads."""
    return turned(photo.pixels, photo.details.orientation)


def tags(photo):
    exif = Image.Exif()
    exif.load(photo.details.exif)
    inside, place = dict(exif.get_ifd(34665)), dict(exif.get_ifd(34853))
    return exif.get(271), inside, place


# There and back -----------------------------------------------------------------------------------

HELD = [
    (ending, dtype, grey, alpha)
    for ending, dtype, grey, alpha in itertools.product(
        ["png", "tif", "webp", "jpg"], ["uint8", "uint16", "float32"], [False, True], [False, True]
    )
    if not (dtype == "float32" and (ending != "tif" or alpha or not grey))
    and not (ending in ("webp", "jpg") and dtype != "uint8")
    and not (ending == "jpg" and alpha)
]


@pytest.mark.parametrize(("ending", "dtype", "grey", "alpha"), HELD)
def test_a_file_keeps_the_picture_and_all_that_it_tells(make, tmp_path, ending, dtype, grey, alpha):
    path, photo = tmp_path / f"a.{ending}", make(dtype, grey=grey, alpha=alpha)
    assert losses(photo, photo_format(path), photo.size) == []
    write_photo(path, photo)
    again = read_photo(path)
    before, after = upright(photo), upright(again)
    if after.ndim > before.ndim:  # WebP has no grey, and few read 16-bit TIFF greys with alpha
        assert ending == "webp" or (ending, dtype, alpha) == ("tif", "uint16", True)
        before = np.repeat(before[..., None], 3, 2)
    assert after.dtype == dtype
    np.testing.assert_allclose(after, before, atol=25 if ending == "jpg" else 0)
    assert (again.alpha is None) == (photo.alpha is None)
    if alpha:
        turned_alpha = turned(again.alpha, again.details.orientation)
        np.testing.assert_array_equal(turned_alpha, turned(photo.alpha, 6))
    assert tags(again) == tags(photo)
    if ending in ("png", "jpg"):  # WebP has the resolution there, too
        assert again.details.exif == photo.details.exif
    assert again.details.profile == photo.details.profile
    assert again.details.xmp == photo.details.xmp
    np.testing.assert_allclose(again.details.dpi, photo.details.dpi, rtol=1e-4)
    assert again.notes == ()


@pytest.mark.parametrize("ending", ["png", "tif", "webp", "jpg"])
def test_other_programs_show_the_same_picture(make, tmp_path, ending):
    path, photo = tmp_path / f"a.{ending}", make()
    write_photo(path, photo)
    with path.open("rb") as file, Image.open(file) as image:
        shown = np.asarray(ImageOps.exif_transpose(image))
    np.testing.assert_allclose(shown, upright(photo), atol=25 if ending == "jpg" else 0)


@pytest.mark.parametrize("compression", ["raw", "tiff_lzw", "tiff_adobe_deflate"])
def test_a_tiff_file_stays_compressed(make, tmp_path, told, compression):
    details, path = replace(told, compression=compression), tmp_path / "a.tif"
    write_photo(path, Photo(np.zeros((90, 90), np.uint16), None, details))
    assert (path.stat().st_size < 9000) == (compression != "raw")
    assert (read_photo(path).details.compression != "raw") == (compression != "raw")


def test_texts_and_the_meaning_of_colours_stay_in_png(make, tmp_path):
    info = PngImagePlugin.PngInfo()
    info.add_text("Title", "Über den Dächern")
    info.add(b"gAMA", struct.pack(">I", 45455))
    info.add(b"sRGB", b"\1")
    info.add(b"cHRM", struct.pack(">8I", *range(31000, 31008)))
    Image.new("RGB", (16, 12)).save(tmp_path / "a.png", pnginfo=info)
    photo = read_photo(tmp_path / "a.png")
    for name, picture in (
        ("b.png", photo),
        ("c.png", replace(photo, pixels=photo.pixels.astype("uint16"))),
    ):
        write_photo(tmp_path / name, picture)
        with Image.open(tmp_path / name) as again:
            assert again.text == {"Title": "Über den Dächern"}
            assert again.info["gamma"] == 0.45455
            assert again.info["srgb"] == 1
            assert again.info["chromaticity"] == pytest.approx(
                [x / 1e5 for x in range(31000, 31008)]
            )
    assert losses(photo, "JPEG", photo.size) == ["JPEG has no place for its texts."]


def test_lossless_webp_stays_lossless_and_lossy_stays_small(rng, tmp_path):
    image = Image.fromarray((rng.random_sample((64, 64, 3)) * 255).astype("uint8"))
    for name, options in (("a", {"lossless": True}), ("b", {"quality": 80})):
        image.save(tmp_path / f"{name}.webp", exif=b"Exif\0\0II*\0\x08\0\0\0\0\0", **options)
        photo = read_photo(tmp_path / f"{name}.webp")
        assert photo.details.lossless == (name == "a")
        write_photo(tmp_path / "again.webp", photo)
        again = read_photo(tmp_path / "again.webp").pixels
        assert (again == photo.pixels).all() == (name == "a")


def test_a_stale_preview_is_left_out(make, tmp_path):
    photo, (heading, length) = make(), (6, 8)
    exif = bytearray(photo.details.exif)
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


def test_size_tags_follow_a_change_of_size_and_transparency_too(make):
    photo = make(alpha=True)
    larger = photo.with_pixels(np.zeros((24, 32, 3), np.uint8))
    inside = tags(larger)[1]
    assert (inside[40962], inside[40963]) == (32, 24)
    assert larger.alpha.shape == (24, 32)
    assert abs(larger.alpha.mean() - photo.alpha.mean()) < 5
    assert photo.with_pixels(photo.pixels).alpha is photo.alpha


# 16 bits ------------------------------------------------------------------------------------------


def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png16(values, kind, *more):
    """A plain PNG file with 16 bits a channel, of another make than ours."""
    height, width = values.shape[:2]
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in values)
    head = struct.pack(">IIBBBBB", width, height, 16, kind, 0, 0, 0)
    chunks = [(b"IHDR", head), *more, (b"IDAT", zlib.compress(rows)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*part) for part in chunks)


@pytest.mark.parametrize(("kind", "channels"), [(0, 1), (2, 3), (4, 2), (6, 4)])
def test_all_16_bits_of_foreign_png_files_are_read(rng, tmp_path, kind, channels):
    values = rng.randint(0, 65536, (12, 16, channels)).astype(np.uint16)
    (tmp_path / "a.png").write_bytes(png16(values, kind))
    photo = read_photo(tmp_path / "a.png")
    colours = values[..., : 3 if channels > 2 else 1]
    np.testing.assert_array_equal(
        photo.pixels, np.squeeze(colours, -1) if channels < 3 else colours
    )
    if channels in (2, 4):
        np.testing.assert_array_equal(photo.alpha, values[..., -1])


def tiff16(values, order, planes=1):
    """A plain TIFF file with 16-bit colours in an order of bytes."""
    height, width, channels = values.shape
    data = values.astype(f"{order}u2").tobytes()
    entries = [
        (256, 3, 1, width), (257, 3, 1, height), (258, 3, channels, None), (259, 3, 1, 1),
        (262, 3, 1, 2), (273, 4, 1, None), (277, 3, 1, channels), (278, 3, 1, height),
        (279, 4, 1, len(data)), (284, 3, 1, planes),
    ]  # fmt: skip
    end = 8 + 2 + 12 * len(entries) + 4
    places = {258: end, 273: end + 2 * channels}
    body = struct.pack(f"{order}H", len(entries))
    for tag, kind, count, value in entries:
        value = places.get(tag, value)
        packed = struct.pack(f"{order}{'H2x' if kind == 3 and count == 1 else 'I'}", value)
        body += struct.pack(f"{order}HHI", tag, kind, count) + packed
    start = {"<": b"II*\0", ">": b"MM\0*"}[order] + struct.pack(f"{order}I", 8)
    return start + body + bytes(4) + struct.pack(f"{order}{channels}H", *[16] * channels) + data


@pytest.mark.parametrize("order", ["<", ">"])
def test_all_16_bits_of_foreign_tiff_files_are_read(rng, tmp_path, order):
    values = rng.randint(0, 65536, (12, 16, 3)).astype(np.uint16)
    (tmp_path / "a.tif").write_bytes(tiff16(values, order))
    np.testing.assert_array_equal(read_photo(tmp_path / "a.tif").pixels, values)


def test_16_bits_that_cannot_be_read_in_full_are_refused(rng, tmp_path):
    (tmp_path / "a.tif").write_bytes(tiff16(np.zeros((12, 16, 3), np.uint16), "<", planes=2))
    with pytest.raises(InvalidInputError, match="16-bit colours in a layout that cannot"):
        read_photo(tmp_path / "a.tif")


@pytest.mark.parametrize("ending", ["jpg", "webp"])
def test_where_16_bits_have_no_place_white_stays_white_and_it_is_said(make, tmp_path, ending):
    photo = replace(make("uint16"), pixels=np.full((12, 16, 3), 65535, np.uint16))
    said = losses(photo, photo_format(tmp_path / f"a.{ending}"), photo.size)
    assert "8 of its 16 bits" in said[0]
    write_photo(tmp_path / f"a.{ending}", photo)
    assert (read_photo(tmp_path / f"a.{ending}").pixels == 255).all()


# Other modes --------------------------------------------------------------------------------------


def test_palettes_become_colours_and_it_is_said(rng, tmp_path):
    image = Image.fromarray((rng.random_sample((12, 16, 3)) * 255).astype("uint8"))
    palette = image.quantize(16)
    palette.save(tmp_path / "a.png")
    photo = read_photo(tmp_path / "a.png")
    np.testing.assert_array_equal(photo.pixels, np.asarray(palette.convert("RGB")))
    assert "palette" in photo.notes[0]
    palette.save(tmp_path / "b.png", transparency=3)
    photo = read_photo(tmp_path / "b.png")
    np.testing.assert_array_equal(photo.alpha == 0, np.asarray(palette) == 3)


def test_one_bit_becomes_grey_and_it_is_said(tmp_path):
    Image.fromarray(np.eye(12, dtype=bool)).save(tmp_path / "a.png")
    photo = read_photo(tmp_path / "a.png")
    np.testing.assert_array_equal(photo.pixels, 255 * np.eye(12, dtype=np.uint8))
    assert "1 bit a pixel" in photo.notes[0]


@pytest.mark.parametrize("grey", [True, False])
def test_a_colour_that_means_transparent_becomes_transparency(tmp_path, grey):
    values = np.zeros((12, 16) if grey else (12, 16, 3), np.uint8)
    values[2, 3] = 7
    key = 7 if grey else (7, 7, 7)
    Image.fromarray(values).save(tmp_path / "a.png", transparency=key)
    photo = read_photo(tmp_path / "a.png")
    assert photo.alpha[2, 3] == 0
    assert (photo.alpha == 0).sum() == 1
    assert photo.alpha[0, 0] == 255
    assert "means transparent" in photo.notes[0]


def test_a_16_bit_colour_that_means_transparent(tmp_path):
    values = np.full((12, 16, 3), 300, np.uint16)
    values[2, 3] = 301
    key = (b"tRNS", struct.pack(">HHH", 301, 301, 301))
    (tmp_path / "a.png").write_bytes(png16(values, 2, key))
    photo = read_photo(tmp_path / "a.png")
    assert np.argwhere(photo.alpha == 0).tolist() == [[2, 3]]
    assert photo.alpha.max() == 65535


@pytest.mark.parametrize("mode", ["CMYK", "LAB", "I"])
def test_colours_that_are_not_ours_to_convert_are_refused(tmp_path, mode):
    Image.new(mode, (16, 12)).save(tmp_path / "a.tif")
    with pytest.raises(InvalidInputError, match=f"mode {mode}; convert it first"):
        read_photo(tmp_path / "a.tif")


@pytest.mark.parametrize(
    ("ending", "what"), [("png", "frames"), ("webp", "frames"), ("tif", "pages")]
)
def test_files_of_several_pictures_are_refused(tmp_path, ending, what):
    first, second = Image.new("RGB", (16, 12)), Image.new("RGB", (16, 12), "white")
    first.save(tmp_path / f"a.{ending}", save_all=True, append_images=[second])
    with pytest.raises(InvalidInputError, match=f"one picture, got 2 {what}"):
        read_photo(tmp_path / f"a.{ending}")


def test_the_first_of_several_pictures_of_a_phone_is_taken(tmp_path):
    first, second = Image.new("RGB", (16, 12), "red"), Image.new("RGB", (16, 12))
    first.save(tmp_path / "a.mpo", save_all=True, append_images=[second])
    photo = read_photo((tmp_path / "a.mpo").rename(tmp_path / "a.jpg"))
    assert photo.pixels[0, 0, 0] > 200
    assert "further pictures" in photo.notes[0]
    assert not photo.details.lossless


# What cannot be read or written -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b"hello", "is no PNG, JPEG, TIFF or WebP image"),
        (b"GIF89a" + bytes(100), "is no PNG, JPEG, TIFF or WebP image"),
        (b"\x89PNG\r\n\x1a\n" + bytes(30), "is no PNG|is damaged"),
    ],
)
def test_what_is_no_image_is_refused_in_a_sentence(tmp_path, content, said):
    (tmp_path / "a.png").write_bytes(content)
    with pytest.raises(InvalidInputError, match=rf"a\.png' .*{said}"):
        read_photo(tmp_path / "a.png")


def test_what_is_not_there_is_refused_in_a_sentence(tmp_path):
    with pytest.raises(InvalidInputError, match=r"does not exist .* check the path"):
        read_photo(tmp_path / "missing.png")
    with pytest.raises(InvalidInputError, match="got a folder"):
        read_photo(tmp_path)
    with pytest.raises(InvalidInputError, match="does not exist"):
        read_photo("a\0b.png")


@pytest.mark.parametrize("ending", ["png", "jpg", "tif", "webp"])
@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
def test_a_file_that_is_cut_off_is_refused(make, tmp_path, ending, dtype):
    path = tmp_path / f"a.{ending}"
    write_photo(path, replace(make(dtype), details=PLAIN))
    path.write_bytes(path.read_bytes()[:-150])
    with pytest.raises(InvalidInputError, match=r"is damaged or cut off|is no PNG"):
        read_photo(path)


@pytest.mark.parametrize("cut", [0, 20, 60, 100])
@pytest.mark.parametrize("ending", ["png", "jpg", "tif", "webp"])
def test_damaged_exif_does_not_hinder(make, tmp_path, cut, ending):
    photo = make()
    exif = bytearray(photo.details.exif)
    exif[len(exif) - cut :] = bytes([255]) * (cut // 2)
    Image.fromarray(photo.pixels).save(tmp_path / "a.jpg", exif=bytes(exif))
    again = read_photo(tmp_path / "a.jpg")
    assert again.details.orientation == 6
    write_photo(tmp_path / f"b.{ending}", again)
    written = read_photo(tmp_path / f"b.{ending}")
    # Written with losses where the input was; WebP halves colours, and these are noise.
    off = {"jpg": 25, "webp": 99}.get(ending, 0)
    np.testing.assert_allclose(upright(written), upright(again), atol=off)


def test_too_many_pixels_are_refused(monkeypatch, tmp_path):
    Image.new("L", (64, 64)).save(tmp_path / "a.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    with pytest.raises(InvalidInputError, match="million pixels; cut it"):
        read_photo(tmp_path / "a.png")


def test_what_a_file_has_no_place_for_is_refused_before_it_is_written(make, tmp_path):
    with pytest.raises(InvalidInputError, match="transparency, for which JPEG has no place"):
        write_photo(tmp_path / "a.jpg", make(alpha=True))
    with pytest.raises(InvalidInputError, match=r"floats, for which PNG has no place; write \.tif"):
        write_photo(tmp_path / "a.png", make("float32", grey=True))
    with pytest.raises(InvalidInputError, match="at most 16383 pixels a side, got 20000 x 12"):
        losses(make(), "WEBP", (20000, 12))
    with pytest.raises(InvalidParameterError, match="must end in"):
        write_photo(tmp_path / "a.gif", make())
    with pytest.raises(FileWriteError, match="its folder does not exist"):
        write_photo(tmp_path / "no" / "a.png", make())
    assert list(tmp_path.iterdir()) == []


def test_details_that_are_too_long_for_jpeg_are_told(make, tmp_path):
    exif = Image.Exif()
    exif[270] = "a" * 70_000
    details = Details(exif.tobytes(), xmp=b"x" * 70_000)
    photo = make(details=details)
    assert losses(photo, "JPEG", photo.size) == ["JPEG has no place for EXIF data and XMP data."]
    write_photo(tmp_path / "a.jpg", photo)
    assert read_photo(tmp_path / "a.jpg").details.exif == b""


@pytest.mark.parametrize(
    ("ending", "dtype", "alpha", "lost"),
    [
        ("webp", "uint8", False, True), ("tif", "uint16", True, True),
        ("tif", "uint16", False, False), ("png", "uint16", True, False),
    ],
)  # fmt: skip
def test_a_grey_profile_is_not_put_on_colours(make, tmp_path, ending, dtype, alpha, lost):
    profile, path = bytearray(make().details.profile), tmp_path / f"a.{ending}"
    profile[16:20] = b"GRAY"
    photo = make(dtype, grey=True, alpha=alpha, details=Details(profile=bytes(profile)))
    said = losses(photo, photo_format(path), photo.size)
    assert any("its grey profile" in text for text in said) == lost
    write_photo(path, photo)
    again = read_photo(path)
    assert (again.details.profile == b"") == lost
    assert (again.pixels.ndim == 3) == lost


# Turning, masks, comparisons ----------------------------------------------------------------------


@pytest.mark.parametrize("orientation", range(1, 9))
def test_turning_is_what_pillow_does_and_can_be_undone(rng, orientation):
    values = (rng.random_sample((12, 16, 3)) * 255).astype("uint8")
    exif, file = Image.Exif(), io.BytesIO()
    exif[274] = orientation
    Image.fromarray(values).save(file, "PNG", exif=exif)
    with Image.open(file) as image:
        shown = np.asarray(ImageOps.exif_transpose(image))
    np.testing.assert_array_equal(turned(values, orientation), shown)
    np.testing.assert_array_equal(turned(shown, orientation, back=True), values)


@pytest.mark.parametrize("orientation", [1, 3, 6, 7])
def test_a_mask_is_drawn_on_the_picture_as_it_is_shown(rng, make, tmp_path, orientation):
    missing = rng.random_sample((12, 16)) < 0.3
    photo = make(details=Details(orientation=orientation))
    Image.fromarray(turned(missing, orientation)).save(tmp_path / "mask.png")
    np.testing.assert_array_equal(read_mask(tmp_path / "mask.png", photo), missing)


def test_every_pixel_that_is_not_black_is_missing(make, tmp_path):
    photo, values = make(details=PLAIN), np.zeros((12, 16, 4), np.uint8)
    values[..., 3] = 255
    values[1, 1, 0] = 1
    values[2, 2] = 255
    values[3, 3] = (255, 255, 255, 0)  # what is transparent is not drawn
    Image.fromarray(values).save(tmp_path / "mask.png")
    found = read_mask(tmp_path / "mask.png", photo)
    assert np.argwhere(found).tolist() == [[1, 1], [2, 2]]
    soft = np.where(np.arange(16) < 8, 20, 250).astype(np.uint8)
    Image.fromarray(np.tile(soft, (12, 1))).save(tmp_path / "mask.jpg", quality=95)
    found = read_mask(tmp_path / "mask.jpg", photo)
    np.testing.assert_array_equal(found, np.tile(np.arange(16) >= 8, (12, 1)))


def test_a_mask_of_another_size_is_refused_with_both(make, tmp_path):
    Image.new("L", (16, 12)).save(tmp_path / "mask.png")
    with pytest.raises(InvalidInputError, match="12 x 16, got 16 x 12"):
        read_mask(tmp_path / "mask.png", make())  # which is shown turned by 90 degrees


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float32"])
def test_a_comparison_shows_both_pictures_upright_below_a_line_of_text(make, dtype):
    before, after = make(dtype, grey=True), make(dtype, grey=True)
    both = side_by_side(before, after)
    body = both.pixels[-16:]
    assert both.pixels.dtype == np.uint8
    assert body.shape == (16, 12 + 8 + 12)
    top = {"uint8": 1, "uint16": 257}.get(dtype)
    low, high = after.pixels.min(), after.pixels.max()
    for part, photo in ((body[:, :12], before), (body[:, -12:], after)):
        values = turned(photo.pixels, 6)
        shown = values / top if top else 255 * ((values - low) / (high - low)).clip(0, 1)
        np.testing.assert_allclose(part, shown, atol=0.51)
    strip = both.pixels[:-16]
    assert strip.max() == 255
    assert strip[:, :12].min() < 128
    assert strip[:, -12:].min() < 128


def test_a_comparison_brings_a_smaller_picture_to_the_size_of_the_other(make):
    before = make(alpha=True)
    after = before.with_pixels(before.pixels.repeat(2, 0).repeat(2, 1))
    both = side_by_side(before, after)
    assert both.pixels.shape[1:] == (24 + 8 + 24, 3)
    assert both.details.profile == before.details.profile


def test_transparent_pixels_are_white_in_a_comparison():
    photo = Photo(np.zeros((12, 16), np.uint8), np.zeros((12, 16), np.uint8))
    assert (side_by_side(photo, photo).pixels[-12:] == 255).all()


def test_transparency_stays_on_the_pixels_it_belongs_to():
    alpha = np.random.RandomState(0).randint(0, 255, (12, 17)).astype(np.uint8)
    larger = resized(alpha, (51, 36))
    np.testing.assert_allclose(larger[::3, ::3].astype(int), alpha.astype(int), atol=1)
