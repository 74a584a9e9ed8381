"""Refusals as oracles: ask until yes and no tell a number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import fedgeom
from fedgeom.federation.messages import Array, Refusal
from fedgeom.federation.policy import Policy
from fedgeom.methods.iterative.setup import BeginTraining, SumTrainingColumns
from fedgeom.methods.moments.model import MomentsModel
from fedgeom.methods.xclp.messages import Spread, Weigh
from fedgeom.protocols.model_delivery import TakeModel
from fedgeom.protocols.names import agree_on_names
from fedgeom.protocols.secure_sum.messages import SumQuestion, SumResult, Ticket
from tests.attacks.playing import Attack, Learnt, Liar, forged, made_up, patients, rounds_of, stamped

STEP = 0.99
"""Each question's threshold is this much lower than the one before: a change of tone then tells 1 %."""


def ladder(probe: Callable[[float], str], high: float, low: float) -> tuple[float, int]:
    """Ask with lower and lower thresholds until the site answers otherwise; return the threshold and the questions."""
    first, second = probe(high), probe(high * STEP)  # the first may be taken, all others then be refused
    limit, asked = high * STEP, 2
    while limit > low:
        limit, asked = limit * STEP, asked + 1
        said = probe(limit)
        if said not in (first, second):
            return limit, asked
    return low, asked


def tone(liar: Liar, name: str, reply: Any) -> str:
    """Return all that a coordinator sees of an answer: the reason of a refusal, and whether the site is gone."""
    left = bool(liar.engine.memories[name]) and liar.has_left(name)
    return f"{reply.reason if isinstance(reply, Refusal) else 'answered'} {left}"


def _told(found: float, truth: float, asked: int, what: str) -> Learnt:
    near = abs(found - truth) <= 0.02 * abs(truth)
    return Learnt(f"{what}: {'to 1 %' if near else 'nothing'} after {asked} questions", near)


METHODS: dict[str, Any] = {
    "fedavg": fedgeom.FedAvg(n_rounds=1, classes=("no", "yes")),
    "scaffold": fedgeom.Scaffold(n_rounds=1, classes=("no", "yes")),
    "shrunk": fedgeom.Shrunk(n_rounds=1, n_folds=2, classes=("no", "yes")),
}


def _farthest(liar: Liar, sums: SumResult) -> Learnt:
    """Give sums from which a scale follows that is a million deviations off, a little less each time."""
    me, columns = "s000", 4

    def probe(limit: float) -> str:
        mean = np.zeros(columns)
        mean[0] = 1e6 - limit  # of deviation 1: a row below -limit is farther away than any may be
        values = np.concatenate([[1.0], mean, mean**2 + 1.0])
        begin = BeginTraining(classes=("no", "yes"), columns=forged(sums, values, SumTrainingColumns))
        return tone(liar, me, liar.ask(me, begin))

    found, asked = ladder(probe, 200.0, 0.01)
    return _told(found, -float(liar.data[me].X[:, 0].min()), asked, "smallest entry of a column")


def scale(method: str, policy: Policy, quick: bool) -> Learnt:
    """Ask a site to scale its columns, finer and finer, until it says that a row is too far out."""
    liar = Liar(METHODS[method], patients(), policy)
    sums = liar.join().sum_checked(SumTrainingColumns(), length=9)
    return _farthest(liar, sums)


def scale_before_joining(method: str, policy: Policy, quick: bool) -> Learnt:
    """The same at a site that was never invited, with a memory that the refusals leave as it was."""
    liar = Liar(METHODS[method], patients(), policy)
    return _farthest(liar, made_up(np.zeros(9), SumTrainingColumns, 1, liar.names))


def handed_model(method: str, policy: Policy, quick: bool) -> Learnt:
    """Hand out Gaussians so narrow that the score of a row overflows if it is farther out than a threshold."""
    liar = Liar(fedgeom.Moments(space="euclidean", classes=("no", "yes")), patients(), policy)
    liar.join()
    me, columns = "s000", 4

    def probe(limit: float) -> str:
        wide = np.tile(np.eye(columns), (2, 1, 1))
        wide[:, 0, 0] = (limit / 1.3408e154) ** 2  # the square of 1.3408e154 is the largest number
        zero = np.zeros((2, columns))
        model = MomentsModel(("no", "yes"), "gaussian", np.zeros(2), zero, wide, zero, None)
        return tone(liar, me, liar.ask(me, TakeModel(model=model.to_bytes())))

    found, asked = ladder(probe, 200.0, 0.01)
    return _told(found, float(np.abs(liar.data[me].X[:, 0]).max()), asked, "largest entry of a column")


def _labelled(rows: int = 12, labelled: int = 5, sites: int = 4) -> list[Any]:
    """Return sites of which some rows have no label."""
    found = patients(sites, rows)
    for site in found:
        site.y[labelled:] = ""
    return found


def label_counts(method: str, policy: Policy, quick: bool) -> Learnt:
    """Tell a site the joint number of rows with a label, smaller and smaller, until it is smaller than its own."""
    way = fedgeom.XCLP(
        graph="anchors", n_anchors=4, n_rounds=1, min_cell=1, confidence="code", classes=("no", "yes")
    )
    weighed: list[bool] = []
    liar = Liar(way, _labelled(), policy)
    me = "s000"
    own = 0.0
    asked = 0
    low, high = 0.0, 48.0

    def change(name: str, question: Any) -> Any:
        nonlocal own, asked, low, high
        if not isinstance(question, Weigh) or name != me:
            return None
        site = liar.as_site(me)
        own = float(site.labels._own_labels(site.memory.labels.scores)[1][0])
        while asked < 12 and not liar.has_left(me):
            asked += 1
            middle = float(np.floor((low + high) / 2))
            sizes = np.array([middle, 1e6])
            reply = liar.ask(me, Weigh(level=question.level, sizes=Array.of(sizes)))
            weighed.append(not isinstance(reply, Refusal))
            low, high = (low, middle) if weighed[-1] else (middle + 1, high)
        return "lose"

    liar.change = change
    try:
        way.conduct(liar.talk)
    except fedgeom.FedgeomError as error:
        if not asked:
            return liar.refusal(error)
    exact = high == own and len(set(weighed)) > 1
    return Learnt(f"own count {'exact' if exact else 'unknown'} after {asked} questions", exact)


def hidden_labels(method: str, policy: Policy, quick: bool) -> Learnt:
    """Try influence columns for one, two, three … labelled rows, a run each, until a site takes them."""
    way, me, rows = fedgeom.XCLP(hash_bits=64, hamming="ot", hide_labelled=True, classes=("no", "yes")), "s000", 12
    taken = []
    for wanted in range(1, rows + 1):
        liar = Liar(way, _labelled(), policy)
        cohort = liar.join()
        names = cohort.names
        ticket = Ticket(
            round=rounds_of(way, Spread)[0],
            modulus=str(2**64),
            members=names,
            participants=names,
            letters=dict(cohort.mail[me]),
        )
        columns = Array.of(np.zeros((rows * len(names), wanted), np.float32))
        layout = {name: (rows * at, rows * (at + 1)) for at, name in enumerate(names)}
        ask: SumQuestion = Spread(ticket=ticket, classes=("no", "yes"), layout=layout, columns=columns)
        if not isinstance(liar.ask(me, stamped(ask)), Refusal):
            taken.append(wanted)
    truth = int((liar.data[me].y != "").sum())
    return Learnt(f"columns for {taken or 'no'} rows are taken; {truth} of {rows} are labelled", taken == [truth])


def vocabulary_guess(method: str, policy: Policy, quick: bool) -> Learnt:
    """Ask two sites to train with one class fewer: does the one that has the class answer otherwise?"""
    way = fedgeom.FedAvg(n_rounds=1, scale="none")
    sites = patients(4, 21, classes=("a", "b", "c"))
    sites[0].y[sites[0].y == "c"] = "b"
    liar = Liar(way, sites, policy)
    agree_on_names(liar.join())
    told = 0
    for lacking in ("c", "b", "a"):
        kept = tuple(name for name in ("a", "b", "c", "d") if name != lacking)
        tones = [tone(liar, me, liar.ask(me, BeginTraining(classes=kept))) for me in ("s000", "s001")]
        told += len(set(tones)) > 1 and not any(liar.has_left(me) for me in ("s000", "s001"))
    return Learnt(f"{told} of 3 names told by refusals", told > 0)


ATTACKS = (
    Attack(
        "scale as an oracle",
        ("fedavg", "scaffold", "shrunk"),
        "exact minimum and maximum of every column in 88 questions",
        scale,
        "permissive",
    ),
    Attack(
        "scale as an oracle, before joining",
        ("fedavg", "scaffold", "shrunk"),
        "the same at a site that had not joined, with runs_per_day = 1",
        scale_before_joining,
        "permissive",
    ),
    Attack(
        "model that overflows",
        ("moments",),
        "a whole patient row in 180 questions",
        handed_model,
        "permissive",
    ),
    Attack(
        "label counts by refusals",
        ("xclp through anchors",),
        "a site's label counts in 21 questions",
        label_counts,
        "permissive",
    ),
    Attack(
        "number of hidden labels",
        ("xclp",),
        "the number of labelled rows although hide_labelled",
        hidden_labels,
        "permissive",
    ),
    Attack("names by refusals", ("fedavg",), "not tried", vocabulary_guess, "permissive"),
)
