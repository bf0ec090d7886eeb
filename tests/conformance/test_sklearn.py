"""A citizen of scikit-learn: what users build with either estimator, and what they put in."""

import logging
import pickle

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

from tensorae import TAE, LinearTAE

NAMES = ["bill", "depth", "flipper", "mass"]
METHODS = ["transform", "reconstruct", "costs", "predict_proba"]
both_libraries = pytest.mark.parametrize("library", ["pandas", "polars"])


def assert_same_model(fitted, model, data, X):
    """Compare labels and outputs; training in single precision makes more of rounding."""
    rtol = 1e-9 if isinstance(model, LinearTAE) else 1e-3
    np.testing.assert_array_equal(fitted.labels_, model.labels_)
    for method in METHODS:
        expected = getattr(model, method)(X)
        values = np.asarray(getattr(fitted, method)(data))
        np.testing.assert_allclose(values, expected, rtol=rtol, atol=rtol * np.abs(expected).max())


# Data frames ------------------------------------------------------------------------------------


@both_libraries
def test_a_frame_gives_the_fit_of_its_values(estimator, make, model, frame_of, X, library):
    frame = frame_of(library, X)
    fitted = make(estimator).fit(frame)
    assert list(fitted.feature_names_in_) == NAMES
    assert_same_model(fitted, model, frame, X)
    for method in (*METHODS, "predict"):
        assert isinstance(getattr(fitted, method)(frame), np.ndarray), method


@both_libraries
def test_set_output_gives_a_frame(estimator, make, model, frame_of, X, library):
    frame = frame_of(library, X)
    fitted = make(estimator).set_output(transform=library)
    codes = fitted.fit(frame).transform(frame)
    name = estimator.__name__.lower()
    assert type(codes).__module__.startswith(library)
    assert list(codes.columns) == [f"{name}0", f"{name}1"]
    np.testing.assert_allclose(codes.to_numpy(), model.transform(X), rtol=1e-3, atol=1e-6)
    together = clone(fitted).set_output(transform=library).fit_transform(frame)
    np.testing.assert_array_equal(together.to_numpy(), codes.to_numpy())
    if library == "pandas":
        np.testing.assert_array_equal(codes.index, frame.index)


def test_output_features_have_names(estimator, make, model, X):
    name = estimator.__name__.lower()
    assert list(model.get_feature_names_out()) == [f"{name}0", f"{name}1"]
    assert len(make(estimator, 3, 4).fit(X).get_feature_names_out()) == 4


def test_frames_with_integers_booleans_and_small_floats_are_numbers(estimator, make, X):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(
        {
            "a": X[:, 0].astype(np.float32),
            "b": (10 * X[:, 1]).astype(int),
            "c": X[:, 2] > 0,
            "d": pd.array((10 * X[:, 3]).astype(int), dtype="Int64"),
        }
    )
    by_values = make(estimator).fit(frame.to_numpy(dtype=float))
    np.testing.assert_array_equal(make(estimator).fit(frame).labels_, by_values.labels_)


# Copies -----------------------------------------------------------------------------------------


def test_pickle_keeps_the_fitted_model(model, X):
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.labels_, model.labels_)
    for method in ("predict", *METHODS):
        np.testing.assert_array_equal(getattr(copy, method)(X), getattr(model, method)(X))


def test_changing_a_parameter_changes_nothing_until_the_next_fit(estimator, make, X):
    fitted = make(estimator).fit(X)
    before = [getattr(fitted, method)(X) for method in ("predict", *METHODS)]
    fitted.set_params(n_clusters=5, latent_dim=1, latent_penalty=0.9)
    after = [getattr(fitted, method)(X) for method in ("predict", *METHODS)]
    for old, new in zip(before, after, strict=True):
        np.testing.assert_array_equal(old, new)
    assert len(fitted.get_feature_names_out()) == 2
    decoded = fitted.inverse_transform(fitted.transform(X), fitted.predict(X))
    np.testing.assert_allclose(decoded, fitted.reconstruct(X), rtol=1e-5, atol=1e-5)


def test_fitting_again_forgets_the_first_fit(estimator, make, model, X):
    fitted = make(estimator, 5, 1).fit(5 * X[:50, :2])
    again = fitted.set_params(n_clusters=3, latent_dim=2).fit(X)
    assert again is fitted
    assert_same_model(again, model, X, X)
    assert again.n_features_in_ == 4


# Pipelines --------------------------------------------------------------------------------------


def test_a_pipeline_scales_reduces_and_fits(estimator, make, X):
    pipeline = make_pipeline(StandardScaler(), PCA(3), make(estimator, 3, 1))
    labels = pipeline.fit_predict(X)
    np.testing.assert_array_equal(labels, pipeline.predict(X))
    assert pipeline.transform(X).shape == (90, 1)
    assert pipeline.score(X) < 0
    assert pipeline.score(X) == pytest.approx(pipeline[-1].score(pipeline[:-1].transform(X)))
    assert list(pipeline.get_feature_names_out()) == [f"{estimator.__name__.lower()}0"]


def test_a_pipeline_passes_labels_and_weights_on(estimator, make, model, X):
    pipeline = Pipeline([("scale", StandardScaler()), ("tae", make(estimator))])
    known = np.where(np.arange(90) < 45, model.labels_, -1)
    pipeline.fit(X, tae__labels=known, tae__sample_weight=np.linspace(0.5, 2, 90))
    np.testing.assert_array_equal(pipeline.predict(X), model.labels_)


def test_codes_feed_a_second_step(estimator, make, X):
    pipeline = make_pipeline(make(estimator), StandardScaler())
    codes = pipeline.fit_transform(X)
    assert codes.shape == (90, 2)
    np.testing.assert_allclose(codes.mean(0), 0, atol=1e-6)


def test_y_is_ignored(estimator, make, model, X):
    fitted = make(estimator).fit(X, np.arange(90))
    assert_same_model(fitted, model, X, X)
    assert fitted.score(X, np.arange(90)) == fitted.score(X)


# Kinds of arrays --------------------------------------------------------------------------------


OUTPUTS = {
    "predict": (np.int32, ()),
    "predict_proba": (None, (3,)),
    "costs": (None, (3,)),
    "transform": (None, (2,)),
    "reconstruct": (None, (4,)),
    "score_samples": (None, ()),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_arrays_come_out_as_the_kind_that_came_in(estimator, make, X, dtype):
    data = X.astype(dtype)
    fitted = make(estimator).fit(data)
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
def test_tensors_come_out_as_tensors(estimator, make, X, dtype):
    data = torch.tensor(X, dtype=dtype)
    fitted, by_array = make(estimator).fit(data), make(estimator).fit(data.numpy())
    for name, (_, shape) in OUTPUTS.items():
        result, expected = getattr(fitted, name)(data), getattr(by_array, name)(data.numpy())
        assert isinstance(result, torch.Tensor), name
        assert result.shape == (90, *shape), name
        assert result.device == data.device
        assert result.dtype == (torch.int32 if name == "predict" else dtype), name
        assert not result.requires_grad, name
        np.testing.assert_allclose(result.numpy(), expected, rtol=1e-3, atol=1e-4)
    decoded = fitted.inverse_transform(fitted.transform(data), fitted.predict(data))
    assert isinstance(decoded, torch.Tensor)
    assert decoded.dtype == dtype
    # What is learned is published as arrays, whatever came in.
    assert isinstance(fitted.labels_, np.ndarray)
    assert isinstance(fitted.cluster_centers_, np.ndarray)
    assert isinstance(fitted.score(data), float)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.uint8])
def test_tensors_of_whole_numbers_are_taken_as_floats(estimator, make, X, dtype):
    data = torch.tensor(10 * (X - X.min()) / np.ptp(X)).to(dtype)
    fitted, by_array = make(estimator).fit(data), make(estimator).fit(data.numpy())
    np.testing.assert_array_equal(fitted.labels_, by_array.labels_)
    assert fitted.transform(data).is_floating_point()
    assert not fitted.predict(data).is_floating_point()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_tensors_of_half_precision_are_computed_in_single(estimator, make, X, dtype):
    data = torch.tensor(X, dtype=dtype)
    fitted, single = make(estimator).fit(data), make(estimator).fit(data.float())
    np.testing.assert_array_equal(fitted.labels_, single.labels_)
    # Costs are sums of squares, which half precision could not hold.
    assert fitted.transform(data).dtype == torch.float32


def test_a_tensor_that_wants_a_gradient_is_only_read(estimator, make, X):
    data = torch.tensor(X, requires_grad=True)
    codes = make(estimator).fit(data).transform(data)
    assert not codes.requires_grad
    assert data.grad is None


def test_weights_and_labels_may_be_tensors(estimator, make, model, X):
    known = torch.where(torch.arange(90) < 40, torch.tensor(model.labels_), -1)
    fitted = make(estimator).fit(torch.tensor(X), sample_weight=torch.ones(90), labels=known)
    np.testing.assert_array_equal(fitted.labels_, model.labels_)


def test_centers_may_be_a_tensor_or_a_list(estimator, make, X):
    starts = [X[:3], X[:3].tolist(), torch.tensor(X[:3])]
    fits = [make(estimator, 3, 1, init=start, n_init="auto").fit(X) for start in starts]
    for fitted in fits[1:]:
        np.testing.assert_array_equal(fitted.labels_, fits[0].labels_)


@pytest.mark.parametrize("device", ["cpu", torch.device("cpu"), "auto"], ids=str)
def test_device_may_be_named(estimator, make, model, X, device):
    fitted = make(estimator, device=device).fit(X)
    np.testing.assert_allclose(fitted.transform(X), model.transform(X), atol=1e-3)


def spread(X):
    wide = np.zeros((2 * X.shape[0], 3 * X.shape[1]))
    wide[::2, 1::3] = X
    return wide[::2, 1::3]


ARRANGEMENTS = {
    "fortran": np.asfortranarray,
    "strided": spread,
    "reversed": lambda X: np.ascontiguousarray(X[::-1, ::-1])[::-1, ::-1],
    "transposed": lambda X: np.ascontiguousarray(X.T).T,
    "big-endian": lambda X: X.astype(">f8"),
    "read-only": lambda X: X,
    "transposed tensor": lambda X: torch.tensor(X).mT.contiguous().mT,
}


@pytest.mark.parametrize("name", ARRANGEMENTS)
def test_layout_in_memory_does_not_matter(estimator, make, model, X, name):
    data = ARRANGEMENTS[name](X)
    assert_same_model(make(estimator).fit(data), model, data, X)


@pytest.mark.parametrize("assignment", ["lloyd", "projected", "constrained", "em"])
def test_the_data_and_the_arguments_are_never_written_to(estimator, make, X, assignment):
    arguments = {
        "X": X.copy(),
        "sample_weight": np.linspace(0.5, 2, 90),
        "labels": np.where(np.arange(90) < 9, np.resize([0, 1, 2], 90), -1),
    }
    if estimator is TAE:
        arguments["clean"] = X.copy()
    start = X[:3].copy()
    before = {name: value.copy() for name, value in arguments.items()}
    options = {"assignment": assignment}
    options |= {"max_iter": 2000} if estimator is LinearTAE else {}
    fitted = make(estimator, **options).fit(**arguments)
    fitted.reconstruct(arguments["X"])
    fitted.denoise(arguments["X"], **({"noise": 0.1} if estimator is LinearTAE else {}))
    make(estimator, init=start, n_init="auto", **options).fit(arguments["X"])
    for name, value in arguments.items():
        np.testing.assert_array_equal(value, before[name])
    np.testing.assert_array_equal(start, X[:3])


# Global state -----------------------------------------------------------------------------------


def global_state():
    own = logging.getLogger("tensorae").handlers
    return {
        "numpy": [*np.random.get_state()[1].tolist(), np.random.get_state()[2]],
        "torch": torch.get_rng_state().tolist(),
        "threads": torch.get_num_threads(),
        "dtype": torch.get_default_dtype(),
        "grad": torch.is_grad_enabled(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "handlers": list(logging.getLogger().handlers),
        "own handlers": [h for h in own if not isinstance(h, logging.NullHandler)],
        "level": logging.getLogger().level,
        "errors": np.geterr(),
    }


@pytest.mark.parametrize("assignment", ["lloyd", "projected", "constrained", "em"])
@pytest.mark.parametrize("random_state", [None, 0])
def test_no_global_state_is_touched(estimator, make, X, assignment, random_state):
    options = {"assignment": assignment, "random_state": random_state, "n_init": 2, "verbose": 1}
    options |= {"max_iter": 2000} if estimator is LinearTAE else {"noise": 0.1}
    before = global_state()
    fitted = make(estimator, **options).fit(X)
    fitted.transform(X)
    fitted.denoise(X, **({"noise": 0.1} if estimator is LinearTAE else {}))
    after = global_state()
    if random_state is None:  # scikit-learn's convention: None draws from numpy's own generator
        after["numpy"] = before["numpy"]
    assert after == before


def test_global_seeds_do_not_matter_where_random_state_is_given(estimator, make, X):
    state, costs = np.random.get_state(), []
    try:
        for seed in (0, 1):
            np.random.seed(seed)
            with torch.random.fork_rng():
                torch.manual_seed(seed)
                fitted = make(estimator, 6, 1, init="random", random_state=7).fit(X)
                costs.append(fitted.costs(X))
    finally:
        np.random.set_state(state)
    np.testing.assert_array_equal(*costs)


# TAE alone ----------------------------------------------------------------------------------------


class OwnAutoencoder(nn.Module):
    """Four features, two latent dimensions; at the top of a file, where pickle finds it."""

    def __init__(self):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2))
        self.decode = nn.Sequential(nn.Linear(2, 6), nn.Tanh(), nn.Linear(6, 4))


def test_clone_keeps_an_architecture_of_ones_own(make, X):
    copy = clone(make(TAE, architecture=OwnAutoencoder).fit(X))
    assert not hasattr(copy, "module_")
    assert copy.architecture is OwnAutoencoder


@pytest.mark.parametrize("architecture", ["linear", OwnAutoencoder], ids=["linear", "own"])
def test_pickle_keeps_every_architecture(make, X, architecture):
    model = make(TAE, architecture=architecture, noise=0.1).fit(X)
    copy = pickle.loads(pickle.dumps(model))
    for method in ("predict", "costs", "transform", "reconstruct", "denoise", "predict_proba"):
        np.testing.assert_array_equal(getattr(copy, method)(X), getattr(model, method)(X))
    assert copy.history_["loss"] == model.history_["loss"]


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_clean_samples_may_be_a_frame(make, frame_of, X, library):
    noisy = X + 0.1 * np.random.RandomState(1).randn(*X.shape)
    fitted = make(TAE).fit(frame_of(library, noisy), clean=frame_of(library, X))
    by_array = make(TAE).fit(noisy, clean=X)
    np.testing.assert_allclose(
        fitted.denoise(frame_of(library, noisy)), by_array.denoise(noisy), rtol=1e-3, atol=1e-4
    )


def test_a_second_fit_starts_its_history_anew(make, X):
    fitted = make(TAE).fit(X)
    assert len(fitted.fit(X).history_["epoch"]) == fitted.n_iter_


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_denoised_samples_are_of_the_kind_that_came_in(make, X, dtype):
    data = X.astype(dtype)
    denoised = make(TAE, noise=0.1).fit(data).denoise(data)
    assert isinstance(denoised, np.ndarray)
    assert denoised.dtype == dtype
    assert denoised.shape == X.shape


def test_a_grid_search_finds_the_better_code_length():
    rng = np.random.RandomState(0)
    data = rng.randn(120, 2) @ rng.randn(2, 5) + 0.05 * rng.randn(120, 5)
    search = GridSearchCV(
        TAE(2, init="k-means++", latent_penalty=0.01, max_epochs=20, n_init=1, random_state=0),
        {"latent_dim": [1, 2], "architecture": ["linear", "mlp"]},
        cv=KFold(2, shuffle=True, random_state=0),
        error_score="raise",
    ).fit(data)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.best_params_["latent_dim"] == 2
    assert search.best_estimator_.predict(data).shape == (120,)


# LinearTAE alone ----------------------------------------------------------------------------------


def test_a_grid_search_by_score_finds_that_round_clusters_are_round(X):
    """Every fold fits on the rest; the density does not reward a larger h or a smaller λ."""
    search = GridSearchCV(
        LinearTAE(3, random_state=0, n_init=2),
        {"latent_dim": [1, 2], "latent_penalty": [0.1, 0.5, 1.0]},
        cv=KFold(3, shuffle=True, random_state=0),
        error_score="raise",
    ).fit(X)
    scores = search.cv_results_["mean_test_score"]
    assert np.isfinite(scores).all()
    by_hand = {
        (p["latent_dim"], p["latent_penalty"]): score
        for p, score in zip(search.cv_results_["params"], scores, strict=True)
    }
    assert by_hand[2, 0.1] < by_hand[1, 0.1] < by_hand[1, 0.5] < by_hand[1, 1.0]
    assert search.best_params_["latent_penalty"] == 1
    assert search.best_estimator_.predict(X).shape == (90,)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_components_and_variances_come_in_the_precision_of_the_data(X, dtype):
    fitted = LinearTAE(3, 2, random_state=0).fit(X.astype(dtype))
    for name in ("components_", "explained_variance_"):
        assert isinstance(getattr(fitted, name), np.ndarray)
        assert getattr(fitted, name).dtype == dtype, name


def test_verbose_logs_and_never_prints(X, caplog, capsys):
    with caplog.at_level(logging.INFO, logger="tensorae"):
        LinearTAE(3, 2, random_state=0).fit(X)
        assert caplog.text == ""
        LinearTAE(3, 2, random_state=0, verbose=1, latent_penalty=0.1).fit(X)
    assert "LinearTAE: loss" in caplog.text
    assert "best of 24 starts" in caplog.text
    assert "All settings were given." in caplog.text
    assert capsys.readouterr() == ("", "")
