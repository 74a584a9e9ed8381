"""Networks for images: their sizes are those of the papers."""

from __future__ import annotations

import pytest

from fedgeom.methods.iterative import ConvNet, LeNet, ResNet8, ResNet14, ResNet20
from tests.methods.iterative.torching import torch


def numbers(module):
    return sum(p.numel() for p in module.parameters())


def test_lenet_has_the_published_number_of_parameters():
    body = LeNet().build((1, 28, 28))
    assert numbers(body) + 85 * 10 == 44_426
    assert body(torch.zeros(2, 1, 28, 28)).shape == (2, 84)
    assert LeNet(embedding_dim=20).build((3, 32, 32))(torch.zeros(2, 3, 32, 32)).shape == (2, 20)


def test_resnet20_has_the_published_number_of_parameters():
    # He et al. 2016, Table 6: 0.27 million, with a head of 10 classes; GroupNorm has as many as BatchNorm.
    assert numbers(ResNet20(norm="batch").build((3, 32, 32))) + 65 * 10 == 269_722
    assert numbers(ResNet20().build((3, 32, 32))) + 65 * 10 == 269_722


@pytest.mark.parametrize("norm", ["none", "group", "ws", "batch"])
@pytest.mark.parametrize("network", [LeNet, ConvNet, ResNet8, ResNet14])
def test_every_norm_gives_features_of_the_width_it_says(network, norm):
    made = network(norm=norm)
    assert made.build((3, 16, 20))(torch.rand(2, 3, 16, 20)).shape == (2, made.width)


def test_a_depth_is_counted_in_layers_with_weights():
    for network in (ResNet8, ResNet14, ResNet20):
        convs = [m for m in network().build((3, 8, 8)).modules() if isinstance(m, torch.nn.Conv2d)]
        assert len(convs) + 1 == network.depth
