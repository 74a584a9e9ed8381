"""A coordinator that lies, alone or with a site on its side."""

from __future__ import annotations

import os
from typing import Any, TypeVar

import msgspec
import numpy as np

from fedgeom.crypto.masks import Ring, expand
from fedgeom.crypto.neighbours import COMPLETE_UP_TO
from fedgeom.engines.embedded import EmbeddedEngine
from fedgeom.federation.messages import Message, Question, Refusal, decode, pack, unpack
from fedgeom.federation.method import Method
from fedgeom.federation.policy import Policy
from fedgeom.protocols.join.messages import (
    Ciphertexts,
    DrawRing,
    Hello,
    Letters,
    Meet,
    PublicKeys,
    RingNumber,
    Share,
    cohort_seed,
)
from fedgeom.protocols.secure_sum.messages import (
    Confirm,
    Confirmation,
    MaskedVector,
    SumQuestion,
    Ticket,
    Unmask,
    hash_question,
    own_key,
)
from fedgeom.protocols.site import SecureMemory
from tests.protocols.summing import ColumnSum, SumColumn, make_sites

M = TypeVar("M", bound=Message)
Q = TypeVar("Q", bound=SumQuestion)
replace = msgspec.structs.replace

ME = "s0000"


def stamped(question: Q) -> Q:
    """Return a question whose ticket is made out for it."""
    return replace(question, ticket=replace(question.ticket, question_hash=hash_question(question)))


class Lying:
    """A coordinator that asks what it likes, in the order it likes."""

    def __init__(self, n: int = 4, *, policy: Policy | None = None, method: Method | None = None):
        self.method = method or ColumnSum(rounds=2)
        self.engine = EmbeddedEngine(self.method, make_sites(n), policy=policy)
        self.names = self.engine.names
        self.run = os.urandom(32)
        self.memories: dict[str, bytes] = {}
        self.keys: dict[str, PublicKeys] = {}
        self.numbers: dict[str, bytes] = {}
        self.masked: dict[str, bytes] = {}
        """The signatures that came with masked vectors of round 0."""
        self.mail: dict[str, dict[str, bytes]] = {name: {} for name in self.names}
        self.ciphertexts: dict[str, dict[str, bytes]] = {name: {} for name in self.names}
        """For each site those that came for it, by sender."""
        self.locked: dict[str, tuple[bytes, ...]] = {}

    def ask(self, name: str, question: Question, *, run: bytes | None = None) -> Any:
        """Ask, keep the site's memory as an engine would, and return its answer or refusal."""
        request = pack(run or self.run, self.method.name, question)
        reply, self.memories[name] = self.engine.runners[name].answer(request, self.memories.get(name))
        frame = unpack(reply)
        return decode(frame.body, Refusal if frame.kind == "refusal" else question.answer)

    def get(self, name: str, question: Question, expect: type[M]) -> M:
        answer = self.ask(name, question)
        assert isinstance(answer, expect), answer
        return answer

    def refused(self, name: str, question: Question, reason: str, *, run: bytes | None = None) -> None:
        """Ask and see it refused for this reason, with the memory left as it was."""
        before = self.memories.get(name) or b""
        answer = self.ask(name, question, run=run)
        assert isinstance(answer, Refusal), answer
        assert reason in answer.reason
        assert self.memories[name] == before

    def invitation(self, **changes: Any) -> Hello:
        """Return an honest invitation, or one that differs from it."""
        rounds = len(self.method.site.all_sums(self.method))  # type: ignore[attr-defined]
        return replace(
            Hello(rounds=rounds, terms=self.method.terms(), participants=tuple(sorted(self.names))), **changes
        )

    def hello(self) -> Lying:
        self.keys = {name: self.get(name, self.invitation(), PublicKeys) for name in self.names}
        return self

    def draw(self, draw: int = 0) -> dict[str, bytes]:
        """Have the ring drawn, where there are so many sites that it is."""
        if len(self.names) <= COMPLETE_UP_TO:
            return {}
        question = DrawRing(cohort=self.keys, draw=draw)
        return {name: self.get(name, question, RingNumber).number for name in self.names}

    def cohort(self) -> Meet:
        """Return what all are told of the cohort."""
        return Meet(cohort=self.keys, numbers=self.numbers)

    @property
    def seed(self) -> bytes:
        """What the neighbourhoods follow from."""
        return cohort_seed(self.run, self.keys, self.numbers)

    def meet(self) -> Lying:
        self.numbers = self.draw()
        for name in self.names:
            for to, ciphertext in self.get(name, self.cohort(), Ciphertexts).ciphertexts.items():
                self.ciphertexts[to][name] = ciphertext
        return self

    def share(self) -> Lying:
        self.meet()
        for name in self.names:
            sent = self.get(name, Share(ciphertexts=self.ciphertexts[name]), Letters)
            self.locked[name] = sent.locked
            for to, letter in sent.letters.items():
                self.mail[to][name] = letter
        return self

    def ticket(self, name: str, **changes: Any) -> Ticket:
        fields: dict[str, Any] = {"round": 0, "modulus": str(2**64)}
        fields |= {"members": self.names, "participants": self.names, "letters": self.mail[name]}
        return Ticket(**(fields | changes))

    def column(self, name: str, *, times: int = 1, **changes: Any) -> SumColumn:
        return stamped(SumColumn(ticket=self.ticket(name, **changes), times=times))

    def sum(self) -> dict[str, MaskedVector]:
        sent = {name: self.get(name, self.column(name), MaskedVector) for name in self.names}
        self.masked = {name: answer.signature for name, answer in sent.items()}
        return sent

    def confirm(self, **lists: Any) -> dict[str, bytes]:
        question = Confirm(**({"round": 0, "alive": self.names, "dropped": ()} | lists))
        return {name: self.get(name, question, Confirmation).signature for name in question.alive}

    def unmask(self, signatures: dict[str, bytes], **lists: Any) -> Unmask:
        said = {"round": 0, "alive": self.names, "dropped": (), "signatures": signatures, "masked": self.masked}
        return Unmask(**(said | lists))

    def memory(self, name: str) -> SecureMemory:
        return msgspec.msgpack.decode(self.memories[name], type=SecureMemory)

    def as_site(self, name: str) -> Any:
        """Act as a site that has changed sides."""
        return self.engine.runners[name].restore(self.run, self.memories[name])

    def signed_by(self, name: str, keys: PublicKeys) -> PublicKeys:
        """Let a site that has changed sides sign other keys."""
        statement = keys.statement(self.run, name, self.memory(name).joining.terms_hash)
        return replace(keys, signature=self.engine.runners[name].identity.key.sign("keys", *statement))


def summed(n: int = 5) -> Lying:
    """Return a run in which all sites have sent their masked vectors of round 0."""
    lie = Lying(n).hello().share()
    lie.sum()
    return lie


def own_mask(lie: Lying, name: str, question: SumColumn) -> np.ndarray:
    """Return the mask of a site's own, as the coordinator gets to know it in the end."""
    key = own_key(lie.memory(name).joining.self_seeds[0], question.ticket.question_hash)
    return expand(key, Ring(2**64), 7)
