"""Secure runs of Shrunk against `twin.py`, which searches for every optimum by other means and shares no line."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import fedgeom
from tests.methods.shrunk import twin

Tables = dict[str, tuple[np.ndarray, np.ndarray]]
SEED = 3
FOLDS = 3


def hospitals(outcomes: str, rows: int = 40, differ: float = 1.0, seed: int = 0) -> Tables:
    """Draw four hospitals that differ in what outcomes depend on; the first lacks the last outcome."""
    rng = np.random.default_rng(seed)
    names = np.array(list(outcomes))
    truth = rng.normal(size=(3, len(names)))
    found = {}
    for at in range(4):
        X = rng.normal(size=(rows + 7 * at, 3)) * [1, 3, 0.5] + [0, 5, -1]
        scores = (X - [0, 5, -1]) @ (truth + differ * rng.normal(size=truth.shape)) + rng.gumbel(
            size=(len(X), len(names))
        )
        if at == 0:
            scores[:, -1] = -np.inf
        found[f"h{at}"] = (X, names[scores.argmax(axis=1)])
    return found


@cache
def gathered(classes: tuple[str, ...], seed: int = SEED, scale: str = "joint", folds: int = FOLDS) -> Any:
    """Let the twin cross-validate once for all tests that choose by it."""
    return twin.prepare(hospitals("".join(sorted(classes))), list(classes), seed, scale, folds)


def assert_same(
    names: tuple[str, ...], *, scale: Any = "joint", folds: int = FOLDS, choice: Any = None, **settings: Any
) -> None:
    """The joint model and every site's own are the twin's: optima agree to five digits, as gradients end below 1e-6."""
    sites = [fedgeom.SiteData(name, X, y) for name, (X, y) in hospitals("".join(sorted(names))).items()]
    method = fedgeom.Shrunk(n_folds=folds, scale=scale, **(choice or {}), **settings)
    run = fedgeom.run(method, sites, seed=SEED)
    assert not {"train.update", "topo.description"} & {entry.kind for entry in run.ledger}
    joint, own = twin.settle(gathered(names, scale=scale, folds=folds), **(choice or {}))
    assert run.model.names == names
    near = {"rtol": 1e-5, "atol": 2e-5}
    np.testing.assert_allclose(run.model.parameters["weights"], joint[0], **near)
    np.testing.assert_allclose(run.model.parameters["intercept"], joint[1], **near)
    for site in sites:
        w, b = own[site.name]
        np.testing.assert_allclose(run.local[site.name]["model"], [*b, *w.ravel()], **near, err_msg=site.name)
        scaled = gathered(names, scale=scale, folds=folds)[0][0][site.name][0]
        found = run.model.for_site(run.local[site.name]).predict_proba(site.X)
        np.testing.assert_allclose(found, twin.probabilities(w, b, scaled), **near)


@pytest.mark.parametrize("scale", ["joint", "site", "none"])
def test_two_outcomes(scale: str) -> None:
    assert_same(("n", "y"), scale=scale)


def test_several_outcomes_are_each_told_from_the_others() -> None:
    assert_same(("a", "b", "c"))


def test_classes_that_the_terms_name_keep_their_order() -> None:
    assert_same(("y", "n"), classes=("y", "n"))


@pytest.mark.parametrize("choice", [{"prior_rows": 0.0}, {"prior_rows": 5000.0}, {"temperature": 0.1}], ids=str)
def test_strengths_are_chosen_by_own_and_borrowed_evidence(choice: dict[str, Any]) -> None:
    assert_same(("n", "y"), choice=choice)


def test_the_number_of_folds() -> None:
    assert_same(("n", "y"), folds=4)


def test_the_cases_are_not_too_easy() -> None:
    """Own models are neither the joint one nor each other's, and all that is set matters."""
    (w, _), own = twin.settle(gathered(("n", "y")))
    found = [v for v, _ in own.values()]
    for at, v in enumerate(found):
        assert np.abs(v - w).max() > 0.01
        assert all(np.abs(v - other).max() > 0.01 for other in found[:at])
    others = [twin.settle(gathered(("n", "y")), **one) for one in ({"prior_rows": 0}, {"temperature": 0.1})]
    others += [twin.settle(gathered(("n", "y"), **one)) for one in ({"scale": "site"}, {"folds": 4})]
    for _, other in others:
        assert max(np.abs(other[name][0] - own[name][0]).max() for name in own) > 1e-3
