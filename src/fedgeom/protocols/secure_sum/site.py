"""The site's half of a secure sum: mask a vector, confirm who is there, give shares that unmask the sum."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import msgspec
import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.poly1305 import Poly1305

from fedgeom.arrays import Words
from fedgeom.crypto.keys import fingerprint, hash_names, verify_each
from fedgeom.crypto.masks import add_masks, key_at, mask_keys, proof_of
from fedgeom.crypto.tags import WORDS, is_sum, site_tag
from fedgeom.errors import InputError, ProtocolError
from fedgeom.federation.messages import Array, bytes_of, lengthened
from fedgeom.federation.site import Part, answers
from fedgeom.protocols.join.site import JoinPart, name_set, pack_names
from fedgeom.protocols.secure_sum.messages import (
    Confirm,
    Confirmation,
    MaskedVector,
    SumQuestion,
    SumResult,
    Ticket,
    Unmask,
    UnmaskShares,
    Witness,
    hash_ticket,
    hashes_of,
    masking_statement,
    own_key,
    tag_key,
    uneven,
)
from fedgeom.protocols.secure_sum.rules import (
    CohortRules,
    SumRound,
    SumsMemory,
    agreed_total,
    bound_of,
    check_parts,
    check_sum,
    draw_of,
    first_rounds,
    group_of,
    own_group,
)


class SumPart(Part[SumsMemory]):
    """Takes part in secure sums, each in a round of its own."""

    name: ClassVar[str] = "sums"

    @classmethod
    def unmasked(cls) -> type[Part[Any]]:
        """Return the part that adds to the sums of a plain run."""
        return OpenSums

    @property
    def joining(self) -> JoinPart:
        """The part that joined: it has the keys."""
        found: JoinPart = self.site.joining  # type: ignore[attr-defined]
        return found

    def round(self, number: int) -> SumRound:
        """Return what is remembered of a round, a blank page at first."""
        return self.memory.rounds.setdefault(number, SumRound())

    @property
    def hiding(self) -> CohortRules:
        """The rules over whom may be summed."""
        return CohortRules(self.joining, self.memory)

    def admit(self, question: SumQuestion) -> None:
        """Take a question's ticket: read the mail, and refuse a second, different sum in the same round.

        The same question again is admitted as it was: who is lost in the meantime plays no part in it.
        """
        ticket = question.ticket
        joined = self.joining.memory
        me = self.site.name
        content, asked = hashes_of(question)
        if ticket.question_hash != asked:
            raise ProtocolError("the ticket was made out for another question")
        if not joined.cohort:
            raise ProtocolError("a sum was asked for before the site joined")
        if ticket.round >= len(joined.sums):
            raise ProtocolError(f"round {ticket.round} was not announced when joining")
        planned = joined.sums[ticket.round]
        if planned != question.kind:
            raise ProtocolError(f"round {ticket.round} of this run is for {planned!r}, not {question.kind!r}")
        self.joining.open_letters(ticket.members, ticket.letters)
        participants = name_set(ticket.participants)
        if me not in participants or not participants <= name_set(ticket.members):
            raise ProtocolError("the announced participants are not a part of the members with this site in it")
        page = self.round(ticket.round)
        if page.participants and me not in page.participants:
            raise ProtocolError(f"this site was a witness in round {ticket.round}; it is not summed there")
        if page.question_hash and page.question_hash != ticket.question_hash:
            raise ProtocolError(f"the masks of round {ticket.round} were used for another question already")
        if page.question_hash:
            return
        self.joining.parts.check(ticket.round, participants)
        expected = self.site.expected_participants(question)  # type: ignore[attr-defined]
        group = group_of(self.site, question.kind, {me})
        if group:
            expected = group
        self.hiding.check_participants(question, content, expected, group)
        if question.weights:
            self.weigh(page, question.weights, ticket.participants)
        page.question_hash = ticket.question_hash
        page.content = content
        page.participants_bytes = pack_names(ticket.participants)
        page.everybody = expected is None

    def mask(self, ticket: Ticket, vector: Words, *, in_place: bool = False) -> MaskedVector:
        """Hide a vector of ring elements behind this round's masks.

        The same ticket and vector give the same masked vector again, so asking twice shows nothing
        new; a different vector under the same masks would show the difference and is refused. ``in_place``: the
        vector is no longer needed and may be written over.
        """
        values = ticket.ring.check(vector)
        self.remember_vector(ticket.round, values)
        plus, minus = self.pair_keys(ticket)
        own = own_key(self.joining.memory.self_seeds[ticket.round], ticket.question_hash)
        masked = add_masks(values, ticket.ring, plus=[own, *plus], minus=minus, in_place=in_place)
        return MaskedVector(vector=Array.of(masked, copy=False), signature=self.sign_masked(ticket.round))

    def sign_masked(self, number: int) -> bytes:
        """Sign for which sum a vector was masked: nobody can then say that it was for another."""
        return self.site.identity.key.sign("masked", self._masked_for(number))

    def _masked_for(self, number: int) -> bytes:
        page = self.round(number)
        return masking_statement(
            self.site.run, number, page.question_hash, page.content, page.participants, page.factors
        )

    def tagged(self, ticket: Ticket, vector: Words, *, in_place: bool = False) -> Words:
        """Return a vector with its tag behind it, for a sum that sites can check later."""
        key = tag_key(self.joining.memory.secret, ticket.round, ticket.question_hash)
        tag = site_tag(key, self.site.name, vector.view(np.int64))
        return lengthened(vector, tag) if in_place else np.concatenate([vector, tag])

    def check_result(self, result: SumResult, question: type[SumQuestion]) -> None:
        """Refuse a sum of a kind that is not the one which the sites it names have added up.

        A coordinator that has no site on its side cannot make up another: it would have to guess the tag.
        """
        if question.in_groups and draw_of(self.joining.settings) is not None:
            self._check_groups(result, question)
            return
        page = self.memory.rounds.get(result.round, SumRound())
        planned = self.joining.memory.sums
        if result.groups or not page.vector_hash or planned[result.round] != question.kind or not question.checked:
            raise ProtocolError(f"a sum of round {result.round} came; this site added nothing of that kind to it")
        self.joining.check_many_enough(result.sites)
        if list(result.sites) != sorted(set(result.sites) & set(page.participants)):
            raise ProtocolError("the sum that came is not one of the sites that were asked for it")
        total = result.total
        tag = result.tag
        if total.dtype != "u8" or len(total.shape) != 1 or (tag.dtype, tag.shape) != ("u8", (WORDS,)):
            raise ProtocolError("the sum that came is no list of ring elements with a tag")
        key = tag_key(self.joining.memory.secret, result.round, page.question_hash)
        if not is_sum(key, result.sites, total.view().view(np.int64), tag.numpy().tolist()):
            raise ProtocolError("the sum that came is not the one that the sites added up: its tag does not fit")
        check_sum(question, total.view(), len(result.sites), bound_of(self.joining.settings))

    def _check_groups(self, result: SumResult, question: type[SumQuestion]) -> None:
        """Refuse a total that does not follow from the sums which the drawn groups have added up."""
        parts = result.groups
        own = result.round + own_group(self.site)
        page = self.memory.rounds.get(own, SumRound())
        if not page.vector_hash or self.joining.memory.sums[own] != question.kind or not question.checked:
            raise ProtocolError(f"sums of groups from round {result.round} on came; this site added nothing there")
        if any(one.round != result.round + one.group or one.total.shape != parts[0].total.shape for one in parts):
            raise ProtocolError("the sums of groups that came are not those of one step")
        if list(result.sites) != sorted(name for one in parts for name in one.sites):
            raise ProtocolError("the sum that came is not one of the groups' sites")
        # All groups are asked the same, each with tickets of its own.
        check_parts(self.site, parts, question, lambda ticket, _: hash_ticket(ticket, page.content))
        total = agreed_total(question, [one.total.view() for one in parts], [len(one.sites) for one in parts])
        if not np.array_equal(total, result.total.view()):
            raise ProtocolError("the total that came does not follow from the groups' sums")

    def steps(self) -> list[str]:
        """Return the kinds of the run's sums; one that groups take apart counts once."""
        planned = self.joining.memory.sums
        return [planned[at] for at in self._first_rounds()]

    def step_of(self, round: int) -> int:
        """Return which of `steps` a round belongs to."""
        return bisect_right(self._first_rounds(), round) - 1

    def _first_rounds(self) -> list[int]:
        return first_rounds(type(self.site), self.joining.settings, self.joining.memory.sums)

    def pair_keys(self, ticket: Ticket) -> tuple[list[bytes], list[bytes]]:
        """Return the mask keys shared with the peers in a sum: those to add, and those to take away."""
        joined = self.joining.memory
        me = self.site.name
        participants = name_set(ticket.participants)
        keys = joined.pair_keys[ticket.round]
        plus: list[bytes] = []
        minus: list[bytes] = []
        for place, peer in enumerate(joined.peers):
            if peer in participants:
                (plus if me < peer else minus).append(key_at(keys, place))
        return mask_keys(plus, ticket.question_hash), mask_keys(minus, ticket.question_hash)

    def remember_vector(self, number: int, values: npt.NDArray[np.uint64]) -> None:
        """Refuse a second, different vector in one round: under the same masks it would show the difference."""
        # A keyed hash that only this site ever sees: Poly1305 is four times as fast as SHA-256.
        seen = Poly1305.generate_tag(
            fingerprint(b"vector", self.joining.memory.self_seeds[number]), bytes_of(values)
        )
        page = self.round(number)
        if page.vector_hash and page.vector_hash != seen:
            # It depends on the data, which changed in the middle of a run: the site leaves.
            raise InputError(f"the vector of round {number} has changed since it was first sent")
        page.vector_hash = seen

    @answers(Confirm)
    def confirm(self, ask: Confirm) -> Confirmation:
        """Sign the list of the living, once a round, if everybody on it hides among enough."""
        return self._sign(ask.round, ask.alive, ask.dropped)

    def weigh(self, page: SumRound, factors: Mapping[str, float], participants: Sequence[str]) -> None:
        """Take note of a sum's weights, after a look at whether they mix enough sites."""
        if set(factors) != set(participants):
            raise ProtocolError("the weights are not those of the sites that are summed")
        self.hiding.check_mixture(factors)
        page.factors = uneven(factors)

    @answers(Witness)
    def witness(self, ask: Witness) -> Confirmation:
        """Sign the list of a sum that this site is not in, once a round."""
        joined = self.joining.memory
        number = ask.round
        if not joined.cohort or number >= len(joined.mask_secrets):
            raise ProtocolError(f"round {number} was not announced when joining")
        self.joining.open_letters(ask.members, ask.letters)
        if self.site.name in ask.participants or not set(ask.participants) <= set(ask.members):
            raise ProtocolError("a witness is asked about a sum of other members, without itself")
        self.joining.parts.check(number, ask.participants)
        group_of(self.site, joined.sums[number], ask.participants)
        page = self.round(number)
        told = ask.question_hash, ask.content, ask.participants
        if page.participants and (page.question_hash, page.content, page.participants) != told:
            raise ProtocolError(f"another sum was asked for in round {number} already")
        if ask.factors:
            self.weigh(page, ask.factors, ask.participants)
        page.question_hash = ask.question_hash
        page.content = ask.content
        page.participants_bytes = pack_names(ask.participants)
        return self._sign(number, ask.alive, ask.dropped)

    def _sign(self, number: int, alive: tuple[str, ...], dropped: tuple[str, ...]) -> Confirmation:
        self._check_lists(number, alive, dropped)
        page = self.round(number)
        statement = self._statement(number, alive, dropped)
        if page.confirmed and page.confirmed != statement:
            raise ProtocolError(f"another list of living sites was confirmed in round {number} already")
        if not page.confirmed:
            group = group_of(self.site, self.joining.memory.sums[number], page.participants)
            self.hiding.check_living(page, alive, group)
            self.hiding.remember(page, alive, group)
            page.confirmed = statement
        return Confirmation(signature=self.site.identity.key.sign("alive", statement))

    @answers(Unmask)
    def unmask(self, ask: Unmask) -> UnmaskShares:
        """Give the shares that reveal the sum, after enough peers confirmed the same list."""
        joined = self.joining.memory
        site = self.site
        self._check_lists(ask.round, ask.alive, ask.dropped)
        statement = self._statement(ask.round, ask.alive, ask.dropped)
        if self.round(ask.round).confirmed != statement:
            raise ProtocolError(f"this is not the list of living sites that was confirmed in round {ask.round}")
        holders = {*joined.peers, site.name}
        agreeing = sorted((holders & set(ask.signatures)) - set(ask.dropped))
        verify_each(site.identity.roster, {name: ask.signatures[name] for name in agreeing}, "alive", statement)
        needed = self.joining.holders_needed()
        if len(agreeing) < needed:
            raise ProtocolError(f"{len(agreeing)} peers confirmed who is alive; {site.name!r} needs {needed}")
        # Who signed the list is bound to the same question by it; of the others, their masked vectors' signatures tell.
        self._check_masked(ask.round, sorted((holders & name_set(ask.alive)) - set(agreeing)), ask.masked)
        held = joined.held(ask.round)
        lost = set(ask.dropped)
        keys = joined.pair_keys[ask.round]
        pairs = enumerate(joined.peers)
        return UnmaskShares(
            proofs={peer: proof_of(key_at(keys, place)) for place, peer in pairs if keys and peer in lost},
            self_shares={name: held.selves[name] for name in sorted(holders & name_set(ask.alive))},
            mask_shares={name: held.masks[name] for name in ask.dropped if name in holders},
        )

    def _check_lists(self, number: int, alive: tuple[str, ...], dropped: tuple[str, ...]) -> None:
        if self._is_row_sum(number):  # there a site has no mask of its own: a mask key would show its vector
            raise ProtocolError(f"round {number} is a row sum, of which nothing is unmasked")
        both = sorted(name_set(alive).intersection(dropped))
        if both:
            raise ProtocolError(f"announced as both alive and dropped: {', '.join(both)}")
        page = self.memory.rounds.get(number, SumRound())
        if not page.participants or name_set(alive).union(dropped) != name_set(page.participants):
            raise ProtocolError(f"the lists of round {number} do not make up the sites it was masked for")
        if self.site.name in dropped:
            raise ProtocolError("a site announced as dropped does not help to unmask")
        self.joining.check_many_enough(name_set(alive))

    def _check_masked(self, number: int, living: Sequence[str], masked: Mapping[str, bytes]) -> None:
        """Refuse to unmask a site that did not mask for this very sum.

        A site that was told of another sum, over a few sites, shares masks with these few only. The keys of the few,
        given away because they are lost in this sum, would take its masks off.
        """
        if not living:
            return
        statement = self._masked_for(number)
        roster = self.site.identity.roster
        missing = sorted(set(living) - set(masked))
        if missing:
            raise ProtocolError(f"no signature shows that {', '.join(missing[:8])} masked for this sum")
        verify_each(roster, {name: masked[name] for name in living}, "masked", statement)

    def _is_row_sum(self, number: int) -> bool:
        planned = self.joining.memory.sums
        kind = planned[number] if 0 <= number < len(planned) else ""
        question = self.site.understands().get(kind)
        return question is not None and issubclass(question, SumQuestion) and question.row_sum

    def _statement(self, number: int, alive: tuple[str, ...], dropped: tuple[str, ...]) -> bytes:
        lists = (hash_names(tuple(sorted(names))) for names in (alive, dropped))
        page = self.round(number)
        weights = msgspec.msgpack.encode(page.factors, order="sorted")
        return fingerprint(self.site.run, str(number).encode(), page.question_hash, page.content, weights, *lists)


class OpenSums(SumPart):
    """Takes part in the sums of a plain run: vectors go as they are, and there is nothing to confirm or to check."""

    def admit(self, question: SumQuestion) -> None:
        """Every sum is admitted: the coordinator is this very process."""

    def mask(self, ticket: Ticket, vector: Words, *, in_place: bool = False) -> MaskedVector:
        """Return the vector itself."""
        return MaskedVector(vector=Array.of(ticket.ring.check(vector), copy=False), signature=self.sign_masked(0))

    def sign_masked(self, number: int) -> bytes:
        """Sign nothing."""
        return bytes(64)

    def tagged(self, ticket: Ticket, vector: Words, *, in_place: bool = False) -> Words:
        """Return a vector with an empty tag behind it."""
        tag = np.zeros(WORDS, np.uint64)
        return lengthened(vector, tag) if in_place else np.concatenate([vector, tag])

    def check_result(self, result: SumResult, question: type[SumQuestion]) -> None:
        """The sum is the one that this process has added up."""

    def remember_vector(self, number: int, values: npt.NDArray[np.uint64]) -> None:
        """No mask is used twice: there is none."""
