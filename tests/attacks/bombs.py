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
from fedgeom.methods.hulls.messages import EncodeHulls, Reach
from fedgeom.methods.hulls.plan import HullPlan
from fedgeom.methods.iterative.agreement import Begin, hash_agreed
from fedgeom.methods.iterative.messages import TrainOpen
from fedgeom.methods.moments.messages import SumMoments
from fedgeom.methods.xclp.anchor_messages import Cells, CountCells, SumCells, SumCodes, SumRows
from fedgeom.methods.xclp.messages import Collect, CountClasses, Reading, Spread, Weigh
from fedgeom.protocols.handing_out import TakeModel
from fedgeom.protocols.joining.messages import Hello
from fedgeom.protocols.names import OpenNames, agree_on_names
from fedgeom.protocols.secure_sum.messages import SumQuestion, Ticket
from tests.attacks.playing import Attack, Learnt, Liar, patients, replace, size_of, stamped

MOST = 16 * 2**20
"""More than this is more than a small message may cost."""
EXTREMES = (10**9, 100_000, 5000, 500, 30)

WAYS: dict[str, Any] = {
    "xclp through anchors": fedgeom.XCLP(graph="anchors", classes=("no", "yes")),
    "xclp": fedgeom.XCLP(bits=64, hamming="ot", classes=("no", "yes")),
    "hulls": fedgeom.Hulls(embedding="discriminant"),
    "moments": fedgeom.Moments(space="euclidean", classes=("no", "yes")),
    "fedavg": fedgeom.FedAvg(rounds=2, classes=("no", "yes")),
    "shrunk": fedgeom.Shrunk(rounds=2, classes=("no", "yes")),
    "ptopofl": fedgeom.PTopoFL(rounds=2, clusters=1, classes=("no", "yes")),
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
    planned = type(way).site.planned_sums
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
            try:
                modulus = plan.code.modulus if plan.capacity < 100 and plan.classes == 2 else 2**61 - 1
            except FedgeomError:
                modulus = 2**61 - 1
            ask: SumQuestion = EncodeHulls(ticket=_ticket(liar, cohort, 1, modulus), plan=plan, embedding=None)
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
        many = tuple(f"{at}" for at in range(10_000))
        worst = cost(liar, "s000", stamped(SumMoments(ticket=_ticket(liar, cohort, 0), classes=many, curvature=None)))
        what = f"{len(many)} classes"
    elif method == "fedavg":
        liar = Liar(fedgeom.FedAvg(rounds=1, scale="none", secure=False), patients(3, columns=30), policy)
        try:
            agree_on_names(liar.join())
        except FedgeomError as error:
            return liar.refusal(error)
        many = ("no", "yes", *(f"{at}" for at in range(20_000)))
        empty = Array.of(np.empty(0))
        begin = Begin(classes=many, centre=empty, spread=empty)
        worst = cost(liar, "s000", begin)
        zero = Array.of(np.zeros(len(many)))
        given = {"model/intercept": zero, "model/weights": Array.of(np.zeros((30, 1)))}
        asked_open = TrainOpen(round=0, given=given, agreed=hash_agreed(many, empty, empty))
        worst, what = max(worst, cost(liar, "s000", asked_open)), f"{len(many)} classes"
    else:
        way2 = fedgeom.XCLP(graph="anchors", anchors=100_000, classes=("no", "yes"))
        for cells in (Cells(count=100_000, mean=Array.of(np.zeros(4)), seed=bytes(32)), Cells(count=100_000)):
            liar = Liar(way2, patients(3), policy)
            try:
                cohort = liar.join()
            except FedgeomError as error:
                return liar.refusal(error)
            asked = stamped(CountCells(ticket=_ticket(liar, cohort, 1), cells=cells))
            spent = cost(liar, "s000", asked)
            if spent > worst:
                worst, what = spent, f"{cells.count} cells"
    return Learnt(f"at most {worst / 2**20:.1f} MB ({what})"[:150], worst > MOST)


def _odd(way: Any, cohort: Any, liar: Liar) -> Iterator[Question]:
    """Yield questions that fit their schema and make no sense."""
    zero, nothing = Array.of(np.zeros((0, 0))), Array.of(np.empty(0))
    t = _ticket(liar, cohort, 0)
    if isinstance(way, fedgeom.XCLP):
        reading = Reading(variant="ours", prior="em", counts=Array.of(np.full(2, 1e308)))
        for number in range(4):
            t = _ticket(liar, cohort, number)
            yield stamped(Spread(ticket=t, classes=(), layout={}, columns=zero))
            yield stamped(Spread(ticket=t, classes=("a", "a"), layout={"s000": (-5, 15)}, columns=zero))
            yield stamped(CountClasses(ticket=t, classes=("a", "a")))
            yield stamped(SumRows(ticket=t))
            for cells in (
                Cells(count=1, anchors=Array.of(np.zeros((1, 4)))),
                Cells(count=2, mean=Array.of(np.full(4, np.nan)), seed=bytes(32)),
                Cells(count=2, anchors=Array.of(np.full((2, 4), 1e308)), kept=Array.of(np.zeros(5, np.int32))),
                Cells(count=2, anchors=Array.of(np.zeros((2, 4), np.int64)), kept=nothing),
                Cells(count=2, anchors=Array.of(np.zeros((2, 4))), kept=Array.of(np.zeros((2, 2), np.int32))),
            ):
                yield stamped(CountCells(ticket=t, cells=cells))
                yield stamped(SumCells(ticket=t, cells=cells))
            yield stamped(SumCodes(ticket=t, anchors=Array.of(np.zeros((0, 4))), nearest=3, classes=()))
            yield stamped(SumCodes(ticket=t, anchors=Array.of(np.zeros((2, 4), np.uint8)), nearest=3, classes=("a",)))
        yield Collect(of=t, block=nothing, reading=reading)
        yield Weigh(level=0, sizes=nothing)
        yield Weigh(level=0, sizes=Array.of(np.zeros(2, np.uint8)))
    elif isinstance(way, fedgeom.Moments):
        yield stamped(SumMoments(ticket=t, classes=(), curvature=None))
        yield stamped(SumMoments(ticket=replace(t, modulus="1"), classes=("no", "yes"), curvature=None))
        yield stamped(SumMoments(ticket=replace(t, modulus="9" * 20), classes=("no", "yes"), curvature=None))
        yield stamped(SumMoments(ticket=t, classes=("no", "yes"), curvature=1e308))
    elif isinstance(way, fedgeom.Hulls):
        for matrix in (np.zeros((4, 2)), np.full((4, 2), np.nan), np.zeros((0, 2)), np.full((4, 2), 1e-320)):
            for number in range(3):
                t = _ticket(liar, cohort, number, 2**61 - 1)
                yield stamped(Reach(ticket=t, embedding=Array.of(matrix)))
                for plan in _plans():
                    yield stamped(EncodeHulls(ticket=t, plan=plan, embedding=Array.of(matrix)))
    else:
        for centre, spread in ((zero, zero), (nothing, nothing), (Array.of(np.zeros(4, np.uint8)),) * 2):
            yield Begin(classes=(), centre=centre, spread=spread)
            yield Begin(classes=("no", "yes"), centre=centre, spread=spread)
    for model in (b"", b"\x00" * 100, b"\xff" * 100, b"\x08" + bytes(7) + b"{}      "):
        yield TakeModel(model=model)
    yield OpenNames(sealed={name: b"" for name in cohort.names})


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
    return Learnt(f"{len(failed)} of {tried} odd questions make it fail {'; '.join(failed[:2])}".strip(), bool(failed))


ATTACKS = (
    Attack(
        "an invitation that costs memory",
        tuple(WAYS),
        "317 bytes cost a site 2.7 GB (anchors), others 1.5 GB (planned sums)",
        invitations,
        "permissive",
    ),
    Attack("a question that costs memory", ("hulls", "moments", "fedavg", "xclp through anchors"), "not tried", questions, "permissive"),
    Attack(
        "questions that make a site fail",
        tuple(WAYS),
        "uncaught exceptions in XCLP, Moments and PTopoFL, and no line in the site's ledger",
        exceptions,
        "permissive",
    ),
)
