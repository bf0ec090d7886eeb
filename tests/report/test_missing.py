"""A page on samples with missing values: all sections work, and one tells what was imputed."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from sklearn.preprocessing import StandardScaler

from tensorae import LinearTAE
from tensorae.datasets import load_penguins


@pytest.fixture(scope="module")
def incomplete():
    """Penguins in their own units with a tenth of all values missing, and one row without any."""
    X = np.array(load_penguins().data)
    X[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan
    X[11] = np.nan
    return X


@pytest.fixture(scope="module")
def scaler(incomplete):
    return StandardScaler().fit(incomplete)


@pytest.fixture(scope="module")
def model(incomplete, scaler):
    with pytest.warns(RuntimeWarning, match="no value at all"):
        return LinearTAE(3, latent_dim=1, random_state=0).fit(scaler.transform(incomplete))


@pytest.fixture(scope="module")
def page(model, incomplete, scaler, names, write):
    return write(model, incomplete, feature_names=names, scaler=scaler)


def test_a_table_tells_what_was_missing_and_what_was_filled_in(page, model, incomplete, scaler):
    X = scaler.transform(incomplete)
    filled = scaler.inverse_transform(model.impute(X))
    deviations = model.impute_std(X) * scaler.scale_
    holes = np.isnan(incomplete)
    shown = page.numbers_in("missing")
    assert shown[0] == holes.sum()
    for column in range(4):
        own = holes[:, column]
        for value in (
            own.sum(),
            own.mean(),
            incomplete[~own, column].mean(),
            filled[own, column].mean(),
            np.sqrt((deviations[own, column] ** 2).mean()),
        ):
            assert np.isclose(shown, value).any()


def test_errors_are_those_of_values_that_are_there(page, model, incomplete, scaler):
    missed = incomplete - scaler.inverse_transform(model.reconstruct(scaler.transform(incomplete)))
    for error in np.sqrt(np.nanmean(missed**2, axis=0)):
        assert np.isclose(page.numbers_in("reconstruction"), error).any()


def test_a_row_without_values_is_among_the_least_certain(page):
    rows = re.findall(r'data-row="(\d+)"', page.source[page.source.index('id="missing"') :])
    assert "11" in rows
    assert "1 of these has no value at all" in page.text_in("missing")


def test_no_number_of_the_page_is_missing(page, incomplete):
    assert not re.search(r"\bnan\b", page.source, re.IGNORECASE)
    points = json.loads(re.search(r'id="points">(.*?)</script>', page.source)[1])
    assert len(points["rows"]) == len(incomplete)
    assert f"{np.isnan(incomplete).sum()} values were missing" in page.text_in("summary")


def test_a_complete_table_has_no_such_section(model, incomplete, scaler, write):
    whole = incomplete[~np.isnan(incomplete).any(1)]
    assert not write(model, whole, scaler=scaler).has("section", id="missing")


def test_rows_that_the_section_names_are_on_the_map(model, incomplete, scaler, write):
    page = write(model, incomplete, scaler=scaler, max_points=20)
    points = json.loads(re.search(r'id="points">(.*?)</script>', page.source)[1])
    rows = re.findall(r'data-row="(\d+)"', page.source[page.source.index('id="missing"') :])
    assert set(map(int, rows)) <= set(points["rows"])


def test_missing_values_of_a_data_frame_in_either_notation_and_own_spreads(
    incomplete, names, write
):
    frame = pd.DataFrame(incomplete[:100], columns=names).drop(index=11)
    own = LinearTAE(2, latent_dim=1, spread="own", random_state=0).fit(frame)
    pages = [write(own, table, noise="auto") for table in (frame, frame.astype("Float64"))]
    assert pages[0].numbers_in("missing") == pages[1].numbers_in("missing")
    assert not re.search(r"\bnan\b", pages[0].source, re.IGNORECASE)
