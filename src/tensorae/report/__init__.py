"""A fitted model and samples -> one HTML page that needs nothing else.

``model.report(X, "report.html")`` calls ``write_report``.
"""

from __future__ import annotations

from tensorae.report.page import write_report

__all__ = ["write_report"]
