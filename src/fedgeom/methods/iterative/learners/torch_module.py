"""Any torch module as a learner: trained in single precision, by the steps and the loss that the rule names."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fedgeom.arrays import Floats, Ints
from fedgeom.errors import InputError
from fedgeom.federation.policy import AUTOCAST_VARIABLE, DEVICE_VARIABLE
from fedgeom.memo import memoize
from fedgeom.methods.iterative.effort import USUAL, Effort
from fedgeom.methods.iterative.heads import Head
from fedgeom.methods.iterative.learners import Learner, Parameters, learner_named, register
from fedgeom.methods.iterative.learners.logistic import Logistic
from fedgeom.methods.iterative.losses import Batch
from fedgeom.methods.iterative.networks import Network
from fedgeom.methods.iterative.objective import LOSS, Objective
from fedgeom.methods.iterative.optimizer import GradientSteps
from fedgeom.methods.iterative.tree import Tree

if TYPE_CHECKING:
    import torch

    from fedgeom.methods.iterative.learners.flat_module import FlatModule


DEVICES = ("cpu", "cuda", "mps")


def site_device() -> torch.device:
    """Return the device that this process computes on; refuse one that is not there."""
    import torch  # optional

    name = os.environ.get(DEVICE_VARIABLE, "cpu")
    if name not in DEVICES:
        raise InputError(f"{DEVICE_VARIABLE}={name} given; wanted one of {', '.join(DEVICES)}")
    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not there[name]:
        raise InputError(f"{DEVICE_VARIABLE}={name} given, but torch finds no such device here; use cpu")
    return torch.device(name)


AUTOCASTS = ("bfloat16", "float16")


def site_autocast() -> Any:
    """Return what lets torch compute in the precision that this process wants; refuse one that there is not."""
    import torch  # optional

    name = os.environ.get(AUTOCAST_VARIABLE, "")
    if name and name not in AUTOCASTS:
        raise InputError(f"{AUTOCAST_VARIABLE}={name} given; wanted one of {', '.join(AUTOCASTS)}, or nothing")
    if not name:
        return nullcontext()
    return torch.autocast(site_device().type, getattr(torch, name))


def check_computing() -> None:
    """Refuse a device or a precision that is not there."""
    site_device()
    site_autocast()


Build = Callable[[int, int], "torch.nn.Module"]


class _Scores:
    """Stands for a network where there are scores already."""

    head: Any = None

    def features(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return the scores."""
        return inputs

    def scores(self, features: torch.Tensor) -> torch.Tensor:
        """Return the scores."""
        return features


NUMBERS_AT_ONCE = 2**18
MOST_ROWS_AT_ONCE = 4096
"""So many numbers, and rows, are predicted at once: what a network makes of them stays near the processor."""


class TorchLearner(Learner):
    """Wraps ``build(columns, classes)``, which returns a module that maps rows to one score per class.

    Making one registers it under its name in this process. The module is built once and used for all sites in the
    process, so every use first writes over all that is in it. Floating-point buffers that the module saves, such as
    running means, travel and are averaged with the parameters; counters begin anew in every round. A module with
    methods ``features`` and ``scores`` is a body and a head for losses that look at features. Parameters that are built
    with ``requires_grad=False``, such as those of a pretrained body, are neither trained nor sent nor in model files:
    every process builds them anew, with torch's seed 0 if they are drawn.
    """

    dtype: ClassVar[type[np.floating[Any]]] = np.float32
    shape: tuple[int, ...] | None = None
    """What the module is given of one row; None: the row's numbers as they are."""

    def __init__(self, name: str, build: Build, *, head: tuple[str, ...] = ()):
        self._prepare(name, build)
        self.head = head
        register(self)

    def _prepare(self, name: str, build: Build) -> None:
        try:
            import torch  # optional
        except ImportError as error:
            raise InputError(
                'networks and torch modules need torch: pip install "fedgeom[torch]" -c constraints.txt'
            ) from error
        self.name = name
        self._torch = torch
        self._build = build
        self._sizes = (0, 0)
        self._flat: FlatModule | None = None
        self._others: dict[str, FlatModule] = {}
        self._first: tuple[tuple[int, int, int], Tree] | None = None

    def start(self, columns: int, classes: int, rng: np.random.Generator) -> Parameters:
        """Return the module's own initial parameters, f4, drawn from a seed that ``rng`` gives; they are only read."""
        asked = (columns, classes, int(rng.integers(2**31)))
        if self._first is None or self._first[0] != asked:
            self._make(*asked)
            missing = sorted(set(self.head) - set(self._loaded.names))
            if missing:
                raise InputError(
                    f"head arrays {', '.join(missing)} are not in the module; it has {self._loaded.names}"
                )
            self._first = asked, self._loaded.read().map(_unchangeable)
        return Tree(self._first[1])

    def bind(self, columns: int, classes: int) -> None:
        """Build the module; its own numbers are written over before each use."""
        if self._sizes != (columns, classes) or (self._flat and self._flat.device != site_device()):
            self._make(columns, classes, 0)

    def _make(self, columns: int, classes: int, seed: int) -> None:
        self._sizes = (columns, classes)
        self._others = {}
        self._flat = self._new(seed)

    def _new(self, seed: int = 0) -> FlatModule:
        from fedgeom.methods.iterative.learners.flat_module import FlatModule  # needs torch

        with self._seeded(seed):  # the process's own randomness stays as it was
            module = self._build(*self._sizes)
        fixed = [name for name, tensor in module.named_parameters() if not tensor.requires_grad]
        if fixed and seed:  # they never travel, so they are the same in every process, whatever the run's seed
            with self._seeded(0):
                base = dict(self._build(*self._sizes).named_parameters())
            for name, tensor in module.named_parameters():
                if name in fixed:
                    tensor.data.copy_(base[name].data)
        return FlatModule(module, site_device())

    @property
    def _loaded(self) -> FlatModule:
        if self._flat is None:
            raise InputError(f"learner {self.name!r} does not know its columns and classes yet; call bind first")
        return self._flat

    @property
    def statistics(self) -> tuple[str, ...]:
        """The module's floating-point buffers."""
        return tuple(self._loaded.statistics)

    def loss(self, parameters: Parameters, X: Floats, y: Ints) -> float:
        """Return the mean cross-entropy, as in evaluation."""
        scores = self._scored(parameters, X)
        labels = self._torch.from_numpy(y)
        return float(self._torch.nn.functional.cross_entropy(scores, labels))

    def gradient(self, parameters: Parameters, X: Floats, y: Ints) -> Parameters:
        """Return the gradient of the mean cross-entropy; zero for buffers."""
        torch = self._torch
        with self._seeded(0):
            flat = self._loaded.load(parameters)
            flat.train()
            rows = self._rows(X)
            labels = torch.from_numpy(y).to(flat.device)
            torch.nn.functional.cross_entropy(flat.module(rows), labels).backward()
        return flat.slopes()

    def predict_proba(self, parameters: Parameters, X: Floats) -> Floats:
        """Return the softmax of the module's scores."""
        found: Floats = self._torch.softmax(self._scored(parameters, X), dim=1).double().numpy()
        return found

    def features(self, parameters: Parameters, X: Floats) -> Floats:
        """Return what the module's body makes of rows, (rows, d), f4."""
        from fedgeom.methods.iterative.learners.flat_module import divided  # needs torch

        module = self._loaded.load(parameters).module
        found: Floats = self._in_parts(divided(module).features, X, self._rows).numpy()
        return found

    def scores(self, parameters: Parameters, Z: Floats) -> Floats:
        """Return what the module's head makes of features, (rows, classes), f4."""
        from fedgeom.methods.iterative.learners.flat_module import divided  # needs torch

        flat = self._loaded.load(parameters)
        found: Floats = self._in_parts(divided(flat.module).scores, Z, self._numbers).numpy()
        return found

    def _scored(self, parameters: Parameters, X: Floats) -> torch.Tensor:
        return self._in_parts(self._loaded.load(parameters).module, X, self._rows)

    def _in_parts(self, function: Any, X: Floats, as_tensor: Callable[[Floats], torch.Tensor]) -> torch.Tensor:
        """Return what a function of the module makes of rows, as in evaluation, on the processor."""
        self._loaded.module.eval()
        at_once = min(MOST_ROWS_AT_ONCE, max(1, NUMBERS_AT_ONCE // max(math.prod(X.shape[1:]), 1)))
        with self._torch.no_grad():
            parts = (as_tensor(X[at : at + at_once]) for at in range(0, max(len(X), 1), at_once))
            return self._torch.cat([function(part).cpu() for part in parts])

    def fit(
        self,
        parameters: Parameters,
        X: Floats,
        y: Ints,
        *,
        objective: Objective = LOSS,
        effort: Effort = USUAL,
        rng: np.random.Generator,
    ) -> Parameters:
        """Take the optimizer's steps; dropout and the like draw from a seed that ``rng`` gives."""
        if effort.solver == "exact":
            raise InputError(f'learner {self.name!r} knows no solver "exact"; use solver="sgd"')
        torch = self._torch
        seed = int(rng.integers(2**31))
        loss = objective.chosen_loss
        with self._seeded(seed):
            flat = self._loaded.load(parameters)
            flat.train(objective.frozen)
            linear = flat.flat(objective.linear)
            centre = flat.flat(objective.centre)
            held = [(flat.spans[name], flat.vector.data[flat.spans[name]].clone()) for name in objective.frozen]
            if objective.loop is not None:
                self._own_loop(objective, X, y, effort, seed)
                for span, wanted in held:
                    flat.vector.data[span] = wanted
                return flat.read()
            state: dict[str, Any] = {"round": objective.round, "learning_rate": effort.learning_rate}
            steps = effort.optimizer.build([flat.vector], effort.learning_rate)
            carried = objective.carried
            if carried is not None:
                if not isinstance(steps, GradientSteps):
                    raise InputError(
                        f"optimizer={effort.optimizer.name!r} given to go on from round to round; wanted one whose "
                        "build() returns GradientSteps, such as SGD(momentum=0.9, kept=True)"
                    )
                if carried.momentum is not None:
                    steps.momentum[0] = torch.from_numpy(np.array(carried.momentum, np.float32)).to(flat.device)
            batch_of = self._batches(parameters, X, y, objective, effort, seed)
            for number, at in enumerate(effort.batches(len(X), rng, y)):
                flat.gradient.zero_()
                rows = batch_of(self._two_at_least(at, len(X)))
                with site_autocast():
                    if objective.step is None:
                        found = effort.augmentation.loss(loss, rows)
                    else:
                        state["step"] = number
                        rows = replace(rows, measure=partial(effort.augmentation.loss, loss))
                        found = objective.step(flat.module, rows, state)
                if found is not None:
                    found.backward()  # type: ignore[no-untyped-call]
                if objective.step is not None:
                    flat.absorb(gradients=True)
                with torch.no_grad():
                    if linear is not None:
                        flat.gradient.add_(linear)
                    if objective.strength:
                        away = flat.vector if centre is None else flat.vector - centre
                        flat.gradient.add_(away, alpha=objective.strength)
                    if effort.max_grad_norm is not None:
                        torch.nn.utils.clip_grad_norm_([flat.vector], effort.max_grad_norm)
                    moved = flat.on_ball(effort.learning_rate)
                    steps.step()
                    # Points of the ball go their own way; the terms, momentum and decay would move frozen arrays.
                    for span, wanted in (*moved, *held):
                        flat.vector.data[span] = wanted
            if isinstance(steps, GradientSteps) and carried is not None:
                carried.momentum = steps.momentum[0].cpu().numpy().copy()
        return flat.read()

    def _own_loop(self, objective: Objective, X: Floats, y: Ints, effort: Effort, seed: int) -> None:
        """Let an algorithm train the module that is loaded in its own way."""
        from fedgeom.methods.iterative.learners.flat_module import Frozen  # needs torch

        flat = self._loaded
        labels = self._torch.from_numpy(y).to(flat.device)
        chosen = objective.chosen_loss
        generator = self._torch.Generator().manual_seed(seed ^ 0x5EED)
        counts = self._torch.bincount(labels, minlength=self._sizes[1]).float()

        def measured(scores: torch.Tensor, of: torch.Tensor) -> torch.Tensor:
            batch = Batch(scores, of, _Scores(), counts, generator, Frozen(lambda: flat))
            return chosen(batch)

        state = {
            "round": objective.round,
            "learning_rate": effort.learning_rate,
            "epochs": effort.epochs,
            "steps": effort.steps,
            "batch_size": effort.batch_size,
            "min_batch_size": effort.least,
            "loss": measured,
            "optimizer": lambda parameters: effort.optimizer.build(list(parameters), effort.learning_rate),
            "generator": generator,
        }
        assert objective.loop is not None
        objective.loop(flat.module, self._torch.utils.data.TensorDataset(self._rows(X), labels), state)
        flat.absorb()

    def _batches(
        self, start: Parameters, X: Floats, y: Ints, objective: Objective, effort: Effort, seed: int
    ) -> Callable[[Ints], Batch]:
        """Return what makes a batch of the rows with these numbers."""
        from fedgeom.methods.iterative.learners.flat_module import Frozen, divided  # needs torch

        torch = self._torch
        flat = self._loaded
        whole = self._rows(X) if isinstance(X, np.ndarray) else None
        labels = torch.from_numpy(y).to(flat.device)
        counts = torch.bincount(labels, minlength=self._sizes[1]).float()
        previous = objective.previous
        joint = objective.joint
        network = divided(flat.module)
        looked_at = Frozen(lambda: self._other("joint", start if joint is None else joint))
        before = None if previous is None else Frozen(lambda: self._other("previous", previous))
        weights = objective.row_weights
        weighed = None if weights is None else torch.from_numpy(weights.astype(np.float32)).to(flat.device)
        given = {n: torch.from_numpy(np.array(a)).to(flat.device) for n, a in (objective.given or Tree()).items()}
        generator = torch.Generator().manual_seed(seed ^ 0x5EED)  # not the stream that dropout draws from

        def batch(at: Ints) -> Batch:
            index = torch.from_numpy(at).to(flat.device)
            rows = self._rows(X[at]) if whole is None else whole[index]
            inputs = effort.augmentation(rows, generator)
            parts = None if weighed is None else weighed[index]
            return Batch(inputs, labels[index], network, counts, generator, looked_at, before, parts, given)

        return batch

    def _other(self, name: str, parameters: Parameters) -> FlatModule:
        """Return another copy of the module, one for each name, with a model in it."""
        if name not in self._others:
            self._others[name] = self._new()
        return self._others[name].load(parameters)

    def _two_at_least(self, at: Ints, rows: int) -> Ints:
        """Give a lonely row its neighbour, where batches are normalised: one row has no spread."""
        if len(at) > 1 or not self._loaded.normalises:
            return at
        if rows == 1:
            raise InputError(f"learner {self.name!r} normalises batches, which takes two rows; the site has one")
        return np.array([at[0], (at[0] + 1) % rows])

    def _rows(self, X: Floats) -> torch.Tensor:
        """Return rows as the module takes them; those that are single precision already are not copied."""
        rows = self._numbers(X)
        return rows if self.shape is None else rows.view(len(X), *self.shape)

    def _numbers(self, X: Floats) -> torch.Tensor:
        return self._torch.from_numpy(np.ascontiguousarray(X, np.float32)).to(self._loaded.device)

    @contextmanager
    def _seeded(self, seed: int) -> Iterator[None]:
        with self._torch.random.fork_rng(devices=range(self._torch.cuda.device_count())):
            self._torch.manual_seed(seed)
            yield


def _unchangeable(array: Floats) -> Floats:
    """Return an array that can only be read: all sites of a process begin with the same."""
    array.flags.writeable = False
    return array


NAME = "network"
"""The learner's name, whatever the network."""


class NetworkLearner(TorchLearner):
    """A body and a head. Its arrays are called "body.…" and "head.…"."""

    def __init__(self, network: Network, head: Head, shape: tuple[int, ...] | None = None):
        self.network = network
        self.head_choice = head
        self.shape = shape
        self._prepare(NAME, self._whole)

    @cached_property
    def head(self) -> tuple[str, ...]:  # type: ignore[override]
        """The head's trained arrays; none where the head is fixed."""
        with self._seeded(0):
            names = self.head_choice.trained_arrays(self.network.width)
        return tuple(f"head.{name}" for name in names)

    def _whole(self, columns: int, classes: int) -> Any:
        shape = self.shape or (columns,)
        if math.prod(shape) != columns:
            raise InputError(
                f"shape={shape} given, {math.prod(shape):,} numbers a row; the tables have {columns:,} columns"
            )
        from fedgeom.methods.iterative.networks.layers import BodyWithHead  # needs torch, which is optional

        return BodyWithHead(self.network.build(shape), self.head_choice.build(self.network.width, classes))


def network_learner(options: Mapping[str, Any]) -> NetworkLearner:
    """Return the learner with these options, as they travel; the same ones give the same learner."""
    return _known(json.dumps(options, sort_keys=True))


@memoize(16)
def _known(options: str) -> NetworkLearner:
    found = json.loads(options)
    shape = None if found.get("shape") is None else tuple(found["shape"])
    return NetworkLearner(Network.read(found["network"], "network"), Head.read(found["head"], "head"), shape)


def built_learner(name: str, options: Mapping[str, Any]) -> Learner:
    """Return a learner by its name; options are for "logistic" and for networks."""
    if name == NAME:
        return network_learner(options)
    return _logistic(float(options["C"])) if name == Logistic.name and "C" in options else learner_named(name)


@memoize(64)
def _logistic(C: float) -> Learner:
    return Logistic(C)
