"""Laws of missing values: EM on what is observed, whatever the rule, the spread or the order."""

import numpy as np
import pytest
from scipy.stats import norm, ortho_group
from sklearn.cluster import KMeans
from sklearn.datasets import load_iris
from sklearn.metrics import adjusted_rand_score

from tensorae import Batches, LinearTAE

IRIS = load_iris().data
KINDS = {
    "own": {"spread": "own"},
    "shared": {"spread": "shared"},
    "λ given": {"latent_penalty": 0.1},
}
every_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
soft_and_hard = pytest.mark.parametrize("assignment", ["em", "lloyd"])


def with_missing(X, share=0.25, seed=0):
    """The same with a share of the values gone at random, and no row without any."""
    rng = np.random.RandomState(seed)
    holes = rng.rand(*X.shape) < share
    holes[np.arange(len(X)), rng.randint(X.shape[1], size=len(X))] = False
    return np.where(holes, np.nan, X)


PARTIAL = with_missing(IRIS)
START = IRIS[[0, 60, 120]]


def drawn(n, seed=0):
    """Two long clusters in four features, with their means and covariances."""
    rng = np.random.RandomState(seed)
    means = np.array([[0.0, 0, 0, 0], [4.0, -4, 4, 0]])
    turns = ortho_group.rvs(4, size=2, random_state=7)
    roots = np.array([2.0, 1.2, 0.7, 0.5])[:, None] * turns
    labels = np.arange(n) % 2
    X = means[labels] + np.einsum("nd,nde->ne", rng.randn(n, 4), roots[labels])
    return X, means, np.swapaxes(roots, 1, 2) @ roots


# Nothing missing ----------------------------------------------------------------------------------


@every_kind
def test_costs_of_whole_rows_are_the_same_beside_rows_with_missing_values(kind):
    model = LinearTAE(3, 1, init=START, **kind).fit(IRIS)
    both = np.vstack([IRIS, PARTIAL])
    for name in ("costs", "predict_proba", "log_density", "transform", "reconstruct", "predict"):
        alone, beside = getattr(model, name)(IRIS), getattr(model, name)(both)[: len(IRIS)]
        np.testing.assert_allclose(beside, alone, rtol=1e-7, atol=1e-9, err_msg=name)
    beside = model.denoise(both, 0.2)[: len(IRIS)]
    np.testing.assert_allclose(beside, model.denoise(IRIS, 0.2), atol=1e-9)


# Likelihood ---------------------------------------------------------------------------------------


@every_kind
@soft_and_hard
def test_what_is_minimised_never_rises(kind, assignment):
    for seed in range(2):
        model = LinearTAE(3, 1, assignment=assignment, init=IRIS[seed : seed + 3], **kind)
        path = model.fit(with_missing(IRIS, 0.3, seed)).objective_path_
        assert len(path) > 3
        assert (np.diff(path) <= 1e-9 * np.abs(path[:-1])).all()


@pytest.mark.parametrize("penalty", [0.1, "auto"])
def test_what_is_minimised_is_minus_the_likelihood_of_what_is_observed(penalty):
    model = LinearTAE(3, 1, spread="shared", assignment="em", latent_penalty=penalty, tol=1e-8)
    model.set_params(init=START, max_iter=3000).fit(PARTIAL)
    assert model.converged_
    assert model.objective_path_[-1] == pytest.approx(-model.log_density(PARTIAL).sum(), rel=1e-5)


def em_of_one_gaussian(X, n_steps=60):
    """Mean and covariance that maximise the likelihood of what is observed."""
    n, d = X.shape
    mean, covariance = np.nanmean(X, axis=0), np.diag(np.nanvar(X, axis=0))
    for _ in range(n_steps):
        filled, spread = X.copy(), np.zeros((d, d))
        for row in filled:
            m = np.isnan(row)
            across = covariance[np.ix_(m, ~m)] @ np.linalg.inv(covariance[np.ix_(~m, ~m)])
            row[m] = mean[m] + across @ (row[~m] - mean[~m])
            spread[np.ix_(m, m)] += covariance[np.ix_(m, m)] - across @ covariance[np.ix_(~m, m)]
        mean = filled.mean(axis=0)
        covariance = ((filled - mean).T @ (filled - mean) + spread) / n
    return mean, covariance, filled


def test_one_cluster_equals_em_for_one_gaussian():
    """But for a tenth of a row that keeps variances above zero."""
    X = with_missing(drawn(300)[0], 0.3)
    model = LinearTAE(1, 3, spread="own", tol=1e-12, max_iter=3000).fit(X)
    mean, covariance, filled = em_of_one_gaussian(X)
    scale = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose(model.cluster_centers_[0], mean, atol=2e-3 * scale.max())
    excess = model.explained_variance_[0] - model.noise_variance_[0]
    axes = model.components_[0]
    found = (axes.T * excess) @ axes + model.noise_variance_[0] * np.eye(4)
    np.testing.assert_allclose(found, covariance, atol=5e-3 * scale.max() ** 2)
    np.testing.assert_allclose(model.impute(X), filled, atol=2e-2 * scale.max())


def test_penalty_one_with_one_cluster_is_the_mean_of_what_is_there():
    model = LinearTAE(1, 1, latent_penalty=1, tol=1e-12, max_iter=3000).fit(PARTIAL)
    np.testing.assert_allclose(model.cluster_centers_[0], np.nanmean(PARTIAL, axis=0), atol=1e-4)
    np.testing.assert_allclose(
        model.impute(PARTIAL), np.where(np.isnan(PARTIAL), model.cluster_centers_[0], PARTIAL)
    )


def test_penalty_one_is_kmeans_by_what_is_there(blobs):
    """Clusters far apart: labels of k-means on whole rows, centres the means of what is there."""
    X, _ = blobs
    G = with_missing(X, 0.15)
    model = LinearTAE(3, 1, latent_penalty=1, random_state=0, tol=1e-12, max_iter=3000).fit(G)
    seen = ~np.isnan(G[:, :2]).any(axis=1)  # the columns that tell clusters apart
    kmeans = KMeans(3, n_init=5, random_state=0).fit(X)
    assert adjusted_rand_score(model.labels_[seen], kmeans.labels_[seen]) == 1
    means = [np.nanmean(G[model.labels_ == j], axis=0) for j in range(3)]
    np.testing.assert_allclose(model.cluster_centers_, means, atol=1e-3)


# What must not matter -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [*KINDS.values(), {"latent_dim": "auto"}], ids=[*KINDS, "auto"])
def test_permuting_rows_permutes_the_answer(kind):
    order = np.random.RandomState(1).permutation(len(PARTIAL))
    options = {"latent_dim": 1, "random_state": 0, "n_init": 2} | kind
    model, other = LinearTAE(3, **options).fit(PARTIAL), LinearTAE(3, **options).fit(PARTIAL[order])
    np.testing.assert_array_equal(other.labels_, model.labels_[order])
    np.testing.assert_allclose(other.impute(PARTIAL), model.impute(PARTIAL), atol=1e-7)


@every_kind
@soft_and_hard
def test_permuting_columns_permutes_the_answer(blobs, kind, assignment):
    G, start, order = with_missing(blobs[0]), blobs[0][:3], np.array([2, 0, 3, 1])
    options = {"assignment": assignment, "tol": 1e-8} | kind
    model = LinearTAE(3, 1, init=start, **options).fit(G)
    other = LinearTAE(3, 1, init=start[:, order], **options).fit(G[:, order])
    np.testing.assert_array_equal(other.labels_, model.labels_)
    np.testing.assert_allclose(other.impute(G[:, order]), model.impute(G)[:, order], atol=1e-4)


@every_kind
@soft_and_hard
def test_weights_equal_repeated_rows(kind, assignment):
    copies = np.random.RandomState(0).randint(1, 4, len(PARTIAL))
    options = {"init": START, "assignment": assignment, "random_state": 0} | kind
    once = LinearTAE(3, 1, **options).fit(PARTIAL, sample_weight=copies)
    often = LinearTAE(3, 1, **options).fit(np.repeat(PARTIAL, copies, axis=0))
    np.testing.assert_array_equal(np.repeat(once.labels_, copies), often.labels_)
    np.testing.assert_allclose(once.cluster_centers_, often.cluster_centers_, atol=1e-8)
    np.testing.assert_allclose(once.objective_path_, often.objective_path_, rtol=1e-9)


@every_kind
@soft_and_hard
def test_streamed_rows_give_the_answer_of_rows_in_memory(blobs, kind, assignment):
    """They begin with other imputed values, and so may end in another optimum of hard labels;
    where clusters lie apart there is none."""
    G = with_missing(blobs[0], 0.15)
    batches = Batches(G, batch_rows=40)
    options = {"init": blobs[0][:3], "assignment": assignment, "tol": 1e-8} | kind
    here, streamed = (LinearTAE(3, 1, **options).fit(data) for data in (G, batches))
    np.testing.assert_array_equal(streamed.labels_, here.labels_)
    np.testing.assert_allclose(streamed.cluster_centers_, here.cluster_centers_, atol=1e-3)
    np.testing.assert_allclose(streamed.impute(batches), here.impute(G), atol=1e-2)


@every_kind
@soft_and_hard
def test_fit_then_predict_agrees(kind, assignment):
    model = LinearTAE(3, 1, assignment=assignment, init=START, **kind).fit(PARTIAL)
    np.testing.assert_array_equal(model.predict(PARTIAL), model.labels_)
    own = model.costs(PARTIAL)[np.arange(len(PARTIAL)), model.labels_]
    assert model.loss_ == pytest.approx(own.sum(), rel=1e-9)


# What is filled in --------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@every_kind
def test_values_stay_and_filling_twice_changes_nothing(kind, dtype):
    X = PARTIAL.astype(dtype)
    model = LinearTAE(3, 1, init=START, **kind).fit(X)
    there, filled = ~np.isnan(X), model.impute(X)
    draws, deviations = model.impute(X, n_draws=2), model.impute_std(X)
    assert filled.dtype == draws.dtype == deviations.dtype == dtype
    assert np.isfinite(filled).all()
    assert np.isfinite(draws).all()
    np.testing.assert_array_equal(filled[there], X[there])
    np.testing.assert_array_equal(draws[:, there], np.stack([X[there]] * 2))
    np.testing.assert_array_equal(model.impute(filled), filled)
    assert not deviations[there].any()
    assert (deviations[~there] > 0).all()


@pytest.fixture(scope="module")
def planted():
    X, means, _ = drawn(1500)
    G = with_missing(X, 0.3)
    return X, G, LinearTAE(2, 3, init=means, spread="own").fit(G)


def test_draws_vary_as_much_as_is_said(planted):
    _, G, model = planted
    some, holes = G[:100], np.isnan(G[:100])
    draws = model.impute(some, n_draws=200, random_state=0)
    mean, deviation = model.impute(some)[holes], model.impute_std(some)[holes]
    np.testing.assert_allclose(draws.var(axis=0)[holes].sum(), (deviation**2).sum(), rtol=0.05)
    errors = (draws.mean(axis=0)[holes] - mean) / (deviation / 200**0.5)
    assert np.abs(errors).max() < 5
    assert 0.8 < errors.std() < 1.2


def test_ninety_percent_intervals_hold_ninety_percent(planted):
    X, G, model = planted
    holes = np.isnan(G)
    low, high = np.quantile(model.impute(G, n_draws=60, random_state=0), [0.05, 0.95], axis=0)
    inside = (np.clip(X, low, high) == X)[holes].mean()
    assert 0.85 < inside < 0.95
    # A missing value is Gaussian only where the cluster is known.
    holes &= model.predict_proba(G).max(axis=1, keepdims=True) > 0.99
    reach = norm.ppf(0.95) * model.impute_std(G)[holes]
    assert 0.85 < (np.abs(model.impute(G) - X)[holes] <= reach).mean() < 0.95


def test_filling_beats_the_mean_of_the_column(planted):
    X, G, model = planted
    holes = np.isnan(G)
    error = np.square(model.impute(G) - X)[holes].mean()
    means = np.square(np.nanmean(G, axis=0) - X)[holes].mean()
    assert error < 0.4 * means


def test_more_rows_bring_planted_clusters_nearer():
    """Half of the values are gone."""
    errors = []
    for n in (150, 4000):
        worst = []
        for seed in range(2):
            X, means, covariances = drawn(n, seed)
            model = LinearTAE(2, 3, init=means, spread="own").fit(with_missing(X, 0.5, seed))
            worst.append(np.abs(model.cluster_centers_ - means).max())
            excess = model.explained_variance_ - model.noise_variance_[:, None]
            axes = model.components_
            found = np.swapaxes(axes, 1, 2) * excess[:, None] @ axes
            found = found + model.noise_variance_[:, None, None] * np.eye(4)
            worst.append(np.abs(found - covariances).max() / np.abs(covariances).max())
        errors.append(np.mean(worst))
    assert errors[1] < 0.4 * errors[0]
    assert errors[1] < 0.15


# Noise --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", [0.05, 0.3, 1.0])
def test_denoising_rows_with_missing_values_is_no_worse_than_doing_nothing(noise):
    X, *_ = drawn(400)
    noisy = with_missing(X + noise * np.random.RandomState(3).randn(*X.shape), 0.25)
    model = LinearTAE(2, 1, random_state=0).fit(noisy)
    clean, there = model.denoise(noisy, noise), ~np.isnan(noisy)
    assert np.isfinite(clean).all()
    before, after = (np.square(a - X)[there].mean() for a in (noisy, clean))
    assert after <= 1.001 * before
    if noise == 1.0:
        assert after < 0.8 * before


def test_a_few_missing_values_leave_the_choice_of_settings_to_the_complete_rows(rng):
    X = rng.randn(150, 3) + np.repeat([[0, 0, 0], [9, 0, 0], [0, 9, 0]], 50, axis=0)
    gapped = X.copy()
    gapped[[3, 70], [0, 2]] = np.nan
    model = LinearTAE("auto", random_state=0).fit(gapped)
    other = LinearTAE("auto", random_state=0).fit(np.delete(X, [3, 70], axis=0))
    for name in ("n_clusters", "latent_dim", "icl", "chosen"):
        np.testing.assert_allclose(model.comparison_[name], other.comparison_[name])
    assert adjusted_rand_score(np.delete(model.labels_, [3, 70]), other.labels_) == 1
    np.testing.assert_array_equal(model.predict(gapped), model.labels_)


def test_so_they_do_beside_categories(rng):
    pandas = pytest.importorskip("pandas")
    group = np.repeat([0, 1, 2], 60)
    X = rng.randn(180, 2) + 4 * np.array([[0, 0], [1, 0], [0, 1]])[group]
    kind = np.where(rng.rand(180) < 0.9, np.array(list("abc"))[group], "d")
    frame = pandas.DataFrame(X, columns=["x", "y"]).assign(kind=kind)
    gapped = frame.copy()
    gapped.loc[3, "x"] = gapped.loc[70, "y"] = np.nan
    model = LinearTAE("auto", random_state=0).fit(gapped)
    other = LinearTAE("auto", random_state=0).fit(frame.drop(index=[3, 70]))
    for name in ("n_clusters", "latent_dim", "icl", "chosen"):
        np.testing.assert_allclose(model.comparison_[name], other.comparison_[name])
    np.testing.assert_array_equal(np.delete(model.labels_, [3, 70]), other.labels_)
