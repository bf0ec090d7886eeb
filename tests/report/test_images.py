"""Images are on the page as they are."""

import base64
import math
import struct
import zlib

import numpy as np
import pytest

from tensorae import TAE, LinearTAE
from tensorae.exceptions import InvalidParameterError
from tensorae.report.map import Painter, as_png


def pixels_of(png):
    """Decode what ``as_png`` wrote, checksums included."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    place, parts = 8, {}
    while place < len(png):
        (size,) = struct.unpack(">I", png[place : place + 4])
        name, body = png[place + 4 : place + 8], png[place + 8 : place + 8 + size]
        (check,) = struct.unpack(">I", png[place + 8 + size : place + 12 + size])
        assert check == zlib.crc32(name + body)
        parts[name] = body
        place += 12 + size
    width, height, depth, kind, *rest = struct.unpack(">IIBBBBB", parts[b"IHDR"])
    assert (depth, rest) == (8, [0, 0, 0])
    lines = np.frombuffer(zlib.decompress(parts[b"IDAT"]), np.uint8).reshape(height, -1)
    assert (lines[:, 0] == 0).all()
    shape = (height, width) if kind == 0 else (height, width, 3)
    return lines[:, 1:].reshape(shape)


def image(uri):
    head, _, body = uri.partition(",")
    assert head == "data:image/png;base64"
    return pixels_of(base64.b64decode(body))


def in_gray(values, low, high):
    """High values are dark."""
    return np.round(255 * (1 - np.clip((values - low) / (high - low), 0, 1)))


@pytest.fixture(scope="module")
def model(digits):
    return LinearTAE(4, 3, random_state=0).fit(digits[0].reshape(-1, 64))


@pytest.fixture(scope="module")
def page(model, digits, write):
    return write(model, digits[0].reshape(-1, 64), shape=(8, 8), noise=0.1)


def alt(page, text):
    (uri,) = {one["src"] for one in page.has("img", alt=text)}
    return image(uri)


@pytest.mark.parametrize("shape", [(1, 1), (5, 3), (4, 7, 3)])
def test_png_gives_back_every_pixel(shape):
    pixels = np.random.RandomState(0).randint(0, 256, shape).astype(np.uint8)
    np.testing.assert_array_equal(pixels_of(as_png(pixels)), pixels)


def test_original_reconstruction_and_denoised_are_the_model_s(model, digits, page):
    X = digits[0].reshape(-1, 64)
    given_back, clean = model.reconstruct(X), model.denoise(X, noise=0.1)
    low, high = np.percentile(given_back, (1, 99))
    misfit = -model.score_samples(X)
    own = np.flatnonzero(model.labels_ == 2)
    order = own[np.argsort(misfit[own], kind="stable")]
    for row in (order[0], order[len(own) // 2], order[-1]):
        for name, source in (("original", X), ("reconstruction", given_back), ("de-noised", clean)):
            shown = alt(page, f"{name} of row {row}")
            np.testing.assert_array_equal(shown, in_gray(source[row].reshape(8, 8), low, high))


def test_centre_of_each_cluster_is_an_image(model, digits, page):
    X = digits[0].reshape(-1, 64)
    low, high = np.percentile(model.reconstruct(X), (1, 99))
    for label, center in enumerate(model.cluster_centers_):
        shown = alt(page, f"centre of cluster {label}")
        np.testing.assert_array_equal(shown, in_gray(center.reshape(8, 8), low, high))


def test_hover_shows_the_image_of_each_point(model, digits, page):
    X = digits[0].reshape(-1, 64)
    low, high = np.percentile(model.reconstruct(X), (1, 99))
    sprite = page.points["sprite"]
    tiles = image(sprite["uri"])
    assert (sprite["width"], sprite["height"]) == (8, 8)
    for row in (0, 17, 18, 299):
        line, column = divmod(row, sprite["columns"])
        tile = tiles[8 * line : 8 * line + 8, 8 * column : 8 * column + 8]
        np.testing.assert_array_equal(tile, in_gray(X[row].reshape(8, 8), low, high))


def test_pixels_are_not_searched_for_trends(page):
    assert page.text_in("trends") == ""
    keys = [page.points["columns"][place]["key"] for place in page.points["start"]]
    assert keys == ["overall0", "overall1"]


def test_nothing_is_denoised_without_being_asked(model, digits, write):
    X = digits[0].reshape(-1, 64)
    page = write(model, X, shape=(8, 8))
    assert "de-noised" not in page.source
    assert page.has("img", alt=f"original of row {model.score_samples(X).argmin()}")


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_tae_for_noisy_images_denoises_by_itself(digits, write):
    clean, noisy = digits
    model = TAE(2, 3, architecture="conv", max_epochs=2, random_state=0).fit(noisy, clean=clean)
    page = write(model, noisy)
    row = int(model.score_samples(noisy).argmin())
    low, high = np.percentile(model.reconstruct(noisy).reshape(300, -1), (1, 99))
    shown = alt(page, f"de-noised of row {row}")
    expected = in_gray(model.denoise(noisy)[row], low, high)
    assert np.abs(shown - expected).max() <= 1
    with pytest.raises(InvalidParameterError, match=r"noise must be None for a TAE"):
        write(model, noisy, noise=0.1)


def test_large_images_are_shown_smaller_and_the_page_says_so(write):
    rng = np.random.RandomState(0)
    X = rng.rand(30, 3 * 90 * 70).astype(np.float32)
    model = LinearTAE(1, 1, n_init=1, random_state=0).fit(X)
    page = write(model, X, shape=(3, 90, 70))
    assert "Images are shown smaller than they are" in page.text_in("reconstruction")
    worst = int(model.score_samples(X).argmin())
    low, high = np.percentile(model.reconstruct(X), (1, 99))
    # Squares of two by two pixels are averaged.
    half = X[worst].reshape(3, 45, 2, 35, 2).mean((2, 4)).transpose(1, 2, 0)
    expected = np.round(255 * np.clip((half - low) / (high - low), 0, 1))
    assert np.abs(alt(page, f"original of row {worst}") - expected).max() <= 1


def test_small_images_together_stay_within_their_room(model, digits):
    from types import SimpleNamespace

    X = digits[0].reshape(-1, 64)
    findings = SimpleNamespace(shape=(300, 200), reconstructions=X, n=len(X))
    for count in (10, 1000):
        side = Painter.of(findings, count).side
        assert count * side * math.ceil(side * 2 / 3) <= 1_500_000


@pytest.mark.parametrize("shape", [(8, 9), (4, 4, 4), (64,), (2, 4, 8)])
def test_a_shape_that_does_not_fit_is_named(model, digits, write, shape):
    with pytest.raises(InvalidParameterError, match=r"shape must be .* 64 numbers in all"):
        write(model, digits[0].reshape(-1, 64), shape=shape)
