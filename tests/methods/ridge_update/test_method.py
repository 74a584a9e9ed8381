"""Updates of Ridge: exactly the ridge of all rows as they are now, and what cannot be updated."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import fedgeom
from fedgeom.data.sites import SiteData
from fedgeom.engines.run import change_of, update_method
from fedgeom.errors import InputError
from fedgeom.federation.preparation import Preparation
from fedgeom.methods.ridge.core import packed_gram, solve, starts, turn_of, turned
from fedgeom.methods.ridge.features import Fourier
from fedgeom.methods.ridge.update import RidgeUpdate
from fedgeom.preparation import Impute, OneHot, Scale
from fedgeom.testing import Check, parametrize_with_checks
from tests.methods.ridge.making import blobs

RIDGE = fedgeom.Ridge(features=Fourier(n_components=20), alpha=2.0, updatable=True, max_sum_length=2000)


def weights_of_rows(model, sites, *, discriminant: bool = False) -> np.ndarray:
    """Return the ridge of some rows on a model's features, from their bare sums, or the discriminants from it."""
    X, y = np.vstack([site.X for site in sites]), np.concatenate([site.y for site in sites])
    F, codes = model.features(X), np.searchsorted(model.names, y)
    total = packed_gram(lambda some: F[some], codes, len(model.names), F.shape[1])
    whole = (0, int(F.shape[1] + 1))
    assert len(total) == starts(F.shape[1], len(model.names))[-1]
    found = solve([total], [whole], F.shape[1], len(model.names), 2.0)
    return turned(found.weights, turn_of([total], [whole], found.weights, found.freedom) if discriminant else None)


def test_rows_added_and_taken_out_give_the_ridge_of_what_is_left() -> None:
    sites, later = blobs(), blobs(seed=5)
    run = fedgeom.run(RIDGE, sites)
    gone = [site.take(np.arange(10)) for site in sites[:3]]
    new = [site.take(np.arange(8)) for site in later[1:]]
    after = run.update(added=new, removed=gone)
    rest = [site.take(np.arange(10, len(site))) for site in sites[:3]]
    wanted = weights_of_rows(run.model, [*rest, sites[3], *new])
    np.testing.assert_allclose(after.model.weights, wanted, rtol=1e-6, atol=1e-9)
    assert after.metrics["rows added"] == 24
    assert after.metrics["rows taken out"] == 30
    assert after.metrics["rows"] == 120 + 24 - 30


def test_discriminants_are_made_anew_from_all_sums() -> None:
    run, new = fedgeom.run(replace(RIDGE, rule="discriminant"), blobs()), blobs(seed=7)
    after = run.update(added=new)
    wanted = weights_of_rows(run.model, [*blobs(), *new], discriminant=True)
    np.testing.assert_allclose(after.model.weights, wanted, rtol=1e-6, atol=1e-9)
    assert not np.allclose(after.model.weights, weights_of_rows(run.model, [*blobs(), *new]), rtol=1e-2)


def test_an_update_that_is_undone_leaves_the_first_model() -> None:
    run, new = fedgeom.run(RIDGE, blobs()), blobs(seed=7)
    back = run.update(added=new).update(removed=new)
    np.testing.assert_allclose(back.model.weights, run.model.weights, rtol=1e-7, atol=1e-10)


def test_a_site_that_withdraws_is_forgotten() -> None:
    sites = blobs()
    run = fedgeom.run(RIDGE, sites)
    # The others change some of theirs at the same time, so that no sum is one site's own.
    after = run.update(removed=[sites[0], *(site.take(np.arange(3)) for site in sites[1:])])
    rest = [site.take(np.arange(3, len(site))) for site in sites[1:]]
    np.testing.assert_allclose(after.model.weights, weights_of_rows(run.model, rest), rtol=1e-6, atol=1e-9)


def test_every_site_knows_what_stands_for_the_sums_and_an_update_says_the_next() -> None:
    sites = blobs()
    run = fedgeom.run(RIDGE, sites)
    told = {found["statistics"] for found in run.local.values()}
    assert told == {update_method(RIDGE, run).since}
    after = run.update(added=blobs(seed=3))
    assert {found["statistics"] for found in after.local.values()} == {update_method(RIDGE, after).since}
    assert told.isdisjoint({update_method(RIDGE, after).since})
    assert after.local["s0"]["statistics"] != run.local["s0"]["statistics"]


def update() -> RidgeUpdate:
    """Return the update of a run's model."""
    return update_method(RIDGE, fedgeom.run(RIDGE, blobs()))


@pytest.mark.full
@parametrize_with_checks([update], lambda: change_of(blobs(seed=2), []))
def test_it_keeps_the_contract(check: Check) -> None:
    check()


def raw(seed: int, rows: int = 30) -> list[SiteData]:
    """Return three sites' raw tables: gaps, and a column of words."""
    rng, found = np.random.default_rng(seed), []
    for at in range(3):
        y = rng.integers(0, 2, rows)
        X = np.column_stack([rng.normal(size=(rows, 3)) + y[:, None], rng.integers(0, 2, rows)])
        X[rng.random(X.shape) < 0.1] = np.nan
        names, words = ("age", "dose", "stay", "ward"), {"ward": ("east", "west")}
        found.append(SiteData(f"s{at}", X, np.array(["no", "yes"])[y], columns=names, categories=words))
    return found


def test_raw_rows_are_prepared_as_those_of_the_first_run_were(tmp_path) -> None:
    sites, new = raw(0), raw(1)
    method = fedgeom.Pipeline(
        OneHot(min_rows=2), Impute(strategy="mean"), Scale(), replace(RIDGE, max_sum_length=3000)
    )
    run = fedgeom.run(method, sites)
    after = run.update(added=new, record=tmp_path / "run")
    made = run.model.preparation
    assert made is not None
    rows = [made.transform(site) for site in (*sites, *new)]
    wanted = weights_of_rows(run.model.bare(), rows)
    np.testing.assert_allclose(after.model.weights, wanted, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(after.update(removed=new).model.weights, run.model.weights, rtol=1e-7, atol=1e-10)
    kept = fedgeom.load_model(tmp_path / "run" / "model.safetensors")  # takes raw rows, as the first one did
    assert kept.predict(new[0]).tolist() == after.model.predict(new[0]).tolist()
    assert after.model.preparation is not None


def test_another_preparation_is_not_what_the_terms_stand_for() -> None:
    first, second = (fedgeom.run(fedgeom.Pipeline(OneHot(), Impute(), RIDGE), raw(seed)) for seed in (0, 2))
    methods = [update_method(RIDGE, run) for run in (first, second)]
    made = [method.before.made for method in methods]
    assert made[0].prepared != made[1].prepared
    assert Preparation.from_bytes(made[0].prepared).to_bytes() == made[0].prepared
    with pytest.raises(InputError, match="cannot be read"):
        Preparation.from_bytes(b"nothing")


def test_what_cannot_be_updated_says_what_would_be() -> None:
    sites = blobs()
    with pytest.raises(InputError, match="updatable=True"):
        fedgeom.run(fedgeom.Ridge(features="linear"), sites).update(added=sites)
    with pytest.raises(InputError, match="cannot be updated"):
        fedgeom.run(fedgeom.Moments(space="euclidean"), sites).update(added=sites)
    run = fedgeom.run(RIDGE, sites)
    with pytest.raises(InputError, match="no rows were given"):
        run.update()
    with pytest.raises(InputError, match=r"1 site given with changes, 's0'.*Wanted 2 or more at once"):
        run.update(removed=sites[:1])
    with pytest.raises(InputError, match="c9"):
        run.update(added=[SiteData(site.name, site.X, np.full(len(site), "c9")) for site in sites])
    with pytest.raises(InputError, match="rows are left"):
        run.update(removed=[*sites, *(SiteData(f"more-{site.name}", site.X, site.y) for site in sites)])
    with pytest.raises(InputError, match="balanced"):
        fedgeom.Ridge(updatable=True, balanced=True)


def test_settings_that_stand_for_nothing_are_refused() -> None:
    with pytest.raises(InputError, match="64 hexadecimal"):
        RidgeUpdate(classes=("a", "b"))
    with pytest.raises(InputError, match="classes"):
        RidgeUpdate(since="0" * 64)
    method = RidgeUpdate(since="0" * 64, classes=("c0", "c1", "c2"))
    with pytest.raises(InputError, match="sums of the run before"):
        method.plain(blobs())
    with pytest.raises(InputError, match="not those"):
        method.on(update_method(RIDGE, fedgeom.run(RIDGE, blobs())).before)


def test_rows_without_a_sign_are_refused_by_name() -> None:
    run = fedgeom.run(RIDGE, blobs())
    with pytest.raises(InputError, match=r"'s0'.*1 for each row"):
        fedgeom.run(update_method(RIDGE, run), blobs())
