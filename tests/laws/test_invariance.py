"""What must not matter does not matter: order, place, direction, scale, copies, precision."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorae import LinearTAE

law = settings(max_examples=6, deadline=None, derandomize=True, database=None)
seeds = st.integers(0, 2**31 - 1)
ASSIGNMENTS = ["lloyd", "projected", "constrained", "em"]
every_assignment = pytest.mark.parametrize("assignment", ASSIGNMENTS)
every_start = pytest.mark.parametrize("init", ["k-means++", "k-means", "random"])


def projectors(model):
    return np.swapaxes(model.components_, 1, 2) @ model.components_


def assert_same_fit(model, other, rtol=1e-6):
    """Compare all that a fit publishes, in the units of ``other``."""
    scale = np.sqrt(other.explained_variance_.max())
    np.testing.assert_array_equal(model.labels_, other.labels_)
    np.testing.assert_allclose(
        model.cluster_centers_, other.cluster_centers_, rtol=rtol, atol=rtol * scale
    )
    np.testing.assert_allclose(projectors(model), projectors(other), atol=rtol)
    np.testing.assert_allclose(model.explained_variance_, other.explained_variance_, rtol=rtol)
    np.testing.assert_allclose(
        model.noise_variance_, other.noise_variance_, rtol=rtol, atol=rtol * scale**2
    )
    np.testing.assert_allclose(model.weights_, other.weights_, rtol=rtol)
    assert model.loss_ == pytest.approx(other.loss_, rel=rtol)
    assert model.latent_penalty_ == pytest.approx(other.latent_penalty_, rel=rtol)


def fit(X, start, *, assignment="lloyd", h=1, penalty=0.1, **fit_params):
    model = LinearTAE(
        len(start), h, latent_penalty=penalty, spread="shared", assignment=assignment, init=start
    )
    return model.set_params(max_iter=2000).fit(X, **fit_params)


# Order ----------------------------------------------------------------------------------------


@every_assignment
@law
@given(seed=seeds, d=st.integers(2, 5), k=st.integers(1, 4))
def test_permuting_rows_permutes_the_labels(grouped, assignment, seed, d, k):
    sample = grouped(seed, 60, d, k)
    order = sample.rng.permutation(60)
    model = fit(sample.X, sample.start, assignment=assignment)
    shuffled = fit(sample.X[order], sample.start, assignment=assignment)
    model.labels_ = model.labels_[order]
    assert_same_fit(shuffled, model)


@every_start
@law
@given(seed=seeds, d=st.integers(1, 5), k=st.integers(1, 5))
def test_permuting_rows_permutes_the_labels_of_random_starts(grouped, init, seed, d, k):
    sample = grouped(seed, 60, d, k)
    order = sample.rng.permutation(60)
    model = LinearTAE(k, 1, init=init, random_state=seed, n_init=3, latent_penalty=0.1)
    labels = model.fit_predict(sample.X)
    centers = model.cluster_centers_
    np.testing.assert_array_equal(model.fit_predict(sample.X[order]), labels[order])
    np.testing.assert_allclose(model.cluster_centers_, centers, atol=1e-9)


def many_rows():
    """Return more rows than a search for starts looks at, and a generator."""
    rng = np.random.RandomState(0)
    return 5 * rng.randn(4, 3)[rng.randint(4, size=9000)] + rng.randn(9000, 3), rng


def test_permuting_rows_permutes_the_labels_where_starts_run_on_a_sample():
    X, rng = many_rows()
    order = rng.permutation(len(X))
    model = LinearTAE(4, 1, random_state=0, latent_penalty=0.1)
    labels = model.fit_predict(X)
    np.testing.assert_array_equal(model.fit_predict(X[order]), labels[order])


@law
@given(seed=seeds, k=st.integers(2, 5))
def test_permuting_the_given_centers_permutes_the_clusters(grouped, seed, k):
    sample = grouped(seed, 60, 3, k)
    order = sample.rng.permutation(k)
    model, other = fit(sample.X, sample.start), fit(sample.X, sample.start[order])
    np.testing.assert_array_equal(order[other.labels_], model.labels_)
    np.testing.assert_allclose(other.cluster_centers_, model.cluster_centers_[order], atol=1e-9)


@law
@given(seed=seeds, d=st.integers(2, 6))
def test_permuting_features_permutes_the_loadings(grouped, seed, d):
    sample = grouped(seed, 60, d, 3)
    order = sample.rng.permutation(d)
    model = fit(sample.X, sample.start)
    other = fit(sample.X[:, order], sample.start[:, order])
    np.testing.assert_array_equal(other.labels_, model.labels_)
    np.testing.assert_allclose(other.components_, model.components_[:, :, order], atol=1e-6)


# Place, direction, scale ------------------------------------------------------------------------


@pytest.mark.parametrize("penalty", [0.1, "auto"])
@every_assignment
@law
@given(seed=seeds, d=st.integers(2, 5), k=st.integers(1, 4), size=st.floats(0.1, 1e4))
def test_shifting_the_data_shifts_the_centers_only(grouped, assignment, penalty, seed, d, k, size):
    sample = grouped(seed, 60, d, k)
    shift = size * sample.rng.randn(d)
    model = fit(sample.X, sample.start, assignment=assignment, penalty=penalty)
    moved = fit(sample.X + shift, sample.start + shift, assignment=assignment, penalty=penalty)
    np.testing.assert_allclose(
        moved.transform(sample.X + shift), model.transform(sample.X), atol=1e-5
    )
    moved.cluster_centers_ = moved.cluster_centers_ - shift
    assert_same_fit(moved, model)


# Soft clusters that lie on top of each other may leave one without rows of its own.
@pytest.mark.filterwarnings("ignore:only .* clusters have members")
@pytest.mark.parametrize("penalty", [0.1, "auto"])
@every_assignment
@law
@given(seed=seeds, d=st.integers(2, 5), k=st.integers(1, 4), power=st.integers(-6, 6))
def test_scaling_the_data_scales_centers_variances_and_loss(
    grouped, assignment, penalty, seed, d, k, power
):
    factor = 10.0**power
    sample = grouped(seed, 60, d, k)
    model = fit(sample.X, sample.start, assignment=assignment, penalty=penalty)
    scaled = fit(factor * sample.X, factor * sample.start, assignment=assignment, penalty=penalty)
    assert scaled.n_iter_ == model.n_iter_
    np.testing.assert_allclose(
        scaled.predict_proba(factor * sample.X), model.predict_proba(sample.X), atol=1e-6
    )
    scaled.cluster_centers_ = scaled.cluster_centers_ / factor
    scaled.explained_variance_ = scaled.explained_variance_ / factor**2
    scaled.noise_variance_ = scaled.noise_variance_ / factor**2
    scaled.loss_ = scaled.loss_ / factor**2
    assert_same_fit(scaled, model)


def rotation_of(d, rng):
    return np.linalg.qr(rng.randn(d, d))[0]


@pytest.mark.parametrize("penalty", [0.1, "auto"])
@every_assignment
@law
@given(seed=seeds, d=st.integers(2, 5), k=st.integers(1, 4), data=st.data())
def test_rotating_the_data_rotates_centers_and_components(
    grouped, assignment, penalty, seed, d, k, data
):
    h = data.draw(st.integers(1, d - 1), label="h")
    sample = grouped(seed, 60, d, k)
    rotation = rotation_of(d, sample.rng)
    options = {"assignment": assignment, "penalty": penalty, "h": h}
    model = fit(sample.X, sample.start, **options)
    turned = fit(sample.X @ rotation, sample.start @ rotation, **options)
    turned.cluster_centers_ = turned.cluster_centers_ @ rotation.T
    turned.components_ = turned.components_ @ rotation.T
    assert_same_fit(turned, model)


@pytest.mark.parametrize("d", [30, 60])
def test_relabelling_rows_and_rotating_space_changes_nothing_on_many_features(grouped, d):
    """More features than an eigendecomposition at every step would pay for."""
    sample = grouped(2, n=240, d=d, k=3)
    order, rotation = sample.rng.permutation(240), rotation_of(d, sample.rng)
    model = fit(sample.X, sample.start, h=2)
    turned = fit(sample.X[order] @ rotation, sample.start @ rotation, h=2)
    turned.cluster_centers_ = turned.cluster_centers_ @ rotation.T
    turned.components_ = turned.components_ @ rotation.T
    turned.labels_ = turned.labels_[np.argsort(order)]
    assert_same_fit(turned, model)


# Weights and copies -------------------------------------------------------------------------------


# Soft clusters that lie on top of each other may leave one without rows of its own.
@pytest.mark.filterwarnings("ignore:only .* clusters have members")
@pytest.mark.parametrize("penalty", [0.1, "auto"])
@every_assignment
@law
@given(seed=seeds, d=st.integers(2, 5), k=st.integers(1, 4))
def test_weights_equal_repeated_rows(grouped, assignment, penalty, seed, d, k):
    sample = grouped(seed, 60, d, k)
    copies = sample.rng.randint(0, 4, size=60)
    copies[:k] = 1
    options = {"assignment": assignment, "penalty": penalty}
    weighted = fit(sample.X, sample.start, sample_weight=copies, **options)
    repeated = fit(np.repeat(sample.X, copies, axis=0), sample.start, **options)
    weighted.labels_ = np.repeat(weighted.labels_, copies)
    assert_same_fit(weighted, repeated)


@every_start
@law
@given(seed=seeds, d=st.integers(1, 5), k=st.integers(1, 5))
def test_weights_equal_repeated_rows_with_random_starts(grouped, init, seed, d, k):
    sample = grouped(seed, 60, d, k)
    copies = sample.rng.randint(0, 4, size=60)
    copies[:k] = 1
    weighted = LinearTAE(k, 1, init=init, random_state=seed, n_init=3, latent_penalty=0.1)
    weighted.fit(sample.X, sample_weight=copies)
    repeated = LinearTAE(k, 1, init=init, random_state=seed, n_init=3, latent_penalty=0.1)
    repeated.fit(np.repeat(sample.X, copies, axis=0))
    weighted.labels_ = np.repeat(weighted.labels_, copies)
    assert_same_fit(weighted, repeated)


def test_weights_equal_repeated_rows_where_starts_run_on_a_sample():
    X, rng = many_rows()
    copies = rng.randint(0, 4, size=len(X))
    weighted = LinearTAE(4, 1, random_state=0, latent_penalty=0.1).fit(X, sample_weight=copies)
    repeated = LinearTAE(4, 1, random_state=0, latent_penalty=0.1).fit(np.repeat(X, copies, axis=0))
    weighted.labels_ = np.repeat(weighted.labels_, copies)
    assert_same_fit(weighted, repeated)


@pytest.mark.parametrize("d", [40, 300])
def test_weights_equal_repeated_rows_on_many_features(d):
    rng = np.random.RandomState(1)
    X = rng.randn(3, d)[rng.randint(3, size=150)] + rng.randn(150, d)
    copies = rng.randint(1, 4, size=150)
    options = {"latent_penalty": 0.1, "random_state": 0, "n_init": 2}
    weighted = LinearTAE(3, 2, **options).fit(X, sample_weight=copies)
    repeated = LinearTAE(3, 2, **options).fit(np.repeat(X, copies, axis=0))
    weighted.labels_ = np.repeat(weighted.labels_, copies)
    assert_same_fit(weighted, repeated)


# Precision and chunks -------------------------------------------------------------------------


@every_assignment
@law
@given(seed=seeds, d=st.integers(2, 5), k=st.integers(1, 4))
def test_single_and_double_precision_agree(grouped, assignment, seed, d, k):
    sample = grouped(seed, 60, d, k)
    X = sample.X.astype(np.float32)
    double = fit(X.astype(np.float64), sample.start, assignment=assignment)
    single = fit(X, sample.start, assignment=assignment)
    assert single.cluster_centers_.dtype == single.components_.dtype == np.float32
    assert_same_fit(single, double, rtol=1e-4)
    np.testing.assert_allclose(single.costs(X), double.costs(X), rtol=1e-3, atol=1e-3)


@every_assignment
@pytest.mark.parametrize("weighted", [False, True])
def test_passes_in_single_precision_agree_with_double(grouped, assignment, weighted):
    """Large float32 data is not copied to float64; the sums are kept in float64."""
    sample = grouped(5, n=9000, d=30, k=3)
    X = sample.X.astype(np.float32)
    weights = sample.rng.uniform(0.5, 2, size=9000) if weighted else None
    options = {"assignment": assignment, "sample_weight": weights}
    double = fit(X.astype(np.float64), sample.start, **options)
    assert_same_fit(fit(X, sample.start, **options), double, rtol=1e-3)


@every_assignment
@pytest.mark.parametrize("penalty", [0.1, "auto"])
@pytest.mark.parametrize("weighted", [False, True])
def test_passes_in_chunks_equal_passes_over_a_table(
    grouped, in_chunks, assignment, penalty, weighted
):
    sample = grouped(6, n=120, d=4, k=3)
    weights = sample.rng.uniform(0, 2, size=120) if weighted else None
    options = {"assignment": assignment, "penalty": penalty, "sample_weight": weights}
    by_table = fit(sample.X, sample.start, **options)
    with in_chunks():
        by_chunks = fit(sample.X, sample.start, **options)
    assert_same_fit(by_chunks, by_table)
    np.testing.assert_allclose(by_chunks.loss_path_, by_table.loss_path_, rtol=1e-9)
    np.testing.assert_allclose(by_chunks.objective_path_, by_table.objective_path_, rtol=1e-9)
    np.testing.assert_allclose(by_chunks.entropy_path_, by_table.entropy_path_, atol=1e-9)


@every_start
def test_passes_in_chunks_equal_passes_over_a_table_with_restarts(grouped, in_chunks, init):
    X = grouped(7, n=120, d=4, k=4).X
    by_table = LinearTAE(4, 2, init=init, random_state=0, latent_penalty=0.1).fit(X)
    with in_chunks():
        by_chunks = LinearTAE(4, 2, init=init, random_state=0, latent_penalty=0.1).fit(X)
    assert_same_fit(by_chunks, by_table)


@every_assignment
@pytest.mark.usefixtures("data_pass")
def test_batch_size_does_not_change_the_result(grouped, assignment):
    sample = grouped(8, n=90, d=4, k=3)
    whole = fit(sample.X, sample.start, assignment=assignment)
    for batch_size in (1, 7, 64, 1000):
        batched = LinearTAE(
            3,
            1,
            assignment=assignment,
            init=sample.start,
            batch_size=batch_size,
            latent_penalty=0.1,
        )
        assert_same_fit(batched.set_params(max_iter=2000).fit(sample.X), whole)


def test_running_starts_one_by_one_equals_running_them_together(grouped, monkeypatch):
    X = grouped(9, n=120, d=4, k=4).X
    together = LinearTAE(4, 1, random_state=0, latent_penalty=0.1).fit(X)
    monkeypatch.setattr("tensorae.core.search.BATCH_BYTES", 1)
    assert_same_fit(LinearTAE(4, 1, random_state=0, latent_penalty=0.1).fit(X), together)
