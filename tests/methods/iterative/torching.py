"""What tests with torch share: small batches, networks whose features can be written down, sites of images."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

import fedgeom
from fedgeom.methods.iterative import Batch

torch = pytest.importorskip("torch", reason="torch is not installed; it comes with the extra fedgeom[torch]")

DIGITS = {"network": "mlp", "scale": "none", "n_rounds": 2, "epochs": 1, "batch_size": 16, "learning_rate": 0.05}
"""Quick settings for `digits`."""


class Given:
    """A network that is nothing but what is written down: rows are features, features are scores."""

    def __init__(self, matrix: Any = None, head: Any = None):
        self.matrix, self.head = matrix, head

    def features(self, inputs: Any) -> Any:
        return inputs if self.matrix is None else inputs @ self.matrix

    def scores(self, features: Any) -> Any:
        return features


def batch_of(rows: Any, labels: Any, *, counts: Any = (1.0, 1.0), **others: Any) -> Batch:
    """Return a batch whose scores are its rows, unless another network is given."""
    network = others.pop("network", Given())
    return Batch(
        inputs=torch.tensor(rows, dtype=torch.float32),
        labels=torch.tensor(labels),
        network=network,
        counts=torch.tensor(counts, dtype=torch.float32),
        generator=torch.Generator().manual_seed(0),
        joint=others.pop("joint", network),
        **others,
    )


def digits(n_sites: int = 3, rows: int = 90, seed: int = 0) -> list[fedgeom.SiteData]:
    """A few of scikit-learn's 8 × 8 digits, three classes, dealt unevenly."""
    X, y = load_digits(n_class=3, return_X_y=True)
    chosen = np.random.default_rng(seed).permutation(len(X))[:rows]
    return fedgeom.split(X[chosen] / 16, y[chosen], n_sites, "dirichlet", seed, alpha=2.0)
