"""A tiny method whose sites count: the smallest conversation there is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import msgspec
import numpy as np

from fedgeom.data.sites import SiteData
from fedgeom.engines.embedded import EmbeddedEngine
from fedgeom.errors import InputError, ProtocolError
from fedgeom.federation.coordinator import Coordinator
from fedgeom.federation.messages import Message, Question
from fedgeom.federation.method import Method
from fedgeom.federation.site import Memory, Site, answers
from tests.unlisted import unlisted

RUN, OTHER_RUN = bytes(32), bytes(31) + b"\x01"


class Number(Message, frozen=True, kw_only=True):
    kind: ClassVar[str] = "test.number"
    reveals: ClassVar[str] = "a number"
    value: int


class Count(Question, frozen=True, kw_only=True):
    kind: ClassVar[str] = "test.count"
    answer: ClassVar[type[Message]] = Number
    add: Annotated[int, msgspec.Meta(ge=0)] = 1


class Counted(Memory, kw_only=True):
    total: int = 0


class CountingSite(Site[Counted]):
    memory_type: ClassVar[type[Memory]] = Counted

    @answers(Count)
    def count(self, ask: Count) -> Number:
        self.memory.total += ask.add
        if ask.add == 13:
            raise ProtocolError("thirteen is not counted")
        if ask.add == 66:
            raise InputError(f"the first row is {self.data.X[0].tolist()}")
        return Number(value=self.memory.total)


@unlisted
@dataclass(frozen=True, kw_only=True)
class Counting(Method):
    name: ClassVar[str] = "counting"
    site: ClassVar[type[Site[Any]]] = CountingSite


def make(n: int = 3, **options: object) -> tuple[Coordinator, EmbeddedEngine]:
    data = [SiteData(f"s{i}", np.full((2, 1), 12345.0 + i), np.zeros(2)) for i in range(n)]
    engine = EmbeddedEngine(Counting(), data, **options)  # type: ignore[arg-type]
    return Coordinator(engine, run=RUN, method="counting"), engine
