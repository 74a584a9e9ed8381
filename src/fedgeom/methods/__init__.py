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
    from fedgeom.methods.iterative.algorithms.averaging import FedAvg as FedAvg
    from fedgeom.methods.iterative.algorithms.averaging import FedNova as FedNova
    from fedgeom.methods.iterative.algorithms.averaging import Interpolated as Interpolated
    from fedgeom.methods.iterative.algorithms.averaging import LocalOnly as LocalOnly
    from fedgeom.methods.iterative.algorithms.networks import FedLC as FedLC
    from fedgeom.methods.iterative.algorithms.networks import FedProto as FedProto
    from fedgeom.methods.iterative.algorithms.networks import FedRoD as FedRoD
    from fedgeom.methods.iterative.algorithms.networks import Moon as Moon
    from fedgeom.methods.iterative.algorithms.networks import SphereFed as SphereFed
    from fedgeom.methods.iterative.algorithms.personal import Ditto as Ditto
    from fedgeom.methods.iterative.algorithms.personal import FedBABU as FedBABU
    from fedgeom.methods.iterative.algorithms.personal import FedPer as FedPer
    from fedgeom.methods.iterative.algorithms.personal import FedRep as FedRep
    from fedgeom.methods.iterative.algorithms.personal import PFedMe as PFedMe
    from fedgeom.methods.iterative.algorithms.proximal import FedDyn as FedDyn
    from fedgeom.methods.iterative.algorithms.proximal import FedProx as FedProx
    from fedgeom.methods.iterative.algorithms.proximal import Scaffold as Scaffold
    from fedgeom.methods.iterative.algorithms.server_optimizers import FedAdam as FedAdam
    from fedgeom.methods.iterative.algorithms.server_optimizers import FedAvgM as FedAvgM
    from fedgeom.methods.iterative.algorithms.server_optimizers import FedYogi as FedYogi
    from fedgeom.methods.moments.method import Moments as Moments
    from fedgeom.methods.ptopofl.method import PTopoFL as PTopoFL
    from fedgeom.methods.ridge.method import Ridge as Ridge
    from fedgeom.methods.shrunk.method import Shrunk as Shrunk
    from fedgeom.methods.xclp.method import XCLP as XCLP
    from fedgeom.methods.xclp_training.method import XCLPTraining as XCLPTraining

HOMES = {
    "Ellipses": ("ellipses.method", "ellipses"),
    "Hulls": ("hulls.method", "hulls"),
    "HyperFed": ("hyperfed.method", "hyperfed"),
    "Ditto": ("iterative.algorithms.personal", "ditto"),
    "FedAvg": ("iterative.algorithms.averaging", "fedavg"),
    "FedAvgM": ("iterative.algorithms.server_optimizers", "fedavgm"),
    "FedBABU": ("iterative.algorithms.personal", "fedbabu"),
    "FedDyn": ("iterative.algorithms.proximal", "feddyn"),
    "FedLC": ("iterative.algorithms.networks", "fedlc"),
    "FedNova": ("iterative.algorithms.averaging", "fednova"),
    "FedAdam": ("iterative.algorithms.server_optimizers", "fedadam"),
    "FedYogi": ("iterative.algorithms.server_optimizers", "fedyogi"),
    "FedPer": ("iterative.algorithms.personal", "fedper"),
    "FedProto": ("iterative.algorithms.networks", "fedproto"),
    "FedProx": ("iterative.algorithms.proximal", "fedprox"),
    "FedRep": ("iterative.algorithms.personal", "fedrep"),
    "FedRoD": ("iterative.algorithms.networks", "fedrod"),
    "Interpolated": ("iterative.algorithms.averaging", "interpolated"),
    "LocalOnly": ("iterative.algorithms.averaging", "local"),
    "Moon": ("iterative.algorithms.networks", "moon"),
    "PFedMe": ("iterative.algorithms.personal", "pfedme"),
    "Scaffold": ("iterative.algorithms.proximal", "scaffold"),
    "SphereFed": ("iterative.algorithms.networks", "spherefed"),
    "Moments": ("moments.method", "moments"),
    "PTopoFL": ("ptopofl.method", "ptopofl"),
    "Ridge": ("ridge.method", "ridge"),
    "Shrunk": ("shrunk.method", "shrunk"),
    "XCLP": ("xclp.method", "xclp"),
    "XCLPTraining": ("xclp_training.method", "xclp-training"),
}
"""For each class the module below this one that has it, and the method's name."""

SUMMARIES = {
    "ellipses": "Sites send a Gaussian for each class; the coordinator matches them and tells the classes apart.",
    "hulls": "Sites send the quantised convex hulls of their classes; the coordinator trains an SVM on them.",
    "hyperfed": (
        "A network trained towards fixed prototypes in the Poincaré ball, and consistent aggregation (Liao "
        "et al. 2023)."
    ),
    "ditto": "Each site also minimises h_k(v) = F_k(v) + λ/2·‖v − w_t‖² for itself (Li et al. 2021, Algorithm 1).",
    "fedavg": "Sites train the joint model on their rows; the mean of their models is the next joint model.",
    "fedavgm": "m ← βm + (mean − w), w ← w + η·m (Hsu, Qi and Brown 2019).",
    "fedbabu": (
        "Sites train the body alone; the head stays as it was first drawn, and each site fine-tunes all in "
        "the end."
    ),
    "feddyn": "Sites minimise F_k(θ) − ⟨g_k, θ⟩ + α/2·‖θ − θ_t‖², and g_k follows the site's gradient.",
    "fedlc": "FedAvg whose sites give rare classes larger margins (Zhang et al. 2022).",
    "fednova": (
        "w ← w + (Σ p_k·a_k)·Σ p_k·(w_k − w)/a_k, where a_k is how often a site's gradients count in its change."
    ),
    "fedadam": "Reddi et al. 2021, Algorithm 2: m ← β₁m + (1 − β₁)Δ, v ← β₂v + (1 − β₂)Δ², x ← x + η·m/(√v + τ).",
    "fedyogi": "FedAdam with Yogi's moment: v ← v − (1 − β₂)·Δ²·sign(v − Δ²).",
    "fedper": "Body and head train together; only the body is sent and averaged (Arivazhagan et al. 2019).",
    "fedproto": (
        "A class's prototype is the mean feature of all its rows; each site's network is pulled towards the "
        "prototypes."
    ),
    "fedprox": "Sites minimise F_k(w) + μ/2·‖w − w_t‖², so that they stray less (Li et al. 2020, Eq. 2).",
    "fedrep": (
        "A site trains its own head on the joint body for some epochs, then the body under that head, and "
        "sends the body."
    ),
    "fedrod": (
        "Body and generic head learn from a balanced loss and are averaged; a personal head on top learns "
        "the site's own."
    ),
    "interpolated": "FedAvg, then at each site (1 − a)·joint + a·local, with a chosen by cross-validation there.",
    "local": "Each site trains as much as in all rounds of the others, and sends nothing of it.",
    "moon": "FedAvg whose sites keep features near the joint model's and away from those of their own before.",
    "pfedme": "A personal model θ_k near the site's copy w_k; the copy follows θ_k, and copies are averaged.",
    "scaffold": "Each local step is corrected by c − c_k, the difference of the joint and the site's own drift.",
    "spherefed": (
        "FedAvg of the body under a fixed orthonormal head, with the squared error of cosines (Dong et al. 2022)."
    ),
    "moments": "Sites add up per-class counts, sums and squares; a Gaussian or a centroid per class classifies.",
    "ptopofl": "Sites are clustered, clusters average their models, and clusters lean on each other (Algorithm 1).",
    "ridge": (
        "Sites add up products of features; one linear system gives what ridge on all rows in one place "
        "would give."
    ),
    "shrunk": ("Logistic regression with a joint direction, personal models around it, and a shared choice."),
    "xclp": "Sites compare their rows in secret, the coordinator builds a graph, and labels spread over it.",
    "xclp-training": (
        "Federated training on rows of which few have a label (FedAvg+XCLP, Algorithm 2; Scott et al. 2024)."
    ),
}
"""For each method the first line of its docstring, so that a list needs to load none."""

for _class, (_module, _name) in HOMES.items():
    METHODS.offer(_name, f"{__name__}.{_module}:{_class}", needs="fedgeom")


def __getattr__(name: str) -> Any:
    """Load a method when it is first used."""
    if name not in HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return METHODS.find(HOMES[name][1])


def __dir__() -> list[str]:
    return sorted([*globals(), *HOMES])
