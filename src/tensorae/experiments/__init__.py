"""The paper's experiments, one file per figure; ``tensorae reproduce`` runs them.

Follow a run from top to bottom: ``reproduction`` asks every figure for its parts, ``runner`` runs
those that have not run yet, ``tasks`` names what a part can be (``clustering``, ``denoising``,
``simpson``, ``theorem``, ``likelihood``), ``problems`` are the data sets. Then every ``figure*``
draws and sums up, and ``page`` puts all of it on one HTML page.
"""

from tensorae.experiments.reproduction import FIGURES, Reproduction, reproduce

__all__ = ["FIGURES", "Reproduction", "reproduce"]
