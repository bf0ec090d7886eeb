"""OpenML is asked last, never in silence, never for long, and its rows go to the right split."""

import hashlib
import io
import json
import sys
import urllib.error

import numpy as np
import pytest
import sklearn.datasets
from sklearn.utils import Bunch

from tensorae.datasets import load_fashion_mnist, load_mnist, openml
from tensorae.exceptions import InvalidInputError, InvalidParameterError, MissingDependencyError

real_fetch = sklearn.datasets.fetch_openml
N_TRAIN, N_TEST = 60_000, 10_000
NAMES = {load_mnist: "mnist_784", load_fashion_mnist: "Fashion-MNIST"}
both_sets = pytest.mark.parametrize("load", NAMES, ids=["mnist", "fashion"])


@pytest.fixture
def online(monkeypatch):
    """Let OpenML answer and return what it is asked; row i is of class i modulo 10."""
    asked = []

    def fetch(name, **options):
        asked.append((name, options))
        data = np.zeros((N_TRAIN + N_TEST, 784), dtype=np.float64)
        data[:, 0] = np.arange(len(data)) // N_TRAIN  # 0 in training images, 1 in test images
        data[:, 1] = 255
        return Bunch(data=data, target=np.arange(len(data)) % 10.0)

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch)
    monkeypatch.setattr("urllib.request.urlopen", lambda url, timeout: io.BytesIO())
    return asked


@both_sets
class TestOnline:
    @pytest.mark.parametrize(
        ("split", "n", "marker"), [("train", N_TRAIN, 0), ("test", N_TEST, 1), (None, N_TEST, 1)]
    )
    def test_training_rows_come_first_and_test_rows_last(self, online, load, split, n, marker):
        bunch = load(source="openml", split=split, normalize=False)
        assert bunch.data.shape == (n, 784)
        assert bunch.data.dtype == np.uint8
        assert (bunch.data[:, 0] == marker).all()
        assert (bunch.data[:, 1] == 255).all()
        np.testing.assert_array_equal(bunch.target, np.arange(n) % 10)

    def test_the_source_is_in_the_result(self, online, load):
        bunch = load([2], 3, source="openml")
        assert bunch.source == f"test split, OpenML's {NAMES[load]}, version 1"
        assert bunch.source in bunch.DESCR
        assert bunch.data.shape == (3, 784)
        assert [name for name, _ in online] == [NAMES[load]]

    def test_one_version_is_asked_for_and_parsed_once(self, online, load):
        load([0], 1, source="openml")
        load([0], 1, source="openml", split="train")
        assert [options["version"] for _, options in online] == [1]

    def test_the_kept_rows_cannot_be_spoilt(self, online, load):
        load(source="openml", normalize=False).data[:] = 7
        assert (load([0], 1, source="openml", normalize=False).data[:, 1] == 255).all()

    @pytest.mark.parametrize(
        ("n", "pixel", "label", "message"),
        [
            (10, 0, 0, r"got shape \(10, 784\)"),
            (70_000, np.nan, 0, "pixels from nan to nan"),
            (70_000, 256, 0, "pixels from 256 to 256"),
            (70_000, 0, 10, "classes from 10 to 10"),
            (70_000, 0, -1, "classes from -1 to -1"),
        ],
    )
    def test_another_table_is_refused(self, online, monkeypatch, load, n, pixel, label, message):
        data, target = np.broadcast_to(np.float32(pixel), (n, 784)), np.full(n, label)
        table = Bunch(data=data, target=target)
        monkeypatch.setattr(sklearn.datasets, "fetch_openml", lambda *_, **__: table)
        with pytest.raises(InvalidInputError, match=message):
            load(source="openml")

    def test_pandas_is_needed(self, online, monkeypatch, load):
        monkeypatch.setitem(sys.modules, "pandas", None)
        with pytest.raises(MissingDependencyError, match=r'pip install "tensorae\[datasets\]"'):
            load(source="openml")


class TestAuto:
    def test_mnist_never_asks_openml(self, online):
        load_mnist([0], 1)
        assert online == []

    def test_idx_files_go_before_openml(self, online, monkeypatch, tmp_path, write_split):
        write_split(tmp_path / "fashion-mnist", n=10)
        monkeypatch.setenv("TENSORAE_DATA", str(tmp_path))
        assert len(load_fashion_mnist().data) == 10
        assert online == []

    def test_a_download_is_announced_where_it_was_caused(self, online):
        with pytest.warns(UserWarning, match="MNIST were found, so it is fetched") as caught:
            assert "OpenML" in load_fashion_mnist([0], 1).source
        assert [warning.filename for warning in caught] == [__file__]

    def test_a_download_that_was_asked_for_is_not(self, online):
        assert "OpenML" in load_fashion_mnist([0], 1, source="openml").source


class TestOffline:
    @pytest.mark.parametrize("source", ["auto", "openml"])
    def test_one_error_names_every_way_out(self, source):
        with pytest.raises(InvalidParameterError) as caught:
            load_fashion_mnist(source=source)
        message = str(caught.value)
        assert message.startswith("Fashion-MNIST cannot be fetched from OpenML")
        for remedy in ("data_home", "TENSORAE_DATA", "apt-get install dataset-fashion-mnist"):
            assert remedy in message

    def test_nothing_is_promised_that_debian_does_not_have(self):
        with pytest.raises(InvalidParameterError, match="MNIST cannot be fetched") as caught:
            load_mnist(source="openml")
        assert "apt-get" not in str(caught.value)

    def test_patience_is_short_and_scikit_learn_is_not_even_asked(self, online, monkeypatch):
        patience = []

        def unanswered(url, timeout):
            patience.append(timeout)
            raise TimeoutError("timed out")

        monkeypatch.setattr("urllib.request.urlopen", unanswered)
        with pytest.raises(InvalidParameterError, match=r"OpenML \(timed out\)"):
            load_fashion_mnist()
        assert online == []
        assert max(patience) <= 5

    def test_an_answer_of_any_kind_is_a_network(self, online, monkeypatch):
        def not_found(url, timeout):
            raise urllib.error.HTTPError(url, 404, "not found", {}, io.BytesIO())

        monkeypatch.setattr("urllib.request.urlopen", not_found)
        assert "OpenML" in load_mnist([0], 1, source="openml").source

    @pytest.mark.parametrize(
        "error", [ConnectionResetError("reset"), ValueError("md5 checksum"), TimeoutError("late")]
    )
    def test_a_broken_download_is_explained(self, online, monkeypatch, error):
        def fetch(*arguments, **options):
            raise error

        monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch)
        with pytest.raises(InvalidParameterError, match=f"OpenML \\({error}\\)"):
            load_mnist(source="openml")


@both_sets
@pytest.mark.parametrize("quote", ["", "'"])
def test_scikit_learn_fetches_once_and_what_it_keeps_needs_no_network(monkeypatch, load, quote):
    pixels = np.random.RandomState(0).randint(256, size=(7, 784))
    monkeypatch.setattr(openml, "SHAPE", pixels.shape)
    monkeypatch.setattr(openml, "ROWS", {"train": slice(0, 4), "test": slice(4, 7)})
    monkeypatch.setattr(sklearn.datasets, "fetch_openml", real_fetch)
    with monkeypatch.context() as reachable:
        reachable.setattr("urllib.request.urlopen", lambda url, timeout: io.BytesIO())
        reachable.setattr(
            "sklearn.datasets._openml.urlopen", small_openml(pixels, NAMES[load], quote)
        )
        fetched = load(source="openml", split="train", normalize=False)
    openml._fetch.cache_clear()
    kept = load(source="openml", normalize=False)
    np.testing.assert_array_equal(fetched.data, pixels[:4])
    np.testing.assert_array_equal(kept.data, pixels[4:])
    assert (fetched.target.tolist(), kept.target.tolist()) == ([0, 1, 2, 3], [4, 5, 6])


def small_openml(pixels, name, quote):
    """Return a urlopen that knows one table of OpenML; row i is of class i, maybe in quotes."""
    columns = [f"pixel{i}" for i in range(1, 785)]
    header = [f"@RELATION {name}", *(f"@ATTRIBUTE {column} integer" for column in columns)]
    header += ["@ATTRIBUTE class {0,1,2,3,4,5,6,7,8,9}", "@DATA"]
    labels = [f"{quote}{i}{quote}" for i in range(len(pixels))]
    rows = [",".join(map(str, [*row, j])) for row, j in zip(pixels.tolist(), labels, strict=True)]
    table = "\n".join([*header, *rows, ""]).encode()
    feature = dict.fromkeys(["is_target", "is_ignore", "is_row_identifier"], "false")
    feature["number_of_missing_values"] = "0"
    features = [
        {"index": str(i), "name": column, "data_type": "numeric", **feature}
        for i, column in enumerate(columns)
    ]
    kind = {"index": "784", "name": "class", "data_type": "nominal"}
    features.append({**feature, **kind, "is_target": "true", "nominal_value": [*"0123456789"]})
    description = {
        "id": "1",
        "name": name,
        "version": "1",
        "status": "active",
        "format": "ARFF",
        "file_id": "1",
        "url": "https://www.openml.org/data/v1/download/1/table.arff",
        "md5_checksum": hashlib.md5(table).hexdigest(),
        "description": "A small table.",
    }
    size = {"name": "NumberOfInstances", "value": str(float(len(pixels)))}
    answers = {
        f"data/list/data_name/{name.lower()}/": {"data": {"dataset": [{"did": 1}]}},
        "data/features/1": {"data_features": {"feature": features}},
        "data/qualities/1": {"data_qualities": {"quality": [size]}},
        "json/data/1": {"data_set_description": description},
    }

    def urlopen(request, *arguments, **options):
        url = request.full_url
        found = [json.dumps(answer).encode() for part, answer in answers.items() if part in url]
        response = io.BytesIO(found[0] if found else table)
        response.info = dict
        return response

    return urlopen
