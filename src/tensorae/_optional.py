"""Packages that only some features need: imported on use, with an install hint when missing."""

from __future__ import annotations

import importlib
from types import ModuleType

from tensorae.exceptions import MissingDependencyError

__all__ = ["import_optional"]


def import_optional(module: str, *, extra: str) -> ModuleType:
    """Import a module that belongs to one of tensorae's extras.

    Parameters
    ----------
    module : str
        Dotted name, such as ``"mlxtend.data"``.
    extra : str
        The extra that installs it.

    Returns
    -------
    module
        The imported module.

    Raises
    ------
    MissingDependencyError
        If the package is not installed; the message says how to install it.

    Examples
    --------
    >>> from tensorae._optional import import_optional
    >>> import_optional("json", extra="datasets").loads("[1]")
    [1]
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = (error.name or module).partition(".")[0]
        raise MissingDependencyError(
            f"This needs the package {package}, which is not installed; "
            f'run: pip install "tensorae[{extra}]"'
        ) from error
