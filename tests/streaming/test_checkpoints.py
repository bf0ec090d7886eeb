"""A fit that is killed goes on and ends with the same model, bit for bit."""

import random
import time
from contextlib import contextmanager
from unittest.mock import patch

import numpy as np
import pytest
from safetensors.numpy import load_file
from sklearn.base import clone
from sklearn.datasets import load_iris

from tensorae import TAE, Batches, LinearTAE
from tensorae.assignment import RULES
from tensorae.exceptions import InvalidParameterError
from tensorae.persist.checkpoints import Checkpoint

IRIS = load_iris().data
GAPPED = np.where(np.random.RandomState(0).rand(150, 4) < 0.2, np.nan, IRIS)
GAPPED[:, 0] = IRIS[:, 0]
KILLS = {"linear": 8, "linear, in memory": 3, "deep": 5, "deep, in memory": 4}


@pytest.mark.parametrize("kind", list(KILLS))
def test_kills_at_random_moments_change_nothing(start, kind, tmp_path):
    """Twenty kills in all."""

    def fit(name, every):
        files = [str(tmp_path / f"{name}.{suffix}") for suffix in ("tae", "ckpt")]
        return start("fit_and_save", kind, *files, every)

    began = time.monotonic()
    undisturbed = fit("undisturbed", 1e9)
    undisturbed.join()
    duration = time.monotonic() - began
    assert undisturbed.exitcode == 0

    moments, kills = random.Random(0), 0
    while kills < KILLS[kind]:
        process = fit("killed", 0.03)
        process.join(moments.uniform(0.1, 0.9) * duration)
        if process.is_alive():
            process.kill()
            kills += 1
        process.join()
        if (tmp_path / "killed.tae").exists():  # it was done; begin again
            same_model(tmp_path)
            (tmp_path / "killed.tae").unlink()
    last = fit("killed", 0.03)
    last.join()
    assert last.exitcode == 0
    same_model(tmp_path)
    assert not list(tmp_path.glob("*.ckpt*"))


def same_model(folder):
    first, second = (load_file(folder / f"{name}.tae") for name in ("undisturbed", "killed"))
    assert first.keys() == second.keys()
    for name in first:
        if name != "history.seconds":
            np.testing.assert_array_equal(first[name], second[name], err_msg=name)


class KilledError(Exception):
    pass


def killer(after):
    """A callback that ends the fit as a kill would, with nothing cleaned up."""
    epochs = []

    def callback(epoch):
        epochs.append(epoch)
        if len(epochs) == after:
            raise KilledError

    return callback


@contextmanager
def killed_after(steps):
    """A linear fit ends after so many steps as a kill would, with nothing cleaned up."""
    observe, seen = Checkpoint.__call__, []

    def observe_and_die(self, state):
        observe(self, state)
        seen.append(state)
        if len(seen) == steps:
            raise KilledError

    with patch.object(Checkpoint, "__call__", observe_and_die), pytest.raises(KilledError):
        yield


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"assignment": "em"},
        {"assignment": "projected"},
        {"latent_penalty": "auto"},
        {"validation_fraction": 0.2},
        {"noise": 0.1},
        {"n_clusters": 1},
        {"sharing": "layers"},
        {"architecture": "vae", "sharing": "layers"},
        {"architecture": "vae", "n_clusters": 1},
    ],
    ids=lambda options: ", ".join(f"{k}={v}" for k, v in options.items()) or "defaults",
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_training_goes_on_from_any_epoch(options, tmp_path):
    settings = {"n_clusters": 3, "latent_dim": 1, "max_epochs": 10, "random_state": 0} | options
    whole = TAE(**settings).fit(IRIS)
    for after in (2, 3, 6, 9):
        file = tmp_path / f"{after}.ckpt"
        with pytest.raises(KilledError):
            TAE(**settings, callbacks=killer(after)).fit(IRIS, checkpoint=file, checkpoint_every=0)
        assert file.exists()
        again = TAE(**settings).fit(IRIS, checkpoint=file, checkpoint_every=0)
        assert not file.exists()
        for name, value in whole.module_.state_dict().items():
            assert (again.module_.state_dict()[name] == value).all(), name
        np.testing.assert_array_equal(again.labels_, whole.labels_)
        assert again.history_["loss"] == whole.history_["loss"]
        if "noise" in options:
            np.testing.assert_array_equal(again.denoise(IRIS), whole.denoise(IRIS))


@pytest.mark.parametrize("assignment", ["projected", "constrained"])
def test_soft_rules_are_kept_where_a_sample_makes_the_start(assignment, tmp_path):
    """Data of so many rows goes on from the fit of a sample, in one run that is kept."""
    rng = np.random.RandomState(0)
    X = rng.randn(24_000, 8) + 4 * rng.randn(6, 8)[rng.randint(6, size=24_000)]
    model = LinearTAE(6, 1, assignment=assignment, random_state=0, latent_penalty=0.1)
    kept = clone(model).fit(X, checkpoint=tmp_path / "run.ckpt", checkpoint_every=0)
    assert list(tmp_path.iterdir()) == []
    np.testing.assert_array_equal(kept.components_, model.fit(X).components_)


def test_kills_after_every_step_of_every_restart_change_nothing(tmp_path):
    """The second file then holds what the first one does, or one step more."""
    file = tmp_path / "run.ckpt"
    model = LinearTAE(3, 1, init=IRIS[:3], tol=0, latent_penalty=0.1)
    whole = clone(model).fit(IRIS)
    assert whole.n_iter_ > 4
    for _ in range(whole.n_iter_ - 1):
        with killed_after(1):
            clone(model).fit(IRIS, checkpoint=file, checkpoint_every=0)
    with patch.object(Checkpoint, "__call__", side_effect=AssertionError("one step is left")):
        again = clone(model).fit(IRIS, checkpoint=file, checkpoint_every=0)
    np.testing.assert_array_equal(again.components_, whole.components_)
    assert list(tmp_path.iterdir()) == []


KINDS = [
    *((rule, {"latent_penalty": 0.1}) for rule in RULES),
    *((rule, {"spread": "own"}) for rule in ("lloyd", "em")),
]


@pytest.mark.parametrize(("assignment", "kind"), KINDS)
@pytest.mark.parametrize("after", [1, 3])
@pytest.mark.parametrize("X", [IRIS, GAPPED], ids=["whole", "gaps"])
def test_a_linear_fit_goes_on_from_any_step(X, assignment, kind, after, tmp_path):
    file = tmp_path / "run.ckpt"
    start = IRIS[[0, 1, 2]] if "spread" in kind else IRIS[[0, 60, 120]]
    model = LinearTAE(3, 1, init=start, assignment=assignment, **kind)
    whole = clone(model).fit(X)
    with killed_after(after):
        clone(model).fit(X, checkpoint=file, checkpoint_every=0)
    again = clone(model).fit(X, checkpoint=file, checkpoint_every=0)
    assert list(tmp_path.iterdir()) == []
    assert again.n_iter_ == whole.n_iter_
    np.testing.assert_array_equal(again.components_, whole.components_)
    np.testing.assert_array_equal(again.objective_path_, whole.objective_path_)


def test_many_rows_with_gaps_go_on_with_the_clusters_that_had_a_chance(tmp_path):
    file, rng = tmp_path / "run.ckpt", np.random.RandomState(0)
    centers = 8 * rng.randn(8, 6)
    X = centers[np.arange(9000) % 8] + rng.randn(9000, 6)
    X[::7, 2] = np.nan
    model = LinearTAE(8, 1, spread="own", init=centers, tol=1e-4)
    whole = clone(model).fit(X)
    for _ in range(2):
        with killed_after(1):
            clone(model).fit(X, checkpoint=file, checkpoint_every=0)
    again = clone(model).fit(X, checkpoint=file)
    for name in ("cluster_centers_", "components_", "noise_variance_", "objective_path_"):
        np.testing.assert_array_equal(getattr(again, name), getattr(whole, name), err_msg=name)


def test_a_checkpoint_of_other_values_weights_labels_or_targets_is_refused(tmp_path):
    file = tmp_path / "run.ckpt"
    options = {"max_epochs": 6, "random_state": 0}
    with pytest.raises(KilledError):
        TAE(3, 1, **options, callbacks=killer(3)).fit(IRIS, checkpoint=file, checkpoint_every=0)
    changed = nudged(IRIS)
    labels = np.full(len(IRIS), -1)
    labels[0] = 1
    for data, others in (
        (changed, {}),
        (IRIS, {"sample_weight": np.linspace(1, 2, len(IRIS))}),
        (IRIS, {"labels": labels}),
        (IRIS, {"clean": changed}),
    ):
        with pytest.raises(InvalidParameterError, match="data was"):
            TAE(3, 1, **options).fit(data, checkpoint=file, **others)
    TAE(3, 1, **options).fit(IRIS, checkpoint=file)
    assert not file.exists()


def swapped(X):
    """Rows that sum to the same, in another order."""
    X = X.copy()
    X[[100, 101]] = X[[101, 100]]
    return X


def negated(X):
    X = X.copy()
    X[1:, 3] *= -1
    return X


def nudged(X):
    X = X.copy()
    X[77, 1] += 1e-9
    return X


def in_pieces(X):
    """A function that gives rows, of which no fingerprint sees more than the first."""
    return lambda: iter(np.array_split(X, 3))


ONE_START = LinearTAE(3, 1, init=IRIS[:3], tol=0, latent_penalty=0.1)


@pytest.mark.parametrize(
    ("model", "source", "change"),
    [
        (ONE_START, np.asarray, swapped),
        (ONE_START, np.asarray, negated),
        (ONE_START, in_pieces, nudged),
        (TAE(3, 1, max_epochs=3, random_state=0, architecture="linear"), np.asarray, nudged),
    ],
    ids=["swapped", "negated", "nudged", "deep"],
)
def test_a_checkpoint_of_batches_with_one_other_row_is_refused(
    model, source, change, tmp_path, monkeypatch
):
    file, X = tmp_path / "run.ckpt", np.concatenate([IRIS, IRIS[::-1] + 0.01])
    monkeypatch.setattr("tensorae.data.sources.LOOKED_AT", 1)
    with killed_after(1):
        clone(model).fit(Batches(source(X)), checkpoint=file, checkpoint_every=0)
    with pytest.raises(InvalidParameterError, match="of other data"):
        clone(model).fit(Batches(source(change(X))), checkpoint=file)
    clone(model).fit(Batches(source(X), batch_rows=47), checkpoint=file)
    assert list(tmp_path.iterdir()) == []


def test_a_seed_that_is_not_given_is_kept(tmp_path):
    file = tmp_path / "run.ckpt"
    model = TAE(3, 1, max_epochs=6, callbacks=killer(3))
    with pytest.raises(KilledError):
        model.fit(IRIS, checkpoint=file, checkpoint_every=0)
    seed = (tmp_path / "run.ckpt.seed").read_text()
    once = TAE(3, 1, max_epochs=6).fit(IRIS, checkpoint=file)
    whole = TAE(3, 1, max_epochs=6, random_state=int(seed)).fit(IRIS)
    np.testing.assert_array_equal(once.labels_, whole.labels_)
    assert list(tmp_path.iterdir()) == []


def test_a_checkpoint_of_another_fit_is_refused(tmp_path):
    file = tmp_path / "run.ckpt"
    with pytest.raises(KilledError):
        TAE(3, 1, max_epochs=6, random_state=0, callbacks=killer(3)).fit(
            IRIS, checkpoint=file, checkpoint_every=0
        )
    with pytest.raises(InvalidParameterError, match="n_clusters was 3, now 4"):
        TAE(4, 1, max_epochs=6, random_state=0).fit(IRIS, checkpoint=file)
    with pytest.raises(InvalidParameterError, match="data was"):
        TAE(3, 1, max_epochs=6, random_state=0).fit(IRIS[1:], checkpoint=file)
    with pytest.raises(InvalidParameterError, match="class was 'TAE', now 'LinearTAE'"):
        LinearTAE(3, 1, init=IRIS[:3], latent_penalty=0.1).fit(IRIS, checkpoint=file)
    assert file.exists()


def test_a_fit_that_ends_leaves_no_checkpoint_and_the_same_model(tmp_path):
    for data in (IRIS, Batches(IRIS, batch_rows=40)):
        kept = LinearTAE(3, 1, random_state=0, latent_penalty=0.1).fit(
            data, checkpoint=tmp_path / "a.ckpt", checkpoint_every=0
        )
        np.testing.assert_array_equal(
            kept.components_,
            LinearTAE(3, 1, random_state=0, latent_penalty=0.1).fit(data).components_,
        )
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("several", ["labels", "n_init=2"])
def test_a_fit_that_cannot_be_kept_says_so(several, tmp_path):
    n_init = 2 if several == "n_init=2" else "auto"
    labels = None
    if several == "labels":
        labels = np.repeat([0, 1, 2], 50)
        labels[::2] = -1  # with all of them known they are one start, which can be kept
    model = LinearTAE(3, 1, n_init=n_init, random_state=0, latent_penalty=0.1)
    with pytest.warns(RuntimeWarning, match=f"no state of a fit with {several}"):
        model.fit(IRIS, labels=labels, checkpoint=tmp_path / "run.ckpt")


def test_a_single_start_is_kept(tmp_path):
    model = LinearTAE(3, 1, n_init=1, random_state=0, latent_penalty=0.1)
    with killed_after(1):
        model.fit(IRIS, checkpoint=tmp_path / "run.ckpt")
