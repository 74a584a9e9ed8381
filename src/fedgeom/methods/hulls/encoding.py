"""What sites and coordinator must agree on before hulls travel: grid, labels, field and word length.

Both ends build the same objects from the same few numbers, so only the numbers are sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Annotated, Any

import msgspec
import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Indices
from fedgeom.codes.fields import is_prime
from fedgeom.codes.scma import ScmaCode
from fedgeom.codes.sidon import CountedLabels, bose_chowla
from fedgeom.errors import DecodeError, InputError, ProtocolError
from fedgeom.geometry.hyperbolic.grid import Grid
from fedgeom.memo import memoize
from fedgeom.methods.hulls.core import (
    MOST_CLASSES,
    RADIUS_LEVELS,
    Bins,
    count_of_level,
    level_of_count,
    make_grid,
    radius_of_level,
)
from fedgeom.methods.hulls.settings import HullSettings

FIELD_BITS = 63
"""The agreed bound: a symbol must fit into 63 bits."""

SPLITTING = 8
"""q ≡ 1 modulo 2^8: decoding then splits polynomials by high power residues, several times faster."""

MOST_MEETING = 6
"""The largest h chosen without being asked; more hulls than this meet in a bin only on coarse grids."""


class HullPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, dict=True):
    """The agreed numbers of one run."""

    epsilon: Annotated[float, msgspec.Meta(gt=0)]
    """ε, Definition 2."""
    radius: Annotated[float, msgspec.Meta(gt=0)]
    """R, the Euclidean radius of the region that holds all points (Section 5.2)."""
    curvature: Annotated[float, msgspec.Meta(gt=0)]
    """k; the disc has curvature -k."""
    classes: Annotated[int, msgspec.Meta(ge=2, le=4096)]
    """J, the number of global classes; each site owns a block of J labels (Appendix H)."""
    blocks: Annotated[int, msgspec.Meta(ge=2, le=100_000)]
    """L, the number of sites that joined."""
    capacity: Annotated[int, msgspec.Meta(ge=1, le=10_000_000)]
    """K_max: no site sends more non-empty bins (Section 5.5)."""
    corners: Annotated[int, msgspec.Meta(ge=0, le=2**40)] = 0
    """How many hull points all sites have together, each site's number rounded up to a level; 0: nobody counted."""
    h: Annotated[int, msgspec.Meta(ge=1, le=32)]
    """The order of the B_h labels: how many hulls may meet in one bin (Section 5.4)."""
    shared: bool = False
    """Whether all sites use one block of labels, one for each agreed word, instead of a block of its own each."""
    equal_area: bool = False
    """Whether bins have equal areas (Appendix C) instead of equal breadths (Section 5.2)."""

    @cached_property
    def grid(self) -> Grid:
        """The bins of Section 5.2 or of Appendix C."""
        try:
            return make_grid(self.epsilon, self.radius, c=self.curvature, equal_area=self.equal_area)
        except OverflowError as error:
            raise InputError(f"epsilon={self.epsilon} is too fine: the bins cannot be counted") from error

    @property
    def length(self) -> int:
        """How many symbols a word has: known before anything is built."""
        return 2 * self._filled + ScmaCode.checks

    @property
    def _filled(self) -> int:
        """The largest number of non-empty bins in the sum."""
        return min(self.corners or self.capacity * self.blocks, self.grid.size)

    @cached_property
    def labels(self) -> CountedLabels:
        """One label per hull, or per class with shared names; each hull has a bin at most once: at most J·L meet.

        A cheap lower bound comes first: building labels that cannot fit takes minutes.
        """
        hulls = self.classes * self.blocks
        count = self.classes if self.shared else hulls
        if _surely_too_long(count, hulls, self.h):
            raise InputError(
                f"labels for {hulls} hulls, of which {self.h} may meet, do not fit into {FIELD_BITS} bits: use a "
                "smaller h or fewer classes"
            )
        return bose_chowla(count, self.h).counted(hulls)

    @cached_property
    def code(self) -> ScmaCode:
        """The sparse power-sum code that carries all bins of all sites."""
        modulus = field_above(max(self.grid.size, self.labels.largest_total))
        return ScmaCode(modulus, self._filled, self.grid.size)

    def artifacts(
        self, hulls: Sequence[Bins], members: Indices, owners: Indices | None = None
    ) -> dict[str, npt.NDArray[Any]]:
        """Return what the coordinator decoded, for pictures; with shared names hulls of a class cannot be told apart.

        members and owners (hulls,).
        """
        every = np.concatenate(hulls)
        found = {
            "hull_bins": every,
            "hull_points": self.grid.center(every),
            "hull_of_point": np.repeat(np.arange(len(hulls)), [len(one) for one in hulls]),
            "group_of_hull": np.asarray(members),
        }
        return found if owners is None else found | {"owner_of_hull": owners}


def field_above(lower: int) -> int:
    """Return a prime above ``lower``, just below a power of two.

    The notes' correction to Section 5.4: q must exceed the bin count and the largest possible *sum* of
    labels, of which there are J·L. Just below a power of two, because then almost no random word has to
    be skipped when masks are drawn.
    """
    step = 1 << SPLITTING
    for bits in range(max(lower.bit_length(), SPLITTING + 4), FIELD_BITS + 1):
        candidate = (1 << bits) - step + 1
        while candidate > lower and candidate > 1 << (bits - 1):
            if is_prime(candidate):
                return candidate
            candidate -= step
    raise InputError(
        f"q must exceed {lower:,} ({lower.bit_length()} bits), the agreed bound is {FIELD_BITS} bits: "
        "use a larger epsilon, a smaller h or fewer classes"
    )


def _surely_too_long(count: int, hulls: int, h: int) -> bool:
    """Say whether a sum of ``hulls`` counted labels, ``count`` different ones of order h, needs too many bits."""
    return bool(count**h * hulls**2 >= 2**FIELD_BITS)


def largest_order(classes: int, blocks: int, bins: int, *, shared: bool = False) -> int:
    """Return the largest useful h whose labels fit into the field."""
    hulls = classes * blocks
    count = classes if shared else hulls
    for h in range(min(MOST_MEETING, hulls), 0, -1):
        if _surely_too_long(count, hulls, h):  # see `HullPlan.labels`
            continue
        try:
            field_above(max(bins, bose_chowla(count, h).counted(hulls).largest_total))
        except InputError:
            continue
        return h
    raise InputError(f"no B_h labels for {classes} classes at {blocks} sites fit into {FIELD_BITS} bits")


@memoize(4)  # the same for all sites of a process
def _radii(c: float) -> frozenset[float]:
    """Return the radii that sites agree on."""
    return frozenset(radius_of_level(level, c=c) for level in range(1, RADIUS_LEVELS + 1))


def check_plan(plan: HullPlan, settings: HullSettings, blocks: int) -> None:
    """Raise `ProtocolError` unless a plan follows from the terms, the number of sites and the three secure maxima.

    What the terms leave open is agreed on in levels, and the order of the labels follows from the rest: a coordinator
    that could choose h would see more of the bins in which hulls meet.
    """
    if plan.blocks != blocks:
        raise ProtocolError("the plan does not fit the sites that joined")
    if plan.shared != settings.shared:
        raise ProtocolError("the plan has shared names where the terms have own ones, or the other way round")
    if plan.equal_area != settings.equal_area:
        raise ProtocolError(f"the plan's grid is another one than the terms', {settings.grid!r}")
    if not settings.shared and settings.given_classes is None and plan.classes > MOST_CLASSES:
        raise ProtocolError(f"the plan has {plan.classes} classes; sites agree on {MOST_CLASSES} at most")
    if settings.radius is None and plan.radius not in _radii(plan.curvature):
        raise ProtocolError(f"the plan's radius {plan.radius} is none of the levels that sites agree on")
    if settings.capacity is None and plan.capacity != count_of_level(level_of_count(plan.capacity)):
        raise ProtocolError(f"the plan's capacity {plan.capacity} is none of the levels that sites agree on")
    if plan.corners > (0 if settings.settled else plan.capacity * plan.blocks):
        raise ProtocolError("the plan has room for more hull points than its sites can have")
    try:  # last: labels for thousands of classes take megabytes to make
        size = plan.grid.size
        order = settings.h or largest_order(plan.classes, plan.blocks, size, shared=plan.shared)
        follows = plan.h == order and plan.code.length > 0
    except InputError as error:
        raise ProtocolError(f"the plan cannot be carried out: {error}") from error
    if not follows:
        raise ProtocolError("the plan does not fit the sites that joined")


class Hull(msgspec.Struct, frozen=True):
    """A decoded hull: its label's index and its bins, sorted."""

    label: int
    bins: tuple[int, ...]


def decode_hulls(plan: HullPlan, symbols: object) -> tuple[list[Hull], int]:
    """Turn the sum of all words into hulls, and count bins in which more than h hulls met.

    A bin with too many hulls is left out, which is noticed, not guessed (`CountedLabels`).
    """
    bins, totals = plan.code.decode(symbols)  # type: ignore[arg-type]
    found: dict[int, list[int]] = {}
    crowded = 0
    values = totals.tolist()
    for place, total, indices in zip(bins.tolist(), values, plan.labels.attempt_many(values), strict=True):
        if indices is None:
            if total % (plan.labels.max_terms + 1) <= plan.h:
                raise DecodeError(
                    f"bin {place} holds {total}, which is no sum of labels; a site sent a wrong word"
                )
            crowded += 1
            continue
        for label in set(indices):  # with shared names a class has a bin once, however many sites do
            found.setdefault(label, []).append(place)
    return [Hull(label, tuple(sorted(places))) for label, places in sorted(found.items())], crowded
