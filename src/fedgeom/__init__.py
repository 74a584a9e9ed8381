"""Federated learning from the shape of data: rows stay at the site, geometry travels.

>>> import fedgeom
>>> sites = fedgeom.split(X, y, n_sites=3)                          # doctest: +SKIP
>>> run = fedgeom.run(fedgeom.Hulls(epsilon=0.01), sites, seed=0)   # doctest: +SKIP
>>> run.model.predict(X)                                            # doctest: +SKIP

Running          check, run, compare, sweep, Run, Ledger, Policy, DP, SimulatedNetwork, load_model
Data             SiteData, split, partition, holdout, Holdout, read_site, shared_columns, load_set
Methods          Hulls, Moments, XCLP, XCLPTraining, Shrunk, PTopoFL, HyperFed, Ridge, Ellipses, PoincareMap, Pipeline
Statistics       describe, Describe, Regression, Cox, KaplanMeier
Algorithms       FedAvg, FedAvgM, FedExP, FedAdam, FedYogi, FedNova, FedProx, Scaffold, FedDyn, FedDC, LocalOnly
Personal ones    Ditto, FedMTL, PFedMe, FedALA, FedPer, FedRep, FedBABU, Interpolated, Apple
For networks     Moon, FedNTD, FedSAM, FedRoD, FedLC, SphereFed, FedProto
Classifiers      FederatedClassifier, PoincareSVC, EuclideanSVC
Errors           FedgeomError, InputError, TooFewSitesError
To extend it     Method, Algorithm, Site, Model; fedgeom.testing.check_method

Each has a docstring of its own: help(fedgeom.Hulls). Methods are also found by name on the command line:
``fedgeom methods``. The documentation begins in README.md.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from fedgeom.version import __version__ as __version__

_HOMES = {
    "Algorithm": "fedgeom.methods.iterative.algorithm",
    "Cox": "fedgeom.methods.survival.cox",
    "DP": "fedgeom.federation.privacy",
    "Describe": "fedgeom.methods.describe.method",
    "EuclideanSVC": "fedgeom.geometry.hyperbolic.svm",
    "FederatedClassifier": "fedgeom.engines.estimator",
    "FedgeomError": "fedgeom.errors",
    "Holdout": "fedgeom.federation.holdout",
    "InputError": "fedgeom.errors",
    "Ledger": "fedgeom.federation.ledger",
    "KaplanMeier": "fedgeom.methods.survival.kaplan_meier",
    "Method": "fedgeom.federation.method",
    "Model": "fedgeom.federation.model",
    "Pipeline": "fedgeom.preparation",
    "PoincareSVC": "fedgeom.geometry.hyperbolic.svm",
    "Policy": "fedgeom.federation.policy",
    "Run": "fedgeom.federation.results",
    "Site": "fedgeom.protocols.site",
    "SimulatedNetwork": "fedgeom.engines.network",
    "SiteData": "fedgeom.data.sites",
    "TooFewSitesError": "fedgeom.errors",
    "check": "fedgeom.engines.check",
    "compare": "fedgeom.study",
    "describe": "fedgeom.engines.run",
    "holdout": "fedgeom.data.split",
    "load_model": "fedgeom.methods.catalogue",
    "load_set": "fedgeom.data.datasets",
    "read_site": "fedgeom.data.readers",
    "run": "fedgeom.engines.run",
    "shared_columns": "fedgeom.data.alignment",
    "split": "fedgeom.data.split",
    "sweep": "fedgeom.study",
}
_ALIASES = {"Site": "SummingSite"}
_MODULES = ("partition",)

if TYPE_CHECKING:
    from fedgeom import partition as partition
    from fedgeom.data.alignment import shared_columns as shared_columns
    from fedgeom.data.datasets import load_set as load_set
    from fedgeom.data.readers import read_site as read_site
    from fedgeom.data.sites import SiteData as SiteData
    from fedgeom.data.split import holdout as holdout
    from fedgeom.data.split import split as split
    from fedgeom.engines.check import check as check
    from fedgeom.engines.estimator import FederatedClassifier as FederatedClassifier
    from fedgeom.engines.network import SimulatedNetwork as SimulatedNetwork
    from fedgeom.engines.run import describe as describe
    from fedgeom.engines.run import run as run
    from fedgeom.errors import FedgeomError as FedgeomError
    from fedgeom.errors import InputError as InputError
    from fedgeom.errors import TooFewSitesError as TooFewSitesError
    from fedgeom.federation.holdout import Holdout as Holdout
    from fedgeom.federation.ledger import Ledger as Ledger
    from fedgeom.federation.method import Method as Method
    from fedgeom.federation.model import Model as Model
    from fedgeom.federation.policy import Policy as Policy
    from fedgeom.federation.privacy import DP as DP
    from fedgeom.federation.results import Run as Run
    from fedgeom.geometry.hyperbolic.svm import EuclideanSVC as EuclideanSVC
    from fedgeom.geometry.hyperbolic.svm import PoincareSVC as PoincareSVC
    from fedgeom.methods import *  # noqa: F403
    from fedgeom.methods.catalogue import load_model as load_model
    from fedgeom.methods.describe.method import Describe as Describe
    from fedgeom.methods.iterative.algorithm import Algorithm as Algorithm
    from fedgeom.methods.survival.cox import Cox as Cox
    from fedgeom.methods.survival.kaplan_meier import KaplanMeier as KaplanMeier
    from fedgeom.preparation import Pipeline as Pipeline
    from fedgeom.protocols.site import SummingSite as Site  # noqa: F401
    from fedgeom.study import compare as compare
    from fedgeom.study import sweep as sweep


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used, so that importing the package stays quick."""
    if name.startswith("_"):
        raise AttributeError(f"module 'fedgeom' has no attribute {name!r}")
    if name in _MODULES:
        return importlib.import_module(f"fedgeom.{name}")
    home = importlib.import_module(_HOMES.get(name, "fedgeom.methods"))
    value = getattr(home, _ALIASES.get(name, name), None) if name in _HOMES or name in home.HOMES else None
    if value is None:
        raise AttributeError(f"module 'fedgeom' has no attribute {name!r}; see help(fedgeom)")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    methods = importlib.import_module("fedgeom.methods")
    return sorted(["__version__", *_HOMES, *_MODULES, *methods.HOMES])
