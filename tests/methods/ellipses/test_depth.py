"""Words at different depth: unions are recognised, lacking classes are not taken for them, trees fit."""

from __future__ import annotations

import numpy as np

from fedgeom.geometry.gaussians import Gaussians
from fedgeom.methods.ellipses.matching import calls, find_coarse, joint_tree, settle
from tests.methods.ellipses.making import cloud


def gaussians(*parts: np.ndarray) -> Gaussians:
    return Gaussians(
        np.array([float(len(rows)) for rows in parts]),
        np.array([rows.mean(axis=0) for rows in parts]),
        np.array([np.cov(rows.T, bias=True) for rows in parts]),
    )


def test_a_union_is_coarse_and_what_a_site_lacks_makes_nothing_coarse() -> None:
    fine = [cloud(0, at) for at in range(4)]
    union = np.vstack([cloud(1, 2), cloud(1, 3)])
    some = gaussians(*fine, cloud(1, 0), cloud(1, 1), union, cloud(2, 0), cloud(2, 1), cloud(2, 2))
    owners = np.array([0, 0, 0, 0, 1, 1, 1, 2, 2, 2])  # the third site lacks a class
    found = find_coarse(some, owners, np.random.default_rng(0))
    assert np.flatnonzero(found).tolist() == [6]


def test_words_without_anybody_who_splits_them_are_fine() -> None:
    union = [np.vstack([cloud(at, 2), cloud(at, 3)]) for at in range(2)]
    some = gaussians(cloud(0, 0), union[0], cloud(1, 0), union[1])
    assert not find_coarse(some, np.array([0, 0, 1, 1]), np.random.default_rng(0)).any()


def test_calls_are_shares_of_points() -> None:
    some = gaussians(cloud(0, 0), cloud(0, 3))
    found = calls(some, some, np.random.default_rng(0))
    assert np.allclose(found.sum(axis=1), 1)
    assert np.diag(found).min() > 0.95


def test_a_site_settles_what_its_words_cover() -> None:
    called = np.array([0, 0, 1, 1, 1, 2, 2])
    rows = ["a", "T", "T", "T", "a", "T", "T"]
    assert settle(called, ["a", "T"], rows, {"a": 0}, 4) == {"a": [0], "T": [1, 2]}  # nobody is called 3
    assert settle(called, ["a", "T"], rows, {"a": 0, "T": 1}, 4) == {"a": [0], "T": [1]}


def test_the_tree_keeps_what_most_have_and_what_fits_into_it() -> None:
    low, high, every = frozenset({0, 1}), frozenset({2, 3}), frozenset({0, 1, 2, 3})
    crossing = frozenset({1, 2})
    assert joint_tree([low, low, high, every, crossing, frozenset({0})]) == [(0, 1, 2, 3), (0, 1), (2, 3)]
    assert joint_tree([]) == []
