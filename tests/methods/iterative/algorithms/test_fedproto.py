"""FedProto: prototypes are the mean features of all rows; networks stay."""

from __future__ import annotations

import json

import numpy as np
import pytest

import fedgeom
from fedgeom import FedProto
from fedgeom.errors import InputError
from fedgeom.methods.catalogue import read_model
from fedgeom.methods.iterative import MLP, Round, TowardsPrototypes, Tree
from tests.methods.iterative.algorithms import by_differences as hand
from tests.methods.iterative.torching import DIGITS, digits, torch


def test_sums_over_counts_and_classes_nobody_has_keep_their_prototype():
    assert torch.__version__
    state = Tree(model=Tree(prototypes=np.full((3, 2), 7.0), counts=np.array([1.0, 1.0, 0.0])))
    # Two sites: class 0 has sums (2, 4) of 1 row and (4, 2) of 2 rows; class 1 is at one site, class 2 at none.
    mean = Tree(
        model=Tree(
            prototypes=np.array([[6.0, 6.0], [1.0, 3.0], [0.0, 0.0]]) / 2, counts=np.array([3.0, 1.0, 0.0]) / 2
        )
    )
    found = FedProto().combine(state, mean, Round(0, 1.0, np.random.default_rng(0)))["model"]
    assert found["prototypes"].tolist() == [[2.0, 2.0], [1.0, 3.0], [7.0, 7.0]]
    assert found["counts"].tolist() == [1.5, 0.5, 0.0]


def test_the_prototypes_are_the_mean_features_of_all_sites_rows():
    sites = digits()
    rule = FedProto(**(DIGITS | {"n_rounds": 1}))
    run = fedgeom.run(rule, sites, seed=0)
    learner = rule.build_learner()
    learner.bind(64, 3)
    sums, counts = np.zeros((3, 32)), np.zeros(3)
    for site in sites:
        Z = learner.features(run.model.for_site(run.local[site.name]).parameters, site.X)
        np.add.at(sums, site.y, Z)
        np.add.at(counts, site.y, 1)
    assert np.allclose(run.model.parameters["prototypes"], sums / counts[:, None], atol=1e-4)
    first = learner.start(64, 3, np.random.default_rng([0, 0]))
    assert np.array_equal(run.model.parameters["body.0.weight"], first["body.0.weight"])


def test_what_it_cannot_do_is_refused():
    for odd in ({"head": "orthonormal"}, {"network": None}, {"weights": "rows"}):
        with pytest.raises(InputError, match="FedProto wants"):
            FedProto(**odd)


def test_by_hand():
    """Two rounds of Tan et al. 2022, Eqs. 3, 6 and 7: mean features of a class, and a pull towards everybody's."""
    rule = FedProto(loss=TowardsPrototypes(lam=0.8), n_rounds=2, **hand.SETTINGS)
    names = (*hand.BODY, *hand.LINEAR)
    networks = [hand.started(rule)] * 2
    prototypes = None

    def loss_at(site, joint):
        y = hand.numbers(site)

        def loss(w):
            z = hand.features(w, site.X)
            found = hand.cross_entropy(z @ w["head.weight"].T + w["head.bias"], y)
            return found if joint is None else found + 0.8 * float(((z - joint[y]) ** 2).mean())

        return loss

    for _ in range(2):
        networks = [
            hand.step(w, loss_at(s, prototypes), names) for s, w in zip(hand.sites(), networks, strict=True)
        ]
        Z = np.vstack([hand.features(w, s.X) for s, w in zip(hand.sites(), networks, strict=True)])
        y = np.concatenate([hand.numbers(s) for s in hand.sites()])
        prototypes = np.array([Z[y == c].mean(axis=0) for c in range(2)])
    found = rule.plain(hand.sites(), hand.SEED)
    np.testing.assert_allclose(found.model.parameters["prototypes"], prototypes, **hand.NEAR)
    for site, w in zip(hand.sites(), networks, strict=True):
        hand.agrees(found.model.for_site(found.local[site.name]).parameters, w, names)


def test_sites_have_networks_of_their_own():
    """As in Tan et al. 2022, where models differ: prototypes are all that sites share."""
    sites = digits()
    first, second, *_ = [site.name for site in sites]
    own = MLP(hidden=200)
    rule = FedProto(**DIGITS | {"n_rounds": 30}, networks={second: own})
    assert FedProto.from_terms(json.loads(json.dumps(rule.terms()))) == rule
    run = fedgeom.run(rule, sites, seed=0, holdout=0.25)
    assert "network" not in run.local[first]
    for model in (
        run.model.for_site(run.local[second]),
        read_model(run.model.to_bytes()).for_site(run.local[second]),
    ):
        assert np.asarray(model.parameters["body.0.weight"]).shape == (200, 64)
        right = np.mean(model.predict(sites[1].X).astype(str) == sites[1].y.astype(str))
        assert right > 0.6
    plain = rule.plain(sites, seed=0).model
    secure = fedgeom.run(rule, sites, seed=0).model
    assert plain.to_bytes() == secure.to_bytes()
    assert (
        secure.parameters["prototypes"].tobytes()
        != fedgeom.run(FedProto(**DIGITS), sites, seed=0).model.parameters["prototypes"].tobytes()
    )


def test_networks_that_do_not_fit_are_refused():
    with pytest.raises(InputError, match="that of 'a' makes 7 features, network='mlp' 32; pro"):
        FedProto(**DIGITS, networks={"a": MLP(features=7)})
    with pytest.raises(InputError, match="wanted networks by the names of sites"):
        FedProto(**DIGITS, networks=["mlp"])
    sites = digits()
    with pytest.raises(InputError, match=f"networks names a site 'sit-1'; there are {sites[0].name}"):
        fedgeom.run(FedProto(**DIGITS, networks={"sit-1": MLP(hidden=20)}), sites)
