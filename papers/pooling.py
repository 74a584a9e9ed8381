"""Training on pooled rows: what the tables of iterative methods call "pooled"."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np

import fedgeom
from fedgeom.methods.iterative import setup
from fedgeom.methods.iterative.settings import TrainingRule


def pooled(rule: TrainingRule, sites: Sequence[fedgeom.SiteData], seed: int = 0) -> Any:
    """Train centrally: all rows in one place, as many passes over them as the sites make in all rounds.

    What makes the rule federated or personal has no meaning there; its learner, effort and scale have.
    """
    labels = np.concatenate([site.y.astype(str) for site in sites])
    rows = np.vstack([setup.rows_of(site, rule.build_learner().dtype) for site in sites])
    settings: dict[str, Any] = {field.name: getattr(rule, field.name) for field in fields(TrainingRule)}
    settings |= {
        "participation": 1.0,
        "validation_fraction": 0.0,
        "patience": None,
        "aggregation": "mean",
        "personal": "none",
    }
    settings["bits"] = 64  # one site has nothing to add up
    settings["scale"] = "joint" if rule.scale == "site" else rule.scale
    return fedgeom.FedAvg(**settings).plain([fedgeom.SiteData("everyone", rows, labels)], seed).model
