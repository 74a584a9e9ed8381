"""Which setting is best."""

from __future__ import annotations

from fedgeom.evaluation.benchmark import Entry, Sweep, Tried, best, figure
from tests.evaluation.test_contest import contest


def entries(*right: int) -> list[Entry]:
    return contest({"a": list(right)}).entries


def test_the_first_of_the_best_and_none_where_all_failed():
    failed = Entry(method="a", seed=0, failure="gone")
    some = entries(700, 900, 900)
    assert best(some, "accuracy") == 1
    assert best([failed, *some], "accuracy") == 2
    assert best([failed], "accuracy") is None
    assert figure(failed, "accuracy") is None


def test_figures_by_setting_and_lines():
    low, high = entries(700, 900)
    tried = [Tried(row="a", number=0, entry=low), Tried(row="a", number=1, entry=high, chosen=True)]
    swept = Sweep(
        share=0.25, by="accuracy", settings={"a": [{"rate": 1}, {"rate": 2}]}, tried=tried, tested=[high]
    )
    assert swept.judged("a", 0) == [figure(low, "accuracy")]
    assert [swept.times_chosen("a", at) for at in (0, 1)] == [0, 1]
    assert {(line[0], line[2], line[3], line[-1]) for line in swept.lines()} == {
        ("choosing", 0, '{"rate":1}', False),
        ("choosing", 1, '{"rate":2}', True),
        ("tested", 1, '{"rate":2}', True),
    }
    assert len(swept.frame()) == len(swept.lines())
    assert swept.contest.entries == [high]
