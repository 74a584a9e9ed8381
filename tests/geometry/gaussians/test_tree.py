"""Gaussians that lie near each other share a branch."""

from __future__ import annotations

import numpy as np
import pytest

from fedgeom.errors import InputError
from fedgeom.geometry.gaussians import Gaussians, joined_tree
from fedgeom.geometry.graphs.class_tree import ClassTree


def on_a_line(*places: float) -> Gaussians:
    means = np.array(places)[:, None]
    return Gaussians(np.ones(len(places)), means, np.ones((len(places), 1, 1)))


def test_the_nearest_are_joined_first() -> None:
    tree = joined_tree(on_a_line(0.0, 1.0, 10.0, 12.0), ["a", "b", "c", "d"])
    assert tree == {
        "a": "group 1",
        "b": "group 1",
        "c": "group 2",
        "d": "group 2",
        "group 1": "all classes",
        "group 2": "all classes",
    }
    distances = ClassTree.read(tree, ["a", "b", "c", "d"]).distances()
    assert distances.tolist() == [[0, 2, 4, 4], [2, 0, 4, 4], [4, 4, 0, 2], [4, 4, 2, 0]]


def test_breadth_counts_as_well_as_place() -> None:
    found = Gaussians(np.ones(3), np.zeros((3, 1)), np.array([1.0, 1.1, 50.0])[:, None, None])
    assert joined_tree(found, ["x", "y", "broad"]) == {
        "x": "group 1",
        "y": "group 1",
        "group 1": "all classes",
        "broad": "all classes",
    }


def test_two_classes_hang_at_the_root() -> None:
    assert joined_tree(on_a_line(0.0, 5.0), ["x", "y"]) == {"x": "all classes", "y": "all classes"}


@pytest.mark.parametrize("names", [["x"], ["x", "x"], ["x", "y", "z"]])
def test_names_that_do_not_fit_are_refused(names: list[str]) -> None:
    with pytest.raises(InputError, match=r"names given for 2 classes; wanted two or more"):
        joined_tree(on_a_line(0.0, 5.0), names)
