"""``explore``: one call from a table to groups, reasons, unusual rows, and a page."""

import re

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.metrics import adjusted_rand_score

from tensorae import LinearTAE, explore, load
from tensorae.data import ReadOptions, as_table
from tensorae.exceptions import InvalidInputError, InvalidParameterError

MEASURED = ("bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g")


@pytest.fixture(scope="module")
def birds():
    """All columns of the penguins: text, missing values, two rows without any measurement."""
    from palmerpenguins import load_penguins

    return load_penguins()


@pytest.fixture(scope="module")
def found(birds):
    return explore(birds)


@pytest.fixture
def groups(rng):
    """Three groups of forty in the plane, and text that names them."""
    centers = np.repeat([[0, 0], [10, 0], [0, 10]], 40, axis=0)
    X = centers + rng.randn(120, 2)
    return pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "kind": np.repeat(["x", "y", "z"], 40)})


# What is found ------------------------------------------------------------------------------------


def test_penguins_without_any_decision(found, birds):
    assert found.n_clusters == 3
    assert found.columns == MEASURED
    assert [one.name for one in found.left_out] == ["species", "island", "sex", "year"]
    known = found.labels >= 0
    assert adjusted_rand_score(birds["species"][known], found.labels[known]) > 0.95
    assert found.agreement > 0.9
    assert not found.caution
    assert found.grade == "clear"
    assert found.trends.n_reversals == 3
    assert found.comparisons[0].name == "species"
    assert found.comparisons[0].strength > 0.9
    assert {one.name for one in found.comparisons} == {"species", "island", "sex", "year"}
    assert np.median(found.confidence[known]) > 0.95


def test_the_answer_is_three_sentences(found):
    first, second, third = found.sentences
    assert re.match(r"342 rows fall into 3 groups of \d+, \d+ and \d+; most telling: ", first)
    assert "“species” matches the groups almost exactly" in second
    assert "in 3 pairs of columns the overall trend is reversed inside the groups" in second
    assert re.match(r"\d+ rows \(\d.\d %\) are unusual for their group; 1 % are expected", third)
    assert len(found.summary.splitlines()) <= 10
    assert str(found) == repr(found) == found.summary


def test_rows_without_a_value_have_no_group(found, birds):
    empty = birds[list(MEASURED)].isna().all(axis=1).to_numpy()
    assert empty.sum() == 2
    np.testing.assert_array_equal(found.labels < 0, empty)
    np.testing.assert_array_equal(np.isnan(found.confidence), empty)
    assert not found.odd[empty].any()
    assert any("2 rows have no value" in step.what for step in found.steps)


def test_a_slip_of_the_pen_is_found_with_its_reason(birds):
    frame = birds.copy()
    frame.loc[100, "flipper_length_mm"] /= 10
    found = explore(frame)
    assert found.odd[100]
    numbers = found.rows.numbers
    (reason,) = [one for one in found.outliers if numbers[one.row] == 100]
    assert reason.features[0].name == "flipper_length_mm"
    assert reason.cluster == found.labels[100]


# Laws ---------------------------------------------------------------------------------------------


def test_neither_units_nor_names_nor_the_order_of_rows_matter(found, birds):
    order = np.random.RandomState(1).permutation(len(birds))
    frame = birds.iloc[order].rename(columns={"body_mass_g": "mass"})
    frame["mass"] /= 1000
    other = explore(frame)
    assert adjusted_rand_score(other.labels, found.labels[order]) == 1


def test_text_columns_never_change_the_groups(found, birds):
    other = explore(birds.assign(noise=np.random.RandomState(0).choice(list("abc"), len(birds))))
    np.testing.assert_array_equal(other.labels, found.labels)
    assert other.comparisons[-1].name == "noise" or not other.comparisons[-1].related


def test_progress_is_shown_on_request_and_removed(groups, capsys):
    explore(groups, verbose=True)
    said = capsys.readouterr().err
    assert "comparing numbers of clusters: step 3 of 10" in said
    assert said.endswith("\r")
    explore(groups)
    assert capsys.readouterr().err == ""


# No groups ----------------------------------------------------------------------------------------


def test_one_heap_is_said_first(rng, tmp_path):
    found = explore(pd.DataFrame(rng.randn(300, 3), columns=list("abc")))
    assert found.n_clusters == 1
    assert found.caution.startswith("No groups were found")
    assert found.comparisons == ()
    assert found.trends is None
    assert found.summary.splitlines()[1] == found.caution
    page = found.report(tmp_path / "page.html").read_text("utf-8")
    assert page.index("No groups were found") < page.index("The 300 rows")


def test_groups_that_halves_do_not_share_are_doubted(rng, tmp_path):
    # A skewed heap without groups, which mixtures of Gaussians cut in parts.
    found = explore(np.exp(rng.randn(1000, 5)))
    assert found.n_clusters > 1
    assert found.grade in ("none", "weak")
    assert "The groups are weak" in found.caution or "may be no groups" in found.caution
    page = found.report(tmp_path / "page.html").read_text("utf-8")
    assert page.index(found.caution[:20]) < page.index("rows fall into")


# What comes in, what goes out ---------------------------------------------------------------------


def test_a_table_like_the_one_that_came(groups):
    frame = groups.set_index(pd.Index([f"row {i}" for i in range(120)]))
    found = explore(frame)
    assert list(found.table.columns) == ["a", "b", "kind", "cluster", "confidence", "outlier"]
    pd.testing.assert_index_equal(found.table.index, frame.index)
    others = [
        explore(pl.from_pandas(groups)),
        explore(pa.table(groups)),
        explore(groups.to_dict("list")),
    ]
    assert isinstance(others[0].table, pl.DataFrame)
    assert isinstance(others[1].table, pa.Table)
    for other in others:
        np.testing.assert_array_equal(other.labels, found.labels)


def test_arrays_and_tensors(groups):
    X = groups[["a", "b"]].to_numpy()
    found = explore(X)
    assert found.columns is None
    np.testing.assert_array_equal(explore(torch.tensor(X)).labels, found.labels)
    assert found.n_clusters == 3


def test_names_that_are_taken_are_left_alone(groups):
    found = explore(groups.assign(cluster=groups["kind"]))
    assert list(found.table["cluster"]) == list(groups["kind"])
    assert "cluster_" in found.table.columns


def test_images(tmp_path):
    from PIL import Image

    rng = np.random.RandomState(0)
    for i in range(60):
        image = np.zeros((6, 6), np.uint8)
        image[:, :3] = 200 * (i % 2)
        image[:, 3:] = 200 * (1 - i % 2)
        noisy = np.clip(image + 8 * rng.randn(6, 6) + 20, 0, 255).astype(np.uint8)
        Image.fromarray(noisy).save(tmp_path / f"{i:02}.png")
    found = explore(tmp_path)
    assert found.n_clusters == 2
    assert adjusted_rand_score(np.arange(60) % 2, found.labels) == 1
    page = found.report(tmp_path / "page.html").read_text("utf-8")
    assert "data:image/png" in page
    assert found.features is None  # too small
    assert "correlation" not in found.summary


@pytest.mark.quality
def test_images_are_compared_by_what_they_show(tmp_path, rng):
    digits = load_digits()
    images = digits.images[:300].astype(np.float32)
    found = explore(images, n_clusters=10)
    pixels = LinearTAE(10, random_state=0).fit_predict(images.reshape(300, -1))
    ours = adjusted_rand_score(digits.target[:300], found.labels)
    assert ours > adjusted_rand_score(digits.target[:300], pixels) + 0.05
    assert "scattering features" in found.summary
    np.testing.assert_array_equal(found.model.predict(images), found.labels)
    assert "data:image/png" in found.report(tmp_path / "page.html").read_text("utf-8")


def test_large_tables_by_a_sample(groups):
    frame = pd.concat([groups] * 5, ignore_index=True)
    found = explore(frame, max_rows=150)
    assert found.n_looked_at == 150
    assert len(found.labels) == 600
    assert adjusted_rand_score(frame["kind"], found.labels) > 0.95
    assert "sample of 150 rows" in found.summary
    assert found.sizes.sum() == 600


# The page -----------------------------------------------------------------------------------------


def test_the_page_says_it_in_order(found, tmp_path):
    page = found.report(tmp_path / "page.html").read_text("utf-8")
    parts = ["summary", "map", "clusters", "compared", "settings", "trends", "outliers"]
    places = [page.index(f'<section id="{part}"') for part in [*parts, "preparation", "code"]]
    assert places == sorted(places)
    assert "Python" in page
    assert "year (only 3 values: 2007, 2008, 2009)" in page
    assert ">Adelie<" in page


def test_names_in_the_page_are_harmless(groups, tmp_path):
    evil = "<script>alert(1)</script>"
    found = explore(groups.rename(columns={"a": evil, "kind": evil + "kind"}))
    page = found.report(tmp_path / "page.html").read_text("utf-8")
    assert evil not in page
    assert evil not in found._repr_html_()
    assert "&lt;script&gt;" in found._repr_html_()


# Again in Python ----------------------------------------------------------------------------------


def run(code, **names):
    """Run code as it stands, and return what it defines."""
    exec(code, names)
    return names


@pytest.mark.parametrize("ending", ["csv", "parquet", "tsv", "semicolon.csv"])
def test_the_code_gives_the_same_groups(groups, tmp_path, ending):
    path = tmp_path / f"groups.{ending}"
    groups["b"] *= 1000
    if ending == "parquet":
        groups.to_parquet(path)
    else:
        mark = {"tsv": "\t", "csv": ",", "semicolon.csv": ";"}[ending]
        groups.to_csv(path, index=False, sep=mark)
    found = explore(path)
    names = run(found.code)
    np.testing.assert_array_equal(names["clusters"], found.labels)
    assert names["centers"][:, 1].max() > 5000  # in the units of the table


def test_the_code_knows_of_text_among_numbers_and_of_samples(groups, tmp_path):
    frame = pd.concat([groups] * 3, ignore_index=True)
    frame["a"] = frame["a"].round(3).astype(str)
    frame.loc[::9, "a"] = "unknown"
    frame.to_csv(tmp_path / "some.csv", index=False)
    found = explore(tmp_path / "some.csv", max_rows=200)
    assert "sample" in found.summary
    np.testing.assert_array_equal(run(found.code)["clusters"], found.labels)


@pytest.mark.parametrize("name", ["table", "X"])
def test_the_code_of_what_was_in_memory(groups, name):
    data = groups if name == "table" else groups[["a", "b"]].to_numpy()
    found = explore(data)
    np.testing.assert_array_equal(run(found.code, **{name: data})["clusters"], found.labels)


def test_the_code_repeats_what_was_told_and_nothing_else(groups, tmp_path):
    assert explore(groups).code.splitlines()[3] == "found = explore(table)"
    groups.to_csv(tmp_path / "t.csv", index=False, sep=";", decimal=",")
    told = {"columns": ["b", "a"], "n_clusters": 2, "scale": "max", "random_state": 3}
    found = explore(tmp_path / "t.csv", **told, options=ReadOptions(decimal=","))
    names = run(found.code)
    np.testing.assert_array_equal(names["clusters"], found.labels)
    np.testing.assert_array_equal(names["centers"], found.model.cluster_centers_)
    assert len(found.code.splitlines()) <= 9


def test_the_model_file_knows_columns_and_scale(found, tmp_path):
    found.save(tmp_path / "birds.tae")
    model = load(tmp_path / "birds.tae")
    assert tuple(model.feature_names_in_) == MEASURED


# Bad input ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "options", "error", "named"),
    [
        (np.eye(4), {"n_clusters": "many"}, InvalidParameterError, "n_clusters"),
        (np.eye(4), {"max_rows": 0}, InvalidParameterError, "max_rows"),
        (np.eye(4)[:2], {}, InvalidInputError, "rows"),
        (5, {}, InvalidInputError, "table"),
        (pd.DataFrame(), {}, InvalidInputError, "rows and columns"),
        (pd.DataFrame(np.eye(3), columns=list("aab")), {}, InvalidInputError, "'a'"),
    ],
)
def test_bad_input_is_refused(data, options, error, named):
    with pytest.raises(error, match=named):
        explore(data, **options)


@pytest.mark.parametrize("make", [dict, pd.DataFrame])
def test_cells_of_several_kinds(make):
    table = as_table(make({"a": [1, "x", None], "b": [1.0, 2.0, 3.0]}))
    assert table.frame["a"].to_pylist() == ["1", "x", None]
