"""A description says what the model and the samples say, in words and numbers."""

import json
import warnings

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from tensorae import TAE, LinearTAE
from tensorae.datasets import lines_3d, load_penguins
from tensorae.exceptions import InvalidInputError, InvalidParameterError, NotFittedError
from tensorae.inspect import describe


@pytest.fixture(scope="module")
def names():
    return load_penguins().feature_names


@pytest.fixture(scope="module")
def linear(penguins):
    return LinearTAE(3, latent_dim=2, latent_penalty=0.1, random_state=0).fit(penguins[0])


@pytest.fixture(scope="module")
def deep(penguins):
    model = TAE(3, latent_dim=2, architecture="linear", max_epochs=8, random_state=0)
    return model.fit(penguins[0])


# LinearTAE --------------------------------------------------------------------------------------


def test_sizes_centres_and_components_are_the_model_s(linear, penguins, names):
    description = describe(linear, penguins[0], feature_names=names)
    assert len(description) == 3
    assert description.n_samples == 333
    assert description.feature_names == tuple(names)
    for label, cluster in enumerate(description):
        assert cluster.label == label
        assert cluster.size == (linear.labels_ == label).sum()
        assert cluster.share == cluster.size / 333
        np.testing.assert_array_equal(cluster.center, linear.cluster_centers_[label])
        assert cluster.explained == pytest.approx(linear.explained_variance_ratio_[label].sum())
        for place, component in enumerate(cluster.components):
            row = linear.components_[label, place]
            np.testing.assert_array_equal(component.direction, row)
            assert dict(component.loadings) == dict(zip(names, row, strict=True))
            sizes = [abs(loading.value) for loading in component.loadings]
            assert sizes == sorted(sizes, reverse=True)
            assert component.variance == linear.explained_variance_[label, place]
            assert component.share == linear.explained_variance_ratio_[label, place]


def test_defining_features_are_standardised_differences_from_the_rest(linear, penguins):
    X = penguins[0]
    for cluster in describe(linear, X):
        rest = X[linear.labels_ != cluster.label]
        apart = (X[linear.labels_ == cluster.label].mean(0) - rest.mean(0)) / X.std(0)
        found = dict(cluster.defining)
        np.testing.assert_allclose([found[f"x{i}"] for i in range(4)], apart, rtol=1e-6)
        sizes = [abs(loading.value) for loading in cluster.defining]
        assert sizes == sorted(sizes, reverse=True)


def test_members_are_ordered_by_cost(linear, penguins):
    costs = linear.costs(penguins[0]).min(1)
    for cluster in describe(linear, penguins[0], n_members=4):
        own = costs[linear.labels_ == cluster.label]
        assert all(linear.labels_[row] == cluster.label for row in cluster.typical + cluster.worst)
        np.testing.assert_array_equal(costs[list(cluster.typical)], np.sort(own)[:4])
        np.testing.assert_array_equal(costs[list(cluster.worst)], np.sort(own)[::-1][:4])


def test_without_samples_the_model_s_own_numbers_serve(linear, penguins):
    own, full = describe(linear), describe(linear, penguins[0])
    assert own.n_samples == 333
    for mine, theirs in zip(own, full, strict=True):
        assert mine.size == theirs.size
        assert mine.share == pytest.approx(theirs.share)
        assert [c.loadings for c in mine.components] == [c.loadings for c in theirs.components]
        assert mine.typical == mine.worst == ()
        # Inside the clusters only the variance along the components is known exactly.
        found, exact = dict(mine.defining), dict(theirs.defining)
        for name, value in exact.items():
            assert found[name] == pytest.approx(value, rel=0.15)


def test_units_of_a_feature_change_no_defining_feature(penguins, linear):
    """Given the clusters: the difference is in standard deviations."""
    scales = np.array([1.0, 1000.0, 1e-6, 3.0])
    model = LinearTAE(3, latent_dim=2, latent_penalty=0.1, random_state=0).fit(penguins[0])
    before = describe(model, penguins[0])
    model.cluster_centers_ = model.cluster_centers_ * scales
    model.predict = lambda X: linear.predict(X / scales)
    model.costs = lambda X: linear.costs(X / scales)
    after = describe(model, penguins[0] * scales)
    for one, other in zip(before, after, strict=True):
        assert [loading.feature for loading in one.defining] == [
            loading.feature for loading in other.defining
        ]


def test_one_cluster_is_unlike_nothing(penguins):
    model = LinearTAE(1, latent_dim=1).fit(penguins[0])
    for description in (describe(model), describe(model, penguins[0])):
        assert description[0].defining == ()
        assert description[0].share == pytest.approx(1)


def test_a_feature_that_does_not_vary_defines_nothing(penguins):
    X = np.column_stack([penguins[0], np.full(333, 0.1)])
    model = LinearTAE(3, latent_dim=1, random_state=0).fit(X)
    for cluster in describe(model, X):
        assert "x4" not in dict(cluster.defining)


def test_a_cluster_without_members_is_described_by_what_is_known(linear, penguins):
    some = penguins[0][linear.labels_ == 1]
    description = describe(linear, some)
    assert [cluster.size for cluster in description] == [0, len(some), 0]
    empty = description[0]
    assert empty.share == 0
    assert empty.typical == empty.worst == ()
    assert len(empty.components) == 2
    json.dumps(description.to_dict(), allow_nan=False)


# TAE --------------------------------------------------------------------------------------------


def test_directions_of_a_tae_are_those_of_what_it_gives_back(deep, penguins):
    X = penguins[0]
    given_back = deep.reconstruct(X)
    for cluster in describe(deep, X):
        own = deep.labels_ == cluster.label
        off = given_back[own] - given_back[own].mean(0)
        span = np.linalg.svd(off, full_matrices=False)[2][:2]
        found = np.array(
            [[dict(c.loadings)[f"x{i}"] for i in range(4)] for c in cluster.components]
        )
        np.testing.assert_allclose(found.T @ found, span.T @ span, atol=1e-5)
        assert all(component.loadings[0].value > 0 for component in cluster.components)
        variances = ((X[own] - X[own].mean(0)) @ found.T).var(0)
        np.testing.assert_allclose([c.variance for c in cluster.components], variances, rtol=1e-6)
        whole = ((X[own] - X[own].mean(0)) ** 2).sum()
        left = ((X[own] - given_back[own]) ** 2).sum()
        assert cluster.explained == pytest.approx(1 - left / whole, abs=1e-6)


def test_a_tae_asks_for_samples(deep):
    with pytest.raises(InvalidInputError, match="X must be given to describe a TAE"):
        describe(deep)


def test_images_are_described_like_rows():
    digits = load_digits()
    images = digits.data[:80].reshape(-1, 8, 8) / 16
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so few epochs may leave a cluster empty
        model = TAE(2, latent_dim=2, architecture="conv", max_epochs=1, random_state=0).fit(images)
    description = describe(model, images)
    assert description.n_samples == 80
    assert description[0].center.shape == (64,)
    flat = describe(model, images.reshape(80, -1))
    assert str(flat) == str(description)


# Forms ------------------------------------------------------------------------------------------


def test_tensors_and_tables_say_the_same(linear, penguins, names):
    pandas = pytest.importorskip("pandas")
    X = penguins[0].copy()
    expected = str(describe(linear, X, feature_names=names))
    assert str(describe(linear, pandas.DataFrame(X, columns=names))) == expected
    assert str(describe(linear, torch.as_tensor(X), feature_names=names)) == expected
    table = pandas.DataFrame(X, columns=names)
    named = LinearTAE(3, latent_dim=2, latent_penalty=0.1, random_state=0).fit(table)
    assert str(describe(named)) == str(describe(linear, feature_names=names))


def test_the_text_names_what_matters(linear, penguins, names):
    text = str(describe(linear, penguins[0], feature_names=names))
    assert text.startswith("LinearTAE: 333 samples, 4 features, 3 clusters")
    assert text == repr(describe(linear, penguins[0], feature_names=names))
    for part in ("cluster 2: ", "unlike the rest", "component 1", "typical rows", "body_mass_g"):
        assert part in text


def test_a_dictionary_survives_json_and_a_frame_has_a_row_for_each_cluster(linear, penguins):
    pytest.importorskip("pandas")
    description = describe(linear, penguins[0])
    content = json.loads(json.dumps(description.to_dict(), allow_nan=False))
    assert [cluster["size"] for cluster in content["clusters"]] == [c.size for c in description]
    frame = description.to_frame()
    assert list(frame.index) == [0, 1, 2]
    np.testing.assert_array_equal(frame["center_x3"], linear.cluster_centers_[:, 3])
    assert frame["size"].sum() == 333


def test_how_much_is_listed_is_a_choice(linear, penguins):
    cluster = describe(linear, penguins[0], n_features=1, n_members=0)[0]
    assert len(cluster.defining) == len(cluster.components[0].loadings) == 1
    assert cluster.typical == cluster.worst == ()


@pytest.mark.parametrize(
    ("change", "error", "parameter"),
    [
        ({"model": LinearTAE(3)}, NotFittedError, "LinearTAE"),
        ({"model": LinearTAE(3), "X": None}, NotFittedError, "LinearTAE"),
        ({"X": np.zeros((9, 3))}, InvalidInputError, "3 features"),
        ({"feature_names": ["a", "b"]}, InvalidParameterError, "feature_names"),
        ({"n_features": 0}, InvalidParameterError, "n_features"),
        ({"n_members": -1}, InvalidParameterError, "n_members"),
    ],
)
def test_bad_input_names_the_parameter(linear, penguins, change, error, parameter):
    with pytest.raises(error, match=parameter):
        describe(**{"model": linear, "X": penguins[0], **change})


def test_columns_that_know_missing_values_are_numbers():
    pandas = pytest.importorskip("pandas")
    X, _ = lines_3d(60, random_state=0)
    plain = pandas.DataFrame(X, columns=list("abcdef"))
    model = LinearTAE(3, 1, random_state=0).fit(plain)
    assert str(describe(model, plain.astype("Float64"))) == str(describe(model, plain))
