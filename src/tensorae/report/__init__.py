"""Writes a fitted model and its samples to one self-contained HTML page: ``model.report``.

page.py             write_report: check, predict, fill the templates, write
report_samples.py   the samples that a page describes, with their identifiers
sections.py         the sections as their templates take them
map.py              the interactive map, and images
widget.py           the map in notebooks (needs anywidget): model.widget
"""

from __future__ import annotations

from tensorae.report.page import ExplorationContext, Step, write_report

__all__ = ["ExplorationContext", "Step", "write_report"]
