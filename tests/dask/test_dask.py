"""Fits to Dask collections are those of the same rows in memory, whatever the partitions."""

import os
import pickle
import signal
import sys

import numpy as np
import pytest
from sklearn.datasets import load_iris, make_blobs

from tensorae import TAE, Batches, ImputerTAE, LinearTAE, OutlierTAE, load
from tensorae._progress import watched
from tensorae.exceptions import InvalidInputError, InvalidParameterError, MissingDependencyError

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
    X, _ = make_blobs(6_000, 4, centers=4, random_state=0)
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


def test_answers_are_lazy_and_have_the_partitions_of_the_rows():
    collection = parts(table())
    frame = collection.compute()
    model = LinearTAE(3, random_state=0).fit(frame)
    sizes = collection.map_partitions(len).compute().tolist()
    assert 0 in sizes
    for method in ("predict", "transform", "costs", "score_samples", "impute", "reconstruct"):
        found = getattr(model, method)(collection)
        assert dask.is_dask_collection(found)
        blocks = dask.compute(*np.ravel(found.to_delayed()))
        assert [len(block) for block in blocks] == sizes
        expected = getattr(model, method)(frame)
        if hasattr(expected, "columns"):
            assert found.dtypes.tolist() == expected.dtypes.tolist()
            pd.testing.assert_frame_equal(found.compute(), expected)
        else:
            assert found.dtype == expected.dtype
            np.testing.assert_allclose(np.concatenate(blocks), expected)


def test_arrays_of_unknown_chunk_sizes():
    X = load_iris().data
    collection = da.from_array(X, chunks=(40, 2))
    collection = collection[collection[:, 2] > 1.5]  # the first chunk has no rows
    X = X[X[:, 2] > 1.5]
    here, there = LinearTAE(2, random_state=0), LinearTAE(2, random_state=0)
    np.testing.assert_allclose(there.fit(collection).cluster_centers_, here.fit(X).cluster_centers_)
    for method in METHODS:
        found = getattr(there, method)(collection)
        assert np.isnan(found.chunks[0]).all()
        np.testing.assert_allclose(found, getattr(here, method)(X), atol=1e-8)


def test_set_output_gives_lazy_frames():
    frame = pd.DataFrame(load_iris().data, columns=list("abcd"))
    model = LinearTAE(2, random_state=0).fit(frame).set_output(transform="pandas")
    array = da.from_array(frame.to_numpy(), chunks=(40, 4))
    for method in ("transform", "impute", "predict_proba"):
        expected = getattr(model, method)(frame)
        found = getattr(model, method)(dd.from_pandas(frame, npartitions=3))
        assert isinstance(found, dd.DataFrame)
        pd.testing.assert_frame_equal(found.compute(), expected)
        with pytest.warns(UserWarning, match="feature names"):
            found = getattr(model, method)(array)
        assert isinstance(found, dd.DataFrame)
        with pytest.warns(UserWarning, match="feature names"):
            found = found.compute()
        np.testing.assert_allclose(found, expected)
    imputer = ImputerTAE(n_clusters=2, random_state=0).fit(frame).set_output(transform="pandas")
    assert isinstance(imputer.transform(dd.from_pandas(frame, npartitions=3)), dd.DataFrame)


def test_detectors_and_imputers(blobs):
    X = blobs[:900].copy()
    collection = da.from_array(X, chunks=(400, 4))
    for share in ("auto", 0.1):
        here, there = (
            OutlierTAE(contamination=share, n_estimators=2, random_state=0) for _ in range(2)
        )
        here.fit(X)
        there.fit(collection)
        np.testing.assert_allclose(there.decision_function(collection), here.decision_function(X))
        assert (there.predict(collection).compute() == here.predict(X)).all()
    X[::3, 1] = np.nan
    here, there = (ImputerTAE(n_clusters=2, random_state=0) for _ in range(2))
    here.fit(X)
    there.fit(collection := da.from_array(X, chunks=(400, 4)))
    np.testing.assert_allclose(there.transform(collection), here.transform(X))


def test_detectors_and_imputers_of_frames_with_categories():
    frame = table()
    collection = parts(frame)
    here, there = (OutlierTAE(n_estimators=2, random_state=0) for _ in range(2))
    np.testing.assert_allclose(
        there.fit(collection).score_samples(collection), here.fit(frame).score_samples(frame)
    )
    here, there = (ImputerTAE(n_clusters=2, random_state=0) for _ in range(2))
    expected = here.fit(frame).transform(frame)
    found = there.fit(collection).transform(collection).compute()
    assert found["colour"].tolist() == expected["colour"].tolist()
    np.testing.assert_allclose(found["b"], expected["b"])


# What travels, and when ---------------------------------------------------------------------------


def test_rows_do_not_come_to_the_client(monkeypatch):
    X, _ = make_blobs(60_000, 16, centers=2, random_state=0)
    collection = da.from_array(X, chunks=(15_000, 16)).persist()
    compute, sizes = dask.compute, []

    def measured(*wanted):
        found = compute(*wanted)
        sizes.append(len(pickle.dumps(found)))
        return found

    monkeypatch.setattr(dask, "compute", measured)
    LinearTAE(2, 1, latent_penalty=0.5, max_iter=3, tol=0.5, random_state=0).fit(collection)
    # Sums, a sample of 1,000 rows for each cluster, and the marks of the search for it.
    assert sizes
    assert max(sizes) < X.nbytes / 8


class Scheduler:
    """Computes in this thread, and stops after some calls."""

    def __init__(self, stop_at=None):
        self.n_calls, self.stop_at = 0, stop_at

    def __call__(self, graph, keys, **kwargs):
        if self.n_calls == self.stop_at:
            raise InterruptedError
        self.n_calls += 1
        return dask.get(graph, keys, **kwargs)


def test_tasks_have_names_on_the_dashboard():
    collection = da.from_array(load_iris().data, chunks=(50, 4))
    names = set()

    class Names(dask.callbacks.Callback):
        def _pretask(self, key, *rest):
            names.add(dask.utils.key_split(key))

    with Names():
        LinearTAE(2, 1, latent_penalty=0.5, random_state=0).fit(collection)
    assert {"tensorae_pass", "tensorae_rows", "tensorae_sum"} <= names


def test_progress_tells_the_numbers_of_clusters():
    collection, told = da.from_array(load_iris().data, chunks=(50, 4)), []
    with watched(lambda what, done, total: told.append((done, total))):
        LinearTAE((1, 2), 1, latent_penalty=0.5, random_state=0).fit(collection)
    assert told == [(0, 2), (1, 2)]


def test_files_and_checkpoints(blobs, tmp_path):
    collection = da.from_array(blobs, chunks=(2500, 4))
    settings = {"latent_dim": 1, "latent_penalty": 0.5, "init": blobs[:4], "tol": 0.0}
    with dask.config.set(scheduler=(scheduler := Scheduler())):
        expected = LinearTAE(4, max_iter=60, **settings).fit(collection)
    expected.save(tmp_path / "model.tae")
    assert (load(tmp_path / "model.tae").cluster_centers_ == expected.cluster_centers_).all()
    model, path = LinearTAE(4, max_iter=60, **settings), tmp_path / "fit.ckpt"
    with (
        dask.config.set(scheduler=Scheduler(stop_at=scheduler.n_calls - 4)),
        pytest.raises(InterruptedError),
    ):
        model.fit(collection, checkpoint=path, checkpoint_every=0)
    assert path.exists()
    with dask.config.set(scheduler=(rest := Scheduler())):
        model.fit(collection, checkpoint=path)
    assert rest.n_calls < scheduler.n_calls - 4
    assert not path.exists()
    assert (model.cluster_centers_ == expected.cluster_centers_).all()
    assert model.n_iter_ == expected.n_iter_


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
    with pytest.raises(InvalidParameterError, match="labels"):
        LinearTAE(2).fit(collection, labels=np.full(150, -1))
    with pytest.raises(InvalidInputError, match="Dask"):
        TAE(2).fit(collection)
    with pytest.raises(InvalidInputError, match="Dask"):
        LinearTAE(2).partial_fit(collection)
    model = LinearTAE(2, random_state=0).fit(load_iris().data)
    with pytest.raises(InvalidParameterError, match="n_draws"):
        model.impute(da.from_array(load_iris().data), n_draws=2)


@pytest.mark.parametrize("package", ["dask", "cloudpickle"])
def test_a_missing_package_is_named(package, monkeypatch):
    collection = da.from_array(load_iris().data)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingDependencyError, match=rf"{package}.*tensorae\[dask\]"):
        LinearTAE(2).fit(collection)


def test_a_worker_that_dies_loses_nothing(blobs):
    distributed = pytest.importorskip("distributed")
    settings = {"latent_dim": 1, "latent_penalty": 0.5, "init": blobs[:4], "tol": 0.0}
    expected = LinearTAE(4, **settings).fit(blobs).cluster_centers_
    collection = da.from_array(blobs, chunks=(1500, 4))
    killed = []
    method = "distributed.worker.multiprocessing-method"
    with dask.config.set({method: "forkserver"}):
        # Workers begin with what they need, so that three of them start in the time of one.
        needed = ["distributed", "dask.array", "tensorae.linear_tae"]
        distributed.utils.get_mp_context().set_forkserver_preload(needed)

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
        dask.config.set({"scheduler": None, method: "forkserver"}),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=50
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        pids = client.run(os.getpid)
        cluster.scheduler.add_plugin(Killer())
        found = LinearTAE(4, **settings).fit(collection).cluster_centers_
    assert killed
    np.testing.assert_allclose(found, expected, atol=1e-9)
