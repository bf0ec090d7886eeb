"""Trained networks -> labels and means that agree: labels, then means, until no label changes."""

from __future__ import annotations

import math

from tensorae.deep.assign import Assigner, Assignments

__all__ = ["settled"]

# Rounds of labels and means, over candidates and over all clusters.
SETTLE_ROUNDS, FULL_ROUNDS = 5, 2
# More of the latter where they cost little.
CHEAP_SCORES, CHEAP_ROUNDS = 20_000, 20
# Share by which the loss may rise in them before centres go back.
RISE = 0.01


def settled(assigner: Assigner, now: Assignments) -> Assignments:
    """Assignments after rounds over candidates, then over all clusters.

    A network that follows a curve was trained about its centre, and a move of that is no descent
    for it: a few samples that change can bring down all of a ring. So centres go back to where the
    loss was lowest if it rises.
    """
    rows, k = assigner.data.rows, assigner.options.n_clusters
    if k == 1:
        assigner.measure(now)
        return now
    cheap = rows.count * k <= CHEAP_SCORES
    rounds = [True] * (CHEAP_ROUNDS if cheap else FULL_ROUNDS)
    if now.candidates is not None:
        rounds = [False] * SETTLE_ROUNDS + rounds
    lowest, kept, best_centers = math.inf, now, assigner.copies.flat_centers()
    loss, agreed = math.inf, {True: False, False: False}
    for everyone in rounds:
        if agreed[everyone]:
            continue
        centers = assigner.copies.flat_centers()
        found = assigner.refresh(now, settling=True, everyone=everyone)
        now, loss, agreed[everyone] = found.assignments, found.loss, not found.assignments.changed
        if loss < lowest:
            lowest, kept, best_centers = loss, now, centers
    rose = loss > lowest * (1 + RISE)
    if rose and not rows.streamed:
        now = kept
        assigner.copies.share("centers", best_centers)
    if (rose or now.changed) and not rows.streamed:
        assigner.measure(now)  # the units of codes follow the last labels
    return now
