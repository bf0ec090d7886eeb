"""One family of errors, so that one ``except`` catches them all."""

import pickle
import subprocess
import sys

import pytest
import sklearn.exceptions

from tensorae import exceptions
from tensorae.exceptions import TensoraeError, unknown_choice


@pytest.mark.parametrize("name", exceptions.__all__)
def test_every_error_is_one_of_the_family(name):
    assert issubclass(getattr(exceptions, name), TensoraeError)


@pytest.mark.parametrize(
    ("name", "builtin"),
    [
        ("InvalidInputError", ValueError),
        ("InvalidParameterError", ValueError),
        ("MissingDependencyError", ImportError),
        ("ModelFileError", ValueError),
        ("CheckpointError", exceptions.ModelFileError),
        ("FileWriteError", OSError),
        ("NotFittedError", sklearn.exceptions.NotFittedError),
    ],
)
def test_errors_are_the_builtin_that_callers_expect_too(name, builtin):
    assert issubclass(getattr(exceptions, name), builtin)


def test_a_close_name_is_suggested_and_a_distant_one_is_not():
    assert "did you mean 'lloyd'?" in str(unknown_choice("assignment", "llyod", ["lloyd", "em"]))
    message = str(unknown_choice("assignment", 17, ["lloyd", "em"]))
    assert message == "assignment must be one of 'em', 'lloyd', got 17; choose one of them."


def test_the_error_of_scikit_learn_is_one_class_and_needs_no_estimator():
    assert exceptions.NotFittedError is exceptions.NotFittedError
    error = pickle.loads(pickle.dumps(exceptions.NotFittedError("not yet")))
    assert type(error) is exceptions.NotFittedError
    code = (
        "import sys; from tensorae import exceptions; assert 'sklearn' not in sys.modules;"
        "exceptions.NotFittedError; assert 'tensorae._base' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_unknown_name_is_no_error_class():
    with pytest.raises(AttributeError, match="has no attribute 'FittedError'"):
        exceptions.FittedError  # noqa: B018
