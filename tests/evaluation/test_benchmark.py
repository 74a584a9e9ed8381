"""Several methods and settings beside each other: by hand."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from scipy.stats import t

from fedgeom.evaluation.benchmark import MethodResult, Sweep, best, method_rows, recommendation, rival_rows
from fedgeom.evaluation.evaluation import Evaluation, evaluate
from fedgeom.protocols.evaluation import Counts, Tally


def figures(right: int, rows: int = 1000, alone: int = 500) -> Evaluation:
    """Return the figures of a model that is right on so many of the rows of each of two classes."""

    def tally(hits: int) -> Tally:
        table = np.array([[hits, rows - hits, 0], [rows - hits, hits, 0], [0, 0, 0]])
        return Tally(2 * hits, table, None)

    models = {"own": tally(right), "joint": Tally.blank(3), "local": tally(alone)}
    return evaluate(Counts(3, np.array([rows, rows, 0]), models), ["no", "yes"])


def comparison(found: dict[str, list[int]], **options: int) -> Sweep:
    entries = [
        MethodResult(row=name, seed=seed, evaluation=figures(right, **options), sent=100 * (at + 1), seconds=1.0)
        for at, (name, values) in enumerate(found.items())
        for seed, right in enumerate(values)
    ]
    return Sweep(share=0.25, entries=entries)


def test_the_best_is_first_and_failures_are_last_with_their_reason():
    found = comparison({"a": [700], "b": [900]})
    failed = [*found.entries, MethodResult(row="c", seed=0, failure="no such luck")]
    rows = method_rows(msgspec.structs.replace(found, entries=failed))
    assert [(row.name, row.failure) for row in rows] == [("b", ""), ("a", ""), ("c", "no such luck")]
    assert rows[0].figures["balanced_accuracy"].value == 0.9
    assert [row.worse for row in rows] == [False, True, False]
    assert rows[1].difference is None  # one seed
    assert [row.name for row in rival_rows(found)] == ["majority", "local"]
    assert rival_rows(found)[0].figures["accuracy"].value == 0.5


def test_differences_are_paired_and_corrected_for_splits_that_share_rows():
    found = comparison({"a": [900, 920, 880], "b": [890, 915, 860]})
    gaps = np.array([-0.010, -0.005, -0.020])
    row = method_rows(found)[1]
    half = t.ppf(0.975, 2) * gaps.std(ddof=1) * np.sqrt(1 / 3 + 0.25 / 0.75)
    assert row.difference.value == pytest.approx(gaps.mean())
    assert row.difference.high == pytest.approx(gaps.mean() + half)
    assert not row.worse
    steady = comparison({"a": [900, 920, 880], "b": [850, 871, 829]})
    assert method_rows(steady)[1].worse
    assert method_rows(found)[0].figures["accuracy"].value == pytest.approx(0.9)
    assert found.seeds == [0, 1, 2]


def test_the_best_is_recommended_with_those_that_are_not_clearly_worse():
    said = recommendation(comparison({"a": [900], "b": [895], "c": [893], "d": [700]}))
    assert said.startswith(
        "Take a: its balanced accuracy, 0.900, is the best of 4; b and c are not clearly worse. Chosen among 4 on "
        "2,000 test rows, it is partly lucky: allowing for that, its figure lies between 0.88"
    )
    many = recommendation(comparison({name: [900] for name in "abcdefgh"}))
    assert "b, c, d, e and 3 more are not clearly worse: more seeds or rows might tell them apart." in many
    assert "b is not clearly worse." in recommendation(comparison({"a": [900], "b": [895]}))


def test_the_best_of_many_is_qualified():
    """The best of 28 on 38 rows was recommended as if it had been the only one."""
    two = recommendation(comparison({"a": [17], "b": [13]}, rows=19, alone=9))
    assert "Chosen among 2 on 38 test rows" in two
    many = comparison({f"m{at}": [17 - at % 9] for at in range(28)}, rows=19, alone=9)
    low = float(recommendation(many).partition("between ")[2][:5])
    assert low < float(two.partition("between ")[2][:5]) - 0.03
    assert sum(row.worse for row in method_rows(many)) < sum(
        row.figures["balanced_accuracy"].high < method_rows(many)[0].figures["balanced_accuracy"].low
        for row in method_rows(many)
    )
    assert "Chosen among" not in recommendation(comparison({"a": [900]}))


def sending(found: Sweep, **sent: int) -> Sweep:
    """Return a comparison whose rows send so many bytes."""
    entries = [msgspec.structs.replace(one, sent=sent[one.row]) for one in found.entries]
    return msgspec.structs.replace(found, entries=entries)


def test_bytes_decide_between_equals_only_and_where_they_are_many():
    near = comparison({"lean": [897], "rich": [900]})
    said = recommendation(sending(near, lean=10**6, rich=4 * 10**6))
    assert said.startswith(
        "Take lean: its balanced accuracy, 0.897, is that of the best (rich, 0.900) but for 0.005, and it sends 25% of "
        "what that sends; rich is not clearly worse."
    )
    assert recommendation(sending(near, lean=3 * 10**6, rich=4 * 10**6)).startswith("Take rich")
    assert recommendation(sending(near, lean=100, rich=900)).startswith("Take rich")  # both are tiny
    worse = comparison({"lean": [890], "rich": [900]})
    assert recommendation(sending(worse, lean=10**6, rich=10**9)).startswith("Take rich")


def test_what_does_not_need_a_federation_is_said_once():
    said = recommendation(comparison({"a": [900]}, alone=910))
    assert "is all there is to go by" in said
    assert "each site alone is better (0.910)" in said
    assert "nearly as good (0.895)" in recommendation(comparison({"a": [900]}, alone=895))
    poor = recommendation(comparison({"a": [505]}, alone=510))
    assert "no better than always naming the majority class, which is right as often (0.500)" in poor
    assert "each site alone" not in poor
    assert "But" not in poor


def test_it_is_said_who_was_tested_on_fewer_rows():
    a, b = comparison({"a": [900], "b": [800]}).entries
    short = msgspec.structs.replace(b, evaluation=figures(800, rows=990))
    said = recommendation(Sweep(share=0.25, entries=[a, short]))
    assert "on 1,980 to 2,000 test rows" in said
    assert said.endswith("Not on all of these rows: b.")


def test_sites_that_train_for_themselves_are_not_what_is_recommended():
    found = comparison({"local": [950], "a": [900]})
    entries = [msgspec.structs.replace(one, alone=one.row == "local") for one in found.entries]
    found = msgspec.structs.replace(found, entries=entries)
    assert recommendation(found).startswith("Take a: ")
    assert method_rows(found)[0].name == "local"


def test_nothing_came_through():
    assert recommendation(Sweep(share=0.25, entries=[MethodResult(row="a", seed=0, failure="x")])).startswith("No")


def test_for_notebooks():
    frame = comparison({"a": [900, 910]}).frame()
    own = frame[(frame.model == "own") & (frame.metric == "accuracy")]
    assert own.value.tolist() == [0.9, 0.91]
    assert own.seed.tolist() == [0, 1]


def entries(*right: int) -> list[MethodResult]:
    return comparison({"a": list(right)}).entries


def test_the_first_of_the_best_and_none_where_all_failed():
    failed = MethodResult(row="a", seed=0, failure="gone")
    some = entries(700, 900, 900)
    assert best(some, "accuracy") == 1
    assert best([failed, *some], "accuracy") == 2
    assert best([failed], "accuracy") is None
    assert failed.figure("accuracy") is None


def test_figures_by_setting_and_lines():
    low, high = (
        msgspec.structs.replace(one, seed=0, stage="choosing", setting=at, chosen=at == 1)
        for at, one in enumerate(entries(700, 900))
    )
    tested = msgspec.structs.replace(high, stage="tested")
    settings = {"a": [{"learning_rate": 1}, {"learning_rate": 2}]}
    swept = Sweep(share=0.25, by="accuracy", settings=settings, entries=[low, high, tested])
    assert (swept.tried, swept.tested) == ([low, high], [tested])
    assert (low.title, high.title, tested.title) == ("a, setting 1", "a, setting 2", "a")
    assert [swept.with_setting("a", at) for at in (0, 1)] == [[low], [high]]
    assert {(line[0], line[2], line[3], line[-1]) for line in swept.lines()} == {
        ("choosing", 0, '{"learning_rate":1}', False),
        ("choosing", 1, '{"learning_rate":2}', True),
        ("tested", 1, '{"learning_rate":2}', True),
    }
    assert len(swept.frame()) == len(swept.lines())
    assert [row.figures["accuracy"].value for row in method_rows(swept)] == [0.9]  # by the test rows alone
