"""ImputerTAE: fills better than simple imputers, changes nothing that is there, keeps its word."""

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline

from tensorae import Batches, ImputerTAE
from tensorae.exceptions import InvalidInputError, InvalidParameterError


@pytest.fixture(scope="module")
def whole():
    return load_iris().data


@pytest.fixture(scope="module")
def partial(whole):
    holes = np.random.RandomState(0).uniform(size=whole.shape) < 0.3
    holes[holes.all(1)] = False
    return np.where(holes, np.nan, whole)


@pytest.fixture(scope="module")
def fitted(partial):
    return ImputerTAE(random_state=0).fit(partial)


def error(filled, whole, partial):
    scaled = (filled - whole) / whole.std(0)
    return float(np.sqrt(np.mean(scaled[np.isnan(partial)] ** 2)))


def test_fills_better_than_neighbours_and_means(fitted, whole, partial):
    ours = error(fitted.transform(partial), whole, partial)
    assert ours < 0.9 * error(KNNImputer().fit_transform(partial), whole, partial)
    assert ours < 0.6 * error(SimpleImputer().fit_transform(partial), whole, partial)


def test_values_that_are_there_stay_bit_for_bit(fitted, partial):
    there = ~np.isnan(partial)
    for kind in (np.float64, np.float32):
        X = partial.astype(kind)
        filled = fitted.transform(X)
        assert filled.dtype == kind
        np.testing.assert_array_equal(filled[there], X[there])
        np.testing.assert_array_equal(fitted.transform(filled), filled)


def test_weights_are_those_of_a_mean_and_errors_are_of_hidden_values(fitted):
    assert fitted.weights_.sum() == pytest.approx(1)
    assert len(fitted.weights_) == len(fitted.n_clusters_) == len(fitted.hidden_errors_)
    assert (fitted.hidden_errors_ < 1).all()


def test_one_mixture_is_not_chosen_but_taken(partial):
    model = ImputerTAE(n_clusters=3, latent_dim=1, pooling=0, random_state=0).fit(partial)
    assert model.n_clusters_.tolist() == [3]
    assert model.weights_.tolist() == [1.0]


def test_scale_and_shift_of_a_column_change_nothing(partial, fitted):
    scale, shift = np.array([1.0, 1000.0, 0.01, 3.0]), np.array([0.0, -5.0, 100.0, 7.0])
    moved = ImputerTAE(random_state=0).fit_transform(partial * scale + shift)
    np.testing.assert_allclose((moved - shift) / scale, fitted.transform(partial), atol=1e-6)


def test_filled_values_stay_within_what_was_seen(fitted, partial):
    odd = np.full((1, 4), np.nan)
    odd[0, 0] = 50.0  # far from all that was fitted
    filled = fitted.transform(odd)[0]
    assert (filled[1:] >= np.nanmin(partial, 0)[1:]).all()
    assert (filled[1:] <= np.nanmax(partial, 0)[1:]).all()


def test_draws_spread_as_far_as_is_said(fitted, partial):
    draws = fitted.impute(partial, n_draws=60, random_state=0)
    holes = np.isnan(partial)
    ratio = draws.std(0)[holes] / fitted.impute_std(partial)[holes]
    assert np.median(ratio) == pytest.approx(1, abs=0.12)
    assert (fitted.impute_std(partial)[~holes] == 0).all()
    np.testing.assert_array_equal(draws, fitted.impute(partial, n_draws=60, random_state=0))


def test_whole_numbers_are_rounded_on_request():
    rng = np.random.RandomState(0)
    X = np.column_stack([rng.poisson(20, 200), rng.normal(size=200)]).astype(float)
    X[::5, 0] = X[1::5, 1] = np.nan
    filled = ImputerTAE(round_integers=True, random_state=0).fit_transform(X)
    assert (filled[:, 0] == filled[:, 0].round()).all()
    assert (filled[1::5, 1] != filled[1::5, 1].round()).any()
    assert (ImputerTAE(random_state=0).fit_transform(X)[::5, 0] % 1 != 0).any()


def test_a_column_without_values_is_named_when_it_is_left_out(partial):
    frame = pd.DataFrame(partial, columns=["a", "b", "c", "d"]).assign(empty=np.nan)
    with pytest.warns(UserWarning, match="left out: 'empty'"):
        filled = ImputerTAE(n_clusters=1, random_state=0).fit_transform(frame)
    assert filled.shape == (len(partial), 4)


@pytest.mark.filterwarnings("ignore:Skipping features", "ignore:X has no observed value")
def test_columns_and_indicators_are_named_as_scikit_learn_names_them(partial):
    frame = pd.DataFrame(partial, columns=["a", "b", "c", "d"]).assign(empty=np.nan)
    for keep in (False, True):
        model = ImputerTAE(
            n_clusters=1, add_indicator=True, keep_empty_features=keep, random_state=0
        ).set_output(transform="pandas")
        other = SimpleImputer(add_indicator=True, keep_empty_features=keep)
        other = other.set_output(transform="pandas")
        filled, expected = model.fit_transform(frame), other.fit_transform(frame)
        assert list(filled.columns) == list(expected.columns)
        assert not filled.isna().any().any()
        indicators = [name for name in filled.columns if name.startswith("missing")]
        pd.testing.assert_frame_equal(
            filled[indicators].astype(float), expected[indicators].astype(float), check_dtype=False
        )


def test_tensors_come_back_as_tensors(fitted, partial):
    filled = fitted.transform(torch.tensor(partial))
    assert isinstance(filled, torch.Tensor)
    np.testing.assert_array_equal(filled.numpy(), fitted.transform(partial))


def test_weights_count_like_repeats_of_rows(partial):
    weights = np.random.RandomState(0).randint(1, 3, size=len(partial))
    settings = {"n_clusters": 1, "random_state": 0, "tol": 0, "max_iter": 60}
    weighted = ImputerTAE(**settings).fit(partial, sample_weight=weights).transform(partial)
    repeated = ImputerTAE(**settings).fit(np.repeat(partial, weights, axis=0)).transform(partial)
    np.testing.assert_allclose(weighted, repeated, atol=1e-3)


def test_a_part_of_a_pipeline_that_can_be_cloned(partial):
    y = np.nan_to_num(partial).sum(1)
    pipe = make_pipeline(ImputerTAE(n_clusters=2, random_state=0), LinearRegression())
    assert clone(pipe).fit(partial, y).predict(partial).shape == (len(partial),)


@pytest.mark.parametrize(
    "settings",
    [
        *({"n_clusters": value} for value in (0, 1000, [], "many")),
        {"latent_dim": 4},
        {"pooling": -1},
        {"hidden_share": 0},
        {"max_iter": 0},
        {"tol": -1},
    ],
)
def test_bad_settings_are_named(partial, settings):
    with pytest.raises(ValueError, match=next(iter(settings))) as caught:
        ImputerTAE(**settings).fit(partial)
    assert isinstance(caught.value, InvalidInputError | InvalidParameterError)


def test_bad_input_gets_one_sentence(partial):
    with pytest.raises(InvalidInputError, match="infinity"):
        ImputerTAE().fit(np.where(np.isnan(partial), np.inf, partial))
    with pytest.raises(InvalidInputError, match="table in memory"):
        ImputerTAE().fit(Batches(partial))
