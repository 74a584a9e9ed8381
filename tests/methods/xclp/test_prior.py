"""Class priors: shares of all sites and of one, and evidence that must be borne out by a site's own labels."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgeom.errors import InputError
from fedgeom.methods.xclp.core import base_shares, em_prior, own_prior, shares, site_prior, skew_weight, with_prior
from tests.tiers import examples


@examples(30)
@given(st.lists(st.integers(0, 500), min_size=1, max_size=12))
def test_base_shares_are_shares(counts: list[int]) -> None:
    base = base_shares(counts)
    assert base.sum() == pytest.approx(1.0)
    assert (base >= 0).all()


def test_counts_that_differ_by_chance_count_as_equal_and_others_are_believed() -> None:
    np.testing.assert_allclose(base_shares([11, 9, 10, 10]), 0.25)
    np.testing.assert_allclose(base_shares([970, 10, 10, 10]), np.array([970, 10, 10, 10]) / 1000, atol=2e-3)


def evidence(true: np.ndarray, n: int, seed: int, noise: float = 1.2) -> tuple[np.ndarray, np.ndarray]:
    """Draw classes from shares, and evidence whose square is the likelihood of a noisy look at them."""
    rng = np.random.default_rng(seed)
    y = rng.choice(len(true), n, p=true)
    look = np.eye(len(true))[y] + noise / 2 * rng.normal(size=(n, len(true)))
    likelihood = np.exp(-((look[:, None] - np.eye(len(true))) ** 2).sum(axis=2) / (2 * (noise / 2) ** 2))
    return shares(np.sqrt(likelihood)), y


@pytest.mark.parametrize("seed", range(3))
def test_expectation_maximisation_finds_a_known_skew(seed: int) -> None:
    true = np.array([0.7, 0.2, 0.06, 0.04])
    E, y = evidence(true, 3000, seed)
    found = em_prior(E, 2.0, iterations=200)
    np.testing.assert_allclose(found, true, atol=0.04)
    base = np.full(4, 0.25)
    weight = skew_weight(E, found, base)
    assert weight > 0.6
    adapted = with_prior(E, found, base, weight).argmax(axis=1)
    assert np.mean(adapted == y) > np.mean(E.argmax(axis=1) == y) + 0.05


@pytest.mark.parametrize("seed", range(5))
def test_without_skew_the_prior_has_no_say(seed: int) -> None:
    E, _ = evidence(np.full(4, 0.25), 400, seed)
    assert skew_weight(E, em_prior(E), np.full(4, 0.25)) == 0.0


def test_own_labels_join_the_estimate() -> None:
    base = np.full(3, 1 / 3)
    np.testing.assert_allclose(own_prior([8, 0, 0], base), [(8 + 2 / 3) / 10, 2 / 30, 2 / 30])
    np.testing.assert_allclose(em_prior(np.zeros((4, 3)), own_counts=[8, 0, 0]), own_prior([8, 0, 0], base))
    np.testing.assert_allclose(em_prior(np.zeros((0, 3))), base)
    skewed = site_prior(np.zeros((40, 3)), np.r_[np.zeros(38), 1, -1], [50, 45, 52], kind="own")
    assert skewed.weight > 0.5
    assert site_prior(np.zeros((1, 3)), [-1], [5, 5, 5], kind="own").weight == 0.0


def test_own_labels_must_bear_the_estimate_out() -> None:
    E, _ = evidence(np.array([0.85, 0.05, 0.05, 0.05]), 300, 0)
    counts, silent = [100, 100, 100, 100], np.full(300, -1)
    assert site_prior(E, silent, counts).weight == 0.0
    assert site_prior(E, silent, counts, kind="em-unchecked").weight > 0.5
    agreeing, contradicting = silent.copy(), silent.copy()
    agreeing[:6], contradicting[:6] = 0, [1, 2, 3, 1, 2, 3]
    assert site_prior(E, agreeing, counts).weight > 0.5
    assert site_prior(E, contradicting, counts).weight == 0.0
    assert site_prior(E, contradicting, counts, kind="em-unchecked").weight == 0.0


def test_a_site_that_looks_like_another_class_is_not_led_astray() -> None:
    """All rows of a site without labels lean to a rare class they are not, as across laboratories."""
    rng = np.random.default_rng(0)
    E = np.column_stack([0.55 + 0.1 * rng.random(200), 0.4 + 0.1 * rng.random(200), np.full(200, 0.02)])
    counts, silent = np.array([10.0, 150.0, 140.0]), np.full(200, -1)
    Z = E * counts
    right, wrong = (
        np.mean(site_prior(Z, silent, counts, kind=kind).scores(Z).argmax(axis=1) == 1)
        for kind in ("em", "em-unchecked")
    )
    repeated = em_prior(E, 2.0, iterations=30, base=base_shares(counts))
    assert repeated[0] > 0.5  # what made labels collapse before
    assert right == 1.0
    assert wrong <= right


def test_rows_without_evidence_stay_without() -> None:
    found = site_prior(np.zeros((2, 3)), [-1, -1], [5, 3, 2])
    assert found.scores(np.zeros((2, 3))).sum() == 0


def test_a_site_without_a_say_of_its_own_takes_the_base() -> None:
    """Sharpened evidence times the base, rows summing to one."""
    E, counts = np.array([[0.6, 0.4]]), np.array([30.0, 10.0])
    found = site_prior(E * counts, [-1], counts, kind="none").scores(E * counts)
    base = base_shares(counts)
    np.testing.assert_allclose(found, shares(E**2 * base))
    np.testing.assert_allclose(with_prior(E, np.array([0.9, 0.1]), base, 0.0), found)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: site_prior(np.ones((1, 2)), [-1], [1, 1], kind="map"), "map"),  # type: ignore[arg-type]
        (lambda: base_shares([-1]), "at least 0"),
        (lambda: base_shares([]), "at least 0"),
    ],
)
def test_refuses(call: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        call()  # type: ignore[operator]
