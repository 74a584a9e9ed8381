"""The joint map at a site: one scale for all where the terms say so, and no map that does not follow from the sums."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

import fedgeom
from fedgeom.data.sites import SiteData
from fedgeom.methods.hulls.embedding import joint_scales, site_scale
from fedgeom.methods.hulls.messages import SumScatter
from tests.methods.coordinators import hold, refusals, stamped
from tests.methods.hulls.pooled import pooled
from tests.methods.laws import assert_model_files_are_the_sites_own, assert_run_is

CLASSES = {"a": (3.0, 0.0, 0.0), "b": (0.0, 3.0, 0.0), "c": (0.0, 0.0, 3.0)}
JOINT = fedgeom.Hulls(embedding="discriminant", scale="joint", n_classes=3)
replace = msgspec.structs.replace


def donors(*classes: str, seed: int = 0) -> list[SiteData]:
    """Return sites with three columns that have some of three classes each."""
    rng = np.random.default_rng(seed)
    return [
        SiteData(
            f"s{at}",
            np.vstack([rng.normal(CLASSES[one], 0.4, size=(30, 3)) for one in mine]),
            np.repeat(list(mine), 30),
        )
        for at, mine in enumerate(classes)
    ]


def rightly_named(run: fedgeom.Run) -> int:
    """Count the names that are in the class in which most of the sites have them."""
    groups = [(word, group) for result in run.local.values() for word, group in result["names"].items()]
    usual = {word: max((groups.count((word, g)), g) for _, g in groups)[1] for word, _ in groups}
    return sum(usual[word] == group for word, group in groups)


def test_donors_of_one_class_are_not_taken_to_the_origin() -> None:
    sites = donors("abc", "abc", "a", "b", "c")
    apart = fedgeom.run(fedgeom.Hulls(embedding="discriminant", n_classes=3), sites)
    joint = fedgeom.run(JOINT, sites)
    assert rightly_named(joint) == 9 > rightly_named(apart)
    disc = [joint.model.for_site(joint.local[site.name]).to_disc(site.X) for site in sites]
    assert all(np.linalg.norm(points.mean(axis=0)) > 0.3 for points in disc[2:])


@pytest.mark.parametrize("method", [JOINT, fedgeom.Hulls(embedding="discriminant", names="shared")])
def test_with_one_scale_the_model_has_it_and_no_site_its_own(method: Any) -> None:
    sites = donors("abc", "ab", "bc", "c")
    run = assert_run_is(pooled, method, sites)
    assert_model_files_are_the_sites_own(method, sites)
    assert all("scales" not in result for result in run.local.values())
    scale = joint_scales(sum(site_scale(site.X) for site in sites), 3)
    np.testing.assert_allclose(run.model.scales, scale, atol=1e-5)


def test_the_site_remembers_the_joint_scale() -> None:
    held = hold(JOINT, donors("abc", "abc", "ab"))
    kept = np.frombuffer(held.site("s0").memory.map.scales).reshape(2, 3)
    np.testing.assert_array_equal(kept, held.model.scales)


def test_scatter_is_not_given_under_another_scale_than_the_sums_say() -> None:
    sites = donors("abc", "abc", "ab")

    def without(ask: SumScatter) -> SumScatter:
        return stamped(replace(ask, scales=None))

    (reason,) = refusals(JOINT, sites, SumScatter, without)
    assert "a joint scale came where the terms have none, or none where they have one" in reason

    def other(ask: SumScatter) -> SumScatter:
        total = ask.scales.total.numpy().copy()
        total[1] += np.uint64(2**40)
        return stamped(replace(ask, scales=replace(ask.scales, total=type(ask.scales.total).of(total))))

    assert refusals(JOINT, sites, SumScatter, other)
