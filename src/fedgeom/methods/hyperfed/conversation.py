"""The coordinator's side of HyperFed: weigh the sites by the cosines of their updates, then sum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from fedgeom.arrays import Floats
from fedgeom.errors import ProtocolError
from fedgeom.federation.conversation import Sites
from fedgeom.methods.hyperfed.messages import CompareUpdates, FirstLetters, PairShares, PassOn
from fedgeom.methods.hyperfed.settings import HyperFedSettings
from fedgeom.methods.iterative.conversation import Conversation, Group, Outcome
from fedgeom.methods.iterative.tree import to_wire
from fedgeom.protocols.inner_products import open_shares
from fedgeom.protocols.pairs import asks_first, deliver


class Compared(NamedTuple):
    """How the updates of the sites that are left lie to each other."""

    names: tuple[str, ...]
    cosines: Floats
    """(sites, sites)"""
    lengths: Floats
    """(sites,): of the updates, where raw deviations are weighed; else zeros."""


class HyperFedConversation(Conversation):
    """One run of `HyperFed`."""

    rule: HyperFedSettings

    def __init__(self, rule: HyperFedSettings, sites: Sites):
        super().__init__(rule, sites)
        self.mixed: list[float] = []
        """For each round, how many sites the sum really mixed: 1/Σp²."""

    def exchange(self, number: int, groups: Sequence[Group]) -> list[Outcome]:
        """Let the sites train, and average them; where updates are compared, weigh them first."""
        if not self.rule.compares:
            return super().exchange(number, groups)
        return [self._masked(number, self.weighed(number, group)) for group in groups]

    def weighed(self, number: int, group: Group) -> Group:
        """Return the group with the weights of Eq. 10, under the bound that the sites' policies set."""
        found = self.compare(number, group)
        self._need(found.names, group)
        chosen = self.rule.consistent
        assert chosen is not None
        least = max(self.cohort.joined.keys[name].min_cohort for name in found.names)
        lengths = found.lengths if chosen.deviations == "raw" else None
        p = chosen.weigh(found.cosines, lengths, mixed=float(least))
        self.mixed.append(round(1.0 / float(p @ p), 3))
        self.sites.metrics["sites mixed"] = self.mixed
        return replace(group, members=found.names, factors=dict(zip(found.names, p.tolist(), strict=True)))

    def compare(self, number: int, group: Group) -> Compared:
        """Have every two sites compare their updates; sites that are lost on the way are left out."""
        given, members = to_wire(group.given), group.members
        begin = {
            name: CompareUpdates(
                round=number,
                given=given,
                agreed=self.agreed.hash,
                partners=tuple(other for other in members if other != name),
            )
            for name in members
        }
        first = self.sites.ask(begin, expect=FirstLetters)
        alive, shares = set(first), dict[tuple[str, str], int]()
        post = deliver({name: answer.letters for name, answer in first.items()}, alive)
        for turn in (1, 2):
            asked = {
                name: PassOn(round=number, number=turn, letters=letters) for name, letters in sorted(post.items())
            }
            replies = self.sites.ask(asked, expect=PairShares)
            alive -= set(replies.missing)
            shares |= {(name, other): s for name, reply in replies.items() for other, s in reply.shares.items()}
            post = deliver({name: reply.letters for name, reply in replies.items()}, alive)
        names = tuple(name for name in members if name in alive)
        lengths = np.array([first[name].length for name in names])
        return Compared(names, _cosines(names, shares), lengths)


def _cosines(names: Sequence[str], shares: dict[tuple[str, str], int]) -> Floats:
    """Put the shares of every two sites together."""
    found = np.eye(len(names))
    for i, one in enumerate(names):
        for j, other in enumerate(names[:i]):
            asker, helper = (one, other) if asks_first(one, other) else (other, one)
            try:
                found[i, j] = found[j, i] = open_shares(shares[asker, helper], shares[helper, asker])
            except (KeyError, ProtocolError) as error:
                raise ProtocolError(f"{one!r} and {other!r} did not finish comparing their updates") from error
    return found
