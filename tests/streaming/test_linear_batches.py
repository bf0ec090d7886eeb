"""LinearTAE on batches is LinearTAE in memory; on an endless stream it comes to the same."""

import numpy as np
import pytest
from sklearn.datasets import load_iris

from tensorae import Batches, LinearTAE
from tensorae.datasets import lines_3d, load_penguins, triangle
from tensorae.exceptions import InvalidInputError, InvalidParameterError


def clustered(n, d, k, dtype, seed=0):
    rng = np.random.default_rng(seed)
    centers, axes = 2 * rng.normal(size=(k, d)), rng.normal(size=(k, 2, d))
    y = rng.integers(k, size=n)
    codes = rng.normal(size=(n, 2))
    return (
        centers[y] + np.einsum("nh,nhd->nd", codes, axes[y]) + 0.3 * rng.normal(size=(n, d))
    ).astype(dtype)


IRIS, PENGUINS = load_iris().data, load_penguins(4, scale="max").data
AUTO = {"latent_penalty": "auto"}
CASES = {
    "iris": (IRIS, 3, {}),
    "iris, em": (IRIS, 3, {"assignment": "em"}),
    "iris, auto": (IRIS, 3, AUTO | {"spread": "shared"}),
    "iris, own": (IRIS, 3, AUTO | {"spread": "own"}),
    "iris, own, hard": (IRIS, 3, AUTO | {"spread": "own", "assignment": "lloyd"}),
    "iris, all auto": (IRIS, 3, AUTO),
    "float32, own": (clustered(3000, 6, 4, "float32"), 4, AUTO | {"spread": "own"}),
    "iris, centres": (IRIS, 3, {"init": IRIS[[0, 60, 120]]}),
    "iris, three starts": (IRIS, 3, {"n_init": 3}),
    "penguins": (PENGUINS, 3, {}),
    "one cluster": (PENGUINS, 1, {}),
    "far from the origin": (PENGUINS + 1000, 3, {}),
    "float32": (clustered(3000, 6, 4, "float32"), 4, {}),
    "repeated rows": (np.repeat(clustered(8, 3, 2, "float64"), 20, axis=0), 3, {}),
}


@pytest.mark.parametrize("name", list(CASES))
@pytest.mark.parametrize("batch_rows", [7, 1000])
def test_a_fit_on_batches_equals_the_fit_in_memory(name, batch_rows):
    X, k, options = CASES[name]
    options = {"latent_penalty": 0.1, "random_state": 0, **options}
    in_memory = LinearTAE(k, 1, **options).fit(X)
    streamed = LinearTAE(k, 1, **options).fit(Batches(X, batch_rows=batch_rows))
    np.testing.assert_array_equal(streamed.labels_, in_memory.labels_)
    precision = 1e-4 if X.dtype == np.float32 else 1e-9
    np.testing.assert_allclose(
        streamed.cluster_centers_, in_memory.cluster_centers_, rtol=precision
    )
    np.testing.assert_allclose(streamed.components_, in_memory.components_, atol=precision)
    np.testing.assert_allclose(streamed.loss_, in_memory.loss_, rtol=precision, atol=1e-9)
    np.testing.assert_allclose(
        streamed.denoise(X, 0.1), in_memory.denoise(X, 0.1), rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("assignment", ["lloyd", "em"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_starts_on_a_sample_are_the_same_as_in_memory(assignment, dtype):
    X = clustered(11_000, 6, 4, dtype)  # more rows than a search for starts looks at
    options = {"latent_penalty": 0.1, "assignment": assignment, "random_state": 0}
    in_memory = LinearTAE(4, 2, **options).fit(X)
    streamed = LinearTAE(4, 2, **options).fit(Batches(X, batch_rows=333))
    np.testing.assert_array_equal(streamed.labels_, in_memory.labels_)
    np.testing.assert_allclose(streamed.loss_, in_memory.loss_, rtol=1e-5)


def test_the_loss_never_rises_on_batches():
    X = clustered(9000, 5, 6, "float64")
    model = LinearTAE(6, 1, random_state=1, tol=0, init="random", n_init=1, latent_penalty=0.1).fit(
        Batches(X)
    )
    assert (np.diff(model.loss_path_) <= 1e-9 * model.loss_).all()


def test_results_for_batches_are_those_for_the_whole():
    X = clustered(500, 5, 3, "float64")
    model = LinearTAE(3, 2, random_state=0, latent_penalty=0.1).fit(X)
    batches = Batches(X, batch_rows=64)
    for method in (
        "predict",
        "transform",
        "costs",
        "predict_proba",
        "score_samples",
        "reconstruct",
    ):
        whole, parts = getattr(model, method)(X), getattr(model, method)(batches)
        assert parts.dtype == whole.dtype
        np.testing.assert_allclose(parts, whole, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(model.denoise(batches, 0.1), model.denoise(X, 0.1))
    assert model.score(batches) == pytest.approx(model.score(X))


def test_names_of_columns_are_learned_and_checked(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(IRIS, columns=["a", "b", "c", "d"])
    frame.to_parquet(tmp_path / "iris.parquet")
    model = LinearTAE(3, 1, random_state=0, latent_penalty=0.1).fit(
        Batches(tmp_path / "iris.parquet")
    )
    assert list(model.feature_names_in_) == ["a", "b", "c", "d"]
    np.testing.assert_array_equal(model.predict(frame), model.labels_)
    with pytest.raises(InvalidInputError, match="columns of the fit in their order"):
        model.predict(Batches(tmp_path / "iris.parquet", columns=["b", "a", "c", "d"]))
    with pytest.raises(InvalidInputError, match="4 features of the fit, got 2"):
        model.predict(Batches(tmp_path / "iris.parquet", columns=["a", "b"]))


@pytest.mark.parametrize(
    ("options", "arguments", "words"),
    [
        ({"assignment": "projected"}, {}, 'assignment must be "lloyd" or "em"'),
        ({}, {"sample_weight": np.ones(150)}, "sample_weight must be left out"),
        ({}, {"labels": np.zeros(150, int)}, "labels must be left out"),
    ],
)
def test_what_batches_have_no_place_for_is_refused(options, arguments, words):
    with pytest.raises(InvalidParameterError, match=words):
        LinearTAE(3, 1, **options).fit(Batches(IRIS), **arguments)


def test_more_features_than_rows_are_refused():
    with pytest.raises(InvalidInputError, match="at least as many rows as features"):
        LinearTAE(2, 1, latent_penalty=0.1).fit(Batches(np.eye(4, 6)))


def test_rows_that_change_between_passes_are_an_error():
    sizes = iter([150, 150, 150, 140, 140, 140])

    def source():
        yield IRIS[: next(sizes)]

    with pytest.raises(InvalidInputError):
        LinearTAE(3, 1, random_state=0, latent_penalty=0.1).fit(Batches(source))


# Streams without end --------------------------------------------------------------------------


@pytest.mark.parametrize("decay", [1.0, 0.97])
@pytest.mark.parametrize(("draw", "k"), [(lines_3d, 3), (triangle, 3)])
def test_a_stationary_stream_comes_to_the_fit_of_the_whole(draw, k, decay):
    X, _ = draw(20_000, random_state=1)
    new, _ = draw(2000, random_state=2)
    whole = LinearTAE(k, 1, random_state=0, latent_penalty=0.1).fit(X)
    stream = LinearTAE(k, 1, random_state=0, latent_penalty=0.1)
    for batch in np.split(X, 100):
        stream.partial_fit(batch, decay=decay)
    assert stream.n_iter_ == 100
    assert stream.score(new) == pytest.approx(whole.score(new), rel=0.01)


CROSS = np.array([[sign * i, 0.0] for i in range(1, 5) for sign in (-1, 1)])
CROSS = np.vstack([CROSS, CROSS[:, ::-1]])  # two lines with one centre


@pytest.mark.parametrize("first", [0, 1])
def test_clusters_with_equal_centers_stay_apart_on_the_stream(first):
    lines = np.repeat([first, 1 - first], 8)
    model = LinearTAE(2, 1, latent_penalty=0.1).fit(CROSS, labels=lines)
    assert model.loss_ == pytest.approx(12)
    components = model.components_.copy()
    for n_batches in (1, 2, 3):
        model.partial_fit(CROSS)
        np.testing.assert_allclose(model.components_, components, atol=1e-9)
        assert model.costs(CROSS).min(1).sum() == pytest.approx(12), n_batches
        np.testing.assert_array_equal(model.predict(CROSS), lines)


def test_a_cluster_without_rows_keeps_its_place():
    X, y = lines_3d(600, random_state=0)
    model = LinearTAE(3, 1, random_state=0, latent_penalty=0.1).fit(X)
    stream = LinearTAE(3, 1, random_state=0, latent_penalty=0.1).partial_fit(X)
    lost = int(np.bincount(model.predict(X[y == 0])).argmax())
    center = stream.cluster_centers_[lost].copy()
    for _ in range(200):
        stream.partial_fit(X[y != 0], decay=0.5)
    np.testing.assert_allclose(stream.cluster_centers_[lost], center, atol=1e-9)
    assert np.isfinite(stream.components_).all()
    np.testing.assert_array_equal(stream.predict(X[y == 0]), lost)


def test_the_stream_follows_a_drift_when_it_forgets():
    X, _ = lines_3d(600, random_state=0)
    kept, forgetful = (
        LinearTAE(3, 1, random_state=0, latent_penalty=0.1).partial_fit(X) for _ in range(2)
    )
    for shift in np.linspace(0, 5, 60):
        kept.partial_fit(X + shift)
        forgetful.partial_fit(X + shift, decay=0.5)
    assert forgetful.score(X + 5) > kept.score(X + 5)
    order = np.argsort(forgetful.cluster_centers_[:, 2])
    fresh = LinearTAE(3, 1, random_state=0, latent_penalty=0.1).fit(X + 5)
    again = np.argsort(fresh.cluster_centers_[:, 2])
    np.testing.assert_allclose(
        forgetful.cluster_centers_[order], fresh.cluster_centers_[again], atol=0.3
    )


def test_weights_of_a_batch_equal_repeated_rows():
    X, _ = triangle(150, random_state=0)
    more, _ = triangle(150, random_state=1)
    weights = np.random.default_rng(0).integers(1, 4, size=len(more))
    weighted = (
        LinearTAE(3, 1, random_state=0, latent_penalty=0.1)
        .partial_fit(X)
        .partial_fit(more, sample_weight=weights)
    )
    repeated = LinearTAE(3, 1, random_state=0, latent_penalty=0.1).partial_fit(X)
    repeated.partial_fit(np.repeat(more, weights, axis=0))
    np.testing.assert_allclose(weighted.cluster_centers_, repeated.cluster_centers_)
    np.testing.assert_allclose(weighted.components_, repeated.components_, atol=1e-12)


def test_a_stream_goes_on_after_save_and_load(tmp_path):
    from tensorae import load

    first, second = (triangle(150, random_state=seed)[0] for seed in (0, 1))
    model = LinearTAE(3, 1, random_state=0, latent_penalty=0.1).partial_fit(first)
    model.save(tmp_path / "stream.tae")
    again = load(tmp_path / "stream.tae")
    np.testing.assert_array_equal(
        model.partial_fit(second).cluster_centers_, again.partial_fit(second).cluster_centers_
    )


@pytest.mark.parametrize("decay", [0, -1, 1.5, "a"])
def test_a_wrong_decay_is_named(decay):
    with pytest.raises(InvalidParameterError, match="decay"):
        LinearTAE(3, 1, latent_penalty=0.1).partial_fit(IRIS, decay=decay)
