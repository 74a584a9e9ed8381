"""A site's folder: keys that nobody else reads, settings that survive, and errors that say what to do."""

from __future__ import annotations

import stat

import pytest

from fedgeom.deploy.site_folder import SiteFolder
from fedgeom.errors import InputError
from fedgeom.federation.policy import Policy
from tests.deploy.making import edit


@pytest.fixture
def site(tmp_path):
    return SiteFolder.create(tmp_path / "anna", "anna", "host.example:8000")


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_the_folder_and_its_keys_are_for_their_owner_only(site):
    assert mode(site.path) == 0o700
    assert mode(site.identity_file) == mode(site.node_key) == 0o600


def test_a_folder_that_was_there_is_closed_too(tmp_path):
    (tmp_path / "anna").mkdir()
    (tmp_path / "anna").chmod(0o755)
    (tmp_path / "anna" / "node.key").write_text("an old one, for everybody")
    made = SiteFolder.create(tmp_path / "anna", "anna", "host.example:8000")
    assert (mode(made.path), mode(made.node_key)) == (0o700, 0o600)


def test_settings_that_were_there_are_left_alone(tmp_path):
    (tmp_path / "anna").mkdir()
    (tmp_path / "anna" / "site.toml").write_text("edited = true")
    SiteFolder.create(tmp_path / "anna", "anna", "host.example:8000")
    assert (tmp_path / "anna" / "site.toml").read_text() == "edited = true"


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
    assert config.policy == Policy()


def test_a_new_node_key_changes_the_public_file_and_nothing_else(site):
    names = ("identity.key", "site.toml", "node.key", "anna.pub")
    before = {name: (site.path / name).read_bytes() for name in names}
    site.new_node_key("anna")
    changed = {name for name in names if (site.path / name).read_bytes() != before[name]}
    assert changed == {"node.key", "anna.pub"}


def test_insecure_cannot_be_edited_in_for_another_machine(site):
    edit(site, "[policy]  ", "insecure = true\n[policy]  ")
    with pytest.raises(InputError, match="this machine only"):
        site.config()


def test_nothing_is_made_of_what_cannot_be(tmp_path):
    for name, address, insecure in (("../a", "h:1", False), ("a", "h", False), ("a", "host.example:1", True)):
        with pytest.raises(InputError):
            SiteFolder.create(tmp_path / "x", name, address, insecure=insecure)
    assert not (tmp_path / "x").exists()


def test_errors_in_site_toml_name_the_file(site, tmp_path):
    edit(site, "runs_per_day = 20", "runs_per_day = -1")
    with pytest.raises(InputError, match=r"site\.toml.*runs_per_day"):
        site.config()
    with pytest.raises(InputError, match="fedgeom site init"):
        SiteFolder(tmp_path / "nowhere").config()
    with pytest.raises(InputError, match="not a site's folder"):
        SiteFolder(tmp_path / "nowhere").identity()


def test_a_missing_roster_says_whom_to_ask(site):
    with pytest.raises(InputError, match=r"ask the coordinator for roster\.json"):
        site.roster()
