"""Two sums over nearly the same sites: the difference is a sum over the few that are missing."""

from __future__ import annotations

import numpy as np

import fedgeom
from fedgeom.crypto.tags import WORDS
from fedgeom.errors import FedgeomError
from fedgeom.federation.policy import Policy
from fedgeom.geometry.gaussians import length
from fedgeom.methods.iterative.messages import TrainMasked
from fedgeom.methods.iterative.setup import BeginTraining, SumTrainingColumns, agree
from fedgeom.methods.iterative.training import TrainingLoop
from fedgeom.methods.iterative.tree import Tree, to_wire
from fedgeom.methods.moments.site import SumClassMoments
from fedgeom.methods.shrunk.core import terms_length
from fedgeom.methods.shrunk.site import SumTerms
from fedgeom.protocols.names import KeepNames, agree_on_names
from fedgeom.protocols.secure_sum.messages import SumQuestion
from tests.attacks.playing import LOSE, Attack, Floats, Learnt, Liar, patients, rounds_of
from tests.attacks.singling import VICTIM, judge, own_vector, way


class Asking:
    """The same content as often as an attacker likes, whichever method it is."""

    def __init__(self, method: str, policy: Policy, sites: int = 5):
        self.kind = method
        self.way = way(method, n_rounds=4)
        self.liar = Liar(self.way, patients(sites), policy)
        if method == "shrunk":
            self.cohort = self.liar.join()
            self.agreed = agree(self.cohort, self.way)
        else:
            talk = TrainingLoop(self.way, self.liar.talk)
            talk.agree()
            self.cohort, self.agreed = talk.cohort, talk.agreed

    def question(self, time: int, nudge: float) -> tuple[SumQuestion, int]:
        """Return what is asked the first or second time, and the length of the answer."""
        if self.kind == "shrunk":
            length = terms_length((len(self.way.ridges), self.way.n_folds + 1), 4) + WORDS
            return SumTerms(agreed=self.agreed.hash), length
        state = self.way.start(Tree(intercept=np.zeros(1), weights=np.full((4, 1), 0.1 + nudge)))
        given = to_wire(Tree(state).select(self.way.gives))
        length = Tree(self.way.sent_like(state["model"])).size + 3
        factors = dict.fromkeys(self.cohort.names, 1.0)
        return TrainMasked(round=time, given=given, factors=factors, agreed=self.agreed.hash), length

    def sum(self, time: int, nudge: float, participants: tuple[str, ...]) -> Floats:
        """Return a sum over these sites."""
        question, length = self.question(time, nudge)
        if isinstance(question, TrainMasked):
            kept = {name: question.factors[name] for name in participants}
            question = TrainMasked(round=time, given=question.given, factors=kept, agreed=question.agreed)
        return self.liar.sum(
            self.cohort, question, rounds_of(self.way, type(question))[time], length, participants
        )


def _difference(asking: Asking, *, nudge: float, lose: bool) -> Learnt:
    """Sum all, then all but the victim; take the difference."""
    everyone = asking.cohort.names
    question, _ = asking.question(0, 0.0)
    try:
        first = asking.sum(0, 0.0, everyone)
        truth_from = [q for n, q, _ in asking.liar.heard if n == VICTIM and q.kind == question.kind][-1]
        truth = own_vector(asking.liar, VICTIM, truth_from)
        if lose:
            asking.liar.change = lambda name, q: LOSE if name == VICTIM and q.kind == question.kind else None
            second = asking.sum(1, nudge, everyone)
        else:
            second = asking.sum(1, nudge, tuple(name for name in everyone if name != VICTIM))
    except FedgeomError as error:
        return asking.liar.refusal(error)
    if np.linalg.norm((first - second)[: len(truth)] - truth) <= 1e-3 * np.linalg.norm(truth):
        return Learnt(f"the victim's {len(truth)} numbers exactly", True)
    return judge(asking.liar, first - second, type(question))


def same_question(method: str, policy: Policy, quick: bool) -> Learnt:
    """Ask the very same over one site fewer, in another round of the same run."""
    return _difference(Asking(method, policy), nudge=0.0, lose=False)


def nearly_same_question(method: str, policy: Policy, quick: bool) -> Learnt:
    """The same with numbers that differ in the ninth digit, so that no hash is the same."""
    return _difference(Asking(method, policy), nudge=1e-9, lose=False)


def pretended_loss(method: str, policy: Policy, quick: bool) -> Learnt:
    """Ask everybody nearly the same twice, and say the second time that one site did not answer."""
    return _difference(Asking(method, policy), nudge=1e-9, lose=True)


def adding_losses(method: str, policy: Policy, quick: bool) -> Learnt:
    """Pretend losses of three and four sites at a time, so chosen that the victim's vector is a sum of these sums.

    With x over everybody, x − v − a − b, x − v − c − d and x − a − b − c − d, no two of which differ by fewer than
    three sites, the second and third less the fourth are x − 2·v.
    """
    asking = Asking(method, policy, sites=13)
    everyone = asking.cohort.names
    v, a, b, c, d = everyone[:5]
    assert v == VICTIM
    question, _ = asking.question(0, 0.0)
    sums: list[Floats] = []
    try:
        for time, lost in enumerate(((), (v, a, b), (v, c, d), (a, b, c, d))):
            asking.liar.change = lambda name, q, lost=lost: (
                LOSE if name in lost and q.kind == question.kind else None
            )  # type: ignore[misc]
            sums.append(asking.sum(time, time * 1e-9, everyone))
    except FedgeomError as error:
        return asking.liar.refusal(error)
    found = (sums[0] - (sums[1] + sums[2] - sums[3])) / 2
    return judge(asking.liar, found, type(question))


def two_kinds(method: str, policy: Policy, quick: bool) -> Learnt:
    """Count all rows in one kind of sum, and all but the victim's in the next: both have the number of rows in them."""
    sites = patients(5)
    if method == "moments":
        liar = Liar(fedgeom.Moments(space="euclidean", classes=("no", "yes")), sites, policy)
        kind: type[SumQuestion] = SumClassMoments
    else:
        liar = Liar(way(method), sites, policy)
        kind = TrainMasked
    liar.change = lambda name, question: LOSE if name == VICTIM and isinstance(question, kind) else None
    try:
        if method == "moments":
            cohort = liar.join()
            classes = agree_on_names(cohort, ("no", "yes"))
            if cohort.class_floors == (1, 1):
                return Learnt("nothing: no names are counted", False)
            moments = cohort.sum_reals(SumClassMoments(classes=classes, curvature=None), length=length(2, 4))
            asked = next(q for _, q, _ in liar.heard if isinstance(q, KeepNames))
            everybody = int(asked.result.counts()[len(asked.result.counts()) // 2 :].sum())
            rest = round(float(moments.reshape(2, -1)[:, 0].sum()))
        else:
            talk = TrainingLoop(liar.method, liar.talk)  # type: ignore[arg-type]
            talk.agree()
            begin = next(q for _, q, _ in liar.heard if isinstance(q, BeginTraining))
            everybody = round(float(begin.columns.reals(SumTrainingColumns)[0]))
            given = Tree(model=Tree(intercept=np.zeros(1), weights=np.zeros((4, 1))))
            factors = dict.fromkeys(talk.cohort.names, 1.0)
            ask = TrainMasked(round=0, given=to_wire(given), factors=factors, agreed=talk.agreed.hash)
            number = rounds_of(liar.method, TrainMasked)[0]
            rest = round(float(liar.sum(talk.cohort, ask, number, 8, talk.cohort.names)[-3]))
    except FedgeomError as error:
        return liar.refusal(error)
    truth = len(sites[0].X)
    return Learnt(f"the victim's number of rows: {everybody - rest}", everybody - rest == truth)


ALL = ("fedavg", "fedprox", "shrunk")
ATTACKS = (
    Attack(
        "the same sum over one site fewer",
        ALL,
        "Shrunk, four sites: the victim's 180 numbers of loss, gradient and Hessian",
        same_question,
    ),
    Attack("nearly the same sum over one site fewer", ALL, "not tried", nearly_same_question),
    Attack("a loss that is pretended", ALL, "not tried", pretended_loss),
    Attack("a loss between two kinds of sums", ("moments", "fedavg"), "not tried", two_kinds),
    Attack("losses that add up", ("fedavg", "fedprox", "shrunk"), "not tried", adding_losses),
)
