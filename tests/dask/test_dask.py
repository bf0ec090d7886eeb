"""Fits to Dask collections are those of the same rows in memory, whatever the partitions."""

import os
import signal

import numpy as np
import pytest
from sklearn.datasets import load_iris, make_blobs

from tensorae import TAE, Batches, ImputerTAE, LinearTAE, OutlierTAE, load
from tensorae.exceptions import InvalidInputError, InvalidParameterError

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
pd = pytest.importorskip("pandas")

METHODS = ("predict", "predict_proba", "transform", "costs", "score_samples", "reconstruct")


@pytest.fixture(autouse=True)
def one_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.fixture(scope="module")
def blobs():
    X, _ = make_blobs(12_000, 4, centers=4, random_state=0)
    return X * [1, 2, 3, 4]


def require_same(here, there, X, collection, tolerance=1e-8):
    for method in METHODS:
        expected = np.asarray(getattr(here, method)(X))
        lazy = getattr(there, method)(collection)
        assert lazy.chunks[0] == collection.chunks[0]
        scale = max(np.abs(expected).max(), 1)
        np.testing.assert_allclose(lazy.compute() / scale, expected / scale, atol=tolerance)
    assert there.loss_ == pytest.approx(here.loss_, rel=1e-8)
    assert (there.labels_.compute() == here.labels_).all()


SETTINGS = {
    "auto": {},
    "lloyd": {"latent_dim": 1, "latent_penalty": 0.1},
    "own, hard": {"spread": "own", "assignment": "lloyd"},
    "one start": {"latent_dim": 1, "latent_penalty": 0.5, "n_init": 1},
}


@pytest.mark.parametrize("setting", SETTINGS)
def test_more_rows_than_a_sample_give_the_fit_in_memory(setting, blobs):
    model = LinearTAE(4, random_state=0, **SETTINGS[setting])
    here = model.fit(blobs)
    there = LinearTAE(4, random_state=0, **SETTINGS[setting])
    collection = da.from_array(blobs, chunks=(5000, 3))
    require_same(here, there.fit(collection), blobs, collection)


def test_missing_values_give_the_fit_of_batches(blobs):
    X = blobs.copy()
    X[np.random.RandomState(0).rand(*X.shape) < 0.1] = np.nan
    X = X[~np.isnan(X).all(1)]
    collection = da.from_array(X, chunks=(7000, 4))
    for kwargs in ({}, {"latent_dim": 1, "latent_penalty": 0.5}):
        streamed = LinearTAE(4, random_state=0, **kwargs).fit(Batches(X))
        there = LinearTAE(4, random_state=0, **kwargs).fit(collection)
        np.testing.assert_allclose(there.cluster_centers_, streamed.cluster_centers_, atol=1e-9)
        assert there.n_iter_ == streamed.n_iter_


def table():
    X = load_iris().data
    frame = pd.DataFrame(X, columns=list("abcd"))
    frame["colour"] = np.where(X[:, 2] > 4, "red", np.where(X[:, 3] > 1, "blue", "green"))
    frame["tall"] = X[:, 0] > 5.8
    sizes = np.digitize(X[:, 2], [3, 5])
    frame["size"] = pd.Categorical.from_codes(sizes, ["small", "medium", "large"], ordered=True)
    frame.loc[::9, "colour"] = None
    frame.loc[::7, "b"] = np.nan
    return frame


def parts(frame):
    """Partitions of unequal and unknown sizes, one of them empty."""
    whole = dd.from_pandas(frame, npartitions=3)
    return dd.concat([whole[whole["a"] > -1], whole[whole["a"] < -1]])


def test_frames_with_categories_missing_values_and_empty_partitions():
    frame = table()
    collection = parts(frame)
    here, there = LinearTAE(3, random_state=0), LinearTAE(3, random_state=0)
    here.fit(frame)
    there.fit(collection)
    assert there.feature_names_in_.tolist() == list(frame.columns)
    assert [c.tolist() for c in there.categories_] == [c.tolist() for c in here.categories_]
    np.testing.assert_allclose(there.score_samples(collection), here.score_samples(frame))
    filled, expected = there.impute(collection).compute(), here.impute(frame)
    assert filled["colour"].tolist() == expected["colour"].tolist()
    np.testing.assert_allclose(filled["b"], expected["b"])


def test_detectors_and_imputers(blobs):
    X = blobs[:2000].copy()
    collection = da.from_array(X, chunks=(700, 4))
    for share in ("auto", 0.1):
        here, there = (OutlierTAE(contamination=share, random_state=0) for _ in range(2))
        here.fit(X)
        there.fit(collection)
        np.testing.assert_allclose(there.decision_function(collection), here.decision_function(X))
        assert (there.predict(collection).compute() == here.predict(X)).all()
    X[::3, 1] = np.nan
    here, there = ImputerTAE(n_clusters=2), ImputerTAE(n_clusters=2)
    here.set_params(random_state=0).fit(X)
    there.set_params(random_state=0).fit(collection := da.from_array(X, chunks=(700, 4)))
    np.testing.assert_allclose(there.transform(collection), here.transform(X))


def test_files_and_checkpoints(blobs, tmp_path):
    collection = da.from_array(blobs, chunks=(5000, 4))
    model = LinearTAE(4, latent_dim=1, latent_penalty=0.5, random_state=0, n_init=1)
    expected = model.fit(collection).cluster_centers_
    model.save(tmp_path / "model.tae")
    assert (load(tmp_path / "model.tae").cluster_centers_ == expected).all()
    stopped = LinearTAE(4, latent_dim=1, latent_penalty=0.5, random_state=0, n_init=1)
    stopped.fit(collection, checkpoint=tmp_path / "fit.ckpt", checkpoint_every=0)
    np.testing.assert_allclose(stopped.cluster_centers_, expected)


def test_bad_collections_are_refused():
    frame = table()
    whole = dd.from_pandas(frame, npartitions=2)
    with dask.config.set({"dataframe.convert-string": False}):
        objects = dd.from_pandas(frame[["a"]].astype(object), npartitions=2)
    with pytest.raises(InvalidInputError, match="object"):
        LinearTAE(2).fit(objects)
    wrong = [dask.delayed(frame[["a", "b"]]), dask.delayed(frame[["a", "c"]])]
    meta = frame[["a", "b"]].iloc[:0]
    with pytest.raises(InvalidInputError, match="partitions"):
        LinearTAE(2).fit(dd.from_delayed(wrong, meta=meta, verify_meta=False))
    with pytest.raises(InvalidInputError, match="infinite"):
        LinearTAE(2).fit(da.from_array(np.array([[1.0, np.inf], [2.0, 3.0]])))
    with pytest.raises(InvalidInputError, match="rows"):
        LinearTAE(2).fit(whole[whole["a"] < -1])
    collection = da.from_array(frame[["a", "c"]].to_numpy(), chunks=(50, 2))
    with pytest.raises(InvalidParameterError, match="sample_weight"):
        LinearTAE(2).fit(collection, sample_weight=np.ones(150))
    with pytest.raises(InvalidInputError, match="Dask"):
        TAE(2).fit(collection)


def test_a_worker_that_dies_loses_nothing(blobs):
    distributed = pytest.importorskip("distributed")
    settings = {"latent_dim": 1, "latent_penalty": 0.5, "init": blobs[:4], "tol": 0.0}
    expected = LinearTAE(4, **settings).fit(blobs).cluster_centers_
    collection = da.from_array(blobs, chunks=(3000, 4))
    killed = []

    class Killer(distributed.diagnostics.plugin.SchedulerPlugin):
        """Kills the worker that has finished the 20th task."""

        n_tasks = 0

        def transition(self, key, start, finish, *args, worker=None, **kwargs):
            if finish == "memory" and worker is not None:
                self.n_tasks += 1
                if self.n_tasks == 20:
                    killed.append(worker)
                    os.kill(pids[worker], signal.SIGKILL)

    with (
        dask.config.set({"scheduler": None, "distributed.logging.distributed": "critical"}),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        pids = client.run(os.getpid)
        cluster.scheduler.add_plugin(Killer())
        found = LinearTAE(4, **settings).fit(collection).cluster_centers_
    assert killed
    np.testing.assert_allclose(found, expected, atol=1e-9)
