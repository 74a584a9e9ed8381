"""Names that are no paths, addresses that are addresses, and what is on this machine."""

from __future__ import annotations

import pytest

from fedgeom.deploy.config import check_loopback, check_name
from fedgeom.engines.nats.link import ServerAddress, environment_proxy
from fedgeom.errors import InputError


@pytest.mark.parametrize("name", ["", "../x", "a/b", "-a", "a b", "a" * 64, "ä", "a\n"])
def test_names_that_could_be_paths_are_refused(name):
    with pytest.raises(InputError, match="cannot be a site's name"):
        check_name(name)


@pytest.mark.parametrize(
    "address",
    [
        "host",
        "host:",
        ":8000",
        "host:0",
        "host:65536",
        "http://host:8000",
        "::1:8000",
        "wss://",
        "tls://host",
        "a:1,",
    ],
)
def test_what_is_no_address_is_refused(address):
    with pytest.raises(InputError, match="HOST:PORT"):
        ServerAddress.read_all(address)


@pytest.mark.parametrize("address", ["127.0.0.1", "localhost", "127.8.8.8", "::1"])
def test_what_is_on_this_machine(address):
    check_loopback(address)


@pytest.mark.parametrize("name", ["a", "charite", "St-Anna_2.b", "a" * 63])
def test_usual_names_are_returned(name):
    assert check_name(name) == name


@pytest.mark.parametrize(
    ("address", "urls"),
    [
        ("host:1", ["tls://host:1"]),
        ("tls://coordinator.example:8000", ["tls://coordinator.example:8000"]),
        ("10.0.0.7:65535, b:2", ["tls://10.0.0.7:65535", "tls://b:2"]),
        ("wss://host", ["wss://host:443"]),
        ("wss://host:8443,wss://b", ["wss://host:8443", "wss://b:443"]),
    ],
)
def test_usual_addresses(address, urls):
    assert [one.url(secure=True) for one in ServerAddress.read_all(address)] == urls


def test_addresses_of_two_kinds_are_refused():
    with pytest.raises(InputError, match="of one kind"):
        ServerAddress.read_all("wss://host,host:8000")


def test_the_proxy_is_the_environments_and_none_for_this_machine(monkeypatch):
    for name in ("HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    assert environment_proxy("host") == ""
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    monkeypatch.setenv("NO_PROXY", "inside.example")
    assert environment_proxy("host") == "http://proxy:3128"
    assert {environment_proxy(host) for host in ("localhost", "127.0.0.1", "inside.example")} == {""}


@pytest.mark.parametrize("address", ["0.0.0.0", "10.0.0.7", "localhost.example", "example.org", "0"])
def test_what_is_elsewhere_cannot_be_insecure(address):
    with pytest.raises(InputError, match="this machine only"):
        check_loopback(address)
