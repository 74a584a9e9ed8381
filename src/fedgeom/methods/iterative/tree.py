"""Trees of named arrays: the state of an algorithm, with arithmetic, so that an update reads as in its paper.

A tree's leaves are arrays of any shape and dtype, or numbers; its branches are trees. ``y - x`` and ``0.1 * tree``
work leaf by leaf. On the wire and in sums a tree is its leaves in the order of their paths.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from fedgeom.errors import InputError, ProtocolError
from fedgeom.federation.messages import Array

Leaf = npt.NDArray[Any] | float | int
Function = Callable[..., Any]
SEPARATOR = "/"

T = TypeVar("T", bound="Tree")


class Tree(dict[str, Any]):
    """Named arrays, numbers and trees of these.

    >>> x = Tree(weights=np.array([1.0, 2.0]), step=3)
    >>> (x + x)["weights"].tolist(), (2 * x)["step"]
    ([2.0, 4.0], 6)
    """

    __array_ufunc__ = None  # so that NumPy's numbers on the left leave the arithmetic to the tree

    def __init__(self, *given: Any, **named: Any):
        super().__init__(*given, **named)
        for name, value in self.items():
            if isinstance(value, dict) and not isinstance(value, Tree):
                self[name] = Tree(value)

    def map(self, function: Function, *others: Any) -> Tree:
        """Apply a function leaf by leaf; others are trees with the same names, or numbers for all leaves."""
        found = Tree()
        for other in others:
            if isinstance(other, Mapping) and other.keys() != self.keys():
                mine, theirs = (", ".join(sorted(one)) or "nothing" for one in (self, other))
                raise InputError(f"a tree with {theirs} was given; wanted one with {mine}")
        for name, value in self.items():
            parts = [other[name] if isinstance(other, Mapping) else other for other in others]
            found[name] = value.map(function, *parts) if isinstance(value, Tree) else function(value, *parts)
        return found

    def __add__(self, other: Any) -> Tree:
        return self.map(operator.add, other)

    def __radd__(self, other: Any) -> Tree:
        return self.map(lambda mine, theirs: theirs + mine, other)

    def __sub__(self, other: Any) -> Tree:
        return self.map(operator.sub, other)

    def __rsub__(self, other: Any) -> Tree:
        return self.map(lambda mine, theirs: theirs - mine, other)

    def __mul__(self, other: Any) -> Tree:
        return self.map(operator.mul, other)

    def __rmul__(self, other: Any) -> Tree:
        return self.map(lambda mine, theirs: theirs * mine, other)

    def __truediv__(self, other: Any) -> Tree:
        return self.map(operator.truediv, other)

    def __rtruediv__(self, other: Any) -> Tree:
        return self.map(lambda mine, theirs: theirs / mine, other)

    def __pow__(self, power: float) -> Tree:
        return self.map(operator.pow, power)

    def __neg__(self) -> Tree:
        return self.map(operator.neg)

    def __or__(self, other: Mapping[str, Any]) -> Tree:  # type: ignore[override]
        return Tree({**self, **other})

    def select(self, names: Iterable[str]) -> Tree:
        """Return the tree with only these of its names."""
        kept = set(names)
        return Tree({name: value for name, value in self.items() if name in kept})

    def zeros(self) -> Tree:
        """Return a tree of the same shape with zeros."""
        return self.map(lambda leaf: np.zeros_like(leaf) if isinstance(leaf, np.ndarray) else type(leaf)(0))

    def leaves(self) -> dict[str, Leaf]:
        """Return the leaves by their paths, in the order of the paths."""
        found: dict[str, Leaf] = {}
        for name in sorted(self):
            value = self[name]
            if SEPARATOR in name:
                raise InputError(
                    f"the name {name!r} has a {SEPARATOR!r} in it, which separates branches: rename it"
                )
            if isinstance(value, Tree):
                found |= {f"{name}{SEPARATOR}{path}": leaf for path, leaf in value.leaves().items()}
            else:
                found[name] = value
        return found

    @property
    def size(self) -> int:
        """How many numbers there are in all."""
        return sum(int(np.size(leaf)) for leaf in self.leaves().values())

    def flat(self) -> npt.NDArray[np.float64]:
        """Return all numbers as one vector, in the order of the paths."""
        return self._joined(np.dtype(np.float64))

    def packed(self) -> npt.NDArray[Any]:
        """Return all numbers as one vector, in single precision where all of them are."""
        single = all(np.asarray(leaf).dtype == np.float32 for leaf in self.leaves().values())
        return self._joined(np.dtype(np.float32 if single else np.float64))

    def _joined(self, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        found = np.empty(self.size, dtype)
        at = 0
        for leaf in self.leaves().values():
            found[at : at + np.size(leaf)] = np.ravel(leaf)
            at += int(np.size(leaf))
        return found

    def like(self, flat: npt.NDArray[Any]) -> Tree:
        """Read a vector as a tree of this shape, with this tree's dtypes (views where these are the vector's).

        Where the tree has whole numbers, those of the vector are rounded.
        """
        if flat.shape != (self.size,):
            raise InputError(f"a vector of shape {flat.shape} was given; this tree has {self.size} numbers")
        found = {}
        at = 0
        for path, leaf in self.leaves().items():
            found[path] = converted(flat[at : at + np.size(leaf)].reshape(np.shape(leaf)), leaf)
            at += int(np.size(leaf))
        return grow(found)

    def in_dtypes_of(self, other: Tree) -> Tree:
        """Return the tree with the dtypes of another with the same names and shapes; what has them is not copied."""
        return other.map(lambda leaf, mine: converted(np.asarray(mine), leaf), self)

    def within(self, limit: float) -> bool:
        """Say whether all numbers are smaller than a limit; what is no number is not."""
        arrays = [np.asarray(leaf) for leaf in self.leaves().values() if np.size(leaf)]
        return all(bool(one.max() < limit and one.min() > -limit) for one in arrays)

    def fits(self, other: Tree) -> bool:
        """Say whether another tree has the same paths and shapes."""
        mine = self.leaves()
        theirs = other.leaves()
        return mine.keys() == theirs.keys() and all(np.shape(mine[p]) == np.shape(theirs[p]) for p in mine)

    def same_dtypes(self, other: Tree) -> bool:
        """Say whether another tree that fits has the same dtypes."""
        theirs = other.leaves()
        return all(
            np.asarray(leaf).dtype == np.asarray(theirs[path]).dtype for path, leaf in self.leaves().items()
        )

    def copy(self) -> Tree:
        """Return a tree with copies of the arrays."""
        return self.map(lambda leaf: leaf.copy() if isinstance(leaf, np.ndarray) else leaf)


def converted(values: npt.NDArray[Any], leaf: Leaf) -> Leaf:
    """Return numbers as a leaf of the dtype of another one; whole numbers are rounded."""
    dtype = np.asarray(leaf).dtype
    rounded = np.asarray(np.rint(values)) if dtype.kind in "iu" and values.dtype.kind == "f" else values
    array = rounded.astype(dtype, copy=False)
    return array if isinstance(leaf, np.ndarray) else array.item()


State = Tree
"""What the coordinator keeps, what it gives, what a site keeps, what it sends: a tree, with the model as a branch."""


def grow(leaves: Mapping[str, Any]) -> Tree:
    """Make a tree of leaves by their paths; raise `ProtocolError` where a path is a leaf and a branch at once."""
    found = Tree()
    for path, leaf in leaves.items():
        *branches, name = path.split(SEPARATOR)
        at: Any = found
        for branch in branches:
            at = at.setdefault(branch, Tree())
            if not isinstance(at, Tree):
                break
        if not isinstance(at, Tree) or name in at:
            raise ProtocolError(f"the path {path!r} goes through a leaf, or ends in a branch")
        at[name] = leaf
    return found


def _number(path: str, leaf: Any) -> float | int:
    number = leaf.item() if isinstance(leaf, np.generic) else leaf
    if isinstance(number, bool) or not isinstance(number, float | int):
        raise TypeError(f"{path} is {leaf!r}; wanted an array, a number, or a tree of these")
    return number


def to_wire(tree: Tree, *, copy: bool = True) -> dict[str, Array | float | int]:
    """Return a tree's leaves as they travel and are remembered: arrays as arrays, numbers as numbers.

    Without a copy, only a tree that nobody will change.
    """
    leaves = tree.leaves().items()
    return {
        path: Array.of(leaf, copy=copy) if isinstance(leaf, np.ndarray) else _number(path, leaf)
        for path, leaf in leaves
    }


def from_wire(leaves: Mapping[str, Array | float | int], *, copy: bool = True) -> Tree:
    """Read a tree that travelled; without a copy, its arrays can only be read."""
    return grow(
        {
            path: (leaf.numpy() if copy else leaf.view()) if isinstance(leaf, Array) else leaf
            for path, leaf in leaves.items()
        }
    )
