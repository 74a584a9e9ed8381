"""Class trees: how far classes are apart, how likely a whole branch is, how deep a prediction may go.

A node of the tree is a class or a group of classes; the root stands for all. Every edge has length 1. Classes are
mostly leaves, but may be inner nodes ("T cell" beside "CD4 T cell").
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedgeom.arrays import Bools, Floats, Ints
from fedgeom.errors import InputError

ROOT = "all classes"
"""What a root is called that the tree itself does not name."""


@dataclass(frozen=True, eq=False)
class ClassTree:
    """A rooted tree over classes."""

    nodes: tuple[str, ...]
    """The root first, parents before their children."""
    parents: Ints
    """(nodes,): each node's parent by number; the root's is -1."""
    classes: Ints
    """(classes,): which nodes are classes, in the order of the classes."""

    @classmethod
    def read(cls, tree: Mapping[str, Any], classes: Sequence[str] | None = None) -> ClassTree:
        """Build a tree from ``{child: parent}``, or from nested tables whose innermost entries are lists of leaves.

        ``classes`` gives the order of the classes; None: the leaves in alphabetical order. Branches without a class are
        left out, and so are nodes above the first that has two branches.

        >>> ClassTree.read({"T cell": ["CD4", "CD8"], "B cell": {}}, ["CD4", "CD8", "B cell"]).distances()
        array([[0, 2, 3],
               [2, 0, 3],
               [3, 3, 0]])
        """
        if tree and all(isinstance(value, str) for value in tree.values()):
            parent_of = dict(tree)
        else:
            parent_of = {}
            _walk(tree, None, parent_of)
        return cls._grow(parent_of, classes)

    @classmethod
    def from_paths(cls, paths: Iterable[Sequence[str]]) -> ClassTree:
        """Build a tree from one path per class, (class, parent, grandparent, …).

        Names that repeat in a path count once: a class may be alone in its group and have the group's name.
        """
        parent_of: dict[str, str] = {}
        classes = []
        for path in paths:
            steps = [*dict.fromkeys(str(name) for name in path if name), ROOT]
            classes.append(steps[0])
            for child, parent in pairwise(steps):
                if parent_of.setdefault(child, parent) != parent:
                    raise InputError(f"{child!r} is under {parent_of[child]!r} and under {parent!r}; wanted one")
        return cls._grow(parent_of, classes)

    @classmethod
    def from_ontology(cls, edges: Iterable[tuple[str, str]], classes: Sequence[str]) -> ClassTree:
        """Build a tree from (child, parent) pairs in which a child may have several parents, as in the Cell Ontology.

        Of several parents the one farthest from the top is kept, the most special; nodes that join nothing are left
        out, so that the depth says how often classes part.
        """
        above: dict[str, list[str]] = {}
        for child, parent in edges:
            above.setdefault(child, []).append(parent)
        depth: dict[str, int] = {}

        def depth_of(node: str, seen: tuple[str, ...] = ()) -> int:
            if node in seen:
                raise InputError(f"{node!r} is above itself; an ontology must not go in circles")
            if node not in depth:
                depth[node] = 1 + max((depth_of(one, (*seen, node)) for one in above.get(node, [])), default=-1)
            return depth[node]

        parent_of: dict[str, str] = {}
        waiting = list(classes)
        while waiting:
            child = waiting.pop()
            if child not in parent_of and above.get(child):
                depth_of(child)
                parent_of[child] = max(above[child], key=lambda one: (depth_of(one), one))
                waiting.append(parent_of[child])
        return cls._grow(parent_of, classes, joining_only=True)

    @classmethod
    def _grow(
        cls, parent_of: Mapping[str, str], classes: Sequence[str] | None, joining_only: bool = False
    ) -> ClassTree:
        names = set(parent_of) | set(parent_of.values())
        wanted = sorted(names - set(parent_of.values())) if classes is None else [str(name) for name in classes]
        if not wanted or len(set(wanted)) < len(wanted):
            raise InputError(f"{len(wanted)} classes given; wanted some, all different")
        missing = sorted(set(wanted) - names)
        if missing and not joining_only:  # an ontology may be older than a class: then that hangs at the root
            raise InputError(f"the class tree does not know {missing[0]!r}; add it with its parent")
        below: dict[str, list[str]] = {}
        for node in sorted(_ancestors(parent_of, wanted)):
            below.setdefault(parent_of.get(node, ""), []).append(node)
        tops = below.pop("")
        root = tops[0] if len(tops) == 1 else ROOT
        if len(tops) > 1:
            below[ROOT] = tops

        def joins(node: str) -> str:
            """Go down to the first node that is a class or has two branches."""
            while len(below.get(node, [])) == 1 and node not in wanted:
                node = below[node][0]
            return node

        order = [joins(root)]
        parents = [-1]
        at = 0
        while at < len(order):
            for child in below.get(order[at], []):
                order.append(joins(child) if joining_only else child)
                parents.append(at)
            at += 1
        number = {name: at for at, name in enumerate(order)}
        return cls(tuple(order), np.array(parents), np.array([number[name] for name in wanted]))

    @cached_property
    def above(self) -> Bools:
        """(nodes, nodes): whether the second node is the first or above it."""
        found = np.eye(len(self.nodes), dtype=bool)
        for node, parent in enumerate(self.parents.tolist()):
            if parent >= 0:
                found[node] |= found[parent]
        return found

    @cached_property
    def depths(self) -> Ints:
        """(nodes,): how many edges each node is below the root."""
        return np.asarray(self.above.sum(axis=1) - 1, np.int64)

    def children(self, node: int) -> Ints:
        """Return a node's children by number."""
        return np.flatnonzero(self.parents == node)

    def node_distances(self) -> Ints:
        """Return how many edges lie between every two nodes, (nodes, nodes): up to where they join, and down."""
        joined = self.above.astype(np.int64) @ self.above.T.astype(np.int64) - 1
        return np.asarray(self.depths[:, None] + self.depths[None, :] - 2 * joined)

    def distances(self) -> Ints:
        """Return the number of edges between every two classes, (classes, classes)."""
        return self.node_distances()[np.ix_(self.classes, self.classes)]

    def roll_up(self, probabilities: ArrayLike) -> Floats:
        """Return the probability of every node, (rows, nodes): of all classes at it or below, (rows, classes)."""
        found = np.asarray(probabilities, np.float64)
        if found.ndim != 2 or found.shape[1] != len(self.classes):
            raise InputError(f"probabilities have shape {found.shape}; wanted (rows, {len(self.classes)})")
        return found @ self.above[self.classes].astype(np.float64)

    def confident(self, probabilities: ArrayLike, confidence: float) -> tuple[Ints, Floats]:
        """Return for each row the deepest node that is likely enough, and how likely it is.

        From the root on, the likelier branch is followed as long as its probability is at least ``confidence``; so
        what is returned is as special as can be said with that confidence, and at worst the root.
        """
        if not 0.0 <= confidence <= 1.0:
            raise InputError(f"confidence={confidence} given; wanted from 0 to 1")
        chances = self.roll_up(probabilities)
        at = np.zeros(len(chances), np.int64)
        for node in range(len(self.nodes)):  # parents come before their children
            below = self.children(node)
            here = np.flatnonzero(at == node)
            if not len(below) or not len(here):
                continue
            likelier = below[chances[np.ix_(here, below)].argmax(axis=1)]
            goes_on = chances[here, likelier] >= confidence
            at[here[goes_on]] = likelier[goes_on]
        return at, chances[np.arange(len(at)), at]

    def confidence_for(self, probabilities: ArrayLike, nodes: ArrayLike, risk: float) -> float:
        """Return the least confidence with which `confident` is wrong about at most a share of rows like these.

        probabilities (rows, classes) of rows that the model did not learn from; nodes (rows,): what they are, by number
        in the tree, -1 where that is not in it. Wrong is what is not at or above a row's node. Of n such rows, w of
        them wrong, (w + 1)/(n + 1) is at most ``risk``: then it is so in the mean for further rows, if all come from
        one source (conformal risk control, Angelopoulos et al. 2024), however well probabilities are calibrated.
        """
        chances = self.roll_up(probabilities)
        wanted = np.asarray(nodes, np.int64)
        allowed = int(np.floor(risk * (len(chances) + 1) + 1e-9)) - 1
        if not 0.0 < risk < 1.0 or wanted.shape != (len(chances),):
            raise InputError(
                f"risk={risk} given and nodes of {wanted.shape}; wanted a share, and a node for each row"
            )
        if allowed < 0:
            raise InputError(
                f"{len(chances)} known rows given; a risk of {risk:g} wants {int(np.ceil(1 / risk)) - 1} or more"
            )
        path, _ = self.confident(probabilities, 0.0)  # the likelier branch, as far down as it goes
        wrong = self.above[path] & ~np.where(wanted[:, None] >= 0, self.above[wanted], self.parents < 0)
        first = np.sort(np.where(wrong, chances, -1.0).max(axis=1))[::-1]  # below this confidence a row is wrong
        if len(first) <= allowed or first[allowed] < 0:
            return 0.0
        found = float(np.nextafter(first[allowed], np.inf))
        if found > 1.0:
            raise InputError(
                f"of {len(chances)} known rows {int((first >= 1.0).sum())} are in a wrong branch of probability 1: no "
                f"confidence keeps a risk of {risk:g}; take a larger one, or another model"
            )
        return found

    def nearest(self, probabilities: ArrayLike) -> Ints:
        """Return for each row the class with the least expected tree distance to the true one, by number.

        Where the likeliest class stands alone and several of another branch share more, it is one of those.
        """
        chances = np.asarray(probabilities, np.float64)
        return np.asarray((chances @ self.distances()).argmin(axis=1))

    def nearest_node(self, probabilities: ArrayLike) -> Ints:
        """Return for each row the node, class or group, with the least expected tree distance to the true class.

        If the probabilities are right, no other rule has a lower expected tree error (it is the Bayes decision for that
        loss), so none that names classes only. Where no class is likelier than all others it names their group.

        >>> tree = ClassTree.read({"T cell": ["CD4", "CD8", "NKT"], "B cell": {}}, ["CD4", "CD8", "NKT", "B cell"])
        >>> [tree.nodes[at] for at in tree.nearest_node([[0.7, 0.2, 0.1, 0.0], [0.4, 0.3, 0.3, 0.0]])]
        ['CD4', 'T cell']
        """
        chances = np.asarray(probabilities, np.float64)
        costs = chances @ self.node_distances()[self.classes]
        # Of nodes that are equally good the deepest: it says most. Sums of probabilities are rounded, so equally good
        # is what differs by rounding only.
        equally = costs <= costs.min(axis=1, keepdims=True) + 1e-9
        return np.asarray(np.where(equally, self.depths[None, :], -1).argmax(axis=1))

    def at_depth(self, nodes: ArrayLike, depth: int) -> Ints:
        """Return each node's forebear at a depth, or the node itself where it lies less deep."""
        found = np.array(nodes, np.int64)
        deeper = self.depths[found] > depth
        while deeper.any():
            found[deeper] = self.parents[found[deeper]]
            deeper = self.depths[found] > depth
        return found

    def likeliest_at_depth(self, probabilities: ArrayLike, depth: int) -> Ints:
        """Return for each row the likeliest branch among those that classes have at a depth (`at_depth`)."""
        branches = np.unique(self.at_depth(self.classes, depth))
        of_class = self.at_depth(self.classes, depth)[None, :] == branches[:, None]
        chances = np.asarray(probabilities, np.float64) @ of_class.T.astype(np.float64)
        return np.asarray(branches[chances.argmax(axis=1)])


def softened(probabilities: ArrayLike, temperature: float) -> Floats:
    """Return probabilities at a temperature T, p^(1/T) made to sum to 1 again, (rows, classes).

    Networks are mostly surer than they should be; T > 1 takes some of that back (Guo et al. 2017). Decisions by
    expected distances are as good as the probabilities are.

    >>> softened([[0.8, 0.2]], 2.0).round(3).tolist()
    [[0.667, 0.333]]
    """
    if not temperature > 0:
        raise InputError(f"temperature={temperature} given; wanted more than 0")
    chances = np.asarray(probabilities, np.float64)
    made = (chances / chances.max(axis=1, keepdims=True)) ** (1.0 / temperature)
    return np.asarray(made / made.sum(axis=1, keepdims=True))


def tree_error(confusion: ArrayLike, distances: ArrayLike) -> tuple[float, float]:
    """Return the mean tree distance between true and predicted class over all rows, and over the mistakes alone.

    confusion (classes, classes): rows by true and by predicted class, as sites' sums give it. Without mistakes the
    second is 0.
    """
    counts = np.asarray(confusion, np.float64)
    apart = np.asarray(distances, np.float64)
    if counts.shape != apart.shape or counts.ndim != 2 or not counts.sum() > 0:
        raise InputError(f"a confusion matrix of shape {counts.shape} given; wanted some rows, {apart.shape}")
    total = float((counts * apart).sum())
    wrong = float(counts.sum() - np.trace(counts))
    return total / float(counts.sum()), total / wrong if wrong else 0.0


def depth_accuracy(tree: ClassTree, confusion: ArrayLike) -> list[float]:
    """Return the share of rows whose branch is right at every depth from 1 on, from the classes' confusion matrix."""
    counts = np.asarray(confusion, np.float64)
    found = []
    for depth in range(1, int(tree.depths[tree.classes].max()) + 1):
        branch = tree.at_depth(tree.classes, depth)
        found.append(float(counts[branch[:, None] == branch[None, :]].sum() / counts.sum()))
    return found


def _walk(tree: Any, parent: str | None, parent_of: dict[str, str]) -> None:
    """Take nested tables apart into children and their parents."""
    if tree is None:
        return
    if isinstance(tree, str) or not isinstance(tree, Mapping | list | tuple):
        raise InputError(f"{tree!r} given under {parent!r}; wanted a table of branches or a list of leaves")
    branches = tree.items() if isinstance(tree, Mapping) else [(leaf, None) for leaf in tree]
    for name, below in branches:
        if not isinstance(name, str) or name in parent_of:
            raise InputError(f"{name!r} is twice in the class tree, or is no name")
        parent_of[name] = ROOT if parent is None else parent
        _walk(below, name, parent_of)


def _ancestors(parent_of: Mapping[str, str], wanted: Iterable[str]) -> set[str]:
    """Return the wanted nodes and all above them."""
    kept: set[str] = set()
    for start in wanted:
        path: list[str] = []
        at: str | None = start
        while at is not None and at not in kept:
            if at in path:
                raise InputError(
                    f"the class tree goes in a circle: {' under '.join([*path[path.index(at) :], at])}"
                )
            path.append(at)
            at = parent_of.get(at)
        kept.update(path)
    return kept
