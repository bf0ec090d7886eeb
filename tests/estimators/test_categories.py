"""Tables with categories: which columns they are, what comes back, and what is refused."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch

from tensorae import ImputerTAE, LinearTAE, OutlierTAE, load
from tensorae.exceptions import InvalidInputError, InvalidParameterError
from tensorae.inspect import describe


@pytest.fixture(scope="module")
def frame():
    rng = np.random.RandomState(0)
    groups = rng.randint(2, size=120)
    return pd.DataFrame(
        {
            "mass": rng.randn(120) + 4 * groups,
            "color": np.where(rng.uniform(size=120) < 0.9, np.array(["red", "blue"])[groups], "up"),
            "length": rng.randn(120) - 3 * groups,
            "wild": (groups == 1) ^ (rng.uniform(size=120) < 0.1),
        }
    )


@pytest.fixture(scope="module")
def model(frame):
    return LinearTAE(2, random_state=0).fit(frame)


# Which columns are categories ---------------------------------------------------------------------


def test_text_and_truth_values_of_frames_are_categories(frame, model):
    np.testing.assert_array_equal(model.is_categorical_, [False, True, False, True])
    assert [list(levels) for levels in model.categories_] == [
        ["blue", "red", "up"],
        [False, True],
    ]
    assert model.cluster_centers_.shape == (2, 2)
    assert model.n_features_in_ == 4
    assert list(model.feature_names_in_) == list(frame)
    for chances in model.level_probabilities_:
        np.testing.assert_allclose(chances.sum(1), 1)


@pytest.mark.parametrize("make", [
    lambda f: f.astype({"color": "category"}),
    lambda f: f.astype({"color": object, "wild": "boolean"}),
    lambda f: pl.from_pandas(f),
    lambda f: pl.from_pandas(f).with_columns(pl.col("color").cast(pl.Categorical)),
    lambda f: pa.Table.from_pandas(f, preserve_index=False),
], ids=["category", "object", "polars", "polars categorical", "pyarrow"])  # fmt: skip
def test_all_libraries_say_the_same(frame, model, make):
    table = make(frame)
    found = LinearTAE(2, random_state=0).fit(table)
    np.testing.assert_array_equal(found.labels_, model.labels_)
    np.testing.assert_array_equal(found.is_categorical_, model.is_categorical_)
    for rows in (found.reconstruct(table), found.sample(5)[0], found.impute(table)):
        assert type(rows) is type(table)
        assert list(getattr(rows, "column_names", rows.columns)) == list(frame)


@pytest.mark.parametrize("named", [[1, 3], ["color", "wild"], [False, True, False, True], [-3, -1]])
def test_columns_are_named_in_three_ways(frame, model, named):
    found = LinearTAE(2, random_state=0, categorical_features=named).fit(frame)
    np.testing.assert_array_equal(found.labels_, model.labels_)


def test_columns_of_arrays_and_tensors_are_named_by_numbers(frame, model):
    objects = frame.to_numpy(dtype=object)
    found = LinearTAE(2, random_state=0, categorical_features=[1, 3]).fit(objects)
    np.testing.assert_array_equal(found.labels_, model.labels_)
    codes = frame.assign(color=frame.color.map({"blue": 3, "red": 7, "up": 1})).astype(float)
    found = LinearTAE(2, random_state=0, categorical_features=[1, 3]).fit(codes.to_numpy())
    np.testing.assert_array_equal(found.labels_, model.labels_)
    assert list(found.categories_[0]) == [1, 3, 7]
    assert set(found.reconstruct(codes.to_numpy())[:, 1]) <= {1.0, 3.0, 7.0}
    tensor = torch.tensor(codes.to_numpy())
    found = LinearTAE(2, random_state=0, categorical_features=[1, 3]).fit(tensor)
    np.testing.assert_array_equal(found.labels_, model.labels_)


def test_ordered_categories_and_numbers_as_objects_are_numbers(frame):
    sizes = pd.Categorical(
        np.where(frame.mass > 2, "large", "small"), categories=["small", "large"], ordered=True
    )
    table = frame.assign(size=sizes, objects=frame.length.astype(object))
    found = LinearTAE(2, random_state=0).fit(table)
    np.testing.assert_array_equal(found.is_categorical_, [False, True, False, True, False, False])
    assert found.cluster_centers_.shape == (2, 4)
    assert set(found.reconstruct(table)["size"]) <= {"small", "large"}
    named = LinearTAE(2, random_state=0, categorical_features=["size"]).fit(
        table[["mass", "length", "size"]]
    )
    assert list(named.categories_[0]) == ["large", "small"]


def test_none_refuses_text_and_takes_truth_values_for_numbers(frame):
    numbers = LinearTAE(2, random_state=0, categorical_features=None).fit(
        frame.drop(columns="color")
    )
    assert numbers.cluster_centers_.shape == (2, 3)
    with pytest.raises(InvalidInputError, match="'color'"):
        LinearTAE(2, categorical_features=None).fit(frame)


def test_columns_may_come_in_no_other_order(frame, model):
    with pytest.raises(InvalidInputError, match="same order"):
        model.predict(frame[["wild", "color", "mass", "length"]])


# What comes back ----------------------------------------------------------------------------------


def test_codes_and_reconstructions_are_those_of_the_numbers(frame, model):
    codes = model.transform(frame)
    assert codes.shape == (120, model.components_.shape[1])
    back = model.inverse_transform(codes, model.labels_)
    pd.testing.assert_frame_equal(back, model.reconstruct(frame), check_dtype=False)
    most = model.categories_[0][model.level_probabilities_[0].argmax(1)]
    np.testing.assert_array_equal(back["color"], most[model.labels_])


def test_imputation_keeps_types_and_all_that_is_there(frame, model):
    partial = frame.astype({"color": "category"})
    partial.loc[3, "color"] = None
    partial.loc[5, "mass"] = np.nan
    filled = model.impute(partial)
    assert filled.dtypes["color"] == partial.dtypes["color"]
    assert filled.notna().all().all()
    left = np.ones(120, dtype=bool)
    left[[3, 5]] = False
    pd.testing.assert_frame_equal(filled[left], partial[left])
    error = model.impute_std(partial)
    assert error.shape == (120, 4)
    assert 0 < error[3, 1] < 0.5
    assert error[5, 0] > 0
    assert np.count_nonzero(error) == 2


def test_a_saved_model_says_the_same(frame, model, tmp_path):
    model.save(tmp_path / "mixed.tae")
    again = load(tmp_path / "mixed.tae")
    np.testing.assert_array_equal(again.predict_proba(frame), model.predict_proba(frame))
    pd.testing.assert_frame_equal(again.reconstruct(frame), model.reconstruct(frame))
    pd.testing.assert_frame_equal(
        again.sample(4, random_state=0)[0], model.sample(4, random_state=0)[0]
    )
    again.partial_fit(frame)
    classes = LinearTAE(2, random_state=0).fit(frame[["color", "wild"]])
    classes.save(tmp_path / "classes.tae")
    again = load(tmp_path / "classes.tae")
    np.testing.assert_array_equal(again.predict(frame[["color", "wild"]]), classes.labels_)


def test_a_checkpoint_goes_on_with_categories(frame, model, tmp_path):
    path = tmp_path / "fit.ckpt"
    found = LinearTAE(2, random_state=0).fit(frame, checkpoint=path, checkpoint_every=0)
    np.testing.assert_array_equal(found.labels_, model.labels_)
    assert not path.exists()


def test_rare_levels_count_as_one():
    rng = np.random.RandomState(0)
    levels = [f"town {j}" for j in rng.zipf(1.3, size=3000) % 400]
    table = pd.DataFrame({"x": rng.randn(3000), "town": levels})
    with pytest.warns(UserWarning, match=r"column 'town' has \d+ levels: the \d+ rarest"):
        model = LinearTAE(2, random_state=0).fit(table)
    assert len(model.categories_[0]) == 51
    assert np.isfinite(model.score_samples(table)).all()


# What is refused ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("change", "parts"), [
    ({"color": [f"row {j}" for j in range(120)]}, ["'color'", "120", "it names rows"]),
    ({"color": [f"{j}.5" for j in range(120)]}, ["'color'", "turn its text into numbers"]),
    ({"color": ["a", 1] * 60}, ["'color'", "one type", "numbers, text"]),
    ({"color": [b"a", b"b"] * 60}, ["'color'", "bytes"]),
    ({"color": [["a"], ["b"]] * 60}, ["'color'", "list"]),
    ({"color": [None] * 120}, ["'color'", "at least one value"]),
], ids=["names", "numbers as text", "mixed types", "bytes", "nested", "empty"])  # fmt: skip
def test_bad_columns_are_named(frame, change, parts):
    with pytest.raises(InvalidInputError) as caught:
        LinearTAE(2, categorical_features=["color"]).fit(frame.assign(**change))
    for part in parts:
        assert part in str(caught.value)


def test_too_many_levels_are_refused():
    names = np.repeat([f"name {j}" for j in range(1200)], 2)
    table = pd.DataFrame({"x": np.arange(2400.0), "name": names})
    with pytest.raises(InvalidInputError, match="at most 1000 levels, got 1200 in column 'name'"):
        LinearTAE(2).fit(table)


@pytest.mark.parametrize(("named", "part"), [
    ("color", "put a single name into a list"),
    (["colour"], "'colour'"),
    ([7], "numbers below 4"),
    ([True, False], "each of the 4 columns"),
    ([1.5], "1.5"),
])  # fmt: skip
def test_bad_names_of_columns_are_refused(frame, named, part):
    with pytest.raises(InvalidParameterError, match="categorical_features must") as caught:
        LinearTAE(2, categorical_features=named).fit(frame)
    assert part in str(caught.value)


def test_text_in_an_array_has_to_be_named(frame):
    with pytest.raises(InvalidInputError, match=r"categorical_features=\[1\]"):
        LinearTAE(2).fit(frame[["mass", "color"]].to_numpy(dtype=object))
    with pytest.raises(InvalidInputError, match="text only"):
        LinearTAE(2, categorical_features=[0]).fit(np.array([["a", "b"]] * 20))


@pytest.mark.parametrize(("settings", "part"), [
    ({"latent_penalty": 0.1}, "latent_penalty must be left out"),
    ({"assignment": "projected", "latent_dim": 1}, "assignment must be"),
    ({"handle_unknown": "ignore"}, "handle_unknown"),
])  # fmt: skip
def test_settings_that_mean_nothing_for_categories_are_refused(frame, settings, part):
    with pytest.raises(InvalidParameterError, match=part):
        LinearTAE(2, **settings).fit(frame)


# Imputation by several mixtures -------------------------------------------------------------------


@pytest.fixture(scope="module")
def partial(frame):
    gone = np.random.RandomState(1).uniform(size=frame.shape) < 0.15
    return frame.astype({"wild": object}).mask(gone), gone


@pytest.fixture(scope="module")
def imputer(partial):
    return ImputerTAE(random_state=0).fit(partial[0])


def test_missing_categories_are_imputed_from_all_other_columns(frame, partial, imputer):
    table, gone = partial
    filled = imputer.transform(table)
    assert filled.notna().all().all()
    for place, column in enumerate(frame):
        kept = ~gone[:, place]
        assert (filled[column][kept] == table[column][kept]).all()
        if column in ("color", "wild"):
            hidden = gone[:, place]
            mode = table[column].mode()[0]
            right = (filled[column] == frame[column])[hidden].mean()
            assert right > (frame[column] == mode)[hidden].mean() + 0.1


def test_probabilities_of_levels_say_what_is_filled_in(partial, imputer):
    table, gone = partial
    filled, error = imputer.transform(table), imputer.impute_std(table)
    assert error.shape == table.shape
    assert (error[~gone] == 0).all()
    for place, levels, chances in zip(
        (1, 3), imputer.categories_, imputer.level_proba(table), strict=True
    ):
        hidden = gone[:, place]
        np.testing.assert_allclose(chances.sum(1), 1)
        best = np.asarray(levels)[chances.argmax(1)]
        np.testing.assert_array_equal(best[hidden], filled.iloc[:, place][hidden])
        np.testing.assert_allclose(error[hidden, place], 1 - chances[hidden].max(1))


def test_draws_of_categories_differ_where_they_are_uncertain(partial, imputer):
    table, gone = partial
    draws = imputer.impute(table, n_draws=12, random_state=0)
    differing = np.array([(draw != draws[0]).to_numpy() for draw in draws]).any(0)
    assert differing[gone].any()
    assert not differing[~gone].any()


def test_imputers_take_arrays_with_named_columns(partial):
    table, _ = partial
    objects = table.to_numpy(dtype=object)
    found = ImputerTAE(random_state=0, categorical_features=[1, 3]).fit_transform(objects)
    expected = ImputerTAE(random_state=0).fit_transform(table).to_numpy(dtype=object)
    assert (found == expected).all()


def test_columns_without_values_are_left_out_beside_categories(partial):
    table = partial[0].assign(empty=np.nan)
    with pytest.warns(UserWarning, match="'empty'"):
        imputer = ImputerTAE(random_state=0).fit(table)
    assert list(imputer.transform(table)) == list(imputer.get_feature_names_out())
    assert "empty" not in imputer.get_feature_names_out()
    assert imputer.impute_std(table).shape == (120, 4)


def test_indicators_of_missing_values_are_refused_beside_categories(partial):
    with pytest.raises(InvalidParameterError, match="add_indicator must be False"):
        ImputerTAE(add_indicator=True).fit(partial[0])


# Descriptions, cards, pages -----------------------------------------------------------------------


def test_descriptions_name_levels_that_are_more_frequent_than_elsewhere(frame, model):
    found = describe(model, frame)
    for cluster in found:
        named = {(one.feature, one.level): one for one in cluster.levels}
        assert {feature for feature, _ in named} <= {"color", "wild"}
        first = cluster.levels[0]
        has = frame[first.feature].astype(str) == first.level
        own = model.labels_ == cluster.label
        assert first.share == pytest.approx(has[own].mean())
        assert first.elsewhere == pytest.approx(has[~own].mean())
        assert abs(first.share - first.elsewhere) > 0.5
        assert f"categories       {first}" in str(cluster)
        assert set(found.feature_names) == {"mass", "length"}
    # Without rows, by the probabilities of the model: nearly the same.
    for own, cluster in zip(describe(model), found, strict=True):
        shares = {(one.feature, str(one.level)): one.share for one in cluster.levels}
        for one in own.levels:
            assert shares[one.feature, str(one.level)] == pytest.approx(one.share, abs=0.02)


def test_cards_pages_and_plots_take_tables_with_categories(frame, model, partial, tmp_path):
    assert "elsewhere" in model._repr_html_()
    page = model.report(partial[0], tmp_path / "page.html").read_text("utf-8")
    assert "Categories more or less frequent than elsewhere" in page
    assert model.plot(frame).axes
    detector = OutlierTAE(random_state=0).fit(frame)
    assert "mass" in detector._repr_html_()
    assert "mass" in detector.report(frame, tmp_path / "odd.html").read_text("utf-8")


def test_categories_alone_have_a_description_and_a_page_but_no_plot(frame, tmp_path):
    table = frame[["color", "wild"]]
    model = LinearTAE(2, random_state=0).fit(table)
    assert describe(model, table)[0].levels
    assert "elsewhere" in model._repr_html_()
    page = model.report(table, tmp_path / "page.html").read_text("utf-8")
    assert "direction 1 of the categories" in page
    with pytest.raises(InvalidInputError, match="at least one column of numbers"):
        model.plot(table)
