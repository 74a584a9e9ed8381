"""The privacy of a run: what a curious coordinator has afterwards, what was promised, and what is not protected."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from fedgeom.federation.ledger import Ledger
from fedgeom.report import markup
from fedgeom.report.run_folder import RunFiles
from fedgeom.report.table import ReportTable, size, to_html
from fedgeom.report.tables import ledger_table, traffic_table

KINDS = {
    "masked": "masked sums: only with all others do they say anything",
    "sealed": "sealed for other sites, keys and shares of keys",
    "plain": "read by the coordinator",
    "receipts": "receipts and signatures",
}
"""What a message is to the coordinator."""


def kind_of(reveals: str, kind: str) -> str:
    """Say which of `KINDS` a message is, from what it reveals.

    >>> kind_of("nothing: a receipt", "hulls.model-taken"), kind_of("masked; with all others: a sum", "sum.masked")
    ('receipts', 'masked')
    """
    if reveals.startswith(("masked", "nothing to the coordinator: every block")):
        return "masked"
    if kind.startswith(("join.", "sum.shares")) or reveals.startswith(
        ("nothing to", "letters", "nothing: letters")
    ):
        return "sealed"
    return "receipts" if reveals.startswith("nothing") else "plain"


def leaving(ledger: Ledger, home: str = "") -> str:
    """Return the section on what left the sites; of ``home`` alone where it is its own page."""
    title = f"What left {home or 'the sites'}"
    if not len(ledger):
        return markup.section("ledger", title, markup.paragraph("Nothing."))
    sums: Counter[str] = Counter()
    for entry in ledger:
        sums[kind_of(entry.reveals, entry.kind)] += entry.bytes
    said = (
        f"{len(ledger):,} messages and {size(ledger.sent())} left {home or f'{len(ledger.sites)} sites'}. "
        "Every byte is in the ledger, with what it reveals."
    )
    return markup.section(
        "ledger",
        title,
        markup.paragraph(said),
        markup.bar([(KINDS[name], float(sums[name])) for name in KINDS if sums[name]]),
        markup.details("Message by message", to_html(ledger_table(ledger))),
        "" if home else markup.details("Site by site", to_html(traffic_table(ledger))),
    )


def exposure(run: RunFiles) -> str:
    """Return the section on privacy."""
    learnt: dict[str, list[str]] = {"masked": [], "plain": []}
    for one in run.ledger.by_message():
        kind = kind_of(one.reveals, one.kind)
        if kind in learnt and not one.reveals.startswith("nothing"):
            learnt[kind].append(_sentence(one.reveals))
    body = []
    if learnt["plain"]:
        body += ["<h3>The coordinator read, as it is</h3>", markup.items(dict.fromkeys(learnt["plain"]))]
    else:
        body.append(markup.paragraph("The coordinator read nothing but sums over all sites."))
    if learnt["masked"]:
        body += [
            "<h3>It learnt of all sites together, from masked sums</h3>",
            markup.items(dict.fromkeys(learnt["masked"])),
        ]
    body += [_promise(run), _corners(run)]
    body.append(
        markup.paragraph(
            "The masks hold against a coordinator that lies and against sites that are curious, as long as fewer "
            "collude than the policies allow for; a site that lies about its own rows is not found out. The joint "
            "model itself goes to everybody, and a model remembers some of its rows. SECURITY.md says what is "
            "protected against whom.",
            "dim",
        )
    )
    return markup.section("privacy", "What an attacker would have", *body)


def _sentence(reveals: str) -> str:
    """Write what a masked sum reveals without saying each time that it is one."""
    return reveals.removeprefix("masked; ").removeprefix("with all others: ")


def spent(run: RunFiles) -> dict[str, Any]:
    """Return the differential privacy that the run promised: epsilon, delta and whose; nothing where none was."""
    whole = run.parameters.get("privacy")
    if isinstance(whole, dict) and whole.get("epsilon") is not None:
        return {"epsilon": whole["epsilon"], "delta": whole.get("delta", 0.0), "unit": whole.get("unit", "row")}
    if run.parameters.get("epsilon") is not None and run.parameters.get("delta") is not None:
        return {"epsilon": run.parameters["epsilon"], "delta": run.parameters["delta"], "unit": "description"}
    return {}


def _promise(run: RunFiles) -> str:
    found = spent(run)
    if not found:
        return "<h3>Noise</h3>" + markup.paragraph(
            "None was added: this run promises no differential privacy (ε is unbounded). What protects rows is that "
            "only sums and shapes leave."
        )
    size = f"ε = {found['epsilon']:g} at δ = {found['delta']:g}"
    if found["unit"] == "description":
        said = f"The description of each site's rows has noise: {size}. What is trained is not covered by that."
    else:
        said = f"Spent in this run: {size}, for any one {found['unit']}. Runs over the same rows add up."
    return "<h3>Noise</h3>" + markup.paragraph(said)


def _corners(run: RunFiles) -> str:
    """Say how many rows of each class became corners, which are rows rounded to a grid."""
    a = run.artifacts
    if "hull_points" not in a:
        return ""
    counts = np.bincount(a["group_of_hull"][a["hull_of_point"]])
    trained = [one.trained for one in run.evaluation.by_class] if run.evaluation else []
    names = run.class_names()
    rows = []
    for group, count in enumerate(counts.tolist()):
        learnt = trained[group] if group < len(trained) else None
        share = f"{count / learnt:.1%}" if learnt else "–"
        rows.append([names.get(group, f"class {group}"), f"{count:,}", f"{learnt:,}" if learnt else "–", share])
    grid = run.parameters.get("epsilon")
    said = (
        f"A corner is a real row, rounded to a grid of width {grid}."
        if grid
        else "A corner is a real row, rounded."
    )
    where = f"at {run.home}" if run.home else "at all sites"
    head = ["class", f"corners {where}", "rows learnt from", "share of rows that are corners"]
    return (
        "<h3>Corners</h3>" + markup.paragraph(said) + to_html(ReportTable("Corners", head, rows, right=(1, 2, 3)))
    )
