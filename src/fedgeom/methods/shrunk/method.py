"""Shrunk: each site's model is drawn towards a joint one, by as much as held-out rows everywhere advise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from fedgeom.data.sites import SiteData
from fedgeom.errors import InputError
from fedgeom.federation.conversation import Sites
from fedgeom.federation.site import Site
from fedgeom.methods.iterative.model import TrainedModel
from fedgeom.methods.iterative.tabular import MOST_ROUNDS, TabularMethod, check_whole
from fedgeom.methods.shrunk.conversation import ShrunkConversation
from fedgeom.methods.shrunk.fits import Floats
from fedgeom.methods.shrunk.messages import GiveEvidence, GiveTerms
from fedgeom.methods.shrunk.site import ShrunkSite

RIDGES = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
STRENGTHS = (3.0, 10.0, 30.0, 100.0, np.inf)
MOST_COLUMNS = 100


@dataclass(frozen=True, kw_only=True)
class Shrunk(TabularMethod):
    """Logistic regression for two classes, with a joint direction, personal models around it, and a shared choice.

    Joint: w = argmin Σ_k ℓ_k(w) + α/2·‖w‖², ℓ_k with the site's own intercept. Personal: argmin ℓ_k(v) + λ/2·‖v − w‖².
    How much to regularise (α) and how far to go one's own way (λ) is decided by cross-validation; the sites add up
    what they find in a secure sum, so that small sites profit from the others' evidence too.
    """

    name: ClassVar[str] = "shrunk"
    site: ClassVar[type[Site[Any]]] = ShrunkSite

    rounds: int = 10
    """Newton's steps towards the joint models; all α and folds take them together."""
    folds: int = 5
    """How many parts the rows are cut into for cross-validation."""
    borrowed: float = 200.0
    """How many rows' worth of the others' evidence a site adds to its own."""
    temperature: float = 0.01
    """How sharply candidates with better evidence are preferred (in units of AUC)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole("rounds", self.rounds, 1, MOST_ROUNDS)
        if not 2 <= self.folds <= 20 or self.borrowed < 0 or not self.temperature > 0:
            raise InputError("wanted folds 2 … 20, borrowed ≥ 0 and temperature > 0")

    def planned_sums(self) -> tuple[str, ...]:
        """Return the secure sums: Newton's steps, evidence."""
        return (*(GiveTerms.kind for _ in range(self.rounds)), GiveEvidence.kind)

    def check_together(self, sites: Sequence[SiteData]) -> None:
        """Refuse tables that do not fit together, are too wide or have other than two classes."""
        super().check_together(sites)
        names = {str(name) for site in sites for name in site.classes.tolist()} | set(self.classes or ())
        self.check_shape(len(names), sites[0].X.shape[1])

    def check_shape(self, classes: int, columns: int) -> None:
        """Refuse more than two classes, and tables so wide that sums of Hessians would be huge."""
        if classes != 2:
            raise InputError(f"Shrunk tells two classes apart; the sites have {classes}: use Interpolated")
        if columns > MOST_COLUMNS:
            raise InputError(
                f"the sites have {columns} columns; Shrunk adds up Hessians and takes at most {MOST_COLUMNS} columns: "
                "choose columns, or use Interpolated"
            )

    @property
    def ridges(self) -> Floats:
        """The α that are tried."""
        return np.array(RIDGES)

    @property
    def strengths(self) -> Floats:
        """The λ that are tried, in rows' worth."""
        return np.array(STRENGTHS)

    def conduct(self, sites: Sites) -> TrainedModel:
        """Hold the conversation: join, agree on classes and scale, sum terms and evidence, let the sites settle."""
        return ShrunkConversation(self, sites).hold()
