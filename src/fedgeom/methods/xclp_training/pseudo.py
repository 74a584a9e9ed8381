"""Where pseudo-labels come from: XCLP, a site's own graph, the network's predictions, or nowhere."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np

from fedgeom.arrays import Floats, Ints
from fedgeom.federation.settings import Between, Choice
from fedgeom.methods.iterative.task import Task
from fedgeom.methods.iterative.tree import Tree
from fedgeom.methods.xclp.core import (
    at_site,
    code_confidence,
    confidence_level,
    keep_known,
    labels_and_confidence,
    one_hot,
    setting_for,
)
from fedgeom.methods.xclp.settings import Comparison, XclpSettings

MOST = 10.0
"""No row counts more than so many labelled ones, however rare its pseudo-label is."""
TILE = 2048
"""How many rows' cosines are in memory at a time, squared."""


class Pseudo(NamedTuple):
    """The pseudo-labels of a site's rows."""

    codes: Ints
    """(rows,): the class of each, -1 where there is none."""
    weights: Floats
    """(rows,): how much each counts beside a labelled row, which counts 1."""


@dataclass(frozen=True)
class PseudoLabels(Choice):
    """How rows without a label get one."""

    kind: ClassVar[str] = "pseudo-labels"
    plural: ClassVar[str] = "pseudo_labels"
    jointly: ClassVar[bool] = False
    """Whether sites find them together."""

    @property
    def lasting(self) -> bool:
        """Whether a site keeps the first ones that it gets."""
        return False

    def at_site(self, task: Task, model: Tree, known: Ints) -> Pseudo | None:
        """Return a site's pseudo-labels by itself, with the model that it was given; None: it has no such.

        ``task`` has all rows, ``known`` (rows,) the class of those that have a label and -1 elsewhere.
        """
        return None


@dataclass(frozen=True)
class NoPseudoLabels(PseudoLabels):
    """Rows without a label are left out ("labelled only")."""

    name: ClassVar[str] = "none"


@dataclass(frozen=True)
class FromNetwork(PseudoLabels):
    """What the joint model predicts, with the confidence 1 - entropy/log C ("FedAvg+network").

    With ``once=True`` a site labels its rows when it first trains after the warm start, and never again (FedSem, with
    the confidences that the XCLP paper adds to it: "FedSem+").
    """

    name: ClassVar[str] = "network"

    once: bool = False
    """Whether a site keeps its first predictions."""

    @property
    def lasting(self) -> bool:
        """Whether a site keeps its first predictions."""
        return self.once

    def at_site(self, task: Task, model: Tree, known: Ints) -> Pseudo:
        """Predict."""
        return scaled(task.probabilities(model, task.X), known)


@dataclass(frozen=True)
class FromOwnGraph(PseudoLabels):
    """Label propagation over the site's own rows and labels ("per-client LP"): exact cosines, nothing leaves."""

    name: ClassVar[str] = "site"

    variant: Literal["ours", "paper", "code"] = "ours"
    """How labels spread, as in `XCLP`."""
    n_neighbors: Annotated[int, Between(1)] | None = None
    """k. None: the variant's."""
    alpha: Annotated[float, Between(0, 1, open_low=True, open_high=True)] | None = None
    """α. None: the variant's."""

    def at_site(self, task: Task, model: Tree, known: Ints) -> Pseudo:
        """Spread the site's labels over its own graph."""
        from fedgeom.geometry.graphs.anchors import unit_rows  # scipy.sparse: slow to import
        from fedgeom.geometry.graphs.knn import knn_graph, normalise
        from fedgeom.geometry.graphs.propagation import propagate

        setting = setting_for(self.variant, self.n_neighbors, self.alpha)
        V = unit_rows(np.asarray(task.features(model), np.float64))
        Y = one_hot(known, task.classes)
        if not Y.any():
            return Pseudo(np.full(len(V), -1), np.zeros(len(V)))
        tiles = (
            (i, j, V[i : i + TILE] @ V[j : j + TILE].T)
            for i in range(0, len(V), TILE)
            for j in range(i, len(V), TILE)
        )
        W = knn_graph(tiles, setting.k, n=len(V), power=setting.power, self_loops=setting.self_loops)
        Z = propagate(normalise(W), setting.alpha, Y)
        return scaled(at_site(Z, known, setting, Y.sum(axis=0), "none").scores, known)


@dataclass(frozen=True)
class FromXCLP(PseudoLabels):
    """Cross-client label propagation over the features of all sites of a round (Algorithm 2)."""

    name: ClassVar[str] = "xclp"
    jointly: ClassVar[bool] = True

    graph: Literal["pairs", "anchors"] = "anchors"
    """"anchors": through shared cluster centres, by secure sums only. "pairs": all rows are compared, as published; in
    every round the coordinator then learns the angles between all rows' features."""
    n_anchors: Annotated[int, Between(1, 100_000)] = 100
    """The number of anchors."""
    steps: Annotated[int, Between(1, 30)] = 3
    """The steps of clustering that find the anchors, in every round anew."""
    min_cell: Annotated[int, Between(1)] = 5
    """A cluster with fewer rows is never summed."""
    n_nearest: Annotated[int, Between(1, 100)] = 3
    """On how many nearest anchors a row is written."""
    hash_bits: Annotated[int, Between(8, 65_528)] = 4096
    """L: the length of the hashes, a multiple of 8."""
    variant: Literal["ours", "paper", "code"] = "ours"
    """How labels spread, as in `XCLP`."""
    n_neighbors: Annotated[int, Between(1)] | None = None
    """k. None: the variant's."""
    alpha: Annotated[float, Between(0, 1, open_low=True, open_high=True)] | None = None
    """α. None: the variant's."""
    prior: Literal["em", "em-unchecked", "own", "none"] = "em"
    """How a site estimates its own class shares, as in `XCLP`."""
    confidence: Literal["entropy", "code"] = "code"
    """"code": divided by the largest over all sites and weighted by n/(C·n_c), as the reference code trains; one more
    secure sum in each round. "entropy": 1 - entropy/log C alone, as the paper writes."""
    hamming: Comparison = "lattice"
    """How distances are computed in secret."""
    hidden_projection: bool = True
    """Whether the coordinator must not know the projection; it is the same in all rounds of a run."""
    flip_probability: Annotated[float, Between(0, 0.5, open_high=True)] = 0.0
    """The share of hash bits that sites turn over: always the same bits of a row, or rounds would average them away."""
    hide_labelled: bool = False
    """Whether sites hide which of their rows are labelled."""

    def settings(self, classes: tuple[str, ...] | None, min_sites: int) -> XclpSettings:
        """Return the settings of one propagation."""
        given: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(self)}
        given["n_rounds"] = given.pop("steps")
        return XclpSettings(**given, classes=classes, min_sites=min_sites)


def scaled(scores: Floats, known: Ints) -> Pseudo:
    """Return labels, and confidences scaled as the reference code does, by what the site has alone.

    scores (rows, classes), known (rows,): the labels that rows have, and keep, else -1; the largest confidence and the
    sizes of classes are the site's own.
    """
    found, confidence = labels_and_confidence(scores)
    codes = keep_known(found, known)
    sizes = one_hot(codes, scores.shape[1]).sum(axis=0)
    return Pseudo(codes, capped(code_confidence(scores, confidence_level(confidence), sizes, known)))


def capped(weights: Floats) -> Floats:
    """Return weights, (rows,), of which none is larger than `MOST`."""
    return np.minimum(weights, MOST)
