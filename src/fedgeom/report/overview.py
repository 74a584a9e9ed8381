"""The head of a report: the question in words, the answer in figures, who took part, and what to be warned of."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from typing import Any

from fedgeom.federation.run_warnings import RunWarning
from fedgeom.report import markup
from fedgeom.report.exposure import spent
from fedgeom.report.markup import escape
from fedgeom.report.reading import RunFiles
from fedgeom.report.tables import size

MANY = 12
"""With more sites than this they are listed on demand."""


def heading(run: RunFiles) -> str:
    """Return title, question and the most important figures."""
    status = run.status
    detail = f": {status['detail']}" if status["detail"] else ""
    state = "good" if status["state"] == "finished" else "bad"
    boxes = "".join(f"<div><b>{escape(value)}</b>{escape(what)}</div>" for value, what in facts(run))
    return (
        f"<header><h1>{escape(question(run))}</h1>"
        f'<p><span class="state {state}">{escape(str(status["state"]))}</span>{escape(detail)} '
        f'<span class="dim">{escape(_when(str(status["time"])))} · run {escape(run.path.resolve().name)}</span></p>'
        + markup.paragraph(method_words(run))
        + markup.paragraph(str(run.config.get("chosen", "")), "dim")
        + f'<div class="facts">{boxes}</div></header>'
    )


def _when(time: str) -> str:
    """Return a moment as people write it; what is no moment, as it is."""
    try:
        moment = datetime.datetime.fromisoformat(time).astimezone(datetime.UTC)
    except ValueError:
        return time
    return f"{moment:%Y-%m-%d %H:%M} UTC"


def question(run: RunFiles) -> str:
    """Say what was asked of whom."""
    names, sites = run.class_names(), len(run.sites)
    count = len(names) or run.metrics.get("classes")
    what = f"tell {count} classes apart" if count else "learn together"
    if 0 < len(names) <= 4 and all(len(name) <= 24 for name in names.values()):
        what = f"tell {_listed(list(names.values()))} apart"
    return f"Can {sites} sites {what} without showing each other their rows?"


def _listed(words: list[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def method_words(run: RunFiles) -> str:
    """Say which method answered, how it works, and how rows were prepared for it."""
    steps = run.parameters.get("prepare") or []
    if isinstance(steps, str):
        steps = [steps]
    named = [str(one.get("name", "?")) if isinstance(one, Mapping) else str(one) for one in steps]
    before = f" Rows were first prepared jointly: {', '.join(named)}." if named else ""
    return f"Method {run.method}. {run.idea()}{before}"


def facts(run: RunFiles) -> list[tuple[str, str]]:
    """Return the figures that a reader looks for first."""
    found = [(f"{len(run.sites)}", "sites")]
    if run.simulated:  # a deployment's coordinator does not know them
        rows = sum(site["rows"] for site in run.sites.values())
        found.append((f"{rows:,}", "rows, which stayed there"))
    tested = run.evaluation
    if tested is not None and "own" in tested and tested["own"].accuracy is not None:
        own = tested["own"].accuracy
        found.append((f"{own.value:.1%}", f"of test rows told rightly ({own.low:.1%} to {own.high:.1%})"))
        if "majority" in tested and tested["majority"].accuracy is not None:
            found.append((f"{tested['majority'].accuracy.value:.1%}", "by always naming the commonest class"))
    if spent(run):
        found.append((f"ε = {spent(run)['epsilon']:g}", f"spent of the privacy of any one {spent(run)['unit']}"))
    if run.home:
        found.append((size(run.ledger.sent()), f"left {run.home}"))
    elif run.ledger.sites:
        found.append((size(round(run.ledger.sent() / len(run.ledger.sites))), "left each site, on average"))
    if "seconds" in run.metrics:
        found.append((_time(run.metrics["seconds"]), "the conversation took"))
    return found


def _time(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def warnings(run: RunFiles) -> str:
    """Return what a reader must know before he believes the rest; what is the same at many sites is said once."""
    alike: dict[str, list[RunWarning]] = {}
    for one in run.warnings:
        alike.setdefault(_kind(one), []).append(one)
    lines = []
    for first, *others in alike.values():
        said = f"<b>{escape(first.what)}</b>{escape(f': {first.why}' if first.why else '')}"
        if first.remedy:
            said += f'<br><span class="dim">What to do: {escape(first.remedy)}</span>'
        if others:
            more = "".join(
                f"<li>{escape(one.what)}{escape(f': {one.why}' if one.why else '')}</li>" for one in others
            )
            said += markup.details(f"The same at {len(others)} more", f"<ul>{more}</ul>")
        lines.append(f"<li>{said}</li>")
    return markup.section("warnings", "Warnings", f'<ul class="warnings">{"".join(lines)}</ul>' if lines else "")


def _kind(one: RunWarning) -> str:
    """Return what a warning says but for its site and its numbers; what is of no site is of its own kind."""
    if not one.site:
        return str(one)
    return re.sub(r"\d[\d.,]*", "#", f"{one.what}|{one.why}|{one.remedy}".replace(one.site, ""))


def participants(run: RunFiles) -> str:
    """Return who took part, with what each brought, and what the method says of each."""
    if run.home:
        return markup.section("sites", "Who took part", markup.paragraph(_invited(run)))
    said: dict[str, Mapping[str, Any]] = {
        name: value
        for name, value in run.metrics.items()
        if isinstance(value, Mapping) and value and set(value) <= set(run.sites)
    }
    head = ["site", *(["rows", "columns"] if run.simulated else []), "sent", "received", *said, "came to the end"]
    received: dict[str, int] = {}
    for entry in run.ledger:
        received[entry.site] = received.get(entry.site, 0) + entry.received
    lost, rows = run.lost, []
    for name, site in run.sites.items():
        end = f"✗ {lost[name]}" if name in lost else "yes" if run.ledger.sent(name) else "✗ never answered"
        brought = [f"{site['rows']:,}", f"{site.get('columns', '')}"] if run.simulated else []
        values = [_value(one.get(name)) for one in said.values()]
        rows.append([name, *brought, size(run.ledger.sent(name)), size(received.get(name, 0)), *values, end])
    shown = markup.table(head, rows, numbers=range(1, len(head) - 1))
    here = (
        "All sites were simulated in one process." if run.simulated else "Each site answered from its own machine."
    )
    gone = f" {len(lost)} of {len(run.sites)} did not come to the end." if lost else ""
    inner = shown if len(rows) <= MANY else markup.details(f"All {len(rows)} sites", shown)
    return markup.section("sites", "Who took part", markup.paragraph(here + gone), inner)


def _invited(run: RunFiles) -> str:
    others = [name for name in run.sites if name != run.home]
    said = f"This is what {run.home} itself has of the run"
    if not others:
        return f"{said}; who else took part is not written down here."
    return f"{said}. Invited were also {_listed(others)}; what they answered only the coordinator knows."


def _value(value: Any) -> str:
    return "–" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)
