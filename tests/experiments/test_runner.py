"""Parts run once: an interrupted run goes on, and nothing stale or damaged is used again."""

import os
import signal
import threading
from concurrent.futures import Future
from dataclasses import asdict, replace
from typing import ClassVar

import numpy as np
import pytest

from tensorae import TAE
from tensorae.experiments import likelihood, problems, reproduce, runner
from tensorae.experiments.experiment import Outcome, Part
from tensorae.experiments.runner import Store, run_parts

PARTS = [
    Part(likelihood.TASK, name, method, seed)
    for name in ("triangle", "iris")
    for method in ("lloyd", "em")
    for seed in (0, 1)
]


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "parts")


@pytest.fixture
def calls(monkeypatch):
    """Parts that were run, in order; running one gives its seed."""
    ran = []

    def run_part(part):
        ran.append(part)
        return Outcome({"seed": float(part.seed)}, {"labels": [1, 2]}, 0.5)

    monkeypatch.setattr(runner, "run_part", run_part)
    return ran


def test_every_part_runs_once_and_comes_back(store, calls):
    records = run_parts([*PARTS, *PARTS], store, jobs=1)
    assert sorted(calls) == sorted(PARTS)
    assert {r.part: r.outcome.values["seed"] for r in records} == {p: p.seed for p in PARTS}


def test_finished_parts_are_not_run_again_and_come_back_unchanged(store, calls):
    first = run_parts(PARTS, store, jobs=1)
    again = run_parts(PARTS, Store(store.folder), jobs=1)
    assert len(calls) == len(PARTS)
    assert {r.part: asdict(r.outcome) for r in again} == {r.part: asdict(r.outcome) for r in first}


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_an_interrupted_run_goes_on_with_the_missing_parts(store, calls, error):
    def stop(done, total, part):
        if done == 3:
            raise error

    with pytest.raises(error):
        run_parts(PARTS, store, jobs=1, progress=stop)
    assert len(calls) == 3
    finished = set(calls)
    calls.clear()
    records = run_parts(PARTS, store, jobs=1)
    assert set(calls) == set(PARTS) - finished
    assert {record.part for record in records} == set(PARTS)


def test_a_part_that_fails_leaves_those_before_it(store, calls, monkeypatch):
    works = runner.run_part

    def fails(part):
        if len(calls) == 2:
            raise RuntimeError("broken part")
        return works(part)

    monkeypatch.setattr(runner, "run_part", fails)
    with pytest.raises(RuntimeError, match="broken part"):
        run_parts(PARTS, store, jobs=1)
    assert sum(store.find(part) is not None for part in PARTS) == 2


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"null", b'{"values"', b'{"other": 1}', b"\xff\xfe\x00"]
)
def test_damaged_files_are_run_again(store, calls, content):
    run_parts(PARTS, store, jobs=1)
    damaged = store._file(PARTS[0])
    assert damaged.is_file()
    damaged.write_bytes(content)
    calls.clear()
    run_parts(PARTS, store, jobs=1)
    assert calls == [PARTS[0]]
    assert store.find(PARTS[0]) is not None


def test_other_data_other_classes_and_other_code_are_not_the_same_part(store, monkeypatch):
    iris = problems.load("iris")
    more = replace(iris, X=iris.X + 1e-9)
    other_classes = replace(iris, y=1 - iris.y)
    names = [store._file(PARTS[-1])]
    for data in (more, other_classes):
        changed = replace(problems.PROBLEMS["iris"], read=lambda _seed, _quick, data=data: data)
        with monkeypatch.context() as patch:
            patch.setitem(problems.PROBLEMS, "iris", changed)
            problems.fingerprint.cache_clear()
            names.append(store._file(PARTS[-1]))
    problems.fingerprint.cache_clear()
    assert store._file(PARTS[-1]) == names[0]
    monkeypatch.setattr(store, "code", "other code")
    names.append(store._file(PARTS[-1]))
    assert len(set(names)) == 4


def test_parts_that_differ_in_anything_have_files_of_their_own(store):
    base = Part("clustering", "iris", "TAE", 0)
    parts = [
        base,
        replace(base, seed=1),
        replace(base, quick=True),
        replace(base, method="AE1"),
        replace(base, dataset="triangle"),
        replace(base, task="EM"),
    ]
    assert len({store._file(part) for part in parts}) == len(parts)


@pytest.mark.parametrize(
    ("file", "counts"),
    [
        ("linear/solver.py", True),
        ("deep/training.py", True),
        ("estimators/deep.py", True),
        ("datasets/planted.py", True),
        ("assignment.py", True),
        ("experiments/clustering.py", True),
        ("experiments/published.py", True),
        ("experiments/figure4_clustering.py", False),
        ("experiments/page.py", False),
        ("plotting/style.py", False),
        ("cli/app.py", False),
    ],
)
def test_code_that_fits_makes_parts_stale_and_code_that_draws_does_not(file, counts):
    from pathlib import Path

    import tensorae

    assert (Path(tensorae.__file__).parent / file).is_file()
    assert runner._matters(Path(file)) is counts


def test_every_task_is_part_of_the_code_that_counts():
    from pathlib import Path

    from tensorae.experiments.tasks import TASKS

    for function in TASKS.values():
        file = Path(*function.__module__.split(".")[1:]).with_suffix(".py")
        assert runner._matters(file)


def test_a_kill_while_writing_leaves_no_half_a_part(store, monkeypatch):
    def killed(path, content):
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "write_atomically", killed)
    with pytest.raises(KeyboardInterrupt):
        store.keep(PARTS[0], Outcome({"x": 1.0}))
    assert store.find(PARTS[0]) is None


# Interrupts -----------------------------------------------------------------------------------


@pytest.fixture
def ctrl_c():
    """Send this process what Ctrl-C sends, with Python's usual handler in place."""
    assert threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield lambda: os.kill(os.getpid(), signal.SIGINT)
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_in_a_fit_ends_the_run_and_keeps_no_half_trained_model(
    store, monkeypatch, ctrl_c, rng
):
    """``TAE.fit`` answers Ctrl-C with the best model so far; here that would be a wrong figure."""

    def train(part):
        model = TAE(2, 1, max_epochs=6, callbacks=lambda epoch: ctrl_c(), random_state=0)
        model.fit(rng.randn(60, 3))
        return Outcome({"ARI": 1.0})

    monkeypatch.setattr(runner, "run_part", train)
    with pytest.raises(KeyboardInterrupt):
        run_parts(PARTS, store, jobs=1)
    assert store.find(PARTS[0]) is None
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_handler_of_the_callers_own_stays(store, calls, ctrl_c):
    heard = []

    def own(*_):
        heard.append(True)

    signal.signal(signal.SIGINT, own)
    run_parts(PARTS, store, jobs=1, progress=lambda *_: ctrl_c())
    assert heard
    assert signal.getsignal(signal.SIGINT) is own
    assert len(calls) == len(PARTS)


def test_threads_and_environment_are_put_back(store, calls, monkeypatch):
    import torch

    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    before = torch.get_num_threads()
    seen = []
    run_parts(
        PARTS, store, jobs=1, progress=lambda *_: seen.append(os.environ.get("MKL_NUM_THREADS"))
    )
    assert seen[-1] == "1"
    assert os.environ["OMP_NUM_THREADS"] == "7"
    assert "MKL_NUM_THREADS" not in os.environ
    assert torch.get_num_threads() == before


# Processes ------------------------------------------------------------------------------------


@pytest.fixture
def pools(monkeypatch):
    """Pools that are made; parts count as long, so that processes are worth it."""
    made, usual = [], runner.concurrent.futures.ProcessPoolExecutor

    def pool(*arguments):
        made.append(usual(*arguments))
        return made[-1]

    monkeypatch.setattr(runner.concurrent.futures, "ProcessPoolExecutor", pool)
    monkeypatch.setattr(runner, "weight", lambda part: 100.0)
    return made


def test_two_processes_equal_one(tmp_path, pools):
    parts = [*PARTS, Part("clustering", "triangle", "TAE", 0)]
    alone = run_parts(parts, Store(tmp_path / "one"), jobs=1)
    assert not pools
    together = run_parts(parts, Store(tmp_path / "two"), jobs=2)
    assert len(pools) == 1
    numbers, same = (
        {record.part: (record.outcome.values, record.outcome.arrays) for record in records}
        for records in (alone, together)
    )
    assert same == numbers


class FinishedPool:
    """A pool that has finished everything it was given, and remembers how it was closed."""

    _processes: ClassVar[dict] = {}

    def __init__(self, *arguments):
        self.closed = []

    def submit(self, function, part):
        future = Future()
        future.set_result(Outcome({"seed": float(part.seed)}))
        return future

    def shutdown(self, **how):
        self.closed.append(how)


@pytest.mark.parametrize("fails", [False, True])
def test_an_error_of_the_consumer_stops_the_pool(store, monkeypatch, fails):
    """Left open, a pool would run all its parts before the process can end."""
    pool = FinishedPool()
    monkeypatch.setattr(runner.concurrent.futures, "ProcessPoolExecutor", lambda *_: pool)
    monkeypatch.setattr(runner, "weight", lambda part: 100.0)

    def show(done, total, part):
        if fails and part is not None:
            raise ValueError("no screen to show it on")

    if not fails:
        run_parts(PARTS, store, jobs=2, progress=show)
        assert pool.closed == [{}]
        return
    with pytest.raises(ValueError, match="no screen") as caught:
        run_parts(PARTS, store, jobs=2, progress=show)
    # While the error is alive, and with it all that its frames hold.
    assert pool.closed == [{"wait": False, "cancel_futures": True}], caught
    assert sum(store.find(part) is not None for part in PARTS) == 1


def test_a_few_short_parts_are_not_worth_new_processes(store, calls, monkeypatch):
    def never(*arguments):
        raise AssertionError("no process is needed")

    monkeypatch.setattr(runner.concurrent.futures, "ProcessPoolExecutor", never)
    run_parts(PARTS, store, jobs=8)
    assert len(calls) == len(PARTS)


# From the outside -----------------------------------------------------------------------------


def test_a_second_reproduction_runs_nothing_and_tells_the_same(shared, tiny, monkeypatch):
    def never(part):
        raise AssertionError(part)

    monkeypatch.setattr(runner, "run_part", never)
    folder = tiny.page.parent
    again = reproduce([1, 8], output=folder, runs=1, datasets=["penguins 2", "iris"], jobs=1)
    for record in again.results[8].records:
        (known,) = tiny.results[8].chosen(record.part.dataset, record.part.method)
        assert asdict(known.outcome) == asdict(record.outcome)


def test_seeds_are_told_and_figures_depend_on_them(tmp_path):
    done = reproduce([8], output=tmp_path, runs=2, datasets=["triangle"], jobs=1)
    lines = done.numbers.read_text("utf-8").splitlines()[1:]
    assert {line.split(",")[3] for line in lines} == {"0", "1"}
    values = done.results[8].values("triangle", "lloyd", "loss")
    assert len(set(values)) == 2
    assert done.results[8].mean("triangle", "lloyd", "loss") == pytest.approx(np.mean(values))
