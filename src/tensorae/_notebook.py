"""HTML for notebooks: the parts of a card, and the base class of estimators that have one.

Works on light and dark pages, without scripts: colours derive from the text colour of the page.
All texts are escaped here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from sklearn import get_config
from sklearn.base import BaseEstimator

from tensorae._text import percent

__all__ = [
    "Cell",
    "EstimatorWithCard",
    "Share",
    "card",
    "code",
    "facts",
    "fold",
    "heading",
    "paragraph",
    "table",
]

MAX_ROWS = 20  # of a table
MAX_UNBROKEN = 60  # characters of a line that is not wrapped

# The class is repeated for more specificity than the rules that notebooks have for tables.
_STYLE = """<style>
.tensorae.tensorae.tensorae{display:inline-block;max-width:100%;box-sizing:border-box;
overflow-x:auto;padding:.5em .8em;border:1px solid;border-radius:.4em;font-size:.92em;
line-height:1.4;border-color:color-mix(in srgb,currentColor 25%,transparent)}
.tensorae.tensorae.tensorae p{margin:.15em 0 .35em;max-width:56em}
.tensorae.tensorae.tensorae .quiet{opacity:.72;font-size:.93em}
.tensorae.tensorae.tensorae .facts span{display:inline-block;margin-right:1.3em}
.tensorae.tensorae.tensorae table{border-collapse:collapse;border:0;margin:.3em 0;
font-size:inherit;color:inherit;background:none;width:auto;table-layout:auto}
.tensorae.tensorae.tensorae tr{background:none;color:inherit}
.tensorae.tensorae.tensorae th,.tensorae.tensorae.tensorae td{padding:.15em 1em .15em 0;border:0;
text-align:left;vertical-align:top;background:none;color:inherit;max-width:30em;
white-space:normal;overflow-wrap:break-word}
.tensorae.tensorae.tensorae thead th{font-weight:600;vertical-align:bottom;white-space:nowrap;
border-bottom:1px solid;border-color:color-mix(in srgb,currentColor 35%,transparent)}
.tensorae.tensorae.tensorae .number{text-align:right;white-space:nowrap;
font-variant-numeric:tabular-nums}
.tensorae.tensorae.tensorae .line{white-space:nowrap}
.tensorae.tensorae.tensorae .chosen td{font-weight:600}
.tensorae.tensorae.tensorae .bar{display:block;width:4em;margin:.1em 0 0 auto;
background:color-mix(in srgb,currentColor 15%,transparent)}
.tensorae.tensorae.tensorae .bar i{display:block;height:.25em;background:currentColor;opacity:.6}
.tensorae.tensorae.tensorae summary{cursor:pointer;opacity:.72;font-size:.93em}
.tensorae.tensorae.tensorae code{color:inherit;background:none;white-space:pre-wrap}
</style>"""


@dataclass(frozen=True)
class Share:
    """A number from 0 to 1, shown in percent with a bar."""

    value: float


Cell = str | Share | tuple[str, ...]  # a tuple has one line for each entry


def card(*parts: str) -> str:
    """Parts in a box, with their style sheet."""
    return f'<div class="tensorae">{_STYLE}{"".join(parts)}</div>'


def heading(name: str, rest: str = "") -> str:
    """A name in bold, and a few words."""
    return f"<p><strong>{escape(name)}</strong>{escape(rest)}</p>"


def paragraph(text: str, *, quiet: bool = False) -> str:
    """A sentence."""
    kind = ' class="quiet"' if quiet else ""
    return f"<p{kind}>{escape(text)}</p>"


def facts(pairs: Iterable[tuple[str, str]]) -> str:
    """Names with values, side by side."""
    spans = (f"<span>{escape(name)} <b>{escape(value)}</b></span> " for name, value in pairs)
    return f'<p class="facts">{"".join(spans)}</p>'


def fold(summary: str, *parts: str) -> str:
    """Parts that are shown on a click."""
    return f"<details><summary>{escape(summary)}</summary>{''.join(parts)}</details>"


def code(text: str) -> str:
    """Python, as it is."""
    return f"<p><code>{escape(text)}</code></p>"


def table(
    head: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    *,
    words: Collection[int] = (),
    chosen: int | None = None,
    max_rows: int = MAX_ROWS,
    more: int = 0,
) -> str:
    """Rows under a head; the columns ``words`` hold text, all others numbers.

    The number of rows beyond ``max_rows`` is added, with ``more`` that are not among the rows.
    """
    kinds = ["" if place in words else ' class="number"' for place in range(len(head))]
    top = "".join(f"<th{kind}>{escape(name)}</th>" for name, kind in zip(head, kinds, strict=True))
    body = ""
    for number, row in enumerate(rows[:max_rows]):
        cells = (f"<td{kind}>{_cell(cell)}</td>" for cell, kind in zip(row, kinds, strict=True))
        mark = ' class="chosen"' if number == chosen else ""
        body += f"<tr{mark}>{''.join(cells)}</tr>"
    hidden = max(len(rows) - max_rows, 0) + more
    rest = paragraph(f"… and {hidden:,} more", quiet=True) if hidden else ""
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>{rest}"


def _cell(cell: Cell) -> str:
    if isinstance(cell, Share):
        width = 100 * min(max(cell.value, 0.0), 1.0)
        return f'{percent(cell.value)}<span class="bar"><i style="width:{width:.1f}%"></i></span>'
    if isinstance(cell, str):
        return escape(cell)
    return "<br>".join(
        f'<span class="line">{escape(line)}</span>' if len(line) <= MAX_UNBROKEN else escape(line)
        for line in cell
    )


class EstimatorWithCard(BaseEstimator):
    """An estimator that notebooks show as a card once it is fitted.

    Before the fit, and inside a pipeline, it is drawn as scikit-learn's diagram;
    ``sklearn.set_config(display="text")`` turns both off.
    """

    def _card(self) -> str | None:
        """HTML of the fitted estimator; None before the fit."""
        return None

    def _repr_html_inner(self) -> str:
        """HTML that scikit-learn's property ``_repr_html_`` returns."""
        card = self._card()
        diagram: str = super()._repr_html_inner() if card is None else card
        return diagram

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        """Text and, unless it is turned off, HTML."""
        del kwargs
        texts = {"text/plain": repr(self)}
        if get_config()["display"] == "diagram":
            texts["text/html"] = self._repr_html_inner()
        return texts
