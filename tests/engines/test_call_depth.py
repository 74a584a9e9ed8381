"""How deep a question goes: from the user's call of `fedgeom.run` to the method of a site that answers it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fedgeom
from fedgeom.engines.run import run
from fedgeom.federation.messages import Question
from fedgeom.federation.site import Site

MOST_FRAMES = 14
"""How many functions a reader goes through at most, `fedgeom.run` and the handler included."""


def frames() -> list[str]:
    """Return the names of the functions from `fedgeom.run` to the caller of this one."""
    frame = sys._getframe(1)
    found = [frame.f_code.co_qualname]
    while frame.f_code is not run.__code__:
        assert frame.f_back is not None, "fedgeom.run is not on the stack"
        frame = frame.f_back
        found.append(frame.f_code.co_qualname)
    return found[::-1]


def test_few_functions_stand_between_a_run_and_a_sites_handler(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, list[str]] = {}
    original = Site.handler

    def watched(site: Site[Any], question: Question) -> Callable[[Any], Any]:
        handler = original(site, question)

        def handle(ask: Any) -> Any:  # stands where the handler would
            seen[ask.kind] = frames()
            return handler(ask)

        return handle

    monkeypatch.setattr(Site, "handler", watched)
    rng = np.random.default_rng(0)
    labels = np.array(["a", "b"] * 20)
    sites = [fedgeom.SiteData(name, rng.normal(size=(40, 5)), labels) for name in ("ulm", "bern", "graz")]
    fedgeom.run(fedgeom.Ridge(features="linear"), sites, holdout=0.25)
    own = {kind: path for kind, path in seen.items() if kind.startswith("ridge.")}
    assert {"ridge.columns", "ridge.gram", "ridge.solution", "ridge.check", "ridge.calibration"} == set(own)
    for kind, path in own.items():
        assert len(path) <= MOST_FRAMES, f"{kind}: " + " → ".join(path)
