"""Tables of how well a model does."""

from __future__ import annotations

import msgspec
import numpy as np

from fedgeom.evaluation.evaluation import evaluate
from fedgeom.protocols.evaluation import Counts, Tally
from fedgeom.report import tables
from tests.evaluation.counting import figures
from tests.report.printing import printed


def test_the_tables_of_the_terminal():
    text = printed(tables.evaluation_table(figures()))
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


def test_markup_in_names_is_text():
    odd = figures(site="[red]North")
    assert "[red]North" in printed(tables.evaluation_table(odd))


def test_without_single_sites_there_is_no_table_of_them():
    bare = msgspec.structs.replace(figures(), by_site=[])
    assert "site by site" not in printed(tables.evaluation_table(bare))
    assert "without test rows" not in " ".join(tables.notes(bare))


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
    _, rows = tables.class_rows(found)
    assert len(rows) == tables.MOST_CLASSES
    assert "c3" in [row[0] for row in rows]
    said = "; ".join(tables.notes(found))
    assert "classes without test rows: c7" in said
    assert f"of {size} classes" in said


def test_how_exact_the_auc_is_where_it_matters():
    one = msgspec.structs.replace(figures()["own"], auc_error=0.012)
    found = msgspec.structs.replace(figures(), scores=[one])
    assert "AUC is from a histogram: 0.012 off at most" in tables.notes(found)


def test_what_was_not_scored_and_what_intervals_are_of_is_said():
    found = msgspec.structs.replace(figures(), groups=36, unscored={"joint": "there is none"})
    found = msgspec.structs.replace(found, scores=[msgspec.structs.replace(figures()["own"], model="matched")])
    said = tables.notes(found)
    assert "intervals take the 36 groups of test rows as drawn one by one, not the rows" in said
    assert "federated, joint model not scored: there is none" in said
    assert any(one.startswith("pooled rows, names as matched: trained on all rows") for one in said)
