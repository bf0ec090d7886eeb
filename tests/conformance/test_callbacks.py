"""scikit-learn's callbacks see fits, epoch by epoch where there are epochs."""

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tensorae import TAE, LinearTAE

callback = pytest.importorskip("sklearn.callback", reason="scikit-learn before 1.9")
X, y = load_iris(return_X_y=True)


class Recorder:
    """Notes what it is told, and stops after some steps."""

    def __init__(self, stop_after=None):
        self.told, self.scores, self.stop_after = [], [], stop_after

    def setup(self, estimator, context):
        self.told.append("setup")

    def teardown(self, estimator, context):
        self.told.append("teardown")

    def on_fit_task_begin(self, estimator, context):
        self.told.append(f"begin {context.task_name}")

    def on_fit_task_end(self, estimator, context, *, X=None, fitted_estimator=None):
        self.told.append(f"end {context.task_name}")
        self.scores.append(fitted_estimator.score(X))
        return len(self.scores) == self.stop_after


def test_a_linear_fit_is_one_task():
    recorder = Recorder()
    model = LinearTAE(3, 1, random_state=0).set_callbacks(recorder).fit(X)
    assert recorder.told == ["setup", "begin fit", "end fit", "teardown"]
    assert recorder.scores == [model.score(X)]


def test_every_epoch_is_a_step_with_a_model_of_its_own():
    plain = TAE(2, 1, max_epochs=4, random_state=0).fit(X)
    recorder = Recorder()
    model = TAE(2, 1, max_epochs=4, random_state=0).set_callbacks(recorder).fit(X)
    steps = ["begin epoch", "end epoch"] * model.n_iter_
    assert recorder.told == ["setup", "begin fit", *steps, "end fit", "teardown"]
    assert recorder.scores[-1] == model.score(X)
    assert len(set(recorder.scores)) > 1
    # Watching changes nothing.
    np.testing.assert_array_equal(model.costs(X), plain.costs(X))


def test_a_callback_can_stop_a_training():
    recorder = Recorder(stop_after=2)
    model = TAE(2, 1, max_epochs=6, random_state=0).set_callbacks(recorder).fit(X)
    assert model.n_iter_ < 6


def test_scoring_monitor_and_progress_bar(capsys):
    monitor = callback.ScoringMonitor(scoring="adjusted_rand_score")
    model = TAE(3, 1, max_epochs=3, random_state=0).set_callbacks(monitor, callback.ProgressBar())
    model.fit(X, y)
    assert [row["task_name"] for row in monitor.get_logs().data] == ["fit"] + ["epoch"] * 3
    pipeline = make_pipeline(StandardScaler(), LinearTAE(3, random_state=0))
    pipeline.set_callbacks(callback.ProgressBar()).fit(X)


def test_a_failed_fit_leaves_nothing_behind():
    model = TAE(2, 1, max_epochs=2).set_callbacks(recorder := Recorder())
    with pytest.raises(ValueError, match="latent_dim"):
        model.set_params(latent_dim=9).fit(X)
    assert recorder.told in ([], ["setup", "begin fit", "teardown"])
    assert not hasattr(model, "_callback_fit_ctx")
    assert not hasattr(model, "input_shape_")
