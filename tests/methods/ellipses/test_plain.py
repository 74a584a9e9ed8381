"""Without masks, Ellipses yields what a run does."""

from __future__ import annotations

import fedgeom
from tests.methods.ellipses.making import at_depth, own_words


def test_the_order_of_sites_makes_no_difference() -> None:
    method = fedgeom.Ellipses(n_classes=4)
    sites = own_words()
    first, other = method.plain(sites), method.plain(sites[::-1])
    assert first.model.to_bytes() == other.model.to_bytes()
    assert first.local == other.local


def test_a_run_has_the_same_names_covers_and_tree() -> None:
    method = fedgeom.Ellipses(n_classes=4, depth="mixed")
    found, run = method.plain(at_depth(), 3), fedgeom.run(method, at_depth(), seed=3)
    assert found.local == run.local
    assert found.model.to_bytes() == run.model.to_bytes()
