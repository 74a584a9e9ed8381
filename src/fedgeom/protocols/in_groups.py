"""The coordinator's half of sums in groups: draw them, sum in each, drop those that cannot be summed, and say so."""

from __future__ import annotations

from collections.abc import Callable

from fedgeom.errors import ProtocolError, TooFewSitesError
from fedgeom.federation.run_warnings import RunWarning
from fedgeom.protocols.cohort import Cohort
from fedgeom.protocols.secure_sum.groups import LEAST_GROUPS, GroupDraw, GroupSum
from fedgeom.protocols.secure_sum.messages import SumQuestion


class SiteGroups:
    """The groups of a run: who is in which, and which are still summed."""

    def __init__(self, cohort: Cohort, draw: GroupDraw):
        self.cohort, self.sites = cohort, cohort.sites
        keys = cohort.joined.keys
        draw.check_sizes(len(cohort.names), max(keys[name].min_cohort for name in cohort.names))
        self.all = draw.groups(cohort.names, self.sites.seed, cohort.joined.seed)
        self.dropped: dict[int, str] = {}
        """The groups that are no longer summed, and why."""
        self.sites.metrics["groups"] = len(self.all)

    def drop(self, number: int, why: str) -> None:
        """Sum a group no longer, and say so in the run's warnings."""
        if number in self.dropped:
            return
        self.dropped[number] = why
        self.sites.metrics["groups dropped"] = sorted(self.dropped)
        names = ", ".join(self.all[number])
        self.sites.notices.append(
            RunWarning(
                f"group {number + 1} of {len(self.all)} ({names}) is in no further sum: {why}",
                remedy="the median is over the other groups; look at these sites, and run again with them mended",
            )
        )
        self.need()

    def need(self) -> None:
        """Raise `TooFewSitesError` where so few groups are left that a median would be a mean."""
        if len(self.all) - len(self.dropped) < LEAST_GROUPS:
            reasons = "".join(f"\n  group {at + 1}: {why}" for at, why in sorted(self.dropped.items()))
            raise TooFewSitesError(
                f"{len(self.all) - len(self.dropped)} groups are left; a median over groups needs {LEAST_GROUPS}. "
                f"Dropped:{reasons}"
            )

    def left(self, number: int, living: set[str]) -> tuple[str, ...]:
        """Return who of a group can be summed: nobody where it was dropped, or is now, as too few are left."""
        if number in self.dropped:
            return ()
        keys, group = self.cohort.joined.keys, self.all[number]
        there = tuple(name for name in group if name in living)
        gone = sorted(set(group) - set(there))
        wanted = max([keys[name].min_cohort for name in there], default=1)
        strict = any(keys[name].min_difference for name in group)
        why = "; ".join(f"{name}: {self.sites.lost.get(name, 'left out')}" for name in gone)
        if len(there) < wanted:
            self.drop(number, f"{len(there)} of its sites are left, and policies ask for {wanted} (lost: {why})")
        elif gone and strict:
            self.drop(number, f"policies allow no sum without lost sites (sums_after_losses; lost: {why})")
        else:
            return there
        return ()

    def sum_checked(self, ask: Callable[[int], SumQuestion], *, length: int) -> list[GroupSum]:
        """Return the sum over each group, in a form that all sites can check; groups that fail are dropped."""
        found = []
        for number in range(len(self.all)):
            asked = self.left(number, set(self.cohort.left))
            if not asked:
                continue
            try:
                result = self.cohort.sum_checked(ask(number), length=length, participants=asked)
            except (TooFewSitesError, ProtocolError) as error:
                self.drop(number, str(error))
                continue
            found.append(GroupSum(group=number, asked=asked, result=result))
        return found
