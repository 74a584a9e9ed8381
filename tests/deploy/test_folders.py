"""Folders: keys that nobody else reads, names, addresses, the roster, and errors that say what to do."""

from __future__ import annotations

import stat

import msgspec
import pytest

from fedgeom.deploy.addresses import check_address, check_loopback, check_name
from fedgeom.deploy.coordinator_folder import CoordinatorFolder, Node, Registered
from fedgeom.deploy.site_folder import SiteFolder
from fedgeom.errors import InputError
from tests.deploy.making import NAMES, edit, make_coordinator, make_sites


@pytest.fixture
def coordinator(tmp_path):
    return make_coordinator(tmp_path / "c")


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_secret_files_are_for_their_owner_only(tmp_path, coordinator):
    site = SiteFolder.create(tmp_path / "anna", "anna", "host.example:8000")
    assert mode(site.path) == mode(coordinator.path) == 0o700
    secret = [site.identity_file, site.node_key, coordinator.path / "ca.key", coordinator.path / "server.key"]
    assert [mode(file) for file in secret] == [0o600] * 4


def test_the_public_file_holds_no_secret(tmp_path):
    site = SiteFolder.create(tmp_path / "anna", "anna", "host.example:8000")
    public = site.public_file("anna").read_bytes()
    assert site.identity().public.hex().encode() in public
    assert site.identity_file.read_bytes() not in public
    assert site.identity_file.read_bytes().hex().encode() not in public
    assert b"PRIVATE" not in public


def test_an_identity_is_never_overwritten(tmp_path):
    site = SiteFolder.create(tmp_path / "anna", "anna", "host.example:8000")
    before = site.identity().public
    with pytest.raises(InputError, match="already holds the identity"):
        SiteFolder.create(tmp_path / "anna", "anna", "host.example:8000")
    site.new_node_key("anna")
    assert site.identity().public == before


def test_odd_file_and_label_names_survive_the_configuration(tmp_path):
    file, label = 'C:\\a "b"\n.csv', "Größe [\\]"
    site = SiteFolder.create(tmp_path / "anna", "anna", "host.example:8000", file=file, label=label)
    config = site.config()
    assert (config.file, config.label, config.coordinator) == (file, label, "host.example:8000")
    assert config.policy.policy().smallest_cohort == 3


@pytest.mark.parametrize("name", ["", "../x", "a/b", "-a", "a b", "a" * 64, "ä"])
def test_names_that_could_be_paths_are_refused(name):
    with pytest.raises(InputError, match="cannot be a site's name"):
        check_name(name)


@pytest.mark.parametrize(
    "address", ["host", "host:", ":8000", "host:0", "host:65536", "http://host:8000", "::1:8000"]
)
def test_addresses(address):
    with pytest.raises(InputError, match="HOST:PORT"):
        check_address(address)


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.1:80", "localhost:80", "127.8.8.8:80", "[::1]:80"])
def test_loopback(address):
    check_loopback(address)


@pytest.mark.parametrize("address", ["0.0.0.0", "10.0.0.7:80", "localhost.example:80", "example.org", "0:80"])
def test_an_insecure_federation_stays_on_this_machine(tmp_path, address):
    with pytest.raises(InputError, match="this machine only"):
        check_loopback(address)
    with pytest.raises(InputError, match="this machine only"):
        make_coordinator(tmp_path / "x", host=address, insecure=True)
    assert not (tmp_path / "x").exists()


def test_insecure_cannot_be_edited_in_for_another_machine(tmp_path, coordinator):
    site = SiteFolder.create(tmp_path / "anna", "anna", "host.example:8000")
    edit(site, "[policy]  ", "insecure = true\n[policy]  ")
    with pytest.raises(InputError, match="this machine only"):
        site.config()
    file = coordinator.path / "coordinator.toml"
    file.write_text(
        file.read_text().replace("127.0.0.1", "0.0.0.0").replace("insecure = false", "insecure = true")
    )
    with pytest.raises(InputError, match="this machine only"):
        coordinator.config()


def test_errors_in_site_toml_name_the_file(tmp_path):
    site = SiteFolder.create(tmp_path / "anna", "anna", "host.example:8000")
    edit(site, "runs_per_day = 20", "runs_per_day = -1")
    with pytest.raises(InputError, match=r"site\.toml.*runs_per_day"):
        site.config()
    with pytest.raises(InputError, match="fedgeom site init"):
        SiteFolder(tmp_path / "nowhere").config()
    with pytest.raises(InputError, match="not a site's folder"):
        SiteFolder(tmp_path / "nowhere").identity()
    with pytest.raises(InputError, match="fedgeom coordinator init"):
        CoordinatorFolder(tmp_path / "nowhere").config()


def test_admitting(tmp_path, coordinator):
    sites = make_sites(tmp_path, coordinator)
    assert tuple(coordinator.roster()) == NAMES
    assert tuple(coordinator.node_keys()) == NAMES
    assert dict(coordinator.roster()) == {name: site.identity().public for name, site in sites.items()}
    coordinator.admit(sites["anna"].public_file("anna"))  # again is no harm
    assert len(coordinator.roster()) == 3


def test_another_identity_under_a_known_name_is_refused(tmp_path, coordinator):
    sites = make_sites(tmp_path, coordinator)
    other = SiteFolder.create(tmp_path / "other", "anna", "host.example:8000")
    with pytest.raises(InputError, match=r"another identity.*coordinator remove anna"):
        coordinator.admit(other.public_file("anna"))
    assert coordinator.roster()["anna"] == sites["anna"].identity().public
    coordinator.remove("anna")
    coordinator.admit(other.public_file("anna"))
    assert coordinator.roster()["anna"] == other.identity().public


@pytest.mark.parametrize(
    "change",
    [
        {"name": "../../x"},
        {"identity": "00"},
        {"identity": "z" * 64},
        {"node": "ssh-rsa AAAA"},
        {"node": "ecdsa-sha2-nistp384 AAAA\nssh-rsa BBBB"},
        {"more": 1},
    ],
)
def test_public_files_are_closed(tmp_path, coordinator, change):
    site = SiteFolder.create(tmp_path / "anna", "anna", "host.example:8000")
    file = site.public_file("anna")
    file.write_bytes(msgspec.json.encode(msgspec.json.decode(file.read_bytes()) | change))
    with pytest.raises(InputError):
        coordinator.admit(file)
    assert not coordinator.roster()
    assert not coordinator.node_keys()


def test_a_key_that_was_shut_out_needs_a_new_one(tmp_path, coordinator):
    site = make_sites(tmp_path, coordinator)["anna"]
    key = coordinator.node_keys()["anna"]
    coordinator.save_registered(Registered({"bert": Node("k", "7")}, shut=[key]))
    assert coordinator.registered().nodes["bert"].number == "7"
    with pytest.raises(InputError, match="--new-node-key"):
        coordinator.admit(site.public_file("anna"))
    site.new_node_key("anna")
    coordinator.admit(site.public_file("anna"))
    assert coordinator.node_keys()["anna"] != key


def test_removing(tmp_path, coordinator):
    make_sites(tmp_path, coordinator)
    coordinator.remove("bert")
    assert tuple(coordinator.roster()) == tuple(coordinator.node_keys()) == ("anna", "carl")
    with pytest.raises(InputError, match="'bert' is not in the roster; there are: anna, carl"):
        coordinator.remove("bert")


def test_the_coordinators_address(tmp_path):
    assert make_coordinator(tmp_path / "a", host="0.0.0.0", port=9).address() == "127.0.0.1:9"
    assert make_coordinator(tmp_path / "b", host="10.0.0.7", port=9).address() == "10.0.0.7:9"
    with pytest.raises(InputError, match="IPv4"):
        make_coordinator(tmp_path / "c", host="::")
    with pytest.raises(InputError, match="already"):
        make_coordinator(tmp_path / "a")
