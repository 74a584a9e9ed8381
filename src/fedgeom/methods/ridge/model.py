"""The model of Ridge: features, weights and a temperature."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Floats
from fedgeom.errors import InputError
from fedgeom.federation.model import Model, decisions
from fedgeom.federation.onnx import Graph
from fedgeom.methods.ridge.features import FeatureContext, FeatureMap, read_merged, stack
from fedgeom.methods.ridge.image_features import blocks

_ROWS = 1024


@dataclass(frozen=True, repr=False)
class RidgeModel(Model):
    """A linear model on features, which are made anew from the seed and from joint moments in the file."""

    method: str = field(default="ridge", init=False)

    names: tuple[str, ...]
    maps: tuple[Any, ...]
    """The feature maps as the terms have them: names, or tables with a name and settings."""
    seed: int
    shape: tuple[int, ...]
    alpha: float
    """λ, as it was given or chosen."""
    temperature: float
    """Probabilities are the softmax of scores divided by it."""
    contrast: float
    weights: Floats
    """(features + 1, classes), f8: intercepts, then weights of the features."""
    moments: Floats
    """(3, columns), f8: the columns' means, standard deviations, and whether they vary; where bins have floors, below
    them which bin stands for each bin of a column, (3 + bins, columns)."""
    filters: npt.NDArray[np.float32]
    """(patch cells, filters), f4: learnt filters; (0, 0) where there are none."""
    offsets: npt.NDArray[np.float32]
    """(filters,), f4"""

    @classmethod
    def made(
        cls,
        names: tuple[str, ...],
        maps: tuple[FeatureMap, ...],
        ground: FeatureContext,
        weights: Floats,
        alpha: float,
        temperature: float,
    ) -> RidgeModel:
        """Put a model together."""
        none = np.empty((0, 0), np.float32)
        return cls(
            names,
            tuple(one.plain() for one in maps),
            ground.seed,
            ground.shape,
            alpha,
            temperature,
            ground.contrast,
            weights,
            np.vstack(
                [ground.mean, ground.scale, ground.varies, *([] if ground.merged is None else ground.merged.T)]
            ),
            none if ground.filters is None else ground.filters,
            np.empty(0, np.float32) if ground.offsets is None else ground.offsets,
        )

    def for_site(self, local: Mapping[str, Any]) -> RidgeModel:
        """Return a site's own model where it made one (``personal=True``); otherwise the joint one."""
        own = local.get("weights")
        if own is None:
            return self
        weights = np.asarray(own, np.float64)
        if weights.shape != self.weights.shape:
            raise InputError(f"weights of shape {weights.shape} given; wanted {self.weights.shape}")
        return replace(self, weights=weights)

    @property
    def width(self) -> int:
        """How many columns the model takes."""
        return int(self.moments.shape[1])

    @property
    def single(self) -> bool:
        """Whether some features are computed in single precision."""
        return any(np.dtype(one.dtype) == np.float32 for one in self._parts[0])

    @cached_property
    def _parts(self) -> tuple[tuple[FeatureMap, ...], FeatureContext]:
        learnt = len(self.offsets) > 0
        mean, scale, varies, *merged = self.moments
        ground = FeatureContext(
            self.width,
            self.seed,
            tuple(self.shape),
            mean,
            scale,
            varies,
            self.contrast,
            self.filters if learnt else None,
            self.offsets if learnt else None,
            read_merged(merged),
        )
        return tuple(FeatureMap.read(one, "features") for one in self.maps), ground

    def features(self, X: npt.ArrayLike) -> npt.NDArray[Any]:
        """Return the features of rows, (rows, features), in the precision in which they were summed."""
        maps, ground = self._parts
        rows = self._rows(X)
        return stack(maps, rows, ground)

    def _rows(self, X: npt.ArrayLike) -> npt.NDArray[Any]:
        rows = np.asarray(X)
        if (
            rows.ndim != 2
            or rows.shape[1] != self.width
            or rows.dtype.kind not in "biuf"
            or not np.isfinite(rows).all()
        ):
            raise InputError(f"X has shape {rows.shape}; wanted finite rows of {self.width} columns")
        return rows

    def class_scores(self, X: npt.ArrayLike) -> Floats:
        """Return a score per class: near 1 for the row's class, near -1 for the others."""
        rows = self._rows(X)
        maps, ground = self._parts
        out = np.empty((len(rows), len(self.names)))
        for some in blocks(len(rows), _ROWS):
            found = np.asarray(stack(maps, rows[some], ground), np.float64)
            out[some] = found @ self.weights[1:] + self.weights[0]
        return out

    def linear_scores(self) -> tuple[Floats, Floats] | None:
        """Return the scores at the model's temperature, where the columns are its only features."""
        maps, ground = self._parts
        if any(one.name != "linear" for one in maps) or len(maps) != 1:
            return None
        weights = self.weights[1:] * (ground.varies / ground.scale)[:, None]
        return weights / self.temperature, (self.weights[0] - ground.mean @ weights) / self.temperature

    def decision_function(self, X: npt.ArrayLike) -> Floats:
        """Return the scores of classes, (rows, classes); of two, by how much the second leads, (rows,)."""
        return decisions(self.class_scores(X))

    def predict_proba(self, X: npt.ArrayLike) -> Floats:
        """Return the scores as probabilities: their softmax at the temperature that fits all sites' rows best."""
        scores = self.class_scores(X) / self.temperature
        found = np.exp(scores - scores.max(axis=1, keepdims=True))
        return np.asarray(found / found.sum(axis=1, keepdims=True))

    def onnx_scores(self, graph: Graph, rows: str) -> str:
        """Add the features and their weighted sums at the model's temperature."""
        maps, ground = self._parts
        centred = graph.add("Sub", rows, graph.constant(ground.mean))
        standardised = graph.add("Mul", centred, graph.constant(ground.varies / ground.scale))
        parts = [one.onnx(graph, standardised, ground) for one in maps]
        return graph.affine(
            graph.beside(*parts), self.weights[1:] / self.temperature, self.weights[0] / self.temperature
        )

    def predict(self, X: npt.ArrayLike) -> npt.NDArray[Any]:
        """Return the name of the best class of each row."""
        named: npt.NDArray[Any] = np.array(self.names)[self.class_scores(X).argmax(axis=1)]
        return named

    @classmethod
    def from_tensors(cls, arrays: Mapping[str, npt.NDArray[Any]], facts: Mapping[str, Any]) -> RidgeModel:
        """Build the model from a file's content; refuse one whose parts do not fit each other."""
        model = super().from_tensors(arrays, facts)
        try:
            maps, ground = model._parts
            blank = stack(maps, np.zeros((1, model.width)), ground)
            fits = (blank.shape[1] + 1, len(model.names)) == model.weights.shape and model.temperature > 0
        except (TypeError, ValueError, LookupError, ArithmeticError) as error:
            raise InputError(f"the file holds no ridge model: {error}") from error
        if not fits:
            raise InputError("the file holds no ridge model: its weights do not fit its features")
        return model
