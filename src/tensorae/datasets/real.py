"""Small real data sets, each a scikit-learn ``Bunch`` that says where it comes from.

Every loader returns ``data`` (n, d), ``target`` (n,), ``feature_names``, ``target_names``,
``DESCR`` (content, source, licence) and ``source`` (what was read this time). The class names of
the samples are ``target_names[target]``.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn import datasets as sklearn_datasets
from sklearn import preprocessing
from sklearn.utils import Bunch

from tensorae._optional import import_optional
from tensorae.exceptions import InvalidParameterError, unknown_choice

__all__ = ["load_digits", "load_iris", "load_penguins"]

Scale = Literal["max", "standard"] | None

PENGUIN_FEATURES = ["bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g"]

PENGUINS_DESCR = """\
Palmer penguins: bill length and depth (also called culmen), flipper length and body mass of
penguins of three species, measured at Palmer Station, Antarctica, 2007 to 2009.

Rows: the 333 of 344 penguins for which every column, sex included, is known. The paper counts 334:
the table it read marks one unknown sex by a dot, which does not count as missing there.
Source: Gorman, Williams and Fraser (2014), PLOS ONE 9(3) e90081; Horst, Hill and Gorman (2020),
through the Python package palmerpenguins.
Licence: CC0 1.0.
"""

IRIS_DESCR = """\
Iris: length and width of sepal and petal of 150 flowers, 50 of each of three species.

Source: Fisher (1936), UCI Machine Learning Repository, through scikit-learn.
Licence: CC BY 4.0.
"""

DIGITS_DESCR = """\
Digits: 1,797 handwritten digits as images of 8 x 8 pixels with values 0 to 16.

Source: Alpaydin and Kaynak (1998), UCI Machine Learning Repository, "Optical Recognition of
Handwritten Digits" (its test part), through scikit-learn.
Licence: CC BY 4.0.
"""


def load_penguins(n_features: Literal[2, 4] = 4, *, scale: Scale = None) -> Bunch:
    """Load the Palmer penguins: three species, two or four measurements, 333 birds.

    Needs the extra ``datasets``.

    Parameters
    ----------
    n_features : {2, 4}, default=4
        2 for bill length and depth, which show Simpson's paradox; 4 adds flipper length and body
        mass.
    scale : {None, "max", "standard"}, default=None
        ``None`` keeps millimetres and grams, ``"max"`` divides each feature by its largest absolute
        value (as the paper does), ``"standard"`` gives each feature mean 0 and variance 1.

    Returns
    -------
    Bunch
        With ``data`` of shape (333, n_features), ``target``, ``feature_names``, ``target_names``,
        ``DESCR`` and ``source``.

    Examples
    --------
    >>> from tensorae.datasets import load_penguins
    >>> penguins = load_penguins(n_features=2)
    >>> penguins.data.shape, penguins.feature_names
    ((333, 2), ['bill_length_mm', 'bill_depth_mm'])
    >>> print(*penguins.target_names)
    Adelie Chinstrap Gentoo
    """
    if n_features not in (2, 4):
        raise InvalidParameterError(
            f"n_features must be 2 (bill only) or 4 (all measurements), got {n_features!r}."
        )
    table = import_optional("palmerpenguins", extra="datasets").load_penguins().dropna()
    feature_names = PENGUIN_FEATURES[:n_features]
    target_names, target = np.unique(table["species"].to_numpy(dtype=str), return_inverse=True)
    return Bunch(
        data=_rescale(table[feature_names].to_numpy(dtype=np.float64), scale),
        target=target,
        feature_names=feature_names,
        target_names=target_names,
        DESCR=PENGUINS_DESCR,
        source="palmerpenguins",
    )


def load_iris(*, scale: Scale = None) -> Bunch:
    """Load Fisher's iris: three species, four measurements, 150 flowers.

    Parameters
    ----------
    scale : {None, "max", "standard"}, default=None
        ``None`` keeps centimetres, ``"max"`` divides each feature by its largest absolute value,
        ``"standard"`` gives each feature mean 0 and variance 1.

    Returns
    -------
    Bunch
        With ``data`` of shape (150, 4), ``target``, ``feature_names``, ``target_names``, ``DESCR``
        and ``source``.

    Examples
    --------
    >>> from tensorae.datasets import load_iris
    >>> iris = load_iris(scale="max")
    >>> iris.data.shape, float(iris.data.max())
    ((150, 4), 1.0)
    """
    return _from_sklearn(sklearn_datasets.load_iris(), IRIS_DESCR, scale)


def load_digits(*, scale: Scale = None) -> Bunch:
    """Load scikit-learn's small digits: 1,797 images of 8 x 8 pixels.

    Parameters
    ----------
    scale : {None, "max", "standard"}, default=None
        ``None`` keeps the grey values 0 to 16, ``"max"`` divides each pixel by its largest value,
        ``"standard"`` gives each pixel mean 0 and variance 1. A pixel that never changes is left as
        it is by the first two and is 0 after the third.

    Returns
    -------
    Bunch
        With ``data`` of shape (1797, 64), ``target``, ``feature_names``, ``target_names``,
        ``DESCR`` and ``source``.

    Examples
    --------
    >>> from tensorae.datasets import load_digits
    >>> load_digits().data.shape
    (1797, 64)
    """
    return _from_sklearn(sklearn_datasets.load_digits(), DIGITS_DESCR, scale)


def _rescale(X: NDArray[np.float64], scale: Scale) -> NDArray[np.float64]:
    scaled: dict[str, Any] = {"max": preprocessing.maxabs_scale, "standard": preprocessing.scale}
    if scale is None:
        return X
    if scale not in scaled:
        raise unknown_choice("scale", scale, scaled)
    result: NDArray[np.float64] = scaled[scale](X)
    return result


def _from_sklearn(bunch: Bunch, descr: str, scale: Scale) -> Bunch:
    return Bunch(
        data=_rescale(bunch.data, scale),
        target=bunch.target,
        feature_names=list(bunch.feature_names),
        target_names=np.asarray([str(name) for name in bunch.target_names]),
        DESCR=descr,
        source="scikit-learn",
    )
