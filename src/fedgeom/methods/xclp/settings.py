"""The settings of XCLP, which both halves know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from fedgeom.errors import InputError
from fedgeom.federation.settings import Between, ClassNames, Settings
from fedgeom.methods.xclp.core import Setting, setting_for
from fedgeom.protocols.secure_sum.rules import GroupDraw


class NothingToSpreadError(InputError):
    """No row of any site that takes part has a label."""


FEW_LABELS = "how many labels of each class are near each anchor: labels are few, and that may be one"
Comparison = Literal["bfv", "lattice", "ot", "paillier", "paillier-unpacked"]


@dataclass(frozen=True, kw_only=True)
class XclpSettings(Settings):
    """How rows are compared, how labels spread and are read, and who may take part."""

    graph: Literal["pairs", "anchors"] = "pairs"
    """"pairs": all rows are compared, as published. "anchors": through shared cluster centres, which needs secure
    sums only, discloses less, is linear in the number of rows and yields a model for new rows."""
    n_anchors: Annotated[int, Between(1, 100_000)] = 300
    """The number of anchors."""
    n_rounds: Annotated[int, Between(1, 30)] = 10
    """The steps of clustering that find the anchors."""
    min_cell: Annotated[int, Between(1)] = 5
    """A cluster with fewer rows is never summed."""
    n_nearest: Annotated[int, Between(1, 100)] = 3
    """On how many nearest anchors a row is written."""
    hash_bits: Annotated[int, Between(8, 65_528)] = 4096
    """L: the length of the hashes, a multiple of 8."""
    variant: Literal["ours", "paper", "code"] = "ours"
    """How labels spread: "paper" is Algorithm 1 to the letter, "code" what its authors run, "ours" measured best."""
    n_neighbors: Annotated[int, Between(1)] | None = None
    """k: how many most similar rows each row is tied to. None: the variant's."""
    alpha: Annotated[float, Between(0, 1, open_low=True, open_high=True)] | None = None
    """α: how far labels spread. None: the variant's (the paper's 0.99 spreads too far when labels are few)."""
    prior: Literal["em", "em-unchecked", "own", "none"] = "em"
    """How a site estimates its own class shares, by itself: for "ours" only. "em": from its labels and scores, where
    its labels bear that out; "em-unchecked": also at sites without labels; "own": from its labels; "none": not."""
    confidence: Literal["entropy", "code"] = "entropy"
    """"entropy": 1 - entropy/log C. "code": that divided by the largest over all sites (rounded up to 1/4096) and
    weighted by n/(C·n_c) for the n_c rows that got the same label anywhere, as the reference code does for training
    with pseudo-labels; rows that have a label keep it, with confidence 1. It needs one more secure sum, which reveals
    the largest confidence and all n_c."""
    hamming: Comparison = "lattice"
    """How distances are computed in secret: "lattice" (the least work; needs nothing more), "bfv" (SEAL, a library
    that many look at: twice the work and the bytes), "ot", "paillier" or "paillier-unpacked"."""
    hidden_projection: bool = True
    """Whether the coordinator must not know the projection. False: it follows from the run's seed, so that the same
    seed gives the same labels; a hidden one is new every time."""
    flip_probability: Annotated[float, Between(0, 0.5, open_high=True)] = 0.0
    """The share of hash bits that sites turn over at random, to blur what the coordinator learns."""
    n_groups: Annotated[int, Between(1, 10_000)] | None = None
    """Labels spread within each of so many groups of sites, drawn at random (Appendix B.1): with g groups there are g
    times fewer pairs to compare. Over pairs only. None: among all sites."""
    drawn_by: Literal["seed", "sites"] = "seed"
    """What groups are drawn by: the run's seed, or (for more than 48 sites) numbers that all sites commit to."""
    classes: ClassNames = None
    """The agreed label names. None: the union of the sites' names, which the sites then work out themselves."""
    hide_labelled: bool = False
    """Whether sites hide which of their rows are labelled, at the price of as many columns as rows."""
    min_sites: Annotated[int, Between(1)] = 2
    """The fewest sites that make a result."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.hash_bits % 8:
            raise InputError(
                f"hash_bits={self.hash_bits} given; wanted a multiple of 8 up to 65,528, such as 4096"
            )
        if self.n_groups is not None and self.graph == "anchors":
            raise InputError(
                f'n_groups={self.n_groups} with graph="anchors" given: through anchors there are no pairs to '
                'save; leave n_groups away, or take graph="pairs"'
            )

    @property
    def group_draw(self) -> GroupDraw | None:
        """How sites are drawn into groups; None: labels spread among all."""
        return None if self.n_groups is None else GroupDraw(self.n_groups, self.drawn_by)

    def shows_one_site(self) -> str:
        """Over pairs the coordinator sees distances between rows; through anchors, sums only."""
        return "the distances between rows, and each site's number of rows" if self.graph == "pairs" else ""

    def sums_of_few(self) -> Mapping[str, str]:
        """Labels are few by nature, and so are those near an anchor."""
        return {"xclp.codes": FEW_LABELS} if self.graph == "anchors" else {}

    @property
    def setting(self) -> Setting:
        """How labels spread: the variant's setting, with what was given instead."""
        return setting_for(self.variant, self.n_neighbors, self.alpha)
