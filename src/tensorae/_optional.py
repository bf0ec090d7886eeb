"""Packages that only some features need: imported on use, with an install hint when missing."""

from __future__ import annotations

import importlib
from types import ModuleType

from tensorae.exceptions import MissingDependencyError

__all__ = ["import_optional"]


# Packages that pip knows by another name than Python does.
NAMES = {"PIL": "pillow", "umap": "umap-learn"}


def import_optional(module: str, *, extra: str | None = None) -> ModuleType:
    """Import a module that tensorae can do without.

    Parameters
    ----------
    module : str
        Dotted name, such as ``"matplotlib.pyplot"``.
    extra : str, optional
        The extra that installs it; by default it is installed by its own name.

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
        package = NAMES.get(package, package)
        wanted = package if extra is None else f'"tensorae[{extra}]"'
        raise MissingDependencyError(
            f"This needs the package {package}, which is not installed; run: pip install {wanted}"
        ) from error
