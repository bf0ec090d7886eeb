"""Results as small HTML for notebooks: readable on light and dark, without scripts.

All texts are escaped here, in one place. Colours are those of the page around it: text has the
page's own, lines and bars are made of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from html import escape

__all__ = ["Cell", "Share", "card", "code", "facts", "fold", "heading", "paragraph", "table"]

SHOWN = 20  # rows of a table
SHORT = 60  # letters of a line
QUIET, CHOSEN = ' class="quiet"', ' class="chosen"'

# The class is written three times so that it counts for more than the rules of notebooks, which
# give tables a background and an alignment of their own.
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
    """A part of one, shown in percent with a bar."""

    value: float


Cell = str | Share | tuple[str, ...]  # a tuple has a line for each text


def card(*parts: str) -> str:
    """Parts as one box, with what they look like."""
    return f'<div class="tensorae">{_STYLE}{"".join(parts)}</div>'


def heading(name: str, rest: str = "") -> str:
    """What it is, and a few words on it."""
    return f"<p><strong>{escape(name)}</strong>{escape(rest)}</p>"


def paragraph(text: str, *, quiet: bool = False) -> str:
    """A sentence."""
    return f"<p{QUIET if quiet else ''}>{escape(text)}</p>"


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
    most: int = SHOWN,
    more: int = 0,
) -> str:
    """Rows under a head; the columns with these numbers hold words, all others numbers.

    Of rows beyond ``most`` the number is told; ``more`` are some that are left out already.
    """
    kinds = ["" if place in words else ' class="number"' for place in range(len(head))]
    top = "".join(f"<th{kind}>{escape(name)}</th>" for name, kind in zip(head, kinds, strict=True))
    body = "".join(
        f"<tr{CHOSEN if number == chosen else ''}>"
        + "".join(f"<td{kind}>{_cell(cell)}</td>" for cell, kind in zip(row, kinds, strict=True))
        + "</tr>"
        for number, row in enumerate(rows[:most])
    )
    left = max(len(rows) - most, 0) + more
    rest = paragraph(f"… and {left:,} more", quiet=True) if left else ""
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>{rest}"


def _cell(cell: Cell) -> str:
    if isinstance(cell, Share):
        percent = 100 * min(max(cell.value, 0.0), 1.0)
        bar = f'<span class="bar"><i style="width:{percent:.1f}%"></i></span>'
        return f"{100 * cell.value:.1f} %{bar}"
    if isinstance(cell, tuple):
        return "<br>".join(_line(text) for text in cell)
    return escape(cell)


def _line(text: str) -> str:
    """One of several lines, which is not broken where it is short."""
    return f'<span class="line">{escape(text)}</span>' if len(text) <= SHORT else escape(text)
