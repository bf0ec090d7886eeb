"""What is known after each epoch, and who hears of it: the history, callbacks, a progress line."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import nn

__all__ = ["Epoch", "History"]


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


Callback = Callable[[Epoch], Any]
COLUMNS = ("epoch", "phase", "loss", "held_out_loss", "changed", "sizes", "seconds")


class History:
    """Lists of what each epoch gave; tells callbacks and shows a line where that is wanted."""

    def __init__(self, callbacks: Sequence[Callback] = (), *, verbose: bool = False) -> None:
        self.columns: dict[str, list[Any]] = {name: [] for name in COLUMNS}
        self._callbacks = callbacks
        self._verbose = verbose
        self._width = 0

    def record(self, epoch: Epoch) -> bool:
        """Note an epoch; True where a callback asks to stop."""
        for name, values in self.columns.items():
            value = getattr(epoch, name)
            values.append(list(value) if name == "sizes" else value)
        if self._verbose:
            self._show(epoch)
        # Every callback hears of every epoch, whatever the others answer.
        answers = [callback(epoch) for callback in self._callbacks]
        return any(answer is True for answer in answers)

    def close(self) -> None:
        """End the progress line."""
        if self._verbose and self._width:
            sys.stderr.write("\n")
            sys.stderr.flush()

    def _show(self, epoch: Epoch) -> None:
        text = (
            f"epoch {epoch.epoch}/{epoch.n_epochs} ({epoch.phase})  loss {epoch.loss:.5g}  "
            f"changed {100 * epoch.changed:.1f} %  sizes {min(epoch.sizes)}-{max(epoch.sizes)}  "
            f"{sum(self.columns['seconds']):.0f} s"
        )
        # A carriage return works in terminals and notebooks alike; blanks wipe a longer line.
        sys.stderr.write("\r" + text.ljust(self._width))
        sys.stderr.flush()
        self._width = len(text)
