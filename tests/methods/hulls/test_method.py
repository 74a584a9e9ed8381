"""The secure method against the hulls of all sites in one place, against lost sites, and against wrong input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fedgeom
from fedgeom.data.datasets import load_set
from fedgeom.data.sites import SiteData
from fedgeom.errors import InputError, TooFewSitesError
from fedgeom.federation.messages import unpack
from fedgeom.geometry.hyperbolic.grid import PolarGrid
from papers.hulls.plain import PlainModel, local_hulls, plain
from tests.methods.coordinators import kill
from tests.methods.hulls.drawing import blobs, hulls_of
from tests.methods.hulls.pooled import pooled
from tests.methods.laws import assert_run_is
from tests.tiers import set_cases

STEPS = [
    "join.hello",
    "join.meet",
    "join.share",
    "hulls.extent",
    "sum.confirm 0",
    "sum.unmask 0",
    "hulls.encode",
    "sum.confirm 1",
    "sum.unmask 1",
    "hulls.take-model",
]


def twin(run: fedgeom.Run, method: fedgeom.Hulls, points: list[np.ndarray]) -> PlainModel:
    """Return what the paper's own plain conversation yields, on the run's grid."""
    return plain(
        [(X, site.y) for X, site in zip(points, run.sites, strict=True)],
        epsilon=method.epsilon,
        radius=run.metrics["radius"],
        n_classes=run.metrics["classes"],
        trim=method.trim,
        how=method.grouping,
        classifier=fedgeom.PoincareSVC(C=method.C, pairs=method.n_pairs, as_published=method.as_published),
    )


def assert_same(run: fedgeom.Run, other: PlainModel) -> None:
    assert np.array_equal(run.model.reference, other.classifier.reference_)
    assert np.array_equal(run.model.normal, other.classifier.coef_)
    assert np.array_equal(run.model.platt, other.classifier.platt_)
    ours = sorted(tuple(sorted(bins)) for bins in hulls_of(run))
    assert ours == sorted(tuple(sorted(bins.tolist())) for bins in other.hulls)


@pytest.mark.parametrize("n_sites", [2, 3, 7])
@pytest.mark.parametrize("classes", [2, 4])
def test_secure_equals_plain_on_drawn_sites(n_sites: int, classes: int) -> None:
    sites = blobs(n_sites, classes)
    method = fedgeom.Hulls()
    run = assert_run_is(pooled, method, sites, policy=fedgeom.Policy(min_cohort=2))
    assert_same(run, twin(run, method, [site.X for site in sites]))


@pytest.mark.parametrize(
    "settings",
    [
        {"radius": 0.98, "capacity": 60, "n_classes": 3, "h": 3, "trim": 0.05, "n_pairs": 1},
        {"grouping": "spectral", "C": 0.3},
        {"curvature": 0.5, "epsilon": 0.1},
        {"grouping": "published", "trim": 0.0, "as_published": True},
        {"loss": "hinge", "grid": "equal-area", "epsilon": 0.1},
        {"space": "euclidean", "C": 20.0},
    ],
)
def test_secure_equals_plain_whatever_the_settings(settings: dict[str, Any]) -> None:
    assert_run_is(pooled, fedgeom.Hulls(**settings), blobs(4, 3, spread=0.3), seed=3)


@pytest.mark.parametrize("space", ["poincare", "euclidean"])
def test_a_hard_margin_leaves_no_corner_inside(space: str) -> None:
    sites = blobs(3, 2, rows=10)
    method = fedgeom.Hulls(margin="hard", space=space, trim=0.0)  # type: ignore[arg-type]
    run = assert_run_is(pooled, method, sites)
    groups = run.artifacts["group_of_hull"][run.artifacts["hull_of_point"]]
    scores = run.model.decision_function(run.artifacts["hull_points"])[:, 0] * np.where(groups == 1, 1, -1)
    assert scores.min() == pytest.approx(1, abs=1e-5)  # y·⟨log_p(x), w⟩ ≥ 1 for all, = 1 for some (Eq. 6)


def test_fle_is_a_flat_svm_on_what_the_coordinator_decodes() -> None:
    sites = blobs(4, 3, spread=0.4)
    run = fedgeom.run(fedgeom.Hulls(space="euclidean", C=0.1), sites)
    corners, first = np.unique(run.artifacts["hull_bins"], return_index=True)
    groups = run.artifacts["group_of_hull"][run.artifacts["hull_of_point"]]
    pairs = np.unique(np.column_stack([groups, run.artifacts["hull_bins"]]), axis=0)  # a group has a corner once
    points = run.artifacts["hull_points"][first][np.searchsorted(corners, pairs[:, 1])]
    flat = fedgeom.EuclideanSVC(0.1).fit(points, pairs[:, 0])
    X = np.vstack([site.X for site in sites])
    np.testing.assert_array_equal(run.model.predict(X), flat.predict(X))
    np.testing.assert_allclose(run.model.decision_function(X), flat.scores(X), atol=1e-9)


def test_a_class_of_one_point_as_published_makes_a_model_that_sites_take() -> None:
    """Its probability is 0; as an infinite offset that was a model which every site refused."""
    sites = [
        SiteData(site.name, np.vstack([site.X, [[0.0, 0.0]] * 2]), np.append(site.y, [9, 9]))
        for site in blobs(3, 3, rows=8)
    ]
    run = assert_run_is(pooled, fedgeom.Hulls.published(), sites)
    assert np.isfinite(run.model.platt).all()
    assert (run.model.predict_proba(sites[0].X) == 0).any(axis=0).sum() == 1
    assert len(np.unique(run.model.predict(sites[0].X))) == 3


def test_settings_from_numpy_make_the_same_run() -> None:
    sites = blobs(3, 2, rows=10)
    given = fedgeom.Hulls(epsilon=np.float64(0.1), n_classes=np.int64(2), as_published=np.bool_(False))
    assert_run_is(pooled, given, sites)
    same = fedgeom.Hulls(epsilon=0.1, n_classes=2)
    assert fedgeom.run(given, sites).model.to_bytes() == fedgeom.run(same, sites).model.to_bytes()


@pytest.mark.parametrize("name", set_cases(["olsson", "poincare-cifar10", "poincare-fashion", "paul15"]))
def test_secure_equals_plain_on_the_built_in_discs(name: str) -> None:
    sites, method = load_set(name).train, fedgeom.Hulls(min_rows=1)
    run = assert_run_is(pooled, method, sites)
    assert_same(run, twin(run, method, [site.X for site in sites]))


@pytest.mark.parametrize("name", set_cases(["breast-cancer", "wine", "digits", "hipc", "heart"]))
def test_secure_equals_plain_on_the_built_in_tables(name: str) -> None:
    sites, method = load_set(name).train, fedgeom.Hulls(embedding="discriminant", min_rows=1)
    run = assert_run_is(pooled, method, sites)
    points = [run.model.for_site(run.local[site.name]).to_disc(site.X) for site in sites]
    assert_same(run, twin(run, method, points))


def test_the_same_seed_gives_the_same_model_bytes_whatever_the_keys_and_the_order_of_sites() -> None:
    sites = blobs(4, 3)
    first = fedgeom.run(fedgeom.Hulls(), sites, seed=5).model.to_bytes()
    assert fedgeom.run(fedgeom.Hulls(), sites, seed=5).model.to_bytes() == first
    assert fedgeom.run(fedgeom.Hulls(), sites[::-1], seed=5).model.to_bytes() == first


@pytest.mark.parametrize("grouping", ["constrained", "spectral", "published"])
def test_sites_with_their_own_label_names_learn_what_each_means(grouping: str) -> None:
    words = [["rot", "grün", "blau"], ["red", "green", "blue"], ["3", "1", "2"]]
    sites = [site.relabel(dict(enumerate(w))) for site, w in zip(blobs(3, 3), words, strict=True)]
    run = fedgeom.run(fedgeom.Hulls(grouping=grouping), sites)
    meanings = [[run.local[site.name]["names"][word] for word in w] for site, w in zip(sites, words, strict=True)]
    assert meanings[0] == meanings[1] == meanings[2]
    assert sorted(meanings[0]) == [0, 1, 2]
    model = run.model.for_site(run.local[sites[0].name])
    translated = sites[1].relabel(dict(zip(words[1], words[0], strict=True)))
    assert np.mean(model.predict(translated.X) == translated.y) > 0.95


def test_sites_may_lack_classes() -> None:
    whole = blobs(4, 3)
    sites = [site.take(site.y != lacking) for site, lacking in zip(whole, [0, 1, 2, 9], strict=True)]
    run = fedgeom.run(fedgeom.Hulls(n_classes=3), sites)
    names = [run.local[site.name]["names"] for site in sites]
    assert [sorted(n) for n in names] == [["1", "2"], ["0", "2"], ["0", "1"], ["0", "1", "2"]]
    for local in names:
        assert all(names[3][label] == group for label, group in local.items())


def test_no_site_needs_to_have_all_classes() -> None:
    whole = blobs(3, 3)
    sites = [site.take(site.y != lacking) for site, lacking in zip(whole, [0, 1, 2], strict=True)]
    names = [result["names"] for result in fedgeom.run(fedgeom.Hulls(n_classes=3), sites).local.values()]
    merged: dict[str, set[int]] = {}
    for local in names:
        for label, group in local.items():
            merged.setdefault(label, set()).add(group)
    assert all(len(groups) == 1 for groups in merged.values())


@pytest.mark.parametrize("victim", range(5))
@pytest.mark.parametrize("step", STEPS)
def test_each_site_killed_at_each_step_leaves_the_rest_a_result(victim: int, step: str) -> None:
    sites = blobs(5, 2, rows=12)
    name = sites[victim].name
    run = fedgeom.run(fedgeom.Hulls(), sites, interfere=kill(name, step))
    assert run.lost == {name: "the process was killed"}
    others = [site for site in sites if site.name != name]
    counted = step.startswith(("sum.confirm 1", "sum.unmask 1", "hulls.take-model"))  # its word was in already
    assert run.metrics["sites"] == (5 if counted else 4)
    expected = fedgeom.run(fedgeom.Hulls(radius=run.metrics["radius"]), sites if counted else others)
    assert np.array_equal(run.model.normal, expected.model.normal)
    assert np.array_equal(run.model.reference, expected.model.reference)


def test_too_many_lost_sites_abort_with_their_names() -> None:
    sites = blobs(5, 2, rows=12)

    def interfere(name: str, request: bytes) -> str | None:
        return "no power" if unpack(request).kind == "sum.confirm" and name in ("site-1", "site-2") else None

    with pytest.raises(TooFewSitesError, match=r"(?s)site-1: no power.*site-2: no power"):
        fedgeom.run(fedgeom.Hulls(), sites, interfere=interfere)


def test_hulls_of_one_site_cannot_be_told_from_anothers() -> None:
    """Owner numbers follow the hidden order: over many runs each site has each number equally often."""
    sites = blobs(3, 2, rows=5)
    method = fedgeom.Hulls(radius=0.99, capacity=20, n_classes=2)
    keys = {tuple(sorted(hull)): k for k, site in enumerate(sites) for hull in bins_of(site, method)}
    counts = np.zeros((3, 3))
    for _ in range(60):
        run = fedgeom.run(method, sites)
        for hull, owner in zip(hulls_of(run), run.artifacts["owner_of_hull"].tolist(), strict=True):
            counts[keys[tuple(sorted(hull))], owner] += 0.5
    assert counts.sum(axis=0).tolist() == [60, 60, 60]
    expected = 20.0
    statistic = ((counts - expected) ** 2 / expected).sum()
    assert statistic < 23.5  # chi-square with 4 degrees of freedom, p = 1e-4


def bins_of(site: SiteData, method: fedgeom.Hulls) -> list[list[int]]:
    grid = PolarGrid(method.epsilon, method.radius or 0.99)
    return [bins.tolist() for bins in local_hulls(site.X, site.y, grid, method.trim).values()]


def test_more_hulls_in_a_bin_than_h_are_noticed_not_guessed() -> None:
    point = np.array([[0.3, 0.1]] * 2)
    sites = [SiteData(f"s{k}", np.vstack([point, [[-0.5, 0.1 * k], [-0.6, 0.0]]]), [0, 0, 1, 1]) for k in range(4)]
    crowded = fedgeom.run(fedgeom.Hulls(h=4, trim=0.0), sites)
    assert crowded.metrics["crowded_bins"] == 0
    assert max(len(set(hull)) for hull in hulls_of(crowded)) == 2
    with pytest.raises(InputError, match=r"more than h=2 hulls met.*use a finer epsilon or a larger h"):
        fedgeom.run(fedgeom.Hulls(h=2, trim=0.0), sites)


BAD = {
    "outside the ball": (lambda s: s[1].X.__setitem__((4, 0), 1.5), "site-2.*4"),
    "not a number": (lambda s: s[2].X.__setitem__((3, 1), np.nan), "site-3.*row 3, column 1 is nan"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_points_are_refused_before_anything_is_sent(case: str) -> None:
    spoil, message = BAD[case]
    sites = blobs(3, 2)
    spoil(sites)
    asked: list[str] = []
    with pytest.raises(InputError, match=message):
        fedgeom.run(fedgeom.Hulls(), sites, watch=lambda event: asked.append(event.kind))
    assert asked == []


def test_other_bad_input_names_the_site_and_what_to_do() -> None:
    good = blobs(3, 2)
    X, y = good[0].X, good[0].y
    cases = [
        (
            [SiteData("a", X, np.zeros(len(X)))] * 1 + [SiteData("b", X, np.zeros(len(X)))],
            {},
            "one class.*n_classes",
        ),
        (
            [SiteData("a", X[:2], [0, 1]), *good],
            {},
            "'a' has classes with fewer than 2 rows: '0'",
        ),
        ([SiteData("a", X[:0], y[:0]), *good], {}, "'a' has no rows"),
        ([SiteData("a", np.zeros((4, 3)), [0, 0, 1, 1]), *good], {}, "'a'.*3 columns"),
        (good, {"n_classes": 9}, "missing everywhere"),
        ([SiteData("a", X, np.arange(len(X)) // 2), *good], {"n_classes": 2}, "'a' has 30 classes"),
        (good, {"epsilon": 1e-12}, "epsilon"),
        (good, {"radius": 0.2}, "site-1.*outside the agreed radius 0.2"),
        ([], {}, "no sites were given"),
        ([good[0], good[0]], {}, "site names must differ.*site-1"),
    ]
    for sites, changes, message in cases:
        with pytest.raises(InputError, match=message):
            fedgeom.run(fedgeom.Hulls(**changes), sites)


def test_unequal_dimensions_name_the_odd_site() -> None:
    rng = np.random.default_rng(0)
    sites = [SiteData(n, rng.normal(size=(9, d)), np.arange(9) % 2) for n, d in [("a", 4), ("b", 4), ("c", 5)]]
    with pytest.raises(InputError, match="most have 4, but site 'c' has 5"):
        fedgeom.run(fedgeom.Hulls(embedding="discriminant"), sites)


def test_two_sites_need_a_policy_that_says_so() -> None:
    with pytest.raises(TooFewSitesError, match="at least 3"):
        fedgeom.run(fedgeom.Hulls(), blobs(2, 2))
