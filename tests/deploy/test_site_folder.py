"""A site's folder: keys that nobody else reads, settings that survive, and errors that say what to do."""

from __future__ import annotations

import json
import os
import stat
import tomllib

import msgspec
import pytest

from fedgeom.deploy.site_folder import PublicLines, SiteFolder, policy_lines
from fedgeom.errors import InputError
from fedgeom.federation.coordinator import Coordinator
from fedgeom.federation.policy import DEVICE_VARIABLE, Policy, StrictPolicy
from fedgeom.protocols.join.coordinator import invite
from tests.deploy.making import edit, make_coordinator, make_sites
from tests.deploy.test_answering import METHOD, FolderEngine


@pytest.fixture
def site(tmp_path):
    return SiteFolder.create(tmp_path / "anna", "anna", "host.example:8000")


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_the_folder_and_its_keys_are_for_their_owner_only(site):
    assert mode(site.path) == 0o700
    assert mode(site.identity_file) == mode(site.nats_key) == 0o600


def test_a_folder_that_was_there_is_closed_too(tmp_path):
    (tmp_path / "anna").mkdir()
    (tmp_path / "anna").chmod(0o755)
    (tmp_path / "anna" / "nats.key").write_text("an old one, for everybody")
    made = SiteFolder.create(tmp_path / "anna", "anna", "host.example:8000")
    assert (mode(made.path), mode(made.nats_key)) == (0o700, 0o600)


def test_what_an_earlier_release_left_open_is_closed_when_the_site_starts(site):
    open_files = [site.path / "ledger.jsonl", site.config_file, site.path / "site.log", site.identity_file]
    for file in open_files:
        file.touch()
        file.chmod(0o644)
    site.path.chmod(0o755)
    site.close_to_others()
    assert mode(site.path) == 0o700
    assert {mode(file) for file in open_files} == {0o600}


@pytest.mark.parametrize("umask", [0, 0o022])
def test_all_files_but_the_public_one_are_private_whatever_the_umask(tmp_path, umask):
    before = os.umask(umask)
    try:
        made = SiteFolder.create(tmp_path / "anna", "anna", "host.example:8000")
    finally:
        os.umask(before)
    assert {file.name for file in made.path.iterdir() if mode(file) != 0o600} == {"anna.pub"}


@pytest.mark.parametrize("field", ["identity", "nats"])
def test_a_public_line_ends_where_it_should(site, field):
    lines = json.loads(site.public_file("anna").read_bytes())
    msgspec.convert(lines, PublicLines)
    with pytest.raises(msgspec.ValidationError, match="regex"):
        msgspec.convert(lines | {field: lines[field] + "\n"}, PublicLines)


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
    assert config.policy == StrictPolicy()


def test_a_new_node_key_changes_the_public_file_and_nothing_else(site):
    names = ("identity.key", "site.toml", "nats.key", "anna.pub")
    before = {name: (site.path / name).read_bytes() for name in names}
    site.new_node_key("anna")
    changed = {name for name in names if (site.path / name).read_bytes() != before[name]}
    assert changed == {"nats.key", "anna.pub"}


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


# --- the policy ---


@pytest.mark.parametrize("field", Policy.__struct_fields__)
def test_the_template_says_what_the_default_policy_is_field_by_field(site, field):
    """A steward who leaves the template as it is has what one has who deletes the table."""
    written = tomllib.loads(site.config_file.read_text())["policy"]
    usual = getattr(StrictPolicy(), field)
    assert written[field] == (list(usual) if isinstance(usual, tuple) else usual)
    assert getattr(site.config().policy, field) == usual
    text = site.config_file.read_text()
    site.config_file.write_text(text[: text.index("[policy]")])
    assert getattr(site.config().policy, field) == usual


def test_the_template_explains_every_field_and_no_other(site):
    text = site.config_file.read_text()
    lines = text[text.index("[policy]") :].splitlines()[1:]
    assert [line.split(" = ")[0] for line in lines] == list(Policy.__struct_fields__)
    assert all(line.partition(" # ")[2] for line in lines)


def test_any_policy_survives_the_file(site):
    changed = StrictPolicy(
        min_cohort=5, threshold=0.7, max_message_bytes=1000, methods=("hulls", 'x"y'), runs_per_day=0
    )
    text = site.config_file.read_text()
    site.config_file.write_text(text[: text.index("[policy]")] + "[policy]\n" + policy_lines(changed))
    assert site.config().policy == changed


TWO_THIRDS = dict(zip(range(3, 13), (2, 3, 4, 4, 5, 6, 6, 7, 8, 8), strict=True))
"""The least whole number that is two thirds of the sites or more."""


@pytest.mark.parametrize("threshold", ['"2/3"', "0.667", "0.6667", "0.6666666666666666"])
def test_two_thirds_are_two_thirds_for_any_number_of_sites(site, threshold):
    edit(site, 'threshold = "2/3"', f"threshold = {threshold}")
    policy = site.config().policy
    assert {n: policy.holders_needed(n) for n in TWO_THIRDS} == TWO_THIRDS


@pytest.mark.parametrize(
    ("threshold", "needed"),
    [
        ("0.7", (3, 3, 4, 5, 5, 6, 7, 7, 8, 9)),
        ('"3/4"', (3, 3, 4, 5, 6, 6, 7, 8, 9, 9)),
        ("1.0", tuple(range(3, 13))),
    ],
)
def test_other_thresholds(site, threshold, needed):
    edit(site, 'threshold = "2/3"', f"threshold = {threshold}")
    policy = site.config().policy
    assert tuple(policy.holders_needed(n) for n in range(3, 13)) == needed


@pytest.mark.parametrize("threshold", ["0.5", '"1/2"', "1.2", '"two thirds"', '"1/0"', "true", "[0.7]"])
def test_thresholds_that_protect_nobody_are_refused_by_name(site, threshold):
    edit(site, 'threshold = "2/3"', f"threshold = {threshold}")
    with pytest.raises(InputError, match=r"site\.toml.*threshold"):
        site.config()


def test_sites_as_they_come_from_the_template_ask_for_two_thirds(tmp_path):
    """What they write to each other when joining, for three to twelve sites."""
    names = [f"site-{k:02}" for k in range(12)]
    coordinator = make_coordinator(tmp_path / "c")
    folders = make_sites(tmp_path, coordinator, names=names)
    for n, needed in TWO_THIRDS.items():
        engine = FolderEngine({name: folders[name] for name in names[:n]})
        talk = Coordinator(engine, run=bytes([n]) * 32, method="hulls", roster=coordinator.roster())
        joined = invite(talk, rounds=2, terms=METHOD.terms(), min_sites=n)
        assert joined.needed == dict.fromkeys(names[:n], needed)


# --- approval ---


def test_a_new_site_asks_its_steward(site):
    config = site.config()
    assert (config.approve, config.notice, config.lets_in("hulls")) == ("ask", "", "")
    text = site.config_file.read_text()
    site.config_file.write_text("".join(line for line in text.splitlines(True) if not line.startswith("approve")))
    assert site.config().approve == "ask"  # also where the file says nothing


def test_rules_that_let_jobs_in(site):
    edit(site, 'approve = "ask" ', 'approve = "any" ')
    assert site.config().lets_in("hulls") == "any"
    edit(site, 'approve = "any" ', 'approve = "allow-listed methods" ')
    with pytest.raises(InputError, match=r"site\.toml.*lists none; name them, such as methods"):
        site.config()
    edit(site, "methods = []", 'methods = ["hulls"]')
    assert site.config().lets_in("hulls") == "allow-listed methods"
    assert site.config().lets_in("moments") == ""


def test_a_rule_that_does_not_exist_is_named(site):
    edit(site, 'approve = "ask" ', 'approve = "sometimes" ')
    with pytest.raises(InputError, match=r"site\.toml: approve = 'sometimes' given; wanted one of 'ask'"):
        site.config()


def test_a_site_chooses_its_device_and_the_environment_stays_where_it_says_nothing(site, monkeypatch):
    monkeypatch.setenv(DEVICE_VARIABLE, "cuda")
    site.choose_device()
    assert os.environ[DEVICE_VARIABLE] == "cuda"
    edit(site, '# device = "cuda" ', 'device = "mps" ')
    site.choose_device()
    assert os.environ[DEVICE_VARIABLE] == "mps"
    edit(site, 'device = "mps" ', 'device = "gpu" ')
    with pytest.raises(InputError, match="device"):
        site.choose_device()
