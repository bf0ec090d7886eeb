"""scikit-learn's own checks of both estimators. No expected failures: the list is all there is."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from tensorae import TAE, LinearTAE

SHORT = {"n_clusters": 3, "max_epochs": 2, "n_init": 1}
VARIANTS = [
    LinearTAE(),
    LinearTAE(3, latent_penalty="auto", n_init=2),
    LinearTAE(3, assignment="projected", n_init=1),
    LinearTAE(3, assignment="constrained", n_init=1),
    LinearTAE(3, assignment="em", n_init=1),
    LinearTAE(3, init="k-means", n_init=2),
    LinearTAE(3, init="random", n_init=2, batch_size=16, device="cpu"),
    TAE(3, max_epochs=2),
    TAE(architecture="linear", latent_penalty="auto", **SHORT),
    TAE(assignment="em", init="k-means++", **SHORT),
    TAE(validation_fraction=0.2, noise=0.1, device="cpu", **SHORT),
]


# Some checks fit as many clusters as there are different rows, or more: that deserves its warning.
@pytest.mark.filterwarnings("ignore:only 4 of n_clusters=8:sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:clusters .* have no members")
@parametrize_with_checks(VARIANTS)
def test_scikit_learn_check(estimator, check):
    check(estimator)
