"""Small messages that cost a site much, or make it fail."""

from __future__ import annotations

import dataclasses
import tracemalloc
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

import fedgeom
from fedgeom.errors import FedgeomError
from fedgeom.federation.messages import Array, Question
from fedgeom.federation.policy import Policy
from fedgeom.methods.hulls.encoding import HullPlan
from fedgeom.methods.hulls.messages import EncodeHulls, HullExtent
from fedgeom.methods.iterative.messages import TrainOpen
from fedgeom.methods.iterative.setup import BeginTraining, SumTrainingColumns, hash_agreed
from fedgeom.methods.moments.site import SumClassMoments
from fedgeom.methods.xclp.anchors import CountCells, SumAnchorCells, SumCodes, SumUnitRows
from fedgeom.methods.xclp.messages import Collect, CountClasses, Reading, Spread, Weigh
from fedgeom.protocols.join.messages import Hello
from fedgeom.protocols.model_delivery import TakeModel
from fedgeom.protocols.names import OpenNames, agree_on_names
from fedgeom.protocols.secure_sum.messages import SumQuestion, Ticket
from tests.attacks.playing import Attack, Learnt, Liar, made_up, patients, replace, rounds_of, size_of, stamped

MOST = 16 * 2**20
"""More than this is more than a small message may cost."""
EXTREMES = (10**9, 100_000, 5000, 500, 30)

WAYS: dict[str, Any] = {
    "xclp through anchors": fedgeom.XCLP(graph="anchors", classes=("no", "yes")),
    "xclp": fedgeom.XCLP(hash_bits=64, hamming="ot", classes=("no", "yes")),
    "hulls": fedgeom.Hulls(embedding="discriminant"),
    "moments": fedgeom.Moments(space="euclidean", classes=("no", "yes")),
    "fedavg": fedgeom.FedAvg(n_rounds=2, classes=("no", "yes")),
    "shrunk": fedgeom.Shrunk(n_rounds=2, classes=("no", "yes")),
    "ptopofl": fedgeom.PTopoFL(n_rounds=2, n_clusters=1, classes=("no", "yes")),
}


def cost(liar: Liar, name: str, question: Question) -> int:
    """Return the bytes that answering a question takes at its worst."""
    tracemalloc.start()
    try:
        liar.ask(name, question)
    except FedgeomError:
        pass
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return peak


def invitations(method: str, policy: Policy, quick: bool) -> Learnt:
    """Invite on terms with one extreme number each, and measure what the invitation costs."""
    way = WAYS[method]
    worst, size, what = 0, 0, ""
    whole = [field.name for field in dataclasses.fields(way) if "int" in str(field.type)]
    usual = way.terms()
    planned = type(way).site.all_sums
    for name in whole:
        for value in EXTREMES[1:] if quick else EXTREMES:
            terms = usual | {name: value}
            try:
                sums = len(planned(type(way).from_terms(terms)))
            except (FedgeomError, TypeError, ValueError):
                sums = 0
            ask = Hello(rounds=min(sums, 2048), terms=terms)
            liar = Liar(way, patients(3), policy)
            spent = cost(liar, "s000", ask)
            if spent > worst:
                worst, size, what = spent, size_of(ask), f"{name}={value}"
    return Learnt(f"at most {worst / 2**20:.1f} MB for {size} bytes ({what})", worst > MOST)


def _ticket(liar: Liar, cohort: Any, number: int, modulus: int = 2**64) -> Ticket:
    names = cohort.names
    return Ticket(
        round=number, modulus=str(modulus), members=names, participants=names, letters=dict(cohort.mail["s000"])
    )


def _plans() -> Iterator[HullPlan]:
    usual: dict[str, Any] = {"epsilon": 0.01, "radius": 0.9, "curvature": 1.0, "classes": 2, "blocks": 3}
    usual |= {"capacity": 10, "h": 2}
    for change in (
        {"capacity": 10_000_000},
        {"capacity": 2_000_000},
        {"classes": 4096, "h": 1},
        {"classes": 1000, "h": 3},
        {"blocks": 100_000},
        {"epsilon": 1e-4},
        {"radius": 0.9999999},
        {"h": 32},
    ):
        yield HullPlan(**(usual | change))


def questions(method: str, policy: Policy, quick: bool) -> Learnt:
    """Ask small questions with large numbers in them."""
    worst, what = 0, ""
    if method == "hulls":
        way = fedgeom.Hulls(epsilon=0.01, trim=0.0)
        sites = [type(s)(s.name, 0.1 * np.tanh(s.X[:, :2]), s.y) for s in patients(3)]
        for plan in _plans():
            liar = Liar(fedgeom.Hulls(**(way.terms() | {"epsilon": plan.epsilon})), sites, policy)
            cohort = liar.join()
            number = rounds_of(way, EncodeHulls)[0]
            try:
                modulus = plan.code.modulus if plan.capacity < 100 and plan.classes == 2 else 2**61 - 1
            except FedgeomError:
                modulus = 2**61 - 1
            ask: SumQuestion = EncodeHulls(
                ticket=_ticket(liar, cohort, number, modulus), plan=plan, embedding=None
            )
            spent = cost(liar, "s000", stamped(ask))
            if spent > worst:
                worst, what = spent, str(plan)
    elif method == "moments":
        liar = Liar(fedgeom.Moments(space="euclidean"), patients(3, columns=30), policy)
        try:
            cohort = liar.join()
            agree_on_names(cohort)
        except FedgeomError as error:
            return liar.refusal(error)
        many, number = tuple(f"{at}" for at in range(10_000)), rounds_of(liar.method, SumClassMoments)[0]
        worst = cost(
            liar,
            "s000",
            stamped(SumClassMoments(ticket=_ticket(liar, cohort, number), classes=many, curvature=None)),
        )
        what = f"{len(many)} classes"
    elif method == "fedavg":
        liar = Liar(fedgeom.FedAvg(n_rounds=1, scale="none", secure=False), patients(3, columns=30), policy)
        try:
            agree_on_names(liar.join())
        except FedgeomError as error:
            return liar.refusal(error)
        many = ("no", "yes", *(f"{at}" for at in range(20_000)))
        begin = BeginTraining(classes=many)
        given = {"model/intercept": Array.of(np.zeros(len(many))), "model/weights": Array.of(np.zeros((30, 1)))}
        asked = TrainOpen(round=0, given=given, agreed=hash_agreed(begin))
        worst, what = max(cost(liar, "s000", begin), cost(liar, "s000", asked)), f"{len(many)} classes"
    else:
        way2 = fedgeom.XCLP(graph="anchors", n_anchors=100_000, classes=("no", "yes"))
        liar = Liar(way2, patients(3), policy)
        try:
            cohort = liar.join()
            sums = cohort.sum_checked(SumUnitRows(), length=5)
        except FedgeomError as error:
            return liar.refusal(error)
        ask = CountCells(ticket=_ticket(liar, cohort, rounds_of(way2, CountCells)[0]), last=sums)
        worst, what = cost(liar, "s000", stamped(ask)), "100000 cells"
    return Learnt(f"at most {worst / 2**20:.1f} MB ({what})"[:150], worst > MOST)


def _odd(way: Any, cohort: Any, liar: Liar) -> Iterator[Question]:
    """Yield questions that fit their schema and make no sense."""
    zero, nothing = Array.of(np.zeros((0, 0))), Array.of(np.empty(0))
    t = _ticket(liar, cohort, rounds_of(way, SumClassMoments)[0] if isinstance(way, fedgeom.Moments) else 0)
    if isinstance(way, fedgeom.XCLP):
        reading = Reading(variant="ours", prior="em", counts=Array.of(np.full(2, 1e308)))
        for number in range(4):
            t = _ticket(liar, cohort, number)
            yield stamped(Spread(ticket=t, classes=(), layout={}, columns=zero))
            yield stamped(Spread(ticket=t, classes=("a", "a"), layout={"s000": (-5, 15)}, columns=zero))
            yield stamped(CountClasses(ticket=t, classes=("a", "a")))
            yield stamped(SumUnitRows(ticket=t))
            for values in (np.zeros(0), np.full(5, 1e9), np.zeros(200)):
                last = made_up(values, SumUnitRows, number, cohort.names)
                yield stamped(CountCells(ticket=t, last=last))
                yield stamped(SumAnchorCells(ticket=t, last=last))
                yield stamped(SumCodes(ticket=t, last=last, nearest=3, classes=()))
                yield stamped(SumCodes(ticket=t, last=last, nearest=3, classes=("a", "a")))
        yield Collect(of=t, block=nothing, reading=reading)
        yield Weigh(level=0, sizes=nothing)
        yield Weigh(level=0, sizes=Array.of(np.zeros(2, np.uint8)))
    elif isinstance(way, fedgeom.Moments):
        yield stamped(SumClassMoments(ticket=t, classes=(), curvature=None))
        yield stamped(SumClassMoments(ticket=replace(t, modulus="1"), classes=("no", "yes"), curvature=None))
        yield stamped(SumClassMoments(ticket=replace(t, modulus="9" * 20), classes=("no", "yes"), curvature=None))
        yield stamped(SumClassMoments(ticket=t, classes=("no", "yes"), curvature=1e308))
    elif isinstance(way, fedgeom.Hulls):
        for matrix in (np.zeros((4, 2)), np.full((4, 2), np.nan), np.zeros((0, 2)), np.full((4, 2), 1e-320)):
            for number in range(3):
                t = _ticket(liar, cohort, number, 2**61 - 1)
                yield stamped(HullExtent(ticket=t, embedding=Array.of(matrix)))
                for plan in _plans():
                    yield stamped(EncodeHulls(ticket=t, plan=plan, embedding=Array.of(matrix)))
    else:
        for values in (np.zeros(0), np.zeros(9), np.full(9, -1.0), np.full(9, 1e9)):
            last = made_up(values, SumTrainingColumns, 1, cohort.names)
            for classes in ((), ("no", "yes"), ("no", "no")):
                yield BeginTraining(classes=classes, columns=last)
                yield BeginTraining(classes=classes)
    for model in (b"", b"\x00" * 100, b"\xff" * 100, b"\x08" + bytes(7) + b"{}      "):
        yield TakeModel(model=model)
    yield OpenNames(sealed=dict.fromkeys(cohort.names, b""))


def exceptions(method: str, policy: Policy, quick: bool) -> Learnt:
    """Ask questions that fit their schema and make no sense; count those that make the site's program fail."""
    way, failed, tried = WAYS[method], [], 0
    liar = Liar(way, patients(3), policy)
    try:
        cohort = liar.join()
    except FedgeomError as error:
        return liar.refusal(error)
    kept = dict(liar.engine.memories)
    for question in _odd(way, cohort, liar):
        if question.kind not in way.site.understands():
            continue
        liar.engine.memories.update(kept)
        tried += 1
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a warning in a site's log is no failure
                liar.ask("s000", question)
        except FedgeomError:
            continue
        except Exception as error:
            failed.append(f"{question.kind}: {type(error).__name__}")
    return Learnt(
        f"{len(failed)} of {tried} odd questions make it fail {'; '.join(failed[:2])}".strip(), bool(failed)
    )


ATTACKS = (
    Attack(
        "an invitation that costs memory",
        tuple(WAYS),
        "317 bytes cost a site 2.7 GB (anchors), others 1.5 GB (planned sums)",
        invitations,
        "permissive",
    ),
    Attack(
        "a question that costs memory",
        ("hulls", "moments", "fedavg", "xclp through anchors"),
        "not tried",
        questions,
        "permissive",
    ),
    Attack(
        "questions that make a site fail",
        tuple(WAYS),
        "uncaught exceptions in XCLP, Moments and PTopoFL, and no line in the site's ledger",
        exceptions,
        "permissive",
    ),
)
