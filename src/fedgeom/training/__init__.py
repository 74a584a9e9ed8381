"""Iterative federated learning as a table: learners, objectives, aggregations, personal parts, and rows of them."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

_HOMES = {
    "Effort": "fedgeom.training.effort",
    "Learner": "fedgeom.training.learners",
    "Logistic": "fedgeom.training.learners.logistic",
    "Objective": "fedgeom.training.objective",
    "Row": "fedgeom.training.table",
    "Task": "fedgeom.training.task",
    "TorchLearner": "fedgeom.training.learners.torch_module",
    "TrainedModel": "fedgeom.training.model",
    "pooled": "fedgeom.training.plain",
    "register": "fedgeom.training.learners",
    "simulate": "fedgeom.training.plain",
    "FedAvg": "fedgeom.training.rows.fedavg",
    "FedProx": "fedgeom.training.rows.fedprox",
    "Scaffold": "fedgeom.training.rows.scaffold",
    "FedDyn": "fedgeom.training.rows.feddyn",
    "FedAdam": "fedgeom.training.rows.fedopt",
    "FedYogi": "fedgeom.training.rows.fedopt",
    "Ditto": "fedgeom.training.rows.ditto",
    "PFedMe": "fedgeom.training.rows.pfedme",
    "FedPer": "fedgeom.training.rows.fedper",
    "LocalOnly": "fedgeom.training.rows.local_only",
    "Interpolated": "fedgeom.training.rows.interpolated",
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
    from fedgeom.training.effort import Effort
    from fedgeom.training.learners import Learner, register
    from fedgeom.training.learners.logistic import Logistic
    from fedgeom.training.learners.torch_module import TorchLearner
    from fedgeom.training.model import TrainedModel
    from fedgeom.training.objective import Objective
    from fedgeom.training.plain import pooled, simulate
    from fedgeom.training.rows.ditto import Ditto
    from fedgeom.training.rows.fedavg import FedAvg
    from fedgeom.training.rows.feddyn import FedDyn
    from fedgeom.training.rows.fedopt import FedAdam, FedYogi
    from fedgeom.training.rows.fedper import FedPer
    from fedgeom.training.rows.fedprox import FedProx
    from fedgeom.training.rows.interpolated import Interpolated
    from fedgeom.training.rows.local_only import LocalOnly
    from fedgeom.training.rows.pfedme import PFedMe
    from fedgeom.training.rows.scaffold import Scaffold
    from fedgeom.training.table import Row
    from fedgeom.training.task import Task


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module 'fedgeom.training' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value
