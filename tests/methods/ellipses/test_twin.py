"""Secure runs of Ellipses against `twin.py`, which tries all matchings and shares no line with fedgeom."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.special import softmax

import fedgeom
from tests.methods.ellipses import twin
from tests.methods.ellipses.making import at_depth

Tables = dict[str, tuple[np.ndarray, np.ndarray]]
WORDS = {"s0": "abc", "s1": "zxy", "s2": "pqr", "s3": "kl"}
"""What each site calls the three classes; the last has two of them."""


def tables(shared: bool = False, rows: int = 34, seed: int = 0, c: float | None = None) -> Tables:
    """Draw three classes of unlike shapes and sizes; sites are on scales of their own, and one class is small."""
    rng = np.random.default_rng(seed)
    truth = np.random.default_rng(3)
    middles = 2.2 * truth.normal(size=(3, 3))
    shapes = truth.normal(size=(3, 3, 3)) * 0.5 + 0.5 * np.eye(3)
    found = {}
    for at, name in enumerate(WORDS):
        sizes = (rows, rows // 2 + 3 * at, 5 + at)
        parts = [middles[k] + rng.normal(size=(n, 3)) @ shapes[k].T for k, n in enumerate(sizes)]
        words = "abc" if shared else WORDS[name]
        if len(words) < 3:
            parts = parts[:2]
        X = np.vstack(parts) + 0.1 * at
        if c is not None:
            length = np.linalg.norm(X, axis=1, keepdims=True)
            X = X / length * np.tanh(length / 4) / np.sqrt(c)
        found[name] = (X, np.repeat(list(words[: len(parts)]), [len(part) for part in parts]))
    return found


def secure(drawn: Tables, policy: fedgeom.Policy | None = None, **settings: Any) -> fedgeom.Run:
    """Run tables through the whole protocol."""
    sites = [fedgeom.SiteData(name, X, y) for name, (X, y) in drawn.items()]
    run = fedgeom.run(fedgeom.Ellipses(**settings), sites, seed=4, policy=policy)
    assert "sum.masked" in {entry.kind for entry in run.ledger}
    return run


def assert_same(run: fedgeom.Run, expected: twin.Found, new: np.ndarray, atol: float = 1e-5) -> None:
    """Words mean the same, and rows of every site have the same probabilities."""
    for name, names in expected.names.items():
        assert run.local[name]["names"] == names
    if len(expected.parts) == run.model.classes:  # of several lumps, the order is nobody's business
        near = {"rtol": 1e-6, "atol": 1e-6}
        np.testing.assert_allclose(run.model.means, [one.mean for one in expected.parts], **near)
        np.testing.assert_allclose(run.model.covariances, [one.covariance for one in expected.parts], **near)
    for name in expected.names:
        own = run.model.for_site(run.local[name])
        wanted = expected.scores(new, name)
        found = own.class_scores(new)
        np.testing.assert_allclose(softmax(found, axis=1), softmax(wanted, axis=1), atol=atol)
        gap = found - wanted
        assert gap.max() - gap.min() < 100 * atol * np.abs(wanted).max()  # densities lack a constant


CASES: dict[str, tuple[dict[str, Any], twin.Rules]] = {
    "own words": ({}, twin.Rules()),
    "a number of classes": ({"n_classes": 3}, twin.Rules(classes=3)),
    "each site's scale": ({"scale": "site"}, twin.Rules(scale="site")),
    "no scale": ({"scale": "none"}, twin.Rules(scale="none")),
    "linear": ({"rule": "linear"}, twin.Rules(linear=True)),
    "little shrinkage": ({"shrinkage": 0.5}, twin.Rules(shrinkage=0.5)),
    "small classes stay at home": ({"min_rows": 7}, twin.Rules(min_rows=7)),
    "covariances of many rows only": ({"rows_per_column": 8.0}, twin.Rules(full=8.0)),
    "all covariances": ({"rows_per_column": 0.0}, twin.Rules(full=0.0)),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("names", ["own", "shared"])
def test_words_and_gaussians_are_those_of_all_rows(names: str, case: str) -> None:
    settings, rules = CASES[case]
    if names == "shared":
        settings = {name: value for name, value in settings.items() if name != "n_classes"}
        rules = replace(rules, shared=True, classes=None)
    drawn = tables(names == "shared")
    new = np.vstack([X for X, _ in tables(seed=8).values()])
    assert_same(secure(drawn, names=names, **settings), twin.fit(drawn, rules), new)


@pytest.mark.parametrize("names", ["own", "shared"])
@pytest.mark.parametrize("curvature", [1.0, 2.0])
def test_in_the_ball(curvature: float, names: str) -> None:
    drawn = tables(names == "shared", c=curvature)
    new = np.vstack([X for X, _ in tables(seed=8, c=curvature).values()])
    run = secure(drawn, names=names, space="ball", curvature=curvature)
    assert_same(run, twin.fit(drawn, twin.Rules(c=curvature, shared=names == "shared")), new)


def two_lumps(shared: bool) -> Tables:
    """Draw classes of which the first is made of two clouds far apart."""
    rng = np.random.default_rng(1)
    found = {}
    for at, name in enumerate(("s0", "s1", "s2")):
        clouds = [([0, 0], 40), ([9, 1], 30 + at), ([4, 5], 50)]
        X = np.vstack([np.array(middle) + rng.normal(size=(n, 2)) * [1, 0.6] for middle, n in clouds])
        words = ("a", "a", "b") if shared else (f"a{at}", f"a{at}", f"b{at}")
        found[name] = (X, np.repeat(words, [n for _, n in clouds]))
    return found


@pytest.mark.parametrize("names", ["own", "shared"])
def test_classes_of_several_lumps(names: str) -> None:
    drawn = two_lumps(names == "shared")
    expected = twin.fit(drawn, twin.Rules(lumps=3, shared=names == "shared"))
    assert len(expected.parts) == 3
    new = np.random.default_rng(2).normal(size=(80, 2)) * 4 + 3
    assert_same(secure(drawn, names=names, n_components=3), expected, new)


def test_words_at_different_depth() -> None:
    drawn = {site.name: (site.X, site.y) for site in at_depth()}
    expected = twin.fit(drawn, twin.Rules(classes=4, mixed=True))
    run = secure(drawn, n_classes=4, depth="mixed")
    assert_same(run, expected, np.random.default_rng(2).normal(size=(80, 3)) * 4 + 3)
    for name, covers in expected.covers.items():
        assert run.local[name]["covers"] == covers
    assert sorted(map(len, expected.covers["s3"].values())) == [2, 2]


def partly(share: float, away: float) -> Tables:
    """Draw sites of which the last calls class 0 and some of class 1 one word; class 2 is so far from class 1."""
    rng = np.random.default_rng(0)
    middles = np.array([[0, 0], [3, 0], [3 + away, 0], [0, 9]])
    found = {}
    for name, words, second in (("s0", "abcd", 200), ("s1", "klmn", 200), ("s2", "xxyz", int(share * 200))):
        sizes = (200, second, 200, 200)
        parts = [middle + rng.normal(size=(n, 2)) for middle, n in zip(middles, sizes, strict=True)]
        found[name] = (np.vstack(parts), np.repeat(list(words), sizes))
    return found


@pytest.mark.parametrize(
    ("share", "away", "several"),
    [(0.2, 9.0, False), (0.25, 9.0, True), (0.25, 2.5, True), (0.25, 1.2, False)],
    ids=["too few of it", "just enough of it", "most of its points", "too few of its points"],
)
def test_when_a_word_is_made_of_several(share: float, away: float, several: bool) -> None:
    """Near the thresholds: 0.77 of the nearest one's distance, and half of the points."""
    drawn = partly(share, away)
    expected = twin.fit(drawn, twin.Rules(classes=4, mixed=True))
    assert ("x" not in expected.names["s2"]) == several
    run = secure(drawn, n_classes=4, depth="mixed")
    assert {name: run.local[name]["names"] for name in drawn} == expected.names
    assert {name: run.local[name]["covers"] for name in drawn} == expected.covers


def alike(shift: float, seed: int) -> Tables:
    """Draw classes that differ in breadth more than in place, at sites that move each by chance."""
    rng = np.random.default_rng(seed)
    found = {}
    for name, words in {"s0": "abc", "s1": "zxy", "s2": "rpq", "s3": "klm"}.items():
        parts = [
            rng.normal(size=(60, 2)) * broad + shift * rng.normal(size=2) for broad in ((1, 1), (3, 1), (1, 3))
        ]
        found[name] = (np.vstack(parts), np.repeat(list(words), 60))
    return found


@pytest.mark.parametrize("shift", [0.6, 1.0, 1.5])
def test_words_that_are_hard_to_match(shift: float) -> None:
    """Were places worth twice or half as much in the distance, words would be matched otherwise in some case."""
    for seed in range(4):
        drawn = alike(shift, seed)
        run = secure(drawn)
        assert {name: run.local[name]["names"] for name in drawn} == twin.fit(drawn, twin.Rules()).names


def test_rare_words_are_in_no_number() -> None:
    drawn = tables(shared=True)
    X, y = drawn["s0"]
    odd = drawn | {"s0": (X, np.where(np.arange(len(y)) < 12, "odd", y))}
    policy = fedgeom.Policy(single_site_classes=False, min_sites=3, min_rows=10)
    kept = drawn | {"s0": (X[12:], y[12:])}
    new = np.vstack([X for X, _ in tables(seed=8).values()])
    assert_same(secure(odd, policy, names="shared"), twin.fit(kept, twin.Rules(shared=True)), new)


@pytest.mark.usefixtures("fixed_noise")
@pytest.mark.parametrize("names", ["own", "shared"])
def test_with_little_noise_a_private_model_is_that_of_shortened_rows(names: str) -> None:
    """ε = 40 is noise of a third of a row on each number, of some 1,000 rows in each class of each site."""
    rng = np.random.default_rng(0)
    clip = 1.5
    drawn = {}
    short = {}
    for name, words in WORDS.items():
        k = rng.integers(0, 3, 4000)
        X = 0.3 * rng.normal(size=(4000, 3)) * [1, 0.6, 1.4] + np.eye(3)[k]
        y = np.array(list("abc" if names == "shared" else (words + "m")[:3]))[k]
        drawn[name] = (X, y)
        short[name] = (X * np.minimum(1, clip / np.linalg.norm(X, axis=1))[:, None], y)
    settings = {"names": names, "classes": tuple("abc")} if names == "shared" else {"n_classes": 3}
    privacy = fedgeom.DP(epsilon=40.0, delta=0.01, clip=clip)
    run = secure(drawn, scale="none", min_sites=4, privacy=privacy, **settings)
    expected = twin.fit(short, twin.Rules(scale="none", shared=names == "shared", full=0.0))
    for name, found in expected.names.items():
        assert run.local[name]["names"] == found
    np.testing.assert_allclose(run.model.means, [one.mean for one in expected.parts], atol=3e-3)
    np.testing.assert_allclose(run.model.covariances, [one.covariance for one in expected.parts], atol=3e-3)
    assert max(np.linalg.norm(X, axis=1).max() for X, _ in drawn.values()) > clip


def test_the_cases_are_not_too_easy() -> None:
    """What is set matters by far more than the tolerance, and words are not matched by their order."""
    drawn = tables()
    new = np.vstack([X for X, _ in tables(seed=8).values()])
    found = [
        twin.fit(drawn, rules)
        for name, (_, rules) in CASES.items()
        if name not in ("a number of classes", "no scale")
    ]
    for at, one in enumerate(found):
        for other in found[:at]:
            gap = softmax(one.scores(new, "s1"), axis=1) - softmax(other.scores(new, "s1"), axis=1)
            assert np.abs(gap).max() > 1e-3
    assert found[0].names["s1"] != dict(zip("xyz", range(3), strict=True))
