"""Sites of Ellipses: what stays at home, and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest

import fedgeom
from fedgeom.errors import InputError
from fedgeom.federation.policy import Policy
from tests.methods.ellipses.making import cloud, own_words


def with_few(rows: int) -> list[fedgeom.SiteData]:
    first, *others = own_words()
    X, y = np.vstack([first.X, cloud(9, 0, rows) + 40]), [*first.y.tolist(), *["rare"] * rows]
    return [fedgeom.SiteData(first.name, X, np.array(y)), *others]


def test_rare_classes_stay_at_home() -> None:
    run = fedgeom.run(fedgeom.Ellipses(n_classes=4), with_few(4), seed=0)
    assert run.local["s0"]["left out"] == ["rare"]
    assert "rare" not in run.local["s0"]["names"]
    assert run.artifacts["ellipse_counts"].min() == 60


def test_the_policy_may_keep_more_at_home() -> None:
    kept = fedgeom.run(fedgeom.Ellipses(n_classes=5), with_few(20), seed=0)
    assert "rare" in kept.local["s0"]["names"]
    run = fedgeom.run(fedgeom.Ellipses(n_classes=4), with_few(20), seed=0, policy=Policy(min_rows_per_class=21))
    assert run.local["s0"]["left out"] == ["rare"]


def test_a_site_whose_classes_are_all_rare_is_told_beforehand() -> None:
    with pytest.raises(InputError, match=r"no class of 61 rows or more"):
        fedgeom.run(fedgeom.Ellipses(n_classes=4, min_rows=61), own_words())


def test_more_classes_than_there_are_is_told_beforehand() -> None:
    with pytest.raises(InputError, match="has 4 classes, a, b, c, d, but n_classes=3"):
        fedgeom.run(fedgeom.Ellipses(n_classes=3), own_words())


def test_what_is_sent_does_not_tell_the_order_of_words() -> None:
    seen = {
        tuple(
            fedgeom.run(fedgeom.Ellipses(n_classes=8, min_rows=2, scale="none"), sites_of_eight(), seed=s)
            .artifacts["owner_of_ellipse"]
            .tolist()
        )
        for s in range(6)
    }
    assert len(seen) > 1


def sites_of_eight() -> list[fedgeom.SiteData]:
    sites = []
    for at in range(3):
        X = np.vstack([cloud(at, which) + 20 * far for far in range(2) for which in range(4)])
        sites.append(fedgeom.SiteData(f"s{at}", X, np.repeat(list("abcdefgh"), 60)))
    return sites
