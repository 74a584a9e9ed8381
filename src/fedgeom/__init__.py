"""Federated learning from the shape of data: rows stay at the site, geometry travels.

>>> import fedgeom
>>> sites = fedgeom.split(X, y, n_sites=3)                          # doctest: +SKIP
>>> run = fedgeom.run(fedgeom.Hulls(epsilon=0.01), sites, seed=0)   # doctest: +SKIP
>>> run.model.predict(X)                                            # doctest: +SKIP
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "SiteData": "fedgeom.data.sites",
    "split": "fedgeom.data.sites",
    "holdout": "fedgeom.data.sites",
    "read_site": "fedgeom.data.files",
    "load_set": "fedgeom.data.sets",
    "run": "fedgeom.engines.run",
    "Run": "fedgeom.engines.run",
    "Ledger": "fedgeom.federation.ledger",
    "Policy": "fedgeom.federation.policy",
    "Hulls": "fedgeom.methods.hulls.method",
    "Moments": "fedgeom.methods.moments.method",
    "XCLP": "fedgeom.methods.xclp.method",
    "PTopoFL": "fedgeom.methods.ptopofl.method",
    "Shrunk": "fedgeom.methods.shrunk.method",
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
    "load_model": "fedgeom.methods",
    "PoincareSVC": "fedgeom.geometry.hyperbolic.svm",
    "EuclideanSVC": "fedgeom.geometry.hyperbolic.svm",
    "FedgeomError": "fedgeom.errors",
    "InputError": "fedgeom.errors",
}

__all__ = [
    "XCLP",
    "Ditto",
    "EuclideanSVC",
    "FedAdam",
    "FedAvg",
    "FedDyn",
    "FedPer",
    "FedProx",
    "FedYogi",
    "FedgeomError",
    "Hulls",
    "InputError",
    "Interpolated",
    "Ledger",
    "LocalOnly",
    "Moments",
    "PFedMe",
    "PTopoFL",
    "PoincareSVC",
    "Policy",
    "Run",
    "Scaffold",
    "Shrunk",
    "SiteData",
    "__version__",
    "holdout",
    "load_model",
    "load_set",
    "read_site",
    "run",
    "split",
]

if TYPE_CHECKING:
    from fedgeom.data.files import read_site
    from fedgeom.data.sets import load_set
    from fedgeom.data.sites import SiteData, holdout, split
    from fedgeom.engines.run import Run, run
    from fedgeom.errors import FedgeomError, InputError
    from fedgeom.federation.ledger import Ledger
    from fedgeom.federation.policy import Policy
    from fedgeom.geometry.hyperbolic.svm import EuclideanSVC, PoincareSVC
    from fedgeom.methods import load_model
    from fedgeom.methods.hulls.method import Hulls
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
    from fedgeom.methods.moments.method import Moments
    from fedgeom.methods.ptopofl.method import PTopoFL
    from fedgeom.methods.shrunk.method import Shrunk
    from fedgeom.methods.xclp.method import XCLP


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used, so that importing the package stays quick."""
    if name not in _HOMES:
        raise AttributeError(f"module 'fedgeom' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
