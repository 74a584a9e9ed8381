"""What HyperFed yields: a trained network whose features are points of the ball, with the tree of its classes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Floats
from fedgeom.data.labels import in_words
from fedgeom.errors import InputError
from fedgeom.geometry.graphs.class_tree import ClassTree, softened, tree_error
from fedgeom.geometry.hyperbolic import poincare
from fedgeom.methods.iterative.heads import Head, Poincare
from fedgeom.methods.iterative.learners.torch_module import built_learner
from fedgeom.methods.iterative.model import TrainedModel


class HyperFedModel(TrainedModel):
    """A classifier by the nearest prototype; with a class tree it predicts as deep as it is sure."""

    @property
    def tree(self) -> ClassTree:
        """The tree of the classes, in the order of ``names``."""
        options: Any = self.options
        head = Head.read(options.get("head", "linear"), "head")
        found = head.class_tree() if isinstance(head, Poincare) else None
        if found is None:
            raise InputError("the model has no class tree; train with HyperFed(class_tree={child: parent, …})")
        return found

    def predict_confident(self, X: npt.ArrayLike, confidence: float = 0.9) -> tuple[npt.NDArray[Any], Floats]:
        """Return for each row the deepest node of the class tree that is at least so likely, and how likely it is.

        A class where the model is sure, the name of a group of classes where it is not, at worst the root.
        """
        tree = self.tree
        nodes, chances = tree.confident(self.predict_proba(X), confidence)
        return np.array(tree.nodes)[nodes], chances

    def predict_at_depth(self, X: npt.ArrayLike, depth: int) -> npt.NDArray[Any]:
        """Return for each row the likeliest branch of the class tree at a depth, 1 being just below the root."""
        tree = self.tree
        found: npt.NDArray[Any] = np.array(tree.nodes)[tree.likeliest_at_depth(self.predict_proba(X), depth)]
        return found

    def predict_nearest(
        self, X: npt.ArrayLike, *, groups: bool = False, temperature: float = 1.0
    ) -> npt.NDArray[Any]:
        """Return for each row the class with the least expected tree distance to the true one; or class or group.

        ``temperature`` above 1 makes the probabilities less sure of themselves first (`softened`).
        """
        tree = self.tree
        chances = softened(self.predict_proba(X), temperature)
        if groups:
            found: npt.NDArray[Any] = np.array(tree.nodes)[tree.nearest_node(chances)]
            return found
        return np.asarray(np.array(self.names)[tree.nearest(chances)])

    def tree_error(self, X: npt.ArrayLike, y: npt.ArrayLike) -> tuple[float, float]:
        """Return the mean tree distance between true and predicted class over all rows, and over mistakes alone."""
        index = {name: at for at, name in enumerate(self.names)}
        confusion = np.zeros((len(self.names), len(self.names)))
        for true, said in zip(
            np.asarray(y).astype(str).tolist(), in_words(self.predict(X)).astype(str).tolist(), strict=True
        ):
            if true not in index:
                raise InputError(f"the label {true!r} is none of the model's classes: {', '.join(self.names[:8])}")
            confusion[index[true], index[said]] += 1
        return tree_error(confusion, self.tree.distances())

    def points(self, X: npt.ArrayLike) -> Floats:
        """Return where rows lie in the ball, (rows, d), f8: exp_o of their features (Eq. 6)."""
        if self.centre is None or self.spread is None:
            raise InputError("the sites scaled by their own columns; use model.for_site(run.local[site])")
        given = np.asarray(X, np.float64)
        rows = self.features((given.reshape(len(given), -1) - self.centre) / self.spread)
        learner = built_learner(self.learner, dict(self.options))
        learner.bind(rows.shape[1], len(self.names))
        return poincare.exp0(learner.features(self.parameters, rows))
