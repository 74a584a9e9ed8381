"""Settings that make no sense are refused, with what was given and what is wanted."""

from __future__ import annotations

import numpy as np
import pytest

import fedgeom
from fedgeom.errors import InputError
from fedgeom.methods import METHODS, method_class
from fedgeom.methods.iterative import (
    Ditto,
    FedAdam,
    FedAvg,
    FedDyn,
    FedPer,
    FedProx,
    Logistic,
    PFedMe,
    Row,
    Scaffold,
)
from tests.methods.iterative.making import ROWS, row_class, unlike


@pytest.mark.parametrize(
    ("cls", "options", "message"),
    [
        (FedAvg, {"rounds": 0}, "rounds=0 given; wanted a whole number from 1 to 500"),
        (FedAvg, {"rounds": 501}, "rounds=501 given"),
        (FedAvg, {"rounds": 2.5}, "rounds=2.5 given; wanted a whole number"),
        (FedAvg, {"epochs": 0}, "epochs=0 given"),
        (FedAvg, {"steps": 0}, "steps=0 given"),
        (FedAvg, {"batch": 0}, "batch=0 given"),
        (FedAvg, {"rate": 0.0}, "rate=0.0 given; wanted a positive number"),
        (FedAvg, {"rate": float("nan")}, "rate=nan given"),
        (FedAvg, {"rate": float("inf")}, "rate=inf given"),
        (FedAvg, {"decay": -1.0}, "decay=-1.0 given"),
        (FedAvg, {"share": 1.5}, "share=1.5 given; wanted a share from 0 to 1"),
        (FedAvg, {"trim": 0.6}, "trim=0.6 given; wanted a share from 0 to 0.5"),
        (FedAvg, {"bad": -1}, "bad=-1 given"),
        (FedAvg, {"validation": 0.95}, "validation=0.95 given"),
        (FedAvg, {"patience": 3}, "patience needs rows to watch; give validation"),
        (FedAvg, {"patience": 0, "validation": 0.1}, "patience=0 given"),
        (FedAvg, {"mix": 2.0}, r"mix=2.0 given; wanted a number from 0 \(joint\) to 1 \(local\)"),
        (FedAvg, {"C": 0.0}, "C=0.0 given; wanted a positive"),
        (FedAvg, {"aggregation": "mode"}, "aggregation='mode' is unknown; there are: mean, median"),
        (FedAvg, {"schedule": "linear"}, "schedule='linear' is unknown"),
        (FedAvg, {"solver": "adam"}, "solver='adam' is unknown"),
        (FedAvg, {"weights": "all"}, "weights='all' is unknown"),
        (FedAvg, {"scale": "unit"}, "scale='unit' is unknown"),
        (FedAvg, {"personal": "yes"}, "personal='yes' is unknown"),
        (FedAvg, {"learner": "forest"}, "there is no learner 'forest' here"),
        (FedAvg, {"classes": ("a",)}, "wanted at least two different one-line names"),
        (FedAvg, {"classes": ("a", "b\nc")}, "wanted at least two different one-line names"),
        (
            FedAvg,
            {"classes": tuple(f"a rather long name {i}" for i in range(60))},
            "60 classes given, with names of",
        ),
        (
            FedAvg,
            {"secure": True, "aggregation": "median"},
            "looks at each site's vector, which a secure sum hides",
        ),
        (Scaffold, {"solver": "exact"}, 'Scaffold counts gradient steps; solver="exact" takes none'),
        (PFedMe, {"solver": "exact"}, "PFedMe counts gradient steps"),
        (Scaffold, {"server_rate": 0.0}, "server_rate=0.0 given"),
        (FedProx, {"mu": -1.0}, r"mu=-1.0 given; wanted 0 \(FedAvg\) or more"),
        (FedDyn, {"alpha": 0.0}, "alpha=0.0 given; wanted a positive number"),
        (Ditto, {"lam": -0.1}, "lam=-0.1 given"),
        (PFedMe, {"lam": 30.0}, "wanted 0 < outer_rate·lam ≤ 1"),
        (PFedMe, {"local_rounds": 0}, "local_rounds=0"),
        (PFedMe, {"beta": 0.0}, "beta=0.0"),
        (FedAdam, {"beta1": 1.0}, "beta1=1.0"),
        (FedAdam, {"tau": 0.0}, "tau=0.0"),
        (FedPer, {"learner": "bowl"}, "learner 'bowl' names no head"),
    ],
)
def test_refusals(cls, options, message):
    with pytest.raises(InputError, match=message):
        cls(**options)


def test_a_learner_can_be_given_itself():
    row = FedAvg(learner=Logistic(C=7.0))
    assert (row.learner, row.C) == ("logistic", 7.0)


@pytest.mark.parametrize("name", ROWS)
def test_terms_there_and_back(name):
    row = row_class(name)(rounds=3, classes=("a", "b"), rate=0.5)
    assert row.from_terms(row.parameters() | {"seed": 3}) == row
    assert row.site.row is row_class(name)
    assert row.name == name
    assert method_class(name) is row_class(name)
    assert name in METHODS


def test_a_row_that_does_not_train():
    with pytest.raises(NotImplementedError, match="Row does not train"):
        Row().local(None, {}, {})


def test_sites_must_fit_together():
    sites = unlike()
    odd = fedgeom.SiteData("odd", np.ones((4, 3)), ["class 0", "class 1"] * 2)
    with pytest.raises(InputError, match="sites must have the same columns: most have 2, but site 'odd' has 3"):
        fedgeom.run(FedAvg(), [*sites, odd])
    same = [fedgeom.SiteData(site.name, site.X, ["x"] * len(site)) for site in sites]
    with pytest.raises(InputError, match="all sites together have one class, x; a classifier needs two"):
        fedgeom.run(FedAvg(), same)
    with pytest.raises(InputError, match=r"site 's0': labels outside the agreed classes: class 1"):
        fedgeom.run(FedAvg(classes=("class 0", "other")), sites)
    with pytest.raises(InputError, match="has classes with fewer than 100 rows"):
        fedgeom.run(FedAvg(least_points=100), sites)


def test_agreed_classes_need_not_occur():
    run = fedgeom.run(FedAvg(rounds=1, classes=("class 0", "class 1", "rare")), unlike())
    assert run.model.names == ("class 0", "class 1", "rare")
    assert run.model.parameters["weights"].shape == (2, 3)
