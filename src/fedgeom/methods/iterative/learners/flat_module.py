"""A torch module whose parameters lie in one vector, and its gradients in another; only imported where torch is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import nn

from fedgeom.geometry.hyperbolic.isometry import sgd_step
from fedgeom.methods.iterative.tree import Tree


class FlatModule:
    """A module, its parameters as views of one vector.

    A step is then one operation on one vector, and reading or writing a model one copy. The parameters and the
    floating-point buffers that a module saves travel; counters start anew each time, and buffers that it does not save
    (``persistent=False``) stay as they were built.
    """

    def __init__(self, module: nn.Module, device: torch.device):
        self.module = module.float().to(device)
        self.device = device
        kept = set(module.state_dict())
        named = {name: tensor for name, tensor in module.named_parameters() if tensor.requires_grad}
        self.spans: dict[str, slice] = {}
        at = 0
        for name, tensor in named.items():
            self.spans[name] = slice(at, at + tensor.numel())
            at += tensor.numel()
        self.vector = nn.Parameter(torch.empty(at, device=device))
        self.vector.grad = torch.zeros_like(self.vector)
        self._tensors = named
        with torch.no_grad():
            for name, tensor in named.items():
                piece = self.vector.data[self.spans[name]].view(tensor.shape)
                piece.copy_(tensor)
                tensor.data = piece
        buffers = {name: buffer for name, buffer in module.named_buffers() if name in kept}
        self.statistics = {name: buffer for name, buffer in buffers.items() if buffer.is_floating_point()}
        counters = {name: buffer for name, buffer in buffers.items() if name not in self.statistics}
        self._counters = [(buffer, buffer.clone()) for buffer in counters.values()]
        self._on_ball = [
            f"{path}.{name}".lstrip(".")
            for path, part in module.named_modules()
            for name in getattr(part, "on_ball", ())
        ]
        norm = nn.modules.batchnorm._BatchNorm
        self.normalises = any(isinstance(part, norm) for part in module.modules())

    @property
    def gradient(self) -> torch.Tensor:
        """(numbers,): where gradients are added up."""
        assert self.vector.grad is not None
        return self.vector.grad

    @property
    def names(self) -> list[str]:
        """All arrays that travel."""
        return [*self.spans, *self.statistics]

    def load(self, parameters: Tree) -> FlatModule:
        """Write a model's numbers over all that is in the module."""
        with torch.no_grad():
            for name, tensor in [*self._tensors.items(), *self.statistics.items()]:
                self._write(tensor.data, parameters[name])
            for buffer, first in self._counters:
                buffer.copy_(first)
        return self

    def train(self, frozen: Iterable[str] = ()) -> None:
        """Make ready for steps, none of which is to change the ``frozen`` arrays."""
        self.module.train()
        held = set(frozen)
        for name, tensor in self._tensors.items():
            tensor.requires_grad_(name not in held)
            tensor.grad = None if name in held else self.gradient[self.spans[name]].view(tensor.shape)
        self.gradient.zero_()

    def absorb(self, *, gradients: bool = False) -> None:
        """Take up what others gave the module's parameters in tensors of their own, values or gradients."""
        for name, tensor in self._tensors.items():
            whole = self.gradient if gradients else self.vector.data
            piece = whole[self.spans[name]].view(tensor.shape)
            found = tensor.grad if gradients else tensor.data
            if found is not None and found.data_ptr() == piece.data_ptr():
                continue
            if found is None:
                piece.zero_()
            else:
                piece.copy_(found)
            if not gradients:
                tensor.data = piece
            elif tensor.requires_grad:
                tensor.grad = piece

    def on_ball(self, rate: float) -> list[tuple[slice, torch.Tensor]]:
        """Return where parameters that live in the ball lie in the vector, and where Riemannian SGD takes them.

        Which these are a part of the module says by its attribute ``on_ball``; all others take the optimizer's steps.
        """
        found = []
        for name in self._on_ball:
            span = self.spans[name]
            shape = self._tensors[name].shape
            v, slope = (one.detach()[span].view(shape).cpu().numpy() for one in (self.vector, self.gradient))
            moved = torch.from_numpy(sgd_step(v, slope, rate).ravel()).to(self.device, torch.float32)
            found.append((span, moved))
        return found

    def read(self) -> Tree:
        """Return the model's numbers, f4."""
        values = self.vector.detach().cpu().numpy().copy()
        found = {name: values[span].reshape(tuple(self._tensors[name].shape)) for name, span in self.spans.items()}
        return Tree(found | {name: buffer.cpu().numpy().copy() for name, buffer in self.statistics.items()})

    def slopes(self) -> Tree:
        """Return the gradient as a tree shaped like the model, f4; zero for buffers."""
        values = self.gradient.cpu().numpy().copy()
        found = {name: values[span].reshape(tuple(self._tensors[name].shape)) for name, span in self.spans.items()}
        return Tree(found | {name: np.zeros(buffer.shape, np.float32) for name, buffer in self.statistics.items()})

    def flat(self, tree: Tree | None) -> torch.Tensor | None:
        """Return a tree shaped like the model as one vector, (numbers,), f4; zero where it has no such array."""
        if tree is None:
            return None
        found = torch.zeros_like(self.vector.data)
        for name, span in self.spans.items():
            if name in tree:
                self._write(found[span], np.ravel(tree[name]))
        return found

    def _write(self, tensor: torch.Tensor, numbers: Any) -> None:
        """Write numbers, which may be such as can only be read, into a tensor of this module's."""
        if self.device.type == "cpu":
            tensor.numpy()[...] = numbers
        else:
            tensor.copy_(torch.from_numpy(np.array(numbers, np.float32)))


class HeadlessModule:
    """A module without a body and a head of its own: the rows are the features."""

    def __init__(self, module: nn.Module):
        self.head = module

    def features(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return the rows."""
        return inputs

    def scores(self, features: torch.Tensor) -> torch.Tensor:
        """Return the module's scores."""
        found: torch.Tensor = self.head(features)
        return found


def divided(module: nn.Module) -> Any:
    """Return a module as a body and a head: itself, where it says what its features and scores are."""
    both = callable(getattr(module, "features", None)) and callable(getattr(module, "scores", None))
    return module if both else HeadlessModule(module)


class Frozen:
    """A model that a loss looks at and no step changes; it is loaded when it is first looked at."""

    def __init__(self, load: Callable[[], FlatModule]):
        self._load = load

    @cached_property
    def _network(self) -> Any:
        module = self._load().module
        module.eval()
        return divided(module)

    @property
    def head(self) -> nn.Module:
        """The head itself."""
        found: nn.Module = self._network.head
        return found

    def features(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return the features of rows."""
        with torch.no_grad():
            found: torch.Tensor = self._network.features(inputs)
        return found

    def scores(self, features: torch.Tensor) -> torch.Tensor:
        """Return the scores of features."""
        with torch.no_grad():
            found: torch.Tensor = self._network.scores(features)
        return found
