"""pTopoFL: sites with data of similar shape share a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from fedgeom.data.findings import Finding, fault
from fedgeom.data.sites import SiteData
from fedgeom.federation.method import Plain
from fedgeom.federation.model import Model
from fedgeom.federation.policy import Policy
from fedgeom.federation.site import Site
from fedgeom.methods.iterative.algorithm import Algorithm
from fedgeom.methods.iterative.conversation import Conversation
from fedgeom.methods.ptopofl.conversation import TopoConversation
from fedgeom.methods.ptopofl.model import TopoModel
from fedgeom.methods.ptopofl.settings import TopoSettings
from fedgeom.methods.ptopofl.site import TopoSite
from fedgeom.protocols.secure_sum.hiding import MIXED


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

    def advise(self, sites: Sequence[SiteData], policy: Policy, seed: int = 0) -> list[Finding]:
        """Refuse weights that single sites out, with what to do; what the default settings lead to is computed here."""
        from fedgeom.methods.ptopofl.foresight import mixtures  # slow to import

        found, least = super().advise(sites, policy, seed), policy.min_cohort
        for names, mixed in mixtures(self, sites, seed):
            if mixed < MIXED * least:
                some = f"{', '.join(names[:6])}{f' and {len(names) - 6} more' if len(names) > 6 else ''}"
                what = (
                    f"the weights of closeness and trust make the sum over {some} one of {mixed:.1f} sites; the policy "
                    f"asks for {least} (min_cohort)"
                )
                found.append(fault(what, 'weigh the sites alike: closeness=False, trust="none"', topic="weights"))
        return found

    def plain(self, sites: Sequence[SiteData], seed: int = 0) -> Plain:
        """Compute Algorithm 1 in one process, for clusters, weights and trust by topology."""
        from fedgeom.methods.ptopofl.plain import plain  # the twin is for tests; it needs gudhi

        return plain(self, sites, seed)
