"""How long S rests at first, and how long learning takes because of it.

Networks begin as linear ones. A refresh before they have learned their members would trade what
the start knows, rings for example, for straight pieces. So S rests until the networks have learned
them, by members that they did not see; that takes hundreds of steps where groups are curved.
"""

from __future__ import annotations

import math

from tensorae.deep.schedule import Schedule

__all__ = ["PROGRESS", "closing_epochs", "is_over", "learning_epochs", "patience"]

# S rests until networks that did not see them are the cheapest ones for this share of the members.
LEARNED = 0.985
# Learning takes longer than planned while so many steps lower the cost of unseen members by this
# share, up to so many times the plan; this much of the plan is left for after the rest.
STEPS, PROGRESS, LONGEST, AFTERWARDS = 100, 0.01, 6, 0.5


def patience(schedule: Schedule) -> int:
    """Measurements without progress after which networks that S rests for learn no more."""
    return math.ceil(STEPS / (schedule.refresh_every * schedule.steps_per_epoch))


def is_over(schedule: Schedule, own: float, rested: int, without_progress: int) -> bool:
    """Whether S may be refreshed: a share ``own`` of the members is cheapest as it is assigned.

    Where that was not so from the first, groups are curved, and rows that are decoded badly as yet
    would teach another network to reach for them: S waits until the cost no longer falls.
    """
    waits = rested and schedule.stretches and without_progress < patience(schedule)
    return own >= LEARNED and not waits


def learning_epochs(schedule: Schedule, rested: int, *, resting: bool) -> int:
    """Epochs of learning: those planned, and more where S rests or did so for ``rested`` epochs."""
    planned = schedule.learning_epochs
    if not schedule.stretches:
        return planned
    return LONGEST * planned if resting else max(planned, rested + math.ceil(AFTERWARDS * planned))


def closing_epochs(schedule: Schedule, rested: int, learned: int) -> int:
    """Epochs of the close: as many times those planned as learning took, where S rested."""
    planned = schedule.closing_epochs
    if not schedule.stretches or not rested:
        return planned
    return max(planned, math.ceil(planned * learned / schedule.learning_epochs))
