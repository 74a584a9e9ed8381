"""What training yields: a learner's parameters, the scale of its columns, the names of its classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Floats
from fedgeom.errors import InputError, ProtocolError
from fedgeom.federation.model import Model
from fedgeom.methods.iterative.learners import Learner, Parameters
from fedgeom.methods.iterative.learners.torch_module import built_learner
from fedgeom.methods.iterative.settings import TrainingRule
from fedgeom.methods.iterative.setup import ScaledRows, is_large, scaled
from fedgeom.methods.iterative.tree import Tree, grow

SCALE = ("scale/centre", "scale/spread")


def is_joint(rule: TrainingRule, first: Tree) -> bool:
    """Say whether a rule averages all of a model that predicting takes; ``first`` is one before training."""
    return bool(rule.sends) and (rule.predicts_jointly or set(rule.shared(first)) == set(first))


@dataclass(frozen=True, repr=False)
class TrainedModel(Model):
    """A classifier; `for_site` makes it a site's own where the method is personal."""

    method: str
    names: tuple[str, ...]
    learner: str
    options: Mapping[str, float]
    parameters: Parameters
    """The learner's named arrays, of its own shapes and dtype."""
    columns: int
    centre: Floats | None
    """(columns,): what is taken off each column. None: every site scales by its own (see `for_site`)."""
    spread: Floats | None
    """(columns,): what each column is then divided by."""
    joint: bool = field(default=True, kw_only=True)
    """Whether all of it was learnt jointly; otherwise it lacks what sites keep to themselves (see `for_site`)."""

    @property
    def width(self) -> int:
        """How many columns the model takes."""
        return self.columns

    @property
    def everywhere(self) -> bool:
        """Whether the joint model predicts by itself: not where sites have scales, heads or models of their own."""
        return self.centre is not None and self.joint

    def for_site(self, local: Mapping[str, Any]) -> TrainedModel:
        """Return a site's own model, from what it learnt in the run (``run.local[site]``)."""
        model = self if "network" not in local else self._with_network(local["network"])
        own = model.parameters.like(np.asarray(local["model"]))
        centre, spread = (np.asarray(local[key], np.float64) for key in ("centre", "spread"))
        return replace(model, parameters=own, centre=centre, spread=spread, joint=True)

    def _with_network(self, network: str | Mapping[str, Any]) -> TrainedModel:
        """Return the model with a site's own network, untrained; what is beside the network stays."""
        options: Any = dict(self.options) | {"network": network}
        shapes = [
            Tree(built_learner(self.learner, some).start(self.columns, len(self.names), np.random.default_rng(0)))
            for some in (dict(self.options), options)
        ]
        beside = self.parameters.select(set(self.parameters) - set(shapes[0]))
        return replace(self, options=options, parameters=shapes[1] | beside)

    def predict_proba(self, X: npt.ArrayLike) -> Floats:
        """Return a probability for each row and class, in the order of ``names``."""
        rows = np.asarray(X)
        small = rows.dtype.kind in "uf" and rows.dtype.itemsize < 8
        rows = rows.reshape(len(rows), -1) if rows.ndim > 2 else rows  # images as they are
        rows = rows if small else rows.astype(np.float64, copy=False)
        if rows.ndim != 2 or rows.shape[1] != self.columns or not np.isfinite(rows).all():
            raise InputError(f"X has shape {rows.shape}; wanted finite rows of {self.columns} columns")
        if not self.joint:
            raise InputError(
                f"the sites keep what they learn to themselves in {self.method!r}, or part of it, so the joint model "
                "is not trained; use a site's own: model.for_site(run.local[site])"
            )
        if self.centre is None or self.spread is None:
            raise InputError(
                "the sites scaled by their own columns; use model.for_site(run.local[site]) for a site's rows"
            )
        learner = built_learner(self.learner, dict(self.options))
        large = is_large(rows, learner.dtype)
        at_scale: Any = (ScaledRows if large else scaled)(rows, self.centre, self.spread, learner.dtype)
        features = self.features(at_scale)
        learner.bind(features.shape[1], len(self.names))
        return self.chances(learner, features)

    def linear_scores(self) -> tuple[Floats, Floats] | None:
        """Return the scores of a logistic learner that sees the scaled columns and nothing else."""
        plain = type(self).features is TrainedModel.features and type(self).chances is TrainedModel.chances
        if self.learner != "logistic" or not plain or not self.joint or self.centre is None or self.spread is None:
            return None
        weights = np.asarray(self.parameters["weights"], np.float64) / self.spread[:, None]
        intercepts = np.asarray(self.parameters["intercept"], np.float64) - self.centre @ weights
        if len(intercepts) == 1:  # the first of two classes has 0
            return np.column_stack([np.zeros(len(weights)), weights]), np.array([0.0, intercepts[0]])
        return weights, intercepts

    def chances(self, learner: Learner, features: Floats) -> Floats:
        """Return what the learner makes of features, (rows, classes)."""
        return learner.predict_proba(self.parameters, features)

    def features(self, rows: Floats) -> Floats:
        """Return what the learner sees of scaled rows; methods may add columns."""
        return rows

    def predict(self, X: npt.ArrayLike) -> npt.NDArray[Any]:
        """Return the name of the likeliest class of each row."""
        named: npt.NDArray[Any] = np.array(self.names)[self.predict_proba(X).argmax(axis=1)]
        return named

    def tensors(self) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
        """Return the arrays and facts of the model file."""
        arrays = {path: np.asarray(leaf) for path, leaf in self.parameters.leaves().items()}
        if self.centre is not None and self.spread is not None:
            arrays |= dict(zip(SCALE, (self.centre, self.spread), strict=True))
        facts = {
            "method": self.method,
            "names": list(self.names),
            "learner": self.learner,
            "options": dict(self.options),
            "columns": self.columns,
        }
        return arrays, facts if self.joint else facts | {"joint": False}

    @classmethod
    def from_tensors(cls, arrays: Mapping[str, npt.NDArray[Any]], facts: Mapping[str, Any]) -> TrainedModel:
        """Build the model from a file's content."""
        try:
            return cls(
                method=facts["method"],
                names=tuple(facts["names"]),
                learner=facts["learner"],
                options=facts["options"],
                parameters=grow({path: value for path, value in arrays.items() if path not in SCALE}),
                columns=int(facts["columns"]),
                centre=arrays.get(SCALE[0]),
                spread=arrays.get(SCALE[1]),
                joint=bool(facts.get("joint", True)),
            )
        except (KeyError, TypeError, ProtocolError) as error:
            raise InputError(f"the file holds no trained model: {error}") from error
