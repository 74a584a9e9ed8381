"""FedRoD: the generic head is everybody's, the personal one the site's."""

from __future__ import annotations

import numpy as np
import pytest

import fedgeom
from fedgeom import FedAvg, FedRoD
from fedgeom.errors import InputError
from fedgeom.methods.iterative.heads.two import PERSONAL
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
    assert np.array_equal(run.model.predict(sites[0].X), scores.argmax(axis=1).astype(str))


def test_without_the_personal_part_it_is_fedavg_with_the_balanced_loss():
    """The personal head's loss reaches nothing else: body and generic head are those of balanced FedAvg."""
    sites = digits()
    two = FedRoD(**DIGITS).plain(sites)
    same = FedAvg(head="two", loss="balanced", **DIGITS)
    start = same.build_learner().start(64, 3, np.random.default_rng([0, 0]))
    assert torch.equal(torch.from_numpy(start[PERSONAL[0]]), torch.zeros(3, 32))

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
