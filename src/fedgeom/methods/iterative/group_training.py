"""Training in drawn groups: a secure sum in each, and the median of the groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import msgspec
import numpy as np

from fedgeom.arrays import Floats
from fedgeom.crypto.keys import fingerprint
from fedgeom.errors import ProtocolError, TooFewSitesError
from fedgeom.federation.messages import Names, Question
from fedgeom.federation.plan import Ask, Plan, Shape, Steps, Sum
from fedgeom.federation.site import answers
from fedgeom.methods.iterative import setup
from fedgeom.methods.iterative.messages import Masked, TrainGroup
from fedgeom.methods.iterative.settings import Round, TableSettings
from fedgeom.methods.iterative.setup import AgreedSetup, Agreement, Ready
from fedgeom.methods.iterative.training import Group, Outcome, TrainingLoop
from fedgeom.methods.iterative.tree import State
from fedgeom.protocols.cohort import SiteGroups, join
from fedgeom.protocols.names import AgreeOnNames, agree_on_names
from fedgeom.protocols.secure_sum.messages import SumQuestion
from fedgeom.protocols.secure_sum.rules import GroupDraw, GroupSum, check_group_sums, own_group
from fedgeom.protocols.site import Contribution

GroupNumber = Annotated[int, msgspec.Meta(ge=0)]


class SumGroupColumns(
    SumQuestion,
    kind="train.group-columns",
    fraction_bits=setup.FRACTION_BITS,
    reals=True,
    checked=True,
    in_groups=True,
):
    """Ask for masked sums over the columns of one group's sites."""

    answer_reveals: ClassVar[str] = (
        "masked; with all others of its drawn group: the group's number of rows, mean and variance of each column"
    )
    group: GroupNumber


class SumGroupRows(SumQuestion, kind="train.group-rows", checked=True, in_groups=True):
    """Ask for how many rows a site has, masked among its group."""

    answer_reveals: ClassVar[str] = "masked; with all others of its drawn group: the group's number of rows"
    group: GroupNumber


GroupSums = Annotated[tuple[GroupSum, ...], msgspec.Meta(max_length=500)]


class BeginGroups(Question, kind="train.begin-groups", answer=Ready):
    """Tell a site the classes and the groups' sums, from which it works out the common scale itself."""

    classes: Names
    columns: GroupSums = ()
    """What came of `SumGroupColumns`; empty where the site scales by itself, or not at all."""
    rows: GroupSums = ()
    """What came of `SumGroupRows`; empty where nobody needs it, or the columns' sums have it."""


def scale_of_groups(sums: Sequence[Floats]) -> tuple[Floats, Floats]:
    """Return the median of the groups' means and of their deviations, column by column.

    sums: for each group (1 + 2·columns,), f8; returns two of (columns,), f8.
    """
    centres, spreads = zip(*(setup.scale_from(one) for one in sums), strict=True)
    return np.median(centres, axis=0), np.median(spreads, axis=0)


def hash_groups(begin: BeginGroups) -> bytes:
    """Hash what all sites are told."""
    sums = (
        part for one in (*begin.columns, *begin.rows) for part in (str(one.group).encode(), one.result.total.data)
    )
    return fingerprint(b"agreed in groups", *(name.encode() for name in begin.classes), b"sums", *sums)


def rows_of_groups(begin: BeginGroups) -> dict[int, float]:
    """Return how many rows each group has, where that was counted."""
    if begin.columns:
        return {one.group: float(one.result.reals(SumGroupColumns)[0]) for one in begin.columns}
    return {one.group: float(one.result.counts()[0]) for one in begin.rows}


@dataclass(frozen=True)
class AgreeInGroups(Steps):
    """The plan of `agree_in_groups`; the plan receives the classes."""

    settings: TableSettings
    draw: GroupDraw

    def steps(self, shape: Shape, private: bool) -> Plan:
        """Yield how sites agree on classes, sum in each group what the scale follows from, and are told."""
        classes = yield AgreeOnNames(self.settings.classes)
        columns: list[GroupSum] = []
        rows: list[GroupSum] = []
        groups = list(enumerate(self.draw.planned(shape.sites, shape)))
        bound = self.draw.decides
        for group, names in groups if self.settings.scale == "joint" else ():
            result = yield Sum(SumGroupColumns(group=group), 1 + 2 * shape.columns, bound=bound, to=names)
            columns.append(GroupSum(group=group, asked=names, result=result))
        for group, names in groups if self.settings.sums_rows else ():
            result = yield Sum(SumGroupRows(group=group), 1, bound=bound, to=names)
            rows.append(GroupSum(group=group, asked=names, result=result))
        begin = BeginGroups(classes=classes, columns=tuple(columns), rows=tuple(rows))
        yield Ask(begin, Ready(), bound=bound)
        return classes


def agree_in_groups(groups: SiteGroups, settings: TableSettings) -> tuple[AgreedSetup, dict[int, float]]:
    """Agree on class names and scale, tell all sites, and return with it how many rows each group has."""
    cohort = groups.cohort
    classes = agree_on_names(cohort, settings.classes)
    columns = cohort.columns
    joint = settings.scale == "joint"
    summed = list[GroupSum]()
    counted = list[GroupSum]()
    if joint:
        summed = groups.sum_checked(lambda number: SumGroupColumns(group=number), length=1 + 2 * columns)
    if settings.sums_rows:
        counted = groups.sum_checked(lambda number: SumGroupRows(group=number), length=1)
    begin = BeginGroups(classes=classes, columns=tuple(summed), rows=tuple(counted))
    left = [name for name in cohort.left if not any(name in groups.all[at] for at in groups.dropped)]
    ready = cohort.sites.ask(begin, of=left, expect=Ready)
    ready.need(cohort.min_sites, "that they are ready to train")
    cohort.lost_since(ready)
    told = hash_groups(begin)
    rows = rows_of_groups(begin)
    scale = setup.fixed_scale(settings.scale, columns)
    if scale is None and joint:
        scale = scale_of_groups([one.result.reals(SumGroupColumns) for one in summed])
    centre, spread = scale or (None, None)
    return AgreedSetup(classes, columns, centre, spread, told, sum(rows.values())), rows


class GroupAgreement(Agreement):
    """The site's half, in groups where the terms draw some."""

    def _check_group(self, number: int) -> None:
        if number != own_group(self.site):
            raise ProtocolError("the sum is of another group than the one that this site was drawn into")

    @answers(SumGroupColumns)
    def sum_group_columns(self, ask: SumGroupColumns) -> Contribution:
        """Add this site's column sums to those of its group."""
        self._check_group(ask.group)
        return self.sum_columns(ask)

    @answers(SumGroupRows)
    def sum_group_rows(self, ask: SumGroupRows) -> Contribution:
        """Add the number of this site's rows to those of its group."""
        self._check_group(ask.group)
        return self.sum_rows(ask)

    @answers(BeginGroups)
    def begin_groups(self, ask: BeginGroups) -> Ready:
        """Take the classes, and work out the scale from the groups' sums, after a look at whether they are those."""
        if self.settings.group_draw is None:
            raise ProtocolError("the terms of this run draw no groups")
        self.check_told(ask.classes, scaled=bool(ask.columns), counted=bool(ask.rows))
        lengths = {SumGroupColumns: 1 + 2 * self.site.data.shape[1], SumGroupRows: 1}
        for kind, sums in ((SumGroupColumns, ask.columns), (SumGroupRows, ask.rows)):
            if sums:
                check_group_sums(self.site, sums, kind)
                if any(one.result.total.shape != (lengths[kind],) for one in sums):
                    raise ProtocolError(f"sums of {lengths[kind]} numbers each are wanted")
        scale = self.own_scale()
        if ask.columns:
            scale = scale_of_groups([one.result.reals(SumGroupColumns) for one in ask.columns])
        rows = rows_of_groups(ask)
        own = own_group(self.site)
        if rows and not rows.get(own, 0.0) > 0:  # there is nothing to divide by
            raise ProtocolError("this site's group was dropped; it takes no part in the training")
        return self.keep(ask.classes, *scale, rows.get(own, 0.0), hash_groups(ask))


class GroupedTrainingLoop(TrainingLoop):
    """One run of one algorithm with `GroupMedian`."""

    question: type[Masked] = TrainGroup
    drawn: SiteGroups
    rows: dict[int, float]
    """How many rows each group has, where that was counted."""

    def agree(self) -> None:
        """Join, draw the groups, and agree on classes and scale."""
        self.cohort = join(self.sites, self.rule)  # type: ignore[arg-type]
        assert self.rule.group_draw is not None
        self.drawn = self.cohort.groups
        self.agreed, self.rows = agree_in_groups(self.drawn, self.rule)
        self.members = self.cohort.left

    def groups(self, number: int, state: State, chosen: tuple[str, ...]) -> list[Group]:
        """Return the drawn groups, as far as they can be summed; in the end all sites are given the same."""
        if number >= self.rule.n_rounds:
            return super().groups(number, state, chosen)
        given = state.select(self.rule.gives)
        found = []
        for at in range(len(self.drawn.all)):
            members = self.drawn.left(at, set(chosen))
            if members:
                found.append(Group(members, given))
        return found

    def _place(self, group: Group) -> int:
        return next(at for at, names in enumerate(self.drawn.all) if group.members[0] in names)

    def whole_of(self, group: Group) -> float:
        """Return what the weights of a group add up to at most: its own rows."""
        return self.rows.get(self._place(group), 0.0) if self.rule.counts_rows else float(len(group.members))

    def exchange(self, number: int, groups: Sequence[Group]) -> list[Outcome]:
        """Let the groups train and average each; one whose sum fails, or is beyond its bounds, is dropped."""
        found = []
        for group in groups:
            try:
                found.append(self._masked(number, group))
            except (TooFewSitesError, ProtocolError) as error:
                self.drawn.drop(self._place(group), f"round {number + 1}: {error}")
        return found

    def combine(self, state: State, outcomes: Sequence[Outcome], round: Round) -> State:
        """Make the next state from the median over the groups' means; a group that trained on nothing has no say."""
        means = np.array([outcome.mean.flat() for outcome in outcomes if outcome.weight > 0])
        if not len(means):
            return state
        middle = self.rule.combine_rule(means, np.ones(len(means)))
        return self.rule.next_state(state, self.sent.like(middle), round, self.statistics)
