"""Missing pixels: what is there stays, what is told by symmetry holds, and structure is found."""

from functools import partial

import numpy as np
import pytest
import torch

from tensorae.photos import inpaint, inpainting
from tensorae.photos.inpainting import smooth_fill
from tensorae.photos.patch_mixture import near_known
from tensorae.photos.patches import make_tiles

SIZE = 48


@pytest.fixture(scope="module")
def stripes():
    """Slanted stripes beside a plain part with a bright disc: edges, texture, nothing at all."""
    rows, columns = np.mgrid[:SIZE, :SIZE] / SIZE
    picture = 120 + 60 * np.sin(40 * (rows + 0.5 * columns)) * (columns < 0.6)
    return picture + 70 * ((rows - 0.5) ** 2 + (columns - 0.8) ** 2 < 0.02)


@pytest.fixture(scope="module")
def lost():
    return np.random.RandomState(0).uniform(size=(SIZE, SIZE)) < 0.4


def error(found, truth, where):
    return np.sqrt(np.square(found - truth)[where].mean())


def test_pixels_that_are_there_stay_bit_for_bit(stripes, lost):
    filled = inpaint(np.where(lost, np.nan, stripes), lost)
    np.testing.assert_array_equal(filled[~lost], stripes[~lost])
    assert np.isfinite(filled).all()


def test_what_a_missing_pixel_holds_plays_no_part(stripes, lost):
    one, other = (inpaint(np.where(lost, value, stripes), lost) for value in (0, 1e9))
    np.testing.assert_array_equal(one, other)


def test_structure_is_found_that_a_smooth_fill_has_not(stripes, lost):
    smooth = smooth_fill(torch.tensor(stripes)[None], torch.tensor(lost))[0].numpy()
    filled = inpaint(stripes, lost)
    assert error(filled, stripes, lost) < 0.35 * error(smooth, stripes, lost)


def test_brightness_and_contrast_do_not_matter(stripes, lost):
    np.testing.assert_allclose(
        inpaint(1e-3 * stripes - 4, lost), 1e-3 * inpaint(stripes, lost) - 4, atol=1e-4
    )


@pytest.mark.parametrize("turn", [np.transpose, np.fliplr, np.rot90])
def test_a_turned_picture_is_filled_alike(stripes, lost, turn):
    filled, turned = inpaint(stripes, lost), inpaint(turn(stripes).copy(), turn(lost).copy())
    # Groups of k-means may settle otherwise by rounding: equal up to a part of what is filled in.
    assert error(turned, turn(filled), turn(lost)) < 0.5 * error(filled, stripes, lost) + 1e-3


def test_a_constant_picture_stays_constant(lost):
    np.testing.assert_array_equal(inpaint(np.where(lost, 7, 33.0), lost), 33.0)


def test_a_mask_without_a_pixel_changes_nothing(stripes):
    np.testing.assert_array_equal(inpaint(stripes, np.zeros((SIZE, SIZE), bool)), stripes)


def test_noise_is_taken_out_of_pixels_that_are_there(stripes, lost, rng):
    noisy = stripes + 12 * rng.standard_normal(stripes.shape)
    filled = inpaint(noisy, lost, noise=12)
    assert error(filled, stripes, ~lost) < 0.8 * error(noisy, stripes, ~lost)
    assert error(filled, stripes, lost) < error(inpaint(noisy, lost), stripes, lost)


def test_grey_as_colours_is_grey(stripes, lost):
    colours = np.repeat(stripes[..., None], 3, axis=2)
    filled = inpaint(colours, lost)
    assert np.abs(filled - filled.mean(2, keepdims=True)).max() < 1e-3
    assert error(filled[..., 0], stripes, lost) < 1.1 * error(inpaint(stripes, lost), stripes, lost)


def test_a_hole_wider_than_a_patch_is_filled_from_its_rim():
    rows, columns = np.mgrid[:64, :64]
    ramp = 2.0 * rows + columns
    hole = np.zeros((64, 64), bool)
    hole[24:42, 20:38] = True
    assert not near_known(torch.tensor(hole), 4).all()
    filled = inpaint(np.where(hole, 0, ramp), hole)
    assert error(filled, ramp, hole) < 0.1 * ramp[hole].std()


def test_threads_do_not_matter_and_all_tiles_are_told(stripes, lost, monkeypatch):
    monkeypatch.setattr(inpainting, "make_tiles", partial(make_tiles, core=24))
    heard = []
    alone = inpaint(stripes, lost, n_jobs=1, progress=lambda *said: heard.append(said))
    np.testing.assert_array_equal(inpaint(stripes, lost, n_jobs=3), alone)
    assert heard == [(done, 4) for done in range(5)]


def test_tiles_leave_no_seam(stripes, lost, monkeypatch):
    whole = inpaint(stripes, lost)
    monkeypatch.setattr(inpainting, "make_tiles", partial(make_tiles, core=24))
    tiled = inpaint(stripes, lost)
    jumps = [np.abs(np.diff(found - stripes, axis=1)) for found in (whole, tiled)]
    assert jumps[1][:, 22:26].mean() < 1.5 * max(jumps[0].mean(), jumps[1].mean())


@pytest.mark.parametrize("dtype", [torch.float32, torch.uint8])
def test_tensors_come_back_as_tensors(stripes, lost, dtype):
    image = torch.tensor(stripes).to(dtype)
    filled = inpaint(image, torch.tensor(lost))
    assert filled.dtype == dtype
    assert bool((filled[~torch.tensor(lost)] == image[~torch.tensor(lost)]).all())
