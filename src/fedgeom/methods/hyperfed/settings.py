"""The settings of HyperFed, and what both halves know of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np

from fedgeom.errors import InputError
from fedgeom.federation.settings import Between
from fedgeom.geometry.graphs.class_tree import ClassTree
from fedgeom.geometry.hyperbolic.prototypes import random_rotation
from fedgeom.methods.aggregation import Consistent
from fedgeom.methods.iterative.heads import UNDER, Poincare, tree_lines
from fedgeom.methods.iterative.networks import Network
from fedgeom.methods.iterative.settings import (
    AggregationOrName,
    HeadOrName,
    LossOrName,
    NetworkOrName,
    PersonalOrName,
    Round,
    TrainingRule,
)
from fedgeom.methods.iterative.task import Task
from fedgeom.methods.iterative.tree import State, Tree

if TYPE_CHECKING:
    TreeOrLines = Mapping[str, Any] | ClassTree | tuple[str, ...]
else:  # a tree is read into lines, which travel
    TreeOrLines = tuple[str, ...]

DIMENSION = 20
"""d of the paper, for networks that name no embedding."""
OWN = "head.points"
"""Where a model has prototypes that are a site's own."""


@dataclass(frozen=True, kw_only=True)
class HyperFedSettings(TrainingRule):
    """Prototypes, loss and aggregation."""

    takes_groups: ClassVar[bool] = False

    sends_changes: ClassVar[bool] = True
    keeps_momentum: ClassVar[bool] = True
    compares_updates: ClassVar[bool] = True
    own_head: ClassVar[bool] = True

    network: NetworkOrName | None = "mlp"
    """The body; where it names no embedding it gets one of 20 features, which may be negative."""
    head: HeadOrName = "poincare"
    """The prototypes: Poincare(slope=0.9), with s."""
    loss: LossOrName = "triplet"
    """"triplet" (Eq. 7), "public-triplet", "geodesic-softmax", "geodesic" ("HyperFed-Geodesic"), with a class tree
    "tree-softmax" or "tree-targets"."""
    aggregation: AggregationOrName = "consistent"
    """"consistent" (Eqs. 8 to 11), or "mean" ("HyperFed-Averaged")."""
    prototypes: Literal["fixed and shared", "fixed", "shared"] = "fixed and shared"
    """"fixed": every site has its own, which are never sent ("HyperFed-Fixed"); "shared": all begin with the same, and
    train and average them ("HyperFed-Shared")."""
    personal: PersonalOrName = "finetuned"
    """What a site makes of the last model for itself."""
    tuning_steps: Annotated[int, Between(1, 10**6)] | None = 5
    """Gradient steps of fine-tuning; None: as many as in a round."""
    class_tree: TreeOrLines | None = None
    """A tree of the classes, {child: parent}, nested tables or a `ClassTree`: the prototypes are then placed by it.
    Where ``classes`` is not given, they are the leaves, or those of the `ClassTree`."""

    def __post_init__(self) -> None:
        tree = self.class_tree
        if isinstance(tree, ClassTree) and self.classes is None:
            object.__setattr__(self, "classes", tuple(tree.nodes[at] for at in tree.classes))
        if isinstance(tree, Mapping | ClassTree):
            object.__setattr__(self, "class_tree", tree_lines(tree))
        super().__post_init__()
        if (
            self.consistent is not None
        ):  # the weights are those of Eq. 10; rows are at most where their search starts
            starts = self.consistent.start == "rows" and not self.masked
            object.__setattr__(self, "weights", "rows" if starts else "sites")
        network = self.network
        head = self.head
        if isinstance(network, Network) and network.embedding_dim is None and isinstance(head, Poincare):
            object.__setattr__(self, "network", replace(network, embedding_dim=DIMENSION))
        self._place()

    def _place(self) -> None:
        """Give the head the tree, and the place of its prototypes in the model."""
        head = self.head
        kept = self.prototypes
        if not isinstance(head, Poincare):
            if kept != "fixed and shared" or self.class_tree:
                raise InputError('prototypes and class_tree are of the head "poincare"; another was given')
            return
        if self.class_tree:
            lines = tree_lines(self.class_tree)
            parents = dict(line.split(UNDER, 1) for line in lines if UNDER in line)
            leaves = ClassTree.read(parents)
            classes = self.classes or tuple(leaves.nodes[at] for at in leaves.classes)
            object.__setattr__(self, "classes", classes)
            head = replace(head, tree=lines, classes=classes)
        how: dict[str, Literal["fixed", "trained", "own"]] = {"shared": "trained", "fixed": "own"}
        object.__setattr__(self, "head", replace(head, prototypes=how.get(kept, "fixed")))

    @property
    def consistent(self) -> Consistent | None:
        """The consistent aggregation, None where it is another."""
        return self.combine_rule if isinstance(self.combine_rule, Consistent) else None

    @property
    def compares(self) -> bool:
        """Whether sites compare their updates in pairs: the weights need cosines, and the updates are not shown."""
        return self.masked and self.consistent is not None

    @property
    def counts_rows(self) -> bool:
        """Whether sites count by their rows: not where they are weighed."""
        return super().counts_rows and self.consistent is None

    @property
    def weighs_sites(self) -> bool:
        """Whether the coordinator tells the sites' weights."""
        return self.compares

    def regroups_in(self, round: int) -> bool:
        """Whether sites are weighed anew: in every round, where they are."""
        return self.compares or super().regroups_in(round)

    def shows_one_site(self) -> str:
        """Open training shows updates; compared ones show how they lie to each other."""
        shown = super().shows_one_site()
        if shown or not self.compares:
            return shown
        return "the cosine between this site's update and each other site's (aggregation=\"mean\" shows sums only)"

    # What a site does.

    def shared(self, model: Tree) -> Tree:
        """Return the part that is sent: all but prototypes of a site's own."""
        return model.select(set(model) - {OWN})

    def whole(self, task: Task, model: Tree, own: State) -> Tree:
        """Put the site's own prototypes, where it has some, on the joint body."""
        if OWN not in task.first:
            return model
        return model | (own["prototypes"] if "prototypes" in own else task.first.select([OWN]))

    def local(self, task: Task, given: State, own: State) -> State:
        """Train, and send the change."""
        if (
            OWN in task.first and "prototypes" not in own
        ):  # the joint arrangement, turned as only this site turns it
            first = np.asarray(task.first[OWN])
            turned = first @ random_rotation(first.shape[1], rng=task.rng)
            own["prototypes"] = Tree({OWN: turned.astype(first.dtype)})
        return Tree(model=super().local(task, given, own)["model"] - given["model"])

    def combine(self, state: State, mean: State, round: Round) -> State:
        """Take the step (Eq. 8)."""
        return state | {"model": state["model"] + mean["model"]}

    def personalise(self, task: Task, given: State, own: State) -> Tree:
        """Return the site's own model: a few more steps from the joint one (Section 5.1, P-FL)."""
        if self.tuning_steps is not None:
            task = replace(task, effort=replace(task.effort, steps=self.tuning_steps))
        return super().personalise(task, given, own)
