"""One family of errors, so that one ``except`` catches them all."""

import pytest

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
    ],
)
def test_errors_are_the_builtin_that_callers_expect_too(name, builtin):
    assert issubclass(getattr(exceptions, name), builtin)


def test_a_close_name_is_suggested_and_a_distant_one_is_not():
    assert "did you mean 'lloyd'?" in str(unknown_choice("assignment", "llyod", ["lloyd", "em"]))
    message = str(unknown_choice("assignment", 17, ["lloyd", "em"]))
    assert message == "assignment must be one of 'em', 'lloyd', got 17; choose one of them."
