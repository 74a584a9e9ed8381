"""Torch layers that networks are made of; only imported where torch is."""

from __future__ import annotations

import torch
from torch import nn

from fedgeom.methods.iterative.networks import Norm

PER_GROUP = 16
"""The most channels that are normalised together."""


class StandardisedConv(nn.Conv2d):
    """A convolution whose filters are brought to mean 0 and variance 2/inputs at each use.

    Qiao et al. 2019; Brock et al. 2021.
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Convolve with the standardised filters, each times a gain √2 that keeps variance through a ReLU."""
        weight = self.weight
        spread, mean = torch.var_mean(weight, dim=(1, 2, 3), keepdim=True, correction=0)
        inputs = weight[0].numel()
        filters = (weight - mean) * torch.rsqrt(torch.clamp(spread * inputs / 2, min=1e-8))
        found: torch.Tensor = self._conv_forward(input, filters, self.bias)
        return found


def conv(inputs: int, outputs: int, size: int, norm: Norm, *, stride: int = 1, padding: int = 0) -> nn.Conv2d:
    """Return a convolution of the kind that ``norm`` says; only without normalisation it has a bias."""
    kind = StandardisedConv if norm == "ws" else nn.Conv2d
    return kind(inputs, outputs, size, stride=stride, padding=padding, bias=norm == "none")


def normalise(channels: int, norm: Norm) -> nn.Module:
    """Return the normalisation of so many channels."""
    if norm == "none":
        return nn.Identity()
    if norm == "batch":
        return nn.BatchNorm2d(channels)
    groups = max(1, channels // PER_GROUP)
    while channels % groups:
        groups -= 1
    return nn.GroupNorm(groups, channels)


class Block(nn.Module):
    """Two convolutions around which the input is added (He et al. 2016, with the shortcut of CIFAR's networks)."""

    def __init__(self, inputs: int, outputs: int, stride: int, norm: Norm):
        super().__init__()
        self.first = nn.Sequential(
            conv(inputs, outputs, 3, norm, stride=stride, padding=1), normalise(outputs, norm), nn.ReLU()
        )
        self.second = nn.Sequential(conv(outputs, outputs, 3, norm, padding=1), normalise(outputs, norm))
        self.stride = stride
        self.more = outputs - inputs

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Add the input, thinned out and with empty channels where the block has fewer pixels and more channels."""
        shortcut = input[:, :, :: self.stride, :: self.stride]
        if self.more:
            shortcut = nn.functional.pad(shortcut, (0, 0, 0, 0, 0, self.more))
        return torch.relu(self.second(self.first(input)) + shortcut)


class BodyWithHead(nn.Module):
    """A body with its head: features of rows, scores of features."""

    def __init__(self, body: nn.Module, head: nn.Module):
        super().__init__()
        self.body = body
        self.head = head

    def features(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return the features, (rows, d)."""
        found: torch.Tensor = self.body(inputs)
        return found

    def scores(self, features: torch.Tensor) -> torch.Tensor:
        """Return the scores, (rows, classes)."""
        found: torch.Tensor = self.head(features)
        return found

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return the scores of rows, (rows, classes)."""
        return self.scores(self.features(inputs))
