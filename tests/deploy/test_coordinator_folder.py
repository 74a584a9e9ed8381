"""A coordinator's folder: keys that nobody else reads, the roster, and errors that say what to do."""

from __future__ import annotations

import stat

import msgspec
import pytest

from fedgeom.deploy.coordinator_folder import CoordinatorFolder
from fedgeom.deploy.site_folder import SiteFolder
from fedgeom.errors import InputError
from tests.deploy.making import NAMES, make_coordinator, make_sites


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_the_folder_and_its_keys_are_for_their_owner_only(coordinator):
    folders = [coordinator.path, *(file for file in coordinator.path.iterdir() if file.is_dir())]
    assert {folder.name for folder in folders[1:]} == {"jobs", "runs", "nodes"}
    assert {mode(folder) for folder in folders} == {0o700}
    assert mode(coordinator.path / "ca.key") == mode(coordinator.path / "server.key") == 0o600


def test_a_folder_that_was_there_is_closed_too(tmp_path):
    (tmp_path / "c" / "runs").mkdir(parents=True)
    for folder in (tmp_path / "c", tmp_path / "c" / "runs"):
        folder.chmod(0o755)
    made = make_coordinator(tmp_path / "c")
    assert mode(made.path) == mode(made.path / "runs") == 0o700
    assert {mode(file) for file in made.path.rglob("*") if file.is_file()} == {0o600}
    (made.path / "coordinator.log").touch(0o644)
    made.path.chmod(0o755)
    made.close_to_others()
    assert (mode(made.path), mode(made.path / "coordinator.log")) == (0o700, 0o600)


@pytest.mark.parametrize("address", ["0.0.0.0", "10.0.0.7:80", "localhost.example:80", "example.org", "0:80"])
def test_an_insecure_federation_stays_on_this_machine(tmp_path, address):
    with pytest.raises(InputError, match="this machine only"):
        make_coordinator(tmp_path / "x", host=address, insecure=True)
    assert not (tmp_path / "x").exists()


def test_insecure_cannot_be_edited_in_for_another_machine(coordinator):
    file = coordinator.path / "coordinator.toml"
    file.write_text(
        file.read_text().replace("127.0.0.1", "0.0.0.0").replace("insecure = false", "insecure = true")
    )
    with pytest.raises(InputError, match="this machine only"):
        coordinator.config()


def test_a_folder_that_is_none_says_how_to_make_one(tmp_path):
    with pytest.raises(InputError, match="fedgeom coordinator init"):
        CoordinatorFolder(tmp_path / "nowhere").config()


def test_admitting(tmp_path, coordinator):
    sites = make_sites(tmp_path, coordinator)
    assert tuple(coordinator.roster()) == NAMES
    assert tuple(coordinator.nats_keys()) == NAMES
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
        {"name": "anna\n"},
        {"identity": "00"},
        {"identity": "z" * 64},
        {"nats": ""},
        {"nats": "U" + "A" * 54},
        {"nats": "U" + "A" * 55 + "\n"},
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
    assert not coordinator.nats_keys()


def test_a_public_file_of_an_earlier_release_is_named_as_such(tmp_path, coordinator):
    site = SiteFolder.create(tmp_path / "anna", "anna", "host.example:8000")
    file = site.public_file("anna")
    old = msgspec.json.decode(file.read_bytes())
    del old["nats"]
    file.write_bytes(msgspec.json.encode(old | {"node": "ecdsa-sha2-nistp384 AAAA"}))
    with pytest.raises(InputError, match="fedgeom site init --name anna --new-node-key"):
        coordinator.admit(file)
    site.new_node_key("anna")
    coordinator.admit(file)
    assert coordinator.nats_keys()["anna"].startswith("U")


def test_removing(tmp_path, coordinator):
    make_sites(tmp_path, coordinator)
    coordinator.remove("bert")
    assert tuple(coordinator.roster()) == tuple(coordinator.nats_keys()) == ("anna", "carl")
    with pytest.raises(InputError, match="'bert' is not in the roster; there are: anna, carl"):
        coordinator.remove("bert")


def test_the_coordinators_address(tmp_path):
    assert make_coordinator(tmp_path / "a", host="0.0.0.0", port=9).address() == "127.0.0.1:9"
    assert make_coordinator(tmp_path / "b", host="10.0.0.7", port=9).address() == "10.0.0.7:9"
    with pytest.raises(InputError, match="IPv4"):
        make_coordinator(tmp_path / "c", host="::")
    with pytest.raises(InputError, match="already"):
        make_coordinator(tmp_path / "a")
