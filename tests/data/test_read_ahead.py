"""One thread reads ahead; it ends with the pass, however that ends."""

import gc
import itertools
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

from tensorae import Batches
from tensorae.data.read_ahead import ReadAhead

from .conftest import SOURCES, write


def readers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "tensorae-reader"]


@pytest.mark.parametrize("kind", ["array", "npy", "parquet", "arrow", "csv", "function", "loader"])
def test_no_thread_survives_a_pass_however_it_ends(kind, X, tmp_path):
    batches = Batches(SOURCES[kind](X, tmp_path), batch_rows=5)
    assert sum(len(batch) for batch in batches) == 101
    assert readers() == []
    for _ in batches:
        break
    assert readers() == []

    def fail():
        for _ in batches:
            raise RuntimeError("of the consumer")

    with pytest.raises(RuntimeError, match="of the consumer"):
        fail()
    gc.collect()
    assert readers() == []


def test_the_thread_is_there_while_it_is_needed(X):
    batches = iter(Batches(X, batch_rows=1))
    next(batches)
    assert len(readers()) == 1
    batches.close()
    assert readers() == []


def test_no_thread_without_prefetch(X):
    batches = iter(Batches(X, batch_rows=1, prefetch=0))
    next(batches)
    assert readers() == []


def test_an_error_while_reading_comes_after_the_rows_before_it(X):
    def make():
        yield X
        raise OSError("the line is dead")

    received = []

    def consume():
        for batch in Batches(make, batch_rows=10):
            received.append(batch)

    with pytest.raises(OSError, match="the line is dead"):
        consume()
    np.testing.assert_array_equal(np.concatenate(received), X[:100])
    gc.collect()
    assert readers() == []


def test_no_more_is_read_than_asked_for():
    made = itertools.count()

    def items():
        for _ in range(100):
            yield next(made)

    reader = ReadAhead(items, 2)
    assert next(reader) == 0
    time.sleep(0.1)
    # One handed out, two waiting, one in the hands of the thread.
    assert next(made) == 4
    reader.close()
    assert readers() == []
    assert list(reader) == []


def test_the_source_is_closed_when_the_consumer_stops():
    closed = threading.Event()

    def items():
        try:
            yield from range(100)
        finally:
            closed.set()

    reader = ReadAhead(items, 1)
    next(reader)
    reader.close()
    assert closed.is_set()


def test_a_reader_that_nobody_holds_ends():
    reader = ReadAhead(lambda: iter(range(100)), 1)
    next(reader)
    del reader
    gc.collect()
    assert readers() == []


def test_files_are_closed_after_a_pass_that_stops_early(X, tmp_path):
    if not os.path.isdir("/proc/self/fd"):  # noqa: PTH112
        pytest.skip("the system does not list open files")
    paths = [write(tmp_path / f"a{ending}", X) for ending in (".parquet", ".arrow", ".npy", ".csv")]

    def opened() -> list[str]:
        links = (f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd"))  # noqa: PTH208
        targets = [os.readlink(link) for link in links if os.path.islink(link)]  # noqa: PTH114, PTH115
        return [target for target in targets if target.startswith(str(tmp_path))]

    for path in paths:
        for _ in Batches(path, batch_rows=3):
            break
        gc.collect()
        assert opened() == []


def run(program: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_pass_that_is_left_open_does_not_hinder_the_end_of_the_program():
    done = run(
        """
        import numpy as np
        from tensorae import Batches
        batches = iter(Batches(np.zeros((100, 2)), batch_rows=1))
        next(batches)
        print("end")
        """
    )
    out, err = done.communicate(timeout=60)
    assert (done.returncode, out, err) == (0, "end\n", "")


@pytest.mark.skipif(os.name != "posix", reason="Windows has other signals")
def test_an_interrupt_ends_a_pass_that_waits():
    process = run(
        """
        import threading, time
        import numpy as np
        from tensorae import Batches

        def make():
            yield np.zeros((1, 2))
            print("waiting", flush=True)
            time.sleep(0.5)
            yield np.zeros((1, 2))

        try:
            for _ in Batches(make, batch_rows=1).shard(0, 1):
                pass
        except KeyboardInterrupt:
            names = [t.name for t in threading.enumerate()]
            print("interrupted", "tensorae-reader" in names, flush=True)
        """
    )
    assert process.stdout.readline() == "waiting\n"
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    assert out.splitlines()[-1] == "interrupted False"


def test_importing_batches_loads_neither_torch_nor_pyarrow():
    done = run(
        """
        import sys
        import numpy as np
        from tensorae import Batches
        list(Batches(np.zeros((3, 2))))
        print([name for name in ("torch", "pyarrow", "pandas", "sklearn") if name in sys.modules])
        """
    )
    out, err = done.communicate(timeout=60)
    assert (out, err) == ("[]\n", "")
