"""One family of errors, so that ``except TensoraeError`` catches them all.

.. code-block:: text

    TensoraeError
    ├── InvalidInputError       (also ValueError)   data cannot be used: shape, NaN, few rows
    ├── InvalidParameterError   (also ValueError)   a constructor or method argument is out of range
    ├── NotFittedError          (also scikit-learn's) predict before fit
    ├── ModelFileError          (also ValueError)   damaged, of another kind or too new
    │   └── CheckpointError                         the same for a checkpoint
    ├── FileWriteError          (also OSError)      cannot be written: permissions, space
    └── MissingDependencyError  (also ImportError)  an optional package is not installed

Each message says what was expected, what was given and what to do.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

__all__ = [
    "CheckpointError",
    "FileWriteError",
    "InvalidInputError",
    "InvalidParameterError",
    "MissingDependencyError",
    "ModelFileError",
    "NotFittedError",
    "TensoraeError",
]


class TensoraeError(Exception):
    """Base class of all errors of tensorae."""


class InvalidInputError(TensoraeError, ValueError):
    """The given data cannot be used."""


class InvalidParameterError(TensoraeError, ValueError):
    """A parameter is out of range or misspelt."""


class ModelFileError(TensoraeError, ValueError):
    """Not a tensorae model, truncated, or written by a newer version."""


class CheckpointError(ModelFileError):
    """A checkpoint is damaged, or cannot be resumed by this version."""


class FileWriteError(TensoraeError, OSError):
    """A file cannot be written; the old one is unchanged."""


class MissingDependencyError(TensoraeError, ImportError):
    """A required optional package is not installed."""


if TYPE_CHECKING:

    class NotFittedError(TensoraeError, ValueError, AttributeError):
        """The estimator was asked for results before ``fit``."""


def __getattr__(name: str) -> Any:
    # It derives from scikit-learn's, which takes its time to import.
    if name == "NotFittedError":
        from sklearn.exceptions import NotFittedError as _Theirs

        members = {"__module__": __name__, "__doc__": "The estimator was asked before ``fit``."}
        # Built once: an ``except`` must find the very class that was raised.
        return globals().setdefault(name, type(name, (TensoraeError, _Theirs), members))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def unknown_choice(name: str, value: object, choices: Iterable[str]) -> InvalidParameterError:
    """Build the error for a misspelt option, with a suggestion where one is close.

    Parameters
    ----------
    name : str
        The parameter.
    value : object
        What came.
    choices : iterable of str
        What would have been accepted.

    Returns
    -------
    InvalidParameterError
        To be raised by the caller.

    Examples
    --------
    >>> from tensorae.exceptions import unknown_choice
    >>> print(unknown_choice("assignment", "loyd", ["lloyd", "em"]))
    assignment must be one of 'em', 'lloyd', got 'loyd'; did you mean 'lloyd'?
    """
    names = sorted(choices)
    close = difflib.get_close_matches(str(value).lower(), names, n=1)
    remedy = f"did you mean {close[0]!r}?" if close else "choose one of them."
    listed = ", ".join(repr(choice) for choice in names)
    return InvalidParameterError(f"{name} must be one of {listed}, got {value!r}; {remedy}")
