"""How estimators show themselves in notebooks: unfitted as scikit-learn does, fitted as a card."""

from __future__ import annotations

from typing import Any

from sklearn import get_config
from sklearn.base import BaseEstimator

__all__ = ["ShownAsCard"]


class ShownAsCard(BaseEstimator):
    """An estimator that shows what it found once it is fitted.

    ``sklearn.set_config(display="text")`` turns it off, as all diagrams of scikit-learn;
    ``sklearn.utils.estimator_html_repr(model)`` gives the diagram of a fitted one, too, and a
    pipeline draws its steps as ever.
    """

    def _card(self) -> str | None:
        """What was found, in HTML; None before the fit."""
        return None

    def _repr_html_inner(self) -> str:
        """What ``_repr_html_``, a property of scikit-learn, hands out where HTML is wanted."""
        card = self._card()
        diagram: str = super()._repr_html_inner() if card is None else card
        return diagram

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        """Text, and HTML where it is wanted: what notebooks ask for first."""
        del kwargs  # what a notebook can take is its own choice
        texts = {"text/plain": repr(self)}
        if get_config()["display"] == "diagram":
            texts["text/html"] = self._repr_html_inner()
        return texts
