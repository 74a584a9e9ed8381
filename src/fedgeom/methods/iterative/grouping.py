"""What a site holds the coordinator to between two rounds: with whom it is averaged, and how much each of them counts.

Groups, weights and raised rates follow from things that the coordinator has seen (descriptors), so a site cannot
compute them. It can see to it that they stay as they are until the terms have sites grouped anew: a coordinator that
regroups or weighs at will could take the difference of two sums.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from fedgeom.errors import ProtocolError
from fedgeom.methods.iterative.messages import Masked
from fedgeom.methods.iterative.rule import TrainingRule
from fedgeom.protocols.joining.last_call import remembers_last


class Grouping(msgspec.Struct, kw_only=True):
    """A site's group as it was told last."""

    round: int = -1
    """The last round in which the site was told."""
    group: tuple[str, ...] = ()
    factors: dict[str, float] = {}
    """What the weights of the group's sites are multiplied by, as far as they were told."""
    faster: dict[str, bool] = {}
    """Whose learning rate is raised, as far as that was told."""

    def settle(self, rule: TrainingRule, ask: Masked, me: str, min_cohort: int) -> tuple[str, ...]:
        """Take a question's group, weights and raised rates, or refuse them; return the group, empty for all sites."""
        self._check_group(rule, ask, me, min_cohort)
        if not rule.weighs_sites and any(factor != 1.0 for factor in ask.factors.values()):
            raise ProtocolError("the terms of this run have all sites count by their rows alone: no other weights")
        factors, faster = told(ask)
        anew = any(rule.regroups_in(round) for round in range(self.round + 1, ask.round + 1))
        if not anew:
            if ask.group != self.group:
                raise ProtocolError("the site was told another group before; the terms group nobody anew since")
            if not _agree(factors, self.factors) or not _agree(faster, self.faster):
                raise ProtocolError(
                    "sites of this group were given other weights or learning rates before; the terms change none since"
                )
        if anew or (factors, faster) != (self.factors, self.faster):
            self.factors = dict(factors) if anew else self.factors | factors
            self.faster = dict(faster) if anew else self.faster | faster
        self.group, self.round = ask.group, max(self.round, ask.round)
        return ask.group

    def _check_group(self, rule: TrainingRule, ask: Masked, me: str, min_cohort: int) -> None:
        group = set(ask.group)
        if rule.groups == 1:
            if group:
                raise ProtocolError("the terms of this run have one group, of all sites")
            return
        if me not in group or not group <= set(ask.ticket.members):
            raise ProtocolError("the group is not a part of the members with this site in it")
        if len(group) < min_cohort:
            raise ProtocolError(
                f"the group has {len(group)} sites; the policy of {me!r} asks for at least {min_cohort}"
            )


@remembers_last  # the very same question comes to many sites of a process
def told(ask: Masked) -> tuple[dict[str, float], dict[str, bool]]:
    """Return, for each site that is summed, by what its weight is multiplied and whether its rate is raised."""
    names, raised = ask.ticket.participants, frozenset(ask.faster)
    return {name: ask.factors[name] for name in names if name in ask.factors}, {n: n in raised for n in names}


def _agree(new: Mapping[str, float], old: Mapping[str, float]) -> bool:
    """Say whether what is told again is told the same."""
    return new == old or all(old.get(name, value) == value for name, value in new.items())


def asked_again(trained: Mapping[int, bytes], rounds: int, asked: bytes, round: int) -> bool:
    """Refuse a round that is over, or not in the terms; say whether the very same was asked before.

    ``trained`` has for each round a hash of its question, ``asked`` stands for the one that came.
    """
    if round >= rounds:
        raise ProtocolError(f"round {round + 1} was asked for; the site joined on rounds={rounds}")
    again = trained.get(round) == asked
    if trained and (round < max(trained) or (round in trained and not again)):
        raise ProtocolError(f"round {round + 1} is over, or was trained for another question already")
    return again
