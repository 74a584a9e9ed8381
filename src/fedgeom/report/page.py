"""One self-contained page about a run: style, script and pictures inside, nothing loaded from elsewhere."""

from __future__ import annotations

import base64
import datetime
import json
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedgeom.deploy.config import as_toml
from fedgeom.errors import FedgeomError
from fedgeom.federation.results import RunWarning
from fedgeom.methods.catalogue import method_class
from fedgeom.methods.describe.model import Description
from fedgeom.report import markup
from fedgeom.report.at_site import is_site_result, read_site_run
from fedgeom.report.coefficients import coefficients
from fedgeom.report.description import description_section
from fedgeom.report.explorer import explorer, scene_of
from fedgeom.report.label_names import Naming
from fedgeom.report.markup import escape
from fedgeom.report.outcomes import curves, outcomes
from fedgeom.report.privacy import exposure, leaving, spent
from fedgeom.report.run_folder import NAMES, RunFiles, read_run
from fedgeom.report.survival import survival_section
from fedgeom.report.table import Cell, Line, ReportTable, size, to_html
from fedgeom.report.tables import evidence_table, naming_table, naming_verdict
from fedgeom.report.timeline import timeline
from fedgeom.storage import as_plain, write_text

__all__ = ["NAMES", "PAGE", "PICTURE", "page_of", "read_any", "write_page"]

PICTURE = "picture.png"
PAGE = "report.html"
"""The files of a run folder that reports add or read."""
MANY = 12
"""With more sites than this they are listed on demand."""


def write_page(folder: str | Path, out: str | Path | None = None, *, rows: bool = True) -> Path:
    """Write the page of a run from what lies in its folder, and return its path.

    It goes to ``report.html`` in the folder unless ``out`` is given. ``rows``: draw rows too, where they are at hand.
    """
    run = read_any(folder, rows=rows)
    return write_text(run.path / PAGE if out is None else Path(out), page_of(run), private=True)


def read_any(folder: str | Path, *, rows: bool = True) -> RunFiles:
    """Read a run's folder, or what a deployed site has of a run: results/RUN in the site's folder."""
    if is_site_result(folder):
        return read_site_run(folder, rows=rows)
    return read_run(folder, rows=rows)


def page_of(run: RunFiles, back: tuple[str, str] | None = None) -> str:
    """Return the page of a run; ``back`` is the address and the name of the page that it is opened from."""
    concludes = bool(getattr(run.model, "conclusion", ""))
    sections = [
        warnings(run),
        outcomes(run.evaluation, run.verdict) if run.predicts and (run.evaluation or not concludes) else "",
        coefficients(run.model),
        survival_section(run.model),
        description_section(run.model) if isinstance(run.model, Description) else "",
        _picture(run),
        _names(run.naming),
        curves(run),
        participants(run),
        timeline(run),
        leaving(run.ledger, run.home),
        exposure(run),
        repeating(run),
    ]
    body = heading(run) + _contents(sections) + "".join(sections)
    named = run.class_names()
    title = f"{run.method}: {run.path.resolve().name}"
    return markup.document(title, body, n_classes=max(named, default=-1) + 1, back=back)


def _contents(sections: list[str]) -> str:
    """Return links to the sections that there are."""
    links = []
    for one in filter(None, "".join(sections).split("<section ")):
        name = one.partition('id="')[2].partition('"')[0]
        title = one.partition("<h2")[2].partition(">")[2]
        links.append(f'<li><a href="#{name}">{title.partition("</h2>")[0]}</a></li>')
    return f'<nav aria-label="On this page"><ul>{"".join(links)}</ul></nav>'


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
        + verdict(run)
        + markup.paragraph(str(run.config.get("purpose", "")))
        + markup.paragraph(method_words(run))
        + markup.paragraph(str(run.config.get("chosen", "")), "dim")
        + f'<div class="facts">{boxes}</div></header>'
    )


def verdict(run: RunFiles) -> str:
    """Return what to think of the model; marked where nothing speaks for it."""
    if not run.predicts and not getattr(run.model, "conclusion", ""):
        return ""
    doubt = run.evaluation is not None and not run.evaluation.beats_majority
    return f'<p class="verdict{" doubt" if doubt else ""}"><b>Verdict.</b> {escape(run.verdict)}</p>'


def _when(time: str) -> str:
    """Return a moment as people write it; what is no moment, as it is."""
    try:
        moment = datetime.datetime.fromisoformat(time).astimezone(datetime.UTC)
    except ValueError:
        return time
    return f"{moment:%Y-%m-%d %H:%M} UTC"


def question(run: RunFiles) -> str:
    """Say what was asked of whom."""
    names = run.class_names()
    sites = len(run.sites)
    if run.method == "kaplan-meier":
        return f"How long is it until the event, over {sites} sites?"
    if run.method in ("regression", "cox"):
        treatment = run.parameters.get("treatment")
        goes = "the event comes sooner or later" if run.method == "cox" else "the outcome is higher or lower"
        asked = f"What is the effect of {treatment}" if treatment else f"With which columns {goes}"
        return f"{asked}, over {sites} sites?"
    if not run.predicts:
        return f"What are the rows of {sites} sites like, together?"
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
    before = f" Rows were first prepared jointly: {', '.join(named)}." if named and run.predicts else ""
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
    lost = run.lost
    rows: list[Line] = []
    for name, site in run.sites.items():
        end = Cell("yes")
        if name in lost:
            end = Cell(f"✗ {lost[name]}", "bad")
        elif not run.ledger.sent(name):
            end = Cell("✗ never answered", "bad")
        brought = [f"{site['rows']:,}", f"{site.get('columns', '')}"] if run.simulated else []
        values = [_value(one.get(name)) for one in said.values()]
        rows.append([name, *brought, size(run.ledger.sent(name)), size(received.get(name, 0)), *values, end])
    shown = to_html(ReportTable("Who took part", head, rows, right=range(1, len(head) - 1)))
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


def _picture(run: RunFiles) -> str:
    scene = scene_of(run)
    if scene is not None:
        why = (
            f"The rows are {run.home}'s own, and this page is for those who may see them"
            if run.home
            else "Rows are drawn because all sites were simulated here"
        )
        own = f"{why}; fedgeom report --no-rows leaves them out of a page that is handed on."
        return markup.section(
            "picture", scene.title, explorer(scene), markup.paragraph(own if scene.dots else "", "dim")
        )
    file = run.path / PICTURE
    if not file.is_file():
        return ""
    data = base64.b64encode(file.read_bytes()).decode()
    text = "The shapes that left the sites, coloured by joint class, and the joint classifier that they make"
    return markup.section("picture", "The picture", f'<img alt="{text}" src="data:image/png;base64,{data}">')


def _names(naming: Naming | None) -> str:
    if naming is None:
        return ""
    evidence = evidence_table(naming)
    sure = (
        markup.paragraph(
            "A name's distance to the same class at the other sites, and what it would be in the next best grouping, "
            "together with the names that would have to move with it; the least sure first. The nearer the two, the "
            "more it is in doubt.",
            "dim",
        )
        + to_html(evidence)
        if evidence.rows
        else ""
    )
    few = len(evidence.rows) <= 24
    return markup.section(
        "names",
        "Which local name means which class",
        markup.paragraph(
            f"{naming_verdict(naming)} Names never left their sites; each site learnt the numbers of its own."
        ),
        to_html(naming_table(naming)),
        markup.details("How sure that is", sure, shown=bool(naming.doubtful) and few) if sure else "",
    )


def repeating(run: RunFiles) -> str:
    """Return the section on how to repeat a run."""
    name = _typed_path(run.path)
    if run.home:
        return _at_site(run)
    commands = [
        ("again, with the file below", "fedgeom run federation.toml"),
        ("what left each site", f"fedgeom ledger {name}"),
        ("this page", f"fedgeom report {name}"),
    ]
    if run.predicts:
        commands.insert(2, ("the model on new rows", f"fedgeom predict {name} new.csv"))
    elif isinstance(run.model, Description):
        commands.insert(2, ("the description", f"fedgeom describe {name}"))
    wide = max(36, *(len(command) for _, command in commands))
    lines = "\n".join(f"{command:<{wide}} # {what}" for what, command in commands)
    versions = ", ".join(f"{key} {value}" for key, value in run.versions.items())
    return markup.section(
        "repeat",
        "How to repeat it",
        markup.code(lines),
        markup.details("federation.toml", markup.code(federation_toml(run))),
        markup.details("All settings", markup.code(json.dumps(run.parameters, indent=2, ensure_ascii=False))),
        markup.paragraph(f"seed {run.config['seed']}; {versions}. Keys and masks are new in every run.", "dim"),
    )


def _typed_path(path: Path) -> str:
    """Return a folder as it can be typed where the page was made: from there if it lies inside, otherwise in full."""
    whole = path.resolve()
    here = Path.cwd()
    return shlex.quote(str(whole.relative_to(here) if whole.is_relative_to(here) and whole != here else whole))


def _at_site(run: RunFiles) -> str:
    """Return the section of a site's own page: what it can do with what it has."""
    name = f"{run.path.parent.name}/{run.path.name}"
    commands = [
        ("the site's model on new rows", f"fedgeom predict {name} new.csv"),
        ("all that left the site", "fedgeom site ledger"),
        ("what it has spent of its privacy", "fedgeom site budget"),
        ("this page", f"fedgeom report {name}"),
    ]
    lines = "\n".join(f"{command:<44} # {what}" for what, command in commands)
    settings = json.dumps(run.parameters, indent=2, ensure_ascii=False, default=as_plain)
    return markup.section(
        "repeat",
        "What to do with it",
        markup.paragraph("In the site's folder:", "dim"),
        markup.code(lines),
        markup.details("The terms that were approved", markup.code(settings)) if run.parameters else "",
    )


def changed_settings(run: RunFiles) -> dict[str, Any]:
    """Return the settings that are not the method's own defaults; all where the method is not installed here."""
    changed: dict[str, Any] = {}
    for _ in range(2):  # what is given may settle what else is taken
        try:
            made = method_class(run.method).from_terms(changed)
            plain = json.loads(json.dumps(made.terms(), default=as_plain))
        except (FedgeomError, TypeError, AttributeError):
            plain = {}
        changed |= {
            key: value
            for key, value in run.parameters.items()
            if value is not None and plain.get(key, object()) != value
        }
    return changed


def federation_toml(run: RunFiles) -> str:
    """Write the federation file that would repeat the run, with the sites' files to be filled in."""
    settings = changed_settings(run)
    holdout = settings.pop("holdout", None)
    lines = [f'method = "{run.method}"', f"seed = {run.config['seed']}"]
    if isinstance(holdout, Mapping):
        lines.append(f"holdout = {holdout.get('share')}")
    lines.append('label = "the column with the classes"')
    if settings:
        lines += ["", "[parameters]", *(f"{key} = {as_toml(value)}" for key, value in settings.items())]
    for site in list(run.sites)[:3]:
        lines += ["", "[[sites]]", f"name = {json.dumps(site, ensure_ascii=False)}", 'file = "its file"']
    if len(run.sites) > 3:
        lines += ["", f"# and {len(run.sites) - 3} more sites"]
    return "\n".join(lines)
