"""The figures of a run."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from fedgeom.errors import InputError
from fedgeom.evaluation.evaluation import (
    FILE,
    Evaluation,
    evaluate,
    majority,
    read_evaluation,
    score_rows,
    with_score,
)
from fedgeom.geometry.graphs.class_tree import ClassTree
from fedgeom.protocols.evaluation import Counts, Tally
from tests.evaluation.counting import counts, figures, tally


def test_the_majority_is_that_of_the_rows_learnt_from():
    found = majority(counts())
    assert found.right == 12
    assert found.confusion.tolist() == [[12, 0, 0], [8, 0, 0], [0, 0, 0]]
    score = figures()["majority"]
    assert score.accuracy.value == 0.6
    assert score.balanced_accuracy.value == 0.5
    assert score.auc is None


def test_all_models_that_were_tested_are_scored():
    found = figures()
    assert [one.model for one in found.scores] == ["majority", "local", "own"]
    assert "joint" not in found
    with pytest.raises(KeyError, match="'joint' was not scored; there are majority, local, own"):
        found["joint"]
    more = with_score(found, "pooled", tally([[12, 0, 0], [0, 8, 0], [0, 0, 0]]))
    assert more["pooled"].accuracy.value == 1.0
    head, rows = score_rows(more)
    assert head == ["model", "accuracy", "balanced accuracy", "macro-F1", "AUC"]
    assert [row[0] for row in rows] == ["majority class", "each site alone", "federated", "pooled rows"]
    assert rows[0][4] == "–"


def test_classes_by_hand():
    no, yes = figures().by_class
    assert (no.name, no.trained, no.tested, no.recall, no.precision) == ("no", 36, 12, 9 / 12, 9 / 11)
    assert (yes.tested, yes.f1) == (8, 10 / 16)
    blank = evaluate(counts(), ["no", "yes"])
    assert blank.confusion == [[9, 3, 0], [2, 5, 1], [0, 0, 0]]


def test_a_figure_of_few_rows_is_not_there_and_no_site_vanishes():
    north, west, south = figures().by_site
    assert north.accuracy == {"own": 0.7, "local": 0.5}
    assert (west.tested, west.accuracy) == (3, {})
    assert (south.tested, south.accuracy) == (0, {})


def test_for_notebooks():
    found = figures()
    assert "20 rows of 2 sites" in repr(found)
    assert "federated 0.700" in repr(found)
    assert "<td>majority class</td>" in found._repr_html_()
    frame = found.frame()
    assert frame[(frame.model == "own") & (frame.metric == "accuracy")].value.item() == 0.7
    assert found.class_frame().tested.tolist() == [12, 8]
    sites = found.site_frame()
    assert sites[sites.site == "North"].accuracy.tolist() == [0.7, 0.5]
    assert np.isnan(sites[sites.site == "West"].accuracy.item())


def test_it_comes_back_from_its_file(tmp_path):
    assert read_evaluation(tmp_path) is None
    (tmp_path / FILE).write_bytes(msgspec.json.encode(figures()))
    assert read_evaluation(tmp_path) == figures()
    assert msgspec.json.decode(msgspec.json.encode(figures()), type=Evaluation) == figures()


def test_the_tree_error_is_that_of_the_confusion_matrix():
    found = figures()
    assert found.classes == ["no", "yes"]
    # 9 and 5 of 19 answers are right; the other 5 are two edges away, or three in a deeper tree.
    assert found.tree_error({"no": "all", "yes": "all"}) == (10 / 19, 2.0)
    deeper = ClassTree.read({"all": {"some": ["yes", "maybe"], "no": {}}}, ["yes", "no", "maybe"])
    assert found.tree_error(deeper) == (15 / 19, 3.0)
    with pytest.raises(InputError, match="'no' is no class of the tree"):
        found.tree_error(ClassTree.read({"yes": "all", "maybe": "all"}))


def verdict_of(own, alone, **pooled):
    """Return the verdict on counts of right rows out of 400, 240 of them of the first class."""

    def of(first, second):
        return tally([[first, 240 - first, 0], [160 - second, second, 0], [0, 0, 0]])

    models = {"own": of(*own), "joint": Tally.blank(2), "local": of(*alone)}
    made = evaluate(Counts(3, np.array([700, 500, 0]), models), ["no", "yes"])
    for name, right in pooled.items():
        made = with_score(made, name, of(*right))
    return made


@pytest.mark.parametrize(
    ("own", "alone", "pooled", "said", "beats"),
    [
        ((220, 140), (170, 100), (222, 140), ["better than always naming the majority class (0.600)"], True),
        ((220, 140), (170, 100), (222, 140), ["better than each site alone (0.675) and as good as pooled"], True),
        ((170, 100), (220, 140), (238, 158), ["worse than each site alone (0.900)", "try a personal model"], True),
        (
            (220, 140),
            (220, 138),
            (238, 158),
            ["not clearly better than each site alone", "worse than pooled"],
            True,
        ),
        ((190, 40), (170, 100), (222, 140), ["no better than always naming the majority", "Do not use it"], False),
        ((100, 60), (170, 100), (222, 140), ["worse than always naming the majority", "Do not use it"], False),
        (
            (95, 150),
            (170, 100),
            (222, 140),
            ["no better than", "It tells classes apart better than chance"],
            False,
        ),
        ((240, 0), (170, 100), (222, 140), ["no better than", "Do not use it"], False),
    ],
)
def test_the_verdict_follows_from_the_intervals(own, alone, pooled, said, beats):
    found = verdict_of(own, alone, pooled=pooled)
    assert found.verdict.startswith("On 400 test rows the federated model has accuracy 0.")
    for one in said:
        assert one in found.verdict
    assert found.beats_majority is beats
    assert found.verdict in repr(found)


def test_few_rows_and_classes_that_are_never_found_are_told():
    assert "So few test rows leave much open" in perfect(20).verdict
    lost = Tally(190, np.array([[100, 0, 0, 0], [0, 90, 0, 0], [10, 0, 0, 0], [0, 0, 0, 0]]), None)
    models = {"own": lost, "joint": Tally.blank(3), "local": Tally.blank(3)}
    made = evaluate(Counts(2, np.array([300, 270, 30, 0]), models), ["a", "b", "rare"])
    assert "It never finds rare (0 of 10)" in made.verdict
    assert "each site alone" not in made.verdict


def perfect(rows):
    """Return figures of few rows: nearly all are right, and both classes are there."""
    half = rows // 2
    own = tally([[half - 1, 1, 0], [1, half - 1, 0], [0, 0, 0]])
    models = {"own": own, "joint": Tally.blank(2), "local": Tally.blank(2)}
    return evaluate(Counts(2, np.array([30, 30, 0]), models), ["no", "yes"])
