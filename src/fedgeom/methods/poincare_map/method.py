"""One joint Poincaré map of all sites' rows: landmarks by secure sums, and the classes that are near each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from fedgeom.data.sites import SiteData
from fedgeom.data.validation import Finding, check_columns, label_names
from fedgeom.errors import InputError
from fedgeom.federation.coordinator import Coordinator
from fedgeom.federation.method import Method
from fedgeom.federation.model import Model
from fedgeom.federation.plan import Plan, Shape, Sum
from fedgeom.federation.policy import Policy
from fedgeom.federation.settings import POSITIVE, Between, ClassNames, Settings
from fedgeom.federation.site import Site
from fedgeom.federation.steps import Step
from fedgeom.methods.poincare_map.model import PoincareMapModel, landmarks_of
from fedgeom.methods.poincare_map.site import CountLandmarkRows, PoincareMapSite, make_model
from fedgeom.preparation.landmark_map import LandmarkMap, map_steps
from fedgeom.protocols.cohort import join
from fedgeom.protocols.model_delivery import HandOut, hand_out
from fedgeom.protocols.names import AgreeOnNames, agree_on_names


@dataclass(frozen=True, kw_only=True)
class PoincareMapSettings(Settings):
    """Landmarks, their graph, the map, and who may take part."""

    n_landmarks: Annotated[int, Between(2, 1024)] | Literal["auto"] = "auto"
    """How many landmarks there are at most; "auto": 200. Fewer where cells would have too few rows or sites."""
    n_components: Annotated[int, Between(2, 10)] = 2
    """The dimension of the ball; 2: the disc."""
    n_columns: Annotated[int, Between(1, 4096)] | Literal["auto"] | None = "auto"
    """Of how many of the first prepared columns landmarks are means; None: of all. "auto": of the first 20 principal
    components of rows that are prepared, and of all columns of rows that are taken as they are."""
    n_neighbors: Annotated[int, Between(1, 100)] = 8
    """How many nearest landmarks each is tied to in their graph."""
    gamma: Annotated[float, POSITIVE] = 4.0
    """γ: how far random walks on the graph go."""
    sigma: Annotated[float, POSITIVE] = 1.0
    """σ: the unit of distances on the map."""
    n_nearest: Annotated[int, Between(1, 100)] = 5
    """Between how many nearest landmarks a row is put."""
    min_cell: Annotated[int, Between(1, 10**6)] = 5
    """A cell with fewer rows at all sites together becomes no landmark. Where policies have floors, a cell has at least
    ``min_rows`` rows and one more for each column."""
    root: Annotated[str, "a class"] | None = None
    """The class, such as that of the stem cells, whose middle is moved to the origin. None: the middle of all rows."""
    classes: ClassNames = None
    """The agreed label names. None: the union of the sites' names, which the sites then work out themselves."""
    min_sites: Annotated[int, Between(1)] = 2
    """The fewest sites that make a result."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.root is not None and self.classes is not None and self.root not in self.classes:
            raise InputError(f"root={self.root!r} given; wanted one of the classes: {', '.join(self.classes)}")


@dataclass(frozen=True, kw_only=True)
class PoincareMap(PoincareMapSettings, Method):
    """For a joint picture of all sites' rows: a map in the hyperbolic disc, where trees of classes fit.

    The sites cut all rows into cells and add these up; the cells' means are landmarks, which every site embeds in the
    disc and among which it puts its own rows. Classes that are near a landmark name it. No row is sent.
    As a step of another method's preparation it makes points of the disc: ``prepare=["pca", PoincareMap()]``.
    """

    name: ClassVar[str] = "poincare-map"
    site: ClassVar[type[Site[Any]]] = PoincareMapSite
    model_type: ClassVar[type[Model]] = PoincareMapModel

    @property
    def own_steps(self) -> tuple[Step, ...]:
        """The map is a step of preparation: the last one."""
        return map_steps(self.prepare or (), self.as_step())  # type: ignore[arg-type]

    def as_step(self) -> LandmarkMap:
        """Return the step that makes the map of rows, for the preparation of another method."""
        return LandmarkMap(
            n_landmarks=self.n_landmarks,
            n_components=self.n_components,
            n_columns=self.n_columns,
            n_neighbors=self.n_neighbors,
            gamma=self.gamma,
            sigma=self.sigma,
            n_nearest=self.n_nearest,
            min_cell=self.min_cell,
        )

    def check(self, sites: Sequence[SiteData], policy: Policy, seed: int = 0) -> list[Finding]:
        """Refuse tables that do not fit together, and a root that no site has."""
        check_columns({site.name: site.shape[1] for site in sites})
        known = label_names(sites)
        if self.root is not None and self.root not in known:
            raise InputError(
                f"root={self.root!r} given; wanted one of the sites' classes: {', '.join(sorted(known))}"
            )
        return []

    def plan(self, shape: Shape) -> Plan:
        """Agree on names, count each class near each landmark, and let the sites make the model."""
        classes = yield AgreeOnNames(self.classes)
        step = self.preparing[-1]
        assert isinstance(step, LandmarkMap)
        most = step.most if shape.known else 1
        bound = "how many landmarks there are decides its size"
        result = yield Sum(CountLandmarkRows(classes=classes), 2 * most * len(classes), bound=bound)
        yield HandOut(result=result, bound=bound)

    def conduct(self, sites: Coordinator) -> PoincareMapModel:
        """Hold the conversation: join, agree on names, prepare, count, tell."""
        cohort = join(sites, self)
        classes = agree_on_names(cohort, self.classes)
        landmarks = landmarks_of(cohort.preparation)
        size = 2 * len(landmarks.points) * len(classes)
        result = cohort.sum_checked(CountLandmarkRows(classes=classes), length=size)
        model = make_model(self, result, landmarks, classes, cohort.class_floors)
        sites.metrics |= {
            "sites": len(cohort.left),
            "classes": len(classes),
            "landmarks": len(landmarks.points),
            "smallest cell": int(landmarks.sizes.min()),
            "largest cell": int(landmarks.sizes.max()),
        }
        return hand_out(cohort, model, result)
