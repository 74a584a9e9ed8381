"""The span test finds rows, and groups of few rows or sites, in the sums of honest runs; each finding has its name."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedgeom
from fedgeom.arrays import Floats
from fedgeom.data.sites import SiteData
from fedgeom.errors import FedgeomError, InputError
from fedgeom.federation.policy import Policy, StrictPolicy
from fedgeom.methods.aggregation import GroupMedian
from fedgeom.methods.ridge.features import Binned, LinearFeatures
from fedgeom.preparation.one_hot import OneHot
from fedgeom.preparation.pca import PCA
from fedgeom.preparation.scale import Clip, Scale
from fedgeom.preparation.select_variable import SelectVariable
from fedgeom.testing.few import OPEN, no_sum_rests_on_few, odd_tables, odd_updates
from fedgeom.testing.rehearsal import CheckContext, Rehearsal
from fedgeom.testing.span import RowChange, RowTerms, SmallGroup, SumReplay, row_terms, small_groups, updated_terms
from tests.attacks.cells import steps_towards_anchors

POLICY = StrictPolicy()
Change = Callable[[int, Floats, Any], tuple[Floats, Any]]
"""What is odd about a site's table, given the site's number."""


def tables(
    change: Change = lambda at, X, y: (X, y), *, sites: int = 5, rows: int = 40, columns: int = 3
) -> list[SiteData]:
    """Return sites with two classes of Gaussian rows, changed."""
    rng = np.random.default_rng(0)
    found = []
    for at in range(sites):
        y = np.array(["a", "b"])[np.arange(rows) % 2]
        X = rng.standard_normal((rows, columns)) + 0.8 * (y == "b")[:, None]
        X = np.clip(X, -2.5, 2.5)
        X += 1e-3 * rng.standard_normal(X.shape)
        X, y = change(at, X, y.astype("<U4"))
        found.append(SiteData(f"s{at}", X, y, columns=tuple(f"x{j}" for j in range(X.shape[1]))))
    return found


def with_words(codes: Callable[[int, Any], Any], words: tuple[str, ...] = ("f", "m", "x")) -> list[SiteData]:
    """Return sites with a column of words; ``codes`` gives those of a site, from the usual two and its number."""
    found = []
    for at, site in enumerate(tables()):
        usual = np.random.default_rng(at).integers(0, 2, len(site)).astype(float)
        table = np.column_stack([site.X, codes(at, usual)])
        found.append(SiteData(site.name, table, site.y, columns=(*site.columns, "dx"), categories={"dx": words}))
    return found


def groups_of(method: Any, sites: list[SiteData], *without: str) -> list[SmallGroup]:
    """Return the groups below the strict policy's floors that a run's sums have, but for some kinds of sums."""
    found = row_terms(method, sites, POLICY).without(*without)
    return small_groups(found, sites, POLICY.min_rows, POLICY.min_sites)


def assert_none(groups: list[SmallGroup]) -> None:
    """Fail where there are any, and show them."""
    assert not groups, "\n".join(map(str, groups))


def one_gap(at: int, X: Floats, y: Any) -> tuple[Floats, Any]:
    """One cell is empty."""
    if at == 1:
        X[7, 2] = np.nan
    return X, y


def one_flag(at: int, X: Floats, y: Any) -> tuple[Floats, Any]:
    """A column of 0 has one 1."""
    return np.column_stack([X, (at == 1) & (np.arange(len(X)) == 7)]), y


def two_flags(at: int, X: Floats, y: Any) -> tuple[Floats, Any]:
    """Two columns of 0 and 1 are the same but in one row."""
    flag = np.arange(len(X)) % 3 == 0
    other = flag ^ ((at == 1) & (np.arange(len(X)) == 7))
    return np.column_stack([X, flag, other]), y


def rare_class(at: int, X: Floats, y: Any) -> tuple[Floats, Any]:
    """One site has a class of its own."""
    if at == 1:
        y[:5] = "rare"
    return X, y


def outlier(at: int, X: Floats, y: Any) -> tuple[Floats, Any]:
    """One number is far from all others."""
    if at == 1:
        X[7, 2] = 6.0
    return X, y


def small_cell(at: int, X: Floats, y: Any) -> tuple[Floats, Any]:
    """Two columns of 0 and 1 are both 1 in one row, though each is often 1."""
    place = np.arange(len(X))
    both = (at == 1) & (place == 0)
    return np.column_stack([X, place % 3 == 0, (place % 3 == 1) | both]), y


EUCLIDEAN: dict[str, Any] = {"space": "euclidean"}
ROW = ("s1", 7)


@pytest.mark.parametrize(
    "method",
    [
        pytest.param(fedgeom.Ridge(features="linear"), id="ridge"),
        pytest.param(fedgeom.Ridge(features="linear", prepare=[Scale(), PCA(2)]), id="ridge, scaled, components"),
        pytest.param(fedgeom.Moments(**EUCLIDEAN), id="moments"),
        pytest.param(fedgeom.Moments(prepare=[Scale()], **EUCLIDEAN), id="moments, scaled"),
    ],
)
def test_sums_over_tables_with_nothing_rare_rest_on_many_rows(method: Any) -> None:
    assert_none(groups_of(method, tables()))


def test_categories_that_many_rows_of_each_class_have_are_hidden() -> None:
    assert_none(groups_of(fedgeom.Moments(prepare=[OneHot()], **EUCLIDEAN), with_words(lambda at, usual: usual)))


def test_terms_are_what_each_row_adds() -> None:
    sites = tables()
    found = row_terms(fedgeom.Moments(**EUCLIDEAN), sites, POLICY)
    X = np.concatenate([site.X for site in sites])
    inside = np.concatenate([site.y for site in sites]) == "a"
    unit = 2.0**24  # numbers are in fixed point
    assert found.numbers[0] == "moments.sum 2 [0]"
    np.testing.assert_allclose(found.terms[0] / unit, inside, atol=1e-6)
    np.testing.assert_allclose(found.terms[2] / unit, inside * X[:, 1], atol=1e-6)
    np.testing.assert_allclose(found.terms[5] / unit, inside * X[:, 0] * X[:, 1], atol=1e-6)
    assert found.rows[41] == ("s1", 1)
    assert found.uneven == {"model.doubts": 0}  # of sites, not of rows


def planted(rows: int, support: list[int], rank: int = 20) -> RowTerms:
    """Return terms that are mixtures of random ones and of one that a few rows have."""
    rng = np.random.default_rng(1)
    terms = rng.standard_normal((rank, rows))
    terms[0] = 0.0
    terms[0, support] = rng.standard_normal(len(support))
    mixed = rng.standard_normal((2 * rank, rank)) @ terms
    names = tuple(f"test 0 [{at}]" for at in range(len(mixed)))
    return RowTerms(mixed, names, tuple((f"s{row % 5}", row // 5) for row in range(rows)))


@pytest.mark.parametrize("support", [[3], [4, 101], [0, 51, 102, 153, 199], [1, 2, 3, 4, 6, 7, 8, 9, 11]])
def test_a_group_that_no_rare_value_shows_is_found(support: list[int]) -> None:
    found = planted(200, support)
    groups = small_groups(found, [], min_rows=10, min_sites=1)
    assert [group.rows for group in groups] == [tuple(found.rows[row] for row in support)]


def test_a_group_as_large_as_the_floor_is_none() -> None:
    assert_none(small_groups(planted(200, [1, 2, 3, 4, 6, 7, 8, 9, 11, 12]), [], min_rows=10, min_sites=1))


def test_many_rows_of_few_sites_are_found() -> None:
    support = [row for row in range(200) if row % 5 < 2]
    groups = small_groups(planted(200, support), [], min_rows=10, min_sites=3)
    assert [group.sites for group in groups] == [("s0", "s1")]
    assert len(groups[0].rows) == len(support)
    assert "80 rows of 2 sites" in str(groups[0])


def test_tables_with_too_few_rows_to_tell_are_refused() -> None:
    with pytest.raises(
        InputError, match=r"60 rows given, whose terms span 55 dimensions; wanted more than 64 rows"
    ):
        small_groups(planted(60, [0], rank=55), [], min_rows=10, min_sites=1)


# The findings of the notes, each with its name. Those that are not mended yet are marked.


def finding(name: str) -> pytest.MarkDecorator:
    """Return the mark of a test that fails until a finding is mended."""
    return pytest.mark.xfail(reason=name, strict=True, raises=AssertionError)


@pytest.mark.parametrize(
    "method", [fedgeom.Ridge(features="linear", prepare="table"), fedgeom.Moments(prepare="table", **EUCLIDEAN)]
)
def test_c1_one_gap(method: Any) -> None:
    assert_none(groups_of(method, tables(one_gap)))


@pytest.mark.parametrize(
    "method",
    [
        fedgeom.Ridge(features="linear"),
        fedgeom.Moments(**EUCLIDEAN),
        fedgeom.Ridge(features="linear", prepare=[Scale()]),
        pytest.param(fedgeom.FedAvg(n_rounds=2, epochs=1), id="N7: columns of training"),
    ],
)
def test_c1_one_flag(method: Any) -> None:
    assert_none(groups_of(method, tables(one_flag)))


@pytest.mark.parametrize("method", [fedgeom.Ridge(features="linear"), fedgeom.Moments(**EUCLIDEAN)])
def test_c1_two_flags(method: Any) -> None:
    assert_none(groups_of(method, tables(two_flags)))


@pytest.mark.parametrize("method", [fedgeom.Ridge, fedgeom.Moments])
@pytest.mark.parametrize("words", [2, 3])
def test_c1_one_rare_word(method: Any, words: int) -> None:
    def codes(at: int, usual: Any) -> Any:
        found = np.where(np.arange(len(usual)) % 4 < 2, usual, words - 1.0)
        found[7] = words if at == 1 else found[7]
        return found

    more = EUCLIDEAN if method is fedgeom.Moments else {}
    assert_none(groups_of(method(prepare=[OneHot()], **more), with_words(codes, (*"fmn"[:words], "x"))))


@pytest.mark.parametrize(
    "method",
    [fedgeom.Moments(prepare=[Scale()], **EUCLIDEAN), fedgeom.Ridge(features="linear", prepare=[Scale(), PCA(2)])],
)
def test_h1_rare_class(method: Any) -> None:
    assert_none(groups_of(method, tables(rare_class)))


@pytest.mark.parametrize("alpha", ["gcv", "folds"])
@pytest.mark.parametrize("binned", [Binned(n_bins=4, group_size=2), Binned(n_bins=16, group_size=1)])
def test_h2_binned_cells(binned: Binned, alpha: Any) -> None:
    """Cells of bins, and those of bins and classes, in each fold: of columns in one group."""
    method = fedgeom.Ridge(features=(LinearFeatures(), binned), alpha=alpha)
    found = tables(rows=80, columns=binned.group_size)
    assert_none(groups_of(method, found))
    run = fedgeom.run(method, found, policy=POLICY)
    assert any("bins of columns joined a neighbour" in str(warning) for warning in run.warnings)


def test_h2_two_kinds_of_bins_are_refused() -> None:
    with pytest.raises(FedgeomError, match='"binned" twice'):
        fedgeom.run(fedgeom.Ridge(features=(Binned(n_bins=4), Binned(n_bins=5))), tables(), policy=POLICY)


def test_h3_class_and_category() -> None:
    def codes(at: int, usual: Any) -> Any:
        usual[[0, 2, 4, 6, 8]] = 2.0
        usual[1] = 2.0 if at == 1 else usual[1]
        return usual

    assert_none(groups_of(fedgeom.Moments(prepare=[OneHot()], **EUCLIDEAN), with_words(codes)))


@pytest.mark.parametrize(
    ("step", "words"),
    [(Scale(max_value=3), "max_value = 3 moves"), (SelectVariable(2, flavor="seurat-v3"), "both as they are and")],
)
def test_m4_numbers_are_not_summed_both_as_they_are_and_clipped(step: Any, words: str) -> None:
    sites = [replace(site, table=np.round(np.abs(site.X))) for site in tables(outlier)]
    with pytest.raises(FedgeomError, match=words):
        fedgeom.run(fedgeom.Ridge(features="linear", prepare=[step]), sites, policy=POLICY)
    assert not fedgeom.run(
        fedgeom.Ridge(features="linear", prepare=[step]), sites
    ).lost  # where no policy has floors


@pytest.mark.parametrize("method", [fedgeom.Ridge, fedgeom.Moments])
def test_m4_limits_in_the_terms_come_before_all_sums(method: Any) -> None:
    more = EUCLIDEAN if method is fedgeom.Moments else {}
    assert_none(groups_of(method(prepare=[Clip(ranges={"x2": [-3, 3]}), Scale()], **more), tables(outlier)))


def test_m4_a_column_that_limits_make_nearly_constant_is_left_out() -> None:
    def far(at: int, X: Floats, y: Any) -> tuple[Floats, Any]:
        return np.column_stack([X, np.where((at == 1) & (np.arange(len(X)) == 7), 0.5, 5 + X[:, 0])]), y

    method = fedgeom.Ridge(features="linear", prepare=[Clip(ranges={"x3": [0, 1]}), Scale()])
    assert_none(groups_of(method, tables(far)))


def test_n1_bins_of_medians() -> None:
    """Bins count groups of rows, and are no terms: tests/preparation/test_quantiles.py holds them to that."""
    found = row_terms(fedgeom.Ridge(features="linear", prepare="table"), tables(), POLICY)
    assert not any(name.startswith("prepare.bins") for name in found.numbers)
    assert_none(small_groups(found, tables(), POLICY.min_rows, POLICY.min_sites))


@pytest.mark.parametrize("prepare", [None, "table"])
def test_n2_evaluation(prepare: Any) -> None:
    """Counts of rows kept aside may be of one row: these rows are in no other sum, so that nothing else is told."""
    method = fedgeom.Moments(holdout=0.25, prepare=prepare, **EUCLIDEAN)
    sites = tables()
    replay = SumReplay(Rehearsal(method, sites, 0, POLICY), {site.name: site for site in sites})
    found = row_terms(method, sites, POLICY)
    assert_none(small_groups(found, sites, POLICY.min_rows, POLICY.min_sites))
    aside = {(site.name, row) for site in sites for row in replay.aside(site.name).tolist()}
    assert len(aside) == 5 * 10
    places = [at for at, row in enumerate(found.rows) if row in aside]
    assert not found.terms[:, places].any()
    learnt = np.setdiff1d(np.arange(len(found.rows)), places)
    assert found.terms[:, learnt].any(axis=0).all()


def one_dose(at: int, X: Floats, y: Any) -> tuple[Floats, Any]:
    """Of the rows with a 1 in one column, a single one has a number in another, which is 0 in most."""
    place = np.arange(len(X))
    both = (at == 1) & (place == 0)
    return np.column_stack([X, place % 3 == 0, np.where((place % 3 == 1) | both, 2 + X[:, 0], 0.0)]), y


def two_sparse(at: int, X: Floats, y: Any) -> tuple[Floats, Any]:
    """Two columns are 0 in most rows, and in one row neither is."""
    found, y = one_dose(at, X, y)
    found[:, 3] *= 1.5 + X[:, 1] ** 2
    return found, y


def one_seven(at: int, X: Floats, y: Any) -> tuple[Floats, Any]:
    """A column of 0 and 1 has a single 7."""
    place = np.arange(len(X))
    return np.column_stack([X, np.where((at == 1) & (place == 7), 7, place % 3 == 0)]), y


def nested(at: int, X: Floats, y: Any) -> tuple[Floats, Any]:
    """All rows with a 1 in one column have one in another too, but a single one."""
    place = np.arange(len(X))
    found = np.column_stack([X, place % 4 < 2, place % 8 < 2])
    found[6, 3:] = [0, 1] if at == 1 else found[6, 3:]
    return found, y


@finding("N3: what few rows have of two columns, by the sum of products")
@pytest.mark.parametrize("odd", [one_dose, two_sparse])
def test_n3_small_cells(odd: Change) -> None:
    assert_none(groups_of(fedgeom.Ridge(features="linear"), tables(odd)))


def test_n3_a_third_value_of_a_column_of_0_and_1_counts_as_1() -> None:
    """Else the sum of squares less that of the column is 42."""
    assert_none(groups_of(fedgeom.Ridge(features="linear"), tables(one_seven)))


def one_of_a_class(at: int, X: Floats, y: Any) -> tuple[Floats, Any]:
    """A column is 0 in most rows, and of a class in all but one."""
    place = np.arange(len(X))
    there = (place % 4 == 0) | ((at == 1) & (place == 7))  # rows of "a", and one of "b"
    return np.column_stack([X, np.where(there, 2 + X[:, 0], 0.0)]), y


def sparse_class(at: int, X: Floats, y: Any) -> tuple[Floats, Any]:
    """A column is 0 in most rows, and of a class in all but 30 of two sites."""
    place = np.arange(len(X))
    there = (place % 4 == 0) | ((at < 2) & (place % 2 == 1) & (place < 30))
    return np.column_stack([X, np.where(there, 2 + X[:, 0], 0.0)]), y


@pytest.mark.parametrize("odd", [one_of_a_class, sparse_class])
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"balanced": True},
        {"prepare": [Scale()]},
        {"prepare": "table"},
        {"aggregation": GroupMedian(n_groups=3)},
    ],
    ids=["plain", "balanced", "scaled", "prepared", "in groups"],
)
def test_n14_class_sums_of_sparse_columns(odd: Change, more: Any) -> None:
    method = fedgeom.Ridge(features="linear", **more)
    sites = tables(odd, sites=9 if "aggregation" in more else 5)
    assert_none(groups_of(method, sites))


def test_n14_numbers_in_small_cells_count_as_0_where_they_are_learnt_from_and_nowhere_else() -> None:
    sites = tables(one_of_a_class)
    changed = [replace(site, table=site.X.copy()) for site in sites]
    changed[1].table[7, 3] = 0.0
    method = fedgeom.Ridge(features="linear", holdout=0.25)
    run = fedgeom.run(method, sites, policy=POLICY)
    same = fedgeom.run(method, changed, policy=POLICY)
    assert run.model.preparation is None
    assert any("in 1 cell, each a column in a class" in str(warning) for warning in run.warnings)
    assert not any("each a column in a class" in str(warning) for warning in same.warnings)
    assert not any(getattr(step, "small_cells_as_zero", False) for step in _before_components().planned_steps)
    new = sites[0].X
    np.testing.assert_array_equal(run.model.predict_proba(new), same.model.predict_proba(new))
    relaxed = fedgeom.run(method, sites)
    assert np.abs(relaxed.model.predict_proba(new) - run.model.predict_proba(new)).max() > 1e-6


def _before_components() -> fedgeom.Ridge:
    """Return a ridge of components, which are sums of columns: of these no class's sum is taken."""
    return fedgeom.Ridge(features="linear", prepare=[Scale(), PCA(2)])


@finding("N14: of a class, the number of the only changed row in which a column is not 0")
def test_n14_class_sums_of_changed_rows() -> None:
    sites = tables(one_of_a_class)
    more = [replace(site, table=site.X + np.array([1e-3, 0, 0, 0])) for site in sites]
    changes = [RowChange(tuple(more))]
    found = updated_terms(fedgeom.Ridge(features="linear"), sites, changes, POLICY)
    assert_none(small_groups(found, [], POLICY.min_rows, POLICY.min_sites))


@finding("N18: of a fold, the numbers of the few rows in which a column is not 0")
def test_n18_folds_of_sparse_columns() -> None:
    def few_in_a_fold(at: int, X: Floats, y: Any) -> tuple[Floats, Any]:
        there = np.isin(np.arange(len(X)), [2 * at, 2 * at + 1, 20 + at, 31 - at])  # ten of each class
        return np.column_stack([X, np.where(there, 2 + X[:, 0], 0.0)]), y

    method = fedgeom.Ridge(features="linear", alpha="folds")
    assert_none(groups_of(method, tables(few_in_a_fold)))


@pytest.mark.parametrize("odd", [small_cell, nested])
def test_n3_of_two_columns_of_0_and_1_few_rows_are_a_count_and_no_more(odd: Change) -> None:
    """By nature: the sum of the columns' product is how many rows have both. But for it nothing shows few rows."""
    found = row_terms(fedgeom.Ridge(features="linear"), tables(odd), POLICY)
    (group,) = small_groups(found, [], POLICY.min_rows, POLICY.min_sites)
    flags = [table.X[:, 3:] for table in tables(odd)]
    both = np.concatenate([one.prod(axis=1) for one in flags])
    assert len(group.rows) == 1
    known = np.column_stack([np.ones(200), *np.concatenate(flags).T, both])
    scale = np.linalg.lstsq(known, found.terms.T)[0]
    left = found.terms.T - known @ scale
    counts = np.linalg.norm(left, axis=0) < 1e-6 * np.linalg.norm(found.terms, axis=1)
    product = counts & (np.abs(scale[-1]) > 1e-6 * np.abs(scale).max())
    assert product.sum() == 1  # one number of the run alone has to do with rows that have both
    assert found.rounding is not None
    names = tuple(np.array(found.numbers)[~product])
    rest = replace(found, terms=found.terms[~product], numbers=names, rounding=found.rounding[~product])
    assert_none(small_groups(rest, [], POLICY.min_rows, POLICY.min_sites))


@pytest.mark.parametrize(
    "method",
    [
        fedgeom.Ridge(features="linear", holdout=0.25),
        fedgeom.Moments(**EUCLIDEAN),
        fedgeom.Shrunk(),
        fedgeom.Ellipses(names="shared"),
        fedgeom.Ridge(features="linear", prepare="table"),
    ],
    ids=["ridge", "moments", "shrunk", "ellipses", "prepared"],
)
def test_a_column_that_one_row_sets_apart_is_left_out_and_the_run_says_so(method: Any) -> None:
    sites = tables(one_flag)
    run = fedgeom.run(method, sites, policy=POLICY)
    without = fedgeom.run(method, tables(), policy=POLICY)
    assert not run.lost
    told = [str(warning) for warning in run.warnings if "left out of all sums" in str(warning)]
    assert any("'x3'" in text for text in told), told  # by its name
    assert not any("left out of all sums" in str(warning) for warning in without.warnings)
    assert run.model.preparation.columns.width == 3
    assert "prepared" in run.local["s1"]
    for site, bare in zip(sites, tables(), strict=True):
        np.testing.assert_array_equal(run.model.predict(site.X), without.model.predict(bare.X))


def test_without_floors_nothing_is_left_out() -> None:
    run = fedgeom.run(fedgeom.Ridge(features="linear"), tables(one_flag))
    assert run.model.preparation is None
    assert not any("left out" in str(warning) for warning in run.warnings)


def test_n4_three_columns() -> None:
    def total(at: int, X: Floats, y: Any) -> tuple[Floats, Any]:
        last = X[:, 0] + X[:, 1]
        last[7] += at == 1
        return np.column_stack([X, last]), y

    assert_none(groups_of(fedgeom.Ridge(features="linear"), tables(total)))


def test_n5_two_flags_in_a_class() -> None:
    def flags(at: int, X: Floats, y: Any) -> tuple[Floats, Any]:
        place = np.arange(len(X))
        flag = place % 3 == 0
        other = np.where(y == "a", flag, place % 5 < 2)
        other[8] ^= at == 1
        return np.column_stack([X, flag, other]), y

    assert_none(groups_of(fedgeom.Moments(**EUCLIDEAN), tables(flags)))


def test_n6_anchors() -> None:
    """Groups of rows stand for them: tests/geometry/graphs/test_anchors.py holds them to their size."""
    assert_none(groups_of(fedgeom.XCLP(graph="anchors", n_anchors=6, n_rounds=2), tables(columns=2)))
    assert steps_towards_anchors("xclp through anchors", Policy(), True).succeeds
    assert not steps_towards_anchors("xclp through anchors", POLICY, True).succeeds


def test_n8_an_update_in_which_one_row_has_a_1_is_refused() -> None:
    sites, changes = odd_updates()["an update with one 1"]
    with pytest.raises(InputError, match=r"in column 3 too few changed rows .* gather more changes first"):
        updated_terms(fedgeom.Ridge(features="linear"), sites, changes, POLICY)


def test_a_run_and_its_updates_together_show_no_few_rows() -> None:
    sites, changes = odd_updates()["updates"]
    found = updated_terms(fedgeom.Ridge(features="linear"), sites, changes, POLICY)
    assert {name.partition(" of ")[2] for name in found.numbers} == {"", "update 1", "update 2"}
    assert len(found.rows) == sum(map(len, sites)) + 4 * 18
    assert_none(small_groups(found, [], POLICY.min_rows, POLICY.min_sites))


def test_rows_that_an_update_of_few_adds_are_found() -> None:
    sites, changes = odd_updates()["an update with one 1"]
    found = updated_terms(fedgeom.Ridge(features="linear"), sites, changes, Policy())
    groups = small_groups(found, [], POLICY.min_rows, POLICY.min_sites)
    assert (("site-2", 40 + 7),) in [group.rows for group in groups]


def test_n9_calibration() -> None:
    def one_wrong(at: int, X: Floats, y: Any) -> tuple[Floats, Any]:
        X[:, 0] += 6.0 * (y == "b")
        X[7, 0] -= 6.0 * (at == 1)
        return X, y

    assert_none(groups_of(fedgeom.Ridge(features="linear"), tables(one_wrong)))


def test_n11_evidence() -> None:
    """Where weak personal models call one row wrongly."""
    odd = next(one for one in odd_tables() if one.name == "one rare word")
    assert_none(groups_of(odd.method(fedgeom.Ridge(personal=True)), odd.sites))


@pytest.mark.parametrize("kind", ["ridge.calibration", "ridge.evidence"])
def test_what_fits_the_model_s_mistakes_adds_up_groups_of_rows(kind: str) -> None:
    """They are no terms of rows: tests/methods/ridge/test_core.py and test_personal.py hold them to that."""
    found = row_terms(fedgeom.Ridge(personal=True), tables(), POLICY)
    assert not any(name.startswith(kind) for name in found.numbers)
    assert kind not in found.uneven


def test_n13_bins_and_columns() -> None:
    sites = next(odd_tables()).sites
    assert_none(groups_of(fedgeom.Ridge(features=["linear", "binned"]), sites))


def test_n15_bins_of_held_out_rows() -> None:
    """Of the rows in a bin, products with columns let all of a small site's drop out, and those of two sites stay."""
    (odd,) = [one for one in odd_tables() if one.name == "rows held out"]
    assert_none(groups_of(odd.method(fedgeom.Ridge(features=["linear", "binned"])), odd.sites))


def test_n17_bins_of_a_run_that_can_be_updated_are_refused() -> None:
    """Of a bin, products with columns would be those of the few rows by which a run and its update differ."""
    sites, changes = odd_updates()["updates"]
    method = fedgeom.Ridge(features=["linear", "binned"])
    with pytest.raises(FedgeomError, match='"binned" with updatable=True'):
        updated_terms(method, sites, changes, POLICY)


@pytest.mark.parametrize("share", [0.3, 0.5, 0.7])
@pytest.mark.parametrize(
    "method", [fedgeom.Ridge(features="linear", prepare="table"), fedgeom.Moments(prepare="table", **EUCLIDEAN)]
)
def test_n16_a_gap_in_a_column_of_0_and_1(method: Any, share: float) -> None:
    """It is filled with 0 or 1: any other number, such as 1.00002, would be in no other row."""

    def one_gap_in_flags(at: int, X: Floats, y: Any) -> tuple[Floats, Any]:
        flag = (np.random.default_rng(at).random(len(X)) < share).astype(float)
        flag[7] = np.nan if at == 1 else flag[7]
        return np.column_stack([X, flag]), y

    assert_none(groups_of(method, tables(one_gap_in_flags)))


def test_n12_joint_map_of_hulls() -> None:
    method = fedgeom.Hulls(epsilon=0.2, names="shared", embedding="discriminant")
    assert_none(groups_of(method, tables(one_flag)))


def test_n10_one_negative_number() -> None:
    def one_negative(at: int, X: Floats, y: Any) -> tuple[Floats, Any]:
        X[:, 2] = np.abs(X[:, 2]) + 0.01
        X[7, 2] *= -1 if at == 1 else 1
        return X, y

    assert_none(groups_of(fedgeom.Ridge(features="linear", prepare=[Scale()]), tables(one_negative)))


def test_what_the_check_leaves_out_is_a_finding_that_is_marked_here() -> None:
    marked = re.findall(r'^@finding\("([A-Z0-9]+):', Path(__file__).read_text(encoding="utf-8"), re.MULTILINE)
    assert {one.name for one in OPEN} <= set(marked)


@pytest.mark.parametrize(
    ("method", "words"),
    [
        (fedgeom.FedAvg(n_rounds=2, epochs=1), "'train.masked' is no sum over rows"),
        (fedgeom.Ellipses(), "sums of 'ellipses.sum' are left out (by nature: "),
        (fedgeom.PTopoFL(n_rounds=2, epochs=1, n_points=12), "'nothing rare' is refused: site-1: the policy of"),
    ],
)
def test_what_the_check_does_not_judge_is_said(method: Any, words: str) -> None:
    found = no_sum_rests_on_few(CheckContext(method))
    assert found == 8
    assert words in found.reason


@pytest.mark.full
def test_the_joint_map_of_tables_rests_on_no_few() -> None:
    """Cells of components, beside the products of all rows that these come from."""
    sites = tables(rows=60, columns=4)
    found = row_terms(fedgeom.PoincareMap(prepare="table"), sites, POLICY)
    assert {"prepare.cell-sums", "prepare.products"} <= {name.split(" ")[0] for name in found.numbers}
    assert_none(small_groups(found, sites, POLICY.min_rows, POLICY.min_sites))
