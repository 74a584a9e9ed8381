"""The setting ``privacy``: what it may be, how it travels, and what it does not go with."""

from __future__ import annotations

from typing import Any

import pytest

from fedgeom import DP, FedAvg, Hulls, InputError, Moments
from fedgeom.federation.privacy import privacy_of, smallest_sum

CLASSES = ("a", "b")


def test_it_travels_as_a_table_and_comes_back() -> None:
    method = Moments(classes=CLASSES, privacy=DP(epsilon=1, delta=1e-6, clip=2))
    terms = method.terms()
    wanted = {"epsilon": 1.0, "delta": 1e-6, "clip": 2.0, "unit": "row", "colluders": 1}
    assert terms["privacy"] == wanted
    assert Moments.from_terms(terms) == method
    assert Moments(classes=CLASSES, privacy={"epsilon": 1, "clip": 2, "delta": 1e-6}) == method
    assert privacy_of(Moments()) is None
    assert privacy_of(Hulls()) is None


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"epsilon": 0, "clip": 1}, "epsilon=0 given; wanted a number above 0"),
        ({"epsilon": -1, "clip": 1}, "epsilon=-1 given; wanted a number above 0"),
        ({"epsilon": float("inf"), "clip": 1}, "epsilon=inf given; wanted a number above 0"),
        ({"epsilon": 1, "clip": 0}, "clip=0 given; wanted a number above 0"),
        ({"epsilon": 1, "clip": float("nan")}, "clip=nan given"),
        ({"epsilon": 1, "clip": 1e300}, "clip=1e.300 given; wanted a length from 1e-100 to 1e.100"),
        ({"epsilon": 1, "clip": 1, "delta": 0}, r"delta=0 given; wanted a number from 0 \(excluded\) to 0.01"),
        ({"epsilon": 1, "clip": 1, "delta": 0.5}, "delta=0.5 given"),
        ({"epsilon": 1, "clip": 1, "delta": 1e-30}, "exact enough for delta = 4e-21 or more with this epsilon"),
        ({"epsilon": 1000, "clip": 1}, "or an epsilon that promises something, such as 1"),
        ({"epsilon": 1, "clip": 1, "unit": "patient"}, "unit='patient' given; wanted one of 'row', 'site'"),
        ({"epsilon": 1, "clip": 1, "colluders": -1}, "colluders=-1 given"),
    ],
)
def test_bad_settings_say_what_is_wanted(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        DP(**settings)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"privacy": 1.0}, r"privacy=1.0 given; wanted DP\(epsilon=…"),
        ({"privacy": {"epsilon": 0, "clip": 1}}, "privacy: epsilon=0 given; wanted a number above 0"),
        ({"privacy": {"epsilon": 1}}, "a table with epsilon, delta and clip"),
        ({"privacy": {"epsilon": 1, "clip": 1, "noise": 2}}, "a table with epsilon, delta and clip"),
        ({"privacy": DP(epsilon=1, clip=1)}, "needs the label names in its terms"),
        ({"privacy": DP(epsilon=1, clip=1), "classes": CLASSES, "prepare": "table"}, "the words of each column"),
        (
            {"privacy": DP(epsilon=1, clip=1), "classes": CLASSES, "prepare": ["scale"]},
            r"needs ranges=\[low, high",
        ),
        ({"privacy": DP(epsilon=1, clip=1), "classes": CLASSES, "prepare": ["pca"]}, "needs clip="),
        ({"privacy": DP(epsilon=1, clip=1), "classes": CLASSES, "prepare": ["to-disc"]}, "has no bound for a row"),
        ({"privacy": DP(epsilon=1, clip=1), "classes": CLASSES, "prepare": "counts"}, 'wanted flavor="variance"'),
        (
            {"privacy": DP(epsilon=1, clip=1), "classes": CLASSES, "holdout": {"share": 0.2, "grouped": True}},
            "wanted grouped=False",
        ),
        ({"privacy": DP(epsilon=1, clip=1, unit="site"), "classes": CLASSES}, 'wanted unit="row"'),
        ({"privacy": DP(epsilon=1, clip=1, colluders=3), "classes": CLASSES}, "Wanted min_sites = 4 at least"),
    ],
)
def test_what_noise_would_not_cover_is_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        Moments(**settings)


def test_a_method_without_a_bound_says_so_and_names_those_that_have_one() -> None:
    with pytest.raises(InputError, match=r"Hulls has no bound on what one row adds .*: .*moments"):
        Hulls(privacy=DP(epsilon=1, clip=1))  # type: ignore[call-arg]


def test_the_smallest_sum_is_what_terms_and_policies_ask_for() -> None:
    assert smallest_sum(Moments(min_sites=5)) == 5
    assert smallest_sum(Moments(min_sites=5), 8) == 8
    assert smallest_sum(FedAvg(min_sites=1)) == 2
