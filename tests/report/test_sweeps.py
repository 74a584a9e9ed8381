"""The tables of a sweep."""

from __future__ import annotations

from fedgeom.evaluation.benchmark import Entry, Sweep, Tried
from fedgeom.report.tables import sweep_page, sweep_tables, tried_table
from tests.evaluation.test_contest import contest
from tests.report.printing import printed


def swept() -> Sweep:
    low, high = contest({"[red]a": [700, 900]}).entries
    failed = Entry(method="b", seed=0, failure="gone")
    tried = [
        Tried(row="[red]a", number=0, entry=low),
        Tried(row="[red]a", number=1, entry=high, chosen=True),
        Tried(row="b", number=0, entry=failed),
    ]
    settings = {"[red]a": [{"rate": 0.1}, {"optimizer": {"name": "sgd", "momentum": 0.9}}], "b": [{}]}
    return Sweep(share=0.25, settings=settings, tried=tried, tested=[high, failed])


def test_what_was_tried_and_what_came_of_it():
    flat = " ".join(printed(sweep_tables(swept())).split())
    for piece in (
        "[red]a rate = 0.1 0.700 0.700 0.700 0 of 2",
        "optimizer = sgd (momentum = 0.9) 0.900 0.900 0.900 1 of 2",
        "b as they are failed 0 of 2",
        "Take [red]a",
        "b: gone",
    ):
        assert piece in flat
    assert "0.700" in printed(tried_table(swept()))


def test_the_page_has_the_same_and_needs_nothing_else():
    page = sweep_page(swept(), "My <study>")
    assert "My &lt;study&gt;" in page
    assert "Take [red]a" in page
    assert "http" not in page.replace("http-equiv", "").replace("http://www.w3.org", "")
