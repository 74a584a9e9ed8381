"""Figures add up, of a site and of all."""

from __future__ import annotations

from fedgeom.protocols.plan import Costs, Exchange, share_work, sum_work


def test_bytes_of_a_site_and_of_all() -> None:
    costs = Costs([Exchange("join.share", 1, 4, 100.0, 1000.5), Exchange("b", 3, 4, 10.0, 20.0, 0.5)], sites=4)
    assert (costs.questions, costs.down, costs.up) == (4, 130, 1060)
    assert (costs.total_down, costs.total_up, costs.largest) == (520, 4242, 1000)
    assert costs.site_seconds > 1.5
    assert costs.seconds > 4 * costs.site_seconds
    assert costs.coordinator_memory == 4 * 1000 + 2 * 4002


def test_a_question_to_some_of_the_sites_counts_for_some() -> None:
    half = Exchange("c", 2, 2, 10.0, 20.0, most_down=15.0, most_up=30.0)
    costs = Costs([Exchange("b", 1, 4, 1.0, 1.0), half], sites=4)
    assert (costs.questions, costs.down, costs.up) == (2, 11, 21)
    assert (costs.total_down, costs.total_up, costs.largest) == (44, 84, 30)


def test_work_grows_with_what_is_masked_and_shared() -> None:
    assert sum_work(10**6, 49, 50) > 40 * sum_work(10**4, 49, 50) / 10
    assert share_work(2, 50, 34) == 2 * share_work(1, 50, 34)
    few, many = Costs(sites=10), Costs(sites=10)
    few.unmasked(100, 10, 10, 1)
    many.unmasked(100, 10, 10, 7)
    assert many.seconds == 7 * few.seconds > 0
