"""FedPer: against its paper on unlike sites; the head is each site's own."""

from __future__ import annotations

import numpy as np
import pytest

from fedgeom import FedPer
from fedgeom.errors import InputError
from fedgeom.methods.iterative import Tree
from tests.methods.iterative import twin
from tests.methods.iterative.algorithms.against_papers import CLIENTS, NEAR, PLAIN, SITES, WORK
from tests.methods.iterative.making import own


def test_as_published():
    head = np.array([True, False, False])  # the intercept
    body, personal = twin.fedper(CLIENTS, WORK, head)
    done = FedPer(**PLAIN).plain(SITES)
    assert done.model.parameters["weights"].ravel() == pytest.approx(body, **NEAR)
    assert done.model.parameters["intercept"] == pytest.approx([0.0])
    for site, vector in zip(SITES, personal, strict=True):
        assert own(done, site.name) == pytest.approx(vector, **NEAR)


def test_the_body_is_all_but_the_head():
    model = Tree(intercept=np.zeros(1), weights=np.ones((2, 1)))
    assert list(FedPer().shared(model)) == ["weights"]


def test_a_learner_without_a_head_is_refused():
    with pytest.raises(InputError, match="learner 'bowl' names no head; give it one"):
        FedPer(learner="bowl")
