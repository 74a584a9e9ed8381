"""A site's folder on the page."""

from __future__ import annotations

import pytest

from fedgeom.deploy.approvals import MOST_WAITING, ApprovalStore
from fedgeom.deploy.budgets import BudgetStore
from fedgeom.deploy.site_folder import SiteFolder
from fedgeom.errors import InputError
from fedgeom.federation.policy import JobTerms, hash_terms
from fedgeom.federation.privacy import DP, Spent
from fedgeom.report.tables import budget_table
from fedgeom.studio.steward import approve, budget, overview, revoke
from fedgeom.version import __version__
from tests.studio.conftest import browser_in


@pytest.fixture
def site(tmp_path):
    """A site's folder in which a job waits."""
    folder = SiteFolder.create(
        tmp_path / "ulm", name="ulm", coordinator="localhost:8443", file="ulm.csv", label="y", insecure=True
    )
    job = JobTerms(
        method="moments",
        release=__version__,
        settings={"rule": "gaussian"},
        seed=3,
        participants=("graz", "linz", "ulm"),
        purpose="Does <b>age</b> tell?",
    )
    store = ApprovalStore(folder.path)
    digits = hash_terms(job).hex()
    with store.exclusive():
        store.wait(store.read(), digits, "ab" * 32, job)
    return folder.path, digits


def test_a_job_that_waits_is_shown_with_what_leaves_and_can_be_approved_and_revoked(site):
    path, digits = site
    shown = overview(path)
    assert shown["config"].name == "ulm"
    assert shown["waiting"][0]["hash"] == digits
    assert shown["waiting"][0]["sites"] == ["graz", "linz", "ulm"]
    assert "counts and means" in " ".join(shown["waiting"][0]["leaves"])
    assert "ulm.csv" in shown["waiting"][0]["faults"][0]  # there is no such table yet
    page = browser_in(path).get("/site").text
    assert "<b>invite the sites, collect signed keys</b>: public keys" in page
    assert "join.hello" not in page  # kinds of messages are said in words
    approve(path, digits, "7", "2")
    shown = overview(path)
    assert shown["waiting"] == []
    assert (shown["approvals"][0]["state"], shown["approvals"][0]["used"]) == ("approved", "0 of 2")
    revoke(path, digits)
    assert overview(path)["approvals"][0]["state"] == "revoked"


def test_the_page_says_who_asks_and_why_and_a_job_can_be_refused(site):
    path, digits = site
    browser = browser_in(path, follow=True)
    page = browser.get("/site").text
    assert "Does &lt;b&gt;age&lt;/b&gt; tell?" in page
    assert "Asked by the coordinator at localhost:8443, of graz, linz, ulm" in page
    after = browser.post("/site/refuse", content=f"hash={digits}").text
    assert "Refuse</button>" not in after
    assert ">refused<" in after
    assert ">approved<" in browser.post("/site/approve", content=f"hash={digits}").text


def test_how_many_jobs_gave_way_in_a_flood_is_shown(site):
    path, _ = site
    store = ApprovalStore(path)
    for number in range(MOST_WAITING + 1):
        job = JobTerms(method="no", release="0", settings={}, seed=number, participants=("ulm",))
        store.wait(store.read(), hash_terms(job).hex(), "r", job)
    assert "2 gave way to newer ones" in browser_in(path).get("/site").text


@pytest.mark.parametrize(("days", "runs"), [("x", "1"), ("0", "1"), ("4000", "1"), ("7", "0"), ("nan", "1")])
def test_nonsense_approves_nothing(site, days, runs):
    path, digits = site
    with pytest.raises(InputError, match="wanted"):
        approve(path, digits, days, runs)
    assert overview(path)["approvals"] == []


def test_a_job_that_nobody_asked_for_is_not_approved(site):
    with pytest.raises(InputError, match="no longer waits"):
        approve(site[0], "0" * 64, "7", "1")


def test_the_budget_is_shown_as_the_site_counts_it_and_a_changed_file_is_said(site):
    pytest.importorskip("dp_accounting", reason="needs what counts budgets")
    path, _ = site
    assert budget(path) == {"table": budget_table([]), "said": "", "wrong": "", "unaccounted": 0}
    folder = SiteFolder(path)
    store = BudgetStore(path, folder.identity(), folder.config().policy)
    store.charge(b"a" * 32, "moments", Spent.by(DP(epsilon=1.5, delta=1e-6, clip=1.0)))
    found = budget(path)
    assert found["table"].texts[0][1:] == ["61616161", "moments", "row", "1.5", "1e-06"]
    assert found["said"].startswith("In all ε = ")
    file = path / "budget.json"
    file.write_bytes(file.read_bytes().replace(b"1.5", b"0.5"))
    assert "was changed" in budget(path)["wrong"]
    assert overview(path)["budget"]["table"].rows == []  # the rest of the page is there all the same
