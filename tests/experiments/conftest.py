"""One tiny run of the experiments for all tests here, and results with other numbers in them."""

import contextlib
import os
from dataclasses import replace
from pathlib import Path

import pytest

from tensorae.experiments import relaxed, reproduce
from tensorae.experiments.experiment import Outcome, Part, Record, Results, Settings

try:
    import fcntl
except ImportError:  # Windows has no such locks; workers then run everything twice
    fcntl = None

DATASETS = ("triangle", "penguins 2", "iris")


@contextlib.contextmanager
def one_at_a_time(folder: Path):
    """Let one worker run while the others wait; they find its parts finished."""
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
    """Figure 7 with one seed on two small data sets, and fewer starts of the gradient runs."""
    with one_at_a_time(shared / "theorem"), pytest.MonkeyPatch.context() as patch:
        patch.setattr(relaxed, "STARTS", 4)
        return reproduce(
            [7], output=shared / "theorem", runs=1, datasets=["triangle", "iris"], jobs=1
        )


@pytest.fixture(scope="session")
def values_of():
    """One figure of the first seed, for each method that has it."""

    def values(results: Results, dataset: str, metric: str) -> dict[str, float]:
        return {
            record.part.method: record.outcome.values[metric]
            for record in results.records
            if (record.part.dataset, record.part.seed) == (dataset, 0)
            and metric in record.outcome.values
        }

    return values


@pytest.fixture(scope="session")
def made_up():
    """Results with given values by data set and method."""

    def results(figures: dict[tuple[str, str], dict[str, float]]) -> Results:
        records = [
            Record(Part("made up", dataset, method, 0), Outcome(values))
            for (dataset, method), values in figures.items()
        ]
        return Results(records, Settings(runs=1))

    return results


@pytest.fixture(scope="session")
def altered():
    """The same results with other values of one method, and others of its arrays."""

    def results(found: Results, method: str, values: dict, **arrays) -> Results:
        records = []
        for record in found.records:
            outcome = record.outcome
            if record.part.method == method:
                outcome = replace(
                    outcome, values=outcome.values | values, arrays=outcome.arrays | arrays
                )
            records.append(Record(record.part, outcome))
        return Results(records, found.settings)

    return results
