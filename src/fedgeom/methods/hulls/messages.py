"""The questions of the hulls method, and what their answers reveal."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import msgspec

from fedgeom.federation.messages import Array, Message, Question
from fedgeom.methods.hulls.plan import HullPlan
from fedgeom.protocols.secure_sum import MaskedVector, Ticket


class SumScatter(Question, frozen=True, kw_only=True):
    """Ask for a site's masked scatter matrices, from which a joint map to the disc is made."""

    kind: ClassVar[str] = "hulls.scatter"
    answer: ClassVar[type[Message]] = MaskedVector
    answer_reveals: ClassVar[str] = "masked; with all others: the sites' scatter matrices and row counts, added up"
    ticket: Ticket


class Reach(Question, frozen=True, kw_only=True):
    """Ask for masked levels: how many classes, how many hull points, how far out (Section 5.5's K_max)."""

    kind: ClassVar[str] = "hulls.reach"
    answer: ClassVar[type[Message]] = MaskedVector
    answer_reveals: ClassVar[str] = (
        "masked; with all others: the most classes, most hull points and largest radius at any site, not whose"
    )
    ticket: Ticket
    embedding: Array | None
    curvature: Annotated[float, msgspec.Meta(gt=0)]
    trim: Annotated[float, msgspec.Meta(ge=0, lt=1)] | Literal["auto"]


class EncodeHulls(Question, frozen=True, kw_only=True):
    """Ask for a site's masked word: its quantized hulls under its labels (Sections 5.4 and 5.5)."""

    kind: ClassVar[str] = "hulls.encode"
    answer: ClassVar[type[Message]] = MaskedVector
    answer_reveals: ClassVar[str] = (
        "masked; with all others: the quantized hulls of all sites' classes, not whose and not their names"
    )
    ticket: Ticket
    plan: HullPlan
    embedding: Array | None
    trim: Annotated[float, msgspec.Meta(ge=0, lt=1)] | Literal["auto"]


class Learnt(Message, frozen=True, kw_only=True):
    """A site has the model."""

    kind: ClassVar[str] = "hulls.learnt"
    reveals: ClassVar[str] = "nothing: a receipt"


class Learn(Question, frozen=True, kw_only=True):
    """Give the sites the model, and the group of every label; each finds its own labels among them."""

    kind: ClassVar[str] = "hulls.learn"
    answer: ClassVar[type[Message]] = Learnt
    groups: tuple[int, ...]
    model: bytes
