"""The settings of pTopoFL: what they may be, and what follows from them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedgeom import PTopoFL
from fedgeom.errors import InputError


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"cluster_by": "colour"}, "cluster_by='colour'"),
        ({"trust": "faith"}, "trust='faith'"),
        ({"beta": 1.5}, "beta=1.5"),
        ({"n_clusters": 0}, "n_clusters=0"),
        ({"n_points": 1}, "points"),
        ({"secure": True, "trust": "updates"}, "secure=False"),
        ({"epsilon": 1.0, "track_every": 2}, "one descriptor"),
        ({"epsilon": 1.0, "cluster_by": "classes"}, "one descriptor"),
    ],
)
def test_wrong_settings_are_refused_in_words(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        PTopoFL(**settings)


def test_terms_travel_and_come_back() -> None:
    method = PTopoFL(beta=np.float64(0.5), n_clusters=np.int64(2), schedule={"name": "decay", "decay": 0.9})  # type: ignore[arg-type]
    assert PTopoFL.from_terms(method.terms()) == method


@pytest.mark.parametrize(
    ("settings", "describes", "by_rows", "by_class", "masked", "groups"),
    [
        ({}, True, True, False, True, 4),
        ({"cluster_by": "none", "trust": "none"}, False, False, False, True, 1),
        ({"cluster_by": "classes", "trust": "none", "n_clusters": 2}, True, False, True, True, 2),
        ({"cluster_by": "none", "trust": "merges"}, True, False, False, True, 1),
        ({"cluster_by": "updates", "trust": "none"}, False, False, False, False, 4),
        ({"cluster_by": "diagrams", "trust": "classes"}, True, False, True, True, 4),
        ({"secure": False}, True, True, False, False, 4),
    ],
)
def test_what_follows_from_the_settings(
    settings: dict[str, Any], describes: bool, by_rows: bool, by_class: bool, masked: bool, groups: int
) -> None:
    method = PTopoFL(**settings)
    assert (method.describes, method.by_rows, method.by_class) == (describes, by_rows, by_class)
    assert (method.masked, method.groups) == (masked, groups)


def test_shapes_are_looked_at_in_the_first_round_and_where_they_are_tracked() -> None:
    assert [at for at in range(8) if PTopoFL(n_rounds=8).describes_in(at)] == [0]
    assert [at for at in range(12) if PTopoFL(n_rounds=8, track_every=3).describes_in(at)] == [0, 3, 6]


def test_the_papers_own_settings() -> None:
    published = PTopoFL.published(n_rounds=3)
    assert (published.n_clusters, published.solver, published.secure) == (2, "exact", False)
    assert published.augment
    assert published.unit_box
    assert not published.size_free
    assert published.extra_columns == 4
    assert published.n_rounds == 3


def test_terms_that_would_need_thousands_of_sums_are_refused_before_anything_is_built() -> None:
    with pytest.raises(InputError, match="500 rounds of 100 groups given; wanted at most 2045 secure sums"):
        PTopoFL(n_rounds=500, n_clusters=100)
    with pytest.raises(InputError, match="n_clusters=1000000000 given"):
        PTopoFL(n_clusters=10**9)


def test_sites_are_clustered_anew_where_shapes_are_looked_at_again() -> None:
    rounds = range(7)
    assert [PTopoFL(n_rounds=7).regroups_in(number) for number in rounds] == [True] + [False] * 6
    tracked = PTopoFL(n_rounds=7, track_every=3)
    assert [number for number in rounds if tracked.regroups_in(number)] == [0, 3, 6]
    blind = PTopoFL(n_rounds=7, track_every=3, cluster_by="none", trust="none")
    assert [number for number in rounds if blind.regroups_in(number)] == [0]


def test_weights_come_from_closeness_or_trust() -> None:
    assert PTopoFL().weighs_sites
    assert PTopoFL(trust="none").weighs_sites
    assert PTopoFL(closeness=False).weighs_sites
    assert not PTopoFL(closeness=False, trust="none").weighs_sites


def test_shapes_of_later_rounds_and_of_activations() -> None:
    later = PTopoFL(n_rounds=9, first_descriptor_round=2, track_every=3)
    assert [number for number in range(9) if later.describes_in(number)] == [2, 5, 8]
    assert [number for number in range(9) if later.regroups_in(number)] == [0, 2, 5, 8]
    assert "shape of each site's activations" in PTopoFL(descriptor_input="activations").shows_one_site()
    assert "shape of each site's rows" in PTopoFL().shows_one_site()
    for settings, said in (
        ({"descriptor_input": "activations", "epsilon": 1.0}, "no public bounds"),
        ({"first_descriptor_round": 15}, "wanted a round that comes"),
        ({"topo_inputs": True, "network": "lenet", "shape": (1, 28, 28)}, "add 48 columns"),
        ({"augment": True, "topo_inputs": True, "network": "lenet", "shape": (1, 28, 28)}, "add 52 columns"),
    ):
        with pytest.raises(InputError, match=said):
            PTopoFL(**settings)
