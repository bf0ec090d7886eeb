"""Shared by the tests of the command line: a way to run it, and a table of penguins."""

from typing import NamedTuple

import pandas as pd
import pytest

from tensorae import load
from tensorae.cli import main
from tensorae.datasets import load_penguins

COLUMNS = ["bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g"]


class Outcome(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def error(self) -> str:
        """Standard error on one line, without the frame of usage errors."""
        return " ".join(self.err.replace("│", " ").split())


@pytest.fixture
def run(capsys):
    """Return a function that runs the command in this process."""

    def run_here(*arguments) -> Outcome:
        with pytest.raises(SystemExit) as end:
            main([str(argument) for argument in arguments])
        return Outcome(end.value.code or 0, *capsys.readouterr())

    return run_here


@pytest.fixture
def ran(run):
    """Return a function that runs the command and expects it to succeed."""

    def run_well(*arguments) -> Outcome:
        outcome = run(*arguments)
        assert outcome.code == 0, outcome.err
        return outcome

    return run_well


@pytest.fixture
def failed(run):
    """Return a function that runs the command and expects an error of one sentence."""

    def run_badly(*arguments) -> str:
        outcome = run(*arguments)
        assert outcome.code == 1
        assert outcome.out == ""
        (line,) = outcome.err.splitlines()
        assert line.startswith("tensorae: ")
        assert line.endswith(".")
        assert "internal error" not in line
        return line

    return run_badly


@pytest.fixture(scope="session")
def birds() -> pd.DataFrame:
    """Penguins in millimetres and grams, with a name and a species."""
    bunch = load_penguins()
    frame = pd.DataFrame(bunch.data, columns=COLUMNS)
    frame.insert(0, "name", [f"bird {row}, {row % 3}" for row in range(len(frame))])
    frame["species"] = bunch.target_names[bunch.target]
    return frame


@pytest.fixture
def birds_csv(birds, tmp_path):
    path = tmp_path / "birds.csv"
    birds.to_csv(path, index=False)
    return path


@pytest.fixture(scope="session")
def model_file(birds, tmp_path_factory):
    """Return a model that the command line fitted, scaled by the maximum."""
    folder = tmp_path_factory.mktemp("model")
    birds.to_csv(folder / "birds.csv", index=False)
    arguments = ["fit", str(folder / "birds.csv"), "-k", "3", "-l", "1", "--scale", "max", "-q"]
    with pytest.raises(SystemExit) as end:
        main([*arguments, "-o", str(folder / "birds.tae")])
    assert not end.value.code
    return folder / "birds.tae"


@pytest.fixture(scope="session")
def expected(birds, model_file):
    """Return the model's own labels, codes and scores of the table."""
    model = load(model_file)
    return model.predict(birds), model.transform(birds), -model.score_samples(birds)
