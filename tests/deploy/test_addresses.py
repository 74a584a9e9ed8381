"""Names that are no paths, addresses that are addresses, and what is on this machine."""

from __future__ import annotations

import pytest

from fedgeom.deploy.config import check_address, check_loopback, check_name
from fedgeom.errors import InputError


@pytest.mark.parametrize("name", ["", "../x", "a/b", "-a", "a b", "a" * 64, "ä", "a\n"])
def test_names_that_could_be_paths_are_refused(name):
    with pytest.raises(InputError, match="cannot be a site's name"):
        check_name(name)


@pytest.mark.parametrize(
    "address", ["host", "host:", ":8000", "host:0", "host:65536", "http://host:8000", "::1:8000"]
)
def test_what_is_no_address_is_refused(address):
    with pytest.raises(InputError, match="HOST:PORT"):
        check_address(address)


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.1:80", "localhost:80", "127.8.8.8:80", "[::1]:80"])
def test_what_is_on_this_machine(address):
    check_loopback(address)


@pytest.mark.parametrize("name", ["a", "charite", "St-Anna_2.b", "a" * 63])
def test_usual_names_are_returned(name):
    assert check_name(name) == name


@pytest.mark.parametrize("address", ["host:1", "coordinator.example:8000", "10.0.0.7:65535"])
def test_usual_addresses(address):
    check_address(address)


@pytest.mark.parametrize("address", ["0.0.0.0", "10.0.0.7:80", "localhost.example:80", "example.org", "0:80"])
def test_what_is_elsewhere_cannot_be_insecure(address):
    with pytest.raises(InputError, match="this machine only"):
        check_loopback(address)
