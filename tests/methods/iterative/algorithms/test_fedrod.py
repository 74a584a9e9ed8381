"""FedRoD: the generic head is everybody's, the personal one the site's."""

from __future__ import annotations

import numpy as np
import pytest

import fedgeom
from fedgeom import FedAvg, FedRoD
from fedgeom.errors import InputError
from fedgeom.methods.iterative.heads import PERSONAL
from tests.methods.iterative.algorithms import by_differences as hand
from tests.methods.iterative.making import own
from tests.methods.iterative.torching import DIGITS, digits, torch


def test_the_personal_head_stays_at_the_site():
    sites = digits()
    run = fedgeom.run(FedRoD(**DIGITS), sites, seed=0)
    for name in PERSONAL:
        assert not run.model.parameters[name].any()
        heads = [run.model.for_site(run.local[site.name]).parameters[name] for site in sites]
        assert all(head.any() for head in heads)
        assert not np.array_equal(heads[0], heads[1])


def test_the_joint_model_predicts_by_the_generic_head():
    sites = digits()
    run = fedgeom.run(FedRoD(**DIGITS), sites, seed=0)
    generic = run.model.parameters
    learner = FedRoD(**DIGITS).build_learner()
    learner.bind(64, 3)
    Z = learner.features(generic, sites[0].X)
    scores = Z @ generic["head.generic.weight"].T + generic["head.generic.bias"]
    assert np.array_equal(run.model.predict(sites[0].X), scores.argmax(axis=1))


def test_without_the_personal_part_it_is_fedavg_with_the_balanced_loss():
    """The personal head's loss reaches nothing else: body and generic head are those of balanced FedAvg."""
    sites = digits()
    two = FedRoD(**DIGITS).plain(sites)
    same = FedAvg(head="two", loss="balanced", **DIGITS)
    start = same.build_learner().start(64, 3, np.random.default_rng([0, 0]))
    assert torch.equal(torch.tensor(start[PERSONAL[0]]), torch.zeros(3, 32))

    class Generic(FedAvg):
        """FedAvg whose sites leave the personal head at zero."""

        name = "generic-head"

        def local(self, task, given, own):
            return type(given)(model=task.fit(given["model"], frozen=PERSONAL))

    other = Generic(head="two", loss="balanced", **DIGITS).plain(sites)
    assert np.allclose(two.model.parameters.flat(), other.model.parameters.flat(), atol=1e-6)
    assert not np.allclose(own(two, sites[0].name), own(other, sites[0].name), atol=1e-3)


def test_other_heads_are_refused():
    with pytest.raises(InputError, match='leave head="two"'):
        FedRoD(head="linear")


def test_by_hand():
    """Two rounds of Chen and Chao 2022: balanced risk for body and generic head, then own risk for the personal head.

    Balanced softmax: −log(n_y·e^{g_y}/Σ n_c·e^{g_c}). The personal head adds to the generic scores and moves alone.
    """
    rule = FedRoD(n_rounds=2, **hand.SETTINGS)
    first, shared = hand.started(rule), (*hand.BODY, "head.generic.weight", "head.generic.bias")
    joint, personal = first, [{name: first[name] for name in PERSONAL} for _ in range(2)]

    def generic(w, site):
        return hand.features(w, site.X) @ w["head.generic.weight"].T + w["head.generic.bias"]

    def balanced(site):
        y = hand.numbers(site)
        return lambda w: hand.cross_entropy(generic(w, site) + np.log(np.bincount(y, minlength=2)), y)

    def empirical(site):
        return lambda w: hand.cross_entropy(
            generic(w, site) + hand.features(w, site.X) @ w["head.personal.weight"].T + w["head.personal.bias"],
            hand.numbers(site),
        )

    for _ in range(2):
        trained = []
        for at, site in enumerate(hand.sites()):
            own = joint | personal[at]
            tuned = hand.step(own, empirical(site), PERSONAL)
            trained.append(hand.step(own, balanced(site), shared))
            personal[at] = {name: tuned[name] for name in PERSONAL}
        joint = joint | {name: hand.mean(trained)[name] for name in shared}
    found = rule.plain(hand.sites(), hand.SEED)
    hand.agrees(found.model.parameters, joint, shared)
    for at, site in enumerate(hand.sites()):
        mine = found.model.for_site(found.local[site.name]).parameters
        hand.agrees(mine, personal[at], PERSONAL)
