"""Ways around a steward's approval."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

import fedgeom
from fedgeom.data.sites import SiteData
from fedgeom.deploy import answers
from fedgeom.deploy.approvals import ApprovalStore
from fedgeom.deploy.site_folder import SiteFolder
from fedgeom.federation.coordinator import Coordinator
from fedgeom.federation.messages import Array, Refusal
from fedgeom.federation.policy import Policy, hash_terms
from fedgeom.methods.iterative.messages import Finish, TrainOpen
from fedgeom.methods.iterative.training import TrainingLoop
from fedgeom.methods.ptopofl.shapes import DescribeShape
from tests.attacks.folders import NAMES, ask, federation, invitation
from tests.attacks.playing import PERMISSIVE, Attack, Learnt, Liar, replace
from tests.attacks.zooming import discs

WAYS: dict[str, Any] = {
    "moments": fedgeom.Moments(space="euclidean", classes=("no", "yes")),
    "hulls": fedgeom.Hulls(),
    "fedavg": fedgeom.FedAvg(n_rounds=2, classes=("no", "yes")),
}
EVERYBODY = ("anna", "bert", "carl")


def pin(folder: SiteFolder, way: Any, *, days: float = 30.0, runs: int = 1) -> str:
    """Let the steward approve a method's run."""
    digits = hash_terms(invitation(way).job(way.name)).hex()
    ApprovalStore(folder.path).pin(digits, days=days, runs=runs)
    return digits


def other_terms(method: str, policy: Policy, quick: bool) -> Learnt:
    """With one job approved, invite to others that differ from it in one thing."""
    way = WAYS[method]
    asked = invitation(way)
    setting = {"min_sites": 3}
    lies = {
        "seed": replace(asked, seed=1),
        "participants": replace(asked, participants=("anna", "bert")),
        "more participants": replace(asked, participants=(*EVERYBODY, "zoe")),
        "settings": replace(asked, terms=asked.terms | setting),
        "release": replace(asked, release="9.9.9"),
    }
    answered = []
    with federation() as sites:
        anna = sites["anna"]
        pin(anna, way, runs=10)
        for name, lie in lies.items():
            if ask(anna, lie, way.name, os.urandom(32)).joined:
                answered.append(name)
        honest = ask(anna, asked, way.name, os.urandom(32))
    assert honest.joined, f"the approved job itself was answered with {honest}"
    return Learnt(
        f"{len(answered)} of {len(lies)} other jobs are answered {answered or ''}".strip(), bool(answered)
    )


def more_runs(method: str, policy: Policy, quick: bool) -> Learnt:
    """Hold a second run where one was approved, or one after the approval has expired."""
    way = WAYS[method]
    with federation() as sites:
        anna, bert = sites["anna"], sites["bert"]
        pin(anna, way)
        first = ask(anna, invitation(way), way.name, os.urandom(32))
        second = ask(anna, invitation(way), way.name, os.urandom(32))
        pin(bert, way, days=-1.0)
        late = ask(bert, invitation(way), way.name, os.urandom(32))
    assert first.joined, f"the approved job itself was answered with {first}"
    taken = [said for said in (second, late) if said.joined]
    return Learnt(f"{len(taken)} of 2 runs too many", bool(taken))


def after_revocation(method: str, policy: Policy, quick: bool) -> Learnt:
    """Go on with a run whose approval the steward has taken back."""
    way, run = WAYS[method], os.urandom(32)
    with federation() as sites:
        anna = sites["anna"]
        digits = pin(anna, way)
        first = ask(anna, invitation(way), way.name, run)
        ApprovalStore(anna.path).revoke(digits)
        again = [ask(anna, invitation(way), way.name, run) for _ in range(2)]
        pin(anna, way)  # a new approval is for a new run
        again.append(ask(anna, invitation(way), way.name, run))
    assert first.joined, f"the approved job itself was answered with {first}"
    taken = [said for said in again if said.kind != Refusal.kind]
    return Learnt(f"{len(taken)} of {len(again)} questions answered", bool(taken))


def before_invitation(method: str, policy: Policy, quick: bool) -> Learnt:
    """Ask a site that was never invited every question of an honest run."""
    way, answered = WAYS[method], []
    same_names = [SiteData(NAMES[site.name], site.X, site.y) for site in discs(rows=60, scale=0.15)]
    honest = Liar(way, same_names, PERMISSIVE)
    way.conduct(honest.talk)
    questions = {question.kind: question for name, question, _ in honest.heard if name == "anna"}
    with federation() as sites:
        for kind, question in questions.items():
            if ask(sites["anna"], question, way.name, os.urandom(32)).kind == question.answer.kind:
                answered.append(kind)
    return Learnt(
        f"{len(answered)} of {len(questions)} kinds of questions answered {answered or ''}".strip(), bool(answered)
    )


class _Folders:
    """Carries questions to folders."""

    def __init__(self, folders: dict[str, SiteFolder]):
        self.folders, self.names = folders, tuple(folders)

    def deliver(self, requests: Any) -> Any:
        for name, request in requests.items():
            yield name, answers.answer(self.folders[name], request)


def as_another_method(method: str, policy: Policy, quick: bool) -> Learnt:
    """Join on approved terms of one method, and go on in the same run as if it were another's."""
    way, run = fedgeom.FedAvg(n_rounds=2, classes=("no", "yes")), os.urandom(32)
    answered = []
    with federation() as sites:
        for folder in sites.values():
            text = folder.config_file.read_text()
            folder.config_file.write_text(text.replace("secure_only = true", "secure_only = false"))
            pin(folder, way)
        talk = TrainingLoop(way, Coordinator(_Folders(sites), run=run, method=way.name, participants=EVERYBODY))
        talk.agree()
        zero = {"model/intercept": Array.of(np.zeros(1)), "model/weights": Array.of(np.zeros((2, 1)))}
        opened = TrainOpen(round=0, given=zero, agreed=talk.agreed.hash)
        for other, question in (
            ("ptopofl", DescribeShape(round=0)),
            ("fedprox", opened),
            ("fedprox", Finish(given=zero)),
        ):
            said = ask(sites["anna"], question, other, run)
            if said.kind == question.answer.kind:
                answered.append(f"{other}: {said.kind}")
    return Learnt(
        f"{len(answered)} questions of another method are answered {answered or ''}".strip(), bool(answered)
    )


ATTACKS = (
    Attack("an approval of other terms", tuple(WAYS), "there was no approval", other_terms),
    Attack("more runs than approved", ("moments",), "there was no approval", more_runs),
    Attack("a run whose approval was revoked", ("moments", "fedavg"), "there was no approval", after_revocation),
    Attack("questions before the invitation", tuple(WAYS), "the scale question was answered", before_invitation),
    Attack("an approved run, as another method", ("fedavg",), "not tried", as_another_method),
)
