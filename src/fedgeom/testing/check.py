"""Hold a method to the contract, as scikit-learn's ``check_estimator`` holds an estimator to its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from fedgeom.data.sites import SiteData
from fedgeom.federation.method import Method
from fedgeom.testing import adversary, agreement, faults, twins
from fedgeom.testing.examples import example_sites

HOLDOUT = 0.25
"""The share of rows kept aside where a method's tests are tried."""


def check_method(
    method: Method | type[Method],
    sites: Sequence[SiteData] | None = None,
    *,
    level: Literal["quick", "full"] = "quick",
    seed: int = 0,
    tolerance: float = 1e-6,
) -> dict[str, int]:
    """Raise `AssertionError`, in words, when a method does not keep what every method promises.

    - the secure run equals `Method.plain`, to ``tolerance``, and the same seed gives the same bytes on every engine;
    - a row is put into the same class alone as among others;
    - terms travel, the ledger is complete, each site has a model file that predicts as ``model.for_site`` does;
    - with rows kept aside (``holdout``), the secure sum of the test is the plain count, and a site killed then costs no
      model;
    - a site killed at any step, and a coordinator that dies at any step and is resumed, do no harm;
    - spoilt messages and the standard tricks of a lying coordinator are refused;
    - sites that differ in rows, labels, numbers of rows or sizes of classes refuse alike, or leave for good.

    ``sites`` are small tables on which the method can run; four sites of two classes inside the unit disc
    (`example_sites`) if none are given. At least four are needed, or none may be lost. ``level="full"`` kills every
    site at every step and spoils more messages; "quick" tries one of each kind. Returns how many cases each law was
    tried on.

    >>> import fedgeom
    >>> from fedgeom.testing import check_method
    >>> sorted(check_method(fedgeom.Moments))[:2]
    ['dead coordinators', 'ledger']
    """
    checked = method() if isinstance(method, type) else method
    assert isinstance(checked, Method), f"{method!r} is no fedgeom.Method"
    tables = list(sites) if sites is not None else example_sites()
    assert len(tables) >= 4, f"{len(tables)} sites were given; at least 4 are wanted, so that one may be lost"
    full = level == "full"
    agreement.settings_travel(checked)
    agreement.secure_is_plain(checked, tables, seed, tolerance)
    agreement.same_seed_same_model(checked, tables, seed)
    agreement.ledger_is_complete(checked, tables, seed)
    agreement.sites_have_their_model(checked, tables, seed)
    counts = {"terms": 1, "plain twin": 1, "engines": 1, "ledger": 1, "model files": 1}
    tested = replace(checked, holdout=HOLDOUT)
    counts["test rows"] = agreement.tests_count_what_is_there(tested, tables, seed)
    counts["lost sites in tests"] = faults.a_test_costs_no_model(tested, tables, seed, all_sites=full)
    counts["rows alone"] = agreement.rows_are_judged_alone(checked, tables, seed)
    counts["lost sites"] = faults.a_lost_site_is_no_disaster(checked, tables, seed, all_sites=full)
    counts["dead coordinators"] = faults.a_dead_coordinator_goes_on(checked, tables, seed, every_step=full)
    times = 200 if full else 20
    counts["spoilt messages"] = adversary.spoilt_messages_are_refused(tested, tables, seed, times=times)
    counts["tricks"] = adversary.tricks_are_refused(tested, tables, seed)
    counts["refusals"] = twins.refusals_tell_nothing(tested, tables, seed, times=60 if full else 12)
    return counts
