"""Shrunk: only sums leave, sites that differ get models that differ."""

from __future__ import annotations

import numpy as np
import pytest

import fedgeom
from fedgeom import Shrunk, SiteData
from fedgeom.errors import InputError, TooFewSitesError
from fedgeom.methods.shrunk.core import site_terms
from fedgeom.protocols.plan import disclosures
from tests.methods.coordinators import kill
from tests.methods.shrunk.making import QUICK, hospitals


def test_the_order_of_sites_changes_nothing() -> None:
    sites, method = hospitals(), Shrunk(**QUICK)  # type: ignore[arg-type]
    first = fedgeom.run(method, sites, seed=1).model.to_bytes()
    assert fedgeom.run(method, sites[::-1], seed=1).model.to_bytes() == first
    assert method.plain(sites[::-1], 1).model.to_bytes() == first


def test_names_that_the_settings_give_keep_their_order() -> None:
    sites = hospitals()
    usual = fedgeom.run(Shrunk(**QUICK), sites).model  # type: ignore[arg-type]
    turned = fedgeom.run(Shrunk(**QUICK, classes=("yes", "no")), sites).model  # type: ignore[arg-type]
    assert (usual.names, turned.names) == (("no", "yes"), ("yes", "no"))
    X = sites[0].X
    np.testing.assert_allclose(turned.predict_proba(X), usual.predict_proba(X)[:, ::-1], atol=0.05)


def test_hospitals_that_differ_get_models_that_differ() -> None:
    alike, apart = hospitals(rows=200, differ=0.0), hospitals(rows=200, differ=2.0)
    spread = []
    for sites in (alike, apart):
        run = fedgeom.run(Shrunk(**QUICK), sites, seed=0)  # type: ignore[arg-type]
        vectors = np.array([run.local[site.name]["model"][1:] for site in sites])
        spread.append(np.linalg.norm(vectors - vectors.mean(axis=0)) / np.linalg.norm(vectors))
        right = [np.mean(run.model.for_site(run.local[s.name]).predict(s.X) == s.y) for s in sites]
        assert np.mean(right) > 0.6
    assert spread[1] > 3 * spread[0]


def test_donors_that_are_measured_differently_have_models_of_their_own_of_several_classes() -> None:
    """On the joint scale a donor's rows lie in a corner; each alone could tell its classes apart."""
    rng = np.random.default_rng(0)
    centres = 2 * rng.normal(size=(4, 8))
    sites = []
    for at in range(6):
        y = np.concatenate([np.repeat(np.arange(4), 6), rng.choice(4, size=60, p=rng.dirichlet(np.ones(4)))])
        mixed = (np.eye(8) + 0.5 * rng.normal(size=(8, 8))) * np.exp(1.5 * rng.normal())
        X = (centres[y] + rng.normal(size=(len(y), 8))) @ mixed + 20 * rng.normal(size=8)
        sites.append(SiteData(f"d{at}", X, np.array(list("abcd"))[y]))
    run = fedgeom.run(Shrunk(), sites, holdout=0.3)
    assert run.evaluation is not None
    own, local = run.evaluation["own"].accuracy, run.evaluation["local"].accuracy
    assert own is not None
    assert local is not None
    assert own.value > 0.95
    assert own.value > local.value - 0.03


def test_only_sums_leave_the_sites() -> None:
    run = fedgeom.run(Shrunk(**QUICK), hospitals())  # type: ignore[arg-type]
    assert not {"train.update", "topo.description"} & {entry.kind for entry in run.ledger}
    assert any("held-out" in entry.reveals for entry in run.ledger)
    own = [one for one in disclosures(Shrunk()) if one.question.startswith("shrunk.")]
    assert all(one.reveals.startswith(("masked", "nothing")) for one in own)


STEPS = [
    "shrunk.terms",
    "shrunk.terms 3",
    "shrunk.evidence",
    "shrunk.take-evidence",
    "train.columns",
    "train.begin",
]


@pytest.mark.parametrize("step", STEPS)
def test_a_site_may_be_lost(step: str) -> None:
    run = fedgeom.run(Shrunk(**QUICK), hospitals(), interfere=kill("h1", step))  # type: ignore[arg-type]
    assert set(run.lost) == {"h1"}
    assert all("model" in run.local[name] for name in ("h0", "h2", "h3"))
    assert "model" not in run.local.get("h1", {})
    if step == "train.columns":  # it was in no sum at all
        others = [site for site in hospitals() if site.name != "h1"]
        assert run.model.to_bytes() == Shrunk(**QUICK).plain(others).model.to_bytes()  # type: ignore[arg-type]


def three(n: int = 4, rows: int = 60) -> list[SiteData]:
    """Return hospitals with three outcomes, of which the first hospital lacks one."""
    rng = np.random.default_rng(3)
    middles, found = 2 * rng.normal(size=(3, 3)), []
    for at in range(n):
        y = rng.integers(0, 2 if at == 0 else 3, rows)
        found.append(
            SiteData(f"h{at}", middles[y] + 0.3 * at + rng.normal(size=(rows, 3)), np.array(list("abc"))[y])
        )
    return found


def test_more_than_two_classes_are_each_told_from_the_others() -> None:
    sites, method = three(), Shrunk(n_rounds=6, n_folds=2)
    run = fedgeom.run(method, sites, seed=1)
    assert run.metrics["classes"] == 3
    joint = np.concatenate([run.model.predict(site.X) == site.y for site in sites])
    own = np.concatenate([run.model.for_site(run.local[s.name]).predict(s.X) == s.y for s in sites])
    assert joint.mean() > 0.75
    assert own.mean() > 0.8
    assert not np.any(run.model.for_site(run.local["h0"]).predict(sites[0].X) == "c")  # there is none at h0


def test_two_classes_as_outcomes_are_what_they_are_alone() -> None:
    """Class against class, and each against the other: the same directions with the opposite sign."""
    X, y = np.random.default_rng(0).normal(size=(40, 2)), np.arange(40) % 2
    found = site_terms(X, np.array([y, 1 - y]), np.zeros(40, np.int64), np.zeros((2, 1, 2)))
    np.testing.assert_allclose(found.gradients[0], -found.gradients[1], atol=1e-12)


def test_wrong_tables_are_refused_in_words() -> None:
    wide = [SiteData(s.name, np.random.default_rng(0).normal(size=(len(s), 101)), s.y) for s in hospitals()]
    with pytest.raises((InputError, TooFewSitesError), match="100 columns"):
        fedgeom.run(Shrunk(**QUICK), wide)  # type: ignore[arg-type]
