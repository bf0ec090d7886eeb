"""scikit-learn's callbacks on fits, such as ``ProgressBar``; before scikit-learn 1.9, nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

try:
    from sklearn.callback import CallbackSupportMixin
    from sklearn.callback import with_callbacks as managed

    AVAILABLE = True
except ImportError:  # before 1.9
    AVAILABLE = False

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Nothing."""


__all__ = ["CallbackSupportMixin", "FitTasks", "with_callbacks"]

Method = TypeVar("Method", bound=Callable[..., Any])


def with_callbacks(method: Method) -> Method:
    """Decorate ``fit``, so that callbacks are told of its end even where it fails."""
    decorated: Method = managed(method) if AVAILABLE else method
    return decorated


class FitTasks:
    """The fit of an estimator as a task of scikit-learn's callbacks, with its steps.

    Parameters
    ----------
    estimator : estimator
        Its ``set_callbacks`` says who is called; nobody by default.
    X, y : array-like
        The data of the fit.
    n_steps : int or None
        Steps that will be told by ``step``; None where their number is not known.
    """

    def __init__(self, estimator: Any, X: Any, y: Any, n_steps: int | None = 0) -> None:
        self._task, self._data = None, {"estimator": estimator, "X": X, "y": y}
        if AVAILABLE:
            self._task = estimator._init_callback_context(max_subtasks=n_steps)
            self._task.call_on_fit_task_begin(**self._data)

    @property
    def watched(self) -> bool:
        """Whether anybody is called."""
        return self._task is not None and bool(self._task._callbacks)

    def step(self, name: str, fitted: Any) -> bool:
        """Tell the end of a step; True if a callback asks to stop.

        ``fitted`` is called for the attributes of an estimator that stops here, if they are wanted.
        """
        if self._task is None:
            return False
        part = self._task.subcontext(task_name=name)
        part.call_on_fit_task_begin(**self._data)
        stop: bool = part.call_on_fit_task_end(**self._data, reconstruction_attributes=fitted)
        return stop

    def end(self) -> None:
        """Tell the end of the fit."""
        if self._task is not None:
            self._task.call_on_fit_task_end(**self._data, reconstruction_attributes=dict)
