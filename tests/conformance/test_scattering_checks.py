"""scikit-learn's own checks of Scattering: rows of any length are images of one row there."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from tensorae import Scattering


class OfRows(Scattering):
    """Takes flat rows that are no square for images with a single row."""

    def _shape_of_rows(self, given, d):
        return super()._shape_of_rows((1, d) if given is None else given, d)


VARIANTS = [
    OfRows(5, J=1, L=2, enlarge=1),
    OfRows(n_components=None, J=2, L=1, enlarge=1, scaling="energy"),
]


@parametrize_with_checks(VARIANTS)
def test_scikit_learn_check(estimator, check):
    check(estimator)
