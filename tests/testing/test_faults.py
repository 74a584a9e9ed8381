"""Laws of loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

import fedgeom
from fedgeom.federation.coordinator import Sites
from fedgeom.testing import faults
from fedgeom.testing.examples import example_sites


@dataclass(frozen=True, kw_only=True)
class Fragile(fedgeom.Moments):
    name: ClassVar[str] = "test fragile"

    def conduct(self, sites: Sites) -> Any:
        model = super().conduct(sites)
        if sites.lost:
            raise ZeroDivisionError("nobody thought of that")
        return model


def test_a_method_that_dies_of_a_lost_site_is_found() -> None:
    with pytest.raises(AssertionError, match="the run died of it: ZeroDivisionError"):
        faults.a_lost_site_is_no_disaster(Fragile(), example_sites(), 0, all_sites=False)


def test_every_site_is_killed_at_every_step() -> None:
    assert faults.a_lost_site_is_no_disaster(fedgeom.Moments(), example_sites(), 0, all_sites=True) == 4 * 8


def test_the_coordinator_dies_after_every_step() -> None:
    assert faults.a_dead_coordinator_goes_on(fedgeom.Moments(), example_sites(), 0, every_step=True) == 8
