"""A model that was saved and loaded is the same model."""

import copy
import functools
import json
import os
import pickle
import subprocess
import sys
import warnings
from dataclasses import fields, is_dataclass

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import tensorae
from tensorae import TAE, LinearTAE, load
from tensorae.exceptions import InvalidParameterError, ModelFileError
from tensorae.persist import read_header


def saved_and_loaded(model, folder, **options):
    path = folder / "model.tae"
    model.save(path)
    return load(str(path), **options)


def own(name, program):
    return {"architecture": program.WithBatchNorm} if name.startswith("own") else {}


def same(left, right):
    """Tell whether two attributes are the same, bit for bit and type for type."""
    if type(left) is not type(right):
        return False
    if isinstance(left, np.ndarray):
        return left.dtype == right.dtype and left.shape == right.shape and _equal(left, right)
    if isinstance(left, torch.Tensor):
        return left.dtype == right.dtype and same(left.numpy(), right.numpy())
    if isinstance(left, torch.nn.Module):
        return left.training == right.training and same(
            dict(left.state_dict()), dict(right.state_dict())
        )
    if isinstance(left, dict):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    if is_dataclass(left):
        return all(same(getattr(left, f.name), getattr(right, f.name)) for f in fields(left))
    return left == right or (left != left and right != right)


def _equal(left, right):
    return np.array_equal(left, right, equal_nan=left.dtype.kind == "f")


# The same model -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def answers_of_another_process(models, program, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    for name, (model, X) in models.items():
        model.save(folder / f"{name}.tae")
        np.save(folder / f"{name}.npy", np.asarray(X))
    environment = {
        **os.environ,
        "PYTHONWARNINGS": "error",
        "OMP_NUM_THREADS": str(torch.get_num_threads()),
    }
    done = subprocess.run(
        [sys.executable, program.__file__, str(folder)],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return {name: dict(np.load(folder / f"{name}.npz")) for name in models}


def test_another_process_gives_the_same_answers_bit_for_bit(
    models, program, answers_of_another_process
):
    differing = []
    for name, (model, X) in models.items():
        here, there = program.answers(model, X), answers_of_another_process[name]
        assert here.keys() == there.keys()
        differing += [f"{name}.{key}" for key in here if not same(here[key], there[key])]
    assert not differing


def test_every_attribute_comes_back(models, program, tmp_path):
    for name, (model, _) in models.items():
        again = saved_and_loaded(model, tmp_path, **own(name, program))
        assert type(again) is type(model)
        before, after = vars(model), vars(again)
        assert before.keys() == after.keys(), name
        # A decomposition that can be made again from the moments is not stored.
        ignored = {"init", "callbacks", "n_clusters"} | (
            {"_denoiser"} if before.get("_moments") else set()
        )
        differing = [
            key for key in before if key not in ignored and not same(before[key], after[key])
        ]
        assert not differing, name


def test_arrays_are_kept_in_the_order_in_which_they_are_computed_with(models):
    # Another order of the same numbers can mean another order of sums.
    for name, (model, _) in models.items():
        arrays = [value for value in vars(model).values() if isinstance(value, np.ndarray)]
        assert all(array.flags.c_contiguous for array in arrays), name


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_loaded_model_can_be_fitted_cloned_copied_and_pickled(models, program, tmp_path):
    for name in ("linear_lloyd", "tae_conv", "own"):
        model, X = models[name]
        again = saved_and_loaded(model, tmp_path, **own(name, program))
        expected = model.costs(X)
        assert np.array_equal(clone(again).fit(X).costs(X), expected)
        assert np.array_equal(copy.deepcopy(again).costs(X), expected)
        if name != "own":
            assert np.array_equal(pickle.loads(pickle.dumps(again)).costs(X), expected)
        assert np.array_equal(again.fit(X).costs(X), expected)
        assert np.array_equal(saved_and_loaded(again, tmp_path, **own(name, program)).costs(X),
                              expected)  # fmt: skip


def test_column_names_are_still_checked(models, X, tmp_path):
    again = saved_and_loaded(models["linear_table"][0], tmp_path)
    with pytest.raises(ValueError, match="feature names"):
        again.predict(pd.DataFrame(X, columns=list("abcde")))


def test_saving_and_loading_leaves_random_numbers_alone(
    models, program, tmp_path, keep_random_state
):
    for name in ("linear_lloyd", "tae_mlp", "tae_conv", "own"):
        saved_and_loaded(models[name][0], tmp_path, **own(name, program))


def test_saving_leaves_the_model_alone(models, program, tmp_path):
    for name in ("linear_lloyd", "tae_single", "own"):
        model, X = models[name]
        before = program.answers(model, X)
        model.module_.train() if name == "own" else None
        model.save(tmp_path / "model.tae")
        assert same(program.answers(model, X), before)


def test_only_fitted_models_are_saved(tmp_path):
    for model in (LinearTAE(), TAE()):
        with pytest.raises(tensorae.exceptions.NotFittedError):
            model.save(tmp_path / "model.tae")
    assert not list(tmp_path.iterdir())


# Parameters -----------------------------------------------------------------------------------


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_parameters_come_back_as_they_were(linear, deep, tmp_path, data):
    numbers = st.floats(0, 1e300, exclude_min=True)
    whole = st.integers(1, 2**62)
    options = {
        "latent_penalty": st.floats(1e-300, 1) | st.just("auto"),
        "assignment": st.sampled_from(["lloyd", "projected", "constrained", "em"]),
        "n_init": whole | st.just("auto"),
        "tol": numbers,
        "random_state": st.none() | st.integers(0, 2**32 - 1),
        "verbose": st.booleans() | st.integers(0, 9),
        "device": st.sampled_from([None, "auto", "cpu"]),
    }
    if data.draw(st.booleans()):
        model = copy.copy(linear)
        options |= {"max_iter": whole, "init": st.sampled_from(["k-means", "random"])}
    else:
        model = copy.copy(deep)
        options |= {"lr": numbers, "patience": whole, "max_epochs": st.none() | whole}
        options |= {"validation_fraction": st.floats(0, 0.99), "input_shape": st.just((5,))}
    model.set_params(**{name: data.draw(values) for name, values in options.items()})
    assert saved_and_loaded(model, tmp_path).get_params() == model.get_params()


@pytest.mark.parametrize(
    "kind", [list, np.array, np.float32, torch.tensor], ids=["list", "array", "single", "tensor"]
)
def test_centres_come_back_as_an_array(linear, X, tmp_path, kind):
    model = copy.copy(linear).set_params(init=kind(X[:3].tolist()))
    again = saved_and_loaded(model, tmp_path)
    assert isinstance(again.init, np.ndarray)
    assert np.array_equal(again.init, np.asarray(model.init))
    again.fit(X)


@pytest.mark.parametrize("given", ["auto", range(2, 5), np.array([2, 3]), (3,), np.int64(3)])
def test_numbers_of_clusters_come_back(models, X, tmp_path, given):
    model = copy.copy(models["linear_chosen"][0])
    model.set_params(n_clusters=given, tol=np.float32(0.5), verbose=np.bool_(True))
    again = saved_and_loaded(model, tmp_path)
    wanted = given if isinstance(given, str | np.integer) else tuple(int(k) for k in given)
    assert again.n_clusters == wanted
    assert not isinstance(again.n_clusters, np.integer)
    assert (again.tol, again.verbose) == (0.5, True)
    assert np.array_equal(again.predict(X), model.predict(X))


def test_what_was_compared_comes_back(models, tmp_path):
    model = models["linear_chosen"][0]
    again = saved_and_loaded(model, tmp_path)
    assert set(again.comparison_["n_clusters"]) == {2, 3, 4}
    assert again.reason_ == model.reason_
    plain = saved_and_loaded(models["linear_lloyd"][0], tmp_path)
    assert (plain.comparison_, plain.reason_) == ({}, "All settings were given.")


def test_criteria_that_are_not_finite_come_back(models, tmp_path):
    model = copy.copy(models["linear_chosen"][0])
    odd = dict(zip(range(3), (float("inf"), float("-inf"), float("nan")), strict=True))
    column = [odd.get(row, value) for row, value in enumerate(model.comparison_["icl"])]
    model.comparison_ = {**model.comparison_, "icl": column}
    assert same(saved_and_loaded(model, tmp_path).comparison_, model.comparison_)


def test_a_generator_and_callbacks_do_not_come_back(linear, deep, tmp_path):
    model = copy.copy(linear).set_params(random_state=np.random.RandomState(0))
    assert saved_and_loaded(model, tmp_path).random_state is None
    model = copy.copy(deep).set_params(callbacks=[print])
    assert saved_and_loaded(model, tmp_path).callbacks is None


@pytest.mark.parametrize("device", ["cuda:7", torch.device("cuda", 7), "mps", "meta"])
def test_a_model_of_another_device_works_here(linear, deep, X, tmp_path, device):
    for model in (linear, deep):
        elsewhere = copy.copy(model).set_params(device=device)
        again = saved_and_loaded(elsewhere, tmp_path)
        assert again.device is None
        assert np.array_equal(again.predict(X), model.predict(X))


def test_the_device_can_be_chosen_at_loading(deep, tmp_path):
    assert saved_and_loaded(deep, tmp_path, device="cpu").device == "cpu"
    assert str(saved_and_loaded(deep, tmp_path).module_.scale.device) == "cpu"
    with pytest.raises(InvalidParameterError, match="device must be one that this machine has"):
        saved_and_loaded(deep, tmp_path, device="cuda:7")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"n_clusters": 4}, r"must have shape \(4, 5\), got \(3, 5\); fit it again"),
        ({"n_clusters": (4, 5)}, r"3 clusters, .* n_clusters=\(4, 5\)"),
        ({"latent_dim": 1}, r"components_ must have shape \(3, 1, 5\), got \(3, 2, 5\)"),
        ({"max_iter": -1}, "max_iter must"),
        ({"verbose": print}, "verbose must consist of"),
    ],
)
def test_what_could_not_be_loaded_is_not_saved(linear, tmp_path, change, reason):
    with pytest.raises(ValueError, match=reason) as caught:
        copy.copy(linear).set_params(**change).save(tmp_path / "model.tae")
    assert isinstance(caught.value, tensorae.exceptions.TensoraeError)
    assert not list(tmp_path.iterdir())


def test_a_model_that_lost_an_attribute_is_not_saved(linear, deep, tmp_path):
    for model, name in ((linear, "components_"), (deep, "_blend")):
        model = copy.copy(model)
        delattr(model, name)
        with pytest.raises(ModelFileError, match=name):
            model.save(tmp_path / "model.tae")


def test_a_class_of_ones_own_is_not_saved_as_another(linear, tmp_path):
    class Mine(LinearTAE):
        pass

    mine = Mine()
    mine.__dict__ = vars(linear)
    with pytest.raises(InvalidParameterError, match="got Mine"):
        mine.save(tmp_path / "model.tae")


# Autoencoders of one's own --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("architecture", "reason"),
    [
        (None, r"WithBatchNorm.*load\(path, architecture="),
        ("mlp", "WithBatchNorm"),
        (lambda: (torch.nn.Linear(5, 2), torch.nn.Linear(2, 5)), "Missing key|Unexpected key"),
        (lambda: (torch.nn.Linear(7, 2), torch.nn.Linear(2, 7)), "Missing key|Unexpected key"),
        (lambda: 7, "returns int"),
    ],
)
def test_another_architecture_is_refused(models, tmp_path, architecture, reason):
    models["own"][0].save(tmp_path / "model.tae")
    stored = read_header(tmp_path / "model.tae")["parameters"]["architecture"]
    assert stored == {"custom": "storage_predictions.WithBatchNorm"}
    with pytest.raises(InvalidParameterError, match=reason):
        load(tmp_path / "model.tae", architecture=architecture)


def test_another_activation_is_refused_though_all_weights_fit(models, program, tmp_path):
    other = functools.partial(program.WithBatchNorm, activation=torch.nn.ReLU)
    models["own"][0].save(tmp_path / "model.tae")
    with pytest.raises(InvalidParameterError, match="costs are different"):
        load(tmp_path / "model.tae", architecture=other)


def test_an_architecture_is_refused_where_none_is_needed(linear, deep, tmp_path):
    for model in (linear, deep):
        model.save(tmp_path / "model.tae")
        with pytest.raises(InvalidParameterError, match="must be omitted"):
            load(tmp_path / "model.tae", architecture=torch.nn.Identity)
    assert isinstance(load(tmp_path / "model.tae", architecture="mlp"), TAE)


def test_chance_inside_an_architecture_is_no_obstacle(X, tmp_path):
    class Noisy(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder, self.decoder = torch.nn.Linear(5, 1), torch.nn.Linear(1, 5)

        def encode(self, x):
            return self.encoder(x + torch.randn_like(x))

        def decode(self, z):
            return self.decoder(z)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = TAE(2, 1, architecture=Noisy, max_epochs=2, random_state=0).fit(X)
    again = saved_and_loaded(model, tmp_path, architecture=Noisy)
    assert same(again.module_, model.module_)


def test_a_state_that_is_no_tensor_is_not_saved(X, tmp_path):
    class Odd(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder, self.decoder = torch.nn.Linear(5, 1), torch.nn.Linear(1, 5)

        def get_extra_state(self):
            return {"anything": object()}

        def set_extra_state(self, state):
            pass

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = TAE(2, 1, architecture=lambda: Odd(), max_epochs=2, random_state=0).fit(X)
    with pytest.raises(ModelFileError, match="_extra_state of the architecture is dict"):
        model.save(tmp_path / "model.tae")


# What the file says ---------------------------------------------------------------------------


def test_the_header_tells_what_a_reader_wants_to_know(models, tmp_path):
    model, X = models["linear_table"]
    scaling = {"columns": list(X.columns), "scale": np.arange(5) / 10, "offset": (0, 1.5)}
    model.save(tmp_path / "model.tae", preprocessing=scaling)
    header = read_header(tmp_path / "model.tae")
    assert header["format_version"] == 1
    assert header["class"] == "LinearTAE"
    assert header["feature_names"] == list(X.columns)
    assert header["preprocessing"] == {
        "columns": list(X.columns), "scale": [0.0, 0.1, 0.2, 0.3, 0.4], "offset": [0, 1.5],
    }  # fmt: skip
    assert header["training"]["n_samples"] == 60
    assert header["training"]["n_features"] == 5
    assert sum(header["training"]["cluster_sizes"]) == 60
    assert header["training"]["loss"] == model.loss_
    assert header["training"]["n_iter"] == model.n_iter_
    assert header["training"]["spread"] == "shared"
    assert header["training"]["latent_dims"] == [2, 2, 2]
    assert header["versions"].keys() == {"tensorae", "torch", "numpy", "scikit-learn", "python"}
    assert header["created"].endswith("+00:00")


@pytest.mark.parametrize("value", [{"a": float("nan")}, {1: "a"}, {"a": object()}, {"a": {2, 3}}])
def test_preprocessing_that_json_does_not_know_is_refused(linear, tmp_path, value):
    with pytest.raises(InvalidParameterError, match="preprocessing"):
        linear.save(tmp_path / "model.tae", preprocessing=value)
    assert not list(tmp_path.iterdir())


def without_places(entries):
    return {name: (entry.get("dtype"), entry.get("shape")) for name, entry in entries.items()}


def test_the_file_is_plain_safetensors_with_json(models, tmp_path):
    # As safetensors itself reads and writes it.
    from safetensors.torch import load_file, save

    for name in ("linear_single", "tae_single", "own"):
        path = tmp_path / "model.tae"
        models[name][0].save(path)
        data = path.read_bytes()
        size = int.from_bytes(data[:8], "little")
        places = json.loads(data[8 : 8 + size])
        tensors = load_file(path)
        theirs = save(tensors, metadata=places["__metadata__"])
        expected = json.loads(theirs[8 : 8 + int.from_bytes(theirs[:8], "little")])
        assert size % 8 == 0
        assert places["__metadata__"] == expected["__metadata__"]
        assert without_places(places) == without_places(expected)
        assert (
            json.loads(places["__metadata__"]["header"])["class"] == type(models[name][0]).__name__
        )
        assert np.array_equal(tensors["labels_"].numpy(), models[name][0].labels_)


@pytest.mark.parametrize("kind", [torch.bool, torch.int16, torch.bfloat16, torch.complex64])
def test_buffers_of_many_types_come_back_and_others_are_named(models, program, tmp_path, kind):
    class WithBuffer(program.WithBatchNorm):
        def __init__(self):
            super().__init__()
            self.register_buffer("more", torch.arange(3).to(kind))

    model = copy.deepcopy(models["own"][0]).set_params(architecture=WithBuffer)
    for autoencoder in model.module_.autoencoders:
        autoencoder.module.register_buffer("more", torch.tensor([0, 1, 1]).to(kind))
    if kind == torch.complex64:
        with pytest.raises(ModelFileError, match=r"torch.complex64, such as .*more"):
            model.save(tmp_path / "model.tae")
        return
    again = saved_and_loaded(model, tmp_path, architecture=WithBuffer)
    for autoencoder in again.module_.autoencoders:
        assert autoencoder.module.more.tolist() == [0, 1, 1]
