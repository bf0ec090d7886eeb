"""Small calls compute with one thread, large ones with the caller's, which do not spin.

Whatever happens inside, nobody sees another number of threads afterwards.
"""

import re
import threading
import time
import warnings

import joblib
import numpy as np
import pytest
import threadpoolctl
import torch
from sklearn.exceptions import ConvergenceWarning
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from tensorae import TAE, ImputerTAE, LinearTAE, OutlierTAE, choose, photos

SMALL = np.random.RandomState(0).randn(90, 3)
SMALL[:30] += 9
GAPPED = SMALL.copy()
GAPPED[::7, 2] = np.nan
LARGE = np.random.RandomState(0).randn(9000, 60).astype(np.float32)
PHOTO = np.random.RandomState(0).uniform(size=(40, 40))
for array in (SMALL, GAPPED, LARGE, PHOTO):
    array.setflags(write=False)
CALLERS = 3


@pytest.fixture(autouse=True)
def _three_threads_on_eight_cores(monkeypatch):
    monkeypatch.setattr(joblib, "cpu_count", lambda: 8)
    before = torch.get_num_threads()
    torch.set_num_threads(CALLERS)
    yield
    torch.set_num_threads(before)


class Watch(TorchDispatchMode):
    """Call a function at every operation of torch in this thread."""

    def __init__(self, look):
        super().__init__()
        self.look = look

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.look()
        return func(*args, **(kwargs or {}))


def threads_here():
    """Numbers of threads of OpenMP and, where it is there, of MKL."""
    facts = torch.__config__.parallel_info()
    return {int(number) for number in re.findall(r"_get_max_threads\(\) : (\d+)", facts)}


def threads_elsewhere():
    """The same in a thread that begins now."""
    found = set()
    other = threading.Thread(target=lambda: found.update(threads_here()))
    other.start()
    other.join()
    return found


def seen_in(call):
    """Numbers of threads that the operations of a call compute with."""
    seen = set()
    with Watch(lambda: seen.update(threads_here())):
        call()
    return seen


def fit_large():
    # Started where nothing is left to search for, and stopped at once.
    model = LinearTAE(6, 1, latent_penalty=0.5, init=LARGE[:6], max_iter=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(LARGE)


SMALL_CALLS = {
    "LinearTAE": lambda: LinearTAE(2, random_state=0).fit(SMALL).predict(SMALL),
    "missing values": lambda: LinearTAE(2, 1, random_state=0).fit(GAPPED).impute(GAPPED),
    "choose": lambda: choose(SMALL, [1, 2], latent_dim=1, random_state=0).model.sample(5),
    "TAE": lambda: TAE(2, 1, max_epochs=2, random_state=0).fit(SMALL).transform(SMALL),
    "OutlierTAE": lambda: OutlierTAE(n_estimators=2, random_state=0).fit(SMALL).predict(SMALL),
    "ImputerTAE": lambda: ImputerTAE(n_clusters=2, random_state=0).fit_transform(GAPPED),
}


@pytest.mark.parametrize("name", SMALL_CALLS)
def test_small_calls_compute_with_one_thread_and_leave_nothing_changed(name):
    assert seen_in(SMALL_CALLS[name]) == {1}
    assert threads_here() == threads_elsewhere() == {CALLERS}


@pytest.mark.parametrize(("cores", "used"), [(8, CALLERS), (2, 2), (1, 1)])
def test_large_calls_use_the_callers_threads_and_no_more_than_cores(monkeypatch, cores, used):
    monkeypatch.setattr(joblib, "cpu_count", lambda: cores)
    before = threading.active_count()
    assert max(seen_in(fit_large)) == used
    assert threads_here() == threads_elsewhere() == {CALLERS}
    assert threading.active_count() == before


@pytest.mark.parametrize("call", [SMALL_CALLS["LinearTAE"], fit_large], ids=["small", "large"])
def test_other_threads_see_nothing_of_a_call(call):
    seen, old, answer = set(), threading.Event(), threading.Event()

    def someone_at_work():
        torch.ones(1)
        while not answer.wait(0.001):
            old.set()
        seen.update(threads_here())

    other = threading.Thread(target=someone_at_work)
    other.start()
    old.wait()

    def look():
        if not answer.is_set():
            seen.update(threads_elsewhere())
            answer.set()
            other.join()

    with Watch(look):
        call()
    assert seen == {CALLERS}


@pytest.mark.parametrize("call", [SMALL_CALLS["LinearTAE"], fit_large], ids=["small", "large"])
@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_numbers_come_back_after_an_error(call, error):
    before = threading.active_count()
    operations = []

    def fail():
        operations.append(1)
        if len(operations) == 60:
            raise error("in the middle")

    with pytest.raises(error, match="in the middle"), Watch(fail):
        call()
    assert threads_here() == threads_elsewhere() == {CALLERS}
    assert threading.active_count() == before


def test_callbacks_see_the_number_of_the_caller_and_networks_one():
    seen = {"callback": set(), "network": set(), "fit in a callback": set()}

    class Network(nn.Linear):
        def __init__(self):
            super().__init__(3, 1)

        def encode(self, x):
            seen["network"].update(threads_here())
            return self(x)

        def decode(self, z):
            return z @ self.weight

    def callback(_):
        seen["callback"].update(threads_here())
        seen["fit in a callback"].update(seen_in(SMALL_CALLS["LinearTAE"]))
        seen["callback"].update(threads_here())

    TAE(2, 1, architecture=Network, max_epochs=2, callbacks=callback, random_state=0).fit(SMALL)
    assert seen == {"callback": {CALLERS}, "network": {1}, "fit in a callback": {1}}


@pytest.mark.parametrize(
    "call",
    [
        lambda said: photos.denoise(PHOTO, noise=0.1, n_jobs=2, progress=said),
        lambda said: photos.inpaint(PHOTO, PHOTO > 0.9, n_jobs=2, progress=said),
        lambda said: photos.enlarge(PHOTO, 2, n_jobs=2, progress=said),
    ],
    ids=["denoise", "inpaint", "enlarge"],
)
def test_photos_leave_nothing_changed(call):
    seen = set()
    call(lambda _done, _total: seen.update(threads_here()))
    assert seen == threads_here() == threads_elsewhere() == {CALLERS}


@pytest.mark.skipif(
    all(one["prefix"] != "libgomp" for one in threadpoolctl.threadpool_info()),
    reason="only GNU's OpenMP can be told so",
)
def test_threads_of_a_large_call_sleep_while_they_wait():
    resource = pytest.importorskip("resource")
    torch.set_num_threads(2)  # with more than cores, they would sleep anyway
    numbers, sleeps = torch.ones(200_000), []

    def count_sleeps():
        if sleeps or threads_here() == {1}:
            return
        before = resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw
        for _ in range(200):
            numbers.neg_()
            until = time.perf_counter() + 1e-4
            while time.perf_counter() < until:
                pass
        sleeps.append(resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw - before)

    with Watch(count_sleeps):
        fit_large()
    assert sleeps[0] > 200
