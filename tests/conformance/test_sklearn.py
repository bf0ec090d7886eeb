"""A citizen of scikit-learn: scikit-learn's own checks, and what users build with LinearTAE."""

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
from sklearn.utils.estimator_checks import parametrize_with_checks

from tensorae import LinearTAE

# No expected failures: the list of arguments is all there is.
VARIANTS = [
    LinearTAE(),
    LinearTAE(latent_penalty="auto", n_init=2),
    LinearTAE(assignment="projected", n_init=1),
    LinearTAE(assignment="constrained", n_init=1),
    LinearTAE(assignment="em", n_init=1),
    LinearTAE(init="k-means", n_init=2),
    LinearTAE(init="random", n_init=2, batch_size=16, device="cpu"),
]


# Two checks fit eight clusters to four different rows, which deserves its warning.
@pytest.mark.filterwarnings("ignore:only 4 of n_clusters=8:sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(VARIANTS)
def test_scikit_learn_check(estimator, check):
    check(estimator)


@pytest.fixture(scope="module", name="X")
def fixture_of_samples():
    rng = np.random.RandomState(0)
    data = 8 * rng.randn(3, 4)[rng.randint(3, size=90)] + rng.randn(90, 4)
    data.setflags(write=False)
    return data


@pytest.fixture(scope="module")
def model(X):
    return LinearTAE(3, 2, random_state=0).fit(X)


# Data frames ------------------------------------------------------------------------------------


NAMES = ["bill", "depth", "flipper", "mass"]


def frame_of(library, X):
    if library == "pandas":
        pd = pytest.importorskip("pandas")
        return pd.DataFrame(X, columns=NAMES, index=np.arange(len(X))[::-1])
    pl = pytest.importorskip("polars")
    return pl.DataFrame(X, schema=NAMES)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_frame_gives_the_fit_of_its_values(X, model, library):
    frame = frame_of(library, X)
    fitted = LinearTAE(3, 2, random_state=0).fit(frame)
    np.testing.assert_array_equal(fitted.labels_, model.labels_)
    np.testing.assert_array_equal(fitted.components_, model.components_)
    assert list(fitted.feature_names_in_) == NAMES
    np.testing.assert_array_equal(fitted.transform(frame), model.transform(X))
    assert isinstance(fitted.transform(frame), np.ndarray)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_set_output_gives_a_frame(X, model, library):
    frame = frame_of(library, X)
    fitted = LinearTAE(3, 2, random_state=0).set_output(transform=library)
    codes = fitted.fit(frame).transform(frame)
    assert type(codes).__module__.startswith(library)
    assert list(codes.columns) == ["lineartae0", "lineartae1"]
    np.testing.assert_array_equal(codes.to_numpy(), model.transform(X))
    together = clone(fitted).set_output(transform=library).fit_transform(frame)
    np.testing.assert_array_equal(together.to_numpy(), model.transform(X))
    if library == "pandas":
        np.testing.assert_array_equal(codes.index, frame.index)


def test_output_features_have_names(X, model):
    assert list(model.get_feature_names_out()) == ["lineartae0", "lineartae1"]
    assert len(LinearTAE(3, 4).fit(X).get_feature_names_out()) == 4


def test_frames_with_integers_booleans_and_small_floats_are_numbers(X, model):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(
        {
            "a": X[:, 0].astype(np.float32),
            "b": (10 * X[:, 1]).astype(int),
            "c": X[:, 2] > 0,
            "d": pd.array((10 * X[:, 3]).astype(int), dtype="Int64"),
        }
    )
    fitted = LinearTAE(3, 2, random_state=0).fit(frame)
    values = frame.to_numpy(dtype=float)
    np.testing.assert_array_equal(
        fitted.labels_, LinearTAE(3, 2, random_state=0).fit(values).labels_
    )


def test_arrays_have_no_feature_names(model):
    assert not hasattr(model, "feature_names_in_")
    assert model.n_features_in_ == 4


# Copies -----------------------------------------------------------------------------------------


def test_clone_copies_parameters_and_nothing_learned(X):
    start = X[:3].copy()
    original = LinearTAE(3, 2, latent_penalty="auto", init=start, tol=1e-3).fit(X)
    copy = clone(original)
    assert not hasattr(copy, "components_")
    np.testing.assert_array_equal(copy.init, start)
    parameters = copy.get_params()
    assert parameters["latent_penalty"] == "auto"
    assert parameters["tol"] == 1e-3


def test_pickle_keeps_the_fitted_model(X, model):
    copy = pickle.loads(pickle.dumps(model))
    for method in ("predict", "transform", "reconstruct", "costs", "predict_proba"):
        np.testing.assert_array_equal(getattr(copy, method)(X), getattr(model, method)(X))


def test_changing_a_parameter_changes_nothing_until_the_next_fit(X):
    fitted = LinearTAE(3, 2, random_state=0).fit(X)
    before = [fitted.predict(X), fitted.transform(X), fitted.predict_proba(X), fitted.costs(X)]
    fitted.set_params(n_clusters=5, latent_dim=1, latent_penalty=0.9)
    after = [fitted.predict(X), fitted.transform(X), fitted.predict_proba(X), fitted.costs(X)]
    for old, new in zip(before, after, strict=True):
        np.testing.assert_array_equal(old, new)
    assert len(fitted.get_feature_names_out()) == 2
    codes = fitted.inverse_transform(fitted.transform(X), fitted.predict(X))
    np.testing.assert_array_equal(codes, fitted.reconstruct(X))


def test_fitting_again_forgets_the_first_fit(X):
    fitted = LinearTAE(5, 1, random_state=0).fit(X[:, :2])
    fitted.set_params(n_clusters=3, latent_dim=2)
    again, fresh = fitted.fit(X), LinearTAE(3, 2, random_state=0).fit(X)
    assert again is fitted
    np.testing.assert_array_equal(again.components_, fresh.components_)
    assert again.n_features_in_ == 4


# Pipelines and searches -------------------------------------------------------------------------


def test_a_pipeline_scales_reduces_and_fits(X):
    pipeline = make_pipeline(StandardScaler(), PCA(3), LinearTAE(3, 1, random_state=0))
    labels = pipeline.fit_predict(X)
    np.testing.assert_array_equal(labels, pipeline.predict(X))
    assert pipeline.transform(X).shape == (90, 1)
    assert pipeline.score(X) < 0
    assert list(pipeline.get_feature_names_out()) == ["lineartae0"]


def test_a_pipeline_passes_labels_and_weights_on(X, model):
    pipeline = Pipeline([("scale", StandardScaler()), ("tae", LinearTAE(3, 1))])
    known = np.where(np.arange(90) < 40, model.labels_, -1)
    pipeline.fit(X, tae__labels=known, tae__sample_weight=np.ones(90))
    np.testing.assert_array_equal(pipeline.predict(X), model.labels_)


def test_codes_feed_a_second_step(X):
    pipeline = make_pipeline(LinearTAE(3, 2, random_state=0), PCA(1)).fit(X)
    assert pipeline.transform(X).shape == (90, 1)


def test_a_grid_search_chooses_latent_dim_and_penalty_by_score(X):
    """Every fold fits on the rest; a larger h and a smaller λ can only explain more."""
    search = GridSearchCV(
        LinearTAE(3, random_state=0, n_init=2),
        {"latent_dim": [1, 2], "latent_penalty": [0.1, 0.5, "auto"]},
        cv=KFold(3, shuffle=True, random_state=0),
        error_score="raise",
    ).fit(X)
    scores = search.cv_results_["mean_test_score"]
    assert np.isfinite(scores).all()
    by_hand = {
        (p["latent_dim"], p["latent_penalty"]): score
        for p, score in zip(search.cv_results_["params"], scores, strict=True)
    }
    assert by_hand[2, 0.1] > by_hand[1, 0.1] > by_hand[1, 0.5]
    assert search.best_params_["latent_dim"] == 2
    assert search.best_estimator_.predict(X).shape == (90,)


def test_y_is_ignored(X, model):
    fitted = LinearTAE(3, 2, random_state=0).fit(X, np.arange(90))
    np.testing.assert_array_equal(fitted.labels_, model.labels_)
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
def test_arrays_come_out_as_the_kind_that_came_in(X, dtype):
    data = X.astype(dtype)
    fitted = LinearTAE(3, 2, random_state=0).fit(data)
    for name, (kind, shape) in OUTPUTS.items():
        result = getattr(fitted, name)(data)
        assert isinstance(result, np.ndarray), name
        assert result.dtype == (kind or dtype), name
        assert result.shape == (90, *shape), name
    decoded = fitted.inverse_transform(fitted.transform(data), fitted.predict(data))
    assert decoded.dtype == dtype
    for name in ("cluster_centers_", "components_", "explained_variance_", "weights_"):
        assert getattr(fitted, name).dtype == dtype, name


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_tensors_come_out_as_tensors(X, dtype):
    data = torch.tensor(X, dtype=dtype)
    fitted = LinearTAE(3, 2, random_state=0).fit(data)
    by_array = LinearTAE(3, 2, random_state=0).fit(data.numpy())
    for name, (_, shape) in OUTPUTS.items():
        result = getattr(fitted, name)(data)
        assert isinstance(result, torch.Tensor), name
        assert result.shape == (90, *shape), name
        assert result.device == data.device
        assert result.dtype == (torch.int32 if name == "predict" else dtype), name
        np.testing.assert_array_equal(result.numpy(), getattr(by_array, name)(data.numpy()))
    decoded = fitted.inverse_transform(fitted.transform(data), fitted.predict(data))
    assert isinstance(decoded, torch.Tensor)
    assert decoded.dtype == dtype
    # What is learned is published as arrays, whatever came in.
    assert isinstance(fitted.labels_, np.ndarray)
    assert isinstance(fitted.components_, np.ndarray)
    assert isinstance(fitted.score(data), float)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.uint8])
def test_tensors_of_whole_numbers_are_taken_as_floats(X, dtype):
    data = torch.tensor(10 * (X - X.min()) / np.ptp(X)).to(dtype)
    fitted = LinearTAE(3, 2, random_state=0).fit(data)
    by_array = LinearTAE(3, 2, random_state=0).fit(data.numpy())
    np.testing.assert_array_equal(fitted.labels_, by_array.labels_)
    assert fitted.transform(data).is_floating_point()
    assert not fitted.predict(data).is_floating_point()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_tensors_of_half_precision_are_computed_in_single(X, dtype):
    data = torch.tensor(X, dtype=dtype)
    fitted = LinearTAE(3, 2, random_state=0).fit(data)
    single = LinearTAE(3, 2, random_state=0).fit(data.float())
    np.testing.assert_array_equal(fitted.labels_, single.labels_)
    # Costs are sums of squares, which half precision could not hold.
    assert fitted.transform(data).dtype == torch.float32


def test_a_tensor_that_wants_a_gradient_is_only_read(X):
    data = torch.tensor(X, requires_grad=True)
    codes = LinearTAE(3, 2, random_state=0).fit(data).transform(data)
    assert not codes.requires_grad
    assert data.grad is None


def test_weights_and_labels_may_be_tensors(X, model):
    data = torch.tensor(X)
    known = torch.where(torch.arange(90) < 40, torch.tensor(model.labels_), -1)
    fitted = LinearTAE(3, 2).fit(data, sample_weight=torch.ones(90), labels=known)
    np.testing.assert_array_equal(fitted.labels_, model.labels_)


def test_centers_may_be_a_tensor_or_a_list(X):
    start = X[:3]
    fits = [LinearTAE(3, 1, init=init).fit(X) for init in (start, start.tolist())]
    fits.append(LinearTAE(3, 1, init=torch.tensor(start)).fit(X))
    for fitted in fits[1:]:
        np.testing.assert_array_equal(fitted.labels_, fits[0].labels_)


def test_device_may_be_named(X, model):
    for device in ("cpu", torch.device("cpu")):
        fitted = LinearTAE(3, 2, random_state=0, device=device).fit(X)
        np.testing.assert_array_equal(fitted.transform(X), model.transform(X))


def test_lists_are_arrays(X, model):
    fitted = LinearTAE(3, 2, random_state=0).fit(X.tolist())
    np.testing.assert_array_equal(fitted.labels_, model.labels_)


def arrangements():
    def spread(X):
        wide = np.zeros((2 * X.shape[0], 3 * X.shape[1]))
        wide[::2, 1::3] = X
        return wide[::2, 1::3]

    return {
        "fortran": np.asfortranarray,
        "strided": spread,
        "reversed": lambda X: np.ascontiguousarray(X[::-1, ::-1])[::-1, ::-1],
        "transposed": lambda X: np.ascontiguousarray(X.T).T,
        "big-endian": lambda X: X.astype(">f8"),
        "read-only": lambda X: X,
    }


@pytest.mark.parametrize("name", arrangements())
def test_layout_in_memory_does_not_matter(X, model, name):
    data = arrangements()[name](X)
    fitted = LinearTAE(3, 2, random_state=0).fit(data)
    np.testing.assert_array_equal(fitted.labels_, model.labels_)
    np.testing.assert_array_equal(fitted.transform(data), model.transform(X))


def test_a_transposed_tensor_works(X, model):
    data = torch.tensor(X).mT.contiguous().mT
    fitted = LinearTAE(3, 2, random_state=0).fit(data)
    np.testing.assert_array_equal(fitted.labels_, model.labels_)


def test_a_read_only_memory_map_works(X, model, tmp_path):
    path = tmp_path / "X.npy"
    np.save(path, X)
    mapped = np.load(path, mmap_mode="r")
    fitted = LinearTAE(3, 2, random_state=0).fit(mapped)
    np.testing.assert_array_equal(fitted.transform(mapped), model.transform(X))


@pytest.mark.parametrize("assignment", ["lloyd", "projected", "constrained", "em"])
def test_the_data_and_the_arguments_are_never_written_to(X, assignment):
    arguments = {
        "X": X.copy(),
        "sample_weight": np.linspace(0.5, 2, 90),
        "labels": np.where(np.arange(90) < 9, np.resize([0, 1, 2], 90), -1),
    }
    start = X[:3].copy()
    before = {name: value.copy() for name, value in arguments.items()}
    options = {"assignment": assignment, "max_iter": 2000}
    LinearTAE(3, 2, **options).fit(**arguments).reconstruct(arguments["X"])
    LinearTAE(3, 2, init=start, **options).fit(arguments["X"])
    for name, value in arguments.items():
        np.testing.assert_array_equal(value, before[name])
    np.testing.assert_array_equal(start, X[:3])


# Global state -----------------------------------------------------------------------------------


def global_state():
    return {
        "numpy": [*np.random.get_state()[1].tolist(), np.random.get_state()[2]],
        "torch": torch.get_rng_state().tolist(),
        "threads": torch.get_num_threads(),
        "dtype": torch.get_default_dtype(),
        "grad": torch.is_grad_enabled(),
        "handlers": list(logging.getLogger().handlers),
        "own handlers": [
            h
            for h in logging.getLogger("tensorae").handlers
            if not isinstance(h, logging.NullHandler)
        ],
        "level": logging.getLogger().level,
        "errors": np.geterr(),
    }


@pytest.mark.parametrize("assignment", ["lloyd", "projected", "constrained", "em"])
@pytest.mark.parametrize("random_state", [None, 0])
def test_no_global_state_is_touched(X, assignment, random_state):
    before = global_state()
    fitted = LinearTAE(3, 2, assignment=assignment, random_state=random_state, verbose=1)
    fitted.set_params(max_iter=2000, n_init=2).fit(X).transform(X)
    after = global_state()
    if random_state is None:  # scikit-learn's convention: None draws from numpy's own generator
        after["numpy"] = before["numpy"]
    assert after == before


def test_global_seeds_do_not_matter_where_random_state_is_given(X):
    state, labels = np.random.get_state(), []
    try:
        for seed in (0, 1):
            np.random.seed(seed)
            with torch.random.fork_rng():
                torch.manual_seed(seed)
                labels.append(LinearTAE(6, 1, init="random", random_state=7).fit_predict(X))
    finally:
        np.random.set_state(state)
    np.testing.assert_array_equal(*labels)


def test_verbose_logs_and_never_prints(X, caplog, capsys):
    with caplog.at_level(logging.INFO, logger="tensorae"):
        LinearTAE(3, 2, random_state=0).fit(X)
        assert caplog.text == ""
        LinearTAE(3, 2, random_state=0, verbose=1).fit(X)
    assert "LinearTAE: loss" in caplog.text
    assert "best of 10 starts" in caplog.text
    assert capsys.readouterr() == ("", "")
