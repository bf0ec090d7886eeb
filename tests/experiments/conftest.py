"""One tiny run of the experiments for all tests here, and results with other numbers in them."""

import contextlib
import functools
import os
from dataclasses import replace
from pathlib import Path

import pytest

from tensorae.experiments import reproduce, task_linear
from tensorae.experiments.baselines import relaxed_run
from tensorae.experiments.experiment import Measurement, Measurements, Settings, Trial

try:
    import fcntl
except ImportError:  # Windows has no such locks; workers then run everything twice
    fcntl = None

DATASETS = ("triangle", "penguins 2", "iris")


@contextlib.contextmanager
def one_at_a_time(folder: Path):
    """Let one worker run while the others wait; they find its trials finished."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as file:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="session")
def shared(tmp_path_factory) -> Path:
    """A folder that all workers of this test run share."""
    base = tmp_path_factory.getbasetemp()
    return (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "experiments"


@pytest.fixture(scope="session")
def tiny(shared):
    """All figures but the slow seventh: one seed, three small data sets."""
    with one_at_a_time(shared / "tiny"):
        return reproduce(
            [1, 2, 3, 4, 5, 6, 8], output=shared / "tiny", runs=1, datasets=DATASETS, jobs=1
        )


@pytest.fixture(scope="session")
def theorem_run(shared):
    """Figure 7 with one seed on two small data sets, and shorter gradient runs."""
    shorter = functools.partial(relaxed_run, starts=4, steps=400)
    with one_at_a_time(shared / "theorem"), pytest.MonkeyPatch.context() as patch:
        patch.setattr(task_linear, "relaxed_run", shorter)
        return reproduce(
            [7], output=shared / "theorem", runs=1, datasets=["triangle", "iris"], jobs=1
        )


@pytest.fixture(scope="session")
def values_of():
    """One figure of the first seed, for each method that has it."""

    def values(results: Measurements, dataset: str, metric: str) -> dict[str, float]:
        return {
            one.trial.method: one.values[metric]
            for one in results.all
            if (one.trial.dataset, one.trial.seed) == (dataset, 0) and metric in one.values
        }

    return values


@pytest.fixture(scope="session")
def made_up():
    """Results with given values by data set and method."""

    def results(figures: dict[tuple[str, str], dict[str, float]]) -> Measurements:
        measured = [
            Measurement(Trial("made up", dataset, method, 0), values)
            for (dataset, method), values in figures.items()
        ]
        return Measurements(measured, Settings(runs=1))

    return results


@pytest.fixture(scope="session")
def altered():
    """The same results with other values of one method, and others of its arrays."""

    def results(found: Measurements, method: str, values: dict, **arrays) -> Measurements:
        measured = [
            replace(one, values=one.values | values, arrays=one.arrays | arrays)
            if one.trial.method == method
            else one
            for one in found.all
        ]
        return Measurements(measured, found.settings)

    return results
