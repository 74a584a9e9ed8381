"""A coordinator that asks sites different things in one round, and lets the others unmask as if all were asked alike.

A victim masks for a sum with two others, everybody else for a sum with all; then the others sign a list on which the
victim lives and its two partners are lost. What they give for that list takes every mask off the victim's vector.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedgeom.crypto import shamir
from fedgeom.crypto.masks import add_masks, key_at, lock, mask_key
from fedgeom.federation.messages import Refusal
from fedgeom.protocols.join.messages import holder_numbers
from fedgeom.protocols.secure_sum.messages import (
    Confirm,
    Confirmation,
    MaskedVector,
    Unmask,
    UnmaskShares,
    Witness,
    hash_content,
    own_key,
)
from tests.protocols.lying import Lying
from tests.protocols.summing import SumColumn, make_sites


class Attack(Lying):
    """Asks a victim for a sum with two partners, and the others for another sum in the same round."""

    def __init__(self, n: int):
        super().__init__(n)
        self.hello().share()
        self.victim, self.partners = self.names[0], self.names[1:3]
        self.few = self.names[:3]
        self.refusals: list[str] = []

    def steal(self, told: dict[str, Any], others: dict[str, Any], witnesses: tuple[str, ...] = ()) -> bool:
        """Say whether the victim's vector is found, where it is told this and the others that."""
        asked = self.column(self.victim, **told)
        masked = {self.victim: self.get(self.victim, asked, MaskedVector)}
        participants = others.get("participants", self.names)
        alive = tuple(name for name in participants if name not in self.partners)
        question: Any = None
        for name in alive[1:]:
            question = self.column(name, **others)
            masked[name] = self.get(name, question, MaskedVector)
        lists = {"alive": alive, "dropped": self.partners}
        signatures = {}
        for name in (*alive[1:], *witnesses):
            request: Any = Confirm(round=0, **lists)
            if name in witnesses:
                request = self.witness(name, question, lists)
            answer = self.ask(name, request)
            if isinstance(answer, Confirmation):
                signatures[name] = answer.signature
            else:
                self.refusals.append(answer.reason)
        shares = {}
        for name in signatures:
            request = Unmask(round=0, signatures=signatures, **lists, **self.proof(masked))
            answer = self.ask(name, request)
            if isinstance(answer, UnmaskShares):
                shares[name] = answer
            else:
                assert isinstance(answer, Refusal)
                self.refusals.append(answer.reason)
        return self.found(asked, masked[self.victim], shares)

    def witness(self, name: str, question: SumColumn, lists: dict[str, Any]) -> Witness:
        return Witness(
            round=0,
            question_hash=question.ticket.question_hash,
            content=hash_content(question),
            members=self.names,
            participants=question.ticket.participants,
            letters=self.mail[name],
            **lists,
        )

    def proof(self, masked: dict[str, MaskedVector]) -> dict[str, Any]:
        """Return what shows that the living masked for this sum, as far as there is such a thing."""
        return {"masked": {name: answer.signature for name, answer in masked.items()}}

    def found(self, asked: SumColumn, masked: MaskedVector, shares: dict[str, UnmaskShares]) -> bool:
        """Take off the victim's masks with the shares that came; say whether its numbers stand there."""
        numbers = holder_numbers(self.keys, self.seed)
        needed = -(-2 * len(self.names) // 3)
        own = {numbers[h]: s.self_shares[self.victim] for h, s in shares.items() if self.victim in s.self_shares}
        if len(own) < needed:
            return False
        plus, minus = [], [own_key(shamir.recover(own, needed), asked.ticket.question_hash)]
        for name in self.partners:
            pieces = {numbers[h]: s.mask_shares[name] for h, s in shares.items()}
            keys = lock(self.locked[name][0], shamir.recover(pieces, needed))
            place = sorted(set(self.keys) - {name}).index(self.victim)
            key = mask_key(key_at(keys, place), asked.ticket.question_hash)
            (minus if self.victim < name else plus).append(key)
        vector = add_masks(masked.vector.numpy(), asked.ticket.ring, plus=plus, minus=minus)
        return np.array_equal(vector, make_sites(len(self.names))[0].X[:, 0].astype(np.uint64))


@pytest.mark.parametrize("n", [9, 12])
@pytest.mark.parametrize("fewer", ["participants", "members"])
def test_a_victim_that_masked_for_another_sum_is_not_unmasked(n: int, fewer: str) -> None:
    attack = Attack(n)
    told = {"participants": attack.few} | ({"members": attack.few} if fewer == "members" else {})
    assert not attack.steal(told, {})
    assert len(attack.refusals) == n - 3


def test_nor_with_the_help_of_witnesses() -> None:
    attack = Attack(15)
    five = attack.names[:5]
    assert not attack.steal({"participants": attack.few}, {"participants": five}, witnesses=attack.names[5:])
    assert attack.refusals
