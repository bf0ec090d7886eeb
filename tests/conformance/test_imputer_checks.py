"""scikit-learn's own checks of the imputer. No expected failures: the list is all there is."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from tensorae import ImputerTAE

VARIANTS = [ImputerTAE(max_iter=5), ImputerTAE(2, 1, round_integers=True, keep_empty_features=True)]


@parametrize_with_checks(VARIANTS)
def test_scikit_learn_check(estimator, check):
    check(estimator)
