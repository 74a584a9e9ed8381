"""Consistent aggregation: the sites' changes are weighed so that their combination is as short as can be (HyperFed).

The weights follow from the cosines between every two sites' changes and, for raw deviations, from their lengths. An
open run computes them from the changes; in a secure one the sites compute the cosines in pairs
(`fedgeom.protocols.pairwise`), and both round alike, so that both have the same weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np

from fedgeom.arrays import Floats
from fedgeom.federation.settings import Between
from fedgeom.geometry import min_norm
from fedgeom.methods.iterative.aggregation import Aggregation, Mean
from fedgeom.protocols.pairwise import cosines


@dataclass(frozen=True)
class Consistent(Aggregation):
    """The combination of least norm of what the sites changed (Liao et al. 2023, Eqs. 8 to 11)."""

    name: ClassVar[str] = "consistent"
    sums_only: ClassVar[bool] = True
    by_pairs: ClassVar[bool] = True

    deviations: Literal["unit", "raw"] = "unit"
    """"raw", as printed: the weight goes to whoever moved least. "unit": each is scaled to norm 1 before weighing."""
    min_effective_sites: Annotated[float, Between(1)] = 3.0
    """1/Σp² is at least that: how many sites the combination really mixes. Policies may ask for more."""
    solver: Literal["exact", "line search", "printed"] = "exact"
    """"exact": the optimum of Eq. 10; "line search": Eq. 11 with the others' mean; "printed": Eq. 11 with their sum."""
    steps: Annotated[int, Between(1, 10_000)] = 100
    """How many line searches."""

    def __call__(self, vectors: Floats, weights: Floats) -> Floats:
        """Return the combination; the sites' own weights, such as their numbers of rows, play no part."""
        return Mean()(vectors, self.weights_of(vectors, weights))

    def weights_of(self, vectors: Floats, weights: Floats) -> Floats:
        """Return p of Eq. 10, (sites,)."""
        lengths = np.linalg.norm(vectors, axis=1) if self.deviations == "raw" else None
        return self.weigh(cosines(vectors), lengths)

    def weigh(self, cosines: Floats, lengths: Floats | None, *, mixed: float = 1.0) -> Floats:
        """Return p, (sites,), from cosines (sites, sites) and lengths (sites,); ``mixed`` may raise the bound.

        Line searches start from equal weights; the paper's start, the sites' shares of all rows, would show these.
        """
        gram = cosines if lengths is None else cosines * lengths[:, None] * lengths[None, :]
        count = len(gram)
        bound = min(max(self.min_effective_sites, mixed), float(count))
        if self.solver == "exact":
            return min_norm.least_norm(gram, mixed=bound)
        search = min_norm.frank_wolfe if self.solver == "line search" else min_norm.as_printed
        return min_norm.evened(search(gram, np.ones(count), steps=self.steps), mixed=bound)
