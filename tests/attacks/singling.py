"""Singling one site out of a secure sum by what each site is told."""

from __future__ import annotations

from typing import Any

import numpy as np

import fedgeom
from fedgeom.errors import FedgeomError
from fedgeom.federation.messages import Array, Refusal
from fedgeom.federation.policy import Policy
from fedgeom.methods.iterative.messages import TrainMasked
from fedgeom.methods.iterative.setup import BeginTraining, SumTrainingColumns, hash_agreed
from fedgeom.methods.iterative.training import TrainingLoop
from fedgeom.methods.iterative.tree import Tree, to_wire
from fedgeom.methods.shrunk.site import SumTerms
from fedgeom.protocols import cohort as cohort_module
from fedgeom.protocols.fixed_point import from_fixed
from fedgeom.protocols.secure_sum.messages import SumQuestion
from tests.attacks.playing import (
    Attack,
    Floats,
    Learnt,
    Liar,
    forged,
    made_up,
    patients,
    replace,
    rounds_of,
    same,
    stamped,
)

VICTIM = "s000"


def way(method: str, **changes: Any) -> Any:
    """Return a method whose sites' vectors are the same whenever they are asked the same: no minibatches.

    With numbers of 64 bits, so that what an attacker gets can be compared with a vector as it is.
    """
    kinds = {
        "fedavg": fedgeom.FedAvg,
        "fedprox": fedgeom.FedProx,
        "scaffold": fedgeom.Scaffold,
        "feddyn": fedgeom.FedDyn,
        "shrunk": fedgeom.Shrunk,
    }
    usual = (
        {"n_rounds": 3, "n_folds": 2}
        if method == "shrunk"
        else {"n_rounds": 3, "steps": 1, "batch_size": None, "bits": 64}
    )
    return kinds[method](**(usual | {"classes": ("no", "yes")} | changes))


def own_vector(liar: Liar, name: str, question: SumQuestion) -> Floats:
    """Return what a site really contributed to a question, by its own code."""
    site = liar.as_site(name)
    _, part, handler = site._handlers[question.kind]
    found = getattr(getattr(site, part) if part else site, handler)(question)
    return from_fixed(found.vector.ravel(), fraction_bits=question.fraction_bits)


def asked_of(liar: Liar, name: str, kind: type[SumQuestion]) -> Any:
    """Return the last question of a kind that a site answered."""
    return [q for n, q, a in liar.heard if n == name and isinstance(q, kind) and not isinstance(a, Refusal)][-1]


def judge(
    liar: Liar,
    found: Floats | None,
    kind: type[SumQuestion],
    error: FedgeomError | None = None,
    *,
    part: Any = None,
) -> Learnt:
    """Say whether what the attacker computed is the victim's vector, or the part of it that the attack is after."""
    if found is None:
        return liar.refusal(error or "no sum came")
    truth = own_vector(liar, VICTIM, asked_of(liar, VICTIM, kind))
    found = found[: len(truth)]  # behind a sum that sites can check stands its tag
    if part is not None:
        found, truth = part(found), part(truth)
    if same(found, truth):
        return Learnt(f"the victim's {truth.size} numbers exactly", True)
    off = float(np.linalg.norm(found - truth) / np.linalg.norm(truth))
    return Learnt(f"numbers {off:.1g} times the victim's vector away from it", False)


def slopes(flat: Floats) -> Floats:
    """Return the part of a vector that is made of rows: the gradient in the weights, not that in the intercept."""
    return flat[1:5] if len(flat) < 50 else flat[: 18 * 15].reshape(18, -1)[:, 1:5].ravel()


def _summed(liar: Liar, method: Any, lie: Any = None, part: Any = None) -> Learnt:
    """Hold the run up to its first sum; ``lie`` changes that sum's question for everybody."""
    kind = SumTerms if isinstance(method, fedgeom.Shrunk) else TrainMasked
    sums: list[Floats] = []
    request_sum = cohort_module.request_sum
    unmask = cohort_module.unmask

    def lying(joined: Any, number: int, question: Any, **options: Any) -> Any:
        ask = lie(question) if lie is not None and isinstance(question, kind) else question
        return request_sum(joined, number, ask, **options)

    def listening(joined: Any, found: Any, **options: Any) -> Any:
        total = unmask(joined, found, **options)
        if isinstance(found.request.asked, kind):
            sums.append(from_fixed(total.vector, fraction_bits=kind.fraction_bits))
        return total

    cohort_module.request_sum = lying
    cohort_module.unmask = listening
    failed: FedgeomError | None = None
    try:
        method.conduct(liar.talk)
    except (FedgeomError, ArithmeticError, ValueError) as error:
        failed = error if isinstance(error, FedgeomError) else None
    finally:
        cohort_module.request_sum = request_sum
        cohort_module.unmask = unmask
    return judge(liar, sums[0] if sums else None, kind, failed, part=part)


def scale_per_site(method: str, policy: Policy, quick: bool) -> Learnt:
    """Tell all sites but one a scale on which their rows are nothing."""
    m = way(method, n_rounds=1)
    told: dict[str, bytes] = {}

    def change(name: str, question: Any) -> Any:
        if isinstance(question, BeginTraining):
            if name != VICTIM and question.columns is not None:
                wide = np.concatenate([[1.0], np.zeros(4), np.full(4, 1e9)])
                question = replace(question, columns=forged(question.columns, wide, SumTrainingColumns))
            told[name] = hash_agreed(question)
            return question
        if isinstance(question, TrainMasked | SumTerms):
            return stamped(question, agreed=told[name])
        return None

    liar = Liar(m, patients(3), policy, change=change)
    return _summed(liar, m, part=slopes)


def model_per_site(method: str, policy: Policy, quick: bool) -> Learnt:
    """Give all sites but one a model of huge numbers, at which there is nothing to learn."""
    m = way(method, n_rounds=1)

    def change(name: str, question: Any) -> Any:
        if name == VICTIM:
            return None
        if isinstance(question, TrainMasked):
            flat = {path: Array.of(np.zeros(leaf.shape)) for path, leaf in question.given.items()}  # type: ignore[union-attr]
            flat["model/intercept"] = Array.of(np.full(1, 1e3))
            return stamped(question, given=flat)
        if isinstance(question, SumTerms):  # the joint models follow from a sum: a site has to be told another
            made = made_up(np.full(18 * 15, 1e5), SumTerms, 1, question.ticket.participants)
            return stamped(question, last=made)
        return None

    liar = Liar(m, patients(3), policy, change=change)
    return _summed(liar, m)


def faster_site(method: str, policy: Policy, quick: bool) -> Learnt:
    """Raise the learning rate of one site, which is the only one then that moves."""
    m = way(method, n_rounds=1, learning_rate=1e-9)
    return _summed(Liar(m, patients(3), policy), m, lambda question: replace(question, faster=(VICTIM,)))


def weights_of_one(method: str, policy: Policy, quick: bool) -> Learnt:
    """Weigh all sites but one with next to nothing."""
    m = way(method, n_rounds=1)

    def lie(question: TrainMasked) -> TrainMasked:
        return replace(question, factors={n: 1.0 if n == VICTIM else 1e-9 for n in question.factors})

    return _summed(Liar(m, patients(4), policy), m, lie)


def weights_of_a_few(method: str, policy: Policy, quick: bool) -> Learnt:
    """Sum five of fifteen with weights 1, 1, 1, 0, 0, and lose two that have weight 1."""
    m = way(method, n_rounds=1, scale="none", weights="sites")
    liar = Liar(m, patients(15), policy)
    talk = TrainingLoop(m, liar.talk)
    talk.agree()
    five = ("s000", "s001", "s002", "s003", "s004")
    factors = dict(zip(five, (1.0, 1.0, 1.0, 0.0, 0.0), strict=True))
    given = to_wire(Tree(model=Tree(intercept=np.zeros(1), weights=np.zeros((4, 1)))))
    question = TrainMasked(round=0, given=given, factors=factors, agreed=talk.agreed.hash)
    liar.change = lambda name, q: "lose" if isinstance(q, TrainMasked) and name in ("s001", "s002") else None
    try:
        found = liar.sum(talk.cohort, question, rounds_of(m, TrainMasked)[0], 8, five)
    except FedgeomError as error:
        return liar.refusal(error)
    return judge(liar, found, TrainMasked)


def drifted_site(method: str, policy: Policy, quick: bool) -> Learnt:
    """Call one site drifted, on terms that let drifted sites learn a hundred times faster."""
    m = fedgeom.PTopoFL(
        n_rounds=2,
        steps=1,
        batch_size=None,
        learning_rate=0.01,
        n_clusters=1,
        cluster_by="none",
        trust="none",
        track_every=1,
        drift_factor=100.0,
        classes=("no", "yes"),
    )
    liar = Liar(m, patients(4), policy)
    talk = TrainingLoop(m, liar.talk)
    try:
        talk.agree()
        names = talk.cohort.names
        given = to_wire(Tree(model=Tree(intercept=np.zeros(1), weights=np.zeros((4, 1)))))
        question = TrainMasked(
            round=0, given=given, factors=dict.fromkeys(names, 1.0), agreed=talk.agreed.hash, faster=(VICTIM,)
        )
        found = liar.sum(talk.cohort, question, rounds_of(m, TrainMasked)[0], 8, names)
    except FedgeomError as error:
        return liar.refusal(error)
    truth = own_vector(liar, VICTIM, asked_of(liar, VICTIM, TrainMasked))[:5]
    off = float(np.linalg.norm(found[:5] - truth) / np.linalg.norm(truth))
    return Learnt(f"the victim's gradient to {off:.0%}", off < 0.1)


TRAINING = ("fedavg", "fedprox", "scaffold", "feddyn")
ATTACKS = (
    Attack(
        "a scale for each site",
        ("fedavg", "fedprox", "shrunk"),
        "spread 1e300 for the others: the victim's gradient",
        scale_per_site,
        "permissive",
    ),
    Attack("a model for each site", ("fedavg", "scaffold", "shrunk"), "held", model_per_site, "permissive"),
    Attack(
        "a learning rate for each site",
        ("fedavg", "feddyn"),
        "a rate of 1e-30 for all but one: the victim's model",
        faster_site,
        "permissive",
    ),
    Attack("a site that is called drifted", ("ptopofl",), "not tried", drifted_site),
    Attack("weights of one site", TRAINING, "held without witnesses", weights_of_one, "permissive"),
    Attack(
        "weights of a few, and losses",
        ("fedavg", "fedprox"),
        "15 sites, weights 1, 1, 1, 0, 0: the victim's model and number of rows exactly",
        weights_of_a_few,
        "permissive",
    ),
)
