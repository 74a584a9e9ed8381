"""The methods. A method that comes with fedgeom is one package (an algorithm: one file) and one line in each list here.

All are known by name at once (`fedgeom.federation.method.METHODS`), and loaded when they are used: a list of methods,
or a run of one, need not wait for what the others import. What is slow to import, such as scikit-learn, they import
where they use it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import fedgeom.preparation  # noqa: F401  # registers the steps, which are settings of every method
from fedgeom.federation.method import METHODS

if TYPE_CHECKING:
    from fedgeom.methods.ellipses.method import Ellipses as Ellipses
    from fedgeom.methods.hulls.method import Hulls as Hulls
    from fedgeom.methods.hyperfed.method import HyperFed as HyperFed
    from fedgeom.methods.iterative.algorithms.apple import Apple as Apple
    from fedgeom.methods.iterative.algorithms.averaging import FedAvg as FedAvg
    from fedgeom.methods.iterative.algorithms.averaging import FedNova as FedNova
    from fedgeom.methods.iterative.algorithms.averaging import Interpolated as Interpolated
    from fedgeom.methods.iterative.algorithms.averaging import LocalOnly as LocalOnly
    from fedgeom.methods.iterative.algorithms.networks import FedLC as FedLC
    from fedgeom.methods.iterative.algorithms.networks import FedNTD as FedNTD
    from fedgeom.methods.iterative.algorithms.networks import FedProto as FedProto
    from fedgeom.methods.iterative.algorithms.networks import FedRoD as FedRoD
    from fedgeom.methods.iterative.algorithms.networks import FedSAM as FedSAM
    from fedgeom.methods.iterative.algorithms.networks import Moon as Moon
    from fedgeom.methods.iterative.algorithms.networks import SphereFed as SphereFed
    from fedgeom.methods.iterative.algorithms.personal import Ditto as Ditto
    from fedgeom.methods.iterative.algorithms.personal import FedALA as FedALA
    from fedgeom.methods.iterative.algorithms.personal import FedBABU as FedBABU
    from fedgeom.methods.iterative.algorithms.personal import FedMTL as FedMTL
    from fedgeom.methods.iterative.algorithms.personal import FedPer as FedPer
    from fedgeom.methods.iterative.algorithms.personal import FedRep as FedRep
    from fedgeom.methods.iterative.algorithms.personal import PFedMe as PFedMe
    from fedgeom.methods.iterative.algorithms.proximal import FedDC as FedDC
    from fedgeom.methods.iterative.algorithms.proximal import FedDyn as FedDyn
    from fedgeom.methods.iterative.algorithms.proximal import FedProx as FedProx
    from fedgeom.methods.iterative.algorithms.proximal import Scaffold as Scaffold
    from fedgeom.methods.iterative.algorithms.server_optimizers import FedAdam as FedAdam
    from fedgeom.methods.iterative.algorithms.server_optimizers import FedAvgM as FedAvgM
    from fedgeom.methods.iterative.algorithms.server_optimizers import FedExP as FedExP
    from fedgeom.methods.iterative.algorithms.server_optimizers import FedYogi as FedYogi
    from fedgeom.methods.moments.method import Moments as Moments
    from fedgeom.methods.poincare_map.method import PoincareMap as PoincareMap
    from fedgeom.methods.ptopofl.method import PTopoFL as PTopoFL
    from fedgeom.methods.regression.method import Regression as Regression
    from fedgeom.methods.ridge.method import Ridge as Ridge
    from fedgeom.methods.shrunk.method import Shrunk as Shrunk
    from fedgeom.methods.xclp.method import XCLP as XCLP
    from fedgeom.methods.xclp_training.method import XCLPTraining as XCLPTraining

HOMES = {
    "Ellipses": ("ellipses.method", "ellipses"),
    "Hulls": ("hulls.method", "hulls"),
    "HyperFed": ("hyperfed.method", "hyperfed"),
    "Apple": ("iterative.algorithms.apple", "apple"),
    "Ditto": ("iterative.algorithms.personal", "ditto"),
    "FedALA": ("iterative.algorithms.personal", "fedala"),
    "FedAvg": ("iterative.algorithms.averaging", "fedavg"),
    "FedAvgM": ("iterative.algorithms.server_optimizers", "fedavgm"),
    "FedBABU": ("iterative.algorithms.personal", "fedbabu"),
    "FedDC": ("iterative.algorithms.proximal", "feddc"),
    "FedDyn": ("iterative.algorithms.proximal", "feddyn"),
    "FedExP": ("iterative.algorithms.server_optimizers", "fedexp"),
    "FedLC": ("iterative.algorithms.networks", "fedlc"),
    "FedMTL": ("iterative.algorithms.personal", "fedmtl"),
    "FedNTD": ("iterative.algorithms.networks", "fedntd"),
    "FedNova": ("iterative.algorithms.averaging", "fednova"),
    "FedAdam": ("iterative.algorithms.server_optimizers", "fedadam"),
    "FedYogi": ("iterative.algorithms.server_optimizers", "fedyogi"),
    "FedPer": ("iterative.algorithms.personal", "fedper"),
    "FedProto": ("iterative.algorithms.networks", "fedproto"),
    "FedProx": ("iterative.algorithms.proximal", "fedprox"),
    "FedRep": ("iterative.algorithms.personal", "fedrep"),
    "FedRoD": ("iterative.algorithms.networks", "fedrod"),
    "FedSAM": ("iterative.algorithms.networks", "fedsam"),
    "Interpolated": ("iterative.algorithms.averaging", "interpolated"),
    "LocalOnly": ("iterative.algorithms.averaging", "local"),
    "Moon": ("iterative.algorithms.networks", "moon"),
    "PFedMe": ("iterative.algorithms.personal", "pfedme"),
    "Scaffold": ("iterative.algorithms.proximal", "scaffold"),
    "SphereFed": ("iterative.algorithms.networks", "spherefed"),
    "Moments": ("moments.method", "moments"),
    "PoincareMap": ("poincare_map.method", "poincare-map"),
    "PTopoFL": ("ptopofl.method", "ptopofl"),
    "Regression": ("regression.method", "regression"),
    "Ridge": ("ridge.method", "ridge"),
    "Shrunk": ("shrunk.method", "shrunk"),
    "XCLP": ("xclp.method", "xclp"),
    "XCLPTraining": ("xclp_training.method", "xclp-training"),
}
"""For each class the module below this one that has it, and the method's name."""

SUMMARIES = {
    "ellipses": "For sites that name classes in their own words: one exchange of averages and spreads of each class.",
    "hulls": "For sites that name classes in their own words: one exchange of the rounded outlines of each class.",
    "hyperfed": "For sites that lack some classes: a network with a fixed point for each class (Liao et al. 2023).",
    "apple": "For comparison: each site mixes all sites' models for itself, so that all see them (Luo and Wu 2022).",
    "ditto": "For sites whose patients differ: each also gets a model of its own near the joint one (Li et al. 2021).",
    "fedala": "For sites whose patients differ: each learns how much of the joint model to take (Zhang et al. 2023).",
    "fedavg": "The standard way to train together: each site trains on its rows, and the models are averaged.",
    "fedavgm": "For sites whose patients differ: FedAvg with momentum at the coordinator (Hsu, Qi and Brown 2019).",
    "fedbabu": "For networks at sites whose patients differ: a joint body; each site adapts all of it in the end.",
    "feddc": "For sites whose patients differ: each keeps track of its drift and takes it off again (Gao et al. 2022).",
    "feddyn": "For sites whose patients differ: FedAvg with a correction that each site keeps (Acar et al. 2021).",
    "fedexp": "For models that FedAvg trains slowly: longer steps where sites disagree (Jhunjhunwala et al. 2023).",
    "fedlc": "For networks at sites with few rows of some classes: these get larger margins (Zhang et al. 2022).",
    "fedmtl": "For sites whose patients differ: each has a model of its own, near the mean of all (Smith et al. 2017).",
    "fedntd": "For networks at sites that lack some classes: what is known of them is kept (Lee et al. 2022).",
    "fednova": "For sites of very different sizes: FedAvg that allows for how long each trained (Wang et al. 2020).",
    "fedadam": "For models that FedAvg trains slowly: adaptive steps at the coordinator, by Adam (Reddi et al. 2021).",
    "fedyogi": "For models that FedAvg trains slowly: adaptive steps at the coordinator, by Yogi (Reddi et al. 2021).",
    "fedper": "For networks at sites whose patients differ: each keeps its last layer (Arivazhagan et al. 2019).",
    "fedproto": "For sites that keep their networks to themselves: only the mean feature of each class is shared.",
    "fedprox": "For sites whose patients differ: FedAvg whose sites stay near the joint model (Li et al. 2020).",
    "fedrep": "For networks at sites whose patients differ: each has its own last layer, trained before the rest.",
    "fedrod": "For networks with two uses: one answer for patients of any site, one for those of each site.",
    "fedsam": "For networks at sites whose patients differ: sites look for flat minima (Qu et al. 2022).",
    "interpolated": "For sites whose patients differ: each mixes the joint model with its own, as suits it best.",
    "local": "For comparison: each site trains alone, for as long as with the others, and sends nothing.",
    "moon": "For networks at sites whose patients differ: features are kept near the joint model's.",
    "pfedme": "For sites whose patients differ: each also gets a model of its own (T Dinh et al. 2020).",
    "scaffold": "For sites whose patients differ: FedAvg that corrects each site's drift (Karimireddy et al. 2020).",
    "spherefed": "For networks at sites that lack some classes: the last layer is fixed (Dong et al. 2022).",
    "moments": "For a quick first result with shared class names: one sum of averages and spreads of each class.",
    "poincare-map": "For a joint picture of all sites' rows: a map in the hyperbolic disc, where trees of classes fit.",
    "ptopofl": "For sites of several kinds: those whose data have a similar shape train a model together.",
    "regression": "For tables and an outcome: coefficients with intervals and tests, as of all rows in one place.",
    "ridge": "For tables or images with shared class names: the model of all rows in one place, quickly.",
    "shrunk": "For small sites whose patients differ: a logistic regression for each that leans on a joint one.",
    "xclp": "For rows of which few have a label: labels spread to similar rows, also of other sites.",
    "xclp-training": "For networks where few rows have a label: others get one from similar rows (Scott et al. 2024).",
}
"""For each method the first line of its docstring, so that a list needs to load none."""

for _class, (_module, _name) in HOMES.items():
    METHODS.offer(_name, f"{__name__}.{_module}:{_class}", needs="fedgeom")


UNLISTED = {
    "describe": (
        "describe.method:Describe",
        "For a first look at all sites' tables: counts, gaps, means, deviations, quantiles and shares, by class.",
    ),
    "kaplan-meier": (
        "survival.kaplan_meier:KaplanMeier",
        "For times until an event: survival curves with intervals and numbers at risk, as of all rows in one place.",
    ),
    "cox": (
        "survival.cox:Cox",
        "For times until an event: hazard ratios with intervals and tests, as of all rows in one place.",
    ),
}
"""Methods that learn no classifier, with the first line of their docstring: whoever goes through all classifiers does
not meet them."""

for _name, (_module, _) in UNLISTED.items():
    METHODS.offer(_name, f"{__name__}.{_module}", needs="fedgeom", listed=False)


def __getattr__(name: str) -> Any:
    """Load a method when it is first used."""
    if name not in HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return METHODS.find(HOMES[name][1])


def __dir__() -> list[str]:
    return sorted([*globals(), *HOMES])
