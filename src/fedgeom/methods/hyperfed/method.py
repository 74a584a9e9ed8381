"""HyperFed: sites train towards prototypes in hyperbolic space; their updates are combined for consistency."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from fedgeom.federation.model import Model
from fedgeom.federation.site import Site
from fedgeom.methods.hyperfed.conversation import HyperFedConversation
from fedgeom.methods.hyperfed.model import HyperFedModel
from fedgeom.methods.hyperfed.settings import HyperFedSettings
from fedgeom.methods.hyperfed.site import HyperFedSite
from fedgeom.methods.iterative.algorithm import Algorithm
from fedgeom.methods.iterative.conversation import Conversation


@dataclass(frozen=True, kw_only=True)
class HyperFed(HyperFedSettings, Algorithm):
    """A network trained towards fixed prototypes in the Poincaré ball, and consistent aggregation (Liao et al. 2023).

    Needs torch; the secure comparison of updates needs seal-python. `published` is the paper's own setting, `measured`
    what did best when measured.
    """

    name: ClassVar[str] = "hyperfed"
    site: ClassVar[type[Site[Any]]] = HyperFedSite
    conversation: ClassVar[type[Conversation]] = HyperFedConversation
    model_type: ClassVar[type[Model]] = HyperFedModel

    @classmethod
    def published(cls, **changes: Any) -> HyperFed:
        """Return the paper's setting (Section 5.1), with prototypes and weights by its own equations 5 and 11."""
        paper: dict[str, Any] = {
            "batch": 128,
            "epochs": 5,
            "rate": 0.3,
            "head": {"name": "poincare", "slope": 0.9, "placing": "published"},
            "loss": {"name": "triplet", "margin": 3.0},
            "aggregation": {"name": "consistent", "deviations": "raw", "solver": "printed"},
        }
        return cls(**(paper | changes))

    @classmethod
    def measured(cls, **changes: Any) -> HyperFed:
        """Return what did best: a softmax over all distances instead of triplets, the mean instead of the weights."""
        return cls(**({"loss": "geodesic-softmax", "aggregation": "mean"} | changes))
