"""The 48 numbers: by hand, against a slow definition, without the site's size, and per class."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgeom.errors import InputError
from fedgeom.geometry.topology.descriptors import (
    NAMES,
    betti_curve,
    class_descriptors,
    class_names,
    describe,
    descriptor,
    persistence_entropy,
    thresholds,
)
from fedgeom.geometry.topology.persistence import Diagrams, rips_diagrams
from tests.tiers import examples

PLACE = {name: at for at, name in enumerate(NAMES)}


def slow(found: Diagrams) -> np.ndarray:
    """Appendix B, sentence by sentence."""
    if not len(found.h0):
        return np.zeros(48)
    steps = np.linspace(0, np.percentile(found.h0[:, 1], 95), 20)
    curves, scalars = [], []
    for diagram in found[:2]:
        curves += [sum(bool(b <= t < d) for b, d in diagram) for t in steps]
        pers = np.array([d - b for b, d in diagram])
        if not len(pers):
            scalars.append([0, 0, 0, 0])
            continue
        p = pers / pers.sum()
        above = int((pers > np.median(pers)).sum())
        scalars.append([-(p * np.log(p)).sum(), np.sqrt((pers**2).sum()), above, len(pers)])
    return np.array([*curves, *np.transpose(scalars).ravel()])


def test_the_48_numbers_have_different_names_in_the_order_of_appendix_b() -> None:
    assert len(NAMES) == len(set(NAMES)) == 48
    assert NAMES[0] == "Betti curve H0 at 0/19"
    assert NAMES[39] == "Betti curve H1 at 19/19"
    assert NAMES[40:] == (
        *("entropy H0", "entropy H1", "amplitude H0", "amplitude H1"),
        *("pairs above median H0", "pairs above median H1", "pairs H0", "pairs H1"),
    )


def test_a_square_by_hand() -> None:
    phi = descriptor([[0, 0], [1, 0], [1, 1], [0, 1]], points=None)
    np.testing.assert_array_equal(phi[:20], [3] * 19 + [0])
    np.testing.assert_array_equal(phi[20:40], [0] * 19 + [1])
    np.testing.assert_allclose(phi[40:], [np.log(3), 0, np.sqrt(3), np.sqrt(2) - 1, 0, 0, 3, 1], atol=1e-15)


def test_unequal_gaps_by_hand() -> None:
    phi = descriptor([[0.0], [1.0], [3.0], [7.0]], points=None, scale="none")
    share = np.array([1, 2, 4]) / 7
    assert phi[PLACE["entropy H0"]] == pytest.approx(-(share * np.log(share)).sum())
    assert phi[PLACE["amplitude H0"]] == pytest.approx(np.sqrt(21))
    assert phi[PLACE["pairs above median H0"]] == 1
    # Thresholds end at the 95th percentile of 1, 2, 4, which is 3.8; step 6 is at 1.2, step 12 at 2.4.
    assert [phi[0], phi[6], phi[12], phi[19]] == [3, 2, 1, 1]


@examples(40)
@given(st.integers(0, 40), st.integers(1, 6), st.booleans(), st.integers(0, 9999))
def test_equals_the_slow_definition(n: int, d: int, ties: bool, seed: int) -> None:
    X = np.random.default_rng(seed).normal(size=(n, d))
    X = np.round(X) if ties else X
    found = rips_diagrams(X)
    quick, by_hand = describe(found), slow(found)
    if ties:  # linspace and a product differ in the last digit, which decides where deaths lie on a threshold
        np.testing.assert_allclose(quick[40:], by_hand[40:], atol=1e-9)
    else:
        np.testing.assert_allclose(quick, by_hand, atol=1e-9)


def test_the_parts_alone_agree_with_the_whole() -> None:
    found = rips_diagrams(np.random.default_rng(2).normal(size=(50, 3)))
    phi, steps = describe(found), thresholds(found.h0)
    np.testing.assert_array_equal(phi[20:40], betti_curve(found.h1, steps))
    assert phi[PLACE["entropy H1"]] == pytest.approx(persistence_entropy(found.h1))
    assert phi[PLACE["amplitude H1"]] == pytest.approx(np.linalg.norm(found.h1[:, 1] - found.h1[:, 0]))
    assert persistence_entropy(np.empty((0, 2))) == 0.0
    np.testing.assert_array_equal(betti_curve(np.array([[1.0, 2.0]]), [0.5, 1.0, 1.5, 2.0]), [0, 1, 1, 0])


@pytest.mark.parametrize("size_free", [False, True])
def test_clouds_without_pairs_have_the_zero_descriptor(size_free: bool) -> None:
    for X in (np.empty((0, 3)), np.ones((1, 3)), np.ones((6, 3))):
        np.testing.assert_array_equal(descriptor(X, size_free=size_free), np.zeros(48))
    two = descriptor([[0.0], [2.0]], scale="none", size_free=size_free)
    assert np.isfinite(two).all()
    assert two[PLACE["amplitude H0"]] == 2


def test_scaling_to_the_unit_box_forgets_units_and_none_keeps_them() -> None:
    X = np.random.default_rng(0).normal(size=(40, 3))
    units = X * [1, 1000, 0.01] + 5
    np.testing.assert_allclose(descriptor(X), descriptor(units), atol=1e-9)
    assert descriptor(units, scale="none")[42] > 100 * descriptor(X, scale="none")[42]
    grown = descriptor(3 * X, scale="none")
    np.testing.assert_allclose(grown[[42, 43]], 3 * descriptor(X, scale="none")[[42, 43]])
    np.testing.assert_allclose(grown[40:42], descriptor(X, scale="none")[40:42])


def test_the_draw_is_seeded_and_repeats_are_averaged() -> None:
    X = np.random.default_rng(0).normal(size=(100, 3))
    a, b, c = (descriptor(X, points=30, rng=np.random.default_rng(s)) for s in (1, 1, 2))
    np.testing.assert_array_equal(a, b)
    assert not np.array_equal(a, c)
    assert a[PLACE["pairs H0"]] == 29
    rng = np.random.default_rng(1)
    mean = np.mean([descriptor(X, points=30, rng=rng) for _ in range(4)], axis=0)
    np.testing.assert_allclose(descriptor(X, points=30, rng=np.random.default_rng(1), repeats=4), mean)


def test_size_free_numbers_are_shares() -> None:
    phi = descriptor(np.random.default_rng(0).normal(size=(60, 5)), size_free=True)
    assert phi[0] == 1.0
    assert (phi >= 0).all()
    assert (phi[:20] <= 1).all()
    assert (phi[40:42] <= 1).all()
    assert phi[PLACE["pairs H0"]] == 1.0
    raw = descriptor(np.random.default_rng(0).normal(size=(60, 5)))
    assert phi[PLACE["pairs H1"]] == pytest.approx(raw[PLACE["pairs H1"]] / 59)
    assert phi[PLACE["entropy H1"]] == pytest.approx(raw[PLACE["entropy H1"]] / np.log(raw[PLACE["pairs H1"]]))
    assert phi[PLACE["amplitude H0"]] == pytest.approx(raw[PLACE["amplitude H0"]] / np.sqrt(59))


def separation(**options: object) -> float:
    """Distance between small and large sites of one law, in units of the spread among sites of equal size."""
    rng = np.random.default_rng(7)
    phi = np.array([descriptor(rng.normal(size=(n, 10)), rng=rng, **options) for n in [40] * 12 + [160] * 12])
    small, large = phi[:12], phi[12:]
    spread = np.sqrt(small.var(axis=0).sum() + large.var(axis=0).sum())
    return float(np.linalg.norm(small.mean(axis=0) - large.mean(axis=0)) / spread)


def test_the_papers_numbers_show_the_size_of_a_site_and_equal_draws_hide_it() -> None:
    assert separation() > 5
    assert separation(size_free=True) < 2
    assert separation(size_free=True, points=30, repeats=8) < 0.8  # twelve against twelve: chance is about 0.3


def test_one_descriptor_per_class_in_the_given_order() -> None:
    rng = np.random.default_rng(3)
    X, y = rng.random((60, 4)), np.array(["b", "a", "b"] * 20)
    both = class_descriptors(X, y, ["a", "c", "b"], scale="none", absent=-1.0)
    np.testing.assert_array_equal(both[:48], descriptor(X[y == "a"], scale="none"))
    np.testing.assert_array_equal(both[48:96], np.full(48, -1.0))
    np.testing.assert_array_equal(both[96:], descriptor(X[y == "b"], scale="none"))
    assert class_names(["a", "c", "b"])[96] == "b: Betti curve H0 at 0/19"
    assert len(class_names("ab")) == 96


def test_classes_share_the_box_of_their_site() -> None:
    X = np.vstack([np.random.default_rng(0).random((30, 2)), 10 * np.random.default_rng(0).random((30, 2))])
    phi = class_descriptors(X, [0] * 30 + [1] * 30, [0, 1]).reshape(2, 48)
    ratio = phi[1, PLACE["amplitude H0"]] / phi[0, PLACE["amplitude H0"]]
    assert ratio == pytest.approx(10, rel=0.01)


def test_flipped_labels_move_class_descriptors_and_not_the_descriptor_of_x() -> None:
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 40)
    X = rng.normal(size=(80, 3)) + 6 * y[:, None]
    flipped = np.where(rng.random(80) < 0.4, 1 - y, y)
    moved = np.linalg.norm(class_descriptors(X, y, [0, 1]) - class_descriptors(X, flipped, [0, 1]))
    assert moved > 10
    np.testing.assert_array_equal(descriptor(X), descriptor(X[np.arange(80)]))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: descriptor(np.zeros((100, 2))), "rng"),
        (lambda: descriptor(np.zeros((10, 2)), scale="box"), "unit box"),  # type: ignore[arg-type]
        (lambda: descriptor(np.zeros((10, 2)), repeats=0), "at least one"),
        (lambda: class_descriptors(np.zeros((2, 2)), [0, 2], [0, 1]), "not among the classes"),
        (lambda: class_descriptors(np.zeros((2, 2)), [0], [0, 1]), "one label"),
        (lambda: class_descriptors(np.zeros((2, 2)), [0, 1], [0, 1, 1]), "different labels"),
    ],
)
def test_what_cannot_be_used_is_refused(call: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        call()  # type: ignore[operator]
