"""A coordinator and sites as real processes on loopback, with TLS and node keys, against the embedded engine."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import fedgeom
from fedgeom.data.sites import SiteData
from fedgeom.errors import InputError
from fedgeom.federation.ledger import Ledger
from fedgeom.service.coordinator_folder import CoordinatorFolder
from fedgeom.service.jobs import Job
from fedgeom.service.journal import Journal
from fedgeom.service.site_checks import check_certificate, check_site
from tests.service.conftest import GOOD
from tests.service.deployment import Federation

pytestmark = [pytest.mark.xdist_group("deployment"), pytest.mark.slow]

EPSILON = 0.05
TIMES = "wait = 90\ndeadline = 120\n"
ONLY_GOOD = "".join(f'[[sites]]\nname = "{name}"\n' for name in GOOD)


def good(federation: Federation) -> list[SiteData]:
    return [federation.data[name] for name in GOOD]


@pytest.fixture(scope="module")
def hulls(federation: Federation) -> Job:
    """Run `Hulls` over everybody who is there."""
    job = federation.submit(
        f'method = "hulls"\nseed = 3\n{TIMES}[parameters]\nepsilon = {EPSILON}\n', name="hulls"
    )
    status = federation.wait(job, 240)
    assert status["state"] == "finished", (
        status,
        federation.events(job)[-5:],
        federation.log("coordinator")[-3000:],
    )
    return job


def test_the_model_file_is_the_embedded_ones_byte_for_byte(federation: Federation, hulls: Job) -> None:
    model = (hulls.run_folder / "model.safetensors").read_bytes()
    assert model == fedgeom.run(fedgeom.Hulls(epsilon=EPSILON), good(federation), seed=3).model.to_bytes()


def test_another_method_in_the_same_federation_too(federation: Federation, hulls: Job) -> None:
    job = federation.submit(f'method = "moments"\n{TIMES}{ONLY_GOOD}', name="moments")
    status = federation.wait(job, 200)
    assert status["state"] == "finished", status
    model = (job.run_folder / "model.safetensors").read_bytes()
    assert model == fedgeom.run(fedgeom.Moments(), good(federation)).model.to_bytes()


def test_a_wrong_key_and_a_wrong_version_are_left_out_with_the_reason(federation: Federation, hulls: Job) -> None:
    lost = {event["site"]: event["detail"] for event in federation.events(hulls) if event["state"] == "lost"}
    assert set(lost) == {"dora", "erik"}
    assert "another key" in lost["dora"]
    assert "protocol version" in lost["erik"]


def test_what_sites_wrote_down_is_what_the_coordinator_wrote_down(federation: Federation, hulls: Job) -> None:
    ledger = Ledger.load(hulls.run_folder / "ledger.jsonl")
    for name in GOOD:
        journal = [e for e in Journal(federation.sites[name].path).entries() if e.run == hulls.run.hex()]
        received = [entry for entry in ledger if entry.site == name]
        assert [(e.answer, e.sent, e.received) for e in journal] == [
            (e.kind, e.bytes, e.received) for e in received
        ]
        assert len(journal) == 9
        assert f"asked hulls.encode ({journal[5].received:,} B)" in federation.said(name)


def test_each_site_can_use_the_model_in_its_own_words(federation: Federation, hulls: Job) -> None:
    folder = federation.sites["anna"].path / "results" / hulls.run.hex()[:16]
    result = json.loads((folder / "sites" / "anna.json").read_text(encoding="utf-8"))
    model = fedgeom.load_model(folder / "model.safetensors").named(result["names"])
    data = federation.data["anna"]
    assert np.mean(model.predict(data.X) == data.y) == pytest.approx(result["fits"])


def test_a_site_that_was_not_admitted_is_told_so(federation: Federation) -> None:
    stranger = SiteData("fritz", federation.data["anna"].X, federation.data["anna"].y)
    folder = federation.make_site(stranger)
    try:
        roster = fedgeom.secure.keys.Roster({**federation.coordinator.roster(), "fritz": folder.identity().public})
        (folder.path / "ca.pem").write_bytes((federation.coordinator.path / "ca.pem").read_bytes())
        roster.save(folder.path / "roster.json")
        federation.start_site("fritz")
        assert federation.until(lambda: "not admitted" in federation.said("fritz"), 60), federation.said("fritz")
    finally:
        federation.kill("fritz")
        del federation.sites["fritz"]


def test_a_foreign_certificate_is_named_before_anything_is_sent(federation: Federation, tmp_path: Path) -> None:
    other = CoordinatorFolder.create(tmp_path / "other", names=["localhost"], host="127.0.0.1")
    address = federation.coordinator.address()
    check_certificate(address, federation.coordinator.path / "ca.pem")
    with pytest.raises(InputError, match="foreign"):
        check_certificate(address, other.path / "ca.pem")
    theirs = federation.sites["carl"].path / "ca.pem"
    mine = theirs.read_bytes()
    theirs.write_bytes((other.path / "ca.pem").read_bytes())
    try:
        with pytest.raises(InputError, match="foreign"):
            check_site(federation.sites["carl"], lambda text: None)
    finally:
        theirs.write_bytes(mine)


def test_a_site_with_another_key_than_its_roster_says_does_not_even_start(federation: Federation) -> None:
    roster = federation.sites["bert"].path / "roster.json"
    mine = roster.read_bytes()
    roster.write_bytes((federation.sites["dora"].path / "roster.json").read_bytes())
    try:
        check_site(federation.sites["bert"], lambda text: None)  # only dora's line differs
        roster.write_bytes(mine.replace(federation.sites["bert"].identity().public.hex().encode(), b"00" * 32))
        with pytest.raises(InputError, match="does not hold 'bert' with this site's identity"):
            check_site(federation.sites["bert"], lambda text: None)
    finally:
        roster.write_bytes(mine)


def test_nothing_phones_home(federation: Federation, hulls: Job) -> None:
    """Every process has Flower's telemetry and update check switched off, and none has loaded Ray."""
    found = federation.find("/guards/")
    assert len(found) >= 2 * (1 + len(GOOD))
    if not Path("/proc/self/environ").exists():
        pytest.skip("this system does not show the environment of processes")
    for process in found:
        try:
            environment = Path(f"/proc/{process.pid}/environ").read_bytes().split(b"\0")
            loaded = Path(f"/proc/{process.pid}/maps").read_text(encoding="utf-8", errors="replace")
        except OSError:  # it has just ended
            continue
        assert b"FLWR_TELEMETRY_ENABLED=0" in environment
        assert b"FLWR_DISABLE_UPDATE_CHECK=1" in environment
        assert "/ray/" not in loaded
