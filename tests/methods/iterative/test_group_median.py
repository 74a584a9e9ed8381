"""The median over groups' means: what it is, what it stands, and what it does not go with."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import fedgeom
from fedgeom.errors import InputError
from fedgeom.methods.aggregation import drawn
from fedgeom.methods.iterative import GroupMedian
from fedgeom.testing import check_method, example_sites
from papers.robust.liars import KINDS, lying, with_liars
from tests.methods.iterative.simulation import simulate

SITES = example_sites(10, rows=16)
TWIN = GroupMedian(n_groups=3, drawn_by="seed")


@pytest.mark.parametrize("rule", ["median", "geometric"])
def test_a_minority_of_groups_cannot_carry_it_away(rule: Any) -> None:
    rng = np.random.default_rng(0)
    good = rng.normal(size=(5, 3))
    for bad, size in itertools.product((1, 2, 3, 4), (10.0, 1e6, 1e15)):
        vectors = np.vstack([good, size * np.ones((bad, 3))])
        found = GroupMedian(n_groups=5 + bad, rule=rule)(vectors, np.ones(len(vectors)))
        assert np.abs(found).max() < (2.5 if rule == "median" else 12.0)
    many = np.vstack([good, 1e6 * np.ones((6, 3))])
    assert np.abs(GroupMedian(n_groups=11, rule=rule)(many, np.ones(11))).max() > 1e3  # a majority can


def test_settings_travel_and_bad_ones_are_refused_in_words() -> None:
    method = fedgeom.FedAvg(aggregation={"name": "groups", "n_groups": 7})
    assert method.aggregation == GroupMedian(n_groups=7)
    assert method.masked
    assert not method.shows_one_site()
    assert drawn(method.aggregation) == GroupMedian(n_groups=7).draw
    assert fedgeom.FedAvg.from_terms(method.terms()) == method
    for bad in ({"n_groups": 2}, {"n_groups": 3.5}, {"rule": "mean"}, {"drawn_by": "coordinator"}):
        with pytest.raises(InputError, match=f"{next(iter(bad))}="):
            GroupMedian(**bad)  # type: ignore[arg-type]
    for bad, why in (
        ({"secure": False}, "for open vectors use"),
        ({"participation": 0.5}, "use participation=1"),
        ({"n_rounds": 500}, "wanted at most"),
    ):
        with pytest.raises(InputError, match=why):
            fedgeom.FedAvg(aggregation=GroupMedian(n_groups=5), **bad)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="PTopoFL has ways of its own"):
        fedgeom.PTopoFL(aggregation=GroupMedian())
    with pytest.raises(InputError, match=r"secure sum hides.*GroupMedian"):
        fedgeom.FedAvg(aggregation="median", secure=True)


@pytest.mark.parametrize(
    "method", [fedgeom.FedProx, fedgeom.Scaffold, fedgeom.FedAvgM, fedgeom.FedNova, fedgeom.Ditto]
)
def test_relatives_of_fedavg_equal_the_same_in_one_loop(method: Any) -> None:
    made = method(n_rounds=2, epochs=1, aggregation=TWIN)
    found, twin = fedgeom.run(made, SITES, seed=1), simulate(made, SITES, 1)
    assert found.model.to_bytes() == twin.model.to_bytes()
    # with other groups, or none, it is another model
    assert found.model.to_bytes() != simulate(method(n_rounds=2, epochs=1), SITES, 1).model.to_bytes()


@pytest.mark.full
@pytest.mark.parametrize(
    "options", [{}, {"scale": "none", "weights": "sites"}, {"bits": 64, "validation_fraction": 0.25}]
)
def test_it_keeps_what_every_method_promises(options: Any) -> None:
    method = fedgeom.FedAvg(n_rounds=1, epochs=1, aggregation=TWIN, **options)
    if options:
        found = fedgeom.run(method, SITES, seed=2)
        assert not found.lost
        if "validation_fraction" not in options:
            assert found.model.to_bytes() == simulate(method, SITES, 2).model.to_bytes()
        return
    check_method(method, SITES)


@pytest.mark.parametrize("kind", KINDS)
def test_a_site_that_lies_spoils_the_mean_and_not_the_median(kind: str) -> None:
    rng = np.random.default_rng(1)
    y = np.arange(400) % 2
    X = rng.normal(size=(400, 3)) + np.where(y[:, None], 1.2, -1.2)
    labels = np.array(["no", "yes"])[y]
    parts = [slice(32 * at, 32 * at + 32) for at in range(10)]  # every other row is of the other class
    sites = [fedgeom.SiteData(f"s{at}", X[part], labels[part]) for at, part in enumerate(parts)]
    truth = labels[320:]

    def accuracy(**options: Any) -> float:
        with lying(["s3"], kind, 10):
            model = fedgeom.run(
                fedgeom.FedAvg(n_rounds=2, epochs=2, **options), with_liars(sites, ["s3"], kind)
            ).model
        return float(np.mean(model.predict(X[320:]) == truth))

    assert accuracy(aggregation=GroupMedian(n_groups=3)) > 0.93
    assert kind == "label flips" or accuracy() < 0.8
