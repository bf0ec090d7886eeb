"""scikit-learn's own checks of all estimators, without expected failures."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from tensorae import TAE, ImputerTAE, LinearTAE, OutlierTAE

SHORT = {"n_clusters": 3, "max_epochs": 2, "n_init": 1}
VARIANTS = [
    LinearTAE(),
    LinearTAE(3, init="random", n_init=2, batch_size=16, device="cpu"),
    TAE(3, max_epochs=2),
    TAE(validation_fraction=0.2, noise=0.1, device="cpu", **SHORT),
    ImputerTAE(2, 1, round_integers=True, keep_empty_features=True),
    OutlierTAE(n_estimators=2),
]
# The same for more settings; 500 checks that seldom find what the first do not.
MORE_VARIANTS = [
    LinearTAE(3, latent_penalty="auto", n_init=2),
    LinearTAE(3, assignment="projected", n_init=1),
    LinearTAE(3, assignment="constrained", n_init=1),
    LinearTAE(3, assignment="em", n_init=1),
    LinearTAE(3, init="k-means", n_init=2),
    TAE(architecture="linear", latent_penalty="auto", **SHORT),
    TAE(assignment="em", init="k-means++", **SHORT),
    ImputerTAE(max_iter=5),
    OutlierTAE(0.1, 2, n_estimators=2, max_samples=50),
]


# Some checks fit as many clusters as there are different rows, or more: that deserves its warning.
@pytest.mark.filterwarnings("ignore:only 4 of n_clusters=8:sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:clusters .* have no members")
@parametrize_with_checks(VARIANTS)
def test_scikit_learn_check(estimator, check):
    check(estimator)


@pytest.mark.filterwarnings("ignore:only 4 of n_clusters=8:sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:clusters .* have no members")
@pytest.mark.quality
@parametrize_with_checks(MORE_VARIANTS)
def test_scikit_learn_check_of_more_settings(estimator, check):
    check(estimator)
