"""Certificates: a real handshake with the right authority, and refusals otherwise."""

from __future__ import annotations

import datetime
import socket
import ssl
import threading
from contextlib import contextmanager

import pytest
from cryptography.hazmat.primitives import serialization

from fedgeom.deploy.certificates import VALID_DAYS, make_node_key, public_line, valid_until
from fedgeom.deploy.coordinator_loop import warn_of_end
from fedgeom.deploy.site_checks import check_certificate
from fedgeom.errors import InputError
from tests.deploy.making import make_coordinator


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


@pytest.fixture
def served(tmp_path):
    made = make_coordinator(tmp_path / "c", names=["coordinator.example"])
    with serving(made, "127.0.0.1") as port:
        yield made, port


def test_the_handshake(served, tmp_path):
    made, port = served
    check_certificate(f"127.0.0.1:{port}", made.path / "ca.pem")
    check_certificate(f"localhost:{port}", made.path / "ca.pem")


def test_a_foreign_authority(served, tmp_path):
    _, port = served
    other = make_coordinator(tmp_path / "other")
    with pytest.raises(InputError, match="foreign"):
        check_certificate(f"127.0.0.1:{port}", other.path / "ca.pem")


def test_an_address_that_the_certificate_does_not_name(tmp_path):
    made = make_coordinator(tmp_path / "c", names=["coordinator.example"])
    with (
        serving(made, "127.0.0.2") as port,
        pytest.raises(InputError, match=r"not made out for this address.*127\.0\.0\.2"),
    ):
        check_certificate(f"127.0.0.2:{port}", made.path / "ca.pem")


def test_nobody_there_is_no_error(tmp_path):
    made = make_coordinator(tmp_path / "c")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    check_certificate(f"127.0.0.1:{port}", made.path / "ca.pem")


def test_renewal_keeps_the_authority(tmp_path):
    made = make_coordinator(tmp_path / "c")
    names = ("ca.pem", "ca.key", "server.pem", "server.key", "roster.json")
    before = {name: (made.path / name).read_bytes() for name in names}
    made.renew()
    after = {name: (made.path / name).read_bytes() for name in names}
    assert {name for name in names if before[name] != after[name]} == {"server.pem", "server.key"}
    days = (valid_until(made.path / "server.pem") - datetime.datetime.now(datetime.UTC)).days
    assert VALID_DAYS - 2 <= days <= VALID_DAYS


@pytest.mark.parametrize(("days", "piece"), [(800, ""), (30, "ends on"), (-5, "sites will refuse it")])
def test_a_warning_before_the_end(tmp_path, monkeypatch, days, piece):
    made = make_coordinator(tmp_path / "c")
    end = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=days)
    monkeypatch.setattr("fedgeom.deploy.certificates.valid_until", lambda file: end)
    said = []
    warn_of_end(made, said.append)
    assert piece in "".join(said)
    assert bool(said) == bool(piece)


def test_node_keys_are_what_flower_wants(tmp_path):
    line = make_node_key(tmp_path)
    assert line.startswith("ecdsa-sha2-nistp384 ")
    assert public_line(tmp_path / "node.key") == line
    assert serialization.load_ssh_public_key(line.encode()).curve.name == "secp384r1"
    assert make_node_key(tmp_path) != line
