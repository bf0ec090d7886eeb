"""The paper's experiments: ``python -m paper`` or ``make reproduce`` runs them.

Follow a run from top to bottom: ``reproduction`` asks every figure for its trials, ``running`` runs
those that have not run yet; a trial is a task (``task_*``) on a data set (``problems``). Then every
``figure*`` draws and sums up, and ``output`` writes numbers, pictures and one HTML page.
"""
