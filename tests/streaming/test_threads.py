"""A fit on batches leaves torch's number of threads as the user has set it, whatever happens."""

import threading
import time

import numpy as np
import pytest
import torch

from tensorae import TAE, Batches, LinearTAE

X = np.random.RandomState(0).randn(120, 3)
X.setflags(write=False)
both_ways_to_read = pytest.mark.parametrize("prefetch", [0, 2])


@pytest.fixture(autouse=True)
def _three_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def threads_everywhere():
    """Numbers of threads that are seen here and in a thread that begins now."""
    found = {torch.get_num_threads()}
    other = threading.Thread(target=lambda: found.add(torch.get_num_threads()))
    other.start()
    other.join()
    return found


def make(estimator, **options):
    short = {"max_epochs": 3} if estimator is TAE else {}
    return estimator(2, 1, random_state=0, **short, **options)


@both_ways_to_read
def test_nothing_is_left_changed_by_fit_and_predict(estimator, prefetch):
    batches = Batches(X, batch_rows=10, prefetch=prefetch)
    model = make(estimator).fit(batches)
    assert threads_everywhere() == {3}
    model.predict(batches)
    assert threads_everywhere() == {3}


@both_ways_to_read
@pytest.mark.parametrize("bad_pass", [1, 2])
def test_nothing_is_left_changed_by_a_source_that_fails(estimator, prefetch, bad_pass):
    passes = []

    def source():
        passes.append(1)
        yield X[:60]
        if len(passes) > bad_pass:
            raise OSError("the disk is gone")
        yield X[60:]

    with pytest.raises(Exception, match="the disk is gone"):
        make(estimator).fit(Batches(source, prefetch=prefetch))
    assert threads_everywhere() == {3}


@both_ways_to_read
def test_a_source_sees_the_number_that_the_user_has_set(estimator, prefetch):
    seen = set()

    def source():
        for part in np.split(X, 4):
            seen.add(torch.get_num_threads())
            yield part

    make(estimator).fit(Batches(source, prefetch=prefetch))
    assert seen == {3}


@both_ways_to_read
def test_a_callback_sees_the_number_that_the_user_has_set(prefetch):
    seen = set()

    def callback(epoch):
        seen.add(torch.get_num_threads())

    make(TAE, callbacks=callback).fit(Batches(X, batch_rows=10, prefetch=prefetch))
    assert seen == {3}


def test_fits_in_several_threads_leave_nothing_changed():
    """Slower and faster ones, so that some begin inside others and end after them."""
    failures = []

    def fit(pause):
        def source():
            for part in np.split(X, 4):
                time.sleep(pause)
                yield part

        try:
            make(LinearTAE, n_init=1).fit(Batches(source, prefetch=2))
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=fit, args=(i / 1000,)) for i in (1, 2, 3, 4)]
    for thread in threads:
        thread.start()
        time.sleep(0.005)
    for thread in threads:
        thread.join()
    assert not failures
    assert threads_everywhere() == {3}
