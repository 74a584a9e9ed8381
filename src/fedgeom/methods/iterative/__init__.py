"""Iterative federated learning as a table: learners, objectives, aggregations, personal parts, and rows of them."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

_HOMES = {
    "Effort": "fedgeom.methods.iterative.effort",
    "Learner": "fedgeom.methods.iterative.learners",
    "Logistic": "fedgeom.methods.iterative.learners.logistic",
    "Objective": "fedgeom.methods.iterative.objective",
    "Row": "fedgeom.methods.iterative.algorithm",
    "Task": "fedgeom.methods.iterative.task",
    "TorchLearner": "fedgeom.methods.iterative.learners.torch_module",
    "TrainedModel": "fedgeom.methods.iterative.model",
    "pooled": "fedgeom.methods.iterative.plain",
    "register": "fedgeom.methods.iterative.learners",
    "simulate": "fedgeom.methods.iterative.plain",
    "FedAvg": "fedgeom.methods.iterative.algorithms.fedavg",
    "FedProx": "fedgeom.methods.iterative.algorithms.fedprox",
    "Scaffold": "fedgeom.methods.iterative.algorithms.scaffold",
    "FedDyn": "fedgeom.methods.iterative.algorithms.feddyn",
    "FedAdam": "fedgeom.methods.iterative.algorithms.fedopt",
    "FedYogi": "fedgeom.methods.iterative.algorithms.fedopt",
    "Ditto": "fedgeom.methods.iterative.algorithms.ditto",
    "PFedMe": "fedgeom.methods.iterative.algorithms.pfedme",
    "FedPer": "fedgeom.methods.iterative.algorithms.fedper",
    "LocalOnly": "fedgeom.methods.iterative.algorithms.local_only",
    "Interpolated": "fedgeom.methods.iterative.algorithms.interpolated",
}

__all__ = [
    "Ditto",
    "Effort",
    "FedAdam",
    "FedAvg",
    "FedDyn",
    "FedPer",
    "FedProx",
    "FedYogi",
    "Interpolated",
    "Learner",
    "LocalOnly",
    "Logistic",
    "Objective",
    "PFedMe",
    "Row",
    "Scaffold",
    "Task",
    "TorchLearner",
    "TrainedModel",
    "pooled",
    "register",
    "simulate",
]

if TYPE_CHECKING:
    from fedgeom.methods.iterative.algorithm import Row
    from fedgeom.methods.iterative.algorithms.ditto import Ditto
    from fedgeom.methods.iterative.algorithms.fedavg import FedAvg
    from fedgeom.methods.iterative.algorithms.feddyn import FedDyn
    from fedgeom.methods.iterative.algorithms.fedopt import FedAdam, FedYogi
    from fedgeom.methods.iterative.algorithms.fedper import FedPer
    from fedgeom.methods.iterative.algorithms.fedprox import FedProx
    from fedgeom.methods.iterative.algorithms.interpolated import Interpolated
    from fedgeom.methods.iterative.algorithms.local_only import LocalOnly
    from fedgeom.methods.iterative.algorithms.pfedme import PFedMe
    from fedgeom.methods.iterative.algorithms.scaffold import Scaffold
    from fedgeom.methods.iterative.effort import Effort
    from fedgeom.methods.iterative.learners import Learner, register
    from fedgeom.methods.iterative.learners.logistic import Logistic
    from fedgeom.methods.iterative.learners.torch_module import TorchLearner
    from fedgeom.methods.iterative.model import TrainedModel
    from fedgeom.methods.iterative.objective import Objective
    from fedgeom.methods.iterative.plain import pooled, simulate
    from fedgeom.methods.iterative.task import Task


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module 'fedgeom.methods.iterative' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value
