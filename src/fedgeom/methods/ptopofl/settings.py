"""The settings of pTopoFL, which both halves know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from fedgeom.errors import InputError
from fedgeom.federation.privacy import Spent
from fedgeom.federation.settings import POSITIVE, SHARE, Between
from fedgeom.geometry.topology.descriptors import NAMES
from fedgeom.methods.iterative.settings import MOST_ROUNDS, TrainingRule
from fedgeom.methods.ptopofl.model import ADDED
from fedgeom.methods.ptopofl.private_descriptors import gaussian_sigma

TOPOLOGICAL = ("topology", "classes", "diagrams")


@dataclass(frozen=True, kw_only=True)
class TopoSettings(TrainingRule):
    """How sites are clustered, weighed and trusted, beside the settings of training."""

    takes_groups: ClassVar[bool] = False

    cluster_by: Literal["none", "topology", "classes", "diagrams", "updates"] = "topology"
    """What brings sites together: descriptors of all rows (the paper's), descriptors of each class, Wasserstein
    distances of diagrams, or the directions of the first model updates."""
    descriptor_input: Literal["rows", "activations"] = "rows"
    """Whose shape is described: that of the rows, or of what the network's body makes of them (Scenarios C and D)."""
    first_descriptor_round: Annotated[int, Between(0, MOST_ROUNDS)] = 0
    """The round, from 0, before which sites first describe their shape; until then all are one cluster. The activations
    of round 0 are those of the network before any training, which every site builds itself."""
    n_clusters: Annotated[int, Between(1, 100)] | None = None
    """M: how many clusters. None: chosen by silhouette, 1 when nothing stands out."""
    max_clusters: Annotated[int, Between(1, 100)] = 4
    """The most clusters to choose."""
    closeness: bool = True
    """Whether sites near their cluster's centre count more: by descriptors as in Eq. 6, with ``cluster_by="diagrams"``
    by W_2 to the cluster's barycentre as in Eq. 12."""
    temperature: Annotated[float, POSITIVE] | None = None
    """λ of Eq. 12, for diagrams. None: one over the sites' mean distance to their barycentre."""
    beta: Annotated[float, SHARE] = 0.3
    """β_blend: how far clusters lean on the consensus (Eq. 7)."""
    trust: Literal["none", "topology", "classes", "merges", "updates"] = "topology"
    """What lowers a site's weight: an odd descriptor (Eq. 8), odd descriptors of its classes, labels that mix along
    the spanning tree, or a model update that turns away from the others'."""
    tau: float = 2.0
    """τ: sites with a larger z-score are named in the run's metrics."""
    track_every: Annotated[int, Between(0)] = 0
    """Ask for descriptors again every so many rounds (Section 3.5); 0: never."""
    drift_limit: float = 0.5
    """A site whose drift (Eq. 9), relative to its first descriptor, is larger is clustered anew."""
    drift_factor: Annotated[float, Between(0, 100, open_low=True)] = 2.0
    """What a drifted site's learning rate is multiplied by."""
    augment: bool = False
    """Whether sites add four columns on their own shape to their tables (Section 3.2)."""
    topo_inputs: bool = False
    """Whether the site's own 48 numbers are inputs beside each row (TopoNN, Appendix D); they stay at the site."""
    n_points: Annotated[int, Between(2, 10_000)] = 80
    """n_sub: how many rows the descriptor looks at."""
    n_repeats: Annotated[int, Between(1, 1000)] = 1
    """Over how many subsamples a descriptor is averaged."""
    unit_box: bool = False
    """Whether each site scales its cloud to the unit box first, as the published code does."""
    size_free: bool = True
    """Whether descriptors are made independent of the number of rows: or clusters find the small sites."""
    epsilon: Annotated[float, POSITIVE] | None = None
    """ε: noise makes descriptors (ε, δ)-differentially private. None: no noise."""
    delta: Annotated[float, Between(0, 1, open_low=True, open_high=True)] = 1e-5
    """δ"""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_networks()
        if self.secure and "updates" in (self.cluster_by, self.trust):
            raise InputError("clusters or trust by updates look at each site's model; use secure=False")
        if self.epsilon is not None and (
            self.by_class or self.cluster_by == "diagrams" or self.trust == "merges" or self.track_every
        ):
            raise InputError(
                'epsilon covers one descriptor of all rows: use it with cluster_by="topology", trust="topology" or '
                '"none", and track_every=0'
            )

    def _check_networks(self) -> None:
        """Refuse activations or inputs that a network cannot give or take."""
        if self.descriptor_input == "activations" and self.epsilon is not None:
            raise InputError(
                "activations have no public bounds, which a private descriptor needs; leave epsilon away"
            )
        if self.extra_columns and self.shape is not None:
            raise InputError(
                f"augment and topo_inputs add {self.extra_columns} columns to rows; with shape={self.shape} rows are "
                'images, which take none: use network="mlp" on rows as they are'
            )
        if self.first_descriptor_round >= self.n_rounds:
            raise InputError(
                f"first_descriptor_round={self.first_descriptor_round} given with n_rounds={self.n_rounds}; wanted a "
                "round that comes"
            )

    @property
    def raised_rate(self) -> float | None:
        """What a drifted site's learning rate is multiplied by, where shapes are looked at again and again.

        Where nobody describes a shape, a coordinator could call any site drifted, and its update would be the sum.
        """
        return self.drift_factor if self.track_every and self.describes else None

    @property
    def by_class(self) -> bool:
        """Whether descriptors are asked for class by class."""
        return "classes" in (self.cluster_by, self.trust)

    @property
    def by_rows(self) -> bool:
        """Whether descriptors of all rows are asked for."""
        return self.cluster_by == "topology" or self.trust == "topology" or self.track_every > 0

    def describes_in(self, round: int) -> bool:
        """Whether sites describe the shape of their rows before this round."""
        since = round - self.first_descriptor_round
        again = bool(self.track_every and since > 0 and round < self.n_rounds and since % self.track_every == 0)
        return since == 0 or again

    @property
    def weighs_sites(self) -> bool:
        """Whether sites near their cluster's centre, or trusted more, count more."""
        return (self.closeness and self.describes) or self.trust != "none"

    def regroups_in(self, round: int) -> bool:
        """Whether sites may be clustered anew before this round: where their shapes are looked at again."""
        return not round or (self.describes and self.describes_in(round))

    @property
    def describes(self) -> bool:
        """Whether sites describe the shape of their rows at all."""
        return self.cluster_by in TOPOLOGICAL or self.trust in ("topology", "classes", "merges")

    @property
    def masked(self) -> bool:
        """Whether the coordinator sees sums only: of each cluster."""
        return super().masked and "updates" not in (self.cluster_by, self.trust)

    @property
    def spends(self) -> Spent | None:
        """What a private descriptor costs a site: ρ of Gaussian noise. The training beside it is in no budget."""
        if self.epsilon is None or not self.describes:
            return None
        sigma = gaussian_sigma(self.epsilon, self.delta, 1.0)
        return Spent(self.epsilon, self.delta, "row", 1 / (2 * sigma**2), part="the descriptor")

    def shows_one_site(self) -> str:
        """Descriptors show the shape of one site's data; private ones too, as the coordinator chooses ε."""
        shown = [
            super().shows_one_site(),
            f"a descriptor of the shape of each site's {self.descriptor_input}" if self.describes else "",
        ]
        return " and ".join(one for one in shown if one)

    @property
    def least_cluster(self) -> int:
        """The fewest sites of a cluster that is summed: a secure sum of fewer hides nobody."""
        return max(3, self.min_sites)

    def smallest_sum(self, sites: int) -> int:
        """Return how few of so many sites may be a cluster of their own."""
        drawn = self.count_drawn(sites)
        return min(drawn, self.least_cluster) if self.groups > 1 else drawn

    @property
    def groups(self) -> int:
        """The most clusters."""
        return 1 if self.cluster_by == "none" else self.n_clusters or self.max_clusters

    @property
    def added(self) -> tuple[Literal["columns", "descriptor"], ...]:
        """What sites add to their rows: the columns of Section 3.2, the 48 numbers of Appendix D."""
        columns: tuple[Literal["columns"], ...] = ("columns",) if self.augment else ()
        numbers: tuple[Literal["descriptor"], ...] = ("descriptor",) if self.topo_inputs else ()
        return (*columns, *numbers)

    @property
    def extra_columns(self) -> int:
        """The columns of Section 3.2 and of Appendix D."""
        return (ADDED if self.augment else 0) + (len(NAMES) if self.topo_inputs else 0)
