"""Large and odd data: what a page leaves out it says, and it never breaks or lets names act."""

import re
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch

from tensorae import TAE, LinearTAE
from tensorae.exceptions import (
    FileWriteError,
    InvalidInputError,
    InvalidParameterError,
    MissingDependencyError,
    NotFittedError,
)
from tensorae.report.report_samples import Identifiers


@pytest.fixture(scope="module")
def crowd():
    """Fifty clusters of 3,000 samples."""
    rng = np.random.RandomState(0)
    X = 9 * rng.normal(size=(50, 3))[np.arange(3000) % 50] + rng.normal(size=(3000, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so few iterations do not converge
        return LinearTAE(50, 1, n_init=1, max_iter=10, random_state=0).fit(X), X


# Many rows, features and clusters ---------------------------------------------------------------


def test_a_sample_of_each_cluster_and_all_rows_that_are_named(crowd, write):
    model, X = crowd
    page = write(model, X, max_points=500)
    rows = page.points["rows"]
    named = {int(one["data-row"]) for one in page.has("button") if "data-row" in one}
    assert named <= set(rows)
    assert set(np.argsort(model.score_samples(X))[:50]) <= set(rows)
    drawn = len(rows) - len(named)
    assert 400 <= drawn <= 500
    shares = np.bincount(model.labels_[rows], minlength=50) / np.bincount(model.labels_)
    assert shares.min() > 0.1
    assert f"{len(rows):,} of 3,000 rows are drawn" in page.text_in("map")
    assert page.points["labels"] == model.labels_[rows].tolist()
    # Sizes are those of all rows.
    sizes = [page.numbers_in(f"cluster-{label}")[0] for label in range(50)]
    assert sizes == np.bincount(model.labels_).tolist()


def test_the_same_page_every_time(crowd, write):
    model, X = crowd
    pages = [write(model, X, max_points=200).source for _ in range(2)]
    assert pages[0] == pages[1]


def test_fifty_clusters_have_fifty_cards_and_toggles(crowd, write):
    page = write(*crowd)
    assert len(page.has("article")) >= 50
    assert [one["data-cluster"] for one in page.has("button") if "data-cluster" in one] == [
        str(label) for label in range(50)
    ]
    assert len({(one["light"], one["marker"]) for one in page.points["clusters"]}) == 50


def test_a_wide_and_long_page_stays_below_its_limit(write):
    rng = np.random.RandomState(0)
    X = rng.normal(size=(3000, 784)) + 3 * rng.normal(size=(2, 784))[np.arange(3000) % 2]
    model = LinearTAE(2, 1, n_init=1, random_state=0).fit(X)
    long = {f"id {place}": ["x" * 500] * 3000 for place in range(12)}
    page = write(model, X, identifiers=long, max_points=3000)
    assert len(page.source.encode()) < 8_000_000
    features = [one for one in page.points["columns"] if one["group"] == "Features"]
    text = page.text_in("map")
    assert f"The {len(features)} most telling of 784 features can be chosen" in text
    assert f"shows {len(page.points['identifiers'])} of 12 identifiers" in text
    assert "60 of 784 features of the centre" in page.text_in("cluster-0")
    assert "for the 60 most telling of 784" in page.text_in("reconstruction")


def test_the_features_that_tell_most_are_kept(write):
    rng = np.random.RandomState(0)
    X = rng.normal(size=(200, 300))
    X[:, 123] += 20 * (np.arange(200) % 2)
    model = LinearTAE(2, 1, n_init=1, random_state=0).fit(X)
    page = write(model, X)
    names = [one["name"] for one in page.points["columns"] if one["group"] == "Features"]
    assert "x123" in names
    assert len(names) == 100
    assert names == sorted(names, key=lambda name: int(name[1:]))


@pytest.mark.parametrize(("k", "d", "h"), [(1, 1, 1), (2, 1, 1), (1, 2, 2), (3, 5, 4), (2, 60, 12)])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_every_size_of_model_has_a_page(k, d, h, write):
    rng = np.random.RandomState(0)
    X = rng.normal(size=(90, d)) + 6 * (np.arange(90) % k)[:, None]
    for model in (LinearTAE(k, h, random_state=0), TAE(k, h, max_epochs=2, random_state=0)):
        page = write(model.fit(X), X)
        assert len(page.has("article", id=f"cluster-{k - 1}")) == 1
        assert page.numbers_in("summary")[:4] == [90, d, k, h]
        codes = [one for one in page.points["columns"] if one["key"].startswith("code")]
        assert len(codes) == min(h, 10)
        assert bool(page.text_in("trends")) == (k > 1 and d > 1)


def test_data_that_does_not_vary_has_a_page(write):
    X = np.full((20, 3), 7.0)
    page = write(LinearTAE(1, 1).fit(X), X)
    assert "Explained" not in page.text_in("summary")
    assert "NaN" not in page.source


# Kinds of data ----------------------------------------------------------------------------------


def test_frames_and_tensors_give_the_page_of_the_array(penguins, names, write):
    X = penguins[0]
    options = {"latent_dim": 1, "random_state": 0}
    expected = write(LinearTAE(3, **options).fit(X), X, feature_names=names).source
    for table in (pd.DataFrame(X, columns=names), pl.DataFrame(X, schema=names)):
        assert write(LinearTAE(3, **options).fit(table), table).source == expected
        # A model that was fitted without names takes them from the table.
        assert write(LinearTAE(3, **options).fit(X), table).source == expected
    tensor = torch.tensor(X)
    model = LinearTAE(3, **options).fit(tensor)
    assert write(model, tensor, feature_names=names).source == expected


def test_an_index_that_says_more_than_a_count_is_an_identifier(linear, penguins, names, write):
    birds = [f"bird {row}" for row in range(333)]
    table = pd.DataFrame(penguins[0], columns=names, index=pd.Index(birds, name="ring"))
    page = write(linear, table)
    assert page.points["identifiers"] == [{"name": "ring", "values": birds}]
    assert write(linear, table.reset_index(drop=True)).points["identifiers"] == []


@pytest.mark.parametrize(
    "given",
    [
        {"id": np.arange(3), "name": ["a", None, "c"]},
        pd.DataFrame({"id": [0, 1, 2], "name": ["a", None, "c"]}),
        pl.DataFrame({"id": [0, 1, 2], "name": ["a", None, "c"]}),
        pa.table({"id": [0, 1, 2], "name": ["a", None, "c"]}),
    ],
    ids=["dict", "pandas", "polars", "pyarrow"],
)
def test_identifiers_come_in_many_kinds(given):
    found = Identifiers.of(given, None, 3)
    assert found.names == ("id", "name")
    assert [found.row(row) for row in range(3)] == [["0", "a"], ["1", ""], ["2", "c"]]


def test_names_that_occur_twice_stay_apart(penguins, write):
    X = penguins[0]
    model = LinearTAE(3, 1, random_state=0).fit(X)
    page = write(model, X, feature_names=["a", "a", "b", "b"])
    features = [one for one in page.points["columns"] if one["group"] == "Features"]
    np.testing.assert_allclose(features[1]["values"], X[:, 1], rtol=1e-5)
    for label in range(3):
        for value in model.cluster_centers_[label]:
            assert pytest.approx(value) in page.numbers_in(f"cluster-{label}")


# Names that would act ---------------------------------------------------------------------------


def test_names_and_values_are_text_wherever_they_stand(linear, penguins, nasty, write):
    identifiers = {nasty.text: [nasty.text] * 333}
    page = write(
        linear,
        penguins[0],
        title=nasty.text,
        feature_names=nasty.names,
        identifiers=identifiers,
    )
    assert [one.get("type") for one in page.has("script")] == ["application/json", None]
    assert not page.has("img")
    assert len(page.has("b")) == 6  # two in each of the sentences on three trends
    assert not [name for _, one in page.elements for name in one if name.startswith("on")]
    assert "49" not in page.text_in("cluster-0").split()
    assert [one["name"] for one in page.points["columns"][:4]] == nasty.names
    assert page.points["identifiers"] == [{"name": nasty.text, "values": [nasty.text] * 333}]
    for name in nasty.names:
        assert " ".join(name.split()) in page.text_in("cluster-0")
    assert nasty.text in page.text_in("anomalies")


def test_the_page_asks_for_nothing(penguin_page):
    for _, attributes in penguin_page.elements:
        for name in ("src", "href", "srcset", "action", "data"):
            assert attributes.get(name, "#").startswith(("#", "data:"))
    assert not re.findall(r"@import|url\((?!#clip|\$\{uri\})", penguin_page.source)
    assert set(re.findall(r"https?://[^\"\s]+", penguin_page.source)) == {
        "http://www.w3.org/2000/svg"
    }
    (policy,) = penguin_page.has("meta", http_equiv="Content-Security-Policy")
    assert policy["content"].startswith("default-src 'none'; img-src data:;")


# What cannot be done ----------------------------------------------------------------------------


def test_each_mistake_is_one_clear_error(linear, penguins, tmp_path):
    X, page = penguins[0], tmp_path / "page.html"
    with pytest.raises(NotFittedError):
        LinearTAE().report(X, page)
    with pytest.raises(InvalidInputError, match="4 features"):
        linear.report(X[:, :3], page)
    with pytest.raises(FileWriteError, match="its folder does not exist; create it first"):
        linear.report(X, tmp_path / "missing" / "page.html")
    with pytest.raises(FileWriteError, match="it is a folder"):
        linear.report(X, tmp_path)
    with pytest.raises(InvalidParameterError, match="path must be a file name"):
        linear.report(X, 3)
    with pytest.raises(InvalidParameterError, match="feature_names must have one name for each"):
        linear.report(X, page, feature_names=["a"])
    with pytest.raises(InvalidInputError, match="each of the 333 rows of X, got 2 in 'id'"):
        linear.report(X, page, identifiers={"id": [1, 2]})
    for wrong in ("id", 3, ["a"] * 333, {"id": "text"}, {"id": 5}):
        with pytest.raises(InvalidParameterError, match="identifiers must"):
            linear.report(X, page, identifiers=wrong)
    for wrong in (0, -1, 20_001, 2.5, True, "many"):
        with pytest.raises(InvalidParameterError, match="max_points must be an integer"):
            linear.report(X, page, max_points=wrong)
    assert list(tmp_path.iterdir()) == []


def test_a_failure_leaves_the_old_page(linear, penguins, tmp_path):
    page = tmp_path / "page.html"
    page.write_text("old")
    with pytest.raises(InvalidInputError):
        linear.report(penguins[0][:, :2], page)
    assert page.read_text() == "old"
    assert linear.report(penguins[0], str(page)) == page
    assert page.read_text("utf-8").startswith("<!doctype html>")
    assert list(tmp_path.iterdir()) == [page]


def test_without_jinja2_the_error_says_how_to_install_it(linear, penguins, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(MissingDependencyError, match=r'pip install "tensorae\[report\]"'):
        linear.report(penguins[0], tmp_path / "page.html")


def test_a_page_needs_neither_matplotlib_nor_plotly(tmp_path):
    program = (
        "import sys; from tensorae import LinearTAE; from sklearn.datasets import load_iris; "
        "X = load_iris().data; LinearTAE(2, 1).fit(X).report(X, sys.argv[1]); "
        "print([name for name in ('matplotlib', 'plotly', 'PIL') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program, str(tmp_path / "page.html")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr
