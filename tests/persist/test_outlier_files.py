"""Files of detectors: what does not fit is refused in one sentence."""

import numpy as np
import pytest
import torch

from tensorae import OutlierTAE, load
from tensorae._schema import SchemaError
from tensorae.anomaly.calibration import Calibration
from tensorae.exceptions import ModelFileError
from tensorae.persist.container import read_container, split_tree, write_container
from tensorae.persist.models import KIND
from tensorae.persist.outliers import pack_outliers, restore_judges


@pytest.fixture(scope="module")
def model():
    X = np.random.RandomState(0).randn(60, 3)
    return OutlierTAE(n_estimators=2, random_state=0).fit(X)


@pytest.mark.parametrize(
    ("name", "change", "sentence"),
    [
        ("member0.noise_variance", lambda t: t * 0, "noise_variance must be above zero"),
        ("member0.centers", lambda t: t * torch.nan, "contains NaN"),
        ("member1.columns", lambda t: t + 3, "must rise and stay below 3"),
        ("member0.latent_dims", lambda t: t + 9, "latent_dims of a local model"),
        ("calibration.ordinary", lambda t: t.flip(0), "must rise"),
        ("calibration.decay", lambda t: t * 0, "decay must be above zero"),
        ("unit", lambda t: t[:2], "must have shape"),
        ("unit", lambda t: t * 1e-300, "unit must be at least"),
        ("shift", lambda t: t + 1e200, "shift must be between"),
        ("member0.weights", lambda t: t * 0, "must sum to one"),
        ("member1.components", lambda t: t * 2, "components must"),
    ],
)
def test_numbers_that_do_not_fit_are_refused(model, name, change, sentence):
    tensors = split_tree(pack_outliers(model))[1]
    tensors[name] = change(tensors[name])
    with pytest.raises(SchemaError, match=sentence):
        restore_judges(OutlierTAE(n_estimators=2), tensors, {})


def test_a_missing_local_model_is_noticed(model):
    tensors = split_tree(pack_outliers(model))[1]
    kept = {name: t for name, t in tensors.items() if not name.startswith("member1.")}
    with pytest.raises(SchemaError, match="1 local models of 2"):
        restore_judges(OutlierTAE(n_estimators=2), kept, {})


def test_a_parameter_that_is_missing_is_as_it_is_by_default(model, tmp_path):
    path = tmp_path / "odd.tae"
    model.save(path)
    content = read_container(path, KIND)
    del content.header["parameters"]["n_clusters"]
    write_container(path, KIND, content)
    assert load(path).n_clusters == OutlierTAE().n_clusters


def test_nothing_is_written_that_could_not_be_read(model, tmp_path):
    broken = OutlierTAE(n_estimators=2, random_state=0).fit(np.random.RandomState(0).randn(60, 3))
    broken._calibration = Calibration(np.array([1.0, 0.0]), np.ones(2), 1.0)
    with pytest.raises(ModelFileError, match="cannot be saved as it is"):
        broken.save(tmp_path / "odd.tae")
    assert not list(tmp_path.iterdir())
    model.save(tmp_path / "odd.tae")
    assert load(tmp_path / "odd.tae").n_samples_ == 60
