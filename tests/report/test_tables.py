"""The tables that are shown."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from fedgeom.data.validation import SiteSummary
from fedgeom.errors import InputError
from fedgeom.evaluation.benchmark import MethodResult, Sweep
from fedgeom.evaluation.evaluation import evaluate
from fedgeom.federation.ledger import Ledger
from fedgeom.federation.ledger import LedgerEntry as Message
from fedgeom.protocols.evaluation import Counts, Tally
from fedgeom.report import tables
from fedgeom.report.label_names import read_naming
from tests.evaluation.counting import figures
from tests.evaluation.test_benchmark import comparison
from tests.report.printing import printed


def test_fifty_rounds_are_not_fifty_rows():
    entries = [
        Message(step=i, site=s, kind="sum", bytes=500, received=1, reveals="r") for i in range(50) for s in "ab"
    ]
    assert tables.ledger_table(Ledger(entries)).texts == [["0 … 49", "sum", "50", "2", "500 B", "r"]]


@pytest.mark.parametrize("sites", [6, 18])
def test_the_names_of_many_sites_are_whole(sites):
    """With a column for each of 18 sites, words were broken into pieces of a few letters."""
    words = ("CD14-positive monocyte", "natural killer cell")
    local = {
        f"Hospital {i}": {"names": {w if i else w.upper(): g for g, w in enumerate(words)}} for i in range(sites)
    }
    table = tables.naming_table(read_naming(local))
    if sites == 6:
        assert table.head[2:] == list(local)
        return
    assert table.head == ["class", "called", "by the sites"]
    assert table.texts[0] == [
        "0",
        words[0],
        "CD14-positive monocyte (17 sites); CD14-POSITIVE MONOCYTE (Hospital 0)",
    ]
    assert "NATURAL KILLER CELL (Hospital 0)" in printed(table, width=120)


def test_a_wrong_name_of_many_is_still_seen():
    local = {f"H{i}": {"names": {"ill": 0, "well": 1}} for i in range(8)}
    local["H8"] = {"names": {"ill": 1, "well": 0}}
    truth = {site: {"ill": "ill", "well": "well"} for site in local}
    cell = tables.naming_table(read_naming(local, truth)).rows[0][2]
    assert cell.text == "ill (8 sites); ✗ well (H8)"
    assert cell.style == "bad"


def test_ledger(case):
    ledger = case.run.ledger
    text = printed(tables.ledger_table(ledger))
    assert "quantised hulls of all sites' classes, not whose" in text
    assert "What left West" in printed(tables.ledger_table(ledger, "West"))
    assert "West" in printed(tables.traffic_table(ledger))
    assert sum(entry.bytes for entry in tables.of_site(ledger, "West")) == ledger.sent("West")
    with pytest.raises(InputError, match="no message of a site 'Wset' is in the ledger; it has East"):
        tables.of_site(ledger, "Wset")


def test_how_well_a_model_does():
    text = printed(*tables.evaluation_tables(figures()))
    for piece in (
        "20 rows that 2 sites kept aside",
        "majority class",
        "0.700 [0.481, 0.855]",
        "learnt from",
        "North",
    ):
        assert piece in text
    assert "1 site with fewer than 10 test rows not shown; without test rows: South" in " ".join(text.split())
    assert "West" not in text


def test_without_single_sites_there_is_no_table_of_them():
    bare = msgspec.structs.replace(figures(), by_site=[])
    assert "site by site" not in printed(*tables.evaluation_tables(bare))
    assert "without test rows" not in " ".join(tables.evaluation_notes(bare))


def test_of_many_classes_the_worst_are_shown():
    size = tables.MOST_CLASSES + 5
    confusion = np.zeros((size + 1, size + 1), np.int64)
    np.fill_diagonal(confusion[:size, :size], 10)
    confusion[3, 4] = 10
    confusion[7] = 0
    own = Tally(int(np.trace(confusion)), confusion, None)
    blank = Tally.blank(size)
    found = evaluate(
        Counts(1, np.ones(size + 1, np.int64), {"own": own, "joint": blank, "local": blank}),
        [f"c{at}" for at in range(size)],
    )
    rows = tables.class_table(found).texts
    assert len(rows) == tables.MOST_CLASSES
    assert "c3" in [row[0] for row in rows]
    said = "; ".join(tables.evaluation_notes(found))
    assert "classes without test rows: c7" in said
    assert f"of {size} classes" in said


def test_how_exact_the_auc_is_where_it_matters():
    one = msgspec.structs.replace(figures()["own"], auc_error=0.012)
    found = msgspec.structs.replace(figures(), scores=[one])
    assert "AUC is from a histogram: 0.012 off at most" in tables.evaluation_notes(found)


def test_what_was_not_scored_and_what_intervals_are_of_is_said():
    found = msgspec.structs.replace(figures(), groups=36, unscored={"joint": "there is none"})
    found = msgspec.structs.replace(found, scores=[msgspec.structs.replace(figures()["own"], model="matched")])
    said = tables.evaluation_notes(found)
    assert "intervals take the 36 groups of test rows as drawn one by one, not the rows" in said
    assert "federated, joint model not scored: there is none" in said
    assert any(one.startswith("pooled rows, names as matched: trained on all rows") for one in said)


def test_a_comparison_has_rivals_methods_failures_and_a_word():
    found = comparison({"a": [900], "b": [700]})
    failed = [*found.entries, MethodResult(row="[red]c", seed=0, failure="gone\nfor good " + "x" * 400)]
    flat = " ".join(printed(*tables.sweep_tables(msgspec.structs.replace(found, entries=failed))).split())
    for piece in (
        "majority class",
        "each site alone",
        "25% kept aside, 1 seed",
        "Take a:",
        "[red]c: gone for good",
    ):
        assert piece in flat
    assert "from the best" not in flat
    assert "What was tried" not in flat
    assert "x" * 301 not in flat.replace(" ", "")


def test_differences_with_several_seeds():
    found = comparison({"a": [900, 910], "b": [880, 885]})
    flat = " ".join(printed(tables.comparison_table(found)).split())
    assert "from the best" in flat
    assert "2 seeds" in flat
    assert "-0.022" in flat or "-0.023" in flat


def swept() -> Sweep:
    low, high = comparison({"[red]a": [700, 900]}).entries
    failed = MethodResult(row="b", seed=0, failure="gone")
    tried = [
        msgspec.structs.replace(low, stage="choosing"),
        msgspec.structs.replace(high, stage="choosing", setting=1, chosen=True),
        msgspec.structs.replace(failed, stage="choosing"),
    ]
    settings = {"[red]a": [{"learning_rate": 0.1}, {"optimizer": {"name": "sgd", "momentum": 0.9}}], "b": [{}]}
    return Sweep(share=0.25, settings=settings, entries=[*tried, high, failed])


def test_a_sweep_says_what_was_tried_and_what_came_of_it():
    flat = " ".join(printed(*tables.sweep_tables(swept())).split())
    for piece in (
        "[red]a learning_rate = 0.1 0.700 0.700 0.700 0 of 2",
        "optimizer = sgd (momentum = 0.9) 0.900 0.900 0.900 1 of 2",
        "b as they are failed 0 of 2",
        "Take [red]a",
        "b: gone",
    ):
        assert piece in flat


def test_the_page_of_a_sweep_has_the_same_and_needs_nothing_else():
    page = tables.sweep_page(swept(), "My <study>")
    assert "My &lt;study&gt;" in page
    assert "Take [red]a" in page
    assert "optimizer = sgd (momentum = 0.9)" in page
    assert "http" not in page.replace("http-equiv", "").replace("http://www.w3.org", "")


def test_what_sites_have():
    ulm = SiteSummary("ulm", 1200, 3, {"a": 700, "b": 500}, 0, 0)
    bonn = SiteSummary("bonn", 80, 4, {f"c{at}": 10 + at for at in range(8)}, 2, 7)
    both = tables.sites_table([ulm, bonn])
    assert both.head == ["site", "rows", "columns", "no label", "gaps", "classes"]
    assert both.texts[0] == ["ulm", "1,200", "3", "", "", "2: a 700, b 500"]
    assert both.texts[1][-1] == "8: c7 17, c6 16, c5 15, c4 14, c3 13, c2 12 and 2 more"
    assert both.texts[2][:5] == ["all", "1,280", "differ", "2", "7"]
    assert tables.sites_table([ulm]).head == ["site", "rows", "columns", "classes"]
