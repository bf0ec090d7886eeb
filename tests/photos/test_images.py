"""Images come back as what they were; bad images and arguments are refused."""

import numpy as np
import pytest
import torch

import tensorae
from tensorae.exceptions import InvalidInputError, InvalidParameterError
from tensorae.photos import denoise, enlarge, inpaint
from tensorae.photos.images import Picture, check_jobs, check_mask, check_noise

NUMPY = ["uint8", "uint16", ">u2", "float16", "float32", "float64"]
TORCH = [torch.uint8, torch.uint16, torch.float16, torch.bfloat16, torch.float32, torch.float64]


def some_image(rng, shape=(9, 12), dtype="uint8"):
    top = {"uint8": 255, "uint16": 65535, ">u2": 65535}.get(str(dtype), 1)
    return (rng.random_sample(shape) * top).astype(dtype)


# There and back -----------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(9, 12), (12, 9, 3)])
@pytest.mark.parametrize("dtype", NUMPY)
def test_an_array_comes_back_as_it_was(rng, shape, dtype):
    image = some_image(rng, shape, dtype)[::-1, ::-1]  # runs backwards
    image.setflags(write=False)
    picture = Picture.of(image)
    assert picture.planes.dtype == torch.float32
    assert picture.planes.shape == (1 if len(shape) == 2 else 3, *shape[:2])
    back = picture.restored(picture.planes)
    assert back.dtype == image.dtype
    np.testing.assert_array_equal(back, image.astype("float32").astype(dtype))


@pytest.mark.parametrize("shape", [(9, 12), (12, 9, 3)])
@pytest.mark.parametrize("dtype", TORCH, ids=str)
def test_a_tensor_comes_back_as_it_was(shape, dtype):
    values = torch.arange(int(np.prod(shape))).reshape(shape) % 256
    image = values.to(dtype).requires_grad_(dtype.is_floating_point)
    picture = Picture.of(image)
    back = picture.restored(picture.planes)
    assert back.dtype == dtype
    assert back.device == image.device
    assert not back.requires_grad
    assert torch.equal(back, image.detach())


def test_work_on_planes_leaves_the_image_alone(rng):
    for image in (some_image(rng, dtype="float32"), torch.ones(8, 8)):
        before = image + 0
        Picture.of(image).planes.zero_()
        assert (image == before).all()


def test_whole_numbers_are_rounded_and_cut_but_floats_go_anywhere(rng):
    planes = torch.tensor([-3.0, 0.4, 0.6, 254.6, 300.0] * 16).reshape(1, 8, 10)
    whole = Picture.of(np.zeros((8, 10), np.uint8)).restored(planes)
    assert whole[0, :5].tolist() == [0, 0, 1, 255, 255]
    assert Picture.of(np.zeros((8, 10), np.uint16)).restored(planes)[0, 4] == 300
    np.testing.assert_array_equal(Picture.of(np.zeros((8, 10))).restored(planes), planes[0])


def test_the_size_may_change(rng):
    picture = Picture.of(some_image(rng, (9, 12, 3)))
    larger = picture.planes.repeat_interleave(2, 1).repeat_interleave(2, 2)
    assert picture.restored(larger).shape == (18, 24, 3)
    assert picture.size == (9, 12)


@pytest.mark.parametrize("make", [np.asarray, torch.as_tensor])
def test_pixels_that_are_there_stay_bit_for_bit(rng, make):
    image = rng.random_sample((9, 12, 3))  # more digits than a float32 holds
    missing = torch.zeros(9, 12, dtype=torch.bool)
    missing[3, 4] = True
    picture = Picture.of(make(image))
    filled = np.asarray(picture.completed(make(image), picture.planes + 1, missing))
    assert (filled == image).all(2).sum() == image[..., 0].size - 1
    np.testing.assert_allclose(filled[3, 4], image[3, 4] + 1, rtol=1e-6)


# Bad images ---------------------------------------------------------------------------------------

ZEROS = np.zeros((9, 12))


@pytest.mark.parametrize(
    ("image", "said"),
    [
        ([[0.0] * 9] * 9, "got list"),
        (None, "got NoneType"),
        (np.zeros((2, 9, 9, 3)), "one image at a time"),
        (np.zeros(9), "shape"),
        (np.zeros((9, 9, 4)), r"transparency .* image\[..., :3\]"),
        (np.zeros((9, 9, 2)), r"transparency .* image\[..., 0\]"),
        (np.zeros((9, 9, 1)), r"image\[..., 0\]"),
        (np.zeros((9, 9, 7)), "shape"),
        (np.zeros((3, 20, 30)), r"numpy.moveaxis\(image, 0, -1\)"),
        (torch.zeros(3, 20, 30), r"image.permute\(1, 2, 0\)"),
        (np.zeros((0, 9)), "8 x 8 pixels, got 0 x 9"),
        (np.zeros((7, 90)), "8 x 8 pixels, got 7 x 90"),
        (np.zeros((9, 9), bool), "got bool"),
        (np.zeros((9, 9), int), "got int64"),
        (np.zeros((9, 9), complex), "got complex128"),
        (torch.zeros(9, 9, dtype=torch.int32), "got int32"),
        (np.zeros((9, 9), "U1"), "got str"),
        (torch.zeros(9, 9).to_sparse(), "dense tensor"),
        (np.where(np.eye(9, 12) > 0, np.nan, ZEROS), "nan in 9 pixels, the first in row 0"),
        (np.where(ZEROS + np.arange(12) == 7, -np.inf, 0), "-inf in 9 pixels, .* column 7"),
        (ZEROS + 1e20, r"numbers up to 1e\+15"),
        (np.ma.masked_less(np.eye(9), 0.5), "got 72"),
    ],
)
def test_bad_images_are_refused_with_a_remedy(image, said):
    with pytest.raises(InvalidInputError, match=rf"^image must .*{said}") as refusal:
        denoise(image)
    assert ";" in str(refusal.value)


# Arguments ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "name", "values"),
    [
        (denoise, "noise", [0, -1, np.nan, np.inf, True, [1.0], np.ones(2), "auto"]),
        (denoise, "passes", [0, 1.5]),
        (denoise, "quality", ["fsat", None]),
        (denoise, "n_jobs", [0, -2, 1.5, "2", True]),
        (denoise, "progress", [3]),
        (enlarge, "factor", [1, 5, 2.5, "2", None, True, np.nan]),
        (enlarge, "blur", [-1]),
    ],
)
def test_bad_arguments_are_named(call, name, values):
    for value in values:
        with pytest.raises(InvalidParameterError, match=f"^{name} must"):
            call(ZEROS, **{name: value})


def test_a_misspelt_quality_gets_a_suggestion():
    with pytest.raises(InvalidParameterError, match=r"did you mean 'fast'\?"):
        denoise(ZEROS, quality="fsat")


def test_noise_may_be_any_kind_of_number(rng):
    picture = Picture.of(rng.random_sample((9, 9)))
    assert check_noise(None, picture) is None
    for number in (0.25, np.float32(0.25), torch.tensor(0.25)):
        assert check_noise(number, picture) == 0.25


def test_noise_in_other_units_is_warned_of(rng):
    with pytest.warns(UserWarning, match="divide by 255"):
        denoise(rng.random_sample((9, 9)), 25)
    with pytest.warns(UserWarning, match="multiply by 255"):
        denoise(some_image(rng), 0.1)


def test_jobs_are_all_cores_by_default():
    assert check_jobs(3) == 3
    assert check_jobs(None) == check_jobs(-1) >= 1


# Masks --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [np.asarray, torch.as_tensor])
@pytest.mark.parametrize("kind", [bool, "uint8", "int64", "float64"])
def test_a_mask_may_be_booleans_or_zero_and_one_other_number(rng, kind, make):
    marked = rng.random_sample((9, 12)) < 0.3
    mask = make((marked * (1 if kind is bool else 255)).astype(kind))
    found = check_mask(mask, Picture.of(ZEROS))
    assert found.dtype == torch.bool
    np.testing.assert_array_equal(found, marked)


@pytest.mark.parametrize(
    ("mask", "said"),
    [
        (None, "got NoneType"),
        (np.zeros((12, 9), bool), r"9 x 12, got shape \(12, 9\)"),
        (np.zeros((9, 12, 3), bool), r"mask.any\(-1\)"),
        (ZEROS == 0, "all 108 pixels .* ~mask"),
        (np.arange(108).reshape(9, 12), "107 values besides 0"),
        (np.where(np.eye(9, 12), np.nan, 0), "booleans"),
        (ZEROS.astype(complex), "got complex128"),
        (torch.zeros(9, 12, dtype=torch.complex64), "complex"),
        (ZEROS.astype(str), "got str"),
    ],
)
def test_bad_masks_are_refused_with_a_remedy(mask, said):
    with pytest.raises(InvalidInputError, match=f"^mask .*{said}"):
        inpaint(ZEROS, mask)


def test_nan_is_allowed_under_the_mask_only():
    image, mask = ZEROS.copy(), ZEROS > 0
    image[2, 3] = image[4, 5] = np.nan
    mask[2, 3] = True
    with pytest.raises(InvalidInputError, match="1 pixel outside the mask, the first in row 4"):
        inpaint(image, mask)
    mask[4, 5] = True
    np.testing.assert_array_equal(inpaint(image, mask), 0)


def test_a_name_that_does_not_exist_is_an_attribute_error():
    assert dir(tensorae.photos) == ["NoiseModel", "denoise", "enlarge", "estimate_noise", "inpaint"]
    with pytest.raises(AttributeError, match=r"'tensorae\.photos' has no attribute 'denoize'"):
        _ = tensorae.photos.denoize
