"""Messages of a run, grouped into the steps of the protocol; repeated rounds are shown once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from fedgeom.report import markup
from fedgeom.report.markup import escape
from fedgeom.report.run_folder import RunFiles
from fedgeom.report.table import ReportTable, size, to_html
from fedgeom.report.words import SUMS, in_words, stage_of

LONGEST_ROUND = 48
"""A round of so many exchanges is still seen to be one."""


@dataclass
class TimelineStep:
    """One question to all sites, and what came of it."""

    number: int
    kind: str
    sites: set[str] = field(default_factory=set)
    answered: set[str] = field(default_factory=set)
    lost: dict[str, str] = field(default_factory=dict)
    sent: int = 0
    began: float | None = None
    ended: float | None = None


@dataclass(frozen=True)
class TimelineExchange:
    """A question, and the steps that belong to its sum."""

    steps: tuple[TimelineStep, ...]

    @property
    def kind(self) -> str:
        """What was asked."""
        return self.steps[0].kind

    @property
    def sent(self) -> int:
        """How many bytes left all sites."""
        return sum(step.sent for step in self.steps)

    @property
    def seconds(self) -> float | None:
        """How long it took; None where the record does not say."""
        began = self.steps[0].began
        ended = self.steps[-1].ended
        return None if began is None or ended is None else ended - began


@dataclass(frozen=True)
class Phase:
    """Exchanges that came again and again in the same order: rounds."""

    exchanges: tuple[TimelineExchange, ...]
    """All of them, in order."""
    period: int
    """How many make a round."""

    @property
    def times(self) -> int:
        """How often the round came."""
        return len(self.exchanges) // self.period


def read_steps(run: RunFiles) -> list[TimelineStep]:
    """Return the steps of a run in order, from its events and its ledger."""
    steps: dict[int, TimelineStep] = {}
    for one in run.events:
        step = steps.setdefault(one.step, TimelineStep(one.step, one.kind, began=one.seconds))
        if one.state == "asked":
            step.sites.add(one.site)
        elif one.state == "answered":
            step.answered.add(one.site)
            step.ended = one.seconds
        elif one.state == "lost":
            step.lost[one.site] = one.detail
            step.ended = one.seconds
    for entry in run.ledger:
        step = steps.setdefault(entry.step, TimelineStep(entry.step, entry.kind))
        step.sent += entry.bytes
        step.answered.add(entry.site)
    return [steps[number] for number in sorted(steps) if number > 0]


def read_exchanges(steps: Sequence[TimelineStep]) -> list[TimelineExchange]:
    """Put the steps of a sum with the question that it answers."""
    found: list[list[TimelineStep]] = []
    for step in steps:
        if step.kind in SUMS and found:
            found[-1].append(step)
        else:
            found.append([step])
    return [TimelineExchange(tuple(one)) for one in found]


def read_phases(exchanges: Sequence[TimelineExchange]) -> list[Phase]:
    """Find what came again in the same order, and put it together."""
    kinds = [one.kind for one in exchanges]
    found = []
    at = 0
    while at < len(kinds):
        best = (1, 1)
        for period in range(1, LONGEST_ROUND + 1):
            round_ = kinds[at : at + period]
            times = 1
            while len(round_) == period and kinds[at + times * period : at + (times + 1) * period] == round_:
                times += 1
            if times > 1 and period * times > best[0] * best[1]:
                best = (period, times)
        length = best[0] * best[1]
        found.append(Phase(tuple(exchanges[at : at + length]), best[0]))
        at += length
    return found


def timeline(run: RunFiles) -> str:
    """Return the section on the conversation."""
    steps = read_steps(run)
    if not steps:
        return ""
    phases = read_phases(read_exchanges(steps))
    most = max((sum(one.sent for one in phase.exchanges) for phase in phases), default=1) or 1
    stages: list[tuple[str, list[str]]] = []
    for phase in phases:
        name = stage_of(phase.exchanges[0].kind)
        if not stages or stages[-1][0] != name:
            stages.append((name, []))
        stages[-1][1].append(_shown(phase, most))
    body = "".join(
        f'<li class="stage"><h3>{escape(name)}</h3><ol>{"".join(lines)}</ol></li>' for name, lines in stages
    )
    whom, left = (run.home, run.home) if run.home else ("the sites", "all sites")
    said = f"{len(steps)} questions went to {whom}, in {len(phases)} groups. Bars are bytes that left {left}."
    return markup.section(
        "timeline",
        "The conversation",
        markup.paragraph(said, "dim"),
        f'<ol class="timeline">{body}</ol>',
        markup.details(f"All {len(steps)} questions", _table(steps)),
    )


def _shown(phase: Phase, most: int) -> str:
    first = phase.exchanges[: phase.period]
    words = "; ".join(dict.fromkeys(in_words(one.kind) for one in first))
    steps = [step for one in phase.exchanges for step in one.steps]
    sent = sum(one.sent for one in phase.exchanges)
    times = [one.seconds for one in phase.exchanges]
    facts = [
        f"question {steps[0].number}" if len(steps) == 1 else f"questions {steps[0].number}–{steps[-1].number}",
        size(sent),
    ]
    took = sum(one for one in times if one is not None)
    if None not in times and took >= 0.05:
        facts.append(f"{took:.1f} s")
    if any(len(one.steps) > 1 for one in first):
        facts.append("summed in secret")
    lost = {site: why for step in steps for site, why in step.lost.items()}
    gone = "".join(f'<p class="bad">{escape(site)} was lost: {escape(why)}</p>' for site, why in lost.items())
    again = f' <b class="times">× {phase.times}</b>' if phase.times > 1 else ""
    return (
        f'<li><div>{escape(words)}{again}</div><div class="size" aria-hidden="true"><i style="width:'
        f'{100 * sent / most:.1f}%"></i></div><div class="dim">{escape(" · ".join(facts))}</div>{gone}</li>'
    )


def _table(steps: Sequence[TimelineStep]) -> str:
    rows = []
    for one in steps:
        came = f"{len(one.answered)} of {len(one.sites) or len(one.answered)}"
        rows.append([str(one.number), in_words(one.kind), came, size(one.sent)])
    head = ["question", "what was asked", "sites answered", "left all sites"]
    return to_html(ReportTable("All questions", head, rows, right=(0, 2, 3)))
