"""A pipeline of Scattering and a clusterer in one file."""

import json

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

import tensorae
from tensorae import TAE, LinearTAE, OutlierTAE, Scattering
from tensorae.cli import main
from tensorae.exceptions import InvalidParameterError, ModelFileError, NotFittedError
from tensorae.persist import read_header
from tensorae.persist.models import KIND, Container, read_container, write_container

IMAGES = load_digits().images[:60].astype(np.float32)


def fitted(last=None):
    last = last or LinearTAE(3, 2, latent_penalty=0.1, random_state=0)
    return make_pipeline(Scattering(8, L=4), last).fit(IMAGES)


@pytest.fixture(scope="module")
def pipeline():
    return fitted()


@pytest.fixture
def file(pipeline, tmp_path):
    tensorae.save(pipeline, tmp_path / "digits.tae")
    return tmp_path / "digits.tae"


@pytest.mark.parametrize(
    "last",
    [
        LinearTAE(3, 2, latent_penalty=0.1, random_state=0),
        TAE(3, 2, architecture="mlp", max_epochs=2, random_state=0),
        OutlierTAE(random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_loaded_pipeline_predicts_the_same(last, tmp_path):
    pipeline = fitted(last)
    tensorae.save(pipeline, tmp_path / "digits.tae")
    again = tensorae.load(tmp_path / "digits.tae")
    assert isinstance(again, Pipeline)
    assert list(again.named_steps) == list(pipeline.named_steps)
    np.testing.assert_array_equal(again.predict(IMAGES), pipeline.predict(IMAGES))
    np.testing.assert_array_equal(again.score_samples(IMAGES), pipeline.score_samples(IMAGES))


def test_own_autoencoders_are_given_to_load(tmp_path):
    class Network(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.encode, self.decode = torch.nn.Linear(8, 2), torch.nn.Linear(2, 8)

    pipeline = fitted(TAE(3, 2, architecture=Network, max_epochs=1, random_state=0))
    tensorae.save(pipeline, tmp_path / "own.tae")
    with pytest.raises(InvalidParameterError, match="architecture"):
        tensorae.load(tmp_path / "own.tae")
    again = tensorae.load(tmp_path / "own.tae", architecture=Network)
    np.testing.assert_array_equal(again.predict(IMAGES), pipeline.predict(IMAGES))


def test_the_header_tells_of_both_steps(file):
    header = read_header(file)
    assert (header["class"], header["training"]["n_samples"]) == ("Pipeline", 60)
    assert [step["class"] for _, step in header["details"]["steps"]] == ["Scattering", "LinearTAE"]


def test_truncated_and_changed_files_are_refused(file):
    content = file.read_bytes()
    for cut in (0, 7, 100, len(content) // 2, len(content) - 1):
        file.write_bytes(content[:cut])
        with pytest.raises(ModelFileError):
            tensorae.load(file)
    file.write_bytes(content[:-9] + bytes([content[-9] ^ 1]) + content[-8:])
    with pytest.raises(ModelFileError):
        tensorae.load(file)


def swap(header, tensors):
    header["details"]["steps"].reverse()


def nest(header, tensors):
    header["details"]["steps"][0][1] = json.loads(json.dumps(header))


def forget(header, tensors):
    del header["details"]["steps"][0][1]["details"]["J"]


def same_name(header, tensors):
    header["details"]["steps"][1][0] = header["details"]["steps"][0][0]


def no_steps(header, tensors):
    header["details"] = {}


def other_size(header, tensors):
    header["details"]["steps"][0][1]["details"]["image_shape"] = [1, 80, 8]


def no_scale(header, tensors):
    tensors["0.channel_scale_"] = torch.zeros_like(tensors["0.channel_scale_"])


def narrow(header, tensors):
    for name in ("0.components_", "0.explained_variance_"):
        tensors[name] = tensors[name][:5].clone()


@pytest.mark.parametrize(
    "change", [swap, nest, forget, same_name, no_steps, other_size, no_scale, narrow]
)
def test_files_that_make_no_sense_are_refused(file, change):
    content = read_container(file, KIND)
    header, tensors = content.header, dict(content.tensors)
    change(header, tensors)
    write_container(file, KIND, Container(header, tensors, content.version))
    with pytest.raises(ModelFileError):
        tensorae.load(file)


def test_steps_that_a_file_cannot_hold_are_refused(tmp_path):
    other = make_pipeline(StandardScaler(), LinearTAE(2, 1, latent_penalty=0.1))
    with pytest.raises(InvalidParameterError, match="StandardScaler"):
        tensorae.save(other.fit(IMAGES.reshape(60, -1)), tmp_path / "other.tae")
    with pytest.raises(NotFittedError):
        tensorae.save(make_pipeline(Scattering(), LinearTAE(2)), tmp_path / "other.tae")
    assert not list(tmp_path.iterdir())


def test_the_command_line_says_what_to_do_with_a_pipeline(file, tmp_path, capsys):
    np.save(tmp_path / "images.npy", IMAGES)
    with pytest.raises(SystemExit) as end:
        main(["predict", str(file), str(tmp_path / "images.npy")])
    error = capsys.readouterr().err
    assert end.value.code == 1
    assert "Pipeline" in error
    assert "internal" not in error
