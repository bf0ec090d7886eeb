"""One meaning in every setting: predict is the most probable cluster, score the log-density."""

import numpy as np
import pytest
from scipy.special import logsumexp, softmax
from scipy.stats import multivariate_normal
from sklearn.datasets import load_iris, make_blobs
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score

from tensorae import TAE, LinearTAE, load
from tensorae.data import Batches

pytestmark = pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning", "ignore:the clusters do not look Gaussian"
)

NUMBER = {"latent_dim": 1, "latent_penalty": 0.1}
SETTINGS = {
    "default": {},
    "shared": {"spread": "shared"},
    "shared, lloyd": {"spread": "shared", "assignment": "lloyd"},
    "shared, projected": {"spread": "shared", "assignment": "projected", "max_iter": 3000},
    "shared, constrained": {"spread": "shared", "assignment": "constrained", "max_iter": 3000},
    "own": {"spread": "own"},
    "own, lloyd": {"spread": "own", "assignment": "lloyd"},
    "number": NUMBER,
    "number, em": {**NUMBER, "assignment": "em"},
    "number, projected": {**NUMBER, "assignment": "projected", "max_iter": 3000},
    "number, constrained": {**NUMBER, "assignment": "constrained", "max_iter": 3000},
    "k-means": {"latent_penalty": 1.0},
    "no code, em": {"latent_dim": 0, "spread": "shared"},
}
STEPS = ("projected", "constrained")  # which end as "lloyd" does
CASES = [
    (name, kind)
    for name in SETTINGS
    for kind in ("whole", "missing", "float32", "grid")
    if kind == "whole" or not name.endswith(STEPS)
]
DEEP = {
    "lloyd": {},
    "em": {"assignment": "em"},
    "projected": {"assignment": "projected"},
    "constrained": {"assignment": "constrained"},
    "vae": {"architecture": "vae"},
    "vae, em": {"architecture": "vae", "assignment": "em"},
}


def uneven(kind):
    """Groups of 85, 30 and 10 rows that overlap, so that mixing weights matter."""
    rng = np.random.RandomState(0)
    y = np.repeat([0, 1, 2], [85, 30, 10])
    places = np.array([[0.0, 0, 0], [2.5, 0, 0], [0, 2.5, 0]])
    X = places[y] + rng.randn(125, 3) * [1.2, 0.8, 0.5]
    if kind == "missing":
        holes = rng.rand(125, 3) < 0.1
        X[holes & ~holes.all(1, keepdims=True)] = np.nan
    if kind == "float32":
        return X.astype(np.float32)
    return np.round(X) if kind == "grid" else X  # ties and duplicates


@pytest.fixture(scope="module", params=CASES, ids=", ".join)
def fitted(request):
    name, kind = request.param
    X = uneven(kind)
    return LinearTAE(4, random_state=0, n_init=1, tol=1e-4, **SETTINGS[name]).fit(X), X


def joint_by_hand(model, X):
    """Log of weight times density (n, k) of the mixture that is published, by scipy."""
    (k, h, d), along = model.components_.shape, model.explained_variance_.astype(float)
    noise, weights = model.noise_variance_.astype(float), model.weights_.astype(float)
    if model.spread_ == "shared":
        costs = noise * (d - h) + model.latent_penalty_ * along.sum(1)
        noise = np.full(k, weights @ costs / d)
        along = np.repeat(noise[:, None] / model.latent_penalty_, h, axis=1)
    else:
        counted = np.arange(h) < model.latent_dims_[:, None]
        along = np.where(counted, along, noise[:, None])
    joint = np.empty((len(X), k))
    for j in range(k):
        axes = model.components_[j].astype(float)
        covariance = noise[j] * np.eye(d) + axes.T @ np.diag(along[j] - noise[j]) @ axes
        for there in np.unique(~np.isnan(X), axis=0):
            rows = (~np.isnan(X) == there).all(1)
            center = model.cluster_centers_[j][there].astype(float)
            part = multivariate_normal(center, covariance[np.ix_(there, there)])
            joint[rows, j] = np.log(weights[j]) + part.logpdf(X[rows][:, there].astype(float))
    return joint


# LinearTAE ----------------------------------------------------------------------------------------


def test_labels_and_predictions_are_the_most_probable_clusters(fitted):
    model, X = fitted
    labels = model.predict(X)
    np.testing.assert_array_equal(labels, model.predict_proba(X).argmax(1))
    np.testing.assert_array_equal(labels, model.labels_)
    np.testing.assert_array_equal(np.bincount(labels, minlength=4), model.cluster_sizes_)
    unseen = (np.nan_to_num(X) * 1.5 + 0.2).astype(X.dtype)
    np.testing.assert_array_equal(model.predict(unseen), model.predict_proba(unseen).argmax(1))


def test_codes_and_reconstructions_are_those_of_the_predicted_cluster(fitted):
    model, X = fitted
    decoded = model.inverse_transform(model.transform(X), model.predict(X))
    np.testing.assert_allclose(model.reconstruct(X), decoded, atol=1e-5)


def test_the_loss_is_the_cost_of_all_rows_in_their_clusters(fitted):
    model, X = fitted
    own = model.costs(X)[np.arange(len(X)), model.labels_]
    assert model.loss_ == pytest.approx(own.sum(dtype=float), rel=1e-5, abs=1e-3)


def test_the_score_is_the_log_density_and_its_mean(fitted):
    model, X = fitted
    joint = joint_by_hand(model, X)
    rtol = 1e-3 if X.dtype == np.float32 else 1e-6
    scores = model.score_samples(X)
    np.testing.assert_allclose(scores, logsumexp(joint, axis=1), rtol=rtol, atol=rtol)
    np.testing.assert_array_equal(scores, model.log_density(X))
    assert model.score(X) == pytest.approx(scores.mean(), rel=1e-6)


def test_priors_are_equal_where_one_spread_has_hard_labels_and_else_the_weights(fitted):
    model, X = fitted
    joint = joint_by_hand(model, X)
    if model.spread_ == "shared" and model.assignment_ != "em":
        joint -= np.log(model.weights_)
        np.testing.assert_array_equal(model.predict(X), model.costs(X).argmin(1))
    atol = 1e-3 if X.dtype == np.float32 else 1e-6
    np.testing.assert_allclose(model.predict_proba(X), softmax(joint, axis=1), atol=atol)


def test_a_saved_model_and_batches_answer_the_same(fitted, tmp_path):
    model, X = fitted
    model.save(tmp_path / "model.tae")
    again = load(tmp_path / "model.tae")
    assert again.assignment_ == model.assignment_
    for name in ("predict", "predict_proba", "score_samples"):
        expected = getattr(model, name)(X)
        np.testing.assert_array_equal(getattr(again, name)(X), expected)
        streamed = getattr(model, name)(Batches(X, batch_rows=64))
        np.testing.assert_allclose(streamed, expected, rtol=1e-5, atol=1e-5)


def test_parameters_set_after_the_fit_change_no_answer():
    X = uneven("whole")
    model = LinearTAE(4, spread="shared", random_state=0).fit(X)
    expected = model.predict_proba(X)
    model.set_params(assignment="lloyd")
    np.testing.assert_array_equal(model.predict_proba(X), expected)


def test_rows_on_a_plane_have_a_finite_density():
    rng = np.random.RandomState(0)
    X = rng.randn(60, 2) @ rng.randn(2, 4)
    for dtype in (np.float32, np.float64):
        exact = X.astype(dtype)
        model = LinearTAE(1, 2, latent_penalty=0.1).fit(exact)
        assert np.isfinite(model.score_samples(exact)).all()
        assert np.isfinite(model.score_samples(exact + dtype(9))).all()


def test_filled_values_go_by_the_weights_of_the_density():
    """A row that shows nothing is expected at the mean of all rows, not of all centres."""
    X = uneven("whole")
    model = LinearTAE(3, random_state=0, **NUMBER).fit(X)
    filled = model.impute(np.full((1, 3), np.nan))
    np.testing.assert_allclose(filled[0], model.weights_ @ model.cluster_centers_, atol=1e-9)
    np.testing.assert_allclose(filled[0], X.mean(0), atol=1e-9)


def test_a_batch_is_absorbed_as_it_is_predicted():
    X = uneven("whole")
    model = LinearTAE(3, 1, latent_penalty=0.3, assignment="em", random_state=0).partial_fit(X)
    expected = 125 * model.weights_ + np.bincount(model.predict(X), minlength=3)
    assert (model.costs(X).argmin(1) != model.predict(X)).any()
    model.partial_fit(X)
    np.testing.assert_allclose(250 * model.weights_, expected, rtol=1e-9)


# Comparing models ---------------------------------------------------------------------------------

FOLDS = KFold(3, shuffle=True, random_state=0)


@pytest.mark.parametrize("name", ["iris", "planted"])
def test_a_grid_search_over_the_number_of_clusters_finds_the_groups(name):
    X = load_iris().data if name == "iris" else make_blobs(240, 4, centers=3, random_state=0)[0]
    search = GridSearchCV(LinearTAE(random_state=0), {"n_clusters": range(2, 6)}, cv=FOLDS)
    assert search.fit(X).best_params_ == {"n_clusters": 3}


def test_scores_of_folds_are_on_one_scale_whatever_spread_each_chooses():
    X = load_iris().data
    own, shared, chosen = (
        cross_val_score(LinearTAE(3, spread=spread, random_state=0), X, cv=FOLDS)
        for spread in ("own", "shared", "auto")
    )
    for one, other, free in zip(own, shared, chosen, strict=True):
        assert min(abs(free - one), abs(free - other)) < 0.1
    assert np.ptp(chosen) < 1


def test_one_round_cluster_has_one_score_under_every_setting():
    X = np.random.RandomState(0).randn(2000, 3)
    options = (
        {"latent_penalty": 1.0},
        {"latent_dim": 0, "spread": "shared"},
        {"latent_dim": 0, "spread": "own"},
    )
    scores = [LinearTAE(1, **option).fit(X).score(X) for option in options]
    expected = multivariate_normal(X.mean(0), X.var()).logpdf(X).mean()
    np.testing.assert_allclose(scores, expected, atol=1e-3)


# TAE ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "kind"), [*((name, "whole") for name in DEEP), ("lloyd", "float32"), ("em", "float32")]
)
def test_networks_agree_with_their_probabilities(name, kind, tmp_path):
    X = uneven(kind)
    model = TAE(3, 1, max_epochs=4, random_state=0, **DEEP[name]).fit(X)
    model.save(tmp_path / "model.tae")
    costs = model.costs(X).astype(float)
    for one in (model, load(tmp_path / "model.tae")):
        labels, proba = one.predict(X), one.predict_proba(X)
        np.testing.assert_array_equal(labels, proba.argmax(1))
        np.testing.assert_array_equal(labels, model.labels_)
    if model.assignment_ != "em":
        np.testing.assert_array_equal(labels, costs.argmin(1))
    joint = -costs / (2 * model._noise_variance)
    if model.assignment_ == "em":
        joint += np.log(model.weights_)
    np.testing.assert_allclose(proba, softmax(joint, axis=1), atol=1e-3)
    if not name.startswith("vae"):
        np.testing.assert_allclose(model.score_samples(X), -costs.min(1), rtol=1e-6)
