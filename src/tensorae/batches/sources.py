"""What a user hands over -> parts."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorae.batches.parts import ArrayPart, Part
from tensorae.exceptions import InvalidInputError

__all__ = ["find_parts"]


def find_parts(source: Any) -> list[Part]:
    """Find out what ``source`` is; nothing is read yet."""
    if isinstance(source, np.ndarray):
        return [ArrayPart(source)]
    raise InvalidInputError(f"Batches cannot be made of {type(source).__name__}.")
