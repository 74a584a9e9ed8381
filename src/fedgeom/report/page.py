"""One self-contained page about a run: no scripts, nothing loaded from elsewhere."""

from __future__ import annotations

import base64
import html
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from fedgeom.errors import printable
from fedgeom.evaluation.figures import Evaluation, read_evaluation, score_rows
from fedgeom.federation.record import read_folder
from fedgeom.report import scores
from fedgeom.report.naming import Naming
from fedgeom.report.tables import (
    EVIDENCE,
    LEDGER,
    evidence_rows,
    ledger_rows,
    names_by_word,
    naming_verdict,
    site_rows,
    size,
)
from fedgeom.storage import write_text

T = TypeVar("T")

PICTURE, NAMES, PAGE = "picture.png", "names.json", "report.html"
"""The files of a run folder that reports add or read."""

_STYLE = """
:root { color-scheme: light; --ink: #22262b; --dim: #6b7280; --line: #e5e7eb; }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); margin: 0 auto; max-width: 68rem }
body { padding: 2rem 1rem }
h1 { font-size: 1.6rem; margin: 0 0 .2rem } h2 { font-size: 1.15rem; margin: 2.2rem 0 .6rem }
p { margin: .3rem 0 } .dim { color: var(--dim) } img { width: 100%; height: auto }
.facts { display: flex; flex-wrap: wrap; gap: 1rem 2.5rem; margin: 1.2rem 0 }
.facts div { min-width: 6rem } .facts b { display: block; font-size: 1.5rem; line-height: 1.2 }
.wide { overflow-x: auto } table { border-collapse: collapse; width: 100%; font-size: .92rem }
th { text-align: left; color: var(--dim); font-weight: 500 }
th, td { padding: .3rem .8rem .3rem 0; border-bottom: 1px solid var(--line); vertical-align: top }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
td.bad { color: #b42318 }
.warnings { background: #fffaeb; border-left: 4px solid #dc6803; margin: 0; padding: .6rem 1rem .6rem 2rem }
"""


def escape(text: str) -> str:
    """Return a text for the page: no markup, and no control characters."""
    return html.escape(printable(text, lines=True))


def write_page(folder: str | Path) -> Path:
    """Write ``report.html`` into a run's folder from what lies there, and return its path."""
    path = Path(folder)
    content = read_folder(path)
    evaluation = read_evaluation(path)
    naming = _read(path / NAMES, Naming)
    body = [
        _summary(content, evaluation),
        _warnings(content),
        _picture(path / PICTURE),
        _evaluation(evaluation),
        _ledger(content),
        _names(naming),
        _origin(content),
    ]
    title = escape(f"{content['config']['method']}: {path.name}")
    page = (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_STYLE}</style></head>\n<body>\n{''.join(body)}</body></html>\n"
    )
    return write_text(path / PAGE, page, private=True)


def _read(file: Path, kind: type[T]) -> T | None:
    return msgspec.json.decode(file.read_bytes(), type=kind) if file.is_file() else None


def _summary(content: dict[str, Any], evaluation: Evaluation | None) -> str:
    config, status, ledger = content["config"], content["status"], content["ledger"]
    sites = config["sites"]
    facts = [(f"{len(sites)}", "sites")]
    if all("rows" in site for site in sites.values()):  # a deployment's coordinator does not know them
        rows = sum(site["rows"] for site in sites.values())
        facts.append((f"{rows:,}", "rows, which stayed there"))
    accuracy = evaluation["own"].accuracy if evaluation is not None and "own" in evaluation else None
    if accuracy is not None:
        facts.append((f"{accuracy.value:.3f}", f"accuracy, {accuracy.low:.3f} to {accuracy.high:.3f}"))
    if ledger.sites:
        facts.append((size(round(ledger.sent() / len(ledger.sites))), "left each site, on average"))
    if "seconds" in content["metrics"]:
        facts.append((f"{content['metrics']['seconds']:.1f} s", "the conversation took"))
    boxes = "".join(f"<div><b>{escape(value)}</b>{escape(what)}</div>" for value, what in facts)
    detail = f": {status['detail']}" if status["detail"] else ""
    return (
        f"<h1>Method {escape(config['method'])} over {len(sites)} sites</h1>"
        f'<p class="dim">{escape(status["state"] + detail)}, {escape(status["time"])}</p>'
        + (f'<p class="dim">{escape(config["chosen"])}</p>' if config.get("chosen") else "")
        + f'<div class="facts">{boxes}</div>'
    )


def _warnings(content: dict[str, Any]) -> str:
    lines = "".join(f"<li>{escape(str(warning))}</li>" for warning in content["warnings"])
    return f'<h2>Warnings</h2><ul class="warnings">{lines}</ul>' if lines else ""


def _picture(file: Path) -> str:
    if not file.is_file():
        return ""
    data = base64.b64encode(file.read_bytes()).decode()
    text = "The sites' hulls in the disc, before and after quantization, and the regions of the joint classifier"
    return f'<img alt="{text}" src="data:image/png;base64,{data}">'


def _evaluation(evaluation: Evaluation | None) -> str:
    if evaluation is None:
        return ""
    parts = [f"<h2>{escape(scores.title(evaluation))}</h2>"]
    parts.append(
        '<p class="dim">In brackets 95 % intervals. The majority class is the floor: the commonest class, always. Each '
        "site alone is a logistic regression on the site's own rows; pooled rows are one on everybody's rows in one "
        "place, which a deployment cannot have.</p>"
    )
    for title, (head, rows) in (
        ("", score_rows(evaluation)),
        ("Class by class", scores.class_rows(evaluation)),
        ("Accuracy site by site", scores.site_rows(evaluation)),
    ):
        if rows:
            parts.append((f"<h2>{title}</h2>" if title else "") + _table(head, rows, numbers=range(1, len(head))))
    said = scores.notes(evaluation)
    return "".join(parts) + (f'<p class="dim">{escape("; ".join(said))}</p>' if said else "")


def _ledger(content: dict[str, Any]) -> str:
    ledger = content["ledger"]
    if not len(ledger):
        return "<h2>What left each site</h2><p>Nothing.</p>"
    return (
        "<h2>What left each site</h2>"
        + _table(["site", "messages", "sent", "received"], site_rows(ledger), numbers=(1, 2, 3))
        + "<h2>Message by message</h2>"
        + _table(LEDGER, ledger_rows(ledger), numbers=(0, 2, 3, 4))
    )


def _names(naming: Naming | None) -> str:
    if naming is None:
        return ""
    return (
        "<h2>Which local name means which class</h2>"
        f"<p>{escape(naming_verdict(naming))} "
        "Names never left their sites; each site learnt the numbers of its own.</p>"
        + _table(*names_by_word(naming), numbers=(0,))
        + _evidence(naming)
    )


def _evidence(naming: Naming) -> str:
    rows = evidence_rows(naming)
    if not rows:
        return ""
    return (
        "<h2>How sure that is</h2>"
        '<p class="dim">A name\'s distance to the same class at the other sites, and what it would be in the next best '
        "grouping, together with the names that would have to move with it; the least sure first. The nearer the two, "
        "the more it is in doubt.</p>" + _table(EVIDENCE, rows, numbers=(3, 5))
    )


def _origin(content: dict[str, Any]) -> str:
    config = content["config"]
    said = {key: value for key, value in config.get("parameters", {}).items() if value is not None}
    settings = ", ".join(f"{key} = {_as_toml(value)}" for key, value in said.items())
    versions = ", ".join(f"{key} {value}" for key, value in content["versions"].items())
    return (
        f'<h2>How to repeat it</h2><p class="dim">seed {config["seed"]}; {escape(settings)}</p>'
        f'<p class="dim">{escape(versions)}</p>'
    )


def _as_toml(value: Any) -> str:
    """Write a setting as a federation file has it."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {_as_toml(one)}" for key, one in value.items() if one is not None) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_as_toml, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], numbers: Iterable[int] = ()) -> str:
    right = set(numbers)

    def cell(tag: str, at: int, text: str) -> str:
        kind = "n" if at in right else "bad" if text.startswith("✗") else ""
        return f'<{tag} class="{kind}">{escape(text)}</{tag}>' if kind else f"<{tag}>{escape(text)}</{tag}>"

    top = "".join(cell("th", at, name) for at, name in enumerate(head))
    body = "".join(
        "<tr>" + "".join(cell("td", at, text) for at, text in enumerate(line)) + "</tr>" for line in rows
    )
    return f'<div class="wide"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'
