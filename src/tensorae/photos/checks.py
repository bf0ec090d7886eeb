"""Arguments of the functions on photographs, or one clear sentence about what is wrong.

Shapes: c planes, H high, W wide.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import joblib
import numpy as np
import torch
from torch import Tensor

from tensorae._numbers import check_integer, check_number
from tensorae._torch import callers_threads
from tensorae.exceptions import InvalidInputError, InvalidParameterError, unknown_choice
from tensorae.photos.images import Picture, refuse_not_finite

__all__ = [
    "FACTORS",
    "QUALITIES",
    "Progress",
    "check_blur",
    "check_factor",
    "check_jobs",
    "check_mask",
    "check_noise",
    "check_passes",
    "check_progress",
    "check_quality",
]

Progress = Callable[[int, int], object]

QUALITIES = ("best", "fast")
FACTORS = (2, 3, 4)


def check_noise(noise: Any, picture: Picture) -> float | None:
    """Return σ in the units of the picture, or None where it is to be estimated.

    Warns where σ looks like one in other units.
    """
    if noise is None:
        return None
    if isinstance(noise, str):
        raise InvalidParameterError(
            "noise must be a number above 0 in the units of the image, or None to estimate it, "
            f"got {noise!r}; give a number without quotes, or leave noise out."
        )
    number = noise.item() if isinstance(noise, Tensor) and noise.ndim == 0 else noise
    sigma = check_number("noise", number, low=0, low_allowed=False)
    _warn_of_units(sigma, picture)
    return sigma


def check_mask(mask: Any, picture: Picture) -> Tensor:
    """Return the missing pixels (H, W) as booleans, on the device of the picture.

    Takes booleans, and numbers of which one is 0 and no more than one other occurs, such as 0 and
    255. Elsewhere the picture must be finite. A mask that marks nothing is allowed.
    """
    if not isinstance(mask, np.ndarray | Tensor):
        raise InvalidInputError(
            f"mask must be a numpy array or a torch tensor, got {type(mask).__name__}; make it one "
            "of booleans, True where a pixel is missing."
        )
    height, width = picture.size
    if tuple(mask.shape) != (height, width):
        flat = mask.ndim == 3 and tuple(mask.shape[:2]) == (height, width)
        remedy = "mask.any(-1) makes one of it." if flat else "draw it on the image itself."
        raise InvalidInputError(
            f"mask must have the size of {picture.name}, {height} x {width}, got shape "
            f"{tuple(mask.shape)}; {remedy}"
        )
    missing = _as_booleans(mask).to(picture.planes.device)
    if bool(missing.all()):
        raise InvalidInputError(
            f"mask marks all {missing.numel()} pixels as missing, so that nothing is left to fill "
            "them from; True (or white) means missing: should it be the other way round, ~mask?"
        )
    refuse_not_finite(picture, missing)
    return missing


def check_factor(factor: Any) -> int:
    """Return by how much to enlarge: 2, 3 or 4."""
    if isinstance(factor, bool) or factor not in FACTORS:
        raise InvalidParameterError(
            f"factor must be 2, 3 or 4, got {factor!r}; enlarge by one of these, then resize."
        )
    return int(factor)


def check_blur(blur: Any) -> float | None:
    """Return the standard deviation of a blur, at least 0, or None where none is given."""
    return None if blur is None else check_number("blur", blur, low=0)


def check_quality(quality: Any) -> str:
    """Return "best" or "fast"."""
    if quality not in QUALITIES:
        raise unknown_choice("quality", quality, QUALITIES)
    return str(quality)


def check_passes(passes: Any) -> int:
    """Return how many passes to make, at least one."""
    return check_integer("passes", passes, low=1)


def check_jobs(n_jobs: Any) -> int:
    """Return how many tiles to work on side by side; None and -1 mean one for each core."""
    if n_jobs is None or (isinstance(n_jobs, int | np.integer) and n_jobs == -1):
        return int(joblib.cpu_count())
    if isinstance(n_jobs, int | np.integer) and not isinstance(n_jobs, bool) and n_jobs > 0:
        return int(n_jobs)
    raise InvalidParameterError(
        "n_jobs must be a whole number of at least 1, or None or -1 for all cores, got "
        f"{n_jobs!r}; change n_jobs."
    )


def check_progress(progress: Any) -> Progress:
    """Return a function of how much is done, and of how much; one that does nothing for None."""
    if progress is None:
        return _say_nothing
    if not callable(progress):
        raise InvalidParameterError(
            f"progress must be a function of two numbers, done and total, or None, got "
            f"{progress!r}; give a function."
        )
    called: Progress = callers_threads()(progress)
    return called


def _say_nothing(done: int, total: int) -> None:
    """Take what is said about progress, and say nothing."""


def _warn_of_units(sigma: float, picture: Picture) -> None:
    """Warn of a σ that cannot be one of this picture, such as 25 where white is 1."""
    brightest = picture.brightest
    spread = float(picture.planes.max() - picture.planes.min())
    if sigma < picture.rounding:
        said = f"less than what rounding to whole numbers does; of 0 to 1, multiply by {brightest}"
    elif brightest is None and 0 < spread < sigma:
        said = f"more than all the image spans, {spread:.3g}; of 0 to 255, divide by 255"
    else:
        return
    warnings.warn(
        f"noise is {sigma:g}, {said}: it is in the units of the image.", UserWarning, stacklevel=4
    )


def _as_booleans(mask: np.ndarray[Any, Any] | Tensor) -> Tensor:
    """Whether each entry is not 0; refuse more than two values."""
    if isinstance(mask, Tensor):
        values = mask.detach()
        booleans = values.dtype == torch.bool
    else:
        booleans = mask.dtype == bool
        if not booleans and mask.dtype.kind not in "uif":
            raise _no_mask(f"{mask.dtype.name} values")
        # Copied: torch takes no arrays that are read-only or run backwards.
        values = torch.from_numpy(np.array(mask, dtype=bool if booleans else np.float32))
    if booleans:
        return values
    if values.is_complex():
        raise _no_mask("complex values")
    kinds = torch.unique(values[values != 0])
    if len(kinds) > 1 or bool(kinds.isnan().any()):
        raise _no_mask(f"{len(kinds)} values besides 0")
    return values != 0


def _no_mask(came: str) -> InvalidInputError:
    return InvalidInputError(
        "mask must be booleans, True where a pixel is missing, or 0 and one other number such as 1 "
        f"or 255, got {came}; compare it with a number first, such as mask > 0."
    )
