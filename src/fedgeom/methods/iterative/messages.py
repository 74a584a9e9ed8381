"""What travels in iterative training."""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec

from fedgeom.federation.messages import Array, Key, Message, Name, Names, Question
from fedgeom.protocols.secure_sum.messages import SumQuestion

Leaves = Annotated[dict[Name, Array | float | int], msgspec.Meta(max_length=100_000)]
"""A tree's leaves by their paths: arrays of the learner's dtype, or numbers."""
Factor = Annotated[float, msgspec.Meta(ge=0, le=1)]
Factors = dict[Name, Factor]
Figure = Annotated[float, msgspec.Meta(ge=-1e12, le=1e12)]
RoundNumber = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]


class Update(Message, kind="train.update"):
    """What a site sends after a round of training."""

    reveals: ClassVar[str] = (
        "this site's trained parameters, how many rows it has, its losses and right answers on rows set aside"
    )
    sent: Leaves
    weight: Annotated[float, msgspec.Meta(ge=0)]
    figures: Annotated[tuple[Figure, ...], msgspec.Meta(max_length=5)] = ()
    """Sums over the rows that the site sets aside (`Figures`): losses and right answers of the model it received and of
    its own."""


class TrainOpen(Question, kind="train.open", answer=Update):
    """Ask a site to train and to show what came of it."""

    answer_reveals: ClassVar[str] = (
        "this site's trained parameters (the method looks at each site's), its number of rows, its losses and "
        "right answers on rows set aside"
    )
    round: RoundNumber
    given: Leaves
    agreed: Key
    """A hash of the classes and the scale that all sites were told (`Agreed.hash`)."""
    faster: Names = ()
    """Sites whose rate is raised, where the terms say by how much."""


class TrainMasked(SumQuestion, kind="train.masked", packed=True, over_rows=False):
    """Ask a site to train and to add what came of it to a secure sum."""

    answer_reveals: ClassVar[str] = (
        "masked; with all others of the group: the weighted sum of trained parameters, the number of rows, the "
        "losses and right answers on rows set aside, how many parameters were cut off"
    )
    round: RoundNumber
    given: Leaves
    factors: Factors
    """What each site's weight is multiplied by: all see all, so that nobody can be singled out unnoticed."""
    agreed: Key
    """As in `TrainOpen`: sites that were told otherwise refuse, so that no sum mixes different scales."""
    faster: Names = ()
    """As in `TrainOpen`; learning rates themselves follow from the terms."""
    group: Names = ()
    """All sites that are averaged with this one, also those that do not train in this round; empty: all sites."""

    @property
    def weights(self) -> Factors:
        """What each site's weight is multiplied by."""
        return self.factors


class TrainGroup(SumQuestion, kind="train.group", packed=True, in_groups=True):
    """Ask a site to train and to add what came of it to the secure sum of its drawn group (`GroupMedian`)."""

    answer_reveals: ClassVar[str] = (
        "masked; with all others of its drawn group: the group's weighted sum of trained parameters, its number of "
        "rows, its losses and right answers on rows set aside, how many parameters were cut off. The coordinator sees "
        "the mean of each group"
    )
    round: RoundNumber
    given: Leaves
    factors: Factors
    """As in `TrainMasked`."""
    agreed: Key
    """As in `TrainOpen`."""
    faster: Names = ()
    group: Names = ()
    """Empty: the group is drawn, and told by nobody."""

    @property
    def weights(self) -> Factors:
        """What each site's weight is multiplied by."""
        return self.factors


Masked = TrainMasked | TrainGroup
"""What asks for a site's masked model, among all sites or in its drawn group."""


class Finished(Message, kind="train.finished", harmless=True):
    """A site has its model."""

    reveals: ClassVar[str] = "nothing: a receipt; a personal model stays at the site"


class Finish(Question, kind="train.finish", answer=Finished):
    """Give a site the last model; what it makes of it for itself stays there."""

    given: Leaves
