"""Certificates: an authority that stays, certificates that end, and keys for their owner only."""

from __future__ import annotations

import datetime
import stat

from cryptography import x509

from fedgeom.deploy.certificates import (
    VALID_DAYS,
    make_authority,
    make_server_certificate,
    valid_until,
)
from tests.deploy.making import make_coordinator


def test_renewal_keeps_the_authority(tmp_path):
    made = make_coordinator(tmp_path / "c")
    names = ("ca.pem", "ca.key", "server.pem", "server.key", "roster.json")
    before = {name: (made.path / name).read_bytes() for name in names}
    made.renew()
    after = {name: (made.path / name).read_bytes() for name in names}
    assert {name for name in names if before[name] != after[name]} == {"server.pem", "server.key"}
    days = (valid_until(made.path / "server.pem") - datetime.datetime.now(datetime.UTC)).days
    assert VALID_DAYS - 2 <= days <= VALID_DAYS


def test_a_certificate_is_made_out_for_its_hosts_by_an_authority_that_signs_nothing_else(tmp_path):
    make_authority(tmp_path)
    make_server_certificate(tmp_path, ["coordinator.example", "10.0.0.7"])
    pems = [(tmp_path / name).read_bytes() for name in ("ca.pem", "server.pem")]
    authority, server = map(x509.load_pem_x509_certificate, pems)
    server.verify_directly_issued_by(authority)
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["coordinator.example"]
    assert [str(address) for address in names.get_values_for_type(x509.IPAddress)] == ["10.0.0.7"]
    assert authority.extensions.get_extension_for_class(x509.BasicConstraints).value.path_length == 0
    assert not server.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("ca.key", "server.key")} == {0o600}
    assert not any(b"PRIVATE" in pem for pem in pems)
