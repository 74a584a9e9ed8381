"""One self-contained page about a run: style, script and pictures inside, nothing loaded from elsewhere."""

from __future__ import annotations

import base64
from pathlib import Path

from fedgeom.report import markup
from fedgeom.report.at_site import is_site_result, read_site_run
from fedgeom.report.curves import curves
from fedgeom.report.explorer import explorer
from fedgeom.report.exposure import exposure
from fedgeom.report.leaving import leaving
from fedgeom.report.naming import Naming
from fedgeom.report.outcomes import outcomes
from fedgeom.report.overview import heading, participants, warnings
from fedgeom.report.reading import NAMES, RunFiles, read_run
from fedgeom.report.repeating import repeating
from fedgeom.report.scene import scene_of
from fedgeom.report.tables import EVIDENCE, evidence_rows, names_by_word, naming_verdict
from fedgeom.report.timeline import timeline
from fedgeom.storage import write_text

PICTURE, PAGE = "picture.png", "report.html"
"""The files of a run folder that reports add or read."""

__all__ = ["NAMES", "PAGE", "PICTURE", "page_of", "read_any", "write_page"]


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


def page_of(run: RunFiles) -> str:
    """Return the page of a run."""
    sections = [
        warnings(run),
        outcomes(run.evaluation),
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
    return markup.document(f"{run.method}: {run.path.resolve().name}", body, n_classes=max(named, default=-1) + 1)


def _contents(sections: list[str]) -> str:
    """Return links to the sections that there are."""
    links = []
    for one in filter(None, "".join(sections).split("<section ")):
        name, title = one.partition('id="')[2].partition('"')[0], one.partition("<h2")[2].partition(">")[2]
        links.append(f'<li><a href="#{name}">{title.partition("</h2>")[0]}</a></li>')
    return f'<nav aria-label="On this page"><ul>{"".join(links)}</ul></nav>'


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
    rows = evidence_rows(naming)
    sure = (
        markup.paragraph(
            "A name's distance to the same class at the other sites, and what it would be in the next best grouping, "
            "together with the names that would have to move with it; the least sure first. The nearer the two, the "
            "more it is in doubt.",
            "dim",
        )
        + markup.table(EVIDENCE, rows, numbers=(3, 5))
        if rows
        else ""
    )
    return markup.section(
        "names",
        "Which local name means which class",
        markup.paragraph(
            f"{naming_verdict(naming)} Names never left their sites; each site learnt the numbers of its own."
        ),
        markup.table(*names_by_word(naming), numbers=(0,)),
        markup.details("How sure that is", sure, shown=bool(naming.doubtful) and len(rows) <= 24) if sure else "",
    )
