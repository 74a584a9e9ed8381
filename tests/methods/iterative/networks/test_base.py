"""Networks: features, an embedding after them, shapes that fit."""

from __future__ import annotations

import pytest

from fedgeom import FedAvg
from fedgeom.errors import InputError
from fedgeom.methods.iterative import MLP, LeNet
from fedgeom.methods.iterative.networks import image_shape
from tests.methods.iterative.torching import torch


def test_an_embedding_is_a_last_linear_layer_whose_features_may_be_negative():
    network = MLP(features=5, embedding_dim=20)
    assert (network.own_width, network.width) == (5, 20)
    torch.manual_seed(0)
    body = network.build((7,))
    assert isinstance(body[-1], torch.nn.Linear)
    assert (body(torch.randn(50, 7)) < 0).any()
    assert MLP(features=5).width == 5


def test_networks_travel_as_tables_and_come_back():
    rule = FedAvg(network=LeNet(embedding_dim=20, norm="group"), shape=(1, 28, 28))
    terms = rule.terms()
    assert terms["network"] == {"name": "lenet", "embedding_dim": 20, "features": 84, "norm": "group"}
    assert FedAvg.from_terms(terms | {"shape": [1, 28, 28]}) == rule


def test_rows_that_are_no_images_are_refused():
    assert image_shape((3, 9, 8), "convnet", 8) == (3, 9, 8)
    for shape in ((64,), (1, 7, 8)):
        with pytest.raises(InputError, match=r"images of at least 8 × 8 pixels.*say shape="):
            image_shape(shape, "convnet", 8)
