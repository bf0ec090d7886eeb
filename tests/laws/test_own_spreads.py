"""Laws of clusters with variances of their own: a mixture of probabilistic PCAs."""

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal, ortho_group
from sklearn.cluster import KMeans
from sklearn.datasets import load_iris
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture

from tensorae import LinearTAE

IRIS = load_iris().data
soft_and_hard = pytest.mark.parametrize("assignment", ["em", "lloyd"])


@pytest.fixture
def shapes():
    """Three ellipsoids of different spread, size and direction in four dimensions."""
    rng = np.random.RandomState(0)
    parts = []
    for j, n in enumerate((60, 120, 200)):
        turned = ortho_group.rvs(4, random_state=j)
        spread = np.array([3.0, 1.0, 0.4, 0.3]) * (0.5, 1.0, 1.5)[j]
        parts.append(8 * np.eye(4)[j] + (rng.randn(n, 4) * spread) @ turned)
    return np.vstack(parts), np.repeat([0, 1, 2], (60, 120, 200))


def as_mixture(model):
    """The same Gaussians in scikit-learn's terms: means, covariances, weights."""
    k, h, d = model.components_.shape
    covariances = []
    for j in range(k):
        counted = np.arange(h) < model.latent_dims_[j]
        extra = np.where(counted, model.explained_variance_[j] - model.noise_variance_[j], 0)
        axes = model.components_[j]
        covariances.append(model.noise_variance_[j] * np.eye(d) + (axes.T * extra) @ axes)
    return model.cluster_centers_, np.array(covariances), model.weights_


def log_joint(model, X):
    means, covariances, weights = as_mixture(model)
    parts = zip(means, covariances, weights, strict=True)
    return np.stack([np.log(w) + multivariate_normal(m, c).logpdf(X) for m, c, w in parts], axis=1)


# The density ---------------------------------------------------------------------------------


@soft_and_hard
@pytest.mark.parametrize("h", [0, 1, 3, "auto"])
def test_costs_probabilities_and_densities_are_those_of_the_gaussians(shapes, assignment, h):
    X, _ = shapes
    model = LinearTAE(3, h, spread="own", assignment=assignment, random_state=0).fit(X)
    joint = log_joint(model, X)
    np.testing.assert_allclose(model.costs(X), -2 * joint, rtol=1e-8, atol=1e-6)
    density = logsumexp(joint, axis=1)
    np.testing.assert_allclose(model.log_density(X), density, atol=1e-8)
    np.testing.assert_allclose(model.score_samples(X), density, atol=1e-8)
    posterior = np.exp(joint - density[:, None])
    np.testing.assert_allclose(model.predict_proba(X), posterior, atol=1e-8)
    np.testing.assert_array_equal(model.predict(X), joint.argmax(1))
    np.testing.assert_array_equal(model.labels_, model.predict(X))
    assert model.loss_ == pytest.approx(-2 * joint.max(1).sum())


@pytest.mark.parametrize("penalty", [0.1, 1.0, "auto"])
def test_the_density_of_a_shared_spread_is_that_of_its_gaussians(shapes, penalty):
    X, _ = shapes
    model = LinearTAE(3, 2, latent_penalty=penalty, spread="shared", random_state=0).fit(X)
    rest = model.noise_variance_ * 2 + model.latent_penalty_ * model.explained_variance_.sum(1)
    noise, along = model.weights_ @ rest / 4, 1 / model.latent_penalty_ - 1
    joint = np.stack(
        [
            np.log(weight)
            + multivariate_normal(center, noise * (np.eye(4) + along * axes.T @ axes)).logpdf(X)
            for center, axes, weight in zip(
                model.cluster_centers_, model.components_, model.weights_, strict=True
            )
        ],
        axis=1,
    )
    np.testing.assert_allclose(model.score_samples(X), logsumexp(joint, axis=1), atol=1e-8)
    if penalty != "auto":  # hard labels: the prior is the same for all clusters
        joint -= np.log(model.weights_)
    posterior = np.exp(joint - logsumexp(joint, axis=1, keepdims=True))
    np.testing.assert_allclose(model.predict_proba(X), posterior, atol=1e-8)


def test_full_gaussians_have_the_likelihood_of_a_gaussian_mixture(shapes):
    """Without a prior, at d-1 components, from the same start."""
    X, _ = shapes
    peer = GaussianMixture(3, tol=1e-10, max_iter=2000, reg_covar=0, random_state=0).fit(X)
    ours = LinearTAE(3, 3, spread="own", tol=1e-12, max_iter=2000, random_state=0)
    ours.fit(X)
    # At the same parameters: those of the peer in our terms.
    values, vectors = np.linalg.eigh(peer.covariances_)
    ours.cluster_centers_, ours.weights_ = peer.means_, peer.weights_
    ours.components_ = vectors[:, :, :0:-1].transpose(0, 2, 1).copy()
    ours.explained_variance_, ours.noise_variance_ = values[:, :0:-1].copy(), values[:, 0]
    np.testing.assert_allclose(ours.log_density(X), peer.score_samples(X), atol=1e-8)
    assert ours.bic(X) == pytest.approx(peer.bic(X))
    assert ours.aic(X) == pytest.approx(peer.aic(X))


def test_the_fit_is_at_least_as_likely_as_a_gaussian_mixture(shapes):
    X, _ = shapes
    peer = GaussianMixture(3, n_init=10, random_state=0).fit(X)
    ours = LinearTAE(3, 3, spread="own", random_state=0).fit(X)
    # The prior of a tenth of a row for each cluster costs next to nothing.
    assert ours.log_density(X).sum() >= peer.score_samples(X).sum() - 3


# Descent -------------------------------------------------------------------------------------


@soft_and_hard
@pytest.mark.parametrize("h", [0, 1, 3, "auto"])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_objective_never_rises(shapes, assignment, h, weighted):
    X, _ = shapes
    weights = np.random.RandomState(1).uniform(0.2, 3, len(X)) if weighted else None
    model = LinearTAE(3, h, spread="own", assignment=assignment, init=X[[0, 1, 2]], tol=0)
    path = model.set_params(max_iter=200).fit(X, sample_weight=weights).objective_path_
    assert (np.diff(path) <= 1e-9 * np.abs(path[-1])).all()
    assert path[-1] < path[0]


# Special cases -------------------------------------------------------------------------------


def test_no_component_and_one_spread_is_k_means(shapes):
    X, _ = shapes
    peer = KMeans(3, init=X[[0, 100, 300]], n_init=1, tol=0, max_iter=1000).fit(X)
    ours = LinearTAE(
        3, 0, spread="shared", assignment="lloyd", init=X[[0, 100, 300]], max_iter=1000, tol=0
    ).fit(X)
    np.testing.assert_array_equal(ours.labels_, peer.labels_)
    assert ours.loss_ == pytest.approx(peer.inertia_)
    assert ours.components_.shape == (3, 0, 4)
    assert ours.transform(X).shape == (len(X), 0)
    np.testing.assert_allclose(ours.reconstruct(X), ours.cluster_centers_[ours.labels_])


def test_no_component_and_own_spreads_is_a_spherical_mixture(shapes):
    X, _ = shapes
    peer = GaussianMixture(3, covariance_type="spherical", n_init=10, random_state=0).fit(X)
    ours = LinearTAE(3, 0, spread="own", random_state=0).fit(X)
    assert adjusted_rand_score(ours.labels_, peer.predict(X)) > 0.98
    assert ours.log_density(X).mean() == pytest.approx(peer.score(X), abs=0.01)
    assert ours.aic(X) == pytest.approx(2 * peer._n_parameters() - 2 * ours.log_density(X).sum())


def test_one_cluster_is_probabilistic_pca():
    from sklearn.decomposition import PCA

    peer = PCA(2).fit(IRIS)
    ours = LinearTAE(1, 2, spread="own").fit(IRIS)
    np.testing.assert_allclose(np.abs(ours.components_[0]), np.abs(peer.components_), atol=1e-6)
    assert ours.log_density(IRIS).mean() == pytest.approx(peer.score(IRIS), abs=0.05)


# Invariance ----------------------------------------------------------------------------------


@soft_and_hard
def test_turning_shifting_and_scaling_changes_what_it_should(shapes, assignment):
    X, _ = shapes
    turned = ortho_group.rvs(4, random_state=9)
    moved = 3.0 * X @ turned + np.arange(4) * 100
    options = {"spread": "own", "assignment": assignment, "random_state": 0, "tol": 1e-9}
    model, other = (LinearTAE(3, 2, **options).fit(data) for data in (X, moved))
    np.testing.assert_array_equal(other.labels_, model.labels_)
    np.testing.assert_allclose(other.explained_variance_, 9 * model.explained_variance_, rtol=1e-3)
    np.testing.assert_allclose(other.noise_variance_, 9 * model.noise_variance_, rtol=1e-3)
    densities = model.log_density(X) - 4 * np.log(3)
    np.testing.assert_allclose(other.log_density(moved), densities, atol=1e-2)


@soft_and_hard
@pytest.mark.parametrize("settings", [{"latent_dim": 2, "spread": "own"}, {}])
def test_weights_equal_repeated_rows(shapes, assignment, settings):
    X, _ = shapes
    copies = np.random.RandomState(2).randint(0, 3, len(X))
    model = LinearTAE(3, assignment=assignment, random_state=0, **settings)
    weighted = model.fit(X, sample_weight=copies).log_density(X)
    repeated = model.fit(np.repeat(X, copies, axis=0)).log_density(X)
    np.testing.assert_allclose(weighted, repeated, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("settings", [{"latent_dim": 2, "spread": "own"}, {}])
def test_the_order_of_rows_does_not_matter(shapes, settings):
    X, _ = shapes
    order = np.random.RandomState(3).permutation(len(X))
    model = LinearTAE(3, random_state=0, **settings)
    labels = model.fit(X).labels_[order]
    np.testing.assert_array_equal(model.fit(X[order]).labels_, labels)


def test_weights_that_sum_to_one_are_as_good_as_none(shapes):
    X, _ = shapes
    model = LinearTAE(3, random_state=0)
    labels = model.fit(X).labels_
    weights = np.full(len(X), 1 / len(X))
    np.testing.assert_array_equal(model.fit(X, sample_weight=weights).labels_, labels)


def test_single_precision_finds_the_same(shapes):
    X, _ = shapes
    model = LinearTAE(3, 2, spread="own", random_state=0)
    double, single = model.fit(X).labels_, model.fit(X.astype(np.float32))
    assert single.components_.dtype == np.float32
    assert (single.labels_ == double).mean() > 0.99


# There and back ------------------------------------------------------------------------------


@pytest.mark.parametrize("h", [1, "auto"])
def test_a_sample_of_a_fitted_model_gives_the_model_back(shapes, h):
    X, _ = shapes
    model = LinearTAE(3, h, spread="own", random_state=0).fit(X)
    drawn, labels = model.sample(20_000, random_state=1)
    np.testing.assert_allclose(np.bincount(labels) / 20_000, model.weights_, atol=0.015)
    again = LinearTAE(3, h, spread="own", random_state=0).fit(drawn)
    assert adjusted_rand_score(again.labels_, labels) > 0.97
    order = again.predict(model.cluster_centers_)
    centers = again.cluster_centers_[order]
    np.testing.assert_allclose(centers, model.cluster_centers_, atol=0.2)
    np.testing.assert_allclose(again.noise_variance_[order], model.noise_variance_, rtol=0.15)
    assert model.log_density(drawn).mean() == pytest.approx(
        again.log_density(drawn).mean(), abs=0.02
    )


def test_a_sample_has_the_covariances_of_a_shared_spread():
    X = np.random.RandomState(0).randn(300, 3) * [3, 1, 1]
    model = LinearTAE(1, 1, spread="shared", random_state=0).fit(X)
    drawn, _ = model.sample(50_000)
    covariance = np.cov(drawn.T)
    noise = covariance[1, 1]
    assert noise == pytest.approx(covariance[2, 2], rel=0.05)
    assert covariance[0, 0] == pytest.approx(noise / model.latent_penalty_, rel=0.05)


def test_samples_are_repeatable_and_differ_by_seed(shapes):
    model = LinearTAE(3, random_state=4).fit(shapes[0])
    first, again, other = model.sample(9)[0], model.sample(9)[0], model.sample(9, random_state=5)[0]
    np.testing.assert_array_equal(first, again)
    assert not np.allclose(first, other)


# Hard data -----------------------------------------------------------------------------------


@soft_and_hard
@pytest.mark.parametrize("h", [0, 2, "auto"])
def test_no_cluster_collapses_onto_a_few_points(assignment, h):
    rng = np.random.RandomState(0)
    X = np.vstack([rng.randn(100, 3), np.full((3, 3), 7.0), [[9.0, 9, 9]]])
    model = LinearTAE(4, h, spread="own", assignment=assignment, random_state=0).fit(X)
    assert (model.noise_variance_ > 1e-5).all()
    assert np.isfinite(model.log_density(X)).all()
    assert np.isfinite(model.components_).all()


@pytest.mark.parametrize(
    "settings",
    [{"spread": "own"}, {"latent_dim": 2, "spread": "own"}, {"latent_dim": 60}, {}],
)
def test_more_features_than_rows(settings):
    rng = np.random.RandomState(0)
    y = np.repeat([0, 1], 20)
    X = 3 * rng.randn(2, 400)[y] + rng.randn(40, 400)
    model = LinearTAE(2, random_state=0, **settings).fit(X)
    assert adjusted_rand_score(y, model.labels_) == 1
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    assert np.isfinite(model.log_density(X)).all()
    if "latent_dim" not in settings or settings["latent_dim"] < 20:  # else none is left
        assert (model.noise_variance_ > 0.05).all()


def test_constant_columns_leave_the_labels_alone(shapes):
    X, _ = shapes
    more = np.hstack([X, np.full((len(X), 2), 3.0)])
    model = LinearTAE(3, 2, spread="own", random_state=0)
    labels = model.fit(X).labels_
    agreement = adjusted_rand_score(labels, model.fit(more).labels_)
    assert agreement > 0.95
    assert np.isfinite(model.log_density(more)).all()


def test_each_cluster_counts_its_own_components():
    rng = np.random.RandomState(0)
    ball, line, disc = rng.randn(300, 3), rng.randn(300, 3), rng.randn(300, 3)
    line *= [8, 0.3, 0.3]
    disc *= [0.3, 6, 5]
    X = np.vstack([ball, np.add(line, [0, 30, 0]), np.add(disc, [0, 0, 40])])
    model = LinearTAE(3, spread="own", random_state=0).fit(X)
    order = model.predict([[0, 0, 0], [0, 30, 0], [0, 0, 40]])
    assert model.latent_dims_[order].tolist() == [0, 1, 2]
    assert model.components_.shape == (3, 2, 3)
    lengths = np.linalg.norm(model.components_, axis=2)
    np.testing.assert_allclose(lengths, 1, atol=1e-9)
    assert model.transform(X).shape == (900, 2)


def test_partial_fit_keeps_covariances_pooled():
    rng = np.random.RandomState(0)
    y = np.resize([0, 1, 2], 90)
    X = 4 * rng.randn(3, 6)[y] + rng.randn(90, 6) @ rng.randn(6, 6)
    model = LinearTAE(3, random_state=0).fit(X)
    assert model.pooled_
    model.partial_fit(X)
    np.testing.assert_allclose(model.components_[0], model.components_[1], atol=1e-9)
    np.testing.assert_allclose(model.noise_variance_, model.noise_variance_[0])


def test_partial_fit_goes_on_with_own_spreads(shapes):
    X, y = shapes
    rng = np.random.RandomState(0)
    order = rng.permutation(len(X))
    model = LinearTAE(3, 2, spread="own", random_state=0)
    for part in np.array_split(order, 4):
        model.partial_fit(X[part])
    assert model.spread_ == "own"
    assert model.n_iter_ == 4
    assert adjusted_rand_score(y, model.predict(X)) > 0.95
    assert model.weights_.sum() == pytest.approx(1)
