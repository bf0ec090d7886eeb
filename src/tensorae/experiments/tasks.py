"""The tasks by name, so that any process can run any part."""

from __future__ import annotations

from collections.abc import Callable

from tensorae.experiments import clustering, denoising, likelihood, simpson, theorem
from tensorae.experiments.experiment import Outcome, Part

__all__ = ["TASKS", "run_part", "weight"]

TASKS: dict[str, Callable[[Part], Outcome]] = {
    clustering.TASK: clustering.run,
    denoising.TASK: denoising.run,
    simpson.TASK: simpson.run,
    theorem.TASK: theorem.run,
    likelihood.TASK: likelihood.run,
}
# Rough seconds of a fit, to start the long ones first.
DATA_WEIGHTS = {"MNIST CNN": 20.0, "MNIST MLP": 8.0}
SLOW_METHODS = (
    "TAE", "AE1", "AE2", "published AE1", "published TAE", "gradient", "option 1", "option 2",
)  # fmt: skip


def run_part(part: Part) -> Outcome:
    """Run one part in this process."""
    return TASKS[part.task](part)


def weight(part: Part) -> float:
    """Return about how long a part takes, for the order only."""
    factor = 1.0 if part.method in SLOW_METHODS else 0.1
    return factor * DATA_WEIGHTS.get(part.dataset, 1.0)
