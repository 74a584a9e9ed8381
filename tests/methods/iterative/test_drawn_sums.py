"""Where a share of the sites trains in a round, the sums of that round are theirs, from the letters on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fedgeom
from fedgeom.errors import InputError
from fedgeom.federation.method import Method
from fedgeom.methods.iterative.messages import TrainMasked
from fedgeom.methods.iterative.setup import SumTrainingColumns
from fedgeom.protocols.evaluation import SumEvaluation
from fedgeom.protocols.join.messages import Letters
from fedgeom.protocols.names import CountNames
from fedgeom.testing.rehearsal import Rehearsal
from tests.methods.iterative.making import unlike

NAMES = tuple(f"s{at}" for at in range(9))
SPREADING: dict[str, Any] = {"name": "xclp", "n_anchors": 4, "steps": 2}
SHORT: dict[str, Any] = {"n_rounds": 4, "epochs": 1, "participation": 0.4, "min_sites": 3}


@pytest.mark.parametrize(
    "method",
    [
        fedgeom.FedAvg(**SHORT),
        fedgeom.Scaffold(holdout=0.2, **SHORT),
        fedgeom.PTopoFL(n_clusters=2, **SHORT),
        fedgeom.HyperFed(network=None, head="linear", loss="cross-entropy", aggregation="mean", **SHORT),
        fedgeom.FedAvg(prepare=["scale"], **SHORT),
        fedgeom.FedAvg(secure=False, **SHORT),
        fedgeom.XCLPTraining(warmup_rounds=1, relabel_every=2, labels=SPREADING, **SHORT),
        fedgeom.XCLPTraining(
            warmup_rounds=1, labels={"name": "xclp", "graph": "pairs", "hash_bits": 64}, holdout=0.2, **SHORT
        ),
        fedgeom.XCLPTraining(labels="network", **SHORT),
    ],
    ids=lambda method: f"{method.name} {method.holdout} {method.secure}",
)
def test_each_planned_sum_is_over_all_or_over_those_drawn_for_its_round(method: Any) -> None:
    planned, parts = method.site.all_sums(method), method.sum_sites(NAMES, 7)
    assert len(planned) == len(parts)
    rounds = [number for number in range(method.n_rounds) for _ in range(method.sums_in(number))]
    first = method.first_sum(0)
    for at, (question, part) in enumerate(zip(planned, parts, strict=True)):
        if first <= at < first + len(rounds):
            assert question not in (CountNames, SumTrainingColumns, SumEvaluation)
            assert set(part) == set(method.drawn(NAMES, 7, rounds[at - first]))
        else:
            assert question is not TrainMasked
            assert set(part) == set(NAMES)
    trained = [at for at, question in enumerate(planned) if question is TrainMasked]
    assert len(trained) == (method.n_rounds * method.groups if method.masked else 0)
    if not method.masked:
        assert not rounds
    elif method.groups == 1:
        assert trained == [method.first_sum(number + 1) - 1 for number in range(method.n_rounds)]


def test_where_all_sites_train_any_may_be_in_any_sum() -> None:
    assert fedgeom.FedAvg(n_rounds=3).sum_sites(NAMES, 0) is None
    assert fedgeom.FedAvg(n_rounds=3, participation=0.3, min_sites=9).sum_sites(NAMES, 0) is None
    assert Method.sum_sites(fedgeom.Moments(), NAMES, 0) is None


@pytest.mark.parametrize("rounds", [5, 8])
def test_a_site_that_is_lost_while_joining_takes_nobodys_place(rounds: int) -> None:
    """It wrote no letters. Sites are drawn among those who were announced, so whoever is drawn has shared secrets."""
    sites = unlike(n_sites=9, rows=6)
    row = fedgeom.FedAvg(n_rounds=rounds, epochs=1, participation=0.5, min_sites=3)
    lost = row.drawn([site.name for site in sites], 3, 0)[0]

    def silent(name: str, request: bytes) -> str | None:
        return "gone" if name == lost and b"join.share" in request else None

    run = fedgeom.run(row, sites, seed=3, interfere=silent)
    assert run.lost == {lost: "gone"}
    masked: dict[int, list[str]] = {}
    for entry in run.ledger:
        if entry.kind == "sum.masked":
            masked.setdefault(entry.step, []).append(entry.site)
    drawn = [row.drawn([site.name for site in sites], 3, number) for number in range(rounds)]
    assert list(masked.values())[1:] == [[name for name in names if name != lost] for names in drawn]


def test_letters_are_shorter_where_few_sites_are_drawn() -> None:
    rng = np.random.default_rng(0)
    sites = [fedgeom.SiteData(f"s{at:02d}", rng.normal(size=(6, 2)), ["a", "b"] * 3) for at in range(20)]
    told = {}
    for share in (0.2, 1.0):
        run = fedgeom.run(fedgeom.FedAvg(participation=share, min_sites=3, n_rounds=20, steps=1), sites)
        told[share] = sum(entry.bytes for entry in run.ledger if entry.kind == Letters.kind)
        assert not run.lost
    assert told[0.2] < 0.4 * told[1.0]


def test_draws_that_no_policy_lets_be_summed_are_refused() -> None:
    """All rounds would rest, and the model come out untrained."""
    sites = unlike(n_sites=9, rows=6)
    row = fedgeom.FedAvg(n_rounds=3, epochs=1, participation=0.1)
    words = (
        "participation=0.1 given, which draws 2 of 9 sites .* wanted participation=0.34 or more, or min_sites=3"
    )
    with pytest.raises(InputError, match=f"(?i){words}"):
        fedgeom.run(row, sites)
    with pytest.raises(InputError, match=f"(?i){words}"):  # as in a deployment, where nobody sees all tables
        Rehearsal(row, sites).conduct()
    assert fedgeom.run(row, sites, policy=fedgeom.Policy(min_cohort=2)).model.parameters.flat().any()
    assert (
        fedgeom.run(fedgeom.FedAvg(n_rounds=3, participation=0.1, secure=False), sites)
        .model.parameters.flat()
        .any()
    )
