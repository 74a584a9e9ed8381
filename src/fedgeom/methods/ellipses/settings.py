"""The settings of Ellipses, which both halves know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from fedgeom.errors import InputError
from fedgeom.federation.privacy import PrivacyOrTable, privacy_of
from fedgeom.federation.settings import POSITIVE, Between, ClassNames, Settings
from fedgeom.methods.aggregation import GroupedSums


@dataclass(frozen=True, kw_only=True)
class EllipseSettings(GroupedSums, Settings):
    """Where the rows live, what is sent of them, how classes are matched and told apart, and who may take part."""

    names: Literal["own", "shared"] = "own"
    """"own": sites have names of their own; Gaussians are matched. "shared": a name means one thing everywhere."""
    classes: ClassNames = None
    """With shared names: the agreed names. None: the union of the sites' names, which the sites work out themselves."""
    n_classes: Annotated[int, Between(2, 256)] | Literal["most"] | None = None
    """J, with own names: of names at different depth, the finest ones. None or "most": the most classes any site has;
    "most" says that some site has them all."""
    depth: Literal["same", "mixed"] = "same"
    """"same": a name means one class. "mixed": a name of one site may stand for several of another ("T cell")."""
    space: Literal["euclidean", "ball"] = "euclidean"
    """"euclidean": rows are ordinary vectors; "ball": points of the Poincaré ball, taken to its tangent space at 0."""
    curvature: Annotated[float, POSITIVE] = 1.0
    """k: the ball has curvature -k."""
    scale: Literal["joint", "site", "none"] = "joint"
    """How columns are standardised: "joint"ly, by each "site" itself, or not at all; never in the ball."""
    n_components: Annotated[int, Between(1, 8)] = 1
    """The most Gaussians of which a class may be made; each site chooses how many its classes have, by BIC."""
    rule: Literal["quadratic", "linear"] = "quadratic"
    """"quadratic": every class has a covariance; "linear": all have one."""
    shrinkage: Annotated[float, Between(0)] | None = None
    """Rows' worth of pull towards the covariance inside all classes. None: one more than the number of columns."""
    min_rows: Annotated[int, Between(2)] = 5
    """A class with fewer rows at a site stays at home."""
    rows_per_column: Annotated[float, Between(0)] = 2.0
    """Of a class with fewer rows than this for each column only means and variances are sent, no covariances."""
    min_sites: Annotated[int, Between(1)] = 2
    """The fewest sites that make a result."""
    privacy: PrivacyOrTable = None
    """DP(epsilon=…, delta=…, clip=…): differential privacy for single rows, whose length ``clip`` bounds. Rows are
    taken as they are or as steps prepare them (scale="none"); how many classes there are stands in the terms."""
    private_units: ClassVar[tuple[str, ...]] = ("row",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.shared and self.n_classes is not None:
            raise InputError(
                f'n_classes={self.n_classes!r} given with names="shared"; the classes are then the names: leave '
                "n_classes out, or list the names in classes=[…]"
            )
        if self.classes is not None and not self.shared:
            raise InputError(
                'classes=[…] given with names="own"; names of a site\'s own cannot be listed: say names="shared", or '
                "how many classes there are, n_classes=…"
            )
        if self.mixed and (self.shared or self.n_classes is None):
            raise InputError(
                'depth="mixed" needs names="own" and the number of the finest classes in all: n_classes=…, or '
                'n_classes="most" if some site has them all'
            )
        if self.group_draw is not None and self.apart:
            raise InputError(
                f"aggregation=GroupMedian(…) given with names={self.names!r} and n_components={self.n_components}; "
                'groups are compared where sites add up the same names: wanted names="shared" and n_components=1'
            )
        self._check_privacy()

    def _check_privacy(self) -> None:
        """Refuse what one row could move by more than noise covers."""
        if privacy_of(self) is None:
            return
        wrong: dict[str, tuple[Any, Any]] = {"n_components": (self.n_components, 1), "depth": (self.depth, "same")}
        if self.c is None:
            wrong["scale"] = self.scale, "none"
        if not self.shared:
            if self.given_classes is None:
                wrong["n_classes"] = self.n_classes, "their number"
            wrong["holdout"] = getattr(self, "holdout", None), None
        found = {name: pair for name, pair in wrong.items() if pair[0] != pair[1]}
        if found:
            given = ", ".join(f"{name}={pair[0]!r}" for name, pair in found.items())
            wanted = ", ".join(f"{name}={pair[1]!r}" for name, pair in found.items())
            raise InputError(
                f"Ellipses with privacy and {given} given; one row could move that by more than noise covers: wanted "
                f"{wanted}"
            )

    @property
    def shared(self) -> bool:
        """Whether a name means one thing everywhere."""
        return self.names == "shared"

    @property
    def mixed(self) -> bool:
        """Whether names may be at different depth."""
        return self.depth == "mixed"

    @property
    def agrees_on_names(self) -> bool:
        """Whether sites tell their names at all: with own names they never leave the site."""
        return self.shared

    @property
    def given_classes(self) -> int | None:
        """J, where the settings say it; None: the most at any site, or the names that sites agree on."""
        return self.n_classes if isinstance(self.n_classes, int) else None

    @property
    def c(self) -> float | None:
        """The curvature of the ball; None in Euclidean space."""
        return self.curvature if self.space == "ball" else None

    @property
    def joint_scale(self) -> bool:
        """Whether all rows are standardised by the sites' average scale."""
        return self.scale == "joint" and self.c is None

    @property
    def site_scale(self) -> bool:
        """Whether each site standardises its rows by its own scale."""
        return self.scale == "site" and self.c is None

    @property
    def apart(self) -> bool:
        """Whether sites' Gaussians are told apart, in hidden blocks; if not, those of one word are added up."""
        return not self.shared or self.n_components > 1

    @property
    def asks_how_many(self) -> bool:
        """Whether the number of classes must be agreed on before Gaussians travel."""
        return not self.shared and self.given_classes is None

    def pull(self, columns: int) -> float:
        """Return how many rows' worth the pull towards the covariance inside all classes is."""
        return columns + 1.0 if self.shrinkage is None else self.shrinkage
