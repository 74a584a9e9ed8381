"""``fedgeom site budget``: what is shown, and beginning anew."""

from __future__ import annotations

import json

from fedgeom import DP
from fedgeom.deploy.budgets import BudgetStore
from fedgeom.deploy.site_folder import SiteFolder
from fedgeom.federation.privacy import Spent
from tests.cli.deploying import call


def kept(here):
    site = SiteFolder(here / "anna")
    return BudgetStore(site.path, site.identity(), site.config().policy)


def budget(*words, code=0):
    return call("site", "budget", *words, "--folder", "anna", code=code)


def test_what_was_spent_is_shown_run_by_run_and_in_all(here, made):
    assert "No run was charged yet" in budget()
    for at in range(2):
        kept(here).charge(bytes([at]) * 32, "moments", Spent.by(DP(epsilon=1, clip=1)))
    shown = " ".join(budget().split())
    assert "moments" in shown
    assert "00000000" in shown
    assert "01010101" in shown
    assert "spent epsilon = 1.46 of max_epsilon = 10, at delta = 1e-05" in shown
    found = json.loads(budget("--json"))
    assert [one["epsilon"] for one in found["runs"]] == [1.0, 1.0]
    assert (found["cap"], found["unaccounted"]) == (10.0, [])


def test_a_lost_budget_is_said_and_can_be_begun_anew(here, made):
    kept(here).charge(bytes(32), "moments", Spent.by(DP(epsilon=1, clip=1)))
    kept(here).path.unlink()
    assert "is lost, though runs were charged" in budget(code=2)
    assert "begins anew" in budget("--restart", "--yes")
    assert "what was spent before is not known" in " ".join(budget().split())
