"""Layers: standardised filters, groups, blocks."""

from __future__ import annotations

import pytest

from tests.methods.iterative.torching import torch

layers = pytest.importorskip("fedgeom.methods.iterative.networks.layers")


def test_a_standardised_convolution_forgets_the_scale_and_the_mean_of_its_filters():
    torch.manual_seed(0)
    one = layers.conv(3, 4, 3, "ws")
    X = torch.randn(2, 3, 6, 6)
    before = one(X)
    with torch.no_grad():
        one.weight.mul_(5).add_(0.7)
    assert torch.allclose(before, one(X), atol=1e-5)
    plain = torch.nn.functional.conv2d(X, (one.weight - one.weight.mean((1, 2, 3), keepdim=True)))
    ratio = before / plain
    assert torch.allclose(ratio, ratio[:1, :, :1, :1].expand_as(ratio), rtol=1e-3)  # a factor for each filter


def test_only_a_bare_convolution_has_a_bias():
    assert layers.conv(1, 2, 3, "none").bias is not None
    assert layers.conv(1, 2, 3, "group").bias is None


@pytest.mark.parametrize(("channels", "groups"), [(6, 1), (16, 1), (32, 2), (48, 3), (37, 1), (34, 2)])
def test_groups_divide_the_channels(channels, groups):
    norm = layers.normalise(channels, "group")
    assert norm.num_groups == groups
    assert isinstance(layers.normalise(channels, "none"), torch.nn.Identity)
    assert isinstance(layers.normalise(channels, "batch"), torch.nn.BatchNorm2d)


def test_a_block_without_weights_passes_its_input_on():
    block = layers.Block(2, 3, 2, "none")
    for parameter in block.parameters():
        torch.nn.init.zeros_(parameter)
    X = torch.rand(1, 2, 4, 4)
    found = block(X)
    assert found.shape == (1, 3, 2, 2)
    assert torch.equal(found[:, :2], X[:, :, ::2, ::2])
    assert not found[:, 2].any()


def test_a_whole_network_is_its_head_on_its_body():
    whole = layers.BodyWithHead(torch.nn.Linear(3, 2), torch.nn.Linear(2, 4))
    X = torch.randn(5, 3)
    assert torch.equal(whole(X), whole.head(whole.body(X)))
    assert torch.equal(whole.scores(whole.features(X)), whole(X))
