"""Before a site connects: a real handshake with the right authority, and every other error in plain words."""

from __future__ import annotations

import shutil
import socket
import ssl
import threading
from contextlib import contextmanager

import numpy as np
import pytest

from fedgeom.deploy.approvals import ApprovalStore
from fedgeom.deploy.site import approval_line, check_certificate, check_site
from fedgeom.engines.nats.link import Endpoint, ServerAddress
from fedgeom.errors import InputError
from fedgeom.federation.policy import job_terms
from tests.deploy.making import ask_stewards, edit, make_coordinator, make_sites


@contextmanager
def serving(made, host):
    """Serve a coordinator's certificate by a bare TLS server; yields the address."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made.path / "server.pem", made.path / "server.key")

    def answer():
        while True:
            try:
                raw, _ = listener.accept()
            except OSError:
                return
            try:
                context.wrap_socket(raw, server_side=True).close()
            except OSError:
                raw.close()

    with socket.create_server((host, 0)) as listener:
        threading.Thread(target=answer, daemon=True).start()
        yield listener.getsockname()[1]


def at(host, port, coordinator):
    """Where a site would connect, and which authority it trusts."""
    return Endpoint((ServerAddress(host, port),), "", coordinator.path / "ca.pem")


@pytest.fixture
def served(tmp_path):
    made = make_coordinator(tmp_path / "c", names=["coordinator.example"])
    with serving(made, "127.0.0.1") as port:
        yield made, port


def test_the_handshake(served, tmp_path):
    made, port = served
    check_certificate(at("127.0.0.1", port, made))
    check_certificate(at("localhost", port, made))


def test_a_foreign_authority(served, tmp_path):
    _, port = served
    other = make_coordinator(tmp_path / "other")
    with pytest.raises(InputError, match="foreign"):
        check_certificate(at("127.0.0.1", port, other))


def test_an_address_that_the_certificate_does_not_name(tmp_path):
    made = make_coordinator(tmp_path / "c", names=["coordinator.example"])
    with (
        serving(made, "127.0.0.2") as port,
        pytest.raises(InputError, match=r"not made out for this address.*127\.0\.0\.2"),
    ):
        check_certificate(at("127.0.0.2", port, made))


def test_nobody_there_is_no_error(tmp_path):
    made = make_coordinator(tmp_path / "c")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    check_certificate(at("127.0.0.1", port, made))


@pytest.fixture
def sites(tmp_path):
    return make_sites(tmp_path, make_coordinator(tmp_path / "c"))


def test_a_site_that_is_ready_is_described(sites, tmp_path):
    said, rows = [], len(np.load(tmp_path / "anna.npz")["y"])
    check_site(sites["anna"], said.append)
    assert said == [f"anna: {rows} rows, 2 columns, 2 classes", approval_line(sites["anna"])]


def test_a_table_with_something_to_look_at_says_where_to_look(sites, tmp_path):
    table = dict(np.load(tmp_path / "anna.npz"))
    table["X"][0, 0] = np.nan
    np.savez(tmp_path / "anna.npz", **table)
    said = []
    check_site(sites["anna"], said.append)
    what = "the table has 1 fault that no method takes unprepared, and 0 odd things: fedgeom site check"
    assert said[1].startswith(what)


def test_a_raw_table_with_columns_of_text_may_connect_for_jobs_that_prepare_it(sites, tmp_path):
    rows = "".join(f"{at % 7},{'ab'[at % 2]},{'xy'[at // 20]}\n" for at in range(40))
    (tmp_path / "raw.csv").write_text(f"age,sex,ill\n{rows}")
    edit(sites["anna"], str(tmp_path / "anna.npz"), str(tmp_path / "raw.csv"))
    edit(sites["anna"], 'label = "y"', 'label = "ill"')
    said = []
    check_site(sites["anna"], said.append)
    assert said[0] == "anna: 40 rows, 2 columns, 2 classes"
    assert said[1].startswith("the table has 1 fault that no method takes unprepared")


def test_what_is_missing_is_named_with_whom_to_ask(sites):
    anna = sites["anna"]
    (anna.path / "roster.json").rename(anna.path / "elsewhere")
    with pytest.raises(InputError, match=r"ask the coordinator for roster\.json"):
        check_site(anna, lambda text: None)
    (anna.path / "elsewhere").rename(anna.path / "roster.json")
    (anna.path / "ca.pem").unlink()
    with pytest.raises(InputError, match=r"ask the coordinator for ca\.pem"):
        check_site(anna, lambda text: None)
    shutil.copy(sites["bert"].identity_file, anna.path)
    with pytest.raises(InputError, match="does not hold 'anna' with this site's identity"):
        check_site(anna, lambda text: None)


def test_an_insecure_federation_is_called_so_and_needs_no_certificate(tmp_path):
    anna = make_sites(tmp_path, make_coordinator(tmp_path / "c", insecure=True), insecure=True)["anna"]
    (anna.path / "ca.pem").unlink()
    said = []
    check_site(anna, said.append)
    assert said[-1].startswith("INSECURE")


def test_data_that_cannot_be_read_come_first(sites, tmp_path):
    edit(sites["anna"], "anna.npz", "nothing.npz")
    with pytest.raises(InputError, match=r"nothing\.npz"):
        check_site(sites["anna"], lambda text: None)


def test_a_site_says_which_jobs_it_answers_and_how_many_wait(tmp_path):
    site = make_sites(tmp_path, make_coordinator(tmp_path / "c"))["anna"]
    assert 'approve = "any": such jobs are answered without asking you' in approval_line(site)
    ask_stewards(site)
    assert approval_line(site) == "jobs are answered once you have approved them (fedgeom site approve FILE)"
    store = ApprovalStore(site.path)
    store.wait(store.read(), "a" * 64, "r", job_terms("hulls", {}, 0, ["anna"]))
    assert approval_line(site).endswith("; 1 wait (fedgeom site approvals)")
    store.path.write_text("{")
    with pytest.raises(InputError, match="is damaged"):
        check_site(site, print)
