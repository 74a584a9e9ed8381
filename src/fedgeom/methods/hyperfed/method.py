"""HyperFed: sites train towards prototypes in hyperbolic space; their updates are combined for consistency."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from fedgeom.arrays import Floats
from fedgeom.crypto.keys import SEAL_BYTES
from fedgeom.crypto.neighbours import COMPLETE_UP_TO
from fedgeom.errors import ProtocolError
from fedgeom.federation.coordinator import Coordinator
from fedgeom.federation.model import Model
from fedgeom.federation.plan import Ask, Bytes, Plan, Shape, bytes_size, map_size, text_size
from fedgeom.federation.site import Site
from fedgeom.methods.hyperfed.model import HyperFedModel
from fedgeom.methods.hyperfed.settings import HyperFedSettings
from fedgeom.methods.hyperfed.site import (
    CompareUpdates,
    FirstUpdateMessages,
    HyperFedSite,
    PairShares,
    RelayUpdateMessages,
)
from fedgeom.methods.iterative.algorithm import Algorithm, Specimen
from fedgeom.methods.iterative.training import Group, Outcome, TrainingLoop
from fedgeom.methods.iterative.tree import to_wire
from fedgeom.protocols.pairwise import asks_first, deliver, letter_bytes, open_shares


class UpdateGeometry(NamedTuple):
    """How the updates of the sites that are left lie to each other."""

    names: tuple[str, ...]
    cosines: Floats
    """(sites, sites)"""
    lengths: Floats
    """(sites,): of the updates, where raw deviations are weighed; else zeros."""


class HyperFedLoop(TrainingLoop):
    """One run of `HyperFed`."""

    rule: HyperFedSettings

    def __init__(self, rule: HyperFedSettings, sites: Coordinator):
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

    def compare(self, number: int, group: Group) -> UpdateGeometry:
        """Have every two sites compare their updates; sites that are lost on the way are left out."""
        given = to_wire(group.given)
        members = group.members
        begin = {
            name: CompareUpdates(
                round=number,
                given=given,
                agreed=self.agreed.hash,
                partners=tuple(other for other in members if other != name),
            )
            for name in members
        }
        first = self.sites.ask(begin, expect=FirstUpdateMessages)
        alive = set(first)
        shares = dict[tuple[str, str], int]()
        post = deliver({name: answer.letters for name, answer in first.items()}, alive)
        for turn in (1, 2):
            asked = {
                name: RelayUpdateMessages(round=number, number=turn, letters=letters)
                for name, letters in sorted(post.items())
            }
            replies = self.sites.ask(asked, expect=PairShares)
            alive -= set(replies.missing)
            shares |= {(name, other): s for name, reply in replies.items() for other, s in reply.shares.items()}
            post = deliver({name: reply.letters for name, reply in replies.items()}, alive)
        names = tuple(name for name in members if name in alive)
        lengths = np.array([first[name].length for name in names])
        return UpdateGeometry(names, _cosines(names, shares), lengths)


SHARE = 9
"""Bytes of a share of a cosine, at most."""


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


def _to_partners(names: tuple[str, ...], size: int, *, begins: bool) -> Bytes:
    """Return the bytes of what each site has for partners that it begins with, or for those that begin with it.

    ``size``: bytes for one partner, besides its name, which a letter and a share have each. Of many sites the mean.
    """
    if len(names) > COMPLETE_UP_TO:
        pairs = (len(names) - 1) / 2
        return map_size(len(names), pairs * (2 * sum(map(text_size, names)) / len(names) + size))
    found: dict[str, float] = {}
    for name in names:
        partners = [other for other in names if other != name and asks_first(name, other) == begins]
        found[name] = map_size(len(names), sum(2 * text_size(other) + size for other in partners))
    return found


PRINTED: dict[str, Any] = {
    "batch_size": 128,
    "epochs": 5,
    "learning_rate": 0.3,
    "head": {"name": "poincare", "slope": 0.9, "placing": "published"},
    "loss": {"name": "triplet", "margin": 3.0},
    "aggregation": {
        "name": "consistent",
        "deviations": "raw",
        "solver": "printed",
        "start": "rows",
        "min_effective_sites": 1.0,
    },
}
"""What the paper prints."""


@dataclass(frozen=True, kw_only=True)
class HyperFed(HyperFedSettings, Algorithm):
    """For sites that lack some classes: a network with a fixed point for each class (Liao et al. 2023).

    A network is trained towards fixed prototypes in the Poincaré ball; updates are aggregated consistently.
    Needs torch; the secure comparison of updates needs seal-python. `published` is the paper's own setting,
    `authors_code` what its public code does, `measured` what did best when measured.
    """

    name: ClassVar[str] = "hyperfed"
    site: ClassVar[type[Site[Any]]] = HyperFedSite
    conversation: ClassVar[type[TrainingLoop]] = HyperFedLoop
    model_type: ClassVar[type[Model]] = HyperFedModel

    def plan_rounds(self, shape: Shape, state: Specimen) -> Plan:
        """Yield how sites compare their updates, where the aggregation weighs them, and then sum them."""
        if self.compares:
            yield from self._plan_comparison(shape, state)
        yield from super().plan_rounds(shape, state)

    def _plan_comparison(self, shape: Shape, state: Specimen) -> Plan:
        """Yield the letters between every two sites, of which one begins."""
        asked = 1
        answered = 1
        if shape.known:
            asked, answered = letter_bytes(state.numbers, self.n_rounds)
        first = bytes_size(SEAL_BYTES + asked)
        back = bytes_size(SEAL_BYTES + answered)
        sizes = "letters between sites are rounded up; which sites train in a round"

        def compare(number: int) -> CompareUpdates:
            partners = shape.sites[1:]
            return CompareUpdates(round=number, given=state.given, agreed=bytes(32), partners=partners)

        yield Ask(
            compare,
            FirstUpdateMessages(letters={}, length=1.0),
            up=_to_partners(shape.sites, first, begins=True),
            times=self.n_rounds,
            bound=sizes,
        )
        for turn, came, sent in ((1, first, back + SHARE), (2, back, SHARE)):
            yield Ask(
                RelayUpdateMessages(round=self.n_rounds, number=turn, letters={}),
                PairShares(letters={}, shares={}),
                down=_to_partners(shape.sites, came, begins=turn == 2),
                up=_to_partners(shape.sites, sent, begins=turn == 2),
                times=self.n_rounds,
                bound=sizes,
            )

    @classmethod
    def published(cls, **changes: Any) -> HyperFed:
        """Return the paper's setting (Section 5.1), with prototypes and weights by its own equations 5 and 11.

        The search of weights starts from the sites' shares of rows, as printed, with ``secure=False``; a secure run
        hides these and starts from equal weights, and policies bound how few sites it mixes.
        """
        return cls(**(PRINTED | changes))

    @classmethod
    def authors_code(cls, **changes: Any) -> HyperFed:
        """Return what the authors' public code does where it differs from the paper.

        The triplet has margin 1 and twice a mixup cross-entropy on cosines beside it; deviations are scaled to norm 1
        before they are weighed; a site's momentum of .9 goes on from round to round.
        """
        coded: dict[str, Any] = {
            "loss": "public-triplet",
            "optimizer": {"name": "sgd", "momentum": 0.9, "kept": True},
            "aggregation": PRINTED["aggregation"] | {"deviations": "unit"},
        }
        return cls(**(PRINTED | coded | changes))

    @classmethod
    def measured(cls, **changes: Any) -> HyperFed:
        """Return what did best: a softmax over all distances instead of triplets, the mean instead of the weights."""
        return cls(**({"loss": "geodesic-softmax", "aggregation": "mean"} | changes))
