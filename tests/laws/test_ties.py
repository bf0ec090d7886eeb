"""Columns with tied values (yes/no, counts, mostly zeros) do not decide the clusters alone."""

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score
from sklearn.preprocessing import StandardScaler

import tensorae
from tensorae import TAE, Batches, LinearTAE

N = 400
IRRELEVANT = {
    "three fair binaries": lambda rng: rng.rand(N, 3) < 0.5,
    "a fair binary": lambda rng: rng.rand(N, 1) < 0.5,
    "a binary of 10 %": lambda rng: rng.rand(N, 1) < 0.1,
    "90 % zeros": lambda rng: np.where(rng.rand(N, 1) < 0.9, 0, rng.exponential(size=(N, 1))),
    "Poisson counts": lambda rng: rng.poisson(0.2, (N, 1)),
}
every_column = pytest.mark.parametrize("column", IRRELEVANT)


def three_groups(column, seed, distance=4.0):
    """Three groups in four continuous columns, and columns that have nothing to do with them."""
    rng = np.random.RandomState(seed)
    y = rng.randint(3, size=N)
    places = distance * np.array([[0, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0]])
    X = np.column_stack([places[y] + rng.randn(N, 4), IRRELEVANT[column](rng)])
    return StandardScaler().fit_transform(X), y


@every_column
def test_default_is_not_below_k_means(column):
    for seed in range(8):
        X, y = three_groups(column, seed)
        k_means = KMeans(3, n_init=10, random_state=seed).fit_predict(X)
        found = LinearTAE(3, random_state=seed).fit_predict(X)
        least = adjusted_rand_score(y, k_means) - 0.05
        assert adjusted_rand_score(y, found) >= least, f"seed {seed}"


@pytest.mark.quality
@every_column
def test_number_of_clusters_is_that_of_the_groups(column):
    X, y = three_groups(column, seed=1)
    choice = tensorae.choose(X, random_state=0)
    assert choice.n_clusters == 3
    assert adjusted_rand_score(y, choice.model.labels_) > 0.9


@pytest.mark.quality
def test_deep_model_starts_from_the_groups():
    X, y = three_groups("three fair binaries", seed=0)
    model = TAE(3, 1, architecture="linear", max_epochs=1, random_state=0).fit(X)
    assert adjusted_rand_score(y, model.labels_) > 0.85


def test_a_binary_that_marks_the_groups_is_used():
    rng = np.random.RandomState(0)
    y = np.arange(N) % 2
    X = np.column_stack([1.5 * y + rng.randn(N), 1.5 * y + rng.randn(N), y ^ (rng.rand(N) < 0.02)])
    X = StandardScaler().fit_transform(X)
    with_it, without = (
        adjusted_rand_score(y, LinearTAE(2, random_state=0).fit_predict(part))
        for part in (X, X[:, :2])
    )
    assert with_it > without + 0.2


@every_column
def test_weights_equal_repeated_rows(column):
    X, _ = three_groups(column, seed=2)
    times = np.random.RandomState(0).randint(1, 3, size=N)
    weighted = LinearTAE(3, random_state=0).fit(X, sample_weight=times)
    repeated = LinearTAE(3, random_state=0).fit(np.repeat(X, times, axis=0))
    np.testing.assert_array_equal(np.repeat(weighted.labels_, times), repeated.labels_)
    np.testing.assert_allclose(weighted.noise_variance_, repeated.noise_variance_, rtol=1e-6)


@every_column
def test_streamed_equals_in_memory(column):
    X, _ = three_groups(column, seed=3)
    streamed = LinearTAE(3, random_state=0).fit(Batches(X, batch_rows=150))
    assert adjusted_rand_score(streamed.predict(X), LinearTAE(3, random_state=0).fit_predict(X)) > (
        0.999
    )


@every_column
@pytest.mark.parametrize("missing", [0.0, 0.05])
def test_objective_never_rises(column, missing):
    X, _ = three_groups(column, seed=4)
    X[np.random.RandomState(0).rand(*X.shape) < missing] = np.nan
    path = LinearTAE(3, spread="own", random_state=0).fit(X).objective_path_
    assert (np.diff(path) <= 1e-9 * np.abs(path).max()).all()


def test_continuous_columns_are_left_alone():
    """Rounding far below the spread of the clusters changes nothing."""
    rng = np.random.RandomState(0)
    X = 4 * rng.randn(3, 3)[rng.randint(3, size=N)] + rng.randn(N, 3)
    exact, rounded = (LinearTAE(3, spread="own", random_state=0).fit(x) for x in (X, X.round(3)))
    np.testing.assert_array_equal(exact.labels_, rounded.labels_)
    np.testing.assert_allclose(exact.noise_variance_, rounded.noise_variance_, rtol=0.01)


def test_partial_fit_keeps_the_variance_of_tied_values():
    X, _ = three_groups("a binary of 10 %", seed=5)
    model = LinearTAE(3, spread="own", random_state=0).fit(X)
    assert model.tied_variance_[4] > 1
    assert not model.tied_variance_[:4].any()
    noise, labels = model.noise_variance_, model.labels_
    again = model.partial_fit(X)
    np.testing.assert_allclose(again.noise_variance_, noise, rtol=0.05)
    assert adjusted_rand_score(again.labels_, labels) > 0.99
