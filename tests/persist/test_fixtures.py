"""Files of every released version can be read; these were written by 0.2.0."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tensorae import TAE, LinearTAE, load
from tensorae.persist import read_header

FOLDER = Path(__file__).with_name("fixtures")
FILES = [FOLDER / f"{name}_v1.tae" for name in ("linear", "mlp", "conv")]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_an_old_model_gives_its_old_answers(path, program):
    model = load(path)
    with np.load(path.with_suffix(".npz"), allow_pickle=False) as stored:
        expected = dict(stored)
    X = expected.pop("X")
    if hasattr(model, "feature_names_in_"):
        X = pd.DataFrame(X, columns=model.feature_names_in_)
    given = program.answers(model, X)
    if isinstance(model, LinearTAE):  # 0.2.0 gave minus the cost
        given["score_samples"] = -given["costs"].min(1)
    assert given.keys() == expected.keys()
    for name, values in expected.items():
        assert given[name].dtype == values.dtype, name
        if values.dtype.kind == "i":
            assert np.array_equal(given[name], values), name
        else:
            np.testing.assert_allclose(given[name], values, rtol=1e-6, atol=1e-6, err_msg=name)
    assert np.array_equal(model.labels_, expected["predict"])


def test_what_was_said_about_the_data_comes_back():
    header = read_header(FOLDER / "linear_v1.tae")
    assert header["format_version"] == 1
    assert header["feature_names"] == ["length", "depth", "größe <b>"]
    assert header["preprocessing"] == {"scale": "max", "divisors": [1.0, 2.0, 0.5]}
    assert header["versions"]["tensorae"] == "0.2.0"


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", ["linear", "mlp", "conv"])
def test_an_old_model_can_be_fitted_and_saved_again(name, tmp_path):
    model = load(FOLDER / f"{name}_v1.tae")
    assert isinstance(model, LinearTAE if name == "linear" else TAE)
    with np.load(FOLDER / f"{name}_v1.npz") as stored:
        X = stored["X"]
    model.fit(X).save(tmp_path / "model.tae")
    assert np.array_equal(load(tmp_path / "model.tae").predict(X), model.labels_)


def test_a_fresh_process_finds_the_class_that_a_file_names():
    code = (
        "import sys; from tensorae.persist import load; model = load(sys.argv[1]);"
        "print(type(model).__name__, 'tensorae.deep_tae' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(FOLDER / "linear_v1.tae")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "LinearTAE False\n"
