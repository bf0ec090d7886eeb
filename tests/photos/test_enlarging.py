"""Larger pictures agree with what they were made from, and have edges that splines have not."""

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter, map_coordinates

from tensorae.photos import enlarge
from tensorae.photos.enlarging import Decimation

SIZE = 72


@pytest.fixture(scope="module")
def edges():
    """Slanted bars and a disc, whose pixels are means over their area."""
    fine = np.mgrid[: 4 * SIZE, : 4 * SIZE] / (4 * SIZE)
    bars = 90.0 * (np.sin(24 * (fine[0] + 0.6 * fine[1])) > 0)
    sharp = 60 + bars + 60 * (((fine - 0.5) ** 2).sum(0) < 0.05)
    return sharp.reshape(SIZE, 4, SIZE, 4).mean((1, 3))


def spline(small, factor):
    where = np.mgrid[: factor * len(small), : factor * len(small)] / factor
    return map_coordinates(small, where, order=3, mode="mirror")


def error(found, truth):
    return np.sqrt(np.square(found - truth).mean())


@pytest.mark.parametrize("factor", [2, 3, 4])
def test_every_few_pixels_are_the_picture_itself(edges, factor):
    small = edges[::factor, ::factor]
    larger = enlarge(small, factor)
    assert larger.shape == tuple(factor * size for size in small.shape)
    np.testing.assert_array_equal(larger[::factor, ::factor], small)


@pytest.mark.parametrize(("factor", "blur"), [(2, 0.8), (2, 1.6), (3, 1.2)])
def test_blurred_it_is_seen_as_the_picture_it_was_made_from(edges, factor, blur):
    small = gaussian_filter(edges, blur)[::factor, ::factor]
    seen = gaussian_filter(enlarge(small, factor, blur=blur), blur)[::factor, ::factor]
    assert np.sqrt(np.square(seen - small).mean()) < 12**-0.5  # what rounding to 8 bits does
    assert np.abs(seen - small).max() < 2


def test_edges_are_nearer_to_the_truth_than_a_spline_is(edges):
    small = edges[::2, ::2]
    assert error(enlarge(small, 2), edges) < 0.9 * error(spline(small, 2), edges)


def test_a_known_blur_is_taken_back(edges):
    small = gaussian_filter(edges, 1.2)[::2, ::2]
    found = error(enlarge(small, 2, blur=1.2), edges)
    assert found < 0.7 * error(enlarge(small, 2), edges)
    assert found < 0.7 * error(spline(small, 2), edges)


@pytest.mark.parametrize("blur", [None, 1.0])
def test_brightness_and_contrast_do_not_matter(edges, blur):
    small = edges[::2, ::2]
    moved = enlarge(0.01 * small - 4, 2, blur=blur)
    # Rounding may put a patch into another cluster: alike far below what is wrong with either.
    larger = enlarge(small, 2, blur=blur)
    assert error(moved, 0.01 * larger - 4) < 0.1 * 0.01 * error(larger, edges)


@pytest.mark.parametrize("blur", [None, 1.0])
def test_a_transposed_picture_is_enlarged_alike(edges, blur):
    small = edges[::2, ::2]
    turned = enlarge(small.T.copy(), 2, blur=blur).T
    larger = enlarge(small, 2, blur=blur)
    assert error(turned, larger) < 0.3 * error(larger, edges)


@pytest.mark.parametrize("blur", [None, 1.0])
def test_a_constant_picture_stays_constant(blur):
    larger = enlarge(np.full((9, 11), 17.5), 3, blur=blur)
    np.testing.assert_array_equal(larger, np.full((27, 33), 17.5))


@pytest.mark.parametrize("blur", [None, 1.0])
def test_grey_as_colours_is_grey(edges, blur):
    small = np.repeat(edges[::2, ::2, None], 3, axis=2).round().astype(np.uint8)
    larger = enlarge(small, 2, blur=blur)
    assert larger.dtype == np.uint8
    assert np.ptp(larger.astype(int), axis=2).max() <= 1


def test_progress_rises_to_all(edges):
    heard = []
    enlarge(edges[:24, :24], 2, blur=1.0, progress=lambda *said: heard.append(said))
    assert heard[-1][0] == heard[-1][1]
    assert [done for done, _ in heard] == sorted(done for done, _ in heard)


def test_the_smallest_picture_is_enlarged(rng):
    small = rng.uniform(size=(8, 9))
    for blur in (None, 1.0):
        assert np.isfinite(enlarge(small, 2, blur=blur)).all()


@pytest.mark.parametrize("blur", [0.3, 1.5])
def test_decimation_is_the_blur_of_scipy(rng, blur):
    fine = rng.standard_normal((1, 30, 24))
    seen = Decimation(10, 8, 3, blur).apply(fine)
    np.testing.assert_allclose(seen[0], gaussian_filter(fine[0], blur)[::3, ::3], atol=1e-9)


def test_back_projection_changes_no_more_than_it_has_to(rng):
    decimation, fine = Decimation(10, 8, 2, 0.7), rng.standard_normal((1, 20, 16))
    coarse = rng.standard_normal((1, 10, 8))
    found = decimation.back_project(fine, coarse)
    assert error(decimation.apply(found), coarse) < 0.15 * error(decimation.apply(fine), coarse)
    other = found - fine + rng.standard_normal(fine.shape)
    other = decimation.back_project(fine + other, coarse)
    assert np.linalg.norm(found - fine) < np.linalg.norm(other - fine)
