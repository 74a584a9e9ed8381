"""pTopoFL: sites with data of similar shape share a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from fedgeom.data.sites import SiteData
from fedgeom.federation.method import Plain
from fedgeom.federation.model import Model
from fedgeom.federation.site import Site
from fedgeom.methods.iterative.algorithm import Algorithm
from fedgeom.methods.iterative.conversation import Conversation
from fedgeom.methods.ptopofl.conversation import TopoConversation
from fedgeom.methods.ptopofl.model import TopoModel
from fedgeom.methods.ptopofl.settings import TopoSettings
from fedgeom.methods.ptopofl.site import TopoSite


@dataclass(frozen=True, kw_only=True)
class PTopoFL(TopoSettings, Algorithm):
    """Sites are clustered, clusters average their models, and clusters lean on each other (Algorithm 1).

    Every part can be switched off or replaced. `published` is the paper's own setting.
    """

    name: ClassVar[str] = "ptopofl"
    site: ClassVar[type[Site[Any]]] = TopoSite
    conversation: ClassVar[type[Conversation]] = TopoConversation
    model_type: ClassVar[type[Model]] = TopoModel

    @classmethod
    def published(cls, **changes: Any) -> PTopoFL:
        """Return the paper's setting for Scenarios A and B (Table 3; sites refit to the optimum in every round)."""
        paper: dict[str, Any] = {
            "clusters": 2,
            "solver": "exact",
            "augment": True,
            "unit_box": True,
            "size_free": False,
            "secure": False,
        }
        return cls(**(paper | changes))

    def plain(self, sites: Sequence[SiteData], seed: int = 0) -> Plain:
        """Compute Algorithm 1 in one process, for clusters, weights and trust by topology."""
        from fedgeom.methods.ptopofl.plain import plain  # the twin is for tests; it needs gudhi

        return plain(self, sites, seed)
