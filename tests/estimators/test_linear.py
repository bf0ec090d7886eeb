"""What a fitted LinearTAE publishes, and that it serves many rows like few."""

import warnings

import numpy as np
import pytest
import torch
from sklearn.exceptions import ConvergenceWarning

from tensorae import LinearTAE
from tensorae.datasets import lines_3d
from tensorae.estimators.base import BaseTAE

METHODS = ["predict", "predict_proba", "costs", "transform", "reconstruct", "score_samples"]


@pytest.fixture(scope="module")
def model(two_lines):
    return LinearTAE(2, 3, random_state=0).fit(two_lines[0])


def test_attributes_have_their_shapes(model):
    shapes = {
        "labels_": (150,),
        "cluster_centers_": (2, 5),
        "components_": (2, 3, 5),
        "explained_variance_": (2, 3),
        "explained_variance_ratio_": (2, 3),
        "noise_variance_": (2,),
        "weights_": (2,),
        "loss_path_": (model.n_iter_ + 1,),
        "objective_path_": (model.n_iter_ + 1,),
        "entropy_path_": (0,),
    }
    for name, shape in shapes.items():
        assert getattr(model, name).shape == shape, name
    assert isinstance(model.loss_, float)
    assert isinstance(model.latent_penalty_, float)
    assert isinstance(model.n_iter_, int)
    assert model.converged_ is True
    assert model.n_features_in_ == 5
    assert model.labels_.dtype == np.int32


@pytest.mark.parametrize("method", METHODS)
def test_many_rows_are_served_like_few(model, two_lines, method):
    """More rows than a chunk: every row gets what it would get alone."""
    many = np.resize(two_lines[0], (8192 + 150, 5))
    together = getattr(model, method)(many)
    assert len(together) == len(many)
    for rows in (slice(0, 3), slice(8190, 8195), slice(-2, None)):
        np.testing.assert_allclose(together[rows], getattr(model, method)(many[rows]), atol=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_one_row_is_served(model, two_lines, method):
    row = two_lines[0][:1]
    np.testing.assert_allclose(
        getattr(model, method)(row), getattr(model, method)(two_lines[0])[:1], atol=1e-9
    )


def test_fit_transform_equals_fit_then_transform(model, two_lines):
    codes = LinearTAE(2, 3, random_state=0).fit_transform(two_lines[0])
    np.testing.assert_array_equal(codes, model.transform(two_lines[0]))


def test_a_sample_that_fits_no_cluster_has_a_low_score(model, two_lines):
    usual = model.score_samples(two_lines[0])
    assert model.score_samples(np.full((1, 5), 30.0))[0] < usual.min()
    assert model.score(two_lines[0]) == pytest.approx(usual.mean())


def test_results_do_not_follow_gradients(model, two_lines):
    data = torch.tensor(two_lines[0], requires_grad=True)
    for method in METHODS:
        assert not getattr(model, method)(data).requires_grad


def test_the_base_class_is_not_an_estimator_by_itself():
    with pytest.raises(TypeError, match="abstract"):
        BaseTAE()


def test_weights_that_sum_to_one_denoise_like_no_weights(rng):
    X = np.vstack([rng.randn(60, 4) * [3, 1, 0.2, 0.2], rng.randn(60, 4) * [0.2, 0.2, 1, 3] + 8])
    plain = LinearTAE(2, 1, random_state=0).fit(X)
    weighted = LinearTAE(2, 1, random_state=0).fit(X, sample_weight=np.full(120, 1 / 120))
    np.testing.assert_allclose(weighted.denoise(X, noise=0.2), plain.denoise(X, noise=0.2))


def test_names_of_an_earlier_fit_are_forgotten():
    pd = pytest.importorskip("pandas")
    data = np.random.RandomState(0).randn(20, 3)
    model = LinearTAE(2, 1, random_state=0).fit(pd.DataFrame(data, columns=list("abc")))
    model.fit(torch.from_numpy(data[:, :2].copy()))
    assert not hasattr(model, "feature_names_in_")
    assert model.n_features_in_ == 2


def test_whole_numbers_in_tensors_are_exact():
    data = np.random.RandomState(0).randint(-50, 50, size=(40, 3)) + 10**9
    by_tensor = LinearTAE(2, 1, random_state=0).fit(torch.from_numpy(data))
    assert by_tensor.loss_ == LinearTAE(2, 1, random_state=0).fit(data).loss_


def test_a_rule_that_a_user_adds_is_called(monkeypatch):
    from tensorae.assignment import RULES, Rule, lloyd

    calls = []

    def counted(costs, previous, context):
        calls.append(costs.shape)
        return lloyd(costs, previous, context)

    monkeypatch.setitem(RULES, "counted", Rule(counted))
    X = np.random.RandomState(0).randn(60, 3)
    start = X[:3]
    mine = LinearTAE(3, 1, assignment="counted", init=start).fit(X)
    assert calls
    assert mine.loss_ == pytest.approx(LinearTAE(3, 1, init=start).fit(X).loss_)


def test_very_many_soft_steps_do_not_overflow():
    X = np.random.RandomState(0).randn(200, 2)
    model = LinearTAE(
        2, 1, assignment="em", latent_penalty=1.0, tol=0, max_iter=4200, n_init=1, random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        assert np.isfinite(model.fit(X).loss_)


def test_many_clusters_of_few_points_are_fitted_in_reasonable_time():
    X = np.random.RandomState(0).randn(120, 4)
    model = LinearTAE(60, 2, n_init=1, random_state=0).fit(X)
    assert len(np.unique(model.labels_)) == 60


def test_submodules_and_errors_are_found_from_the_top():
    import tensorae

    assert tensorae.datasets.lines_3d
    from tensorae.exceptions import NotFittedError, TensoraeError

    assert issubclass(NotFittedError, TensoraeError)


def test_partial_fit_keeps_clusters_with_equal_centers_apart():
    """Two lines that cross: sums matched to clusters by their centres would change places."""
    along = np.r_[-4:0, 1:5].astype(float)
    X = np.r_[np.c_[along, 0 * along], np.c_[0 * along, along]]
    model = LinearTAE(2, 1, random_state=0).fit(X)
    loss = model.loss_
    assert loss == pytest.approx(12)
    model.partial_fit(X)
    assert model.loss_ == pytest.approx(loss)
    np.testing.assert_allclose(np.abs(model.components_).sum(0), [[1, 1]], atol=1e-9)


def test_partial_fit_goes_on_from_sums_in_the_order_of_old_model_files():
    X, _ = lines_3d(random_state=0)
    model = LinearTAE(3, 1, random_state=0).fit(X)
    old = LinearTAE(3, 1, random_state=0).fit(X)
    old._moments = {name: part[[2, 0, 1]] for name, part in old._moments.items()}
    model.partial_fit(X)
    old.partial_fit(X)
    np.testing.assert_allclose(old.components_, model.components_, atol=1e-9)
    assert old.loss_ == pytest.approx(model.loss_)
