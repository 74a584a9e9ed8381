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
