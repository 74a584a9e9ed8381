"""Laws that every method keeps: masks change nothing, and each site's model file is its own model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import fedgeom
from fedgeom.data.sites import SiteData
from fedgeom.federation.method import Method
from fedgeom.federation.model import Model
from fedgeom.federation.plain import Plain
from fedgeom.federation.policy import Policy
from fedgeom.methods.catalogue import read_model
from tests.methods.coordinators import hold


def assert_same_models(one: Model, other: Model, *, rtol: float = 0.0, atol: float = 0.0) -> None:
    """Compare two models' files: byte for byte, or their numbers within a tolerance."""
    if not rtol and not atol:
        named = other.with_columns(one.column_names, one.column_kinds).with_labels(
            one.label_type
        )  # twins do not know
        assert one.to_bytes() == named.to_bytes()
        return
    (mine, facts), (theirs, others) = one.tensors(), other.tensors()
    assert facts == others
    assert set(mine) == set(theirs)
    for name, array in mine.items():
        np.testing.assert_allclose(array, theirs[name], rtol=rtol, atol=atol, err_msg=name)


def assert_run_is(
    twin: Callable[[Any, Sequence[SiteData], int], Plain],
    method: Method,
    sites: Sequence[SiteData],
    *,
    seed: int = 0,
    policy: Policy | None = None,
    rtol: float = 0.0,
    atol: float = 0.0,
) -> fedgeom.Run:
    """Run a method, and compute the same in a second way: joint models and each site's own must be the same."""
    run, wanted = fedgeom.run(method, sites, seed=seed, policy=policy), twin(method, sites, seed)
    assert not run.lost
    assert not run.returned
    assert_same_models(run.model, wanted.model, rtol=rtol, atol=atol)
    for name, local in wanted.local.items():
        own = wanted.model.for_site(local)
        assert_same_models(run.model.for_site(run.local[name]), own, rtol=rtol, atol=atol)
    return run


def assert_run_is_plain(method: Method, sites: Sequence[SiteData], *, seed: int = 0) -> fedgeom.Run:
    """Run a method with masks and without; what comes of it must be the same to the last bit."""
    return assert_run_is(lambda one, some, number: one.plain(some, number), method, sites, seed=seed)


def assert_model_files_are_the_sites_own(method: Method, sites: Sequence[SiteData], *, seed: int = 0) -> None:
    """After a run, each site's model file predicts as ``run.model.for_site(run.local[site])`` does."""
    held = hold(method, sites, seed=seed)
    local = held.local()
    rows = np.vstack([site.X for site in sites])
    for site in sites:
        file = held.site(site.name).model_file()
        own = held.model.for_site(local[site.name])
        read = read_model(file).with_labels(own.label_type)  # a site's run adds the type of its labels to the file
        assert read.to_bytes() == own.to_bytes()
        np.testing.assert_array_equal(read.predict(rows), own.predict(rows))
        # An array read from a file may lie otherwise in memory, which changes the last digit of products.
        np.testing.assert_allclose(read.predict_proba(rows), own.predict_proba(rows), rtol=1e-9, atol=1e-12)
