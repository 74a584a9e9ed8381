"""The engine in this process: bytes as on a network, sites that differ in name, results that stay apart."""

from __future__ import annotations

import numpy as np
import pytest

from fedgeom.data.sites import SiteData
from fedgeom.engines.embedded import EmbeddedEngine
from fedgeom.errors import InputError
from fedgeom.federation.coordinator import Lost
from fedgeom.federation.messages import pack, unpack
from fedgeom.federation.record import SiteResult
from tests.federation.counting import RUN, Count, Counting, CountingSite, make


def test_an_oversized_or_broken_question_is_a_loss_to_the_engine() -> None:
    _, engine = make(1)
    ((name, reply),) = engine.deliver({"s0": b"garbage"})
    assert name == "s0"
    assert isinstance(reply, Lost)


def test_site_names_must_differ() -> None:
    data = [SiteData("same", np.zeros((1, 1)), np.zeros(1))] * 2
    with pytest.raises(InputError, match="more than once: same"):
        EmbeddedEngine(Counting(), data)


def test_a_site_that_is_interfered_with_does_not_even_hear_the_question() -> None:
    _, engine = make(2, interfere=lambda name, request: unpack(request).kind if name == "s1" else None)
    replies = dict(engine.deliver(dict.fromkeys(["s0", "s1"], pack(RUN, "counting", Count()))))
    assert replies["s1"] == Lost("test.count")
    assert set(engine.memories) == {"s0"}


def test_results_are_those_of_sites_that_answered_with_their_models_if_asked_for() -> None:
    class Ending(CountingSite):
        def result(self) -> dict[str, int]:
            return {"total": self.memory.total}

        def model_file(self) -> bytes:
            return b"model"

    _, engine = make(3)
    for runner in engine.runners.values():
        runner.site = Ending
    list(engine.deliver(dict.fromkeys(["s0", "s2"], pack(RUN, "counting", Count(add=4)))))
    found = {"total": 4, "label_type": "float"}
    wanted = {name: SiteResult(name, found, b"model") for name in ("s0", "s2")}
    assert engine.results(RUN, models=True) == wanted
    assert engine.results(RUN, models=False) == {name: SiteResult(name, found) for name in wanted}
