"""A plan's bytes are those of runs, to the last one; its times are of the right order."""

from __future__ import annotations

import pytest

import fedgeom
from fedgeom.errors import ContractError
from fedgeom.federation.plan import ANY_SHAPE, Plan, Shape, Sum
from fedgeom.federation.policy import Policy, StrictPolicy
from fedgeom.methods.moments.site import SumClassMoments
from fedgeom.protocols.model_delivery import HandOut
from fedgeom.protocols.names import AgreeOnNames
from fedgeom.protocols.plan import costs_of, disclosures, leaves, shape_like, shape_of, stops_at
from tests.protocols.planning import drawn, held
from tests.unlisted import unlisted

POLICIES = [None, Policy(single_site_classes=False, min_rows=2), StrictPolicy(secure_only=False)]
UNEVEN = ("north", "the hospital in the south", "x", "Bücherei")
SHAPE = {"rows": 100, "columns": 5, "classes": ["a", "b"]}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("given", [None, ("a", "a class of many words", "bb")])
def test_names_policies_and_terms_count_to_the_last_byte(
    policy: Policy | None, given: tuple[str, ...] | None
) -> None:
    held(fedgeom.Moments(space="euclidean", classes=given), UNEVEN, policy).check()


@pytest.mark.parametrize("policy", POLICIES)
def test_preparation_and_evaluation_are_steps_of_the_plan(policy: Policy | None) -> None:
    held(fedgeom.Ridge(features="linear", prepare="table", holdout=0.25), UNEVEN, policy).check()


def test_more_than_48_sites_draw_a_ring() -> None:
    found = held(fedgeom.Moments(space="euclidean", rule="centroid"), shape_like(52).sites)
    found.check()
    assert any(one.kind == "join.draw" for one in found.told.exchanges)


def test_names_are_equally_long() -> None:
    assert shape_like(3).sites == ("s00", "s01", "s02")
    assert {len(name) for name in shape_like(1001).sites} == {5}


def test_more_sites_cost_each_of_them_little_more_and_the_coordinator_much() -> None:
    method = fedgeom.Moments(space="euclidean")
    ten, many = (costs_of(method, shape_like(count, **SHAPE)) for count in (10, 1000))
    assert many.up < 40 * ten.up
    assert many.total_up > 100 * ten.total_up


def test_where_a_method_stops_is_the_largest_number_of_sites_that_fits() -> None:
    method, policy = fedgeom.FedAvg(n_rounds=50), Policy(max_message_bytes=2**20)
    most, why = stops_at(method, **SHAPE, policy=policy)
    assert "'join.meet' has" in why
    assert costs_of(method, shape_like(most, **SHAPE, policy=policy)).largest <= 2**20
    assert costs_of(method, shape_like(most + most // 20, **SHAPE, policy=policy)).largest > 2**20


def test_keys_stop_what_nothing_else_stops() -> None:
    """Every site is shown the keys of all, at least 1.5 kB each."""
    most, why = stops_at(fedgeom.Moments(rule="centroid", classes=("a", "b")), **SHAPE)
    assert 10_000 < most < 50_000
    assert "join.meet" in why


@pytest.mark.parametrize("count", [3, 30])
def test_classes_of_the_terms_count(count: int) -> None:
    given = costs_of(fedgeom.Moments(classes=("a", "b")), shape_like(count, **SHAPE))
    open_ = costs_of(fedgeom.Moments(), shape_like(count, **SHAPE))
    assert open_.questions == given.questions + 2


def test_unknown_tables_give_bounds_that_are_said() -> None:
    raw = costs_of(fedgeom.Ridge(features="linear", prepare="table"), shape_like(4, **SHAPE))
    assert any("columns and categories" in line for line in raw.bounds)
    hulls = costs_of(fedgeom.Hulls(), shape_like(4, **SHAPE | {"columns": 2}))
    assert any("corners" in line for line in hulls.bounds)
    known = shape_of(fedgeom.Hulls(embedding="discriminant"), drawn(("a", "b", "c")))
    few = costs_of(fedgeom.Hulls(embedding="discriminant"), known)
    assert few.bounds == []


def test_what_leaves_lists_every_message_of_the_plan() -> None:
    method = fedgeom.Ridge(features="linear", prepare="table", holdout=0.25)
    kinds = {one.answer for one in disclosures(method)}
    assert kinds >= {"join.keys", "join.letters", "prepare.sealed", "sum.masked", "model.taken", "sum.shares"}
    lines = leaves(method)
    assert any(line.startswith("ridge.gram: masked") for line in lines)
    assert any(line.startswith("evaluation.sum: masked") for line in lines)
    assert lines[-1].startswith("nothing of the rows: ")
    private = fedgeom.Ridge(privacy=fedgeom.DP(epsilon=1.0, delta=1e-5, clip=1.0), classes=("0", "1"))
    assert any("with noise" in line for line in leaves(private))


def test_the_number_of_sums_does_not_depend_on_the_shape() -> None:
    for method in (
        fedgeom.Ridge(features="linear", max_features=2000),
        fedgeom.Hulls(),
        fedgeom.Ridge(features="linear", prepare="table", holdout=0.2),
    ):
        planned = len(method.site.all_sums(method))
        for columns in (1, 3):
            shape = Shape(("a", "b", "c"), columns, ("x", "y"))
            walked = costs_of(method, shape)
            assert walked.exchanges[0].kind == "join.hello"
            assert len(method.site.all_sums(method)) == planned
        assert ANY_SHAPE.known is False


def test_a_run_that_leaves_its_plan_is_stopped() -> None:
    @unlisted
    class Wrong(fedgeom.Moments):
        name = "wrong"

        def plan(self, shape: Shape) -> Plan:
            classes = yield AgreeOnNames(self.classes)
            result = yield Sum(SumClassMoments(classes=classes, curvature=self.c), 7)
            yield HandOut(result=result)

        def conduct(self, sites):  # type: ignore[no-untyped-def]
            from fedgeom.protocols.cohort import join
            from fedgeom.protocols.names import agree_on_names

            cohort = join(sites, self)
            classes = agree_on_names(cohort, self.classes)
            return cohort.sum_checked(SumClassMoments(classes=classes, curvature=self.c), length=8)

    with pytest.raises(ContractError, match=r"sums 8 numbers, but the plan of Wrong says 7"):
        fedgeom.run(Wrong(space="euclidean"), drawn(("a", "b", "c")))
