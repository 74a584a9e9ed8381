"""The site of Moments: it looks at its data first, keeps to the terms, and keeps the model."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from fedgeom import Moments
from fedgeom.data.sites import SiteData
from fedgeom.errors import InputError
from fedgeom.federation.messages import Array, Refusal, decode, pack, unpack
from fedgeom.methods.moments.messages import SumMoments
from fedgeom.methods.moments.site import MomentsSite
from fedgeom.protocols.handing_out import TakeModel, TakeResult
from fedgeom.protocols.names.messages import CountNames
from tests.methods.coordinators import RUN, fresh, hold, refusals, stamped
from tests.methods.hulls.drawing import blobs
from tests.methods.laws import assert_model_files_are_the_sites_own

CLASSES = ("0", "1")


@pytest.mark.parametrize(
    ("data", "settings", "words"),
    [
        (SiteData("s", np.zeros((0, 2)), []), {}, "site 's' has no rows"),
        (SiteData("s", [[0.0, np.inf], [0.0, 0.0]], [0, 0]), {}, "row 0, column 1 is inf"),
        (SiteData("s", [[0.0, 0.0], [0.0, 0.0]], ["a", ""]), {}, "1 of 2 rows have no label"),
        (SiteData("s", [[0.0, 0.0]], ["a"]), {}, "fewer than 2 rows: 'a'"),
        (
            SiteData("s", [[2.0, 0.0], [0.0, 0.0]], [0, 0]),
            {},
            r"site 's': 1 of 2 rows are no points .*row 0 has norm 2, .* table .*say space=\"euclidean\"",
        ),
        (
            SiteData("s", [[0.0, 0.0], [0.0, 0.0]], ["c", "c"]),
            {"classes": CLASSES},
            "outside the agreed classes: c",
        ),
    ],
)
def test_data_that_cannot_be_used_are_refused_naming_the_site(
    data: SiteData, settings: dict[str, Any], words: str
) -> None:
    method = Moments(**settings)
    with pytest.raises(InputError, match=words):
        fresh(method, data).check(method)


def test_in_euclidean_space_rows_may_lie_anywhere() -> None:
    method = Moments(space="euclidean")
    fresh(method, SiteData("s", [[2.0, 0.0], [0.0, 0.0]], [0, 0])).check(method)


@pytest.mark.parametrize(
    ("method", "change", "words"),
    [
        (Moments(), {"curvature": 2.0}, "another space than the one the site joined on"),
        (Moments(), {"curvature": None}, "another space than the one the site joined on"),
        (Moments(space="euclidean"), {"curvature": 1.0}, "another space than the one the site joined on"),
        (Moments(classes=CLASSES), {"classes": ("1", "0")}, "other classes than the sites agreed on"),
    ],
)
def test_moments_of_another_kind_than_the_terms_say_are_refused(
    method: Moments, change: dict[str, Any], words: str
) -> None:
    (reason,) = refusals(method, blobs(3, 2), SumMoments, lambda ask: stamped(ask, **change))
    assert words in reason


def test_a_second_sum_is_not_planned() -> None:
    assert tuple(MomentsSite.planned_sums(Moments())) == (CountNames, SumMoments)
    later = {"round": 2}
    (reason,) = refusals(
        Moments(),
        blobs(3, 2),
        SumMoments,
        lambda ask: stamped(ask, ticket=msgspec.structs.replace(ask.ticket, **later)),
    )
    assert "round 2 was not announced when joining" in reason


@pytest.mark.parametrize("space", ["ball", "euclidean"])
def test_every_site_keeps_the_joint_model(space: Any) -> None:
    sites, method = blobs(3, 3), Moments(space=space)
    assert_model_files_are_the_sites_own(method, sites)
    held = hold(method, sites)
    for site in sites:
        assert held.site(site.name).model_file() == held.model.to_bytes()
        right = float(np.mean(held.model.predict(site.X) == site.y.astype(str)))
        assert held.local()[site.name] == {"fits": right, "rows": len(site)}


def test_before_it_has_the_model_a_site_has_nothing() -> None:
    site = fresh(Moments(), blobs(3, 2)[0])
    assert (site.result(), site.model_file()) == ({}, b"")


def other_total(ask: Any) -> TakeResult:
    """Add one row to the first class."""
    total = ask.result.total.numpy()
    total[0] += np.uint64(1 << SumMoments.fraction_bits)
    return TakeResult(result=msgspec.structs.replace(ask.result, total=Array.of(total)))


def of_other_sites(ask: Any) -> TakeResult:
    """Say that the sum has no part of the last site."""
    return TakeResult(result=msgspec.structs.replace(ask.result, sites=ask.result.sites[:-1]))


@pytest.mark.parametrize("lie", [other_total, of_other_sites])
def test_a_false_sum_is_not_taken(lie: Any) -> None:
    reasons = refusals(Moments(), blobs(4, 2), TakeResult, lie)
    assert reasons == {"the sum that came is not the one that the sites added up: its tag does not fit"}


def test_a_model_on_the_coordinators_word_is_not_taken() -> None:
    sites = blobs(3, 2)
    held = hold(Moments(), sites)
    request = pack(RUN, "moments", TakeModel(model=held.model.to_bytes()))
    reply, _ = held.engine.runners["site-1"].answer(request, held.engine.memories["site-1"])
    assert "do not take a model on the coordinator's word" in decode(unpack(reply).body, Refusal).reason
