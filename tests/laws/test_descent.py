"""Every step lowers what is minimised, whichever way the assignments are updated."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorae import LinearTAE
from tensorae.datasets import lines_3d, orthogonal_lines, parallel_lines, triangle

law = settings(max_examples=10, deadline=None, derandomize=True, database=None)
seeds = st.integers(0, 2**31 - 1)
PLANTED = {parallel_lines: 2, orthogonal_lines: 2, triangle: 3, lines_3d: 3}
every_set = pytest.mark.parametrize("draw", PLANTED, ids=lambda draw: draw.__name__)


def assert_never_rises(path):
    path = np.asarray(path)
    assert len(path) > 1
    assert (np.diff(path) <= 1e-10 * np.abs(path).max()).all(), path


@pytest.mark.parametrize("assignment", ["lloyd", "projected", "constrained"])
@pytest.mark.parametrize("init", ["k-means++", "k-means", "random"])
@law
@given(seed=seeds, d=st.integers(1, 6), k=st.integers(1, 5))
def test_loss_path_never_rises_and_ends_at_the_loss(grouped, assignment, init, seed, d, k):
    X = grouped(seed, 50, d, k).X
    model = LinearTAE(
        k, 1, assignment=assignment, init=init, n_init=2, random_state=seed, latent_penalty=0.1
    )
    model.fit(X)
    assert_never_rises(model.loss_path_)
    # The last assignment can only lower it.
    assert model.loss_ <= model.loss_path_[-1] * (1 + 1e-10)
    assert model.loss_ == pytest.approx(model.loss_path_[-1], rel=1e-4)
    np.testing.assert_array_equal(model.objective_path_, model.loss_path_)
    assert model.converged_


@pytest.mark.parametrize("d", [40, 120])
def test_loss_path_never_rises_on_many_features(grouped, d):
    sample = grouped(0, n=150, d=d, k=4)
    model = LinearTAE(4, 3, init=sample.start, latent_penalty=0.1).fit(sample.X)
    assert_never_rises(model.loss_path_)
    assert len(model.loss_path_) == model.n_iter_ + 1


# Soft clusters that lie on top of each other may leave one without rows of its own.
@pytest.mark.filterwarnings("ignore:only .* clusters have members")
@pytest.mark.parametrize("penalty", [0.05, 1.0, "auto"])
@law
@given(seed=seeds, d=st.integers(2, 6), k=st.integers(1, 5))
def test_likelihood_never_falls_under_em(grouped, penalty, seed, d, k):
    sample = grouped(seed, 50, d, k)
    model = LinearTAE(
        k,
        1,
        latent_penalty=penalty,
        spread="shared",
        assignment="em",
        init=sample.start,
        max_iter=2000,
    ).fit(sample.X)
    path = model.objective_path_
    assert (np.diff(path) <= 1e-9 * np.abs(path).max()).all(), path
    assert len(path) == model.n_iter_


# Soft clusters that lie on top of each other may leave one without rows of its own.
@pytest.mark.filterwarnings("ignore:only .* clusters have members")
@law
@given(seed=seeds, d=st.integers(2, 6), k=st.integers(1, 5))
def test_objective_never_rises_with_an_estimated_penalty(grouped, seed, d, k):
    sample = grouped(seed, 50, d, k)
    model = LinearTAE(k, 1, latent_penalty="auto", spread="shared", init=sample.start).fit(sample.X)
    assert_never_rises(np.append(model.objective_path_, model.objective_path_[-1]))


def test_objective_under_em_is_minus_the_log_likelihood_of_the_mixture(grouped):
    """Section 5's density, written out with scipy: covariance s² (I - UᵀU) + s²/λ UᵀU."""
    from scipy.stats import multivariate_normal

    sample = grouped(1, n=60, d=3, k=2)
    model = LinearTAE(
        2, 1, latent_penalty="auto", spread="shared", assignment="em", init=sample.start, tol=1e-12
    )
    model.set_params(max_iter=5000).fit(sample.X)
    residual = (model.noise_variance_ * 2) @ model.weights_
    latent = model.latent_penalty_ * (model.explained_variance_.sum(1) @ model.weights_)
    noise = (residual + latent) / 3
    density = np.zeros(60)
    for j in range(2):
        along = model.components_[j].T @ model.components_[j]
        covariance = noise * (np.eye(3) - along) + noise / model.latent_penalty_ * along
        normal = multivariate_normal(model.cluster_centers_[j], covariance)
        density += model.weights_[j] * normal.pdf(sample.X)
    assert model.objective_path_[-1] == pytest.approx(-np.log(density).sum(), rel=1e-6)


@every_set
@pytest.mark.parametrize("assignment", ["projected", "constrained"])
@pytest.mark.parametrize("seed", range(3))
def test_gradient_options_end_at_zero_or_one_and_at_the_loss_of_option_3(draw, assignment, seed):
    X, y = draw(random_state=seed)
    # The planted means; the labels that follow from them are still wrong for many rows.
    start = np.stack([X[y == j].mean(axis=0) for j in range(PLANTED[draw])])
    options = {"latent_penalty": 0.1, "init": start, "tol": 0}
    exact = LinearTAE(len(start), 1, **options).fit(X)
    relaxed = LinearTAE(len(start), 1, assignment=assignment, **options).fit(X)
    assert relaxed.converged_
    assert relaxed.entropy_path_[-1] == 0
    # Not cut off: S itself has come next to a vertex before the closing steps.
    assert relaxed.entropy_path_[-2] < 1e-4
    assert relaxed.entropy_path_.max() > 0 or assignment == "projected"
    assert relaxed.loss_ == pytest.approx(exact.loss_, rel=1e-9)
    np.testing.assert_array_equal(relaxed.labels_, exact.labels_)


@every_set
@pytest.mark.parametrize("assignment", ["projected", "constrained"])
def test_gradient_options_reach_the_loss_of_option_3_with_default_restarts(draw, assignment):
    X, _ = draw(random_state=0)
    exact = LinearTAE(PLANTED[draw], 1, random_state=0, latent_penalty=0.1).fit(X)
    relaxed = LinearTAE(
        PLANTED[draw], 1, assignment=assignment, random_state=0, latent_penalty=0.1
    ).fit(X)
    assert relaxed.loss_ == pytest.approx(exact.loss_, rel=1e-6)


REDUNDANT = {
    "constant": lambda X: np.full(len(X), 3.0),
    "copied": lambda X: X[:, 0],
    "sum": lambda X: X[:, 0] + X[:, 1],
    "all": lambda X: np.c_[np.full(len(X), 3.0), X[:, 0], X[:, 0] + X[:, 1]],
}


@pytest.mark.parametrize("redundant", REDUNDANT)
@pytest.mark.parametrize(
    "settings",
    [{}, {"spread": "own"}, {"spread": "own", "assignment": "lloyd"}, {"spread": "shared"}],
    ids=str,
)
def test_objective_never_rises_with_redundant_columns(redundant, settings):
    """Noise of next to nothing must not turn rounding errors into nats."""
    for seed in range(3):
        rng = np.random.RandomState(seed)
        y = rng.randint(3, size=150)
        X = 4 * rng.randn(3, 4)[y] + rng.randn(150, 4) * rng.uniform(0.3, 2, (3, 4))[y]
        X = np.c_[X, REDUNDANT[redundant](X)]
        model = LinearTAE(3, random_state=seed, max_iter=100, tol=1e-8, **settings).fit(X)
        path = model.objective_path_
        assert (np.diff(path) <= 1e-9 * np.abs(path).max()).all(), np.diff(path)
