"""The site's side of a secure sum: mask a vector, confirm who is there, give shares that unmask the sum."""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from fedgeom.crypto.keys import fingerprint, verify
from fedgeom.crypto.masks import add_masks
from fedgeom.crypto.rings import Vector
from fedgeom.errors import ProtocolError
from fedgeom.federation.messages import Array, Message, Question
from fedgeom.federation.site import answers
from fedgeom.protocols.cohort import SecureMemory, threshold
from fedgeom.protocols.secure_site import SecureSite
from fedgeom.protocols.secure_sum import (
    Confirm,
    Confirmation,
    MaskedVector,
    Ticket,
    Unmask,
    UnmaskShares,
    Witness,
    about,
    own_key,
    pair_key,
)

Mem = TypeVar("Mem", bound=SecureMemory)


class SummingSite(SecureSite[Mem]):
    """A site that can mask vectors and help to unmask their sum."""

    def answer(self, question: Question) -> Message:
        """Answer one question; a ticket must be made out for the question that carries it."""
        ticket = getattr(question, "ticket", None)
        if isinstance(ticket, Ticket) and ticket.about != about(question):
            raise ProtocolError("the ticket was made out for another question")
        if isinstance(ticket, Ticket) and self.memory.sums:
            planned = self.memory.sums[ticket.round] if ticket.round < len(self.memory.sums) else "nothing"
            if planned != question.kind:
                raise ProtocolError(f"round {ticket.round} of this run is for {planned!r}, not {question.kind!r}")
        return super().answer(question)

    def admit(self, ticket: Ticket, *details: bytes) -> None:
        """Take a ticket: read the mail, and refuse a second, different sum in the same round."""
        memory, participants = self.memory, ticket.participants
        if not memory.cohort:
            raise ProtocolError("a sum was asked for before the site joined")
        if not 0 <= ticket.round < len(memory.mask_secrets):
            raise ProtocolError(f"round {ticket.round} was not announced when joining")
        self.open_letters(ticket.members, ticket.letters)
        if self.badge.name not in participants or not set(participants) <= set(ticket.members):
            raise ProtocolError("the announced participants are not a part of the members with this site in it")
        self._check_many_enough(participants)
        near = {self.badge.name, *memory.peers} & set(participants)
        if len(near) < min(self.badge.policy.smallest_cohort, 1 + len(memory.peers)):
            raise ProtocolError(
                f"only {len(near) - 1} of this site's peers are summed with it; they hide it too little"
            )
        if self.badge.name not in memory.participants.get(ticket.round, participants):
            raise ProtocolError(f"this site was a witness in round {ticket.round}; it is not summed there")
        stamp = fingerprint(ticket.about, *details)
        if memory.asked.setdefault(f"mask {ticket.round}", stamp) != stamp:
            raise ProtocolError(f"the masks of round {ticket.round} were used for another question already")

    def mask(self, ticket: Ticket, vector: Vector) -> MaskedVector:
        """Hide a vector of ring elements behind this round's masks (`admit` comes first).

        The same ticket and vector give the same masked vector again, so asking twice shows nothing
        new; a different vector under the same masks would show the difference and is refused.
        """
        memory, ring, me = self.memory, ticket.ring, self.badge.name
        values = ring.check(vector)
        self.remember_vector(ticket.round, values)
        among = set(ticket.participants)
        plus: list[bytes] = [own_key(memory.self_seeds[ticket.round], ticket.about)]
        minus: list[bytes] = []
        for peer in memory.peers:
            if peer in among:
                public = memory.cohort[peer].masks[ticket.round]
                key = pair_key(memory.mask_secrets[ticket.round], public, self.run, ticket.about, me, peer)
                (plus if me < peer else minus).append(key)
        memory.asked[f"among {ticket.round}"] = ticket.about
        memory.participants[ticket.round] = ticket.participants
        return MaskedVector(vector=Array.of(add_masks(values, ring, plus=plus, minus=minus)))

    def remember_vector(self, round: int, values: npt.NDArray[np.uint64]) -> None:
        """Refuse a second, different vector in one round: under the same masks it would show the difference."""
        memory = self.memory
        seen = fingerprint(memory.self_seeds[round], values.tobytes())
        if memory.asked.setdefault(f"vector {round}", seen) != seen:
            raise ProtocolError(f"the vector of round {round} has changed since it was first sent")

    @answers(Confirm)
    def confirm(self, ask: Confirm) -> Confirmation:
        """Sign the list of the living, once a round."""
        return self._sign(ask.round, ask.alive, ask.dropped)

    @answers(Witness)
    def witness(self, ask: Witness) -> Confirmation:
        """Sign the list of a sum that this site is not in, once a round."""
        memory, round = self.memory, ask.round
        if not memory.cohort or round >= len(memory.mask_secrets):
            raise ProtocolError(f"round {round} was not announced when joining")
        self.open_letters(ask.members, ask.letters)
        if self.badge.name in ask.participants or not set(ask.participants) <= set(ask.members):
            raise ProtocolError("a witness is asked about a sum of other members, without itself")
        known = memory.asked.get(f"among {round}", ask.about), memory.participants.get(round, ask.participants)
        if known != (ask.about, ask.participants):
            raise ProtocolError(f"another sum was asked for in round {round} already")
        memory.asked[f"among {round}"], memory.participants[round] = ask.about, ask.participants
        return self._sign(round, ask.alive, ask.dropped)

    def _sign(self, round: int, alive: tuple[str, ...], dropped: tuple[str, ...]) -> Confirmation:
        self._check_lists(round, alive, dropped)
        statement = self._statement(round, alive, dropped)
        if self.memory.asked.setdefault(f"confirm {round}", statement) != statement:
            raise ProtocolError(f"another list of living sites was confirmed in round {round} already")
        return Confirmation(signature=self.badge.identity.sign("alive", statement))

    @answers(Unmask)
    def unmask(self, ask: Unmask) -> UnmaskShares:
        """Give the shares that reveal the sum, after enough peers confirmed the same list."""
        memory, policy, me = self.memory, self.badge.policy, self.badge.name
        self._check_lists(ask.round, ask.alive, ask.dropped)
        statement = self._statement(ask.round, ask.alive, ask.dropped)
        if memory.asked.get(f"confirm {ask.round}") != statement:
            raise ProtocolError(f"this is not the list of living sites that was confirmed in round {ask.round}")
        holders = {*memory.peers, me}
        agreeing = sorted((holders & set(ask.signatures)) - set(ask.dropped))
        for name in agreeing:
            verify(self.badge.roster.get(name, b""), ask.signatures[name], "alive", statement, signer=name)
        needed = threshold(len(holders), policy.threshold)
        if len(agreeing) < needed:
            raise ProtocolError(f"{len(agreeing)} peers confirmed who is alive; {me!r} needs {needed}")
        return UnmaskShares(
            self_shares={n: memory.opened[n].self_shares[ask.round] for n in ask.alive if n in holders},
            mask_shares={n: memory.opened[n].mask_shares[ask.round] for n in ask.dropped if n in holders},
        )

    def _check_lists(self, round: int, alive: tuple[str, ...], dropped: tuple[str, ...]) -> None:
        both = sorted(set(alive) & set(dropped))
        if both:
            raise ProtocolError(f"announced as both alive and dropped: {', '.join(both)}")
        participants = self.memory.participants.get(round)
        if participants is None or {*alive, *dropped} != set(participants):
            raise ProtocolError(f"the lists of round {round} do not make up the sites it was masked for")
        if self.badge.name in dropped:
            raise ProtocolError("a site announced as dropped does not help to unmask")
        self._check_many_enough(alive)

    def _check_many_enough(self, names: Collection[str]) -> None:
        least = self.badge.policy.smallest_cohort
        if len(set(names)) < least:
            raise ProtocolError(
                f"{len(set(names))} sites are left; the policy of {self.badge.name!r} asks for at least {least}"
            )

    def _statement(self, round: int, alive: tuple[str, ...], dropped: tuple[str, ...]) -> bytes:
        masked_for = self.memory.asked[f"among {round}"]
        lists = (fingerprint(*(n.encode() for n in sorted(names))) for names in (alive, dropped))
        return fingerprint(self.run, str(round).encode(), masked_for, *lists)
