"""Every method and step with privacy keeps the sensitivity that it declares, whatever one row is."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from fedgeom import DP, Ellipses, FedAdam, FedAvg, FedAvgM, FedYogi, Moments, Ridge, SiteData
from fedgeom.federation.method import METHODS, private_methods
from fedgeom.methods.moments.site import MomentsSite
from fedgeom.preparation import PCA, Impute, LogCounts, OneHot, Scale, SelectVariable
from fedgeom.preparation.private_steps import BoundedScale
from fedgeom.privacy.bounded_sums import in_whole_numbers
from fedgeom.testing.rehearsal import CheckContext, example_sites
from fedgeom.testing.sensitivity import hostile_rows, sensitivity_holds, with_row

CLASSES = ("left", "right")
USUAL: dict[str, Any] = {"classes": CLASSES, "min_sites": 3, "privacy": DP(epsilon=1, clip=2)}
TRAINED: dict[str, Any] = {"scale": "none", "n_rounds": 2}
PER_ROW: dict[str, Any] = TRAINED | USUAL | {"steps": 1, "batch_size": None}
PER_SITE: dict[str, Any] = TRAINED | USUAL | {"weights": "sites", "privacy": DP(epsilon=1, clip=2, unit="site")}
OWN: dict[str, Any] = {"n_classes": 2, "min_sites": 3, "privacy": DP(epsilon=40, delta=0.01, clip=2)}

METHODS_WITH_PRIVACY = {
    "moments": Moments(space="euclidean", **USUAL),
    "moments in the ball": Moments(**USUAL),
    "centroids": Moments(rule="centroid", space="euclidean", **USUAL),
    "ridge": Ridge(features="linear", **USUAL),
    "ridge discriminant": Ridge(features="linear", rule="discriminant", **USUAL),
    "ridge fourier": Ridge(features={"name": "fourier", "n_components": 30}, **USUAL),
    "ellipses": Ellipses(names="shared", scale="none", **USUAL),
    "fedavg": FedAvg(**PER_ROW),
    "fedavgm": FedAvgM(**PER_ROW),
    "fedadam": FedAdam(**PER_ROW),
    "fedyogi": FedYogi(**PER_ROW),
    "fedavg per site": FedAvg(**PER_SITE),
    "fedadam per site": FedAdam(**PER_SITE),
}


def judged(method: Any, sites: list[SiteData] | None = None) -> tuple[int, dict[str, float], str]:
    """Return how many cases were tried, the largest share of the sensitivity by kind of sum, and all that is said."""
    found = sensitivity_holds(CheckContext(method, sites))
    shares = {kind: float(share) for share, kind in re.findall(r"([\d.]+) in '([^']+)'", found.reason)}
    return int(found), shares, found.reason


@pytest.mark.parametrize("name", METHODS_WITH_PRIVACY)
def test_no_row_moves_a_method_s_sum_by_more_than_it_declares(name: str) -> None:
    tried, shares, said = judged(METHODS_WITH_PRIVACY[name])
    assert tried > 100
    assert all(0.2 < share <= 1 for share in shares.values()), (
        said
    )  # a bound that is never nearly reached is no bound
    assert len(shares) == (1 if "per site" in name else 2), said  # the method's sum, and the test's


def test_no_row_moves_a_sum_of_own_names_by_more_than_is_declared() -> None:
    _, shares, said = judged(Ellipses(scale="none", **OWN), example_sites(rows=300))
    assert set(shares) == {"ellipses.sum"}, said  # it takes no test
    assert 0.2 < shares["ellipses.sum"] <= 1, said


def test_all_methods_that_take_privacy_are_among_them() -> None:
    tried = {method.name for method in METHODS_WITH_PRIVACY.values()}
    ours = {name for name in private_methods() if METHODS.find(name).__module__.startswith("fedgeom.")}
    assert tried == ours  # other tests of this process register methods of their own


def raw_sites() -> list[SiteData]:
    """Return sites with a column of words, gaps and counts."""
    found = []
    for at, site in enumerate(example_sites(rows=30)):
        rng = np.random.default_rng(at)
        table = np.column_stack([10 * site.X, rng.integers(0, 9, (30, 2)), rng.integers(0, 2, 30)])
        table[3, 0] = np.nan
        columns = ("age", "weight", "visits", "drugs", "sex")
        found.append(SiteData(site.name, table, site.y, columns=columns, categories={"sex": ("f", "m")}))
    return found


def whole_sites() -> list[SiteData]:
    """Return sites of four columns of counts."""
    rng = np.random.default_rng(0)
    return [SiteData(site.name, rng.integers(0, 50, (24, 4)), site.y) for site in example_sites()]


RANGES = {"age": [-10, 10], "*": [0, 9]}
STEPS: dict[str, tuple[list[Any], Any]] = {
    "one-hot, impute, scale": (
        [OneHot(categories={"sex": ["f", "m"]}), Impute(ranges=RANGES), Scale(ranges=RANGES)],
        raw_sites,
    ),
    "impute means": (
        [OneHot(categories={"sex": ["f", "m"]}), Impute("mean", ranges=RANGES)],
        raw_sites,
    ),
    "impute most frequent": (
        [OneHot(categories={"sex": ["f", "m"]}), Impute("most-frequent", ranges=RANGES)],
        raw_sites,
    ),
    "log-counts": ([LogCounts()], whole_sites),
    "select-variable": ([SelectVariable(2, flavor="variance", clip=5.0)], whole_sites),
    "pca": ([PCA(2, clip=5.0)], whole_sites),
}


@pytest.mark.parametrize("name", STEPS)
def test_no_row_moves_a_step_s_sum_by_more_than_it_declares(name: str) -> None:
    steps, sites = STEPS[name]
    method = Moments(space="euclidean", prepare=steps, **USUAL | {"privacy": DP(epsilon=40, delta=0.01, clip=2)})
    tried, shares, said = judged(method, sites())
    assert tried > 100
    assert {kind for kind in shares if kind.startswith("prepare.")}, said
    assert {"moments.sum", "evaluation.sum"} <= set(shares), said
    assert all(0.2 < share <= 1 for share in shares.values()), said


def test_a_step_with_a_wrong_bound_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = BoundedScale.sensitivity
    monkeypatch.setattr(BoundedScale, "sensitivity", lambda way, ground: 0.9 * right(way, ground))
    method = Moments(space="euclidean", prepare=[Scale(ranges=[-1, 1])], **USUAL)
    with pytest.raises(AssertionError, match=r"'prepare\.moments' by 1\.\d+ times the declared sensitivity"):
        sensitivity_holds(CheckContext(method))


def test_a_method_that_shortens_rows_to_a_wrong_length_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def loose(rows: Any, bound: float, **options: Any) -> Any:
        """Shorten rows to one and a half times the bound: shorter rows are what they would be."""
        return np.trunc(1.5 * in_whole_numbers(rows, 1.5 * bound, **options))

    monkeypatch.setattr("fedgeom.methods.moments.core.in_whole_numbers", loose)
    with pytest.raises(
        AssertionError, match=r"a row of 'left': 1e\+308 everywhere: it moves .* 'moments\.sum' by 1\."
    ):
        sensitivity_holds(CheckContext(METHODS_WITH_PRIVACY["moments"]))


class CountingSite(MomentsSite):
    """Declares a sensitivity that depends on its rows."""

    def contribute_noisy(self, ask: Any, whole: Any, **bounds: Any) -> Any:
        return super().contribute_noisy(
            ask, whole, **bounds | {"sensitivity": bounds["sensitivity"] + len(self.data)}
        )


@dataclass(frozen=True, kw_only=True)
class Counting(Moments):
    name: ClassVar[str] = "test counting sensitivity"
    site: ClassVar[Any] = CountingSite


def test_a_sensitivity_that_follows_from_the_rows_is_found() -> None:
    with pytest.raises(AssertionError, match="the declared sensitivity depends on the rows"):
        sensitivity_holds(CheckContext(Counting(space="euclidean", **USUAL)))


def test_hostile_rows_are_added_with_all_that_belongs_to_a_row() -> None:
    site = raw_sites()[0]
    rows = dict(hostile_rows(site))
    assert max(np.nanmax(np.abs(row)) for name, row in rows.items() if name != "gaps") == 1e308
    assert all(row[-1] == 0 for name, row in rows.items() if name != "gaps")  # a word, whatever the rest is
    longer = with_row(site, rows["tiny"], "left")
    assert len(longer) == len(site) + 1
    assert longer.y[-1] == "left"
    np.testing.assert_array_equal(longer.X[:-1], site.X)
