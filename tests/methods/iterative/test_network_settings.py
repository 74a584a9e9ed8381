"""Settings of networks: read from names and tables, refused where they make no sense."""

from __future__ import annotations

import pytest

from fedgeom import FedAvg
from fedgeom.errors import InputError
from fedgeom.methods.iterative import SGD, Calibrated, ConvNet, CrossEntropy


def test_networks_heads_losses_and_optimizers_are_names_or_tables():
    rule = FedAvg(network="convnet", loss={"name": "calibrated"}, optimizer={"name": "sgd", "momentum": 0.5})
    assert rule.network == ConvNet()
    assert rule.loss_of_rows == Calibrated()
    assert rule.optimizer == SGD(momentum=0.5)
    assert rule.learner == "network"
    assert FedAvg().loss_of_rows == CrossEntropy()
    assert rule.network_options() == {
        "network": {"name": "convnet", "embedding_dim": None, "features": 64, "channels": 32, "norm": "group"},
        "head": {"name": "linear", "bias": True},
        "shape": None,
    }


def test_a_network_and_another_learner_exclude_each_other():
    with pytest.raises(InputError, match="leave one of them away"):
        FedAvg(network="mlp", learner="bowl")
    with pytest.raises(InputError, match="needs a network"):
        FedAvg(learner="network")
    with pytest.raises(InputError, match="network='lenett' is unknown"):
        FedAvg(network="lenett")
