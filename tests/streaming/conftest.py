"""Processes of their own for these tests, forked from one that has loaded the libraries."""

import multiprocessing
import runpy
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

WORKERS = str(Path(__file__).with_name("workers.py"))


@pytest.fixture(scope="session")
def start() -> Callable[..., BaseProcess]:
    """Return a function that calls one of ``workers.py`` in a process, and returns the process."""
    context = multiprocessing.get_context("forkserver")
    # The first optimizer of a process would load the compiler, which takes as long as torch.
    context.set_forkserver_preload(["torch._dynamo", "sklearn.cluster", "tensorae.deep_tae"])
    warm_up = context.Process(target=int)
    warm_up.start()
    warm_up.join()

    def call(function: str, *arguments: Any) -> BaseProcess:
        given = {"call": [function, *arguments]}
        process = context.Process(target=runpy.run_path, args=(WORKERS, given, "__main__"))
        process.start()
        return process

    return call
