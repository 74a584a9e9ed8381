"""The head of prototypes: where they lie, and that it follows from the settings alone."""

from __future__ import annotations

import numpy as np
import pytest

from fedgeom.errors import InputError
from fedgeom.geometry.hyperbolic import poincare, prototypes
from fedgeom.methods.iterative.heads import Head, Poincare, tree_lines

TREE = {"CD4": "T", "CD8": "T", "T": "blood", "B": "blood"}
LINES = ("B < blood", "T < blood", "CD4 < T", "CD8 < T")


def test_prototypes_lie_at_the_slope_and_as_far_apart_as_can_be():
    points = Poincare(slope=0.8).points(20, 10)
    np.testing.assert_allclose(np.linalg.norm(points, axis=1), 0.8)
    assert prototypes.largest_cosine(points / 0.8) == pytest.approx(-1 / 9)


@pytest.mark.parametrize("placing", ["tammes", "published", "random"])
def test_the_same_settings_give_the_same_prototypes(placing):
    head = Poincare(placing=placing, seed=3)
    again = Head.read(head.plain(), "head")
    assert again == head
    np.testing.assert_array_equal(head.points(3, 9), again.points(3, 9))
    if placing != "published":
        assert np.abs(head.points(3, 9) - Poincare(placing=placing, seed=4).points(3, 9)).max() > 1e-3


def test_what_is_returned_may_be_changed_without_harm():
    head = Poincare()
    head.points(3, 4)[:] = 0
    assert np.linalg.norm(head.points(3, 4), axis=1).min() > 0.8


def test_a_tree_travels_as_lines_and_places_siblings_nearest():
    assert sorted(tree_lines(TREE)) == sorted(LINES)
    assert tree_lines({"blood": {"T": ["CD4", "CD8"], "B": {}}}) == tree_lines(TREE)
    assert tree_lines(LINES) == LINES
    head = Poincare(tree=tree_lines(TREE), classes=("B", "CD4", "CD8"))
    assert Head.read(head.plain(), "head") == head
    found = poincare.pairwise_distance(head.points(5, 3), head.points(5, 3))
    assert found[1, 2] < min(found[0, 1], found[0, 2])
    assert np.linalg.norm(head.points(5, 3), axis=1).max() == pytest.approx(0.9, abs=1e-6)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"slope": 0.0}, "slope"),
        ({"slope": 1.1}, "slope"),
        ({"tree": LINES}, "classes in order"),
        ({"tree": ("no tree",), "classes": ("a", "b")}, "lines"),
        ({"tree": LINES, "classes": ("B", "unheard of")}, "unheard of"),
        ({"tree": LINES, "classes": ("B", "CD4"), "slope": 1.0}, "slope=1"),
        ({"prototypes": "trained", "slope": 1.0}, "slope=1"),
        ({"placing": "anywhere"}, "placing"),
    ],
)
def test_what_cannot_be_is_refused(settings, says):
    with pytest.raises(InputError, match=says):
        Poincare(**settings)


def test_a_tree_of_other_classes_than_were_agreed_on_is_refused():
    with pytest.raises(InputError, match="agreed on 4"):
        Poincare(tree=LINES, classes=("B", "CD4", "CD8")).points(5, 4)
