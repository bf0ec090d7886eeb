"""What is known after each epoch, and who hears of it: callbacks and a progress line."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from torch import nn

from tensorae._torch import callers_threads

if TYPE_CHECKING:
    from tensorae.deep.loop import State

__all__ = ["COLUMNS", "Announcer", "Epoch", "all_of", "as_columns", "from_columns"]


@dataclass(frozen=True)
class Epoch:
    """One epoch of training; what callbacks are given.

    Attributes
    ----------
    epoch : int
        From one.
    n_epochs : int
        How many there will be at most.
    phase : {"learn", "close"}
        Whether assignments are being learned, or are fixed.
    loss : float
        Mean cost of a training sample during the epoch.
    held_out_loss : float
        Mean cost of samples under autoencoders that were not trained on them; NaN in epochs
        that do not measure it.
    changed : float
        Share of the samples whose label changed at the end of the epoch.
    sizes : tuple of int
        Members of each cluster.
    seconds : float
        Duration of the epoch.
    module : Module
        The autoencoders as they are now.
    """

    epoch: int
    n_epochs: int
    phase: str
    loss: float
    held_out_loss: float
    changed: float
    sizes: tuple[int, ...]
    seconds: float
    module: nn.Module = field(repr=False)


History = tuple[Epoch, ...]
Callback = Callable[[Epoch], Any]
COLUMNS = ("epoch", "phase", "loss", "held_out_loss", "changed", "sizes", "seconds")


def as_columns(history: Sequence[Epoch]) -> dict[str, list[Any]]:
    """Return lists of what each epoch gave."""
    columns = {name: [getattr(epoch, name) for epoch in history] for name in COLUMNS}
    columns["sizes"] = [list(sizes) for sizes in columns["sizes"]]
    return columns


def from_columns(columns: Mapping[str, list[Any]], n_epochs: int, module: nn.Module) -> History:
    """Return the epochs of such lists."""
    epochs = []
    for values in zip(*(columns[name] for name in COLUMNS), strict=True):
        told = dict(zip(COLUMNS, values, strict=True))
        told["sizes"] = tuple(told["sizes"])
        epochs.append(Epoch(n_epochs=n_epochs, module=module, **told))
    return tuple(epochs)


def all_of(*observers: Callable[[State], bool | None]) -> Callable[[State], bool]:
    """Return an observer that tells all of these, and stops where one of them does."""

    def observe(state: State) -> bool:
        answers = [observer(state) for observer in observers]
        return any(answers)

    return observe


class Announcer:
    """Observer that tells callbacks of every epoch, and shows a line where that is wanted."""

    def __init__(self, callbacks: Sequence[Callback] = (), *, verbose: bool = False) -> None:
        self._callbacks, self._verbose = callbacks, verbose
        self._width = self._announced = 0

    def __call__(self, state: State) -> bool:
        """Tell of the last epoch, if it is new; True where a callback asks to stop."""
        if not state.history or state.history[-1].epoch == self._announced:
            return False
        epoch = state.history[-1]
        self._announced = epoch.epoch
        if self._verbose:
            self._show(epoch, sum(past.seconds for past in state.history))
        # Every callback hears of every epoch, whatever the others answer.
        with callers_threads():
            answers = [callback(epoch) for callback in self._callbacks]
        return any(answer is True for answer in answers)

    def close(self) -> None:
        """End the progress line."""
        if self._verbose and self._width:
            sys.stderr.write("\n")
            sys.stderr.flush()

    def _show(self, epoch: Epoch, seconds: float) -> None:
        text = (
            f"epoch {epoch.epoch}/{epoch.n_epochs} ({epoch.phase})  loss {epoch.loss:.5g}  "
            f"changed {100 * epoch.changed:.1f} %  sizes {min(epoch.sizes)}-{max(epoch.sizes)}  "
            f"{seconds:.0f} s"
        )
        # A carriage return works in terminals and notebooks alike; blanks wipe a longer line.
        sys.stderr.write("\r" + text.ljust(self._width))
        sys.stderr.flush()
        self._width = len(text)
