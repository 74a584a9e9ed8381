"""Small sites for HyperFed, and settings that train them in a moment."""

from __future__ import annotations

import numpy as np

from fedgeom.data.sites import SiteData
from fedgeom.methods.hyperfed.method import HyperFed


def clinics(n: int = 4, rows: int = 40, seed: int = 0) -> list[SiteData]:
    """Return sites with three classes in four columns, in different proportions."""
    rng = np.random.default_rng(seed)
    centres = np.eye(4)[:3] * 2
    found = []
    for at in range(n):
        y = rng.choice(3, rows, p=np.roll([0.6, 0.3, 0.1], at))
        y[:3] = range(3)
        found.append(
            SiteData(f"clinic {at}", centres[y] + rng.normal(size=(rows, 4)), np.array(["a", "b", "c"])[y])
        )
    return found


def quick(**changes: object) -> HyperFed:
    """Return HyperFed with a logistic regression: what is compared and weighed does not depend on the network."""
    settings: dict[str, object] = {"n_rounds": 2, "steps": 3, "network": None, "learner": "logistic"}
    return HyperFed(**(settings | {"head": "linear", "loss": "cross-entropy"} | changes))  # type: ignore[arg-type]
