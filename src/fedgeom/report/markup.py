"""The bricks of our pages: escaped texts, tables, sections, bars, and a document that needs nothing from elsewhere."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence
from importlib.resources import files
from typing import NamedTuple

from fedgeom.errors import printable
from fedgeom.memo import memoize
from fedgeom.report.palette import colours, on_dark

# Okabe and Ito's colours without yellow and black, and Tol's muted scheme with one orange: both are made for
# all kinds of colour vision.


POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; base-uri 'none'"
)
"""What a browser lets a page do: show itself. Nothing is loaded and nothing is sent."""
DASHES = ("none", "7 3", "2 3", "9 3 2 3", "12 4", "4 2 1 2 1 2")
"""How the lines of classes are dashed, in turn: they can be told apart in grey, too."""


def escape(text: str) -> str:
    """Return a text for a page: no markup, and no control characters."""
    return html.escape(printable(text, lines=True))


@memoize(8)
def asset(name: str) -> str:
    """Return one of the files that pages are made with: page.css or page.js."""
    return (files("fedgeom.report") / "assets" / name).read_text(encoding="utf-8")


def scroll(inner: str, name: str) -> str:
    """Return what may be wider than a page in a box that scrolls, also by keyboard."""
    return f'<div class="wide" role="region" aria-label="{escape(name)}" tabindex="0">{inner}</div>'


def code(text: str) -> str:
    """Return lines as they are, in a box that scrolls, also by keyboard."""
    return f'<pre tabindex="0">{escape(text)}</pre>'


def section(name: str, title: str, *body: str) -> str:
    """Return a part of a page under a heading; nothing where it has no content."""
    inner = "".join(body)
    if not inner:
        return ""
    return f'<section id="{name}" aria-labelledby="{name}-h"><h2 id="{name}-h">{escape(title)}</h2>{inner}</section>\n'


def paragraph(text: str, kind: str = "") -> str:
    """Return a paragraph; ``kind`` is "dim" for what is said beside the matter."""
    if not text:
        return ""
    return f'<p class="{kind}">{escape(text)}</p>' if kind else f"<p>{escape(text)}</p>"


def details(summary: str, body: str, *, shown: bool = False, twin: bool = False) -> str:
    """Return what is shown on demand; on paper too, unless it is the twin of what is drawn above it."""
    kind = ' class="twin"' if twin else ""
    return f"<details{kind}{' open' if shown else ''}><summary>{escape(summary)}</summary>{body}</details>"


def items(lines: Iterable[str], kind: str = "") -> str:
    """Return a list of lines; nothing of none."""
    inner = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f"<ul{f' class={chr(34)}{kind}{chr(34)}' if kind else ''}>{inner}</ul>" if inner else ""


class Interval(NamedTuple):
    """One line of a chart: a value from 0 to 1 as a dot on its interval."""

    label: str
    value: float
    low: float
    high: float
    said: str
    strong: bool = False


STEPS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.25)
"""How far the ticks of an axis may be from each other."""
MOST_TICKS = 6


def interval_chart(lines: Sequence[Interval], *, whole: bool = False) -> str:
    """Return values with their intervals on one axis with ticks: as much of it as they need, or from 0 to 1."""
    low, high = (0.0, 1.0) if whole else _room(lines)
    step = next((one for one in STEPS if (high - low) / one < MOST_TICKS), STEPS[-1])
    first = math.ceil(low / step - 1e-9)
    ticks = [at * step for at in range(first, math.floor(high / step + 1e-9) + 1)]

    def place(value: float) -> float:
        return 100 * (min(max(value, low), high) - low) / (high - low)

    rows = []
    for one in lines:
        left = place(one.low)
        wide = max(place(one.high) - left, 0.4)
        rows.append(
            f'<div class="span{" strong" if one.strong else ""}"><span>{escape(one.label)}</span>'
            f'<span class="track" aria-hidden="true"><i style="left:{left:.1f}%;width:{wide:.1f}%"></i>'
            f'<b style="left:{place(one.value):.1f}%"></b></span><span class="n">{escape(one.said)}</span></div>'
        )
    marks = "".join(f'<i style="left:{place(one):.1f}%">{one:.2f}</i>' for one in ticks)
    axis = f'<div class="span ticks" aria-hidden="true"><span></span><span>{marks}</span><span></span></div>'
    return f'<div class="chart">{"".join(rows)}{axis}</div>'


def _room(lines: Sequence[Interval]) -> tuple[float, float]:
    """Return the part of the axis from 0 to 1 that some intervals need, to a twentieth and at least a fifth wide."""
    low = max(math.floor(20 * min(one.low for one in lines) - 0.2) / 20, 0.0)
    high = min(math.ceil(20 * max(one.high for one in lines) + 0.2) / 20, 1.0)
    if high - low < 0.2:
        low = max(high - 0.2, 0.0)
        high = low + 0.2
    return low, high


def duration(seconds: float | None) -> str:
    """Write a length of time for people.

    >>> duration(0.2), duration(8.3), duration(200), duration(9000), duration(None)
    ('under 1 s', '8 s', '3 min', '2.5 h', '')
    """
    if seconds is None:
        return ""
    if seconds < 1:
        return "under 1 s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def bar(parts: Sequence[tuple[str, float]]) -> str:
    """Return a bar of shares with the names of its parts below, the way one reads it in grey, too."""
    whole = sum(value for _, value in parts) or 1.0
    cells = "".join(
        f'<i class="k{at % 6}" style="flex-grow:{value / whole:.4f}" title="{escape(name)}: {value / whole:.0%}"></i>'
        for at, (name, value) in enumerate(parts)
    )
    named = "".join(
        f'<li><i class="k{at % 6}"></i>{escape(name)} <span class="n">{_percent(value / whole)}</span></li>'
        for at, (name, value) in enumerate(parts)
    )
    return f'<div class="bar" aria-hidden="true">{cells}</div><ul class="keys">{named}</ul>'


def _percent(share: float) -> str:
    return "under 1 %" if 0 < share < 0.01 else f"{share:.0%}".replace("%", " %")


def class_styles(n: int) -> str:
    """Return the colours of n classes, for bright and for dark pages, and their dashes."""
    plain = colours(n)
    bright = "".join(f"--c{at}:{one};" for at, one in enumerate(plain))
    dark = "".join(f"--c{at}:{on_dark(one)};" for at, one in enumerate(plain))
    rules = "".join(f".c{at}{{--c:var(--c{at});--dash:{DASHES[at % len(DASHES)]}}}" for at in range(n))
    return f":root{{{bright}}}@media (prefers-color-scheme:dark){{@media screen{{:root{{{dark}}}}}}}{rules}"


def document(title: str, body: str, *, n_classes: int = 0, back: tuple[str, str] | None = None) -> str:
    """Return a whole page: style and script inside, nothing loaded from elsewhere.

    ``back`` is an address and its name: where the page was opened from, if from a page.
    """
    way = "" if back is None else f'<p><a href="{escape(back[0])}">← {escape(back[1])}</a></p>'
    style = asset("page.css") + class_styles(n_classes)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta name="color-scheme" content="light dark"><style>{style}</style></head>\n'
        f'<body class="report"><a class="skip" href="#main">To the content</a>\n<main id="main">{way}{body}</main>\n'
        f"<script>{asset('page.js')}</script></body></html>\n"
    )
