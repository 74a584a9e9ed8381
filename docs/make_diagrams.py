"""Draw the conversation of each method from its plan: `python docs/make_diagrams.py`, into docs/images.

A run follows the same plan, so that what is drawn cannot differ from it.
"""

from __future__ import annotations

import html
import sys
import textwrap
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import fedgeom
from fedgeom.protocols.plan import costs_of, shape_of
from fedgeom.report.privacy import kind_of
from fedgeom.report.timeline import read_phases
from fedgeom.report.words import in_words, stage_of

IMAGES = Path(__file__).parent / "images"
WIDE, LEFT, RIGHT = 760, 120, 640
SAID = {
    "masked": "masked: only the sum over all sites is seen",
    "sealed": "keys, or sealed for the other sites",
    "plain": "read by the coordinator",
    "receipts": "a receipt",
}
"""What comes back, in the colours of the reports' ledger."""
STYLE = """
text { font: 13px system-ui, sans-serif; fill: #22262b } .dim { fill: #5b6472; font-size: 12px }
.head { font-weight: 600; font-size: 14px }
.lane { stroke: #c9ced6; stroke-width: 2 } .box { fill: #f6f7f9; stroke: #c9ced6 }
.ask { stroke: #5b6472; stroke-width: 1.6; fill: none }
.masked { --k: #0072b2 } .sealed { --k: #b07a00; stroke-dasharray: 7 3 }
.plain { --k: #d55e00; stroke-width: 3.4 } .receipts { --k: #8a93a0; stroke-dasharray: 2 3 }
.back { stroke: var(--k); stroke-width: 2.2; fill: none } .tip { fill: #5b6472 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6e9ee } .dim { fill: #a3adba } .box { fill: #1d2127; stroke: #4a525d } .lane { stroke: #4a525d }
  .ask { stroke: #a3adba } .tip { fill: #a3adba }
  .masked { --k: #4da6dd } .sealed { --k: #f0b93a } .plain { --k: #f08a4b } }
"""


class Round(NamedTuple):
    """Questions that come in this order, so often, each with what comes back."""

    stage: str
    asked: list[tuple[str, str]]
    times: int


def rows_of(method: Any, sites: list[fedgeom.SiteData]) -> list[Round]:
    """Return the conversation of a method's plan; what is repeated equally often makes a round."""
    asked = [one for one in costs_of(method, shape_of(method, sites)).exchanges if not one.kind.startswith("sum.")]
    order: list[Any] = []
    for times, some in groupby(asked, lambda one: one.times):
        block = list(some)
        order += block if times == 1 else list({one.kind: one for one in block}.values()) * times
    found = []
    for phase in read_phases(order):
        first: Any = phase.exchanges[: phase.period]
        rows = dict.fromkeys((in_words(one.kind), kind_of(one.reveals, one.answer)) for one in first)
        found.append(Round(stage_of(first[0].kind), list(rows), phase.times))
    return found


def draw(rows: list[Round], title: str) -> str:
    """Return the picture of a conversation: questions go to the sites, answers come back."""
    body, y, before, middle = [], 64, "", (LEFT + RIGHT) // 2

    def write(text: str, kind: str = "") -> None:
        body.append(f'<text class="{kind}" x="{middle}" y="{y}" text-anchor="middle">{html.escape(text)}</text>')

    for stage, asked, times in rows:
        if stage != before:
            before, y = stage, y + 24
            write(stage, "head")
            y += 6
        if times > 1 and len(asked) > 1:
            y += 20
            write(f"in each of {times} rounds", "dim")
        for words, kind in asked:
            for line in textwrap.wrap(words + (f"  × {times}" if times > 1 and len(asked) == 1 else ""), 68):
                y += 18
                write(line)
            y += 8
            body.append(f'<path class="ask" d="M{RIGHT - 8} {y}H{LEFT + 14}"/>{_tip(LEFT + 8, y, 1)}')
            y += 16
            body.append(f'<path class="back {kind}" d="M{LEFT + 8} {y}H{RIGHT - 14}"/>{_tip(RIGHT - 8, y, -1)}')
            y += 14
            write(SAID[kind], "dim")
            y += 6
    tall = y + 24
    lanes = "".join(
        f'<path class="lane" d="M{x} 56V{tall - 12}"/>'
        f'<rect class="box" x="{x - 62}" y="22" width="124" height="34" rx="6"/>'
        f'<text class="head" x="{x}" y="44" text-anchor="middle">{name}</text>'
        for x, name in ((LEFT, "each site"), (RIGHT, "coordinator"))
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDE} {tall}" width="{WIDE}" role="img" '
        f'aria-label="{html.escape(title)}"><title>{html.escape(title)}</title><style>{STYLE}</style>'
        f"{lanes}{''.join(body)}</svg>\n"
    )


def _tip(x: int, y: int, way: int) -> str:
    return f'<path class="tip" d="M{x} {y}l{8 * way} -4v8z"/>'


def example_sites(columns: int = 3, classes: str = "ab", unlabelled: bool = False) -> list[fedgeom.SiteData]:
    """Return four sites with a few rows."""
    rng = np.random.default_rng(0)
    y = np.repeat(list(classes), 16)
    shift = 5.0 * np.array([ord(word) - ord("a") for word in y])[:, None]
    given = np.where(np.arange(len(y)) % 2, "", y) if unlabelled else y
    return [fedgeom.SiteData(f"s{at}", rng.normal(size=(len(y), columns)) + shift, given) for at in range(4)]


DRAWN: dict[str, Callable[[], Any]] = {
    "hulls": lambda: rows_of(fedgeom.Hulls(embedding="discriminant"), example_sites()),
    "ellipses": lambda: rows_of(fedgeom.Ellipses(), example_sites()),
    "moments": lambda: rows_of(fedgeom.Moments(space="euclidean"), example_sites()),
    "ridge": lambda: rows_of(fedgeom.Ridge(features="linear"), example_sites()),
    "shrunk": lambda: rows_of(fedgeom.Shrunk(), example_sites()),
    "training": lambda: rows_of(fedgeom.FedAvg(n_rounds=5), example_sites()),
    "xclp": lambda: rows_of(fedgeom.XCLP(), example_sites(unlabelled=True)),
    "semi": lambda: rows_of(
        fedgeom.XCLPTraining(n_rounds=4, warmup_rounds=1, labels={"name": "xclp", "n_anchors": 6, "steps": 2}),
        example_sites(unlabelled=True),
    ),
    "ptopofl": lambda: rows_of(fedgeom.PTopoFL(n_rounds=5), example_sites()),
    "hyperfed": lambda: rows_of(fedgeom.HyperFed(n_rounds=5), example_sites()),
    "maps": lambda: rows_of(fedgeom.PoincareMap(n_landmarks=16), example_sites()),
    "describe": lambda: rows_of(fedgeom.Describe(), example_sites()),
    "statistics": lambda: rows_of(fedgeom.Regression(), example_sites()),
}
"""By page, the run whose conversation is drawn there."""


def diagram(name: str) -> str:
    """Return the picture of one page."""
    return draw(DRAWN[name](), f"The conversation of {name}: what is asked, and what comes back")


if __name__ == "__main__":
    for name in sys.argv[1:] or DRAWN:
        (IMAGES / f"conversation-{name}.svg").write_text(diagram(name), encoding="utf-8")
        print(f"docs/images/conversation-{name}.svg")
