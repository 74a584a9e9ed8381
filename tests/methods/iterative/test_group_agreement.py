"""Training in groups begins with a scale that one liar cannot bend, and with each group's own rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fedgeom
from fedgeom.errors import TooFewSitesError
from fedgeom.federation.messages import Refusal
from fedgeom.federation.policy import Policy
from fedgeom.methods.iterative import GroupMedian
from fedgeom.methods.iterative.group_training import BeginGroups, SumGroupColumns, scale_of_groups
from fedgeom.methods.iterative.messages import TrainGroup
from fedgeom.methods.iterative.setup import Agreement, BeginTraining, column_sums
from fedgeom.testing import example_sites
from tests.attacks.playing import Liar, replace

METHOD = fedgeom.FedAvg(n_rounds=1, epochs=1, aggregation=GroupMedian(n_groups=3, drawn_by="seed"))


def test_the_scale_is_the_median_of_the_groups_scales() -> None:
    rng = np.random.default_rng(0)
    groups = [rng.normal([5.0, -3.0], [2.0, 0.5], size=(500, 2)) for _ in range(5)]
    sums = [column_sums(X) for X in groups]
    centre, spread = scale_of_groups(sums)
    np.testing.assert_allclose(centre, [5.0, -3.0], atol=0.2)
    np.testing.assert_allclose(spread, [2.0, 0.5], rtol=0.1)
    bent = scale_of_groups([*sums[:3], 1e6 * sums[3], column_sums(1e6 * groups[4])])  # two of five are a liar's
    np.testing.assert_allclose(bent[0], [5.0, -3.0], atol=0.3)
    np.testing.assert_allclose(bent[1], [2.0, 0.5], rtol=0.15)


def test_planned_sums_are_taken_in_each_group() -> None:
    assert [one.kind for one in METHOD.site.all_sums(METHOD)].count(TrainGroup.kind) == 3  # type: ignore[attr-defined]


def test_rows_a_thousand_times_as_large_bend_the_joint_scale_and_not_that_of_groups() -> None:
    sites = example_sites(9)
    sites[4] = fedgeom.SiteData(sites[4].name, 1000 * sites[4].X, sites[4].y)
    spreads = [fedgeom.run(one, sites).model.spread for one in (METHOD, fedgeom.FedAvg(n_rounds=1, epochs=1))]
    assert spreads[0].max() < 1 < 50 < spreads[1].max()


def _told(change: Any, method: Any = METHOD) -> list[Any]:
    liar = Liar(method, example_sites(9), Policy(), change=change)
    with pytest.raises(TooFewSitesError):
        liar.method.conduct(liar.talk)
    return [answer for _, question, answer in liar.heard if isinstance(question, BeginGroups | BeginTraining)]


def test_sites_take_no_sums_on_the_coordinators_word() -> None:
    def of_another_group(name: str, question: Any) -> Any:
        if not isinstance(question, BeginGroups):
            return None
        first, second, third = question.columns
        return replace(question, columns=(replace(first, result=second.result), second, third))

    def none(name: str, question: Any) -> Any:
        return replace(question, columns=()) if isinstance(question, BeginGroups) else None

    def of_all(name: str, question: Any) -> Any:
        if not isinstance(question, BeginGroups):
            return None
        return BeginTraining(classes=question.classes, columns=question.columns[0].result)

    for lie in (of_another_group, none, of_all):
        told = _told(lie)
        assert len(told) == 9
        assert all(isinstance(one, Refusal) for one in told)
    groups = BeginGroups(classes=("left", "right"), columns=())
    told = _told(
        lambda name, q: groups if isinstance(q, BeginTraining) else None, fedgeom.FedAvg(n_rounds=1, scale="none")
    )
    assert all(isinstance(one, Refusal) and "draw no groups" in one.reason for one in told)


def test_a_group_that_lies_about_its_rows_makes_only_its_own_share_small() -> None:
    honest = Agreement.contribute

    def contribute(self: Any, ask: Any, values: Any) -> Any:
        if ask.kind == SumGroupColumns.kind and self.site.name == "site-3":
            values = np.asarray(values) * 1e6
        return honest(self, ask, values)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Agreement, "contribute", contribute)
        found = fedgeom.run(METHOD, example_sites(9)).model
    usual = fedgeom.run(METHOD, example_sites(9)).model
    X = example_sites(1, rows=200, seed=5)[0].X
    assert np.mean(found.predict(X) == usual.predict(X)) > 0.97
