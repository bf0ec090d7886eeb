"""A fitted model as a torch module, or as an ONNX file, gives the results of the model."""

import functools
import importlib
import json
import sys

import numpy as np
import pytest
import torch
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from torch import nn
from typer.testing import CliRunner

from tensorae import TAE, LinearTAE, OutlierTAE, Scattering, explore, load
from tensorae.cli import app
from tensorae.exceptions import (
    InvalidParameterError,
    MissingDependencyError,
    NotFittedError,
    TensoraeError,
)
from tensorae.export import to_onnx, to_torch

FAMILIES = {
    "shared": {"spread": "shared"},
    "k-means": {"latent_dim": 1, "latent_penalty": 1.0},
    "paper": {"latent_dim": 1, "latent_penalty": 0.1},
    "projected": {"latent_dim": 1, "latent_penalty": 0.3, "assignment": "projected"},
    "own": {"spread": "own"},
    "spheres": {"spread": "own", "latent_dim": 0},
}
METHODS = {
    "label": "predict",
    "probabilities": "predict_proba",
    "code": "transform",
    "reconstruction": "reconstruct",
    "score": "score_samples",
}


def iris(missing=False, dtype=np.float64):
    X = load_iris().data.astype(dtype)
    if missing:
        X[np.random.RandomState(0).rand(*X.shape) < 0.3] = np.nan
        X[:, 0] = load_iris().data[:, 0]  # no row without any value
    return X


def require_same(found, model, X, tolerance=1e-6):
    """Compare the outputs of a module, or of a file, by name, with the methods of the model."""
    for name, method in METHODS.items():
        if hasattr(model, method):
            expected = np.asarray(getattr(model, method)(X))
            scale = max(np.abs(expected).max(initial=0), 1)
            np.testing.assert_allclose(
                np.asarray(found[name]) / scale, expected / scale, rtol=0, atol=tolerance
            )


def outputs(module, X):
    return module(torch.tensor(X))._asdict()


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_linear_module_gives_the_results_of_the_model(family, missing):
    X = iris()
    model = LinearTAE(3, random_state=0, **FAMILIES[family]).fit(X)
    rows = iris(missing)
    require_same(outputs(model.to_torch(), rows), model, rows)


def test_a_row_without_values_and_data_far_from_zero():
    X = iris(missing=True) + 1e4
    X[3] = np.nan
    with pytest.warns(RuntimeWarning, match="no value"):
        model = LinearTAE(3, random_state=0).fit(X)
    require_same(outputs(model.to_torch(), X), model, X)


def test_single_precision_stays_single_precision():
    X = iris(missing=True, dtype=np.float32)
    model = LinearTAE(3, random_state=0).fit(X)
    found = outputs(model.to_torch(), X)
    assert found["score"].dtype == torch.float32
    require_same(found, model, X)


def test_a_column_that_is_a_sum_of_others_loses_no_digits():
    X = np.c_[iris(), iris().sum(1)]
    model = LinearTAE(3, spread="own", random_state=0).fit(X)
    require_same(outputs(model.to_torch(), X), model, X)


def test_codes_of_categories():
    X = np.c_[iris(), np.arange(150) % 3, load_iris().target]
    model = LinearTAE(3, categorical_features=[4, 5], random_state=0).fit(X)
    X[::7, 4] = np.nan  # levels are 0, 1 and 2, and so are their places
    require_same(outputs(model.to_torch(), X), model, X)


@pytest.mark.parametrize("architecture", ["linear", "mlp", "vae"])
def test_a_module_of_networks_gives_the_results_of_the_model(architecture):
    X = iris()
    model = TAE(2, 2, architecture=architecture, max_epochs=4, random_state=0).fit(X)
    require_same(outputs(model.to_torch(), X), model, X)


def test_images_keep_their_shape():
    X = np.random.RandomState(0).rand(40, 8, 8).astype(np.float32)
    model = TAE(2, 2, architecture="conv", max_epochs=2, random_state=0).fit(X)
    found = outputs(model.to_torch(), X)
    assert found["reconstruction"].shape == X.shape
    require_same(found, model, X)


def test_soft_assignments_and_modules_of_users():
    X = iris()
    model = TAE(
        2,
        1,
        architecture=lambda: (nn.Linear(4, 1), nn.Sequential(nn.Linear(1, 6), nn.Linear(6, 4))),
        assignment="em",
        max_epochs=4,
        random_state=0,
    ).fit(X)
    require_same(outputs(model.to_torch(), X), model, X)


def test_a_table_model_takes_units_of_the_table():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(iris() * [1, 10, 1000, 1], columns=list("abcd"))
    frame["skewed"] = np.exp(2 * frame["a"] + np.random.RandomState(0).standard_normal(150))
    model = explore(frame, n_clusters=2).model
    assert model.preparation.scaling.name == "log"
    require_same(outputs(model.to_torch(), frame.to_numpy()), model, frame)
    frame.iloc[::5, 1] = np.nan
    require_same(outputs(model.to_torch(), frame.to_numpy()), model, frame)


def test_a_pipeline_of_scaler_and_principal_components():
    X = iris()
    model = make_pipeline(
        StandardScaler(), PCA(3, whiten=True), MinMaxScaler(), LinearTAE(3, random_state=0)
    ).fit(X)
    require_same(outputs(to_torch(model), X), model, X)


@pytest.mark.parametrize("shape", [(8, 8), (6, 8, 3)])
def test_scattering_without_complex_numbers(shape):
    X = np.random.RandomState(0).rand(30, np.prod(shape))
    scattering = Scattering(L=3, image_shape=shape, n_components=4)
    model = make_pipeline(scattering, LinearTAE(2, latent_dim=1, random_state=0)).fit(X)
    module = to_torch(model)
    require_same(outputs(module, X), model, X)
    assert next(module.double().buffers()).dtype == torch.float64


def test_modules_have_state_and_move():
    model = LinearTAE(3, random_state=0).fit(iris())
    module = model.to_torch()
    assert not list(module.parameters())
    half = module.to(torch.float32)
    require_same(outputs(half, iris()), model, iris(), tolerance=1e-4)


def test_what_cannot_become_a_module_is_named():
    X = iris()
    with pytest.raises(InvalidParameterError, match="OutlierTAE"):
        to_torch(OutlierTAE().fit(X))
    forest = RandomForestClassifier(2).fit(X, X[:, 0] > 5)
    with pytest.raises(InvalidParameterError, match="RandomForest"):
        to_torch(make_pipeline(forest, LinearTAE(2).fit(X)))
    with pytest.raises(InvalidParameterError, match="dtype"):
        LinearTAE(2).fit(X).to_torch(dtype="float16")
    with pytest.raises(NotFittedError):
        LinearTAE(2).to_torch()


# ONNX files -----------------------------------------------------------------------------------


def run(path, X, **others):
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, {"X": X, **others}), strict=True))


def test_networks_are_single_precision_and_a_wrong_file_is_not_written(tmp_path, monkeypatch):
    path = tmp_path / "model.onnx"
    X = iris().astype(np.float32)
    model = TAE(2, 1, max_epochs=4, random_state=0).fit(X.astype(float))
    # One trace for both files.
    pytest.importorskip("onnx")
    module = importlib.import_module("tensorae.export.onnx")
    monkeypatch.setattr(module, "_joined", functools.cache(module._joined))
    monkeypatch.setattr(module, "to_torch", functools.cache(module.to_torch))
    with monkeypatch.context() as patch:
        patch.setattr(model, "score_samples", lambda X: np.zeros(len(X)))
        with pytest.raises(TensoraeError, match="score"):
            model.to_onnx(path, check=X)
    assert not path.exists()
    model.to_onnx(path, check=X)
    for rows in (X, X[:1]):
        require_same(run(path, rows), model, rows, tolerance=1e-5)


def test_scattering_pipelines(tmp_path):
    X = np.random.RandomState(0).rand(30, 16).astype(np.float32)
    first = Scattering(J=1, L=2, enlarge=1, n_components=4, image_shape=(4, 4))
    model = make_pipeline(first, LinearTAE(2, latent_dim=1, random_state=0)).fit(X)
    to_onnx(model, tmp_path / "model.onnx")
    require_same(run(tmp_path / "model.onnx", X), model, X, tolerance=1e-5)


def table():
    pd = pytest.importorskip("pandas")
    X, rng = iris(), np.random.RandomState(0)
    frame = pd.DataFrame(X[:, :2], columns=["length", "X"])
    frame["colour"] = np.where(X[:, 2] > 4, "red", np.where(X[:, 3] > 1, "blue", "green"))
    frame["tall"] = X[:, 0] > 5.8
    frame["grade"] = pd.Categorical(rng.choice([1.5, 2.5], 150))
    sizes = np.digitize(X[:, 2], [3, 5])
    order = ["small", "medium", "large"]
    frame["size"] = pd.Categorical.from_codes(sizes, order, ordered=True)
    frame.loc[::9, "colour"] = None
    return frame


def test_a_file_has_the_tables_of_categories(tmp_path):
    frame, path = table(), tmp_path / "model.onnx"
    model = LinearTAE(2, 1, random_state=0).fit(frame)
    model.to_onnx(path, check=frame)
    text = frame["colour"].astype(object).where(frame["colour"].notna(), "").tolist()
    text[1] = "violet"
    frame.loc[1, "colour"] = "violet"
    found = run(
        path,
        frame[["length", "X"]].to_numpy(),
        colour=np.array(text, dtype=object)[:, None],
        tall=frame[["tall"]].to_numpy(),
        grade=frame["grade"].to_numpy(float)[:, None],
        size=frame["size"].to_numpy(object)[:, None],
    )
    with pytest.warns(UserWarning, match="violet"):
        expected = {name: getattr(model, method)(frame) for name, method in METHODS.items()}
    whole = expected.pop("reconstruction")
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, atol=1e-6)
    np.testing.assert_allclose(found["reconstruction"], whole[["length", "X"]])
    for name in ("colour", "tall", "grade", "size"):
        assert found[f"reconstruction:{name}"][:, 0].tolist() == whole[name].tolist()


def test_the_command_writes_files_for_rows_with_missing_values_in_batches_of_any_size(tmp_path):
    data, model, output = (tmp_path / name for name in ("a.csv", "a.tae", "a.onnx"))
    X = iris() * [1, 10, 1000, 1]
    X[:, 3] = np.exp(3 * X[:, 3])
    lines = [",".join(map(str, row)) for row in X]
    data.write_text("\n".join(["a,b,c,d", *lines]))

    def command(*words):
        return CliRunner().invoke(app, [*map(str, words)])

    assert command("fit", data, "-k", 2, "-l", 1, "--output", model, "--seed", 0).exit_code == 0
    found = command("export", model, output, "--check", data, "--json")
    assert json.loads(found.stdout)["checked"]
    holes = np.where(np.isnan(iris(missing=True)), np.nan, X)
    for rows in (X, X[:1], holes, holes[:1], np.tile(holes, (3, 1))):
        require_same(run(output, rows), load(model), rows)
    card = command("info", model, "--card").stdout
    assert card.startswith("---\nlibrary_name: tensorae")
    assert "## Clusters" in card
    wrong = command("export", model, tmp_path / "a.txt")
    assert isinstance(wrong.exception, InvalidParameterError)


class Branching(nn.Module):
    def __init__(self):
        super().__init__()
        self.inside, self.outside = nn.Linear(4, 1), nn.Linear(1, 4)

    def encode(self, x):
        return self.inside(x) if float(x.sum()) > 0 else -self.inside(x)

    def decode(self, z):
        return self.outside(z)


class Counting(Branching):
    def encode(self, x):
        return self.inside(x).view(len(x), 1)


@pytest.mark.parametrize("architecture", [Branching, Counting])
def test_a_module_that_cannot_be_traced_is_refused(architecture, tmp_path):
    model = TAE(1, 1, architecture=architecture, max_epochs=2, random_state=0).fit(iris())
    with pytest.raises(InvalidParameterError, match="architecture"):
        model.to_onnx(tmp_path / "model.onnx")
    assert not any(tmp_path.iterdir())


def test_a_missing_package_is_named(tmp_path, monkeypatch):
    model = LinearTAE(2, latent_dim=1, random_state=0).fit(iris())
    for package, check in {"onnxruntime": iris(), "onnx": None}.items():
        monkeypatch.setitem(sys.modules, package, None)
        with pytest.raises(MissingDependencyError, match=rf"{package}.*tensorae\[onnx\]"):
            model.to_onnx(tmp_path / "model.onnx", check=check)
