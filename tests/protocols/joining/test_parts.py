"""Where the terms draw a part of the sites for a sum, only these share its secrets, and no other site is in it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec
import numpy as np
import pytest

from fedgeom.errors import ProtocolError, TooFewSitesError
from fedgeom.federation.site import Site
from fedgeom.protocols.cohort import join
from fedgeom.protocols.join.site import SumParts, write_letters
from fedgeom.protocols.secure_sum.messages import SumQuestion, Witness
from fedgeom.protocols.site import SecureMemory
from tests.protocols.lying import Lying
from tests.protocols.summing import ColumnSite, ColumnSum, SumColumn, make_sites, secure_sum, start
from tests.unlisted import unlisted

DRAWN = [("s0000", "s0001", "s0002", "s0003"), ("s0002", "s0003", "s0004", "s0005")]


class DrawnSite(ColumnSite):
    def expected_participants(self, question: SumQuestion) -> Sequence[str]:
        return question.ticket.members


@unlisted
@dataclass(frozen=True, kw_only=True)
class DrawnSum(ColumnSum):
    """Two sums over some, and one over all."""

    name: ClassVar[str] = "drawn-sum"
    site: ClassVar[type[Site[Any]]] = DrawnSite
    rounds: int = 3

    def sum_sites(self, names: Sequence[str], seed: int) -> Sequence[Collection[str]]:
        return [*DRAWN, names]


def test_the_sums_of_a_site() -> None:
    parts = SumParts(3, [*DRAWN, ("s0000", "s0005")])
    assert [parts.of(name) for name in ("s0000", "s0003", "s0005", "s0009")] == [(0, 2), (0, 1), (1, 2), ()]
    parts.check(1, DRAWN[1][1:])
    with pytest.raises(ProtocolError, match="s0000, s0001 cannot be in this sum, of round 1"):
        parts.check(1, DRAWN[0])
    anybody = SumParts(3, None)
    assert list(anybody.of("s0009")) == [0, 1, 2]
    anybody.check(2, ["s0009"])


def test_sums_are_exact_and_shares_are_held_of_those_who_are_drawn() -> None:
    data, method = make_sites(8), DrawnSum()
    sites, engine = start(data, method=method)
    cohort = join(sites, method)
    columns = {site.name: site.X[:, 0].astype(np.uint64) for site in data}
    for number, names in enumerate([*DRAWN, cohort.names]):
        found = secure_sum(
            cohort.joined, number, SumColumn(turn=number), modulus=2**64, length=7, participants=names
        )
        assert np.array_equal(found.vector, sum(columns[name] for name in names))
    for name in cohort.names:  # of every sum all sites are holders
        memory = msgspec.msgpack.decode(engine.memories[name], type=SecureMemory).joining
        held = [memory.held(number) for number in range(3)]
        assert [set(one.masks) for one in held] == [set(DRAWN[0]), set(DRAWN[1]), set(cohort.names)]
        assert [set(one.selves) for one in held] == [set(one.masks) for one in held]


def test_a_drawn_site_that_is_lost_is_recovered_by_witnesses() -> None:
    data, method, gone = make_sites(8), DrawnSum(), set[str]()
    sites, _ = start(data, method=method, interfere=lambda name, request: "gone" if name in gone else None)
    cohort = join(sites, method)
    gone.add(DRAWN[0][0])
    found = secure_sum(cohort.joined, 0, SumColumn(), modulus=2**64, length=7, participants=DRAWN[0])
    assert found.sites == DRAWN[0][1:]
    wanted = sum(site.X[:, 0].astype(np.uint64) for site in data if site.name in found.sites)
    assert np.array_equal(found.vector, wanted)


def test_nobody_is_summed_in_a_round_for_which_others_are_drawn() -> None:
    data, method = make_sites(8), DrawnSum()
    sites, _ = start(data, method=method)
    cohort = join(sites, method)
    with pytest.raises(TooFewSitesError, match="s0004, s0005 cannot be in this sum, of round 0"):
        secure_sum(cohort.joined, 0, SumColumn(), modulus=2**64, length=7, participants=DRAWN[1])


def test_a_witness_helps_with_no_sum_over_others_than_those_drawn() -> None:
    lie = Lying(8, method=DrawnSum()).hello().share()
    fields: dict[str, Any] = {"round": 0, "members": lie.names, "dropped": (), "content": bytes(32)}
    name = "s0007"
    for participants, refused in ((DRAWN[1], True), (DRAWN[0], False)):
        ask = Witness(
            question_hash=bytes(32),
            participants=participants,
            alive=participants,
            letters=lie.mail[name],
            **fields,
        )
        if refused:
            lie.refused(name, ask, "s0004, s0005 cannot be in this sum, of round 0")
        else:
            assert not hasattr(lie.ask(name, ask), "reason")


def test_letters_bring_no_more_than_is_used() -> None:
    """s0007 is in one of three sums: its letters are a third as long, but for what all letters have."""
    lie = Lying(8, method=DrawnSum()).hello().share()
    sizes = {to: len(lie.mail[to]["s0007"]) for to in lie.names if to != "s0007"}
    twice = {to: len(lie.mail[to]["s0003"]) for to in lie.names if to != "s0003"}
    assert max(sizes.values()) + 2 * 2 * 33 <= min(twice.values())


def test_a_letter_with_shares_for_other_sums_is_refused() -> None:
    """A site that writes shares for all sums, as if it were drawn for them, is noticed by whoever reads them."""
    honest = Lying(8, method=DrawnSum()).hello().share()
    joining = honest.as_site("s0007").joining
    numbers = {name: at + 1 for at, name in enumerate(honest.names)}
    letters = write_letters(joining.memory, "s0007", numbers, 6, joining.parts.of("s0007"), contributes=True)
    letter = letters["s0000"]
    longer = msgspec.structs.replace(
        letter, mask_shares=letter.mask_shares * 3, self_shares=letter.self_shares * 3
    )
    sealed = joining._seal(joining.agreed_with("s0000"), "s0000", longer)
    mail = honest.mail["s0000"] | {"s0007": sealed}
    question = honest.column("s0000", participants=DRAWN[0], letters=mail)
    honest.refused("s0000", question, "the letter from 's0007' does not hold a share for each of 1 sums")


def test_a_site_locks_the_keys_of_those_sums_only_for_which_it_is_drawn() -> None:
    lie = Lying(8, method=DrawnSum()).hello().share()
    assert [len(keys) for keys in lie.locked["s0003"]] == [7 * 32] * 3
    assert [len(keys) for keys in lie.locked["s0007"]] == [0, 0, 7 * 32]
    memory = lie.memory("s0007").joining
    assert [len(keys) for keys in memory.pair_keys] == [0, 0, 7 * 32]
