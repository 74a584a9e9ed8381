"""Comparing rows in secret, at the site: as the terms say, with members only, and the very same when asked again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest

from fedgeom import XCLP, SiteData
from fedgeom.errors import ProtocolError
from fedgeom.geometry.graphs.lsh import hamming, hash_bits
from fedgeom.methods.xclp.core import shared_seed
from fedgeom.methods.xclp.messages import BeginComparison, CountRows, Hashing, RelayRowMessages
from tests.methods.coordinators import RUN, hold, overhear, refusals
from tests.methods.xclp.making import cones

pytestmark = pytest.mark.full

replace = msgspec.structs.replace
METHOD = XCLP(hash_bits=64, hamming="ot")
SITES = cones(3, rows=8, labelled=0.5)


def hashing(**changes: Any) -> Callable[[Any], Any]:
    """Return a lie about how rows become bits."""
    return lambda ask: replace(ask, hashing=replace(ask.hashing, **changes))


def cut(ask: RelayRowMessages) -> RelayRowMessages:
    return replace(ask, letters={name: letter[:-1] for name, letter in ask.letters.items()})


@pytest.mark.parametrize(
    ("method", "kind", "change", "words"),
    [
        (METHOD, BeginComparison, hashing(seed=bytes(32)), "hidden_projection"),
        (METHOD, BeginComparison, hashing(bits=4096), "hash_bits=4096"),
        (METHOD, BeginComparison, hashing(flip=0.1), "flip_probability=0.1"),
        (METHOD, BeginComparison, hashing(comparison="paillier"), "hamming=paillier"),
        (METHOD, BeginComparison, lambda ask: replace(ask, partners={"nobody": 3}), "not other members"),
        (
            METHOD,
            BeginComparison,
            lambda ask: replace(ask, partners={"site-1": 8, "site-2": 8, "site-3": 8}),
            "not other members",
        ),
        (
            METHOD,
            BeginComparison,
            lambda ask: replace(ask, partners=dict(list(ask.partners.items())[:1])),
            "asks for at least 3",
        ),
        (
            XCLP(hash_bits=64, hamming="ot", flip_probability=0.2),
            RelayRowMessages,
            hashing(flip=0.0),
            "flip_probability=0.0",
        ),
        (METHOD, RelayRowMessages, hashing(seed=bytes(32)), "hidden_projection"),
        (METHOD, RelayRowMessages, cut, "letter"),
        (METHOD, RelayRowMessages, lambda ask: replace(ask, letters={"nobody": b"x"}), "not a partner"),
        (METHOD, RelayRowMessages, lambda ask: replace(ask, number=7), "letter"),
        (
            XCLP(hash_bits=64, hamming="ot", hide_labelled=True),
            CountRows,
            lambda ask: replace(ask, hide=False),
            "hide_labelled",
        ),
    ],
)
def test_questions_that_depart_from_the_terms_are_refused(
    method: XCLP, kind: type[Any], change: Callable[[Any], Any], words: str
) -> None:
    assert all(words in reason for reason in refusals(method, SITES, kind, change, to="site-2"))


def test_letters_are_not_read_before_the_site_began() -> None:
    def early(ask: BeginComparison) -> RelayRowMessages:
        return RelayRowMessages(hashing=ask.hashing, number=1, letters={})

    assert refusals(METHOD, SITES, BeginComparison, early) == {"letters came before the site began"}


def test_partners_are_announced_once_and_asked_the_same_again_a_site_says_the_very_same() -> None:
    """A partner may have the first letter: a second one, with new randomness, would not fit it."""
    heard, engine = overhear(METHOD, SITES)
    letters = [one for one in heard if isinstance(one.question, BeginComparison | RelayRowMessages)]
    before = {one.name: one.memory for one in letters}  # after the last of them
    for one in letters:
        again, _ = engine.runners[one.name].answer(one.request, before[one.name])
        assert again == one.reply
    first = letters[0]
    site = engine.runners[first.name].restore(RUN, before[first.name])
    more = replace(first.question, partners={name: rows + 1 for name, rows in first.question.partners.items()})
    with pytest.raises(ProtocolError, match=r"'xclp.begin 0 0' was answered in this run already"):
        site.answer(more)


@pytest.mark.parametrize("hide", [False, True])
def test_a_site_says_which_rows_are_labelled_unless_it_hides_them(hide: bool) -> None:
    heard, _ = overhear(XCLP(hash_bits=64, hamming="ot", hide_labelled=hide), SITES)
    said = {one.name: one.answer.labelled.numpy().tolist() for one in heard if isinstance(one.question, CountRows)}
    for site in SITES:
        assert said[site.name] == [int(hide or label >= 0) for label in site.y]


def test_rows_are_hashed_as_the_twin_hashes_them() -> None:
    heard, engine = overhear(XCLP(hash_bits=64, hamming="ot", hidden_projection=False), SITES, seed=5)
    begun = {one.name: one for one in heard if isinstance(one.question, BeginComparison)}
    for site in SITES:
        packed = hash_bits(site.X, shared_seed(5), 64)
        comparing = engine.runners[site.name].restore(RUN, begun[site.name].memory).comparing
        np.testing.assert_array_equal(comparing.bits(begun[site.name].question.hashing).rows, packed)
        own = hamming(packed, packed, 64)[np.triu_indices(len(site), 1)]
        assert begun[site.name].answer.own.numpy().tolist() == own.tolist()
    assert sum(len(one.answer.letters) for one in begun.values()) == 3  # each of three pairs begins once


def test_flips_turn_the_agreed_share_of_bits_and_come_out_the_same_each_time() -> None:
    held = hold(XCLP(hash_bits=64, hamming="ot", hidden_projection=False, flip_probability=0.25), SITES)
    hashed = Hashing(bits=64, flip=0.25, comparison="ot", seed=shared_seed(0))
    turned = 0
    for site in SITES:
        comparing = held.site(site.name).comparing
        first, second = (comparing.bits(hashed).rows for _ in range(2))
        np.testing.assert_array_equal(first, second)  # a second draw would average the noise away
        turned += int(np.diag(hamming(first, hash_bits(site.X, shared_seed(0), 64), 64)).sum())
    assert 0.2 < turned / (3 * 8 * 64) < 0.3


def test_once_labels_are_spread_what_was_said_is_forgotten() -> None:
    held = hold(METHOD, SITES)
    for site in SITES:
        for pair in held.site(site.name).memory.comparing.pairs.values():
            assert (pair.state, pair.said) == (None, {})


def test_one_row_is_enough() -> None:
    tiny = [SiteData(s.name, s.X[:1], s.y[:1]) for s in cones(3, rows=8, labelled=1.0)]
    assert hold(METHOD, tiny).sites.lost == {}
