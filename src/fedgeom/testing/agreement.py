"""Checks of what a run yields: the plain twin's result, the same on every engine, a ledger that leaves nothing out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fedgeom.engines.run import ENGINES, run
from fedgeom.federation.model import Model, from_bytes
from fedgeom.testing.rehearsal import CheckContext

ROWS_ALONE = 8
"""How many rows of a site are also given one by one."""


def terms_round_trip(context: CheckContext) -> int:
    """The terms of a run give the method's settings back, and unknown terms are refused."""
    method = context.method
    again = type(method).from_terms(method.terms())
    assert again.terms() == method.terms(), "the terms of a run do not give the method's settings back"
    try:
        type(method).from_terms(method.terms() | {"no such setting": 1})
    except ValueError:
        return 1
    raise AssertionError("a setting that does not exist is accepted")


def secure_equals_plain(context: CheckContext) -> int:
    """A run yields what `Method.plain` computes: the joint model, and what each site has in the end."""
    finished = context.run
    twin = context.method.plain(context.sites, context.seed)
    missing = finished.lost | finished.returned
    assert not missing, f"sites were lost in an undisturbed run: {missing}"
    arrays, facts = finished.model.tensors()
    wanted, wanted_facts = twin.model.tensors()
    odd = {name: (facts.get(name), wanted_facts.get(name)) for name in facts.keys() | wanted_facts.keys()}
    odd = {name: both for name, both in odd.items() if not _alike(*both, context.tolerance)}
    assert not odd, f"facts of the model that are not the plain twin's: {odd}"
    _close(arrays, wanted, context.tolerance, "the joint model")
    for site, own in twin.local.items():
        assert site in finished.local, f"{site} has no result, but the plain twin has one for it"
        shared = {key: value for key, value in own.items() if key in finished.local[site]}
        found = {key: finished.local[site][key] for key in shared}
        _close(found, shared, context.tolerance, f"the result of {site}")
    return 1


def _alike(found: Any, wanted: Any, tolerance: float) -> bool:
    """Return whether two facts are the same; a sum is rounded at each site, so that real numbers are to a tolerance."""
    if isinstance(found, float) and isinstance(wanted, float):
        return abs(found - wanted) <= tolerance * (1 + abs(wanted))
    return bool(found == wanted)


def _close(found: Mapping[str, Any], wanted: Mapping[str, Any], tolerance: float, what: str) -> None:
    assert set(found) == set(wanted), f"{what} has {sorted(found)}, the plain twin's {sorted(wanted)}"
    for name, value in wanted.items():
        one = np.asarray(found[name])
        other = np.asarray(value)
        if other.dtype.kind in "fiu":
            assert one.shape == other.shape, (
                f"{what}: {name} has shape {one.shape}, the plain twin's {other.shape}"
            )
            gap = float(np.max(np.abs(one.astype(float) - other.astype(float)), initial=0.0))
            limit = tolerance * (1 + float(np.max(np.abs(other), initial=0.0)))
            assert gap <= limit, f"{what}: {name} differs from the plain twin's by {gap:.3g}"
        else:
            assert one.tolist() == other.tolist(), f"{what}: {name} is {found[name]!r}, the plain twin's {value!r}"


def same_seed_same_model(context: CheckContext) -> int:
    """The same seed gives the same bytes on every engine and every time, and a saved model is read back whole."""
    first = context.run.model.to_bytes()
    assert _written_again(context.run.model) == first, "a model that was written and read back is another one"
    odd = []
    for engine in ENGINES:
        model = run(context.method, context.sites, context.seed, engine=engine).model
        found = model.to_bytes()
        assert _written_again(model) == found, "a model that was written and read back is another one"
        if found != first:
            odd.append(engine)
    assert not odd, f"other bytes than in the first run, with the same seed, on: {', '.join(odd)}"
    return len(ENGINES)


def _written_again(model: Model) -> bytes:
    """Return the bytes of a model that was written and read back."""
    return type(model).from_file(*from_bytes(model.to_bytes())[1:]).to_bytes()


def ledger_is_complete(context: CheckContext) -> int:
    """The ledger has every answer that left a site, with its size and what it reveals."""
    held = context.rehearsal
    sent = [(one.step, one.site, len(one.reply), len(one.request)) for one in held.exchanges]
    written = [(e.step, e.site, e.bytes, e.received) for e in held.conversation.ledger]
    assert sorted(sent) == sorted(written), "the ledger does not hold just the messages that left the sites"
    silent = sorted({entry.kind for entry in held.conversation.ledger if not entry.reveals})
    assert not silent, f"the ledger does not say what these messages reveal: {', '.join(silent)}"
    return len(sent)


def site_files_match_model(context: CheckContext) -> int:
    """A site's own model file predicts what ``model.for_site(run.local[site])`` predicts."""
    from fedgeom.methods.catalogue import read_model  # it loads every method

    held = context.rehearsal
    results = held.engine.results(held.run, models=True)
    for name, result in results.items():
        rows = next(site.X for site in context.sites if site.name == name)
        if not result.model:
            assert not result.found, f"{name} has a result but no model file of its own"
            continue
        own = read_model(result.model).predict(rows)
        wanted = held.model.for_site(result.found).predict(rows)
        assert np.array_equal(own, wanted), f"the model file of {name} predicts otherwise than model.for_site"
    return len(results)


def evaluation_equals_plain_count(context: CheckContext) -> int:
    """An evaluation's secure sum is the plain count of rows that the sites' models predict rightly, on every engine."""
    finished = context.run_with_holdout
    assert finished.evaluation is not None, f"nothing was tested: {list(map(str, finished.warnings))}"
    method = context.method_with_holdout
    right = 0
    rows = 0
    for aside in map(method.normalise_labels, finished.test):
        own = finished.model.for_site(finished.local[aside.name])
        right += int((own.predict(aside.X).astype(str) == aside.y.astype(str)).sum())
        rows += len(aside)
    told = finished.evaluation["own"]
    assert told.rows == rows > 0, f"{rows} rows were kept aside, {told.rows} were tested"
    assert round(told.accuracy.value * rows) == right, (
        f"{right} of {rows} rows are called rightly, not {told.accuracy}"
    )
    others = [engine for engine in ENGINES if engine != "embedded"]
    found = {engine: run(method, context.sites, context.seed, engine=engine) for engine in others}
    odd = [engine for engine, one in found.items() if one.evaluation != finished.evaluation]
    assert not odd, f"other figures than on the embedded engine, with the same seed, on: {', '.join(odd)}"
    return rows


def rows_are_predicted_alone(context: CheckContext) -> int:
    """What a model predicts for a row does not depend on the other rows."""
    finished = context.run
    asked = 0
    for site in context.sites:
        rows = site.X[:: max(len(site) // ROWS_ALONE, 1)][:ROWS_ALONE]
        own: Model = finished.model.for_site(finished.local[site.name])
        for model in [own, *([finished.model] if finished.model.everywhere else [])]:
            together = model.predict(rows)
            alone = np.concatenate([model.predict(row[None]) for row in rows])
            assert together.tolist() == alone.tolist(), "a row is put into another class when it comes alone"
            if hasattr(model, "predict_proba"):
                ones = np.vstack([model.predict_proba(row[None]) for row in rows])
                gap = float(np.abs(model.predict_proba(rows) - ones).max())
                # How a processor adds up depends on the number of rows, and in single precision it shows earlier.
                assert gap < (1e-6 if model.single else 1e-9), (
                    f"the probabilities of a row differ by {gap:.3g} when it comes alone"
                )
            asked += 1
    return asked
