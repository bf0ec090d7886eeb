"""ClusterFeatures: a clusterer of this package as a step before another model.

Shapes: n samples, d features, k clusters, h latent.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted

from tensorae.exceptions import unknown_choice

__all__ = ["ClusterFeatures"]

OUTPUTS = ("blocks", "probabilities", "codes")


class ClusterFeatures(TransformerMixin, BaseEstimator):
    """Features for a downstream model: which clusters a row belongs to, and where in them it lies.

    ``LinearTAE.transform`` gives codes whose columns mean something else in each cluster, which no
    linear model can use. Here every cluster has columns of its own.

    Parameters
    ----------
    estimator : LinearTAE or TAE
        Cloned and fitted in ``fit``.
    output : {"blocks", "probabilities", "codes"}, default="blocks"
        "blocks": for each cluster its probability, and the code under its autoencoder times that
        probability, so that a linear model on them is linear in each cluster. "probabilities": the
        former only. "codes": those of ``transform``, for models of neighbours or trees that also
        know the cluster.

    Attributes
    ----------
    estimator_ : LinearTAE or TAE
        Fitted.
    n_features_in_ : int

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from tensorae import ClusterFeatures, LinearTAE
    >>> X, y = load_wine(return_X_y=True)
    >>> features = ClusterFeatures(LinearTAE(3, latent_dim=2, random_state=0))
    >>> model = make_pipeline(StandardScaler(), features, LogisticRegression()).fit(X, y)
    >>> model[:-1].transform(X).shape
    (178, 9)
    """

    def __init__(self, estimator: Any, *, output: str = "blocks") -> None:
        self.estimator = estimator
        self.output = output

    def fit(self, X: Any, y: Any = None, **fit_params: Any) -> Self:  # noqa: ARG002
        """Fit a clone of the estimator.

        Parameters
        ----------
        X : array-like of shape (n, d)
        y : ignored
        **fit_params : dict
            Passed to the estimator's ``fit``.

        Returns
        -------
        self
        """
        if self.output not in OUTPUTS:
            raise unknown_choice("output", self.output, OUTPUTS)
        self.estimator_ = clone(self.estimator).fit(X, **fit_params)
        self.n_features_in_ = self.estimator_.n_features_in_
        if hasattr(self.estimator_, "feature_names_in_"):
            self.feature_names_in_ = self.estimator_.feature_names_in_
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Compute the features of rows.

        Parameters
        ----------
        X : array-like of shape (n, d)

        Returns
        -------
        ndarray of shape (n, k (h + 1)), (n, k) or (n, h)
            As ``output`` says.
        """
        check_is_fitted(self, "estimator_")
        if self.output == "codes":
            return np.asarray(self.estimator_.transform(X))
        chances = np.asarray(self.estimator_.predict_proba(X))
        if self.output == "probabilities":
            return chances
        codes = np.asarray(self.estimator_.codes(X))
        blocks = np.concatenate([chances[:, :, None], chances[:, :, None] * codes], axis=2)
        return blocks.reshape(len(blocks), -1)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:  # noqa: ARG002
        """Name the features: cluster0, cluster0_code0 and so on.

        Parameters
        ----------
        input_features : ignored

        Returns
        -------
        ndarray of str
        """
        check_is_fitted(self, "estimator_")
        if self.output == "codes":
            names: np.ndarray = self.estimator_.get_feature_names_out()
            return names
        clusters = [f"cluster{j}" for j in range(len(self.estimator_.cluster_centers_))]
        if self.output == "probabilities":
            return np.array(clusters, dtype=object)
        codes = [f"_code{i}" for i in range(len(self.estimator_.get_feature_names_out()))]
        return np.array([name + end for name in clusters for end in ("", *codes)], dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags, own = super().__sklearn_tags__(), self.estimator.__sklearn_tags__()
        tags.input_tags = own.input_tags
        return tags
