"""What may be in the gaps of samples: impute, impute_std.

Shapes: n samples, d features.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from sklearn.utils import Tags
from torch import Tensor

from tensorae._base import Predictor
from tensorae._check_data import check_rows
from tensorae._check_parameters import check_integer, check_seed
from tensorae._density import DensityTAE
from tensorae.core.prediction import GapPredictor
from tensorae.rows import Rows

__all__ = ["FillsGaps"]


class FillsGaps(DensityTAE):
    """Autoencoders that are a density, and so know what to expect where values are missing."""

    def impute(self, X: Any, *, n_draws: int | None = None, random_state: Any = None) -> Any:
        """Fill gaps by what the sample's own cluster says, given what the sample shows.

        A gap (NaN) gets its conditional mean, averaged over the clusters by their probability.
        Values that are there stay as they are, bit for bit.

        Parameters
        ----------
        X : array-like or Tensor of shape (n, d)
        n_draws : int, optional
            Give that many completed copies instead, in which gaps are drawn from their
            distribution: analyse each, and the results differ by what is not known (multiple
            imputation).
        random_state : int, RandomState or None, default=None
            Makes the draws repeatable; None takes that of the estimator.

        Returns
        -------
        ndarray or Tensor of shape (n, d), or (n_draws, n, d)

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.datasets import load_iris
        >>> from tensorae import LinearTAE
        >>> X = load_iris().data
        >>> X[::7, 2] = np.nan
        >>> model = LinearTAE(3, random_state=0).fit(X)
        >>> filled = model.impute(X)
        >>> bool(np.isnan(filled).any()), model.impute(X, n_draws=5).shape
        (False, (5, 150, 4))
        """
        if n_draws is None:
            return self._map(X, _filled)
        draws = check_integer("n_draws", n_draws, low=1)
        rng = check_seed(self.random_state if random_state is None else random_state)
        copies = [
            self._map(X, lambda predictor, x: _drawn(predictor, x, rng)) for _ in range(draws)
        ]
        return torch.stack(copies) if isinstance(X, Tensor) else np.stack(copies)

    def impute_std(self, X: Any) -> Any:
        """Standard deviation of what may be in each gap; zero where there is a value.

        Parameters
        ----------
        X : array-like or Tensor of shape (n, d)

        Returns
        -------
        ndarray or Tensor of shape (n, d)

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.datasets import load_iris
        >>> from tensorae import LinearTAE
        >>> X = load_iris().data
        >>> model = LinearTAE(3, random_state=0).fit(X)
        >>> model.impute_std([[np.nan, 3.5, 1.4, 0.2]]).round(1)
        array([[0.3, 0. , 0. , 0. ]])
        """
        return self._map(X, _deviations)

    def __sklearn_tags__(self) -> Tags:
        """Tell scikit-learn that NaN is a missing value."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _check_rows(self, X: Any, *, reset: bool) -> Rows:
        return check_rows(self, X, reset=reset, device=self.device, gaps=True)


def _filled(predictor: Predictor, x: Tensor) -> Tensor:
    return predictor.filled(x) if isinstance(predictor, GapPredictor) else x


def _drawn(predictor: Predictor, x: Tensor, rng: np.random.RandomState) -> Tensor:
    return predictor.draw(x, rng) if isinstance(predictor, GapPredictor) else x


def _deviations(predictor: Predictor, x: Tensor) -> Tensor:
    return predictor.deviations(x) if isinstance(predictor, GapPredictor) else torch.zeros_like(x)
