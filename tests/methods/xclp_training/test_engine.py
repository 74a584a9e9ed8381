"""Any algorithm of the table is the engine; what is not of the table is refused in words."""

from __future__ import annotations

import numpy as np
import pytest

import fedgeom
from fedgeom.errors import InputError
from fedgeom.federation.method import METHODS
from fedgeom.methods.iterative.algorithm import Algorithm
from fedgeom.methods.xclp_training.settings import InnerAlgorithm, _fits
from tests.methods.iterative.making import DEEP
from tests.methods.xclp_training.making import quick, sites

ENGINES = sorted(
    name for name in METHODS if _fits(METHODS.find(name)) and METHODS.find(name).__module__[:8] == "fedgeom."
)


def test_the_table_is_there():
    assert {"fedavg", "fedprox", "scaffold", "feddyn", "fedadam", "ditto", "fedper", "moon"} <= set(ENGINES)
    assert not {"hyperfed", "ptopofl", "xclp-training", "local", "moments"} & set(ENGINES)


@pytest.mark.parametrize("name", ENGINES)
def test_engines_bring_their_own_settings_and_travel(name):
    settings = {"network": "mlp"} if name in DEEP else {}
    method = quick(algorithm=name, **settings)
    alone: Algorithm = METHODS.find(name)(n_rounds=3, epochs=2, batch_size=8, weights="sites", **settings)
    assert method.rule == alone
    assert (method.head, method.loss, method.sends) == (alone.head, alone.loss, alone.sends)
    assert type(method).from_terms(method.terms()) == method


@pytest.mark.parametrize("engine", ["scaffold", "feddyn", "fedadam", "ditto", {"name": "fedprox", "mu": 0.5}])
def test_engines_train_as_they_do_alone_where_all_rows_have_labels(engine):
    data = sites(labelled=1.0)
    name = engine if isinstance(engine, str) else engine["name"]
    own = {} if isinstance(engine, str) else {"mu": 0.5}
    run = fedgeom.run(quick(algorithm=engine, labels="none"), data, seed=1)
    alone = fedgeom.run(
        METHODS.find(name)(n_rounds=3, epochs=2, batch_size=8, weights="sites", **own), data, seed=1
    )
    np.testing.assert_array_equal(run.model.parameters.flat(), alone.model.parameters.flat())


def test_an_algorithm_itself_is_taken_if_the_run_settles_what_it_settles():
    assert InnerAlgorithm.read(fedgeom.FedProx(mu=0.5), "engine") == InnerAlgorithm("fedprox", (("mu", 0.5),))
    assert InnerAlgorithm.read(fedgeom.FedAvg, "engine") == InnerAlgorithm("fedavg")
    assert quick(algorithm=fedgeom.FedProx(mu=0.5)).rule.mu == 0.5
    with pytest.raises(InputError, match="rounds is a setting of the run"):
        InnerAlgorithm.read(fedgeom.FedProx(n_rounds=3), "engine")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("fedavgg", "algorithm='fedavgg' is unknown"),
        ("hulls", "wanted an algorithm of the table"),
        ("ptopofl", "wanted an algorithm of the table"),
        ("local", "wanted an algorithm of the table"),
        ({"mu": 1.0}, "wanted an algorithm"),
        ({"name": "fedprox", "n_rounds": 3}, "rounds is a setting of the run"),
        ({"name": "fedprox", "mu": -1.0}, "mu=-1.0 given"),
    ],
)
def test_what_is_no_engine_is_refused_in_words(given, says):
    with pytest.raises(InputError, match=says):
        quick(algorithm=given)


def test_an_engine_cannot_promise_privacy_for_the_run():
    assert InnerAlgorithm.read({"name": "fedavg", "privacy": None}, "engine") == InnerAlgorithm("fedavg")
    private = fedgeom.FedAvg(
        n_rounds=1,
        steps=1,
        batch_size=None,
        scale="none",
        classes=("a", "b"),
        privacy=fedgeom.DP(epsilon=1, delta=1e-5, clip=1),
    )
    for given in ({"name": "fedavg", "privacy": {"epsilon": 1.0, "delta": 1e-5, "clip": 1.0}}, private):
        with pytest.raises(InputError, match=r"privacy is a promise about a whole run|is a setting of the run"):
            InnerAlgorithm.read(given, "engine")
