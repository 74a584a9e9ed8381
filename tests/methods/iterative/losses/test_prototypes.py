"""FedProto's pull, by hand."""

from __future__ import annotations

import pytest

from fedgeom.errors import InputError
from fedgeom.methods.iterative import CrossEntropy, TowardsPrototypes
from tests.methods.iterative.torching import batch_of, torch


def test_features_are_pulled_to_the_prototype_of_their_class_where_it_is_known():
    given = {"prototypes": torch.tensor([[0.0, 0.0], [9.0, 9.0]]), "counts": torch.tensor([4.0, 0.0])}
    batch = batch_of([[1.0, 3.0], [2.0, 2.0]], [0, 1], given=given)
    pull = ((1 + 9) / 2 + 0) / 2  # the second class has no prototype yet
    plain = float(CrossEntropy()(batch))
    assert float(TowardsPrototypes(0.5)(batch)) == pytest.approx(plain + 0.5 * pull, rel=1e-6)


def test_prototypes_must_be_given():
    with pytest.raises(InputError, match="FedProto"):
        TowardsPrototypes()(batch_of([[1.0, 3.0]], [0]))
