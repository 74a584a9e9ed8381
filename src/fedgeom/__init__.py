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
    "run": "fedgeom.federation.run",
    "Run": "fedgeom.federation.run",
    "Ledger": "fedgeom.federation.ledger",
    "Policy": "fedgeom.federation.policy",
    "Hulls": "fedgeom.methods.hulls.method",
    "Moments": "fedgeom.methods.moments.method",
    "XCLP": "fedgeom.methods.xclp.method",
    "PTopoFL": "fedgeom.methods.ptopofl.method",
    "Shrunk": "fedgeom.methods.shrunk.method",
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
    "load_model": "fedgeom.methods",
    "PoincareSVC": "fedgeom.geometry.svm",
    "EuclideanSVC": "fedgeom.geometry.svm",
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
    from fedgeom.errors import FedgeomError, InputError
    from fedgeom.federation.ledger import Ledger
    from fedgeom.federation.policy import Policy
    from fedgeom.federation.run import Run, run
    from fedgeom.geometry.svm import EuclideanSVC, PoincareSVC
    from fedgeom.methods import load_model
    from fedgeom.methods.hulls.method import Hulls
    from fedgeom.methods.moments.method import Moments
    from fedgeom.methods.ptopofl.method import PTopoFL
    from fedgeom.methods.shrunk.method import Shrunk
    from fedgeom.methods.xclp.method import XCLP
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


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used, so that importing the package stays quick."""
    if name not in _HOMES:
        raise AttributeError(f"module 'fedgeom' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
