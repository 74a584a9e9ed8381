"""Terms that ask for too much: what a site's policy refuses whoever asks."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

import fedgeom
from fedgeom.errors import FedgeomError
from fedgeom.federation.messages import Array, Refusal
from fedgeom.federation.policy import Policy
from fedgeom.methods.iterative.messages import TrainOpen, Update
from fedgeom.methods.iterative.setup import BeginTraining, hash_agreed
from fedgeom.methods.iterative.training import TrainingLoop
from fedgeom.methods.iterative.tree import from_wire
from fedgeom.methods.xclp.messages import FirstRowMessages
from fedgeom.protocols.join.messages import Hello
from tests.attacks.playing import Attack, Floats, Learnt, Liar, patients, refused, rows_read

replace_settings = dataclasses.replace
ONE_ROW: dict[str, Any] = {"batch_size": 1, "steps": 1, "learning_rate": 1.0, "classes": ("no", "yes")}
OPENLY: dict[str, Any] = {
    "fedavg": lambda n: fedgeom.FedAvg(n_rounds=n, secure=False, **ONE_ROW),
    "fedavg, median": lambda n: fedgeom.FedAvg(n_rounds=n, aggregation="median", **ONE_ROW),
    "fedprox": lambda n: fedgeom.FedProx(n_rounds=n, secure=False, **ONE_ROW),
    "scaffold": lambda n: fedgeom.Scaffold(n_rounds=n, secure=False, **ONE_ROW),
}


def row_of(update: Update) -> Floats:
    """Return the row that one gradient step from zero was taken at: the weights' change ÷ the intercept's."""
    leaves = from_wire(update.sent)
    while "model" in leaves:
        leaves = leaves["model"]
    return np.asarray(leaves["weights"][:, 0] / leaves["intercept"][0])


def open_training(method: str, policy: Policy, quick: bool) -> Learnt:
    """Let a site train on one row at a time, in the open, from a model of zeros."""
    rounds = 60 if quick else 200
    way = OPENLY[method](rounds)
    liar = Liar(way, patients(), policy)
    talk, victim = TrainingLoop(way, liar.talk), liar.data["s000"]
    try:
        talk.conduct()
    except FedgeomError as error:
        if not any(isinstance(answer, Update) for _, _, answer in liar.heard):
            return liar.refusal(error)
    guesses = []
    for name, question, answer in liar.heard:
        if name == "s000" and isinstance(answer, Update):
            sent, given = from_wire(answer.sent), from_wire(question.given)
            step = sent["model"] - given["model"]
            # A ridge penalty is in each step; the intercept's share tells how much of it is the row.
            n, w = len(victim.X), given["model"]["weights"][:, 0]
            slope = step["weights"][:, 0] + w / n
            guesses.append(slope / step["intercept"][0] * talk.agreed.spread + talk.agreed.centre)
    read = rows_read(guesses, victim.X)
    return Learnt(f"{read} of {len(victim.X)} rows in {rounds} questions", read > 0)


def open_training_alone(method: str, policy: Policy, quick: bool) -> Learnt:
    """The same with one site alone, without a cohort, run after run."""
    way = replace_settings(OPENLY[method](1), scale="none")
    victim = patients()[0]
    guesses, last = [], ""
    for seed in range(20 if quick else 100):
        liar = Liar(way, patients(), policy, seed=seed)
        begin = BeginTraining(classes=("no", "yes"))
        planned = way.site.all_sums(way)
        liar.ask("s000", Hello(rounds=len(planned), seed=seed, terms=way.terms(), participants=liar.names))
        liar.ask("s000", begin)
        given = {"model/intercept": Array.of(np.zeros(1)), "model/weights": Array.of(np.zeros((4, 1)))}
        ask = TrainOpen(round=0, given=given, agreed=hash_agreed(begin))
        answer = liar.ask("s000", ask)
        if isinstance(answer, Refusal):
            last = answer.reason
        else:
            guesses.append(row_of(answer))
    read = rows_read(guesses, victim.X)
    return Learnt(f"{read} of {len(victim.X)} rows", True) if read else refused(last)


def descriptors(method: str, policy: Policy, quick: bool) -> Learnt:
    """Ask for the shape of each site's rows, which the coordinator sees as it is."""
    way = fedgeom.PTopoFL(n_rounds=1, steps=2, batch_size=8, n_clusters=1, classes=("no", "yes"))
    return _shown(way, policy, "topo.description", "descriptors of 48 numbers")


def distances(method: str, policy: Policy, quick: bool) -> Learnt:
    """Ask for all angles between rows."""
    way = fedgeom.XCLP(hash_bits=64, hamming="ot", classes=("no", "yes"))
    return _shown(way, policy, FirstRowMessages.kind, "tables of distances between a site's own rows")


def _shown(way: Any, policy: Policy, kind: str, what: str) -> Learnt:
    liar = Liar(way, patients(rows=10), policy)
    failed: FedgeomError | None = None
    try:
        way.conduct(liar.talk)
    except FedgeomError as error:
        failed = error
    shown = [answer for _, _, answer in liar.heard if answer.kind == kind]
    if shown or failed is None:
        return Learnt(f"{len(shown)} {what}", bool(shown))
    return liar.refusal(failed)


def one_row_batches(method: str, policy: Policy, quick: bool) -> Learnt:
    """Ask for steps on one row each, under secure sums: the sum is then one row of each site."""
    way = fedgeom.FedAvg(n_rounds=1, **ONE_ROW)
    return _joined(way, policy, "a sum of one row of each site")


def many_rounds(method: str, policy: Policy, quick: bool) -> Learnt:
    """Ask for hundreds of rounds: each is another look at the same rows."""
    way: Any = fedgeom.FedAvg(n_rounds=500) if method == "fedavg" else fedgeom.Shrunk(n_rounds=500)
    return _joined(way, policy, "500 sums of the same rows")


def _joined(way: Any, policy: Policy, what: str) -> Learnt:
    liar = Liar(way, patients(), policy)
    try:
        liar.join()
    except FedgeomError as error:
        return liar.refusal(error)
    return Learnt(f"the sites join for {what}", True)


ATTACKS = (
    Attack(
        "open training, a row a step",
        tuple(OPENLY),
        "a site's policy could insist on the cohort's size only: 20 of 20 rows with labels in 200 questions",
        open_training,
    ),
    Attack(
        "open training of one site alone",
        ("fedavg", "fedprox"),
        "20 of 20 rows with labels in 200 questions, without a cohort",
        open_training_alone,
        "permissive",
    ),
    Attack("descriptors of one site", ("ptopofl",), "48 numbers of each site, whatever its policy", descriptors),
    Attack("distances between rows", ("xclp",), "all angles between all rows, whatever the policy", distances),
    Attack("steps on one row", ("fedavg",), "nothing forbade it", one_row_batches),
    Attack("hundreds of rounds", ("fedavg", "shrunk"), "nothing forbade it", many_rounds),
)
