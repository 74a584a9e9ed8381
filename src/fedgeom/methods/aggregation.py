"""Aggregations: how the coordinator makes one vector out of many.

The mean needs only a sum, so it can run under secure sum. The robust ones look at each site's vector.
"""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np

from fedgeom.arrays import Floats
from fedgeom.errors import InputError
from fedgeom.federation.settings import Between, Choice, Settings
from fedgeom.protocols.fixed_point import fixed_sum
from fedgeom.protocols.secure_sum.messages import SumQuestion
from fedgeom.protocols.secure_sum.rules import LEAST_GROUPS, GroupDraw

FRACTION_BITS = SumQuestion.fraction_bits
LARGEST = 2.0 ** (62 - FRACTION_BITS)
"""No sum may reach this."""
BLOCK = 2**22
"""So many numbers are looked at together: beside the sites' vectors no rule needs memory that grows with both."""


def blocks(vectors: Floats, per_number: int) -> Iterator[slice]:
    """Yield runs of coordinates that are looked at together, where each takes so many numbers of memory."""
    width = max(1, BLOCK // per_number)
    for begin in range(0, vectors.shape[1], width):
        yield slice(begin, begin + width)


def distances(vectors: Floats, at: Floats) -> Floats:
    """Return how far each vector is from a point, (sites,)."""
    squares = np.zeros(len(vectors))
    for part in blocks(vectors, len(vectors)):
        squares += np.square(vectors[:, part] - at[part]).sum(axis=1)
    return np.asarray(np.sqrt(squares))


@dataclass(frozen=True)
class Aggregation(Choice):
    """A rule that makes one vector of the sites' vectors, (sites, numbers), and weights, (sites,)."""

    kind: ClassVar[str] = "aggregation"
    sums_only: ClassVar[bool] = False
    """Whether the rule needs nothing but weighted sums, so that it can run under secure sum."""
    by_pairs: ClassVar[bool] = False
    """Whether the weights follow from how every two sites' changes lie to each other: only for algorithms that send
    changes and let sites compare them (`TrainingRule.compares_updates`)."""

    @abstractmethod
    def __call__(self, vectors: Floats, weights: Floats) -> Floats:
        """Return one vector, (numbers,)."""

    def weights_of(self, vectors: Floats, weights: Floats) -> Floats:
        """Return by what a rule that needs only sums weighs the sites, (sites,): here by their own weights."""
        return weights


@dataclass(frozen=True)
class Mean(Aggregation):
    """The weighted mean (McMahan et al. 2017)."""

    name: ClassVar[str] = "mean"
    sums_only: ClassVar[bool] = True

    def __call__(self, vectors: Floats, weights: Floats) -> Floats:
        """Return Σ weight·vector / Σ weight, rounded as a secure sum rounds."""
        total = fixed_sum(vectors, weights, fraction_bits=FRACTION_BITS)
        return total / fixed_sum(np.ones((len(weights), 1)), weights, fraction_bits=FRACTION_BITS)


@dataclass(frozen=True)
class Median(Aggregation):
    """The median of each coordinate (Yin et al. 2018); every site counts the same."""

    name: ClassVar[str] = "median"

    def __call__(self, vectors: Floats, weights: Floats) -> Floats:
        """Return the coordinates' medians."""
        found = np.empty(vectors.shape[1])
        for part in blocks(vectors, len(vectors)):
            found[part] = np.median(vectors[:, part], axis=0)
        return found


@dataclass(frozen=True)
class TrimmedMean(Aggregation):
    """The mean of each coordinate without its lowest and highest values (Yin et al. 2018)."""

    name: ClassVar[str] = "trimmed"

    trim: Annotated[float, Between(0, 0.5)] = 0.2
    """The share cut off at either end."""

    def __call__(self, vectors: Floats, weights: Floats) -> Floats:
        """Return the trimmed means; at least one value of each coordinate is left."""
        cut = min(int(self.trim * len(vectors) + 1e-9), (len(vectors) - 1) // 2)
        found = np.empty(vectors.shape[1])
        for part in blocks(vectors, len(vectors)):
            found[part] = np.sort(vectors[:, part], axis=0)[cut : len(vectors) - cut].mean(axis=0)
        return found


@dataclass(frozen=True)
class Krum(Aggregation):
    """The vector nearest to its n − f − 2 nearest neighbours (Blanchard et al. 2017).

    With fewer than f + 3 vectors there are no such neighbours; then one neighbour decides. Of equally good vectors
    (two that are each other's only neighbour are) the first in lexical order is taken: the sites' order plays no part.
    """

    name: ClassVar[str] = "krum"

    n_byzantine: Annotated[int, Between(0)] | None = None
    """f: how many bad sites to expect. None: as many as it can bear."""

    def __call__(self, vectors: Floats, weights: Floats) -> Floats:
        """Return one of the vectors."""
        if len(vectors) == 1:
            return np.array(vectors[0])
        bad = max(0, (len(vectors) - 3) // 2) if self.n_byzantine is None else self.n_byzantine
        gaps = np.zeros((len(vectors),) * 2)
        for part in blocks(vectors, len(vectors) ** 2):
            gaps += np.square(vectors[:, None, part] - vectors[None, :, part]).sum(axis=2)
        np.fill_diagonal(gaps, np.inf)
        near = max(1, min(len(vectors) - bad - 2, len(vectors) - 1))
        scores = np.sort(gaps, axis=1)[:, :near].sum(axis=1)
        return np.array(functools.reduce(_first, (vectors[at] for at in np.flatnonzero(scores <= scores.min()))))


def _first(a: Floats, b: Floats) -> Floats:
    """Return the vector that is first in lexical order."""
    at = int(np.argmax(a != b))
    return a if a[at] <= b[at] else b


@dataclass(frozen=True)
class GeometricMedian(Aggregation):
    """The point with the least weighted sum of distances (Weiszfeld's steps; Pillutla et al. 2022).

    A step that lands on one of the vectors goes on as Vardi and Zhang (2000) say: there, Weiszfeld's own would stay.
    Where the median is one of the vectors the steps come near it ever more slowly, so all are tried in the end.
    """

    name: ClassVar[str] = "geometric"

    max_iter: Annotated[int, Between(1)] = 200
    """The most steps."""
    tol: Annotated[float, Between(0)] = 1e-10
    """The relative size of the last step."""

    def __call__(self, vectors: Floats, weights: Floats) -> Floats:
        """Return the point."""
        share = weights / weights.sum()
        at = share @ vectors
        for _ in range(self.max_iter):
            gaps = distances(vectors, at)
            here = gaps <= 1e-12 * (1 + np.linalg.norm(at))
            if here.all():
                break
            pull = np.divide(share, gaps, out=np.zeros(len(share)), where=~here)
            towards = np.empty(len(at))
            for part in blocks(vectors, len(vectors)):
                towards[part] = pull @ (vectors[:, part] - at[part])
            step = towards / pull.sum()
            held = float(share[here].sum())
            force = float(np.linalg.norm(towards))
            if held:
                step = step * max(0.0, 1 - held / force) if force else 0 * step
            at = at + step
            if np.linalg.norm(step) <= self.tol * (1 + np.linalg.norm(at)):
                break
        tried = [at, *vectors]
        costs = np.array([share @ distances(vectors, one) for one in tried])
        # On a line many points may be as good; then rounding must not decide which of the vectors it is.
        return np.array(tried[int(np.argmax(costs <= costs.min() * (1 + 1e-9)))])


MOST_GROUPS = 500


@dataclass(frozen=True)
class GroupMedian(Aggregation):
    """The median over the means of groups of sites, each a secure sum: one liar spoils one group."""

    name: ClassVar[str] = "groups"
    sums_only: ClassVar[bool] = True

    n_groups: Annotated[int, Between(LEAST_GROUPS, MOST_GROUPS)] = 5
    """How many groups: more than twice as many as sites that may lie; each has as many sites as policies ask."""
    rule: Literal["median", "geometric"] = "median"
    """"median": of each coordinate; "geometric": the point with the least sum of distances to the groups' means."""
    drawn_by: Literal["sites", "seed"] = "sites"
    """"sites": by numbers that all sites commit to, so that nobody alone chooses; "seed": by the run's seed, the same
    groups in each run, which whoever chooses the seed can choose."""

    @property
    def draw(self) -> GroupDraw:
        """How the groups are drawn."""
        return GroupDraw(self.n_groups, self.drawn_by)

    def __call__(self, vectors: Floats, weights: Floats) -> Floats:
        """Return one vector of the groups' means, (groups, numbers); weights, (groups,), play no part."""
        if self.rule == "median":
            return Median()(vectors, weights)
        return GeometricMedian()(vectors, np.ones(len(vectors)))


def drawn(aggregation: object) -> GroupDraw | None:
    """Return how an aggregation draws groups; None: it has none."""
    return aggregation.draw if isinstance(aggregation, GroupMedian) else None


def check_aggregation(rule: object, chosen: Aggregation, *, secure: bool | None, share: float) -> None:
    """Refuse an aggregation that does not go with a training rule's other settings."""
    kind = type(rule).__name__
    if secure and not chosen.sums_only:
        raise InputError(
            f"secure=True with aggregation={chosen.name!r}: that looks at each site's vector, which a secure sum "
            'hides; use aggregation="mean", GroupMedian(n_groups=…), or secure=False'
        )
    if chosen.by_pairs and not getattr(rule, "compares_updates", False):
        raise InputError(
            f"aggregation={chosen.name!r} weighs sites by the angles between their changes, which {kind} does not "
            'compute; use HyperFed, or aggregation="mean"'
        )
    if not isinstance(chosen, GroupMedian):
        return
    if not getattr(rule, "takes_groups", True):
        raise InputError(
            f'{kind} has ways of its own to put sites together, not GroupMedian; use aggregation="mean"'
        )
    if getattr(rule, "sums_rows_up", False) or getattr(rule, "calibration", False):
        raise InputError(f'{kind} adds up rows of all sites, of which there is no median; use aggregation="mean"')
    if secure is False:
        raise InputError(
            'secure=False with GroupMedian: groups hide sites in sums; for open vectors use aggregation="median"'
        )
    if share < 1:
        raise InputError(f"participation={share} with GroupMedian: groups are of all sites; use participation=1")


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
    start: Literal["equal", "rows"] = "equal"
    """Where line searches start: "equal" weights; "rows", as printed: each site's share of all rows, where updates are
    shown (``secure=False``). Of a secure sum nobody knows these shares: it starts from equal weights."""

    def __call__(self, vectors: Floats, weights: Floats) -> Floats:
        """Return the combination; the sites' own weights, such as their numbers of rows, are at most a start."""
        return Mean()(vectors, self.weights_of(vectors, weights))

    def weights_of(self, vectors: Floats, weights: Floats) -> Floats:
        """Return p of Eq. 10, (sites,)."""
        from fedgeom.protocols.pairwise import cosines  # needs the pairwise protocol, which no other rule does

        lengths = np.linalg.norm(vectors, axis=1) if self.deviations == "raw" else None
        return self.weigh(cosines(vectors), lengths, start=weights if self.start == "rows" else None)

    def weigh(
        self, cosines: Floats, lengths: Floats | None, *, mixed: float = 1.0, start: Floats | None = None
    ) -> Floats:
        """Return p, (sites,), from cosines (sites, sites) and lengths (sites,); ``mixed`` may raise the bound.

        Line searches begin at ``start``, (sites,), or at equal weights.
        """
        from fedgeom.geometry import min_norm  # imports scipy.optimize, which no other rule needs

        gram = cosines if lengths is None else cosines * lengths[:, None] * lengths[None, :]
        count = len(gram)
        bound = min(max(self.min_effective_sites, mixed), float(count))
        if self.solver == "exact":
            return min_norm.least_norm(gram, mixed=bound)
        search = min_norm.frank_wolfe if self.solver == "line search" else min_norm.as_printed
        first = np.ones(count) if start is None else start
        return min_norm.evened(search(gram, first, steps=self.steps), mixed=bound)


if TYPE_CHECKING:
    AggregationOrName = str | Aggregation | dict[str, Any]
else:  # choices are read from names and tables
    AggregationOrName = Aggregation


@dataclass(frozen=True, kw_only=True)
class GroupedSums(Settings):
    """How sites' sums become one, for methods whose model follows from few sums."""

    aggregation: AggregationOrName = "mean"
    """How sites' sums become one: "mean" adds them all up; GroupMedian(5) compares the sums of groups of sites, so that
    a site that lies spoils one group."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.aggregation, Mean | GroupMedian):
            given = getattr(self.aggregation, "name", self.aggregation)
            raise InputError(
                f"aggregation={given!r} given; what sites add is only ever seen in sums: wanted "
                '"mean" or GroupMedian(n_groups=…)'
            )

    @property
    def group_draw(self) -> GroupDraw | None:
        """How sites are drawn into groups that are summed apart; None: all are summed together."""
        return drawn(self.aggregation)
