"""What left the sites, for the page: a bar of kinds, and every message on demand."""

from __future__ import annotations

from collections import Counter

from fedgeom.federation.ledger import Ledger
from fedgeom.report import markup
from fedgeom.report.tables import LEDGER, ledger_rows, site_rows, size

KINDS = {
    "masked": "masked sums: only with all others do they say anything",
    "sealed": "sealed for other sites, keys and shares of keys",
    "plain": "read by the coordinator",
    "receipts": "receipts and signatures",
}
"""What a message is to the coordinator."""


def kind_of(reveals: str, kind: str) -> str:
    """Say which of `KINDS` a message is, from what it reveals.

    >>> kind_of("nothing: a receipt", "hulls.learnt"), kind_of("masked; with all others: a sum", "sum.masked")
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
        markup.details("Message by message", markup.table(LEDGER, ledger_rows(ledger), numbers=(0, 2, 3, 4))),
        ""
        if home
        else markup.details(
            "Site by site",
            markup.table(["site", "messages", "sent", "received"], site_rows(ledger), numbers=(1, 2, 3)),
        ),
    )
