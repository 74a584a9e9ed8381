"""The plain twin of Ellipses: what a run yields, without messages."""

from __future__ import annotations

import fedgeom
from fedgeom.methods.ellipses.plain import plain
from tests.methods.ellipses.making import at_depth, own_words


def test_the_order_of_sites_makes_no_difference() -> None:
    method = fedgeom.Ellipses(n_classes=4)
    sites = own_words()
    first, other = plain(method, sites, 0), plain(method, sites[::-1], 0)
    assert first.model.to_bytes() == other.model.to_bytes()
    assert first.local == other.local


def test_a_run_has_the_same_names_covers_and_tree() -> None:
    method = fedgeom.Ellipses(n_classes=4, depth="mixed")
    found, run = plain(method, at_depth(), 3), fedgeom.run(method, at_depth(), seed=3)
    for name, local in found.local.items():
        assert {key: run.local[name][key] for key in local} == local
    assert found.model.to_bytes() == run.model.to_bytes()
