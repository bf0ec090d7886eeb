"""Random trials under limits: ``make fuzz`` makes many of them, the suite a few, seeded ones.

FUZZ_TRIALS   trials of each test, in place of the few of the suite
FUZZ_SEED     another seed; a failure names the seed of its trial
"""

import os
import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

SEED = int(os.environ.get("FUZZ_SEED", "0"))
SECONDS = 60
BYTES = 1 << 30

Trial = Callable[[np.random.RandomState], None]


@contextmanager
def within_limits(seed: int) -> Iterator[None]:
    """Fail where a trial takes minutes, or a gigabyte, or raises; say which one it was."""

    def too_long(*_: Any) -> None:
        raise TimeoutError(f"no end after {SECONDS} s")

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    previous = signal.signal(signal.SIGALRM, too_long)
    signal.alarm(SECONDS)
    try:
        yield
        grown = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
        assert grown < BYTES, f"{grown:,} bytes"
    except BaseException as error:
        error.add_note(f"trial {seed}; again by FUZZ_SEED={seed} FUZZ_TRIALS=1")
        raise
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)


@pytest.fixture
def trials(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, Trial], None]:
    """Return a function that makes trials, so many in the suite, each with numbers of its own."""
    # Hundreds of files that need not survive a power cut.
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)

    def make(few: int, trial: Trial) -> None:
        for seed in range(SEED, SEED + int(os.environ.get("FUZZ_TRIALS", few))):
            with within_limits(seed):
                trial(np.random.RandomState(seed % 2**32))

    return make
