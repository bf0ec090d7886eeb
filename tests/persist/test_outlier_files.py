"""Files of detectors: what does not fit is refused in one sentence."""

from dataclasses import replace

import numpy as np
import pytest

from tensorae import OutlierTAE, load
from tensorae.anomaly.detector import Calibration
from tensorae.exceptions import ModelFileError
from tensorae.persist.container import read_container, write_container
from tensorae.persist.models import KIND


@pytest.fixture(scope="module")
def model():
    X = np.random.RandomState(0).randn(60, 3)
    return OutlierTAE(n_estimators=2, random_state=0).fit(X)


def test_a_parameter_that_is_missing_is_as_it_is_by_default(model, tmp_path):
    path = tmp_path / "model.tae"
    model.save(path)
    content = read_container(path, KIND)
    del content.header["parameters"]["n_clusters"]
    write_container(path, KIND, content)
    assert load(path).n_clusters == OutlierTAE().n_clusters


def test_nothing_is_written_that_could_not_be_read(model, tmp_path):
    broken = OutlierTAE(n_estimators=2, random_state=0).fit(np.random.RandomState(0).randn(60, 3))
    wrong = Calibration(np.array([1.0, 0.0]), np.ones(2), 1.0)
    broken._detector = replace(broken._detector, calibration=wrong)
    with pytest.raises(ModelFileError, match="cannot be saved as it is"):
        broken.save(tmp_path / "model.tae")
    assert not list(tmp_path.iterdir())
    model.save(tmp_path / "model.tae")
    assert load(tmp_path / "model.tae").n_samples_ == 60
