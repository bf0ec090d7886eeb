"""Whatever is in a model file or a checkpoint: one of our errors, or a model that works."""

import copy
import os

import numpy as np
import pytest
import torch
from sklearn.datasets import load_iris

from tensorae import TAE, Batches, LinearTAE, OutlierTAE, load
from tensorae.exceptions import CheckpointError, TensoraeError
from tensorae.persist import read_header
from tensorae.persist.checkpoints import KIND as CHECKPOINT
from tensorae.persist.checkpoints import Checkpoint
from tensorae.persist.container import Container, read_container, write_container
from tensorae.persist.models import KIND as MODEL

pytestmark = pytest.mark.filterwarnings("ignore")

IRIS = load_iris().data[::2]
VALUES = [
    None, True, False, 0, 1, -1, 3, 2.5, -0.1, 1e300, 10**30, 10**400, "", "auto", "learn", "lloyd",
    "\ud800", [], [1], [[]], {}, {"a": 1}, {"custom": 1}, {"$tensor": "labels_"}, {"$tensor": "?"},
    {"$float": "nan"}, {"$float": "inf"}, {"$items": [[0, 1]]},
]  # fmt: skip
NUMBERS = [np.nan, np.inf, -np.inf, -1.0, 0.0, 1e30, -1e30, 7, 1e-300, 1e200, -1e200, 1e308]


# Edits --------------------------------------------------------------------------------------------


def damaged(data, rng):
    """Bytes with some flipped, cut out, doubled, or put in."""
    data = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        place, length = rng.randint(len(data) + 1), rng.choice([1, 2, 8, 100, len(data)])
        kind = rng.randint(4)
        if kind == 0 and place < len(data):
            data[place] ^= 1 << rng.randint(8)
        elif kind == 1:
            del data[place : place + length]
        elif kind == 2:
            data[place:place] = rng.bytes(min(length, 200))
        else:
            data[place:place] = data[place : place + length]
        if not data:
            break
    return bytes(data)


def places(tree, path=()):
    """Paths to all entries of a tree of dicts and lists."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for key, value in items:
        yield (*path, key)
        if isinstance(value, dict | list):
            yield from places(value, (*path, key))


def with_other_header(header, rng):
    header = copy.deepcopy(header)
    found = list(places(header))
    *path, last = found[rng.randint(len(found))]
    node = header
    for key in path:
        node = node[key]
    if rng.randint(5) == 0:
        del node[last]
    else:
        node[last] = VALUES[rng.randint(len(VALUES))]
    return header


def with_other_tensor(tensors, rng):
    name = sorted(tensors)[rng.randint(len(tensors))]
    return {**tensors, name: edited(tensors[name], rng)}


def edited(tensor, rng):
    flat, kind = tensor.reshape(-1).clone(), rng.randint(8)
    if kind == 0 or not flat.numel():
        return tensor[None].clone()
    if kind == 1:
        return flat[: rng.randint(flat.numel())].clone()
    if kind == 2:
        return torch.cat([flat, flat])
    if kind == 3:
        types = [torch.float32, torch.float64, torch.int64, torch.int32, torch.bool, torch.float16]
        return tensor.to(types[rng.randint(len(types))])
    value = NUMBERS[rng.randint(len(NUMBERS))]
    if not tensor.is_floating_point():
        value = [-1, 0, 7, 99, 10**6][rng.randint(5)] if tensor.dtype != torch.bool else True
        value = value if tensor.dtype != torch.uint8 else 7
    if kind == 4:
        flat[:] = value
    elif kind == 5:
        flat[rng.randint(flat.numel())] = value
    elif kind == 6 and tensor.is_floating_point():
        flat *= value
    else:
        flat = -flat if tensor.is_floating_point() else flat.flip(0)
    return flat.view(tensor.shape)


def rewritten(path, kind, content, rng):
    """Write the content of a file with an edit, and a checksum that fits."""
    header, tensors = content.header, content.tensors
    for _ in range(rng.randint(1, 3)):
        if rng.randint(2):
            header = with_other_header(header, rng)
        else:
            tensors = with_other_tensor(tensors, rng)
    write_container(path, kind, Container(header, tensors, content.version))


# Models -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Files of small models."""
    folder = tmp_path_factory.mktemp("models")
    made = [
        LinearTAE(3, 2, random_state=0, latent_penalty=0.1).fit(IRIS),
        LinearTAE(2, 1, random_state=0, assignment="em", latent_penalty="auto").fit(IRIS),
        LinearTAE(2, 1, random_state=0, latent_penalty=0.1).fit(
            np.random.RandomState(0).randn(9, 300)
        ),
        TAE(2, 1, random_state=0, max_epochs=2, noise=0.1).fit(IRIS),
        TAE(2, 1, random_state=0, max_epochs=2, architecture="conv").fit(IRIS.reshape(-1, 2, 2)),
        LinearTAE(2, random_state=0, spread="own").fit(IRIS),
        OutlierTAE(n_estimators=2, random_state=0).fit(IRIS),
    ]
    paths = [folder / f"{number}.tae" for number in range(len(made))]
    for model, path in zip(made, paths, strict=True):
        model.save(path)
    return paths


def check_answers(model):
    """Check that all that a model says of a few rows is finite."""
    X = np.random.RandomState(0).randn(5, model.n_features_in_)
    answers = [model.score_samples(X), model.predict(X)]
    if not isinstance(model, OutlierTAE):
        labels, codes = model.predict(X), model.transform(X)
        assert 0 <= labels.min() <= labels.max() < len(model.cluster_centers_)
        answers += [codes, model.costs(X), model.predict_proba(X), model.reconstruct(X)]
        answers.append(model.inverse_transform(codes, labels))
    if isinstance(model, LinearTAE):
        has_missing = np.where(np.arange(X.shape[1]) == 1, np.nan, X)
        answers += [model.log_density(X), model.impute(has_missing), model.denoise(X, noise=0.1)]
    elif isinstance(model, TAE) and model._blend is not None:
        answers.append(model.denoise(X))
    for values in answers:
        assert np.isfinite(values).all()


def loaded(path):
    """Load a file; None where that is refused in a sentence that names it."""
    try:
        read_header(path)
        return load(path)
    except TensoraeError as error:
        message = str(error)
    assert "model.tae" in message
    return None


def test_a_damaged_model_file_is_an_error_or_the_model(trials, models, tmp_path):
    path = tmp_path / "model.tae"

    def trial(rng):
        source = models[rng.randint(len(models))]
        path.write_bytes(damaged(source.read_bytes(), rng))
        again = loaded(path)
        if again is not None:
            whole = load(source)
            np.testing.assert_array_equal(again.cluster_centers_, whole.cluster_centers_)

    trials(60, trial)


def test_an_edited_model_file_is_an_error_or_a_model_that_works(trials, models, tmp_path):
    path = tmp_path / "model.tae"

    def trial(rng):
        source = models[rng.randint(len(models))]
        rewritten(path, MODEL, read_container(source, MODEL), rng)
        again = loaded(path)
        if again is not None:
            check_answers(again)

    trials(80, trial)


@pytest.mark.parametrize("value", [0.0, 1e200, 1e308])
def test_numbers_that_no_fit_gives_are_an_error_or_a_model_that_works(
    models, tmp_path, monkeypatch, value
):
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    path, refused = tmp_path / "model.tae", set()
    for number in (0, 2, 5, 6):
        content = read_container(models[number], MODEL)
        for name, tensor in content.tensors.items():
            if not tensor.is_floating_point() or not tensor.numel() or "member1" in name:
                continue
            edit = torch.full_like(tensor, value)
            tensors = {**content.tensors, name: edit}
            write_container(path, MODEL, Container(content.header, tensors, content.version))
            again = loaded(path)
            if again is None:
                refused.add(name)
            else:
                check_answers(again)
    assert refused >= {"weights_", "components_", "moments.counts", "member0.weights"}


# Checkpoints --------------------------------------------------------------------------------------


class KilledError(Exception):
    pass


GIVEN = {"latent_penalty": 0.1, "init": IRIS[[0, 30, 60]]}
FITS = {
    "linear": (lambda: LinearTAE(3, 1, tol=0, **GIVEN), IRIS),
    "streamed": (lambda: LinearTAE(3, 1, tol=0, **GIVEN), Batches(IRIS)),
    "soft": (lambda: LinearTAE(3, 1, assignment="projected", **GIVEN), IRIS),
    "own": (lambda: LinearTAE(3, 1, spread="own", init=IRIS[[0, 30, 60]], tol=0), IRIS),
    "deep": (lambda: TAE(2, 1, random_state=0, max_epochs=4), IRIS),
    "deep, soft": (
        lambda: TAE(2, 1, random_state=0, max_epochs=4, noise=0.1, assignment="em"), IRIS,
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def states(tmp_path_factory):
    """Bytes of checkpoints that killed fits have left, some steps after the start."""
    found = {}
    observe = Checkpoint.__call__
    for name, (make, X) in FITS.items():
        for last in (1, 3):
            file, steps = tmp_path_factory.mktemp("states") / "run.ckpt", []

            def observe_and_die(self, state, steps=steps, last=last):
                observe(self, state)
                self._turn = 0  # one file is enough
                steps.append(state)
                if len(steps) == last:
                    raise KilledError

            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(Checkpoint, "__call__", observe_and_die)
                with pytest.raises(KilledError):
                    make().fit(X, checkpoint=file, checkpoint_every=0)
            found[name, last] = file
    return found


def go_on(name, path):
    """Fit from a checkpoint, or hear in a sentence what to do with it."""
    make, X = FITS[name]
    try:
        model = make().fit(X, checkpoint=path, checkpoint_every=1e9)
    except TensoraeError as error:
        message = str(error)
    else:
        assert 0 <= model.labels_.min() <= model.labels_.max() < model.n_clusters
        assert list(path.parent.iterdir()) == []
        return
    assert "run.ckpt" in message
    assert "remove the file" in message


@pytest.mark.parametrize("name", FITS)
def test_a_damaged_checkpoint_is_an_error_or_the_state(trials, states, tmp_path, name):
    path = tmp_path / "run.ckpt"

    def trial(rng):
        path.write_bytes(damaged(states[name, 3].read_bytes(), rng))
        go_on(name, path)

    trials(6, trial)


@pytest.mark.parametrize("name", FITS)
def test_an_edited_checkpoint_is_an_error_or_a_state(trials, states, tmp_path, name):
    path = tmp_path / "run.ckpt"

    def trial(rng):
        source = states[name, (1, 3)[rng.randint(2)]]
        rewritten(path, CHECKPOINT, read_container(source, CHECKPOINT), rng)
        go_on(name, path)

    trials(12, trial)


def test_not_a_number_is_never_gone_on_from(states, tmp_path):
    path = tmp_path / "run.ckpt"
    for name in FITS:
        content = read_container(states[name, 3], CHECKPOINT)
        for key, tensor in list(content.tensors.items())[:: max(1, len(content.tensors) // 9)]:
            if tensor.is_floating_point() and tensor.numel():
                spoiled = tensor.clone()
                spoiled.view(-1)[-1] = np.nan
                tensors = {**content.tensors, key: spoiled}
                write_container(path, CHECKPOINT, Container(content.header, tensors, 2))
                with pytest.raises(CheckpointError, match="remove the file"):
                    FITS[name][0]().fit(FITS[name][1], checkpoint=path)
