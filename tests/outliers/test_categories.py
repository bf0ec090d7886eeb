"""Outliers by an improbable category, and what is said of them."""

import numpy as np
import pandas as pd
import pytest

from tensorae import OutlierTAE, load
from tensorae.exceptions import InvalidInputError
from tensorae.inspect import outliers

ODD = [3, 50, 77]


@pytest.fixture(scope="module")
def cars():
    """Return three kinds of cars, of which three have the fuel of another kind."""
    rng = np.random.RandomState(0)
    kind = rng.randint(3, size=900)
    frame = pd.DataFrame(
        {
            "weight": rng.randn(900) + 6 * kind,
            "fuel": np.array(["petrol", "diesel", "electric"])[kind],
            "power": 2 * kind + 0.5 * rng.randn(900),
            "gear": np.where(rng.uniform(size=900) < 0.7, "manual", "automatic"),
        }
    )
    frame.loc[ODD, "fuel"] = np.array(["electric", "petrol", "diesel"])[kind[ODD]]
    return frame


@pytest.fixture(scope="module")
def model(cars):
    return OutlierTAE(random_state=0).fit(cars)


def test_improbable_categories_are_found(cars, model):
    ranks = np.argsort(np.argsort(model.score_samples(cars)))
    assert (ranks[ODD] < 60).all(), ranks[ODD]
    assert (model.outlier_probability(cars)[ODD] > 0.93).all()
    numbers = OutlierTAE(random_state=0).fit(cars[["weight", "power"]])
    blind = np.argsort(np.argsort(numbers.score_samples(cars[["weight", "power"]])))
    assert (blind[ODD] > 300).all()
    assert (model.predict(cars) < 0).mean() < 0.03


def test_the_category_is_named_among_the_reasons(cars, model):
    explained = {one.row: one for one in outliers(model, cars, n_rows=None)}
    for row in ODD:
        first = explained[row].features[0]
        assert first.name == "fuel"
        assert first.value == cars.fuel[row]
        assert first.expected_probability > 0.9
        assert first.probability < 0.05
        said = explained[row].because
        assert f"fuel {first.value}, expected {first.expected} (9" in said
        assert "of such rows)" in said


def test_missing_and_unknown_categories_have_a_score(cars, model):
    partial = cars.head(3).copy()
    partial["fuel"] = [None, "hydrogen", "petrol"]
    partial.loc[2, "weight"] = np.nan
    with pytest.warns(UserWarning, match="'hydrogen'"):
        scores = model.score_samples(partial)
    assert np.isfinite(scores).all()
    assert scores[1] < scores[0]


def test_a_saved_detector_says_the_same(cars, model, tmp_path):
    model.save(tmp_path / "cars.tae")
    again = load(tmp_path / "cars.tae")
    np.testing.assert_array_equal(again.score_samples(cars), model.score_samples(cars))
    assert str(outliers(again, cars, n_rows=3)) == str(outliers(model, cars, n_rows=3))


def test_categories_alone_are_refused(cars):
    with pytest.raises(InvalidInputError, match="at least one column of numbers"):
        OutlierTAE().fit(cars[["fuel", "gear"]])
