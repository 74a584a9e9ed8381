"""Bounds of contributions: sites cut off, and a sum beyond n times the bound is refused by all who see it."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest

import fedgeom
from fedgeom.errors import InputError, ProtocolError
from fedgeom.methods.iterative.messages import TrainMasked
from fedgeom.methods.iterative.site import TrainingSite
from fedgeom.methods.moments.site import MomentsSite, SumClassMoments
from fedgeom.protocols.fixed_point import to_fixed
from fedgeom.protocols.names import CountNames
from fedgeom.protocols.secure_sum.messages import Ticket
from fedgeom.protocols.secure_sum.rules import ROOM, bounded, check_sum, most_in_sum
from fedgeom.testing import example_sites


def test_no_sum_of_sites_within_their_bounds_is_refused() -> None:
    rng = np.random.default_rng(0)
    for sites in (2, 3, 50, 1000):
        ask = SumClassMoments(classes=("a", "b"), curvature=None, ticket=Ticket(participants=("x",) * sites))
        for largest in (None, 1e-3, 7.3, 1e4):
            room = 2.0 ** (62 - SumClassMoments.fraction_bits) / sites
            wild = rng.choice([-1.0, 1.0], 50) * rng.uniform(0, 10 * (largest or room / 20), 50)
            words = bounded(ask, wild, largest, "x")
            total = np.add.reduce([words] * sites, axis=0, dtype=np.uint64)
            check_sum(SumClassMoments, total, sites, largest)


def test_a_sum_is_refused_one_step_beyond_the_bound() -> None:
    most = most_in_sum(SumClassMoments, 3, 10.0)
    assert most == 30 * 2**24
    assert most_in_sum(SumClassMoments, 3, None) == most_in_sum(CountNames, 3, 10.0) == ROOM - 1
    for sign in (1, -1):
        check_sum(SumClassMoments, np.array([0, sign * most], np.int64).view(np.uint64), 3, 10.0)
        with pytest.raises(
            ProtocolError, match=r"'moments\.sum' over 3 sites: 1 of 2 numbers are beyond 30, .*entry 1"
        ):
            check_sum(SumClassMoments, np.array([0, sign * (most + 1)], np.int64).view(np.uint64), 3, 10.0)
    with pytest.raises(ProtocolError, match="beyond"):
        check_sum(SumClassMoments, np.array([1 << 63], np.uint64), 3, None)  # the smallest number has no opposite
    check_sum(TrainMasked, np.array([1 << 63], np.uint64), 3, None)  # packed words are tested where they are read


def test_sites_cut_off_and_their_log_says_so(caplog: pytest.LogCaptureFixture) -> None:
    sites = example_sites()
    same = fedgeom.run(fedgeom.Moments(space="euclidean", max_abs_value=1e3), sites, seed=0).model
    usual = fedgeom.run(fedgeom.Moments(space="euclidean"), sites, seed=0).model
    assert same.to_bytes() == usual.to_bytes()  # a bound that nobody reaches changes nothing
    far = [fedgeom.SiteData(site.name, site.X * (100 if at == 0 else 1), site.y) for at, site in enumerate(sites)]
    with caplog.at_level(logging.WARNING):
        bent = fedgeom.run(fedgeom.Moments(space="euclidean", rule="centroid", max_abs_value=20.0), far, seed=0)
    assert "max_abs_value = 20 and were cut off" in caplog.text
    # 12 rows of a class at each of four sites; one site's sums are cut off at 20
    assert np.abs(bent.model.means).max() <= (20.0 + 3 * 12) / 48
    assert np.abs(fedgeom.Moments(space="euclidean", rule="centroid").plain(far).model.means).max() > 5


def test_numbers_that_are_none_are_refused_under_a_bound_too() -> None:
    with pytest.raises(InputError, match="entry 1 is nan"):
        to_fixed([0.0, np.nan], fraction_bits=8, sites=2, largest=1.0)


def _lie(monkeypatch: pytest.MonkeyPatch, kind: type[Any], name: str, bend: Any) -> None:
    """Let one site, whatever its code should do, add bent words."""
    honest = kind.contribute

    def contribute(self: Any, ask: Any, values: Any, **options: Any) -> Any:
        made = honest(self, ask, values, **options)
        if self.name == "site-1" and ask.kind == name:
            made.vector[:] = bend(made.vector)
        return made

    monkeypatch.setattr(kind, "contribute", contribute)


def test_a_site_that_keeps_to_no_bound_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    _lie(monkeypatch, MomentsSite, SumClassMoments.kind, lambda words: words + np.uint64(10**4 << 24))
    method = fedgeom.Moments(space="euclidean", max_abs_value=1e3)
    with pytest.raises(ProtocolError, match=r"moments\.sum.* over 4 sites.*4e\+03|beyond 4000"):
        fedgeom.run(method, example_sites(), seed=0)


@pytest.mark.parametrize("bits", [32, 64])
def test_a_site_whose_model_is_beyond_largest_change_is_noticed(
    monkeypatch: pytest.MonkeyPatch, bits: int
) -> None:
    jump = np.uint64(3 << 61) if bits == 64 else np.uint64((40 << 25) | (40 << 57))  # 40 in both numbers of a word
    _lie(monkeypatch, TrainingSite, TrainMasked.kind, lambda words: words + jump * (np.arange(len(words)) < 1))
    method = fedgeom.FedAvg(n_rounds=1, bits=bits, max_abs_change=33.0)
    with pytest.raises(ProtocolError, match="max_abs_change = 33" if bits == 32 else "has room for"):
        fedgeom.run(method, example_sites(), seed=0)


def test_a_site_that_takes_more_than_its_share_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def heavier(words: Any) -> Any:
        words[-4] += np.uint64(10**6 << 28)  # the weight; then come two figures, and how many numbers were cut off
        return words

    _lie(monkeypatch, TrainingSite, TrainMasked.kind, heavier)
    with pytest.raises(ProtocolError, match=r"the weights of 4 sites add up to 1\.0001e\+06; they are at most 96"):
        fedgeom.run(fedgeom.FedAvg(n_rounds=1), example_sites(), seed=0)
