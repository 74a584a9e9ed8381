"""The settings of Moments, which both halves know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from fedgeom.federation.privacy import PrivacyOrTable, privacy_of
from fedgeom.federation.settings import POSITIVE, Between, ClassNames, Settings
from fedgeom.methods.aggregation import GroupedSums


@dataclass(frozen=True, kw_only=True)
class MomentsSettings(GroupedSums, Settings):
    """What is computed, where the rows live, and who may take part."""

    rule: Literal["gaussian", "centroid"] = "gaussian"
    """"gaussian": a Gaussian per class in the tangent space at the origin; "centroid": the nearest centroid."""
    space: Literal["ball", "euclidean"] = "ball"
    """"ball": rows are points of the Poincaré ball; "euclidean": rows are ordinary vectors."""
    curvature: Annotated[float, POSITIVE] = 1.0
    """k: the ball has curvature -k."""
    classes: ClassNames = None
    """The agreed label names. None: the union of the sites' names, which the sites then work out themselves."""
    shrinkage: Annotated[float, Between(0)] | None = None
    """Rows' worth of pull towards the pooled covariance. None: one more than the number of columns."""
    min_rows: Annotated[int, Between(0)] = 2
    """Sites refuse to contribute a class with fewer rows."""
    min_sites: Annotated[int, Between(1)] = 2
    """The fewest sites that make a result; with privacy, the fewest over which sums are unmasked: the more, the less
    noise each adds."""
    max_abs_value: Annotated[float, POSITIVE] | None = None
    """The most that a number of one site in a secure sum of moments may be, up to its sign: sites cut larger ones
    off, and a sum beyond n times as much is refused. None: what the sum has room for; who has more leaves the run."""
    privacy: PrivacyOrTable = None
    """DP(epsilon=…, delta=…, clip=…): differential privacy of single rows, of which none counts for more than one of
    length ``clip`` (in the ball: from the origin). Needs ``classes``."""

    private_units: ClassVar[tuple[str, ...]] = ("row",)

    @property
    def clip(self) -> float | None:
        """The length to which rows are shortened where there is privacy; None elsewhere."""
        privacy = privacy_of(self)
        return None if privacy is None else privacy.clip

    @property
    def squares(self) -> bool:
        """Whether the sites add up squares: covariances need them, centroids do not."""
        return self.rule == "gaussian"

    @property
    def c(self) -> float | None:
        """The curvature of the ball; None in Euclidean space."""
        return self.curvature if self.space == "ball" else None
