"""Grouping: Eq. 8, the constraint, invariance to order, missing classes, and scale."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fedgeom.errors import InputError
from fedgeom.geometry.hyperbolic.poincare import distance, exp0
from fedgeom.methods.hulls import matching
from fedgeom.methods.hulls.matching import (
    affinity_from_distances,
    group,
    group_constrained,
    group_kernighan_lin,
    hull_distances,
)

Floats = NDArray[np.float64]


def make(
    L: int, J: int, *, noise: float = 0.2, corners: int = 6, seed: int = 0, missing: float = 0.0
) -> tuple[list[Floats], NDArray[Any], NDArray[Any]]:
    """Hulls of J classes on a circle at L sites, their owners and their true classes."""
    rng = np.random.default_rng(seed)
    hulls, owners, truth = [], [], []
    for site, j in itertools.product(range(L), range(J)):
        if rng.random() < missing:
            continue
        angle = 2 * np.pi * j / J
        centre = np.array([np.cos(angle), np.sin(angle)])
        hulls.append(exp0(centre + noise * rng.normal(size=(int(rng.integers(2, corners + 1)), 2))))
        owners.append(site)
        truth.append(j)
    return hulls, np.array(owners), np.array(truth)


def same_partition(a: NDArray[Any], b: NDArray[Any]) -> bool:
    return bool(np.array_equal(a[:, None] == a[None], b[:, None] == b[None]))


def test_distances_are_equation_8(monkeypatch: pytest.MonkeyPatch) -> None:
    hulls, _, _ = make(3, 2)
    expected = np.array([[np.mean(distance(a[:, None], b[None])) for b in hulls] for a in hulls])
    np.fill_diagonal(expected, 0)
    np.testing.assert_allclose(hull_distances(hulls), expected)
    for block in (1, 30, 100):
        monkeypatch.setattr(matching, "BLOCK", block)
        np.testing.assert_allclose(hull_distances(hulls), expected)


def test_the_start_point_counts_twice_in_larger_hulls() -> None:
    hulls = [exp0(np.array([[1.0, 0], [0, 0.5], [-0.5, 0], [0, -0.5]])), exp0(np.array([[0.3, 0.3]]))]
    doubled = [np.vstack([hulls[0], hulls[0][:1]]), hulls[1]]
    np.testing.assert_allclose(hull_distances(hulls, duplicate_start=True), hull_distances(doubled))


def test_affinity_special_cases() -> None:
    point = np.array([[0.1, 0.2]])
    hulls = [point, point, np.array([[0.3, 0.2]]), np.array([[-0.5, 0.2]])]
    D = hull_distances(hulls)
    W = affinity_from_distances(D)
    assert W[0, 1] == pytest.approx(10 / D[D > 0].min())
    assert W[0, 3] == pytest.approx(1 / D[0, 3])
    np.testing.assert_array_equal(np.diag(W), 0)
    with_owners = affinity_from_distances(D, ["a", "b", "a", "b"])
    off = ~np.eye(4, dtype=bool)
    assert with_owners[0, 2] == pytest.approx(0.01 * W[off].min())
    assert with_owners[0, 3] == W[0, 3]
    np.testing.assert_allclose(affinity_from_distances(np.zeros((2, 2))), [[0, 1], [1, 0]])


@pytest.mark.parametrize("how", ["constrained", "spectral", "published"])
@pytest.mark.parametrize(("L", "J"), [(2, 2), (10, 2), (3, 5), (5, 8), (1, 4)])
def test_finds_well_separated_classes(how: Any, L: int, J: int) -> None:
    hulls, owners, truth = make(L, J, noise=0.1)
    assert same_partition(group(hulls, owners, J, how), truth)


@pytest.mark.parametrize("how", ["constrained", "spectral", "kernighan-lin", "published"])
def test_the_order_of_hulls_and_the_names_of_sites_do_not_matter(how: Any) -> None:
    J = 2 if how == "kernighan-lin" else 4
    hulls, owners, _ = make(6, J, noise=0.6, seed=3)
    expected = group(hulls, owners, J, how)
    rng = np.random.default_rng(0)
    for _ in range(5):
        order = rng.permutation(len(hulls))
        renamed = rng.permutation(100)[owners]
        shuffled = [hulls[i][rng.permutation(len(hulls[i]))] for i in order]
        np.testing.assert_array_equal(group(shuffled, renamed[order], J, how), expected[order])


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("seed", range(6))
def test_a_sites_hulls_are_always_in_distinct_groups(seed: int, missing: float) -> None:
    hulls, owners, _ = make(7, 5, noise=1.0, seed=seed, missing=missing)
    member = group(hulls, owners, 5)
    for site in np.unique(owners):
        mine = member[owners == site]
        assert len(set(mine.tolist())) == len(mine)


@pytest.mark.parametrize("J", [2, 4])
def test_sites_may_lack_classes(J: int) -> None:
    hulls, owners, truth = make(8, J, noise=0.1, seed=1, missing=0.3)
    assert len(hulls) < 8 * J
    assert same_partition(group(hulls, owners, J), truth)


def test_no_site_holds_every_class() -> None:
    hulls, owners, truth = make(6, 3, noise=0.1, seed=2)
    keep = truth != owners % 3
    hulls, owners, truth = [h for h, k in zip(hulls, keep, strict=True) if k], owners[keep], truth[keep]
    assert same_partition(group(hulls, owners, 3), truth)


def test_a_class_that_lives_at_one_site_keeps_its_own_group() -> None:
    hulls, owners, truth = make(5, 3, noise=0.1)
    keep = (truth < 2) | (owners == 4)
    hulls, owners, truth = [h for h, k in zip(hulls, keep, strict=True) if k], owners[keep], truth[keep]
    assert same_partition(group(hulls, owners, 3), truth)


@pytest.mark.parametrize("seed", range(5))
def test_constrained_is_close_to_the_best_of_all_groupings(seed: int) -> None:
    hulls, owners, _ = make(4, 3, noise=0.8, seed=seed)
    D = hull_distances(hulls)
    every = itertools.product(itertools.permutations(range(3)), repeat=3)
    best = min(matching._spread(D, np.array([0, 1, 2, *itertools.chain(*choice)]), 3) for choice in every)
    assert matching._spread(D, group_constrained(D, owners, 3), 3) <= 1.02 * best


def test_kernighan_lin_halves() -> None:
    hulls, owners, truth = make(5, 2, noise=0.1)
    weights = affinity_from_distances(hull_distances(hulls), owners)
    member = group_kernighan_lin(weights, 0)
    assert np.bincount(member).tolist() == [5, 5]
    assert same_partition(member, truth)
    odd = group_kernighan_lin(weights[:9, :9], 0)
    assert sorted(np.bincount(odd).tolist()) == [4, 5]


def test_kernighan_lin_allows_for_missing_classes() -> None:
    hulls, owners, truth = make(6, 2, noise=0.1)
    keep = (truth == 0) | (owners < 3)
    hulls, owners, truth = [h for h, k in zip(hulls, keep, strict=True) if k], owners[keep], truth[keep]
    assert same_partition(group(hulls, owners, 2, "kernighan-lin"), truth)


def test_kernighan_lin_as_published_does_not_look_at_owners() -> None:
    """Eq. 14 for two pairs of near points, each pair a site's: as printed pairs stay together; ours part."""
    hulls = [np.array([point]) for point in ([0.5, 0.01], [0.5, -0.01], [-0.5, 0.01], [-0.5, -0.01])]
    owners = np.array([0, 0, 1, 1])
    assert same_partition(group(hulls, owners, 2, "published"), owners)
    apart = group(hulls, owners, 2, "kernighan-lin")
    assert apart[0] != apart[1]
    assert apart[2] != apart[3]


def test_unknown_owners() -> None:
    hulls, _, truth = make(5, 3, noise=0.1)
    assert same_partition(group(hulls, None, 3), truth)
    assert same_partition(group(hulls, None, 3, "spectral"), truth)


def test_fewer_hulls_than_groups() -> None:
    hulls, owners, _ = make(1, 2)
    for how in ("constrained", "spectral"):
        assert sorted(group(hulls, owners, 4, how).tolist()) == [0, 1]  # type: ignore[arg-type]


def test_some_corners_stand_for_very_many(monkeypatch: pytest.MonkeyPatch) -> None:
    hulls, owners, truth = make(10, 4, noise=0.2)
    monkeypatch.setattr(matching, "MAX_POINTS", 10)
    assert same_partition(group(hulls, owners, 4), truth)


@pytest.mark.full
def test_two_thousand_hulls_are_grouped() -> None:
    hulls, owners, truth = make(1000, 2, corners=38)
    assert same_partition(group(hulls, owners, 2), truth)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"n_groups": 1}, "only 1 groups"),
        ({"n_groups": 0}, "positive"),
        ({"n_groups": 3, "how": "kernighan-lin"}, "in two"),
        ({"n_groups": 2, "how": "magic"}, "how must be"),
        ({"n_groups": 2, "owners": [0, 1]}, "one owner per hull"),
        ({"n_groups": 2, "hulls": [], "owners": []}, "at least one hull"),
    ],
)
def test_refuses(arguments: dict[str, Any], words: str) -> None:
    hulls, owners, _ = make(3, 2)
    with pytest.raises(InputError, match=words):
        group(**({"hulls": hulls, "owners": owners} | arguments))
