"""One tiny run of the experiments for all tests here, and results with other numbers in them."""

import functools
import os
import shutil
from dataclasses import replace

import numpy as np
import pytest

from paper import task_linear
from paper.baselines import relaxed_run
from paper.experiment import Measurement, Measurements, Settings, Trial
from paper.reproduction import FIGURES, reproduce
from paper.running import FinishedTrials, run_trials

DATASETS = ("triangle", "penguins 2", "iris")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark what needs trained networks as quality: the trials take half a minute."""
    for item in items:
        if {"tiny", "theorem_run"} & set(getattr(item, "fixturenames", ())):
            item.add_marker("quality")


@pytest.fixture
def rng():
    return np.random.RandomState(0)


@pytest.fixture(scope="session")
def run_together(tmp_path_factory):
    """Reproduce figures; workers share the trials, each with a folder of its own for the rest."""
    own = tmp_path_factory.mktemp("experiments")
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    shared = tmp_path_factory.getbasetemp().parent if worker else own

    def run(name: str, figures: list[int], datasets: tuple[str, ...]):
        wanted = [FIGURES[number].trials for number in figures if FIGURES[number].trials]
        trials = [trial for of in wanted for trial in of(Settings(1, datasets=datasets))]
        finished = FinishedTrials(shared / f"trials of {name}")
        # From both ends: with two workers each runs one half.
        for trial in trials[:: -1 if worker == "gw1" else 1]:
            run_trials([trial], finished, jobs=1)
        shutil.copytree(finished.folder, own / name / "parts")
        return reproduce(figures, output=own / name, runs=1, datasets=datasets, jobs=1)

    return run


@pytest.fixture(scope="session")
def tiny(run_together):
    """All figures but the slow seventh: one seed, three small data sets."""
    return run_together("tiny", [1, 2, 3, 4, 5, 6, 8], DATASETS)


@pytest.fixture(scope="session")
def theorem_run(run_together):
    """Figure 7 with one seed on two small data sets, and shorter gradient runs."""
    shorter = functools.partial(relaxed_run, starts=4, steps=700)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(task_linear, "relaxed_run", shorter)
        return run_together("theorem", [7], ("triangle", "iris"))


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
