"""What a fitted LinearTAE publishes beside what both estimators do, and what it endures."""

import warnings

import numpy as np
import pytest
import torch
from sklearn.exceptions import ConvergenceWarning

from tensorae import LinearTAE
from tensorae.datasets import lines_3d


def test_components_variances_and_paths_have_their_shapes(two_lines):
    model = LinearTAE(2, 3, random_state=0, latent_penalty=0.1).fit(two_lines[0])
    shapes = {
        "components_": (2, 3, 5),
        "explained_variance_": (2, 3),
        "explained_variance_ratio_": (2, 3),
        "noise_variance_": (2,),
        "loss_path_": (model.n_iter_ + 1,),
        "objective_path_": (model.n_iter_ + 1,),
        "entropy_path_": (0,),
    }
    for name, shape in shapes.items():
        assert getattr(model, name).shape == shape, name
    assert model.converged_ is True


def test_weights_that_sum_to_one_denoise_like_no_weights(rng):
    X = np.vstack([rng.randn(60, 4) * [3, 1, 0.2, 0.2], rng.randn(60, 4) * [0.2, 0.2, 1, 3] + 8])
    plain = LinearTAE(2, 1, random_state=0, latent_penalty=0.1).fit(X)
    weighted = LinearTAE(2, 1, random_state=0, latent_penalty=0.1).fit(
        X, sample_weight=np.full(120, 1 / 120)
    )
    np.testing.assert_allclose(weighted.denoise(X, noise=0.2), plain.denoise(X, noise=0.2))


def test_whole_numbers_in_tensors_are_exact():
    data = np.random.RandomState(0).randint(-50, 50, size=(40, 3)) + 10**9
    by_tensor = LinearTAE(2, 1, random_state=0, latent_penalty=0.1).fit(torch.from_numpy(data))
    by_array = LinearTAE(2, 1, random_state=0, latent_penalty=0.1).fit(data)
    assert by_tensor.loss_ == pytest.approx(by_array.loss_, rel=1e-9)


def test_a_rule_that_a_user_adds_is_called(monkeypatch):
    from tensorae.assignment import RULES, Rule, lloyd

    calls = []

    def counted(costs, previous, context):
        calls.append(costs.shape)
        return lloyd(costs, previous, context)

    monkeypatch.setitem(RULES, "counted", Rule(counted))
    X = np.random.RandomState(0).randn(60, 3)
    start = X[:3]
    mine = LinearTAE(3, 1, assignment="counted", init=start, latent_penalty=0.1).fit(X)
    assert calls
    assert mine.loss_ == pytest.approx(LinearTAE(3, 1, init=start, latent_penalty=0.1).fit(X).loss_)


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
    model = LinearTAE(60, 2, n_init=1, random_state=0, latent_penalty=0.1).fit(X)
    assert len(np.unique(model.labels_)) == 60


def test_partial_fit_goes_on_from_sums_in_the_order_of_old_model_files():
    X, _ = lines_3d(random_state=0)
    model = LinearTAE(3, 1, random_state=0, latent_penalty=0.1).fit(X)
    old = LinearTAE(3, 1, random_state=0, latent_penalty=0.1).fit(X)
    old._moments = {name: part[[2, 0, 1]] for name, part in old._moments.items()}
    model.partial_fit(X)
    old.partial_fit(X)
    np.testing.assert_allclose(old.components_, model.components_, atol=1e-9)
    assert old.loss_ == pytest.approx(model.loss_)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("offset", [0, 1, 1000])
def test_centers_that_differ_by_rounding_do_not_exchange_clusters_in_partial_fit(offset, dtype):
    line = np.array([[sign * i, 0.0] for i in range(1, 5) for sign in (-1, 1)])
    cross = np.vstack([line, line[:, ::-1]])
    for seed in range(8):
        rng = np.random.RandomState(seed)
        turned = cross @ np.linalg.qr(rng.randn(2, 2))[0] + offset * rng.randn(2)
        model = LinearTAE(2, 1, random_state=0, latent_penalty=0.1).fit(turned.astype(dtype))
        loss = model.loss_
        model.partial_fit(turned.astype(dtype))
        assert model.costs(turned).min(1).sum() == pytest.approx(loss, rel=1e-2)


@pytest.mark.parametrize(("dtype", "tiny"), [(np.float32, 1e-17), (np.float64, 1e-150)])
def test_rows_and_codes_next_to_zero_are_taken_after_the_fit(two_lines, dtype, tiny):
    """Rounding leaves such codes of samples at a centre, and such rows of scaled tables."""
    X = two_lines[0]
    model = LinearTAE(2, 1, random_state=0, latent_penalty=0.1).fit(X.astype(dtype))
    row, code = (np.full((1, m), tiny, dtype) for m in (X.shape[1], 1))
    assert model.predict(row) == model.predict(0 * row)
    points = model.inverse_transform(code, [1])
    np.testing.assert_allclose(points[0], model.cluster_centers_[1], rtol=1e-5)
