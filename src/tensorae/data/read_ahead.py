"""Work ahead of the consumer: one thread makes the next items while the last one is used."""

from __future__ import annotations

import queue
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Generic, TypeVar

__all__ = ["ReadAhead"]

T = TypeVar("T")

# Seconds to wait for a source that hangs; the thread is a daemon and ends with the process.
PATIENCE = 5.0


class ReadAhead(Generic[T]):
    """Items of an iterator, made in a thread of its own, at most ``depth`` ahead.

    The thread ends with the last item, with an error (raised where the items are used), by
    ``close``, when nobody holds this object any more, and before the interpreter ends. ``make``
    returns the iterator; it is called in the thread and must not hold this object.
    """

    def __init__(self, make: Callable[[], Iterator[T]], depth: int) -> None:
        self._items: queue.Queue[tuple[str, Any]] = queue.Queue(maxsize=depth)
        stop = threading.Event()
        self._thread = threading.Thread(
            target=_produce, args=(make, self._items, stop), name="tensorae-reader", daemon=True
        )
        # Runs once: on close, when this object is collected, or at exit.
        self.close = weakref.finalize(self, _end, self._thread, self._items, stop)
        self._thread.start()

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        if not self.close.alive:
            raise StopIteration
        tag, content = self._items.get()
        if tag == "item":
            return content  # type: ignore[no-any-return]
        self.close()
        if tag == "error":
            raise content
        raise StopIteration


def _produce(
    make: Callable[[], Iterator[T]], items: queue.Queue[tuple[str, Any]], stop: threading.Event
) -> None:
    last: tuple[str, Any] = ("end", None)
    try:
        iterator = make()
        try:
            for item in iterator:
                items.put(("item", item))
                if stop.is_set():
                    return
        finally:
            # Closes the files in this thread, at once.
            if hasattr(iterator, "close"):
                iterator.close()
    except BaseException as error:  # whatever it is, the consumer has to know
        last = ("error", error)
    items.put(last)


def _end(
    thread: threading.Thread, items: queue.Queue[tuple[str, Any]], stop: threading.Event
) -> None:
    stop.set()
    give_up = time.monotonic() + PATIENCE
    while thread.is_alive() and time.monotonic() < give_up:
        # One free place is enough for the next item; then the thread sees that it should stop.
        with suppress(queue.Empty):
            while True:
                items.get_nowait()
        if thread is threading.current_thread():  # the garbage collector may run anywhere
            return
        thread.join(0.02)
