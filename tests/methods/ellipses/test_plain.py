"""A run of Ellipses is what all tables in one place give, and masks make no difference."""

from __future__ import annotations

from typing import Any

import pytest

import fedgeom
from fedgeom.testing import example_sites
from tests.methods.ellipses.making import at_depth, own_words
from tests.methods.ellipses.pooled import pooled
from tests.methods.laws import assert_run_is


@pytest.mark.parametrize(
    "settings",
    [
        {"n_classes": 4},
        {"n_classes": 4, "rule": "linear", "scale": "none", "shrinkage": 2.0},
        {"n_classes": 4, "n_components": 2, "scale": "site"},
        {"n_classes": 4, "rows_per_column": 30.0},
    ],
    ids=str,
)
def test_own_words_are_matched_as_in_one_place(settings: dict[str, Any]) -> None:
    method = fedgeom.Ellipses(**settings)
    run = assert_run_is(pooled, method, own_words(), seed=3)
    for name, local in pooled(method, own_words(), 3).local.items():
        assert {key: run.local[name][key] for key in local} == local


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"names": "shared"},
        {"names": "shared", "classes": ("right", "left")},
        {"n_classes": 2, "space": "ball", "rule": "linear"},
        {"n_classes": 2, "space": "ball", "curvature": 0.5},
    ],
    ids=str,
)
def test_shared_words_and_the_ball_are_as_in_one_place(settings: dict[str, Any]) -> None:
    assert_run_is(pooled, fedgeom.Ellipses(**settings), example_sites(), seed=1)


def test_words_at_different_depth_have_the_same_names_covers_and_tree() -> None:
    method = fedgeom.Ellipses(n_classes=4, depth="mixed")
    found, run = pooled(method, at_depth(), 3), fedgeom.run(method, at_depth(), seed=3)
    for name, local in found.local.items():
        assert {key: run.local[name][key] for key in local} == local
    assert found.model.to_bytes() == run.model.to_bytes()


def test_the_order_of_sites_and_masks_make_no_difference() -> None:
    method = fedgeom.Ellipses(n_classes=4, depth="mixed")
    run, first, other = (
        fedgeom.run(method, at_depth(), seed=3),
        *(method.plain(some, 3) for some in (at_depth(), at_depth()[::-1])),
    )
    assert run.model.to_bytes() == first.model.to_bytes() == other.model.to_bytes()
    assert run.local == first.local == other.local
