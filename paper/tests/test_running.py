"""Trials run once: an interrupted run goes on, and nothing stale or damaged is used again."""

import os
import signal
import threading
import time
from dataclasses import asdict, replace

import numpy as np
import pytest
import torch

from paper import problems, running, task_linear
from paper.experiment import Measurement, Trial
from paper.reproduction import reproduce
from paper.running import TASKS, FinishedTrials, fitting_code, run_trials
from tensorae import TAE

TRIALS = [
    Trial(task_linear.EM, name, method, seed)
    for name in ("triangle", "iris")
    for method in ("lloyd", "em")
    for seed in (0, 1)
]


@pytest.fixture
def finished(tmp_path):
    return FinishedTrials(tmp_path / "parts")


@pytest.fixture
def calls(monkeypatch):
    """Trials that were run, in order; running one gives its seed."""
    ran = []

    def run_trial(trial):
        ran.append(trial)
        return Measurement(trial, {"seed": float(trial.seed)}, {"labels": [1, 2]}, 0.5)

    monkeypatch.setattr(running, "run_trial", run_trial)
    return ran


def test_every_trial_runs_once_and_comes_back(finished, calls):
    measured = run_trials([*TRIALS, *TRIALS], finished, jobs=1)
    assert sorted(calls) == sorted(TRIALS)
    assert {one.trial: one.values["seed"] for one in measured} == {t: t.seed for t in TRIALS}


def test_finished_trials_are_not_run_again_and_come_back_unchanged(finished, calls):
    first = run_trials(TRIALS, finished, jobs=1)
    again = run_trials(TRIALS, FinishedTrials(finished.folder), jobs=1)
    assert len(calls) == len(TRIALS)
    assert again == sorted(first, key=lambda one: TRIALS.index(one.trial))


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_an_interrupted_run_goes_on_with_the_missing_trials(finished, calls, error):
    def stop(done, total, trial):
        if done == 3:
            raise error

    with pytest.raises(error):
        run_trials(TRIALS, finished, jobs=1, progress=stop)
    assert len(calls) == 3
    before = set(calls)
    calls.clear()
    measured = run_trials(TRIALS, finished, jobs=1)
    assert set(calls) == set(TRIALS) - before
    assert {one.trial for one in measured} == set(TRIALS)


def test_a_trial_that_fails_leaves_those_before_it(finished, calls, monkeypatch):
    works = running.run_trial

    def fails(trial):
        if len(calls) == 2:
            raise RuntimeError("broken trial")
        return works(trial)

    monkeypatch.setattr(running, "run_trial", fails)
    with pytest.raises(RuntimeError, match="broken trial"):
        run_trials(TRIALS, finished, jobs=1)
    assert sum(finished.find(trial) is not None for trial in TRIALS) == 2


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"null", b'{"values"', b'{"other": 1}', b"\xff\xfe\x00"]
)
def test_damaged_files_are_run_again(finished, calls, content):
    run_trials(TRIALS, finished, jobs=1)
    damaged = finished.file(TRIALS[0])
    assert damaged.is_file()
    damaged.write_bytes(content)
    calls.clear()
    run_trials(TRIALS, finished, jobs=1)
    assert calls == [TRIALS[0]]
    assert finished.find(TRIALS[0]) is not None


def test_other_data_other_classes_and_other_code_are_not_the_same_trial(finished, monkeypatch):
    iris = problems.load("iris")
    more = replace(iris, X=iris.X + 1e-9)
    other_classes = replace(iris, y=1 - iris.y)
    names = [finished.file(TRIALS[-1])]
    for data in (more, other_classes):
        changed = replace(problems.PROBLEMS["iris"], read=lambda _seed, _quick, data=data: data)
        with monkeypatch.context() as patch:
            patch.setitem(problems.PROBLEMS, "iris", changed)
            problems.data_hash.cache_clear()
            names.append(finished.file(TRIALS[-1]))
    problems.data_hash.cache_clear()
    assert finished.file(TRIALS[-1]) == names[0]
    monkeypatch.setattr(finished, "code", "other code")
    names.append(finished.file(TRIALS[-1]))
    assert len(set(names)) == 4


def test_trials_that_differ_in_anything_have_files_of_their_own(finished):
    base = Trial("clustering", "iris", "TAE", 0)
    trials = [
        base,
        replace(base, seed=1),
        replace(base, quick=True),
        replace(base, method="AE1"),
        replace(base, dataset="triangle"),
        replace(base, task="EM"),
    ]
    assert len({finished.file(trial) for trial in trials}) == len(trials)


def test_all_code_that_fits_makes_trials_stale_and_code_that_draws_does_not():
    names = {".".join(file.with_suffix("").parts[-2:]) for file in fitting_code()}
    tasks = {measure.__module__ for measure in TASKS.values()}
    assert names >= tasks | {"paper.problems", "paper.baselines", "tensorae.assignment"}
    assert names >= {TAE.__module__, "datasets.planted"}
    assert not names & {"paper.drawing", "paper.output", "plot.style", "cli.fit"}


def test_a_kill_while_writing_leaves_no_half_a_trial(finished, monkeypatch):
    def killed(path, content):
        raise KeyboardInterrupt

    monkeypatch.setattr(running, "write_file", killed)
    with pytest.raises(KeyboardInterrupt):
        finished.keep(Measurement(TRIALS[0], {"x": 1.0}))
    assert finished.find(TRIALS[0]) is None


# Interrupts -----------------------------------------------------------------------------------


@pytest.fixture
def ctrl_c():
    """Send this process what Ctrl-C sends, with Python's usual handler in place."""
    assert threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield lambda: os.kill(os.getpid(), signal.SIGINT)
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_in_a_fit_ends_the_run_and_keeps_no_half_trained_model(
    finished, monkeypatch, ctrl_c, rng
):
    """``TAE.fit`` answers Ctrl-C with the best model so far; here that would be a wrong figure."""

    def train(trial):
        model = TAE(2, 1, max_epochs=6, callbacks=lambda epoch: ctrl_c(), random_state=0)
        model.fit(rng.randn(60, 3))
        return Measurement(trial, {"ARI": 1.0})

    monkeypatch.setattr(running, "run_trial", train)
    with pytest.raises(KeyboardInterrupt):
        run_trials(TRIALS, finished, jobs=1)
    assert finished.find(TRIALS[0]) is None
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_handler_of_the_callers_own_stays(finished, calls, ctrl_c):
    heard = []

    def own(*_):
        heard.append(True)

    signal.signal(signal.SIGINT, own)
    run_trials(TRIALS, finished, jobs=1, progress=lambda *_: ctrl_c())
    assert heard
    assert signal.getsignal(signal.SIGINT) is own
    assert len(calls) == len(TRIALS)


def test_a_trial_has_one_thread_and_those_of_the_caller_are_put_back(finished, monkeypatch):
    seen, before = [], torch.get_num_threads()

    def run_trial(trial):
        seen.append(torch.get_num_threads())
        return Measurement(trial, {})

    monkeypatch.setattr(running, "run_trial", run_trial)
    torch.set_num_threads(2)
    try:
        run_trials(TRIALS, finished, jobs=1)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert set(seen) == {1}


# Processes ------------------------------------------------------------------------------------


@pytest.fixture
def where_it_runs():
    """A function within a function, so that it is sent to workers as it is."""

    def measure(trial):
        values = {
            "process": os.getpid(),
            "threads": torch.get_num_threads(),
            "hears interrupts": signal.getsignal(signal.SIGINT) is not signal.SIG_IGN,
        }
        return Measurement(trial, values)

    return measure


@pytest.fixture
def long_trials(monkeypatch):
    """Trials count as long, so that processes are worth it."""
    monkeypatch.setattr(running, "START_SECONDS", 0.0)


def test_two_processes_equal_one_and_leave_the_environment_alone(tmp_path, long_trials):
    trials = [*TRIALS, Trial("clustering", "triangle", "TAE", 0)]
    environment = dict(os.environ)
    alone = run_trials(trials, FinishedTrials(tmp_path / "one"), jobs=1)
    together = run_trials(trials, FinishedTrials(tmp_path / "two"), jobs=2)
    assert dict(os.environ) == environment
    for one, same in zip(alone, together, strict=True):
        assert one.trial == same.trial
        assert one.values == pytest.approx(same.values, rel=1e-6, abs=1e-9)
        assert one.arrays.keys() == same.arrays.keys()
        for name, array in one.arrays.items():
            np.testing.assert_allclose(array, same.arrays[name], rtol=1e-6, atol=1e-4)


def test_a_worker_is_another_process_on_one_thread_that_ctrl_c_does_not_reach(
    finished, long_trials, monkeypatch, where_it_runs
):
    def run_in_worker(trial, run=running._run_in_worker):
        run(trial)
        return where_it_runs(trial)

    monkeypatch.setattr(running, "_run_in_worker", run_in_worker)
    for one in run_trials(TRIALS, finished, jobs=2):
        assert one.values["process"] != os.getpid()
        assert one.values["threads"] == 1
        assert not one.values["hears interrupts"]


@pytest.mark.quality  # starts processes that load torch: ten seconds
def test_an_error_of_the_consumer_stops_the_workers_and_keeps_what_was_seen(
    finished, long_trials, monkeypatch, tmp_path
):
    """Left open, a pool would run all its trials before the process can end."""

    def run_in_worker(trial):
        (tmp_path / f"started {trial}").touch()
        time.sleep(0.1)
        return Measurement(trial, {})

    def show(done, total, trial):
        if trial is not None:
            raise ValueError("no screen to show it on")

    monkeypatch.setattr(running, "_run_in_worker", run_in_worker)
    with pytest.raises(ValueError, match="no screen"):
        run_trials(TRIALS, finished, jobs=2, progress=show)
    assert sum(finished.find(trial) is not None for trial in TRIALS) == 1
    started = len(list(tmp_path.glob("started*")))
    assert started < len(TRIALS)
    time.sleep(0.5)
    assert len(list(tmp_path.glob("started*"))) == started


def test_a_few_short_trials_are_not_worth_new_processes(finished, monkeypatch, where_it_runs):
    monkeypatch.setitem(TASKS, task_linear.EM, where_it_runs)
    measured = run_trials(TRIALS, finished, jobs=8)
    assert {one.values["process"] for one in measured} == {os.getpid()}


# From the outside -----------------------------------------------------------------------------


def test_a_second_reproduction_runs_nothing_and_tells_the_same(tiny, monkeypatch):
    def never(trial):
        raise AssertionError(trial)

    monkeypatch.setattr(running, "run_trial", never)
    folder = tiny.page.parent
    again = reproduce([1, 8], output=folder, runs=1, datasets=["penguins 2", "iris"], jobs=1)
    for one in again.results[8].all:
        (known,) = tiny.results[8].of(one.trial.dataset, one.trial.method)
        assert asdict(known) == asdict(one)


def test_seeds_are_told_and_figures_depend_on_them(tmp_path):
    done = reproduce([8], output=tmp_path, runs=2, datasets=["triangle"], jobs=1)
    lines = done.numbers.read_text("utf-8").splitlines()[1:]
    assert {line.split(",")[3] for line in lines} == {"0", "1"}
    values = done.results[8].values("triangle", "lloyd", "loss")
    assert len(set(values)) == 2
    assert done.results[8].mean("triangle", "lloyd", "loss") == pytest.approx(np.mean(values))
