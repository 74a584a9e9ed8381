"""Who trains in a round."""

from __future__ import annotations

from collections import Counter

from fedgeom.methods.iterative.settings import draw_sites

SITES = tuple(f"site-{at}" for at in range(12))


def test_as_many_as_wanted_are_drawn_each_once_in_alphabetical_order():
    for round in range(20):
        drawn = draw_sites(SITES, 5, 3, round)
        assert len(set(drawn)) == 5
        assert list(drawn) == sorted(drawn)
        assert set(drawn) <= set(SITES)


def test_seed_and_round_decide_and_nothing_else():
    assert draw_sites(SITES, 5, 3, 1) == draw_sites(tuple(SITES), 5, 3, 1)
    assert len({draw_sites(SITES, 5, 3, round) for round in range(10)}) > 5
    assert len({draw_sites(SITES, 5, seed, 1) for seed in range(10)}) > 5


def test_everybody_has_the_same_chance():
    """1,200 rounds of 5 of 12 sites: 500 times each, with a deviation of 17."""
    counted = Counter(name for round in range(1200) for name in draw_sites(SITES, 5, 0, round))
    assert all(abs(counted[name] - 500) < 100 for name in SITES)
