"""Any torch module as a learner: trained by plain gradient steps on the cross-entropy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from fedgeom.errors import InputError
from fedgeom.methods.iterative.effort import USUAL, Effort
from fedgeom.methods.iterative.learners.base import Classes, Floats, Learner, Parameters, register
from fedgeom.methods.iterative.objective import LOSS, Objective
from fedgeom.methods.iterative.tree import Tree

if TYPE_CHECKING:
    import torch

Build = Callable[[int, int], "torch.nn.Module"]


class TorchLearner(Learner):
    """Wraps ``build(columns, classes)``, which returns a module that maps rows to one score per class.

    Making one registers it under its name in this process. The module is built once and used for all sites in the
    process, so every use first writes over all that is in it. Floating-point buffers, such as running means, travel
    and are averaged with the parameters; counters begin anew in every round.
    """

    def __init__(self, name: str, build: Build, *, head: tuple[str, ...] = ()):
        try:
            import torch
        except ImportError as error:
            raise InputError(
                'TorchLearner needs torch: pip install "fedgeom[torch]" -c constraints.txt'
            ) from error
        self.name, self.head = name, head
        self._torch, self._build = torch, build
        self._shape = (0, 0)
        self._module: torch.nn.Module | None = None
        self._counters: dict[str, Any] = {}
        self._normalises = False
        register(self)

    def start(self, columns: int, classes: int, rng: np.random.Generator) -> Parameters:
        """Return the module's own initial parameters, drawn from a seed that ``rng`` gives."""
        self._make(columns, classes, int(rng.integers(2**31)))
        missing = sorted(set(self.head) - set(self._floats()))
        if missing:
            raise InputError(
                f"head arrays {', '.join(missing)} are not in the module; it has {list(self._floats())}"
            )
        return self._parameters()

    def bind(self, columns: int, classes: int) -> None:
        """Build the module; its own numbers are written over before each use."""
        if self._shape != (columns, classes):
            self._make(columns, classes, 0)

    def _make(self, columns: int, classes: int, seed: int) -> None:
        with self._seeded(seed):  # the process's own randomness stays as it was
            module = self._build(columns, classes)
        self._shape, self._module = (columns, classes), module
        counters = [(name, b) for name, b in module.named_buffers() if not b.is_floating_point()]
        self._counters = {name: buffer.clone() for name, buffer in counters}
        norm = self._torch.nn.modules.batchnorm._BatchNorm
        self._normalises = any(isinstance(part, norm) for part in module.modules())

    @property
    def statistics(self) -> tuple[str, ...]:
        """The module's floating-point buffers."""
        assert self._module is not None
        return tuple(name for name, buffer in self._module.named_buffers() if buffer.is_floating_point())

    def loss(self, parameters: Parameters, X: Floats, y: Classes) -> float:
        """Return the mean cross-entropy, as in evaluation."""
        torch, module = self._torch, self._load(parameters)
        module.eval()
        with torch.no_grad():
            return float(torch.nn.functional.cross_entropy(module(self._rows(X)), torch.from_numpy(y)))

    def gradient(self, parameters: Parameters, X: Floats, y: Classes) -> Parameters:
        """Return the gradient of the mean cross-entropy; zero for buffers."""
        with self._seeded(0):
            module = self._load(parameters)
            module.train()
            self._backward(module, self._rows(X), self._torch.from_numpy(y))
        found = Tree({name: np.zeros(tuple(tensor.shape)) for name, tensor in self._floats().items()})
        for name, parameter in module.named_parameters():
            if parameter.grad is not None:
                found[name] = parameter.grad.double().numpy()
        return found

    def predict_proba(self, parameters: Parameters, X: Floats) -> Floats:
        """Return the softmax of the module's scores."""
        torch, module = self._torch, self._load(parameters)
        module.eval()
        with torch.no_grad():
            found: Floats = torch.softmax(module(self._rows(X)), dim=1).double().numpy()
        return found

    def fit(
        self,
        parameters: Parameters,
        X: Floats,
        y: Classes,
        *,
        objective: Objective = LOSS,
        effort: Effort = USUAL,
        rng: np.random.Generator,
    ) -> Parameters:
        """Take plain gradient steps; dropout and the like draw from a seed that ``rng`` gives."""
        if effort.solver == "exact":
            raise InputError(f'learner {self.name!r} knows no solver "exact"; use solver="sgd"')
        torch = self._torch
        with self._seeded(int(rng.integers(2**31))):
            module = self._load(parameters)
            module.train()
            rows, labels = self._rows(X), torch.from_numpy(y)
            tensors = dict(module.named_parameters())
            terms = _Terms(objective, torch)
            for at in effort.batches(len(X), rng):
                index = torch.from_numpy(self._two_at_least(at, len(X)))
                self._backward(module, rows[index], labels[index])
                with torch.no_grad():
                    for name, tensor in tensors.items():
                        if tensor.grad is not None:
                            tensor.sub_(effort.rate * (tensor.grad + terms.gradient(name, tensor)))
        return self._parameters()

    def _two_at_least(self, at: Classes, rows: int) -> Classes:
        """Give a lonely row its neighbour, where batches are normalised: one row has no spread."""
        if len(at) > 1 or not self._normalises:
            return at
        if rows == 1:
            raise InputError(f"learner {self.name!r} normalises batches, which takes two rows; the site has one")
        return np.array([at[0], (at[0] + 1) % rows])

    def _backward(self, module: torch.nn.Module, rows: Any, labels: Any) -> None:
        module.zero_grad()
        self._torch.nn.functional.cross_entropy(module(rows), labels).backward()  # type: ignore[no-untyped-call]

    def _rows(self, X: Floats) -> Any:
        return self._torch.from_numpy(X.astype(np.float32))

    def _parameters(self) -> Parameters:
        return Tree({name: tensor.detach().double().numpy().copy() for name, tensor in self._floats().items()})

    def _floats(self) -> dict[str, Any]:
        assert self._module is not None
        both = [*self._module.named_parameters(), *self._module.named_buffers()]
        return {name: tensor for name, tensor in both if tensor.is_floating_point()}

    def _load(self, parameters: Parameters) -> torch.nn.Module:
        """Write the parameters into the module."""
        if self._module is None:
            raise InputError(f"learner {self.name!r} does not know its columns and classes yet; call bind first")
        with self._torch.no_grad():
            for name, tensor in self._floats().items():
                tensor.copy_(self._torch.from_numpy(np.asarray(parameters[name], order="C")))
            for name, buffer in self._module.named_buffers():
                if name in self._counters:
                    buffer.copy_(self._counters[name])
        return self._module

    @contextmanager
    def _seeded(self, seed: int) -> Iterator[None]:
        with self._torch.random.fork_rng(devices=[]):
            self._torch.manual_seed(seed)
            yield


class _Terms:
    """The objective's terms for one named tensor at a time."""

    def __init__(self, objective: Objective, torch: Any):
        def parts(tree: Tree | None) -> dict[str, Any]:
            return {name: torch.from_numpy(a.astype(np.float32)) for name, a in (tree or {}).items()}

        self._linear, self._centre, self._strength = (
            parts(objective.linear),
            parts(objective.centre),
            objective.strength,
        )

    def gradient(self, name: str, tensor: Any) -> Any:
        total = self._linear.get(name, 0.0)
        return total + self._strength * (tensor - self._centre.get(name, 0.0)) if self._strength else total
