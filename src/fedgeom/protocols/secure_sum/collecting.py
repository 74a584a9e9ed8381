"""The coordinator asks for masked vectors and adds them up as they come; nothing is unmasked here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import msgspec
import numpy as np

from fedgeom.arrays import Words, many_zeros
from fedgeom.crypto.rings import Ring
from fedgeom.federation.conversation import Answers
from fedgeom.federation.messages import Array
from fedgeom.protocols.joining.coordinator import Joined
from fedgeom.protocols.secure_sum.messages import (
    MaskedVector,
    SumQuestion,
    Ticket,
    hash_content,
    hash_question,
)

Q = TypeVar("Q", bound=SumQuestion)


def make_out(
    question: Q, joined: Joined, round: int, modulus: int, participants: tuple[str, ...], content: bytes = b""
) -> Q:
    """Return the question with a ticket for one round over these sites, still without anybody's mail.

    ``content`` is `hash_content` where that is known.
    """
    ticket = Ticket(round=round, modulus=str(modulus), members=joined.names, participants=participants)
    blank = msgspec.structs.replace(question, ticket=ticket)
    stamped = msgspec.structs.replace(ticket, question_hash=hash_question(blank, content))
    return msgspec.structs.replace(blank, ticket=stamped)


def with_mail(question: Q, letters: Mapping[str, bytes]) -> Q:
    """Return the question with one site's mail in its ticket; without any, the very same, which is encoded once."""
    if not letters:
        return question
    return msgspec.structs.replace(
        question, ticket=msgspec.structs.replace(question.ticket, letters=dict(letters))
    )


@dataclass(frozen=True)
class Collected:
    """What came for one sum, before anything is unmasked."""

    asked: SumQuestion
    """The question as it was put to all, without anybody's mail."""
    content: bytes
    """`hash_content` of it."""
    length: int
    total: Words
    """(length,): the masked vectors, added up."""
    masked: Answers[MaskedVector]
    """Whose they are, with their signatures; the vectors themselves are not kept."""


def collect(
    joined: Joined,
    round: int,
    question: SumQuestion,
    *,
    modulus: int,
    length: int,
    participants: Iterable[str],
    min_sites: int = 2,
) -> Collected:
    """Put a question to the participants and return what can be summed, still masked."""
    summed = tuple(sorted(participants))
    content = hash_content(question)
    asked = make_out(question, joined, round, modulus, summed, content)
    questions = {name: with_mail(asked, joined.mail[name]) for name in summed}
    return _collected(joined, asked, questions, content, length, min_sites)


def collect_again(joined: Joined, found: Collected, living: Iterable[str], *, min_sites: int = 2) -> Collected:
    """Return what some of the sites of a sum sent, without the others: they send the same again, under the same masks.

    The coordinator keeps no masked vectors, so those of sites that no longer count cannot be taken out of a total.
    """
    questions = dict.fromkeys(sorted(living), found.asked)
    return _collected(joined, found.asked, questions, found.content, found.length, min_sites)


def _collected(
    joined: Joined,
    asked: SumQuestion,
    questions: Mapping[str, SumQuestion],
    content: bytes,
    length: int,
    min_sites: int,
) -> Collected:
    while True:
        total, masked = _add_up(joined, questions, asked.ticket.ring, length)
        masked.need(min_sites, "with their masked vectors")
        if not _keep_to_policies(joined, masked):
            return Collected(asked, content, length, total, masked)
        masked.need(min_sites, "with their masked vectors")
        questions = dict.fromkeys(masked, asked)


def _add_up(
    joined: Joined, questions: Mapping[str, SumQuestion], ring: Ring, length: int
) -> tuple[Words, Answers[MaskedVector]]:
    """Ask for masked vectors and add them up as they come; sites whose vectors cannot be added are left out in words.

    None is kept: the coordinator needs room for two vectors, not for one of each site.
    """
    total = many_zeros(length, np.uint64)
    problems: dict[str, str] = {}

    def add(name: str, answer: MaskedVector) -> MaskedVector:
        values = answer.vector.view()
        if values.shape != (length,) or values.dtype != np.uint64 or _too_large(values, ring):
            problems[name] = (
                f"sent {values.shape} numbers of {values.dtype} where {length} ring elements were wanted"
            )
        else:
            ring.add_to(total, values)
        return msgspec.structs.replace(answer, vector=Array.of(np.empty(0, np.uint64)))

    masked = joined.sites.ask(questions, expect=MaskedVector, take=add)
    joined.delivered(masked)
    _leave_out(joined, masked, problems)
    return total, masked


def _too_large(values: Words, ring: Ring) -> bool:
    return ring.bits < 64 and bool(len(values)) and int(values.max()) >= ring.modulus


def _keep_to_policies(joined: Joined, masked: Answers[MaskedVector]) -> bool:
    """Leave out sites whose policy asks for more sites than are left: the others would refuse to sum with them.

    Return whether there were any.
    """
    wanted, came = {name: joined.keys[name].min_cohort for name in masked}, len(masked)
    while few := [name for name in masked if wanted[name] > len(masked)]:
        left = len(masked)
        problems = {name: f"{left} sites are left; its policy asks for at least {wanted[name]}" for name in few}
        _leave_out(joined, masked, problems)
    return len(masked) < came


def _leave_out(joined: Joined, masked: Answers[MaskedVector], problems: Mapping[str, str]) -> None:
    for name, problem in problems.items():
        masked.missing[name] = problem
        del masked.came[name]
        joined.sites.leave_out(name, problem)
