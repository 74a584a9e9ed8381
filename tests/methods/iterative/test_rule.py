"""Training rules: settings that make no sense are refused, with what was given and what is wanted; what follows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from fedgeom import Ditto, FedAdam, FedAvg, FedDyn, FedProx, PFedMe, Scaffold
from fedgeom.errors import InputError
from fedgeom.methods.iterative import Cosine, Effort, Krum, Logistic, Median, Round, Tree
from fedgeom.methods.iterative.settings import TrainingRule, built_learner
from tests.methods.iterative.algorithms.against_papers import bowl_task, one
from tests.methods.iterative.making import Bowl

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("cls", "options", "message"),
    [
        (FedAvg, {"n_rounds": 0}, "n_rounds=0 given; wanted a whole number from 1 to 2045"),
        (FedAvg, {"n_rounds": 2046}, "n_rounds=2046 given; wanted a whole number from 1 to 2045"),
        (FedAvg, {"n_rounds": 2.5}, "n_rounds=2.5 given; wanted a whole number"),
        (FedAvg, {"n_rounds": True}, "n_rounds=True given; wanted a whole number"),
        (FedAvg, {"epochs": 0}, "epochs=0 given; wanted a whole number from 1 to 1e\\+06"),
        (FedAvg, {"steps": 0}, "steps=0 given; wanted a whole number from 1 to 1e\\+09 or None"),
        (FedAvg, {"batch_size": 0}, "batch_size=0 given; wanted a whole number from 1 to 1e\\+09 or None"),
        (
            FedAvg,
            {"learning_rate": 0.0},
            r"learning_rate=0.0 given; wanted a number from 0 \(excluded\) to 1e\+06 \(excluded\)",
        ),
        (FedAvg, {"learning_rate": NAN}, "learning_rate=nan given; wanted a number"),
        (FedAvg, {"learning_rate": INF}, "learning_rate=inf given; wanted a number"),
        (FedAvg, {"learning_rate": "fast"}, "learning_rate='fast' given; wanted a number"),
        (FedAvg, {"participation": 1.5}, "participation=1.5 given; wanted a number from 0 to 1"),
        (FedAvg, {"validation_fraction": 0.95}, "validation_fraction=0.95 given; wanted a number from 0 to 0.9"),
        (FedAvg, {"patience": 3}, "patience needs rows to watch; give validation"),
        (
            FedAvg,
            {"patience": 0, "validation_fraction": 0.1},
            "patience=0 given; wanted a whole number from 1 to 2045",
        ),
        (FedAvg, {"C": 0.0}, "C=0.0 given; wanted a number above 0"),
        (FedAvg, {"C": INF}, "C=inf given; wanted a number above 0"),
        (FedAvg, {"aggregation": "mode"}, "aggregation='mode' is unknown; there are: mean, median"),
        (FedAvg, {"schedule": "linear"}, "schedule='linear' is unknown; there are: constant, cosine, decay"),
        (FedAvg, {"solver": "adam"}, "solver='adam' given; wanted one of 'sgd', 'exact'"),
        (FedAvg, {"weights": "all"}, "weights='all' given; wanted one of 'rows', 'sites'"),
        (FedAvg, {"personal": "yes"}, "personal='yes' is unknown; there are: none, finetuned, interpolated"),
        (FedAvg, {"secure": "yes"}, "secure='yes' given; wanted True or False or None"),
        (FedAvg, {"learner": "forest"}, "learner='forest' is unknown; there are: logistic"),
        (FedAvg, {"learner": 7}, "learner=7 given; wanted a text"),
        (
            FedAvg,
            {"secure": True, "aggregation": "median"},
            "secure=True with aggregation='median': that looks at each site's vector, which a secure sum hides",
        ),
        (Scaffold, {"solver": "exact"}, 'Scaffold counts gradient steps; solver="exact" takes none'),
        (PFedMe, {"solver": "exact"}, "PFedMe counts gradient steps"),
        (Scaffold, {"server_learning_rate": 0.0}, "server_learning_rate=0.0 given; wanted a number above 0"),
        (FedProx, {"mu": -1.0}, "mu=-1.0 given; wanted a number of at least 0"),
        (FedDyn, {"alpha": 0.0}, "alpha=0.0 given; wanted a number above 0"),
        (Ditto, {"lam": -0.1}, "lam=-0.1 given; wanted a number of at least 0"),
        (
            PFedMe,
            {"lam": 30.0},
            "lam=30.0, outer_learning_rate=0.05 given; wanted 0 < outer_learning_rate·lam ≤ 1",
        ),
        (PFedMe, {"lam": 0.0}, "lam=0.0 given; wanted a number above 0"),
        (PFedMe, {"local_rounds": 0}, "local_rounds=0 given; wanted a whole number of at least 1"),
        (PFedMe, {"inner_steps": 0}, "inner_steps=0 given; wanted a whole number of at least 1"),
        (PFedMe, {"beta": 0.0}, "beta=0.0 given; wanted a number above 0"),
        (FedAdam, {"beta1": 1.0}, r"beta1=1.0 given; wanted a number from 0 to 1 \(excluded\)"),
        (FedAdam, {"beta2": -0.1}, r"beta2=-0.1 given; wanted a number from 0 to 1 \(excluded\)"),
        (FedAdam, {"tau": 0.0}, "tau=0.0 given; wanted a number above 0"),
        (FedAdam, {"server_learning_rate": NAN}, "server_learning_rate=nan given; wanted a number above 0"),
    ],
)
def test_refusals(cls, options, message):
    with pytest.raises(InputError, match=message):
        cls(**options)


def test_numpys_numbers_become_pythons():
    row = FedAvg(n_rounds=np.int64(3), learning_rate=np.float64(0.5), C=2)
    assert [type(value) for value in (row.n_rounds, row.learning_rate, row.C)] == [int, float, float]


def test_a_learner_can_be_given_itself():
    row = FedAvg(learner=Logistic(C=7.0))
    assert (row.learner, row.C) == ("logistic", 7.0)
    assert row.build_learner().C == 7.0
    assert FedAvg(learner=Bowl()).learner == "bowl"


def test_a_rule_by_itself_is_fedavg():
    """A rule has no name, site or conversation; what it says of training is what FedAvg says."""
    rule, given = TrainingRule(), Tree(model=one(1.0))
    assert rule.local(bowl_task((10, 1)), given, Tree())["model"]["w"] == pytest.approx([1 + 0.9 + 0.81])
    state = rule.combine(given | {"more": 3}, Tree(model=one(5.0)), Round(0, 1.0, np.random.default_rng(0)))
    assert (state["model"]["w"][0], state["more"]) == (5.0, 3)
    assert rule.start(one(0.0)).leaves().keys() == {"model/w"}
    assert rule.personalise(bowl_task((10, 1)), given, Tree())["w"].tolist() == [1.0]


def test_what_follows_from_the_settings():
    row = FedAvg(
        epochs=3, steps=2, batch_size=None, learning_rate=0.4, solver="exact", schedule=Cosine(), n_rounds=2
    )
    assert row.effort() == Effort(epochs=3, steps=2, batch_size=None, learning_rate=0.4, solver="exact")
    assert row.effort(0.1).learning_rate == 0.1
    assert [row.rate_in(t) for t in (0, 1)] == pytest.approx([0.4, 0.2])
    assert FedAvg().masked
    assert not FedAvg(secure=False).masked
    assert not FedAvg(aggregation=Median()).masked
    assert FedAvg(aggregation=Krum(1)).combine_rule == Krum(1)
    assert (FedAvg().groups, FedAvg().extra_columns) == (1, 0)
    assert FedAvg(C=3).learner_options() == {"C": 3.0}
    assert FedAvg(learner="bowl").learner_options() == {}
    assert built_learner("logistic", {"C": 5.0}).C == 5.0
    assert isinstance(built_learner("bowl", {}), Bowl)


# What is sent, and the next state.


@dataclass(frozen=True, kw_only=True)
class Wrong(TrainingRule):
    """Sends one branch more than it says."""

    sends: ClassVar[tuple[str, ...]] = ("model",)

    def local(self, task, given, own):
        return {"model": given["model"], "count": 3.0}


def test_what_is_sent_must_be_what_was_said():
    message = (
        r"Wrong.local returned \{'count': \(\), 'model/w': \(1,\)\}; wanted \{'model/w': \(1,\)\}, as `sends`"
    )
    with pytest.raises(TypeError, match=message):
        Wrong().train(bowl_task((10, 1)), Tree(model=one(0.0)), Tree())


@pytest.mark.parametrize("row", [FedAvg(), FedAdam(), FedDyn(), Scaffold(server_learning_rate=0.5)])
def test_statistics_are_averaged_by_every_algorithm(row):
    """A coordinator's step along a variance could make it negative; statistics are averaged, and nothing more."""
    state = row.start(Tree(w=np.array([1.0]), v=np.array([2.0])))
    change = Tree({name: Tree(w=np.array([0.3]), v=np.array([0.4])) for name in row.sends})
    mean = change if row.sends_changes else Tree(model=Tree(w=np.array([1.3]), v=np.array([2.4])))
    round = Round(0, 1.0, np.random.default_rng(0))
    new = row.next_state(state, mean, round, ["v", "not here"])["model"]
    assert new["v"] == pytest.approx([2.4])
    assert new["w"] == row.combine(state, mean, round)["model"]["w"]


def test_the_joint_model_keeps_its_dtypes():
    class Doubled(TrainingRule):
        """Arithmetic in double precision."""

        def combine(self, state, mean, round):
            return {"model": mean["model"].map(lambda leaf: np.asarray(leaf, np.float64) * 1.5)}

    state = Tree(model=Tree(w=np.ones(2, np.float32), n=2))
    new = Doubled().next_state(state, state, Round(0, 1.0, np.random.default_rng(0)), ())["model"]
    assert new["w"].dtype == np.float32
    assert (new["n"], type(new["n"])) == (3, int)


def test_the_draw_follows_from_members_seed_and_round_alone():
    members = [f"s{n}" for n in range(10)]
    rule = TrainingRule(participation=0.35, min_sites=2)
    first = rule.drawn(members, 7, 0)
    assert len(first) == 4
    assert list(first) == sorted(set(first) & set(members))
    assert rule.drawn(members[::-1], 7, 0) == first
    assert len({rule.drawn(members, 7, number) for number in range(20)}) > 10
    assert rule.drawn(members, 8, 0) != first
    assert rule.drawn(members, 7 - 2**63, 0) == first  # seeds are taken modulo 2^63
    assert TrainingRule().drawn(members, 7, 0) == tuple(members)
    assert len(TrainingRule(participation=0.1, min_sites=3).drawn(members, 7, 0)) == 3
    assert TrainingRule(participation=0.1, min_sites=30).drawn(members, 7, 0) == tuple(members)


def test_without_clusters_nobody_is_grouped_weighed_or_quickened_anew():
    rule = TrainingRule()
    assert (rule.weighs_sites, rule.groups) == (False, 1)
    assert [rule.regroups_in(number) for number in range(3)] == [True, False, False]
