"""The site of Ridge: it looks at its data first, keeps to the terms, and takes no false sum and no false solution."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from fedgeom import Ridge
from fedgeom.data.sites import SiteData
from fedgeom.errors import InputError
from fedgeom.federation.messages import Array, Refusal, decode, pack, unpack
from fedgeom.methods.ridge.core import TEMPERATURES
from fedgeom.methods.ridge.messages import (
    CheckPart,
    SolutionTaken,
    SumGram,
    TakeSolution,
)
from fedgeom.protocols.model_delivery import TakeResult
from tests.methods.coordinators import RUN, fresh, hold, overhear, refusals, stamped
from tests.methods.laws import assert_model_files_are_the_sites_own
from tests.methods.ridge.making import SHAPE, SMALL_CONV, blobs, images


@pytest.mark.parametrize(
    ("data", "settings", "words"),
    [
        (SiteData("s", np.zeros((0, 2)), []), {}, "site 's' has no rows"),
        (SiteData("s", [[0.0, np.inf]], ["a"]), {}, "row 0, column 1 is inf"),
        (SiteData("s", [[0.0, 0.0], [0.0, 0.0]], ["a", ""]), {}, "1 of 2 rows have no label"),
        (SiteData("s", [[0.0, 0.0]], ["z"]), {"classes": ("a", "b")}, "outside the agreed classes: z"),
        (SiteData("s", [[0.0] * 5], ["a"]), {"max_features": 4}, "site 's': 5 features given"),
        (SiteData("s", [[0.0] * 5], ["a"]), {"features": "conv", "shape": (2, 2, 1)}, "site 's': .*4 cells"),
    ],
)
def test_data_that_cannot_be_used_are_refused_naming_the_site(
    data: SiteData, settings: dict[str, Any], words: str
) -> None:
    method = Ridge(**{"features": "linear"} | settings)
    with pytest.raises(InputError, match=words):
        fresh(method, data).check(method)


def other_part(ask: Any) -> Any:
    return stamped(ask, part=1)


def other_classes(ask: Any) -> Any:
    return stamped(ask, classes=("c1", "c0", "c2"))


def false_moments(ask: Any) -> Any:
    total = ask.last.total.numpy()
    total[0] += np.uint64(1)
    return stamped(ask, last=msgspec.structs.replace(ask.last, total=Array.of(total)))


@pytest.mark.parametrize(
    ("lie", "words"),
    [
        (other_part, "part 1 of the sum is not what round 4 is for"),
        (other_classes, "other classes than the sites agreed on"),
        (false_moments, "its tag does not fit"),
    ],
)
def test_products_of_other_features_than_the_terms_make_are_refused(lie: Any, words: str) -> None:
    (reason,) = refusals(Ridge(features="linear"), blobs(), SumGram, lie)
    assert words in reason


def false_weights(ask: TakeSolution) -> TakeSolution:
    weights = ask.weights.numpy()
    weights[1, 0] += 0.01
    return msgspec.structs.replace(ask, weights=Array.of(weights))


def false_alpha(ask: TakeSolution) -> TakeSolution:
    return msgspec.structs.replace(ask, alpha=7.0)


def false_part(ask: CheckPart) -> CheckPart:
    total = ask.result.total.numpy()
    total[3] += np.uint64(1 << 30)
    return msgspec.structs.replace(ask, result=msgspec.structs.replace(ask.result, total=Array.of(total)))


@pytest.mark.parametrize(
    ("kind", "lie", "words"),
    [
        (TakeSolution, false_alpha, "another alpha than the terms allow"),
        (CheckPart, false_part, "its tag does not fit"),
        (CheckPart, lambda ask: msgspec.structs.replace(ask, number=1), "unexpected part 1 of the sum"),
    ],
)
def test_a_false_solution_or_sum_is_not_taken(kind: Any, lie: Any, words: str) -> None:
    (reason,) = refusals(Ridge(features="linear"), blobs(), kind, lie)
    assert words in reason


def test_weights_that_do_not_solve_the_equations_are_found_out_at_the_last_part() -> None:
    heard, engine = overhear(Ridge(features="linear"), blobs())
    own = [one for one in heard if one.name == "s0"]
    at = next(number for number, one in enumerate(own) if isinstance(one.question, TakeSolution))
    lie = pack(RUN, "ridge", false_weights(own[at].question))
    reply, memory = engine.runners["s0"].answer(lie, own[at - 1].memory)
    assert unpack(reply).kind == SolutionTaken.kind
    reply, memory = engine.runners["s0"].answer(own[at + 1].request, memory)
    assert "not that of the sums which the sites added up" in decode(unpack(reply).body, Refusal).reason
    reply, _ = engine.runners["s0"].answer(own[at + 2].request, memory)
    assert "not checked yet" in decode(unpack(reply).body, Refusal).reason


def test_the_temperature_follows_from_a_sum_that_is_checked() -> None:
    def lie(ask: TakeResult) -> TakeResult:
        total = ask.result.total.numpy()
        total[0] = np.uint64(0)
        return TakeResult(result=msgspec.structs.replace(ask.result, total=Array.of(total)))

    (reason,) = refusals(Ridge(features="linear"), blobs(), TakeResult, lie)
    assert "its tag does not fit" in reason
    assert hold(Ridge(features="linear"), blobs()).model.temperature in TEMPERATURES


@pytest.mark.parametrize("method", [Ridge(features="linear"), Ridge(features=SMALL_CONV, shape=SHAPE)])
def test_every_site_makes_the_joint_model_itself(method: Ridge) -> None:
    sites = blobs() if not method.shape else images()
    assert_model_files_are_the_sites_own(method, sites)
    held = hold(method, sites)
    for site in sites:
        assert held.site(site.name).model_file() == held.model.to_bytes()
        right = float(np.mean(held.model.predict(site.X) == site.y))
        assert held.local()[site.name] == {"fits": right, "rows": len(site)}


def test_before_it_has_the_model_a_site_has_nothing() -> None:
    site = fresh(Ridge(features="linear"), blobs()[0])
    assert (site.result(), site.model_file()) == ({}, b"")
