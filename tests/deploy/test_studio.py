"""From the studio to real sites and back: a job is made, submitted, approved, watched, and its pages are opened.

Every site and the coordinator are processes of their own.
"""

from __future__ import annotations

import re

import pytest

from fedgeom.federation.record import read_status
from tests.deploy.deployment import stewarded
from tests.deploy.making import need_nats
from tests.waiting import until

pytest.importorskip("starlette", reason="needs the studio extra")
pytest.importorskip("httpx", reason="needs httpx")

from tests.studio.conftest import TOKEN, browser_in

pytestmark = [pytest.mark.deployment, pytest.mark.full]


@pytest.fixture(scope="module")
def there(tmp_path_factory):
    """Three sites whose stewards have to be asked, and their coordinator."""
    need_nats()
    with stewarded(tmp_path_factory.mktemp("studio")) as made:
        yield made


def go(client, path, **form):
    """Send a form, and return the page that it leads to, without the token."""
    answer = client.post(path, data=form)
    assert answer.status_code == 303, answer.text
    return answer.headers["location"].removeprefix(f"/{TOKEN}")


def test_a_job_goes_from_the_studio_through_the_stewards_to_a_page_at_each_site(there):
    office = browser_in(there.coordinator.path)
    shown = office.get("/coordinator").text
    assert "running" in shown
    assert all(f">{name}<" in shown for name in there.sites)
    page = go(office, "/coordinator/studies", name="first", method="hulls", holdout="0.25")
    shown = office.get(page).text
    digits = re.search(r"[0-9a-f]{64}", shown).group()
    assert "Submit it to the sites" in shown
    run = go(office, "/studies/first/submit")
    name = run.rpartition("/")[2]
    stewards = {site: browser_in(folder.path) for site, folder in there.sites.items()}
    assert there.until(lambda: all(digits in one.get("/site").text for one in stewards.values()))
    assert there.until(lambda: "waiting for approval at" in office.get(run).text)
    for one in stewards.values():
        assert go(one, "/site/approve", hash=digits, days="1", runs="1").endswith("/site")
    folder = there.coordinator.path / "runs" / name
    assert there.until(lambda: read_status(folder).state in ("finished", "failed", "interrupted"))
    assert read_status(folder).state == "finished", read_status(folder)
    until(lambda: "Open the report" in office.get(run).text, pause=0.2)
    assert "finished" in office.get(run).text
    joint = office.get(f"{run}/report").text
    assert "Can 3 sites tell" in joint
    assert 'data-layer="rows"' not in joint  # a coordinator has no rows
    for site, one in stewards.items():
        home = one.get("/site").text
        result = re.search(r"/site/results/([0-9a-f]{16})", home).group(1)
        own = one.get(f"/site/results/{result}").text
        assert 'data-layer="rows"' in own
        assert f"rows are {site}&#x27;s own" in own
        assert f"What left {site}" in own
        assert "The conversation" in own
        assert "Which local name means which class" in own
        others = set(there.sites) - {site}
        assert not any(f'data-site="{other}"' in own for other in others)
        assert "Tested on" in own


def test_a_submitted_run_can_be_stopped_from_its_page(there):
    office = browser_in(there.coordinator.path)
    go(office, "/coordinator/studies", name="second", method="fedavg", holdout="0")
    run = go(office, "/studies/second/submit")
    folder = there.coordinator.path / "runs" / run.rpartition("/")[2]
    assert there.until(lambda: "waiting for approval at" in office.get(run).text)
    go(office, f"{run}/stop")
    assert there.until(lambda: read_status(folder).state == "interrupted")
    assert "stopped by the user" in office.get(run).text


def test_a_job_without_a_method_or_with_a_wrong_one_is_said(there):
    office = browser_in(there.coordinator.path)
    answer = office.post("/coordinator/studies", data={"name": "x"})
    assert answer.status_code == 400
    assert "no method was chosen" in answer.text
    file = there.coordinator.path / "studies" / "odd.toml"
    file.parent.mkdir(exist_ok=True)
    file.write_text('method = "hulks"\n')
    shown = office.get("/studies/odd").text
    assert "there is no method" in shown
    assert "Submit it" not in shown
