"""Joining: keys, rosters, and the ring of neighbours when sites are many."""

from __future__ import annotations

import contextlib

import fedgeom
from fedgeom.crypto.keys import Identity, exchange_public, kem_public, new_exchange_secret, new_kem_secret
from fedgeom.crypto.neighbours import neighbours
from fedgeom.errors import FedgeomError
from fedgeom.federation.messages import Refusal
from fedgeom.federation.policy import Policy
from fedgeom.protocols.join.messages import Ciphertexts, Meet, PublicKeys, cohort_seed
from tests.attacks.playing import Attack, Learnt, Liar, patients, replace

CLASSES = ("no", "yes")
WAY = fedgeom.Moments(space="euclidean", classes=CLASSES)


def grinding(method: str, policy: Policy, quick: bool) -> Learnt:
    """Let colluding sites show their keys last, and try keys until a victim's neighbours are theirs."""
    n, spies, tries = (80, 16, 40) if quick else (100, 20, 2000)
    liar = Liar(WAY, patients(n, 4), policy)
    shown: dict[str, PublicKeys] = {}
    found: dict[str, PublicKeys] = {}
    ours = [f"s{at:03d}" for at in range(n - spies, n)]
    last = ours[-1]
    best = first = -1

    def change(name: str, question: object) -> object:
        nonlocal best, first, found
        if isinstance(question, Meet) and not found:
            shown.update(question.cohort)
            spy = liar.as_site(last)
            for _ in range(tries):
                keys = shown[last]
                if best >= 0:  # the first ring is the one that chance gave
                    keys = replace(keys, letters=exchange_public(new_exchange_secret()))
                    statement = keys.statement(liar.run, last, spy.joining.memory.terms_hash)
                    keys = replace(keys, signature=spy.identity.key.sign("keys", *statement))
                cohort = shown | {last: keys}
                ring = neighbours(sorted(cohort), cohort_seed(liar.run, cohort))
                most = max(len(set(peers) & set(ours)) for name, peers in ring.items() if name not in ours)
                first = most if first < 0 else first
                if most > best:
                    best, found = most, cohort
        if isinstance(question, Meet):
            return replace(question, cohort=found)
        return None

    liar.change = change
    with contextlib.suppress(FedgeomError):
        liar.join()
    honest = [n for n, q, a in liar.heard if isinstance(a, Ciphertexts) and n not in ours]
    moved = found != shown
    if not honest or not moved:
        return liar.refusal("no other ring was found")
    return Learnt(
        f"{best} colluders next to one victim where chance gave {first}; {len(honest)} honest sites take that ring",
        bool(honest) and moved,
    )


def stranger_in_the_cohort(method: str, policy: Policy, quick: bool) -> Learnt:
    """Announce a cohort in which a site of the attacker's own making takes part."""
    liar = Liar(WAY, patients(4), policy)
    key = Identity.generate()

    def change(name: str, question: object) -> object:
        if not isinstance(question, Meet):
            return None
        some = question.cohort["s001"]
        own = replace(some, letters=exchange_public(new_exchange_secret()))
        statement = own.statement(liar.run, "zoe", liar.as_site("s000").joining.memory.terms_hash)
        own = replace(own, signature=key.sign("keys", *statement))
        return replace(question, cohort={"s000": question.cohort["s000"], "zoe": own, "s001": some})

    liar.change = change
    try:
        liar.join()
    except FedgeomError as error:
        if all(isinstance(a, Refusal) for _, q, a in liar.heard if isinstance(q, Meet)):
            return liar.refusal(error)
    return Learnt("a cohort with a stranger in it", True)


def exchanged_keys(method: str, policy: Policy, quick: bool) -> Learnt:
    """Put keys of the attacker's own into a site's place, with the old signature."""
    refused = Learnt("no site was asked", False)
    for own in ({"letters": exchange_public(new_exchange_secret())}, {"kem": kem_public(new_kem_secret())}):
        liar = Liar(WAY, patients(4), policy)

        def change(name: str, question: object, own: dict[str, bytes] = own) -> object:
            if not isinstance(question, Meet):
                return None
            return replace(question, cohort=question.cohort | {"s001": replace(question.cohort["s001"], **own)})

        liar.change = change
        try:
            liar.join()
        except FedgeomError as error:
            refused = liar.refusal(error)
        else:
            return Learnt("letters sealed for a key of the attacker's", True)
    return refused


def small_cohort(method: str, policy: Policy, quick: bool) -> Learnt:
    """Let two sites join, where their policy asks for three."""
    liar = Liar(WAY, patients(2), policy)
    try:
        liar.join()
    except FedgeomError as error:
        return liar.refusal(error)
    return Learnt("a cohort of two", True)


ATTACKS = (
    Attack(
        "a ring that colluders choose",
        ("moments",),
        "20 colluders of 100 found an unlucky ring in 26 s",
        grinding,
        "permissive",
    ),
    Attack("a stranger in the cohort", ("moments",), "held", stranger_in_the_cohort, "permissive"),
    Attack("exchanged keys", ("moments",), "held", exchanged_keys, "permissive"),
    Attack("a cohort that is too small", ("moments",), "held", small_cohort, "permissive"),
)
