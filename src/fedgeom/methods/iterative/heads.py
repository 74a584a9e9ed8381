"""Heads: they make one score per class from features."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np

from fedgeom.arrays import Floats
from fedgeom.errors import InputError
from fedgeom.federation.settings import Between, Choice
from fedgeom.geometry.graphs.class_tree import ClassTree
from fedgeom.geometry.hyperbolic import prototypes as arrangements
from fedgeom.geometry.hyperbolic.prototypes import tree_prototypes
from fedgeom.memo import memoize

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Head(Choice):
    """The last part of a network.

    What is trained are the module's parameters. What is fixed, such as prototypes, is a buffer with
    ``persistent=False``: it follows from the settings and the numbers of features and classes alone, so every site, the
    coordinator and whoever loads the model build it anew, and it never travels.
    """

    kind: ClassVar[str] = "head"

    @abstractmethod
    def build(self, features: int, classes: int) -> torch.nn.Module:
        """Return the module, (rows, features) to (rows, classes); larger scores are likelier."""

    def trained_arrays(self, features: int) -> tuple[str, ...]:
        """Return the names of the module's parameters, which are the same for any number of classes."""
        return tuple(name for name, _ in self.build(features, 2).named_parameters())


@dataclass(frozen=True)
class Linear(Head):
    """Scores are a linear function of the features."""

    name: ClassVar[str] = "linear"

    bias: bool = True
    """Whether each class has a constant of its own."""

    def build(self, features: int, classes: int) -> torch.nn.Module:
        """Return a linear layer as torch initialises it."""
        import torch  # optional

        return torch.nn.Linear(features, classes, bias=self.bias)


@dataclass(frozen=True)
class Orthonormal(Head):
    """Scores are cosines with fixed directions at right angles, the same at all sites (SphereFed, Dong et al. 2022).

    Where there are more classes than features, the directions are as far apart as can be (Tammes).
    """

    name: ClassVar[str] = "orthonormal"

    seed: Annotated[int, Between(0, 2**31)] = 0
    """Draws the directions."""
    fitted: bool = False
    """Whether the directions are a part of the model, so that they can be fitted (`SphereFed.calibration`)."""

    def build(self, features: int, classes: int) -> torch.nn.Module:
        """Return the fixed head."""
        from fedgeom.methods.iterative.head_modules import Directions, FixedDirections  # torch is optional

        return (Directions if self.fitted else FixedDirections)(_directions(self.seed, features, classes))


@memoize(8)
def _directions(seed: int, features: int, classes: int) -> Floats:
    """Draw directions, (classes, features): at right angles, or as far apart as so many can be."""
    rng = np.random.default_rng(seed)
    if classes <= features:
        return np.asarray(np.linalg.qr(rng.normal(size=(features, classes)))[0].T)
    apart = arrangements.tammes(classes, features, rng=rng)
    return apart @ arrangements.random_rotation(features, rng=rng)


PERSONAL = ("head.personal.weight", "head.personal.bias")
"""The arrays of the personal head, as they are called in a network."""


@dataclass(frozen=True)
class TwoHeadSum(Head):
    """A generic linear head and a personal one, whose scores are added (FedRoD, Chen and Chao 2022).

    The personal one starts at zero, so that a model without it predicts by the generic head alone.
    """

    name: ClassVar[str] = "two"

    def build(self, features: int, classes: int) -> torch.nn.Module:
        """Return both heads in one module."""
        from fedgeom.methods.iterative.head_modules import TwoHeads  # needs torch, which is optional

        return TwoHeads(features, classes)


UNDER = " < "
"""Between a child and its parent, where a tree is written as lines."""


@dataclass(frozen=True)
class Poincare(Head):
    """Scores are minus the distances of exp_o(z) to the prototypes; fixed prototypes are neither trained nor sent.

    Up to twice as many classes as dimensions, and in the plane, the prototypes have a closed form. Beyond, and for a
    random start, they are searched for from the seed at every site: rounding differs between processors, and where it
    led two sites to different arrangements, they would train apart.
    """

    name: ClassVar[str] = "poincare"

    slope: Annotated[float, Between(0, 1, open_low=True)] = 0.9
    """s: the norm of the prototypes. At 1 they are ideal points, and Busemann functions stand for distances."""
    placing: Literal["tammes", "published", "random"] = "tammes"
    """"tammes": as far apart as can be (Eq. 4); "published": by the descent of Eq. 5; "random": drawn uniformly."""
    prototypes: Literal["fixed", "trained", "own"] = "fixed"
    """"fixed": neither trained nor sent; "trained": both, as tangent vectors at the origin; "own": not trained, but an
    array of the model, so that a site can have its own."""
    steps: Literal["plain", "riemannian"] = "plain"
    """How prototypes that are trained move: "plain": their tangent vectors, by the optimizer like all other parameters;
    "riemannian": their points in the ball, by Riemannian SGD, which has neither momentum nor decay."""
    seed: Annotated[int, Between(0, 2**31)] = 0
    """Of searched and random prototypes."""
    tree: tuple[str, ...] = ()
    """The class tree as lines "child < parent"; then the prototypes are placed by it, the outermost at the slope."""
    classes: tuple[str, ...] = ()
    """The classes in their order, for a tree."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.class_tree()  # refuses what is no tree of these classes
        if self.slope == 1 and (self.tree or self.prototypes == "trained"):
            raise InputError(
                "slope=1 given: on the edge of the ball prototypes are ideal points, which have neither depths in a "
                "tree nor tangent vectors to be trained; take 0.9 or so"
            )

    def class_tree(self) -> ClassTree | None:
        """Return the tree of the classes, None where there is none."""
        return tree_of(self.tree, self.classes) if self.tree else None

    def points(self, features: int, classes: int) -> Floats:
        """Return the prototypes, (classes, features), f8."""
        if self.tree and len(self.classes) != classes:
            raise InputError(f"the class tree has {len(self.classes)} classes; the sites agreed on {classes}")
        return _points(self, features, classes).copy()

    def build(self, features: int, classes: int) -> torch.nn.Module:
        """Return the module."""
        from fedgeom.methods.iterative.head_modules import PoincareModule  # torch is optional

        tree = self.class_tree()
        module = PoincareModule(self.points(features, classes), self.prototypes, tree)
        if module.trained and self.steps == "riemannian":
            module.on_ball = ("tangents",)
        return module

    def trained_arrays(self, features: int) -> tuple[str, ...]:
        """Return the name of the trained prototypes; a head with a tree is built for its classes only."""
        return ("tangents",) if self.prototypes == "trained" else ()


def tree_of(lines: tuple[str, ...], classes: tuple[str, ...]) -> ClassTree:
    """Return the tree of some classes, from lines "child < parent"."""
    pairs = [line.split(UNDER) for line in lines]
    if any(len(pair) != 2 for pair in pairs) or not classes:
        raise InputError(f'tree={lines!r} given; wanted lines "child{UNDER}parent", and the classes in order')
    return ClassTree.read(dict(pairs), classes)


def tree_lines(tree: Mapping[str, Any] | ClassTree | tuple[str, ...] | list[str]) -> tuple[str, ...]:
    """Return a class tree, a `ClassTree`, as its ``read`` takes it, or as lines already, as lines "child < parent"."""
    if not isinstance(tree, Mapping | ClassTree):
        return tuple(tree)
    found = tree if isinstance(tree, ClassTree) else ClassTree.read(tree)
    named = zip(found.nodes, found.parents.tolist(), strict=True)
    return tuple(f"{name}{UNDER}{found.nodes[parent]}" for name, parent in named if parent >= 0)


@memoize(32)
def _points(head: Poincare, features: int, classes: int) -> Floats:
    """A head is built at every visit of a site; its search need not be."""
    rng = np.random.default_rng(head.seed)
    tree = head.class_tree()
    if tree is not None:
        return tree_prototypes(tree, features, head.slope, rng=rng)
    place: dict[str, Callable[..., Floats]] = {
        "tammes": arrangements.tammes,
        "published": arrangements.published,
        "random": arrangements.random_directions,
    }
    return arrangements.contract(place[head.placing](classes, features, rng=rng), head.slope)
