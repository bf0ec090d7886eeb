"""A citizen of scikit-learn: scikit-learn's own checks, and what users build with TAE."""

import pickle

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from tensorae import TAE
from tensorae.deep.architectures import MLPAutoencoder

# No expected failures: the list of arguments is all there is.
VARIANTS = [
    TAE(),
    TAE(architecture="linear", max_epochs=10, n_init=1, latent_penalty="auto"),
    TAE(assignment="em", max_epochs=10, n_init=1, init="k-means++"),
    TAE(validation_fraction=0.2, max_epochs=10, n_init=1, noise=0.1, device="cpu"),
]


# Some checks fit eight clusters to a few different rows, which deserves its warning.
@pytest.mark.filterwarnings("ignore:clusters .* of n_clusters=8 have no members")
@parametrize_with_checks(VARIANTS)
def test_scikit_learn_check(estimator, check):
    check(estimator)


def make_autoencoder():
    return MLPAutoencoder(4, 2, width=6)


OPTIONS = {"max_epochs": 20, "n_init": 2, "random_state": 0}
NAMES = ["bill", "depth", "flipper", "mass"]


@pytest.fixture(scope="module", name="X")
def fixture_of_samples():
    rng = np.random.RandomState(0)
    data = 8 * rng.randn(3, 4)[rng.randint(3, size=90)] + rng.randn(90, 4)
    data.setflags(write=False)
    return data


@pytest.fixture(scope="module")
def model(X):
    return TAE(3, 2, **OPTIONS).fit(X)


# Data frames ------------------------------------------------------------------------------------


def frame_of(library, X):
    if library == "pandas":
        pd = pytest.importorskip("pandas")
        return pd.DataFrame(X, columns=NAMES, index=np.arange(len(X))[::-1])
    pl = pytest.importorskip("polars")
    return pl.DataFrame(X, schema=NAMES)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_frame_gives_the_fit_of_its_values(X, model, library):
    frame = frame_of(library, X)
    fitted = TAE(3, 2, **OPTIONS).fit(frame)
    np.testing.assert_array_equal(fitted.labels_, model.labels_)
    assert list(fitted.feature_names_in_) == NAMES
    np.testing.assert_array_equal(fitted.transform(frame), model.transform(X))
    for method in ("transform", "reconstruct", "predict", "costs"):
        assert isinstance(getattr(fitted, method)(frame), np.ndarray), method


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_clean_samples_may_be_a_frame(X, library):
    noisy = X + 0.1 * np.random.RandomState(1).randn(*X.shape)
    fitted = TAE(3, 2, **OPTIONS).fit(frame_of(library, noisy), clean=frame_of(library, X))
    by_array = TAE(3, 2, **OPTIONS).fit(noisy, clean=X)
    np.testing.assert_array_equal(fitted.denoise(frame_of(library, noisy)), by_array.denoise(noisy))


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_set_output_gives_a_frame(X, model, library):
    frame = frame_of(library, X)
    fitted = TAE(3, 2, **OPTIONS).set_output(transform=library)
    codes = fitted.fit(frame).transform(frame)
    assert type(codes).__module__.startswith(library)
    assert list(codes.columns) == ["tae0", "tae1"]
    np.testing.assert_array_equal(codes.to_numpy(), model.transform(X))


def test_output_features_have_names(model):
    assert list(model.get_feature_names_out()) == ["tae0", "tae1"]


def test_arrays_have_no_feature_names(model):
    assert not hasattr(model, "feature_names_in_")
    assert model.n_features_in_ == 4


# Copies -----------------------------------------------------------------------------------------


def test_clone_copies_parameters_and_nothing_learned(X):
    start = X[:3].copy()
    original = TAE(3, 2, architecture=make_autoencoder, init=start, tol=0.1, max_epochs=2)
    copy = clone(original.fit(X))
    assert not hasattr(copy, "module_")
    np.testing.assert_array_equal(copy.init, start)
    assert copy.architecture is make_autoencoder or copy.architecture().encode is not None
    assert copy.get_params()["tol"] == 0.1


@pytest.mark.parametrize(
    "architecture", ["linear", "mlp", make_autoencoder], ids=["linear", "mlp", "own"]
)
def test_pickle_keeps_the_fitted_model(X, architecture):
    model = TAE(3, 2, architecture=architecture, noise=0.1, **OPTIONS).fit(X)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.labels_, model.labels_)
    for method in ("predict", "costs", "transform", "reconstruct", "denoise", "predict_proba"):
        np.testing.assert_array_equal(getattr(copy, method)(X), getattr(model, method)(X))
    assert copy.history_ == model.history_ or np.isnan(copy.history_["held_out_loss"]).any()


def test_a_second_fit_forgets_the_first(X, model):
    fitted = TAE(3, 2, **OPTIONS).fit(X[:, :3][:50] * 5)
    fitted.fit(X)
    np.testing.assert_array_equal(fitted.labels_, model.labels_)
    np.testing.assert_array_equal(fitted.costs(X), model.costs(X))
    assert len(fitted.history_["epoch"]) == fitted.n_iter_


# Pipelines and searches -------------------------------------------------------------------------


def test_a_pipeline_clusters_and_transforms(X):
    pipeline = make_pipeline(StandardScaler(), TAE(3, 2, **OPTIONS))
    labels = pipeline.fit_predict(X)
    np.testing.assert_array_equal(pipeline.predict(X), labels)
    assert pipeline.transform(X).shape == (90, 2)
    assert pipeline.score(X) == pytest.approx(pipeline[-1].score(StandardScaler().fit_transform(X)))
    assert list(pipeline.get_feature_names_out()) == ["tae0", "tae1"]


def test_a_pipeline_passes_weights_and_labels_on(X, model):
    pipeline = Pipeline([("pca", PCA(4)), ("tae", TAE(3, 2, **OPTIONS))])
    known = np.where(np.arange(90) < 45, model.labels_, -1)
    pipeline.fit(X, tae__sample_weight=np.linspace(0.5, 2, 90), tae__labels=known)
    np.testing.assert_array_equal(pipeline.predict(X), model.labels_)


def test_it_transforms_inside_a_pipeline(X):
    pipeline = make_pipeline(TAE(3, 2, **OPTIONS), StandardScaler())
    codes = pipeline.fit_transform(X)
    np.testing.assert_allclose(codes.mean(0), 0, atol=1e-6)


def test_a_grid_search_finds_the_better_code_length():
    rng = np.random.RandomState(0)
    data = rng.randn(120, 2) @ rng.randn(2, 5) + 0.05 * rng.randn(120, 5)
    search = GridSearchCV(
        TAE(2, init="k-means++", latent_penalty=0.01, max_epochs=30, random_state=0),
        {"latent_dim": [1, 2], "architecture": ["linear", "mlp"]},
        cv=KFold(2, shuffle=True, random_state=0),
        error_score="raise",
    ).fit(data)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.best_params_["latent_dim"] == 2
    assert search.best_estimator_.predict(data).shape == (120,)


def test_y_is_ignored(X, model):
    fitted = TAE(3, 2, **OPTIONS).fit(X, np.arange(90))
    np.testing.assert_array_equal(fitted.costs(X), model.costs(X))
    assert fitted.score(X, np.arange(90)) == fitted.score(X)


# Kinds of arrays --------------------------------------------------------------------------------


OUTPUTS = {
    "predict": (np.int32, ()),
    "predict_proba": (None, (3,)),
    "costs": (None, (3,)),
    "transform": (None, (2,)),
    "reconstruct": (None, (4,)),
    "denoise": (None, (4,)),
    "score_samples": (None, ()),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_arrays_come_out_as_the_kind_that_came_in(X, dtype):
    data = X.astype(dtype)
    fitted = TAE(3, 2, noise=0.1, **OPTIONS).fit(data)
    for name, (kind, shape) in OUTPUTS.items():
        result = getattr(fitted, name)(data)
        assert isinstance(result, np.ndarray), name
        assert result.dtype == (kind or dtype), name
        assert result.shape == (90, *shape), name
    decoded = fitted.inverse_transform(fitted.transform(data), fitted.predict(data))
    np.testing.assert_allclose(decoded, fitted.reconstruct(data), atol=1e-4)
    assert decoded.dtype == dtype
    for name in ("cluster_centers_", "weights_"):
        assert getattr(fitted, name).dtype == dtype, name


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_tensors_come_out_as_tensors(X, dtype):
    data = torch.tensor(X, dtype=dtype)
    fitted = TAE(3, 2, noise=0.1, **OPTIONS).fit(data)
    by_array = TAE(3, 2, noise=0.1, **OPTIONS).fit(data.numpy())
    for name, (_, shape) in OUTPUTS.items():
        result = getattr(fitted, name)(data)
        assert isinstance(result, torch.Tensor), name
        assert result.shape == (90, *shape), name
        assert result.dtype == (torch.int32 if name == "predict" else dtype), name
        assert not result.requires_grad, name
        np.testing.assert_array_equal(result.numpy(), getattr(by_array, name)(data.numpy()))
    # What is learned is published as arrays, whatever came in.
    assert isinstance(fitted.labels_, np.ndarray)
    assert isinstance(fitted.cluster_centers_, np.ndarray)
    assert isinstance(fitted.score(data), float)


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.float16])
def test_tensors_of_other_kinds_are_computed_in_floats(X, dtype):
    data = torch.tensor(10 * (X - X.min()) / np.ptp(X)).to(dtype)
    fitted = TAE(3, 2, **OPTIONS).fit(data)
    assert fitted.transform(data).is_floating_point()
    assert not fitted.predict(data).is_floating_point()


def test_a_tensor_that_wants_a_gradient_is_only_read(X):
    data = torch.tensor(X, requires_grad=True)
    codes = TAE(3, 2, **OPTIONS).fit(data).transform(data)
    assert not codes.requires_grad
    assert data.grad is None


@pytest.mark.parametrize("device", ["cpu", torch.device("cpu"), "auto"], ids=str)
def test_device_may_be_named(X, model, device):
    fitted = TAE(3, 2, device=device, **OPTIONS).fit(X)
    np.testing.assert_allclose(fitted.transform(X), model.transform(X), atol=1e-3)


def test_lists_are_arrays(X, model):
    fitted = TAE(3, 2, **OPTIONS).fit(X.tolist())
    np.testing.assert_array_equal(fitted.labels_, model.labels_)
    assert fitted.reconstruct(X.tolist()).shape == (90, 4)


@pytest.mark.parametrize("assignment", ["lloyd", "em"])
def test_the_data_and_the_arguments_are_never_written_to(X, assignment):
    arguments = {
        "X": X.copy(),
        "clean": X.copy(),
        "sample_weight": np.linspace(0.5, 2, 90),
        "labels": np.where(np.arange(90) < 9, np.resize([0, 1, 2], 90), -1),
    }
    start = X[:3].copy()
    before = {name: value.copy() for name, value in arguments.items()}
    options = {"assignment": assignment, "max_epochs": 6}
    TAE(3, 2, **options).fit(**arguments).denoise(arguments["X"])
    TAE(3, 2, init=start, **options).fit(arguments["X"]).reconstruct(arguments["X"])
    for name, value in arguments.items():
        np.testing.assert_array_equal(value, before[name])
    np.testing.assert_array_equal(start, X[:3])
