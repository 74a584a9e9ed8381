"""The site's side of pTopoFL: describe the shape of the rows, add columns, train."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from fedgeom.arrays import Floats
from fedgeom.crypto.masks import SystemDraws
from fedgeom.data.validation import Collector, fault
from fedgeom.errors import InputError, ProtocolError
from fedgeom.federation.messages import Array
from fedgeom.federation.site import Memory, answers
from fedgeom.geometry.topology.persistence import rips_diagrams
from fedgeom.methods.iterative.messages import Leaves
from fedgeom.methods.iterative.model import TrainedModel
from fedgeom.methods.iterative.settings import TrainingRule
from fedgeom.methods.iterative.site import LAST, TrainingMemory, TrainingSite, generator
from fedgeom.methods.iterative.task import Task
from fedgeom.methods.iterative.tree import Tree, from_wire, to_wire
from fedgeom.methods.ptopofl.model import CloudShape, TopoModel
from fedgeom.methods.ptopofl.private_descriptors import BLOCK_ROWS, private_descriptor
from fedgeom.methods.ptopofl.settings import TopoSettings
from fedgeom.methods.ptopofl.shapes import (
    CONSENSUS,
    NONE,
    NOTHING,
    DescribeActivations,
    DescribePrivately,
    DescribeShape,
    ShapeDescription,
    describe_rows,
)

RIPS_BYTES = 64
"""About how many bytes persistence takes for each pair of points (measured at 1,000 and 2,000 of them)."""
BOX = 3.0
"""Private descriptors clip rows to this many joint deviations: a public bound, as a proof of privacy needs one."""


class TopoMemory(TrainingMemory, kw_only=True):
    """What a site remembers of its shape."""

    shape_centre: Array | None = None
    """(columns,), f8"""
    shape_constants: Array | None = None
    """(3,), f8, or with the 48 numbers of Appendix D (48,) or (51,)"""
    described: dict[int, bytes] = {}
    """Private descriptors by round: asked again, the site sends the very same, or its noise would average out."""


class TopoSite(TrainingSite):
    """Answers the questions of `PTopoFL`."""

    memory_type: ClassVar[type[Memory]] = TopoMemory
    memory: TopoMemory

    def check(self, settings: TrainingRule) -> None:
        """Refuse data that the method cannot use; gudhi must be there before anything is promised."""
        assert isinstance(settings, TopoSettings)
        self.check_work(RIPS_BYTES * settings.n_points**2)
        faults = Collector(self.name)
        private = settings.epsilon is not None
        rows = len(self.data)
        with faults.take():
            super().check(settings)
        if private and rows < BLOCK_ROWS:
            what = f"has {rows} rows; a private descriptor needs at least {BLOCK_ROWS}"
            faults.found.append(
                fault(what, "leave the site out, or leave epsilon away", site=self.name, topic="rows")
            )
        faults.raise_all()
        rips_diagrams(np.zeros((1, 1)))

    @property
    def topology(self) -> TopoSettings:
        """The settings on which the site joined."""
        settings: TopoSettings = self.settings
        return settings

    def _rng(self, round: int) -> np.random.Generator:
        return generator(self.seed, round, self.name, purpose=2)

    @answers(DescribeShape)
    def describe(self, ask: DescribeShape) -> ShapeDescription:
        """Send the descriptor, if the terms say so, and what else they need of the shape."""
        method = self.topology
        if method.descriptor_input == "rows":
            return self._describe(ask.round, self.agreement.scaled())
        if ask.round:
            raise ProtocolError("activations are described before any training, or of a model that is given")
        task = self._all_rows()  # the first model, which follows from the seed: no coordinator chooses it
        return self._describe(ask.round, self._activations(task, self.rule.shared(task.first)))

    @answers(DescribeActivations)
    def describe_activations(self, ask: DescribeActivations) -> ShapeDescription:
        """Send the descriptor of what the model that came makes of the rows, if the terms say so."""
        if self.topology.descriptor_input != "activations" or not ask.round:
            raise ProtocolError(
                "the terms of this run ask for no descriptor of a model's activations in this round"
            )
        self.agreement.check_agreed(ask.agreed)
        task = self._all_rows()
        return self._describe(ask.round, self._activations(task, self.given_state(ask.given, task)["model"]))

    def _all_rows(self) -> Task:
        return self.task(LAST, self.rule.learning_rate)

    def _activations(self, task: Task, model: Tree) -> Floats:
        """Return what the body of a model makes of all rows, (rows, d), f8."""
        found = np.asarray(task.features(self.rule.whole(task, model, from_wire(self.memory.own))), np.float64)
        if not np.isfinite(found).all():  # it depends on the rows, so the site leaves
            raise InputError("the model makes activations of this site's rows that are no finite numbers")
        return found

    def _describe(self, round: int, X: Floats) -> ShapeDescription:
        """Return the descriptors that the terms ask for of rows or activations."""
        method = self.topology
        if not method.describes or method.epsilon is not None:
            raise ProtocolError("the terms of this run ask for no open descriptor")
        if not method.describes_in(round):  # each round draws other points: many make more than one descriptor
            raise ProtocolError(f"the terms of this run ask for no descriptor in round {round + 1}")
        classes = self.memory.agreement.classes
        return describe_rows(method, X, self.table.y, classes, lambda: self._rng(round))

    @answers(DescribePrivately)
    def describe_privately(self, ask: DescribePrivately) -> ShapeDescription:
        """Send the descriptor with noise; the same one if asked again."""
        method = self.topology
        memory = self.memory
        if method.epsilon is None or ask.round != 0:
            raise ProtocolError("the terms of this run ask for one private descriptor at most")
        if ask.round not in memory.described:
            # Privacy needs noise that nobody can draw again, so it does not follow from the run's seed.
            X = self.agreement.scaled()
            rng = SystemDraws()
            low = np.full(X.shape[1], -BOX)
            high = np.full(X.shape[1], BOX)
            noisy = private_descriptor(X, low, high, epsilon=method.epsilon, delta=method.delta, rng=rng)
            memory.described[ask.round] = np.asarray(noisy.values, "<f8").tobytes()
        values = np.frombuffer(memory.described[ask.round], "<f8")
        return ShapeDescription(descriptor=Array.of(values), by_class=NONE, h0=NOTHING, h1=NOTHING)

    def features(self, rows: Floats) -> Floats:
        """Add the four columns of Section 3.2, or the 48 numbers of Appendix D."""
        method = self.topology
        memory = self.memory
        if not method.extra_columns:
            return rows
        if memory.shape_centre is None or memory.shape_constants is None:
            shape = CloudShape.of(self.agreement.scaled(), method.n_points, self._rng(LAST), method.added)
            memory.shape_centre = Array.of(shape.centre)
            memory.shape_constants = Array.of(shape.constants)
        found = CloudShape(memory.shape_centre.numpy(), memory.shape_constants.numpy()).add_to(rows)
        return np.asarray(found, rows.dtype)

    def result(self) -> dict[str, Any]:
        """Return the site's own model, and the shape that belongs to it."""
        found = super().result()
        memory = self.memory
        if memory.shape_centre is None or memory.shape_constants is None:
            return found
        return found | {
            "shape centre": memory.shape_centre.numpy(),
            "shape constants": memory.shape_constants.numpy(),
        }

    def joint_of(self, given: Leaves, task: Task) -> Array | None:
        """Return the consensus, which comes beside the cluster's model where rows are kept aside to test it."""
        came = from_wire(given)
        if CONSENSUS not in came:
            return None
        return super().joint_of(to_wire(Tree(model=came[CONSENSUS])), task)

    def joint_model(self) -> TrainedModel:
        """Return a model of the run's kind, untrained."""
        plain = super().joint_model()
        return TopoModel(**vars(plain), augmented=bool(self.topology.extra_columns))
