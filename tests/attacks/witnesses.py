"""Witnesses, and the graph of masks over the living."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

import fedgeom
from fedgeom.crypto import shamir
from fedgeom.crypto.masks import add_masks
from fedgeom.errors import FedgeomError
from fedgeom.federation.messages import Array, Refusal
from fedgeom.federation.policy import Policy
from fedgeom.methods.iterative.messages import TrainMasked
from fedgeom.methods.iterative.training import TrainingLoop
from fedgeom.methods.iterative.tree import Tree, to_wire
from fedgeom.methods.xclp.messages import Spread
from fedgeom.protocols.fixed_point import RING, from_fixed
from fedgeom.protocols.join.messages import lock_seal
from fedgeom.protocols.secure_sum.coordinator import _keys_to_remove
from fedgeom.protocols.secure_sum.messages import (
    Confirmation,
    MaskedVector,
    Ticket,
    Unmask,
    UnmaskShares,
    Witness,
    hash_content,
)
from tests.attacks.playing import LOSE, Attack, Learnt, Liar, patients, replace, rounds_of, same, stamped
from tests.attacks.singling import VICTIM, own_vector, way


def cut_off(method: str, policy: Policy, quick: bool) -> Learnt:
    """With more than 48 sites: sum a victim, two neighbours and three far sites, and call the neighbours lost.

    The victim shares masks with the neighbours only. Their keys are given back, and its vector stands alone.
    """
    m = way(method, n_rounds=1, scale="none")
    liar = Liar(m, patients(60 if quick else 100, 4, classes=("no", "yes")), policy)
    talk = TrainingLoop(m, liar.talk)
    try:
        talk.agree()
        joined = talk.cohort.joined
        near = joined.peers[VICTIM]
        far = [name for name in talk.cohort.names if name not in near and name != VICTIM][:3]
        lost = near[:2]
        six = tuple(sorted((VICTIM, *lost, *far)))
        given = to_wire(Tree(m.start(Tree(intercept=np.zeros(1), weights=np.zeros((4, 1))))).select(m.gives))
        question = TrainMasked(round=0, given=given, factors=dict.fromkeys(six, 1.0), agreed=talk.agreed.hash)
        liar.change = lambda name, q: LOSE if isinstance(q, TrainMasked) and name in lost else None
        length = Tree(m.sent_like(Tree(intercept=np.zeros(1), weights=np.zeros((4, 1))))).size + 3
        liar.sum(talk.cohort, question, rounds_of(m, TrainMasked)[0], length, six)
    except FedgeomError as error:
        return liar.refusal(error)
    asked = next(q for n, q, _ in liar.heard if n == VICTIM and isinstance(q, TrainMasked))
    masked = next(a for n, _, a in liar.heard if n == VICTIM and isinstance(a, MaskedVector))
    shares = {n: a for n, _, a in liar.heard if isinstance(a, UnmaskShares)}
    plus, minus = _keys_to_remove(joined, asked.ticket, (VICTIM,), lost, shares)
    found = from_fixed(
        add_masks(masked.vector.numpy(), RING, plus=plus, minus=minus), fraction_bits=question.fraction_bits
    )
    truth = own_vector(liar, VICTIM, asked)
    return Learnt(f"the victim's {len(truth)} numbers exactly", True) if same(found, truth) else liar.refusal()


def witnessed_row_sum(method: str, policy: Policy, quick: bool) -> Learnt:
    """After a row sum, let those outside it witness that the victim was lost in it, and give its only mask key back."""
    m = fedgeom.XCLP(hash_bits=64, hamming="ot", hide_labelled=True, classes=("no", "yes"))
    liar = Liar(m, patients(12, 4), policy)
    cohort = liar.join()
    names, rows = cohort.names, 4
    number = rounds_of(m, Spread)[0]
    three = names[:3]
    layout = {name: (rows * at, rows * (at + 1)) for at, name in enumerate(three)}
    ticket = Ticket(
        round=number, modulus=str(2**64), members=names, participants=three, letters=dict(cohort.mail[VICTIM])
    )
    ask = Spread(
        ticket=ticket, classes=("no", "yes"), layout=layout, columns=Array.of(np.eye(12, 4, dtype=np.float32))
    )
    answer = liar.ask(VICTIM, stamped(ask))
    if isinstance(answer, Refusal):
        return liar.refusal()
    lists: dict[str, Any] = {"alive": three[1:], "dropped": (VICTIM,)}
    signatures, shares = {}, {}
    for name in names[3:]:
        said = liar.ask(
            name,
            Witness(
                round=number,
                question_hash=stamped(ask).ticket.question_hash,
                content=hash_content(ask),
                members=names,
                participants=three,
                letters=dict(cohort.mail[name]),
                **lists,
            ),
        )
        if isinstance(said, Confirmation):
            signatures[name] = said.signature
    for name in signatures:
        said = liar.ask(name, Unmask(round=number, signatures=signatures, masked={}, **lists))
        if isinstance(said, UnmaskShares):
            shares[cohort.joined.numbers()[name]] = said.mask_shares[VICTIM]
    needed = cohort.joined.needed[VICTIM]
    if len(shares) < needed:
        return Learnt(f"{len(shares)} of {needed} shares; {liar.refusal().now}", False)
    key = shamir.recover(shares, needed)
    fits = lock_seal(key) == cohort.joined.keys[VICTIM].masks[number]
    return Learnt("the victim's only mask key, and so all of its labels", fits)


def witnessed_twice(method: str, policy: Policy, quick: bool) -> Learnt:
    """Have one half sign one list, the other half another: own masks from one, keys from the other."""
    m = way(method, n_rounds=1, scale="none")
    liar = Liar(m, patients(9), policy)
    talk = TrainingLoop(m, liar.talk)
    talk.agree()
    names = talk.cohort.names
    given = to_wire(Tree(m.start(Tree(intercept=np.zeros(1), weights=np.zeros((4, 1))))).select(m.gives))
    question = TrainMasked(round=0, given=given, factors=dict.fromkeys(names, 1.0), agreed=talk.agreed.hash)
    first, others = names[:5], tuple(name for name in names if name != VICTIM)
    full = names
    seen: dict[str, UnmaskShares] = {}

    def change(name: str, q: Any) -> Any:
        if q.kind == "sum.confirm" and name not in first:
            return replace(q, alive=others, dropped=(VICTIM,))
        if q.kind == "sum.unmask" and name not in first:
            return replace(q, alive=others, dropped=(VICTIM,))
        return None

    liar.change = change
    with contextlib.suppress(FedgeomError):
        liar.sum(talk.cohort, question, rounds_of(m, TrainMasked)[0], 8, full)
    for name, _, answer in liar.heard:
        if isinstance(answer, UnmaskShares):
            seen[name] = answer
    own = sum(VICTIM in answer.self_shares for answer in seen.values())
    keys = sum(VICTIM in answer.mask_shares for answer in seen.values())
    needed = talk.cohort.joined.needed[VICTIM]
    return Learnt(
        f"{own} and {keys} of the {needed} shares that each kind needs", own >= needed and keys >= needed
    )


def told_of_another_sum(method: str, policy: Policy, quick: bool) -> Learnt:
    """Tell the victim of a sum with two others only, everybody else of a sum over all in which these two are lost.

    The victim shares masks with the two alone. Their keys are given back for the large sum, and the victim's own mask
    as well, since it is on the list of the living there.
    """
    m = way(method, n_rounds=1, scale="none")
    liar = Liar(m, patients(9), policy)
    talk = TrainingLoop(m, liar.talk)
    talk.agree()
    names = talk.cohort.names
    few, lost = names[:3], names[1:3]
    given = to_wire(Tree(m.start(Tree(intercept=np.zeros(1), weights=np.zeros((4, 1))))).select(m.gives))
    question = TrainMasked(round=0, given=given, factors=dict.fromkeys(names, 1.0), agreed=talk.agreed.hash)
    length = Tree(m.sent_like(Tree(intercept=np.zeros(1), weights=np.zeros((4, 1))))).size + 3

    def change(name: str, q: Any) -> Any:
        if isinstance(q, TrainMasked):
            if name in lost:
                return LOSE
            if name == VICTIM:
                ticket = replace(q.ticket, participants=few)
                return stamped(q, ticket=ticket, factors=dict.fromkeys(few, 1.0))
        return LOSE if name == VICTIM and not isinstance(q, TrainMasked) else None

    liar.change = change
    with contextlib.suppress(
        FedgeomError
    ):  # the honest half stumbles over the victim's vector; the shares are heard
        liar.sum(talk.cohort, question, rounds_of(m, TrainMasked)[0], length, names)
    masked = [(q, a) for n, q, a in liar.heard if n == VICTIM and isinstance(a, MaskedVector)]
    shares = {n: a for n, _, a in liar.heard if isinstance(a, UnmaskShares)}
    if not masked or not shares:
        return liar.refusal("no shares came")
    asked, answer = masked[-1]
    try:
        plus, minus = _keys_to_remove(talk.cohort.joined, asked.ticket, (VICTIM,), lost, shares)
    except FedgeomError as error:
        return liar.refusal(error)
    found = from_fixed(
        add_masks(answer.vector.numpy(), RING, plus=plus, minus=minus), fraction_bits=question.fraction_bits
    )
    truth = own_vector(liar, VICTIM, asked)
    return Learnt(f"the victim's {len(truth)} numbers exactly", True) if same(found, truth) else liar.refusal()


ATTACKS = (
    Attack(
        "a sum that the victim alone is told of",
        ("fedavg", "scaffold"),
        "not tried",
        told_of_another_sum,
        "permissive",
    ),
    Attack(
        "a victim cut off from its neighbours",
        ("fedavg", "scaffold"),
        "the victim's vector exactly (60 and 100 sites)",
        cut_off,
        "permissive",
    ),
    Attack(
        "witnesses of a row sum",
        ("xclp",),
        "12 sites, after an honest run with hide_labelled: all labels of the victim",
        witnessed_row_sum,
        "permissive",
    ),
    Attack("two lists of the living", ("fedavg",), "held", witnessed_twice, "permissive"),
)
