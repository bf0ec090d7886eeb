"""scikit-learn's own checks of the detector. No expected failures: the list is all there is."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from tensorae import OutlierTAE

VARIANTS = [OutlierTAE(n_estimators=2), OutlierTAE(0.1, 2, n_estimators=2, max_samples=50)]


@parametrize_with_checks(VARIANTS)
def test_scikit_learn_check(estimator, check):
    check(estimator)
