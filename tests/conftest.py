"""Shared by all tests: one thread for each worker, no screen, and a few small data sets."""

import os
import signal

# Before torch and the BLAS libraries load: the workers already share the cores between them.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "Agg")

from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

# The first call into torch is slow, so a deadline would fail at random; examples never change.
settings.register_profile("tensorae", deadline=None, derandomize=True)
settings.load_profile("tensorae")
# Tests that run in the background ignore Ctrl-C, and so would what they start.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", params=["LinearTAE", "TAE"])
def estimator(request: pytest.FixtureRequest) -> Any:
    """Return either class, so that what holds for both is said once."""
    import tensorae

    return getattr(tensorae, request.param)


@pytest.fixture
def rng() -> np.random.RandomState:
    """Return a generator of this test's own."""
    return np.random.RandomState(0)


@pytest.fixture(scope="session")
def two_lines() -> tuple[np.ndarray, np.ndarray]:
    """Two long parallel clusters in five dimensions: 150 samples that defeat k-means."""
    from tensorae.datasets import parallel_lines

    X, y = parallel_lines(random_state=0)
    X.setflags(write=False)
    return X, y


@pytest.fixture(scope="session")
def penguins() -> tuple[np.ndarray, np.ndarray]:
    """The four measurements of 333 penguins, each divided by its maximum, and the species."""
    from tensorae.datasets import load_penguins

    bunch = load_penguins(scale="max")
    bunch.data.setflags(write=False)
    return bunch.data, bunch.target


class _Card(HTMLParser):
    """Text of a card; refuses what is not closed, runs, loads or brings colours of its own."""

    TAGS = ("div", "style", "p", "strong", "span", "b", "i", "br", "details", "summary", "code")
    TABLES = ("table", "thead", "tbody", "tr", "th", "td")

    def __init__(self, card: str) -> None:
        super().__init__()
        self.text, self.style, self.open = "", "", list[str]()
        self.feed(card)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in (*self.TAGS, *self.TABLES), tag
        assert {name for name, _ in attrs} <= {"class", "style"}, attrs
        assert self.open or ("class", "tensorae") in attrs
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
        self.text += "\n" if tag in ("p", "tr", "summary") else " "

    def handle_data(self, data: str) -> None:
        if self.open[-1] == "style":
            self.style += data
        else:
            self.text += data.replace("\u00a0", " ")


@pytest.fixture(scope="session")
def read_card() -> Callable[[str], str]:
    """Return a function that checks the HTML of a result for notebooks and gives its text."""
    return lambda card: _Card(card).text


@pytest.fixture(scope="session")
def style_of_card() -> Callable[[str], str]:
    """Return a function that gives the rules in the HTML of a result."""
    return lambda card: _Card(card).style
