"""No cluster dies and no number breaks, however poor the data or the start."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

from tensorae import LinearTAE

law = settings(max_examples=6, deadline=None, derandomize=True, database=None)
seeds = st.integers(0, 2**31 - 1)
ASSIGNMENTS = ["lloyd", "projected", "constrained", "em"]
every_assignment = pytest.mark.parametrize("assignment", ASSIGNMENTS)
both_passes = pytest.mark.usefixtures("data_pass")
ARRAYS = [
    "cluster_centers_",
    "components_",
    "explained_variance_",
    "explained_variance_ratio_",
    "noise_variance_",
    "weights_",
    "loss_path_",
    "objective_path_",
    "entropy_path_",
]


def assert_sound(model, X):
    """Check that all numbers are finite and consistent, on X and on samples never seen."""
    for name in ARRAYS:
        assert np.isfinite(getattr(model, name)).all(), name
    assert np.isfinite([model.loss_, model.latent_penalty_]).all()
    h = model.components_.shape[1]
    gram = model.components_ @ np.swapaxes(model.components_, 1, 2)
    np.testing.assert_allclose(gram, np.broadcast_to(np.eye(h), gram.shape), atol=1e-6)
    spread = np.abs(X).max() + 1
    unseen = X[:1] + spread * np.random.RandomState(0).randn(5, X.shape[1])
    for rows in (X, unseen.astype(X.dtype)):
        for method in ("costs", "transform", "reconstruct", "score_samples"):
            assert np.isfinite(getattr(model, method)(rows)).all(), method
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1, atol=1e-5)
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    assert model.weights_.sum() == pytest.approx(1)


def fit_quietly(model, X, **fit_params):
    """Fit where ``max_iter`` may be too small; that warning has a test of its own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, **fit_params)


# Clusters that run empty -------------------------------------------------------------------------


@both_passes
@law
@given(seed=seeds, k=st.integers(2, 6), d=st.integers(1, 5), penalty=st.floats(0.01, 1))
def test_no_cluster_dies_when_all_centers_but_one_are_far_away(grouped, seed, k, d, penalty):
    sample = grouped(seed, 50, d, k)
    start = np.vstack([sample.X.mean(axis=0), 1e3 * (1 + np.arange((k - 1) * d)).reshape(-1, d)])
    model = LinearTAE(k, 1, latent_penalty=penalty, init=start).fit(sample.X)
    assert_sound(model, sample.X)
    assert len(np.unique(model.labels_)) == k
    path = model.loss_path_
    assert (np.diff(path) <= 1e-10 * path[0]).all()
    one = LinearTAE(1, 1, latent_penalty=penalty).fit(sample.X)
    assert model.loss_ < one.loss_


@pytest.mark.parametrize("assignment", ["projected", "constrained"])
@pytest.mark.parametrize("k", [2, 3, 5])
def test_no_cluster_dies_under_the_gradient_options(grouped, assignment, k):
    sample = grouped(k, 50, 3, k)
    start = np.vstack([sample.X.mean(axis=0), 1e3 * (1 + np.arange((k - 1) * 3)).reshape(-1, 3)])
    model = LinearTAE(k, 1, assignment=assignment, init=start, latent_penalty=0.1).fit(sample.X)
    assert_sound(model, sample.X)
    assert len(np.unique(model.labels_)) == k


def test_em_survives_centers_that_explain_nothing(grouped):
    X = grouped(0, 50, 3, 3).X
    start = np.vstack([X.mean(axis=0), [1e3, 1e3, 1e3], [-1e4, 1e4, 0]])
    model = fit_quietly(LinearTAE(3, 1, assignment="em", init=start, latent_penalty=0.1), X)
    assert_sound(model, X)


@both_passes
def test_a_cluster_that_loses_its_last_member_is_given_the_worst_row():
    """The first start takes one row near the middle, which the second pass takes away again."""
    rng = np.random.RandomState(0)
    X = np.vstack([rng.randn(40, 2), [[9.0, -9.0]]])
    start = [[0.0, 0.0], [1e5, 1e5], [-1e5, 1e5]]
    model = LinearTAE(3, 1, init=start, latent_penalty=0.1).fit(X)
    assert_sound(model, X)
    assert np.bincount(model.labels_, minlength=3).min() > 0
    # The row that no cluster explains gets a cluster of its own, or shares the cost of few.
    assert model.costs([[9.0, -9.0]]).min() < 1


@both_passes
@every_assignment
def test_reseeding_works_with_weights(grouped, assignment):
    sample = grouped(1, 50, 3, 3)
    start = np.vstack([sample.X.mean(axis=0), [1e3, 1e3, 1e3], [-1e4, 1e4, 0]])
    weights = sample.rng.uniform(0.1, 0.3, size=50)
    weights[::7] = 0
    model = LinearTAE(3, 1, assignment=assignment, init=start, latent_penalty=0.1)
    fit_quietly(model, sample.X, sample_weight=weights)
    assert_sound(model, sample.X)
    if assignment != "em":
        assert len(np.unique(model.labels_[weights > 0])) == 3


@both_passes
def test_where_clusters_start_empty_the_order_of_the_rows_still_does_not_matter(grouped):
    sample = grouped(0, 30, 3, 3)
    start = np.vstack([sample.X.mean(axis=0), [1e3, 1e3, 1e3], [-1e4, 1e4, 0]])
    model = LinearTAE(3, 1, init=start, random_state=0, latent_penalty=0.1).fit(sample.X)
    for seed in range(4):
        order = np.random.RandomState(seed).permutation(30)
        shuffled = LinearTAE(3, 1, init=start, random_state=0, latent_penalty=0.1).fit(
            sample.X[order]
        )
        np.testing.assert_allclose(shuffled.loss_path_, model.loss_path_, rtol=1e-9)
        np.testing.assert_array_equal(shuffled.labels_, model.labels_[order])


@both_passes
@pytest.mark.parametrize("seed", range(4))
def test_a_reseeded_cluster_takes_all_copies_of_its_row(grouped, seed):
    """Otherwise a row that occurs three times would not count like one of weight three."""
    sample = grouped(seed, 30, 3, 3)
    copies = sample.rng.randint(1, 5, size=30)
    start = np.vstack([sample.X.mean(axis=0), [1e3, 1e3, 1e3], [-1e4, 1e4, 0]])
    weighted = LinearTAE(3, 1, init=start, random_state=0, latent_penalty=0.1)
    weighted.fit(sample.X, sample_weight=copies)
    repeated = LinearTAE(3, 1, init=start, random_state=0, latent_penalty=0.1)
    repeated.fit(np.repeat(sample.X, copies, axis=0))
    np.testing.assert_allclose(weighted.loss_path_, repeated.loss_path_, rtol=1e-9)
    np.testing.assert_array_equal(np.repeat(weighted.labels_, copies), repeated.labels_)


# Few different rows ------------------------------------------------------------------------------


@both_passes
@every_assignment
@law
@given(seed=seeds, k=st.integers(1, 5), different=st.integers(1, 8), h=st.integers(1, 3))
def test_duplicate_rows_give_finite_numbers(assignment, seed, k, different, h):
    rng = np.random.RandomState(seed)
    X = rng.randn(different, 3)[rng.randint(different, size=30)]
    present = len(np.unique(X, axis=0))
    model = LinearTAE(k, h, assignment=assignment, random_state=seed, n_init=2, latent_penalty=0.1)
    fit_quietly(model, X)
    assert_sound(model, X)
    assert len(np.unique(model.labels_)) <= min(k, present)
    # Copies of a row are never torn apart.
    for row in np.unique(X, axis=0):
        assert len(np.unique(model.labels_[(row == X).all(axis=1)])) == 1


def test_every_different_row_gets_a_cluster_where_there_are_enough():
    X = np.repeat([[0.0, 0.0], [1.0, 0.0], [5.0, 5.0]], 10, axis=0)
    model = LinearTAE(3, 1, random_state=0, latent_penalty=0.1).fit(X)
    assert sorted(np.bincount(model.labels_)) == [10, 10, 10]
    assert model.loss_ == pytest.approx(0, abs=1e-12)
    assert_sound(model, X)


def test_fewer_different_rows_than_clusters_warn():
    X = np.repeat([[0.0, 0.0], [1.0, 0.0]], 10, axis=0)
    message = r"only 2 of n_clusters=4 clusters have members.*lower n_clusters"
    with pytest.warns(ConvergenceWarning, match=message):
        model = LinearTAE(4, 1, random_state=0, latent_penalty=0.1).fit(X)
    assert_sound(model, X)
    assert model.loss_ == pytest.approx(0, abs=1e-12)


@both_passes
@every_assignment
@pytest.mark.parametrize("value", [0.0, 1e6])
def test_equal_rows_warn_and_give_finite_numbers(assignment, value):
    X = np.full((12, 3), value)
    model = LinearTAE(3, 2, assignment=assignment, random_state=0, n_init=1, latent_penalty=0.1)
    with pytest.warns(ConvergenceWarning) as caught:
        model.fit(X)
    assert any("only 1 of n_clusters=3 clusters have members" in str(w.message) for w in caught)
    assert_sound(model, X)
    assert model.loss_ == pytest.approx(0, abs=1e-12)
    np.testing.assert_allclose(model.reconstruct(X), X, rtol=1e-9)


def test_equal_rows_in_one_cluster_are_no_reason_to_warn():
    X = np.full((5, 2), 3.0)
    model = LinearTAE(1, 1, latent_penalty=0.1).fit(X)
    assert_sound(model, X)
    np.testing.assert_array_equal(model.cluster_centers_, [[3, 3]])


@pytest.mark.parametrize("penalty", [0.1, "auto"])
@every_assignment
@law
@given(seed=seeds, n=st.integers(1, 6), d=st.integers(1, 4), data=st.data())
def test_as_many_clusters_as_rows_give_every_row_its_own(assignment, penalty, seed, n, d, data):
    h = data.draw(st.integers(1, d), label="h")
    X = 5 * np.random.RandomState(seed).randn(n, d)
    model = LinearTAE(n, h, latent_penalty=penalty, assignment=assignment, random_state=seed)
    if assignment == "em":
        assert_sound(fit_quietly(model, X), X)
        return
    model.fit(X)
    assert_sound(model, X)
    assert len(np.unique(model.labels_)) == n
    assert model.loss_ == pytest.approx(0, abs=1e-9)
    np.testing.assert_allclose(model.reconstruct(X), X, atol=1e-6)


@every_assignment
@law
@given(seed=seeds, n=st.integers(6, 12), h=st.integers(2, 5))
def test_clusters_with_fewer_members_than_directions_give_finite_numbers(
    grouped, assignment, seed, n, h
):
    sample = grouped(seed, n, 5, 4)
    model = LinearTAE(4, h, assignment=assignment, random_state=seed, n_init=3, latent_penalty=0.1)
    fit_quietly(model, sample.X)
    assert_sound(model, sample.X)
    if assignment != "em":
        assert len(np.unique(model.labels_)) == 4


@pytest.mark.parametrize("assignment", ["lloyd", "em"])
@pytest.mark.parametrize("n_clusters", [1, 3])
def test_posterior_of_unseen_samples_is_finite_where_the_fit_leaves_no_noise(
    assignment, n_clusters
):
    X = np.repeat(np.eye(3)[:n_clusters], 4, axis=0)
    model = fit_quietly(
        LinearTAE(n_clusters, 1, assignment=assignment, random_state=0, latent_penalty=0.1), X
    )
    posterior = model.predict_proba([[50.0, 0, 0], [0, 60, 0], [7, 7, 90]])
    np.testing.assert_allclose(posterior.sum(axis=1), 1)


# Columns -----------------------------------------------------------------------------------------


@both_passes
@every_assignment
@law
@given(seed=seeds, n_constant=st.integers(1, 4), h=st.integers(1, 4), value=st.floats(-9, 9))
def test_constant_columns_change_nothing(grouped, assignment, seed, n_constant, h, value):
    """Not the labels, not the loss; new directions are needed where h exceeds what varies."""
    sample = grouped(seed, 40, 3, 2)
    X = np.hstack([sample.X, np.full((40, n_constant), value)])
    start = np.hstack([sample.start, np.full((2, n_constant), value)])
    h = min(h, X.shape[1])
    options = {"latent_penalty": 0.1, "assignment": assignment, "max_iter": 2000}
    model = LinearTAE(2, h, init=start, **options).fit(X)
    without = LinearTAE(2, min(h, 3), init=sample.start, **options).fit(sample.X)
    assert_sound(model, X)
    if assignment == "em":  # the noise is spread over one more direction
        return
    np.testing.assert_array_equal(model.labels_, without.labels_)
    assert model.loss_ == pytest.approx(without.loss_, rel=1e-9)
    np.testing.assert_allclose(model.cluster_centers_[:, 3:], value, atol=1e-12)
    np.testing.assert_allclose(model.reconstruct(X)[:, 3:], value, atol=1e-9)


@pytest.mark.parametrize("h", [2, 3, 5, 9])
def test_many_constant_columns_change_nothing(grouped, h):
    """As in images with an empty border: 30 features, 3 of which vary."""
    sample = grouped(3, 60, 3, 2)
    X, start = np.zeros((60, 30)), np.zeros((2, 30))
    X[:, [4, 11, 20]], start[:, [4, 11, 20]] = sample.X, sample.start
    model = LinearTAE(2, h, init=start, latent_penalty=0.1).fit(X)
    without = LinearTAE(2, min(h, 3), init=sample.start, latent_penalty=0.1).fit(sample.X)
    assert_sound(model, X)
    np.testing.assert_array_equal(model.labels_, without.labels_)
    assert model.loss_ == pytest.approx(without.loss_, rel=1e-9)
    assert (np.diff(model.loss_path_) <= 1e-9 * model.loss_path_[0]).all()


def test_twin_columns_share_their_loadings(grouped):
    sample = grouped(4, 60, 3, 2)
    X, start = sample.X[:, [0, 1, 2, 2]], sample.start[:, [0, 1, 2, 2]]
    model = LinearTAE(2, 3, init=start, latent_penalty=0.1).fit(X)
    assert_sound(model, X)
    np.testing.assert_allclose(model.components_[..., 2], model.components_[..., 3], atol=1e-6)


@every_assignment
@pytest.mark.parametrize(("n", "d", "h"), [(12, 60, 2), (12, 60, 11), (12, 60, 30), (20, 400, 3)])
def test_more_features_than_rows_work(grouped, assignment, n, d, h):
    sample = grouped(5, n, d, 2)
    model = fit_quietly(
        LinearTAE(2, h, assignment=assignment, random_state=0, n_init=2, latent_penalty=0.1),
        sample.X,
    )
    assert_sound(model, sample.X)
    assert len(np.unique(model.labels_)) == 2
    if h >= n:  # all members of a cluster lie on its plane
        np.testing.assert_allclose(model.reconstruct(sample.X), sample.X, atol=1e-6)


# Place and scale ---------------------------------------------------------------------------------


# Soft clusters that lie on top of each other may leave one without rows of its own.
@pytest.mark.filterwarnings("ignore:only .* clusters have members")
@both_passes
@every_assignment
@pytest.mark.parametrize("offset", [1e6, -1e8])
def test_a_huge_offset_costs_no_accuracy(grouped, assignment, offset):
    sample = grouped(6)
    options = {"latent_penalty": 0.1, "assignment": assignment, "max_iter": 2000}
    model = LinearTAE(3, 1, init=sample.start, **options).fit(sample.X)
    moved = LinearTAE(3, 1, init=sample.start + offset, **options).fit(sample.X + offset)
    np.testing.assert_array_equal(moved.labels_, model.labels_)
    assert moved.loss_ == pytest.approx(model.loss_, rel=1e-5)
    np.testing.assert_allclose(moved.explained_variance_, model.explained_variance_, rtol=1e-5)
    np.testing.assert_allclose(moved.components_, model.components_, atol=1e-5)


@pytest.mark.parametrize("assignment", ["lloyd", "projected", "constrained"])
def test_a_large_offset_of_single_precision_data_costs_no_accuracy(grouped, assignment):
    sample = grouped(6)
    X = (sample.X + 1e4).astype(np.float32)
    double = X.astype(np.float64)
    options = {"latent_penalty": 0.1, "assignment": assignment, "max_iter": 2000}
    options["init"] = sample.start + 1e4
    single = LinearTAE(3, 1, **options).fit(X)
    model = LinearTAE(3, 1, **options).fit(double)
    np.testing.assert_array_equal(single.labels_, model.labels_)
    np.testing.assert_allclose(single.explained_variance_, model.explained_variance_, rtol=1e-4)


@both_passes
@every_assignment
def test_tiny_and_huge_scales_work(grouped, assignment):
    sample = grouped(7)
    options = {"latent_penalty": 0.1, "assignment": assignment, "max_iter": 2000}
    model = LinearTAE(3, 1, init=sample.start, **options).fit(sample.X)
    for scale in (1e-6, 1e6, 1e-30, 1e30):
        scaled = LinearTAE(3, 1, init=scale * sample.start, **options).fit(scale * sample.X)
        assert_sound(scaled, scale * sample.X)
        np.testing.assert_array_equal(scaled.labels_, model.labels_)
        assert scaled.loss_ / scale**2 == pytest.approx(model.loss_, rel=1e-9)


@both_passes
@pytest.mark.parametrize("distance", [1e3, 1e5])
def test_a_cluster_far_away_leaves_the_others_their_variances(distance):
    rng = np.random.RandomState(0)
    X = rng.randn(90, 3) * [3, 1, 0.3]
    X[60:] += distance
    model = LinearTAE(2, 1, init=[[0.0] * 3, [distance] * 3], latent_penalty=0.1).fit(X)
    np.testing.assert_array_equal(model.labels_, np.arange(90) >= 60)
    for j in range(2):
        centered = X[model.labels_ == j] - X[model.labels_ == j].mean(axis=0)
        values = np.linalg.eigvalsh(centered.T @ centered / len(centered))[::-1]
        np.testing.assert_allclose(model.explained_variance_[j], values[:1], rtol=1e-6)
        np.testing.assert_allclose(model.noise_variance_[j], values[1:].mean(), rtol=1e-6)


def test_clusters_of_very_different_size_and_spread_work():
    rng = np.random.RandomState(0)
    X = np.vstack([1e3 * rng.randn(200, 3), [2e4, 0, 0] + 1e-2 * rng.randn(10, 3)])
    model = LinearTAE(2, 1, init=[[0.0, 0, 0], [2e4, 0, 0]], latent_penalty=0.1).fit(X)
    assert_sound(model, X)
    np.testing.assert_array_equal(model.labels_, np.r_[np.zeros(200), np.ones(10)])
    own = X[200:] - X[200:].mean(axis=0)
    values = np.linalg.eigvalsh(own.T @ own / 10)[::-1]
    np.testing.assert_allclose(model.explained_variance_[1], values[:1], rtol=1e-3)


@pytest.mark.parametrize("penalty", [1e-12, 1e-300])
def test_a_tiny_penalty_works(grouped, penalty):
    sample = grouped(8)
    model = fit_quietly(LinearTAE(3, 1, latent_penalty=penalty, random_state=0), sample.X)
    assert_sound(model, sample.X)


def test_one_row_and_one_feature_work():
    model = LinearTAE(1, 1, latent_penalty=0.1).fit([[3.0]])
    np.testing.assert_array_equal(model.cluster_centers_, [[3.0]])
    np.testing.assert_array_equal(model.components_, [[[1.0]]])
    assert_sound(model, np.array([[3.0]]))
