"""HyperFed against the paper's equations, its ablations, its published setting, and the contract of all methods."""

from __future__ import annotations

import numpy as np
import pytest

import fedgeom
from fedgeom import HyperFed, memo
from fedgeom.data.sites import SiteData
from fedgeom.federation.policy import Policy
from fedgeom.methods.catalogue import method_class
from fedgeom.methods.iterative import MLP, Consistent, Poincare, Triplet
from tests.methods.hyperfed import twin
from tests.methods.hyperfed.making import clinics, quick

torch = pytest.importorskip("torch")

OPEN = {"secure": False}
SMALL = {"n_rounds": 2, "epochs": 1, "network": {"name": "mlp", "hidden": 8, "features": 6, "embedding_dim": 4}}


def test_it_is_found_by_its_name_and_its_terms_travel():
    assert method_class("hyperfed") is HyperFed
    for method in (
        HyperFed(),
        HyperFed.published(),
        HyperFed.measured(),
        HyperFed(class_tree={"a": "x", "b": "x"}),
    ):
        assert HyperFed.from_terms(method.terms()) == method


@pytest.mark.parametrize("secure", [False, True])
def test_a_round_is_that_of_the_paper(secure):
    """Two rounds of one full-batch step at three sites: features, exponential map, distance, triplet, weights, step."""
    rng = np.random.default_rng(0)
    sites = [SiteData(f"s{k}", rng.normal(size=(6, 3)), np.array(list("abcabc"))) for k in range(3)]
    head = Poincare(slope=0.7)
    method = HyperFed(
        n_rounds=2,
        steps=1,
        batch_size=None,
        learning_rate=0.2,
        scale="none",
        network=MLP(features=4, depth=0, embedding_dim=3),
        head=head,
        loss=Triplet(margin=1.5, negatives="all"),
        aggregation=Consistent(min_effective_sites=2.0),
        personal="none",
        secure=secure,
    )
    if secure:  # updates are compared in secret
        pytest.importorskip("seal", reason="needs seal-python")
    few = Policy(min_cohort=2)  # more would raise how many sites are mixed
    run = fedgeom.run(method, sites, seed=5, policy=few)
    start = fedgeom.run(
        HyperFed(**(method.terms() | {"n_rounds": 1, "learning_rate": 1e-12})), sites, seed=5, policy=few
    )
    theta = [np.asarray(a, float) for a in start.model.parameters.values()]
    shapes = [a.shape for a in theta]
    assert shapes == [(4, 3), (4,), (3, 4), (3,)]
    prototypes = head.points(3, 3)
    sizes = np.cumsum([a.size for a in theta])[:-1]
    flat = np.concatenate([a.ravel() for a in theta])
    for _ in range(2):
        theta = [p.reshape(a.shape) for p, a in zip(np.split(flat, sizes), theta, strict=True)]
        labels = np.array([0, 1, 2, 0, 1, 2])
        found = [twin.descend(flat, shapes, s.X, labels, prototypes, twin.triplet(1.5), 0.2) for s in sites]
        changes = np.array(found) - flat
        flat = flat + twin.min_norm_weights(changes, 2.0) @ changes
    found = np.concatenate([np.ravel(a) for a in run.model.parameters.values()])
    assert (
        np.abs(found - flat).max() < 5e-3 * np.abs(flat - np.concatenate([a.ravel() for a in theta])).max() + 2e-3
    )
    x = twin.exp_o(
        twin.features([p.reshape(a.shape) for p, a in zip(np.split(found, sizes), theta, strict=True)], sites[0].X)
    )
    nearest = np.array([[twin.d(row, w) for w in prototypes] for row in x]).argmin(axis=1)
    np.testing.assert_array_equal(run.model.predict(sites[0].X), np.array(list("abc"))[nearest])
    np.testing.assert_allclose(run.model.points(sites[0].X), x, atol=1e-5)


ABLATIONS = {
    "HyperFed": {},
    "Geodesic": {"loss": "geodesic"},
    "Fixed": {"prototypes": "fixed"},
    "Shared": {"prototypes": "shared"},
    "Averaged": {"aggregation": "mean"},
    "public code": {"loss": "public-triplet"},
    "softmax": {"loss": "geodesic-softmax"},
    "published prototypes": {"head": {"name": "poincare", "placing": "published"}},
    "ideal": {"head": {"name": "poincare", "slope": 1.0}},
    "tree": {"class_tree": {"a": "x", "b": "x", "c": "top", "x": "top"}, "loss": "tree-softmax"},
}


@pytest.mark.parametrize("changes", ABLATIONS.values(), ids=ABLATIONS)
def test_every_variant_trains_equals_its_twin_and_comes_back_from_its_file(changes):
    sites, method = clinics(), HyperFed(**(SMALL | OPEN | changes))
    run = fedgeom.run(method, sites, seed=1)
    plain = method.plain(sites, 1)
    for name, array in plain.model.parameters.items():
        np.testing.assert_array_equal(run.model.parameters[name], array)
    again = fedgeom.methods.catalogue.read_model(run.model.to_bytes())
    pairs = [[model.for_site(run.local["clinic 1"]) for model in (again, run.model)]]
    pairs += [[again, run.model]] if changes.get("prototypes") != "fixed" else []
    for one, other in pairs:
        np.testing.assert_array_equal(one.predict_proba(sites[1].X), other.predict_proba(sites[1].X))
        assert np.isfinite(other.predict_proba(sites[1].X)).all()


def test_sites_with_prototypes_of_their_own_keep_them_and_send_none():
    sites, method = (
        clinics(),
        HyperFed(**(SMALL | OPEN | {"prototypes": "fixed", "n_rounds": 6, "learning_rate": 0.3})),
    )
    run = fedgeom.run(method, sites)
    with pytest.raises(fedgeom.InputError, match="for_site"):  # the joint body has no prototypes of its own
        run.model.predict(sites[0].X)
    own = {site.name: run.model.for_site(run.local[site.name]) for site in sites}
    points = [np.asarray(model.parameters["head.points"]) for model in own.values()]
    assert np.abs(points[0] - points[1]).max() > 0.05
    np.testing.assert_allclose(points[0] @ points[0].T, points[1] @ points[1].T, atol=1e-5)
    assert np.mean([(own[s.name].predict(s.X) == s.y).mean() for s in sites]) > 0.55


def test_shared_prototypes_move_and_fixed_ones_are_no_part_of_the_model():
    sites = clinics()
    fixed, shared = (
        fedgeom.run(HyperFed(**(SMALL | OPEN | {"prototypes": kept, "loss": "geodesic"})), sites).model.parameters
        for kept in ("fixed and shared", "shared")
    )
    assert not [name for name in fixed if name.startswith("head")]
    tangents = np.asarray(shared["head.tangents"])
    start = np.arctanh(0.9)
    assert np.abs(np.linalg.norm(tangents, axis=1) - start).max() > 1e-4


def test_training_learns_and_the_secure_way_equals_the_open_one():
    pytest.importorskip("seal")
    sites = clinics(rows=60)
    changes = {"n_rounds": 4, "learning_rate": 0.3, "loss": "geodesic-softmax", "epochs": 5}
    secure = fedgeom.run(HyperFed(**(SMALL | changes)), sites)
    shown = fedgeom.run(HyperFed(**(SMALL | changes | OPEN)), sites)
    for name, array in shown.model.parameters.items():
        np.testing.assert_array_equal(secure.model.parameters[name], array)
    assert np.mean([(secure.model.predict(s.X) == s.y).mean() for s in sites]) > 0.7
    told = {entry.kind for entry in secure.ledger}
    assert "hyperfed.shares" in told
    assert "train.update" not in told


def test_every_question_may_find_a_new_process():
    """What a process would have built before, a network above all, is forgotten before each question."""
    pytest.importorskip("seal")
    sites, method = clinics(), HyperFed(**(SMALL | {"n_rounds": 1}))

    def forget(site, request):
        memo.clear()

    run = fedgeom.run(method, sites, seed=1, interfere=forget)
    assert run.model.to_bytes() == fedgeom.run(method, sites, seed=1).model.to_bytes()


def test_secure_only_is_named_in_the_refusal():
    with pytest.raises(fedgeom.FedgeomError, match=r'secure_only = true.*cosine.*aggregation="mean"'):
        fedgeom.run(quick(), clinics(), policy=Policy(secure_only=True))
