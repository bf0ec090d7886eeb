"""What a model says is told in the units of the features, whatever scale it was fitted on."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_wine
from sklearn.decomposition import PCA
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)

from tensorae import TAE, LinearTAE
from tensorae.data import Scaling
from tensorae.datasets import load_penguins
from tensorae.exceptions import InvalidParameterError
from tensorae.inspect import describe
from tensorae.inspect.projections import cluster_axes, rank_features, separating_pair
from tensorae.inspect.samples import ClusteredSamples

SCALERS = [StandardScaler(), MaxAbsScaler(), MinMaxScaler((-1, 2)), RobustScaler()]


@pytest.fixture(scope="module")
def grams():
    """Penguins in millimetres and grams."""
    return load_penguins().data


@pytest.fixture(params=["linear", "deep"])
def fitted(request, grams):
    scaler = StandardScaler().fit(grams)
    model = LinearTAE(3, latent_dim=1, random_state=0)
    if request.param == "deep":
        model = TAE(3, latent_dim=1, max_epochs=5, random_state=0)
    return model.fit(scaler.transform(grams)), scaler


def test_only_centres_and_steps_are_told_in_other_units(fitted, grams):
    model, scaler = fitted
    plain = describe(model, scaler.transform(grams))
    for own, cluster in zip(describe(model, grams, scaler=scaler), plain, strict=True):
        center = scaler.inverse_transform(cluster.center[None])[0]
        np.testing.assert_allclose(own.center, center)
        assert own.defining == cluster.defining
        assert own.explained == cluster.explained
        for part, component in zip(own.components, cluster.components, strict=True):
            np.testing.assert_array_equal(part.direction, component.direction)
            np.testing.assert_allclose(part.step, component.step * scaler.scale_)
            assert np.linalg.norm(component.step) ** 2 == pytest.approx(component.variance)


def test_a_linear_model_is_described_in_units_without_samples(grams):
    scaler = MaxAbsScaler().fit(grams)
    model = LinearTAE(3, latent_dim=1, random_state=0).fit(scaler.transform(grams))
    centers = [cluster.center for cluster in describe(model, scaler=scaler)]
    np.testing.assert_allclose(centers, scaler.inverse_transform(model.cluster_centers_))


@pytest.mark.parametrize("scaler", SCALERS, ids=lambda scaler: type(scaler).__name__)
@pytest.mark.parametrize("named", [False, True])
def test_samples_are_those_of_the_table_and_of_the_fit(scaler, named, grams):
    X = pd.DataFrame(grams, columns=list("abcd")) if named else grams
    scaled = scaler.fit_transform(X)
    model = LinearTAE(3, latent_dim=1, random_state=0).fit(scaled)
    samples = ClusteredSamples.of(model, X, scaler=scaler)
    np.testing.assert_array_equal(samples.values, grams)
    np.testing.assert_array_equal(samples.scaled.values, scaled)
    np.testing.assert_array_equal(samples.labels, model.labels_)
    back = scaler.inverse_transform(model.reconstruct(scaled))
    np.testing.assert_allclose(samples.reconstructions, back)
    for line in cluster_axes(samples):
        reach = 2 * model.explained_variance_[line.cluster, 0] ** 0.5
        ends = np.array([[-reach], [reach]]) * model.components_[line.cluster, 0]
        ends = scaler.inverse_transform(model.cluster_centers_[line.cluster] + ends)
        np.testing.assert_allclose(line.points, ends)
    assert samples.names == (("a", "b", "c", "d") if named else ("x0", "x1", "x2", "x3"))


def test_misfits_are_the_sum_of_their_parts(fitted, grams):
    model, scaler = fitted
    samples = ClusteredSamples.of(model, grams, scaler=scaler)
    parts = samples.misfit_parts(np.arange(samples.n))
    assert parts.shape == (333, 5)
    np.testing.assert_allclose(parts.sum(1), samples.misfit, rtol=1e-4)


def test_what_is_no_scaling_of_the_columns_is_refused(grams):
    model = LinearTAE(3, latent_dim=1, random_state=0).fit(grams)
    mixing = PCA(whiten=True).fit(grams)
    bent = QuantileTransformer(n_quantiles=20).fit(grams)
    for wrong in (mixing, bent, StandardScaler().fit(grams[:, :3])):
        with pytest.raises(InvalidParameterError, match="scaler"):
            describe(model, grams, scaler=wrong)
    with pytest.raises(InvalidParameterError, match="scaler"):
        describe(model, grams, scaler="standard")
    with pytest.raises(InvalidParameterError, match="scaler"):
        describe(model, grams, scaler=Scaling.none(3))


# The pair that separates ------------------------------------------------------------------------


def test_a_pair_separates_that_neither_of_its_features_separates(rng):
    labels = np.arange(300) % 2
    X = rng.normal(size=(300, 6))
    X[:, 4] *= 5
    X[:, 1] = X[:, 4] + np.where(labels, 1.5, -1.5) + 0.2 * rng.normal(size=300)
    X[:, 0] += labels  # its centres lie further apart, in standard deviations
    model = LinearTAE(2, latent_dim=1, random_state=0).fit(X, labels=labels)
    model.labels_ = labels
    samples = ClusteredSamples(model, X, X, tuple("abcdef"), labels, Scaling.none(6))
    assert separating_pair(samples) == (1, 4)


def test_wine_is_seen_from_where_its_clusters_lie_apart():
    X = load_wine().data
    scaler = StandardScaler().fit(X)
    model = LinearTAE(3, latent_dim=1, random_state=0).fit(scaler.transform(X))
    samples = ClusteredSamples.of(model, X, scaler=scaler)

    def found(pair):
        """Share of the rows whose neighbours on the map are of their cluster."""
        x = scaler.transform(X)[:, list(pair)]
        return KNeighborsClassifier(10).fit(x, model.labels_).score(x, model.labels_)

    everywhere = [found((i, j)) for i in range(13) for j in range(i)]
    assert found(separating_pair(samples)) > np.quantile(everywhere, 0.9)
    assert found(separating_pair(samples)) >= found(rank_features(samples)[:2])


@pytest.mark.parametrize(("k", "d"), [(1, 3), (2, 2), (3, 30)])
def test_every_model_has_a_pair(k, d, rng):
    X = rng.normal(size=(40, d))
    X[:, 0] = 1  # does not vary
    model = LinearTAE(k, latent_dim=1, random_state=0).fit(X)
    i, j = separating_pair(ClusteredSamples.of(model, X))
    assert 0 <= i < j < d
