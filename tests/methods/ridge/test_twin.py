"""Secure runs of Ridge against `twin.py`, from raw rows to probabilities: it shares no line with fedgeom."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import fedgeom
from fedgeom.methods.ridge.features import Binned, Fourier
from fedgeom.methods.ridge.image_features import Conv, RandomConv
from tests.methods.coordinators import kill
from tests.methods.ridge import twin

Tables = dict[str, tuple[np.ndarray, np.ndarray]]
NAMES = ["ape", "bee", "cat"]
SEED = 3


def tables(sites: int = 4, rows: int = 40, columns: int = 5, seed: int = 0, differ: float = 0.3) -> Tables:
    """Draw classes of unlike sizes in columns of unlike units, one of them constant; sites differ a little."""
    rng = np.random.default_rng(seed)
    truth = np.random.default_rng(7)
    centres = truth.normal(size=(3, columns))
    units = 10.0 ** np.linspace(-1, 1, columns)
    found = {}
    for at in range(sites):
        y = rng.choice(3, rows + 5 * at, p=[0.5, 0.3, 0.2])
        X = centres[y] + rng.normal(size=(len(y), columns)) + differ * truth.normal(size=(3, columns))[y]
        X = X * units + 3 * units
        X[:, 1] = 4.0
        found[f"s{at}"] = (X, np.array(NAMES)[y])
    return found


DRAWN = tables()
NEW = np.vstack([X for X, _ in tables(seed=9).values()])


def pool(drawn: Tables) -> tuple[np.ndarray, np.ndarray]:
    return np.vstack([X for X, _ in drawn.values()]), np.concatenate([y for _, y in drawn.values()])


def secure(drawn: Tables = DRAWN, policy: fedgeom.Policy | None = None, **settings: Any) -> fedgeom.Run:
    """Run tables through the whole protocol."""
    sites = [fedgeom.SiteData(name, X, y) for name, (X, y) in drawn.items()]
    run = fedgeom.run(fedgeom.Ridge(**{"features": "linear"} | settings), sites, seed=SEED, policy=policy)
    assert "sum.masked" in {entry.kind for entry in run.ledger}
    return run


def assert_same(model: Any, expected: twin.Found, new: np.ndarray = NEW, atol: float = 1e-7) -> None:
    """λ and temperature are equal, scores and probabilities of new rows nearly."""
    assert model.alpha == pytest.approx(expected.alpha, rel=1e-12)
    assert model.temperature == pytest.approx(expected.temperature, rel=1e-12)
    wanted = expected.decide(new)
    np.testing.assert_allclose(model.class_scores(new), wanted, rtol=0, atol=atol * max(1, np.abs(wanted).max()))
    np.testing.assert_allclose(model.predict_proba(new), expected.probabilities(new), rtol=0, atol=30 * atol)


MAPS: dict[str, tuple[Any, Any]] = {
    "linear": ("linear", [twin.linear]),
    "fourier": (Fourier(n_components=30, bandwidth=1.3), [twin.fourier(30, 1.3)]),
    "fourier of components": (Fourier(n_components=25, scale="joint"), [twin.fourier(25, joint=True)]),
    "binned": (Binned(n_bins=3, group_size=2), [twin.binned(3, 2)]),
    "binned, shuffled twice": (Binned(n_bins=2, group_size=3, n_shuffles=2), [twin.binned(2, 3, 2)]),
    "side by side": (["linear", Fourier(n_components=12)], [twin.linear, twin.fourier(12)]),
}


@pytest.mark.parametrize("rule", ["ridge", "discriminant"])
@pytest.mark.parametrize("maps", MAPS)
def test_features_weights_alpha_and_temperature_are_those_of_all_rows(maps: str, rule: str) -> None:
    features, made = MAPS[maps]
    expected = twin.ridge(*pool(DRAWN), NAMES, made, SEED, rule=rule)
    assert_same(secure(features=features, rule=rule).model, expected)


@pytest.mark.parametrize("alpha", ["gcv", "folds", 0.02, 300.0])
@pytest.mark.parametrize("balanced", [False, True])
@pytest.mark.parametrize("rule", ["ridge", "discriminant"])
def test_how_strongly_weights_are_held_back(rule: str, balanced: bool, alpha: Any) -> None:
    features, made = MAPS["fourier"]
    expected = twin.ridge(*pool(DRAWN), NAMES, made, SEED, alpha, balanced, rule)
    assert_same(secure(features=features, alpha=alpha, balanced=balanced, rule=rule).model, expected)


def tight(noise: float, rows: int) -> Tables:
    """Draw classes so narrow that features fit them exactly."""
    rng = np.random.default_rng(0)
    centres = np.random.default_rng(7).normal(size=(3, 5))
    found = {}
    for at in range(4):
        y = rng.choice(3, rows + 5 * at, p=[0.5, 0.3, 0.2])
        found[f"s{at}"] = (centres[y] + noise * rng.normal(size=(len(y), 5)), np.array(NAMES)[y])
    return found


def test_the_least_alpha_of_the_grid_is_tried() -> None:
    drawn = tight(0.02, 40)
    expected = twin.ridge(*pool(drawn), NAMES, [twin.fourier(60)], SEED)
    assert expected.alpha == twin.LAMBDAS[0]
    run = secure(drawn, features=Fourier(n_components=60))
    assert_same(run.model, expected, np.vstack([X for X, _ in tight(0.5, 20).values()]), atol=1e-4)


def test_fits_with_hardly_any_freedom_left_are_no_candidates() -> None:
    """Of 400 features of 78 rows: small λ would fit all rows exactly, and cross-validate best by rounding alone."""
    drawn = tight(0.1, 12)
    X, y = pool(drawn)
    codes = np.array([NAMES.index(label) for label in y.tolist()])
    fit = twin.Fit.of(twin.fourier(400, 0.3)(X, X, SEED), codes, 3)
    left = {alpha: len(y) - fit.solve(alpha)[1] for alpha in twin.LAMBDAS}
    least = min(twin.LAMBDAS, key=lambda alpha: fit.solve(alpha)[2] / left[alpha] ** 2)
    assert left[least] < 0.05 * len(y)
    expected = twin.ridge(X, y, NAMES, [twin.fourier(400, 0.3)], SEED)
    assert_same(
        secure(drawn, features=Fourier(n_components=400, bandwidth=0.3)).model, expected, X + 0.1, atol=1e-6
    )


def test_sums_in_parts_give_the_same() -> None:
    features, made = MAPS["fourier"]
    run = secure(features=features, max_sum_length=200, classes=tuple(NAMES), max_features=30)
    assert_same(run.model, twin.ridge(*pool(DRAWN), NAMES, made, SEED))
    assert sum("Gram" in entry.reveals or "products" in entry.reveals for entry in run.ledger) > 8


def test_classes_that_the_terms_name_keep_their_order() -> None:
    names = ["cat", "ape", "bee"]
    run = secure(classes=tuple(names))
    assert run.model.names == tuple(names)
    assert_same(run.model, twin.ridge(*pool(DRAWN), names, seed=SEED))


def test_rows_of_rare_classes_and_of_lost_sites_are_in_no_number() -> None:
    X, y = DRAWN["s0"]
    odd = DRAWN | {"s0": (X, np.where(np.arange(len(y)) < 9, "odd", y))}
    policy = fedgeom.Policy(single_site_classes=False, min_sites=3, min_rows=10)
    kept = odd | {"s0": (X[9:], y[9:])}
    assert_same(secure(odd, policy).model, twin.ridge(*pool(kept), NAMES, seed=SEED))
    sites = [fedgeom.SiteData(name, *one) for name, one in DRAWN.items()]
    run = fedgeom.run(
        fedgeom.Ridge(features="linear", alpha=1.0), sites, seed=SEED, interfere=kill("s2", "ridge.columns")
    )
    others = {name: one for name, one in DRAWN.items() if name != "s2"}
    assert_same(run.model, twin.ridge(*pool(others), NAMES, seed=SEED, alpha=1.0))


def test_only_some_of_very_many_rows_decide_on_the_temperature(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those whose checksum says so: the same rows, wherever they are."""
    monkeypatch.setattr("fedgeom.methods.ridge.statistics.CALIBRATED", 20)
    X, y = pool(DRAWN)
    found = twin.ridge(X, y, NAMES, seed=SEED, alpha=1.0)
    codes = np.array([NAMES.index(label) for label in y.tolist()])
    tried = twin.fold_of(X, len(y) // 20) == 0
    assert 5 < tried.sum() < 40
    warmth = twin.temperature(found.decide(X[tried]), codes[tried], found.freedom / len(y) * tried.sum())
    assert warmth != found.temperature
    assert_same(secure(alpha=1.0).model, replace(found, temperature=warmth))


@pytest.mark.parametrize("differ", [0.0, 1.5])
@pytest.mark.parametrize("maps", ["linear", "fourier"])
def test_personal_models_are_ridges_of_what_the_joint_one_leaves_over(maps: str, differ: float) -> None:
    features, made = MAPS[maps]
    drawn = tables(sites=3, rows=25, differ=differ)
    run = secure(drawn, features=features, personal=True)
    X, y = pool(drawn)
    joint = twin.ridge(X, y, NAMES, made, SEED)
    assert_same(run.model, joint)
    found = twin.own_models(drawn, NAMES, joint, len(y))
    for name, (weights, strength) in found.items():
        assert run.local[name].get("strength", np.inf) == pytest.approx(strength)
        scores = joint.features(NEW) @ weights[1:] + weights[0]
        own = run.model.for_site(run.local[name])
        np.testing.assert_allclose(own.class_scores(NEW), scores, rtol=0, atol=1e-6)


def test_an_update_is_the_ridge_of_all_rows_on_the_features_of_the_first() -> None:
    features, made = MAPS["fourier"]
    for rule in ("ridge", "discriminant"):
        run = secure(features=features, rule=rule, updatable=True)
        later = tables(rows=12, seed=5)
        new = [fedgeom.SiteData(name, *one) for name, one in later.items()]
        gone = [fedgeom.SiteData(name, X[:6], y[:6]) for name, (X, y) in DRAWN.items()]
        after = run.update(added=new, removed=gone)
        now = {
            name: (np.vstack([X[6:], later[name][0]]), np.append(y[6:], later[name][1]))
            for name, (X, y) in DRAWN.items()
        }
        first = twin.ridge(*pool(DRAWN), NAMES, made, SEED, rule=rule)
        expected = twin.ridge(*pool(now), NAMES, made, SEED, rule=rule, known=pool(DRAWN)[0])
        assert_same(after.model, replace(expected, temperature=first.temperature))


# Images.


def pictures(shape: tuple[int, int, int], rows: int = 26, sites: int = 3, seed: int = 0) -> Tables:
    """Draw small images with a bright row or column."""
    rng = np.random.default_rng(seed)
    found = {}
    for at in range(sites):
        y = np.arange(rows + at) % 2
        X = rng.integers(0, 120, (len(y), *shape))
        X[y == 1, :, 2] += 80
        X[y == 0, 3] += 80
        found[f"s{at}"] = (X.reshape(len(y), -1).astype(np.uint8), np.array(["down", "across"])[y])
    return found


SMALL = {"n_filters": 5, "patch_size": 3, "padding": 1, "pools": 2, "means": 3, "threshold": 0.2}
IMAGES: dict[str, tuple[tuple[int, int, int], Any, dict[str, Any]]] = {
    "random": ((7, 6, 1), RandomConv(**SMALL), {}),
    "random, mirrored": ((7, 6, 3), RandomConv(**SMALL), {"mirror": True}),
    "learnt": ((7, 6, 1), Conv(**SMALL, n_rounds=2, min_cell=3), {"n_rounds": 2, "least": 3}),
    "learnt, colour": (
        (9, 8, 3),
        Conv(**SMALL, n_rounds=2, min_cell=3),
        {"n_rounds": 2, "least": 3, "mirror": True},
    ),
    "learnt, pools overlap": (
        (9, 8, 3),
        Conv(**SMALL, overlap=0.6, n_rounds=2, min_cell=3),
        {"n_rounds": 2, "least": 3, "mirror": True, "overlap": 0.6},
    ),
    "few move": (
        (7, 6, 1),
        Conv(**SMALL | {"n_filters": 40}, n_rounds=2, min_cell=50),
        {"n_filters": 40, "n_rounds": 2, "least": 50},
    ),
}


@pytest.mark.parametrize("case", IMAGES)
def test_convolutions(case: str) -> None:
    """Patches and responses are computed in single precision."""
    shape, features, changed = IMAGES[case]
    drawn = pictures(shape)
    X, y = pool(drawn)
    made = twin.Convolution(shape, **SMALL | changed)
    expected = twin.ridge(X, y, ["across", "down"], [made], SEED, alpha=3.0)
    model = secure(drawn, features=features, shape=shape, alpha=3.0).model
    new = pool(pictures(shape, seed=4))[0]
    np.testing.assert_allclose(model.features(new), expected.features(new), rtol=0, atol=2e-4)
    if made.n_rounds:
        np.testing.assert_allclose(model.filters, made.bank(X, SEED)[0], rtol=0, atol=2e-4)
        still = replace(made, least=10**6).bank(X, SEED)[0]
        moved = np.abs(made.bank(X, SEED)[0] - still).max(axis=0) > 0.01
        assert moved.any()
        assert moved.all() == (case != "few move")
    assert_same(model, expected, new, atol=1e-3)
    assert (expected.decide(new).argmax(axis=1) == (pool(pictures(shape, seed=4))[1] == "down")).mean() > 0.8


# Privacy.


@pytest.mark.usefixtures("fixed_noise")
@pytest.mark.parametrize("rule", ["ridge", "discriminant"])
@pytest.mark.parametrize("bent", [False, True])
def test_with_little_noise_a_private_model_is_that_of_shortened_rows(bent: bool, rule: str) -> None:
    """ε = 40 is noise of a third of a row on each number."""
    rng = np.random.default_rng(0)
    drawn = {}
    for name in "nsew":
        y = rng.integers(0, 3, 5000)
        drawn[name] = (np.eye(4)[y] + 0.4 * rng.normal(size=(5000, 4)), np.array(NAMES)[y])
    X, y = pool(drawn)
    codes = np.array([NAMES.index(label) for label in y.tolist()])
    clip = 3.0 if bent else 1.3
    ones = np.vstack([np.eye(4), -np.eye(4)]) * 2  # rows of mean 0 and deviation 1: columns are taken as they are
    maps = [twin.linear, twin.fourier(6)] if bent else [twin.linear]

    def features(rows: np.ndarray) -> np.ndarray:
        return np.hstack([one(rows, ones, SEED) for one in maps])

    F = features(X)
    assert (np.linalg.norm(F, axis=1) > clip).mean() > 0.05
    decide = twin.private_decision(twin.shortened(F, clip), codes, 3, 300.0, rule)
    settings = {
        "features": ["linear", Fourier(n_components=6)] if bent else "linear",
        "classes": tuple(NAMES),
        "min_sites": 4,
    }
    privacy = fedgeom.DP(epsilon=40.0, delta=0.01, clip=clip)
    model = secure(drawn, alpha=300.0, rule=rule, privacy=privacy, **settings).model
    new = 0.7 * rng.normal(size=(300, 4))
    found = model.class_scores(new)
    wanted = decide(features(new))
    if rule == "discriminant":  # what is the same for all classes decides nothing
        found = found - found[:, :1]
        wanted = wanted - wanted[:, :1]
    np.testing.assert_allclose(found, wanted, rtol=0, atol=0.01 * np.abs(wanted).max())
    assert model.temperature == (1.0 if rule == "discriminant" else 0.3)


def test_the_cases_are_not_too_easy() -> None:
    """λ lies inside the grid and differs by how it is chosen; seeds, rules, weights and features matter."""
    X, y = pool(DRAWN)
    found = [twin.ridge(X, y, NAMES, made, SEED) for _, made in MAPS.values()]
    found.append(twin.ridge(X, y, NAMES, MAPS["fourier"][1], SEED + 1))
    found.append(twin.ridge(X, y, NAMES, MAPS["fourier"][1], SEED, balanced=True))
    found.append(twin.ridge(X, y, NAMES, MAPS["fourier"][1], SEED, rule="discriminant"))
    assert len({one.alpha for one in found}) > 2
    assert all(twin.LAMBDAS[0] < one.alpha < twin.LAMBDAS[-1] for one in found)
    assert len({one.temperature for one in found}) > 3
    for at, one in enumerate(found):
        for other in found[:at]:
            assert np.abs(one.probabilities(NEW) - other.probabilities(NEW)).max() > 1e-2
    by = [twin.ridge(X, y, NAMES, MAPS["fourier"][1], SEED, alpha) for alpha in ("gcv", "folds")]
    assert by[0].alpha != by[1].alpha
