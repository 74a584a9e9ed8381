"""Commands and environments: safe by their flags, quick by their settings, and nothing from outside."""

from __future__ import annotations

import os
import stat
import tomllib

import pytest

from fedgeom.engines.flower import commands
from fedgeom.errors import InputError


def test_our_launchers_come_first_on_the_path(tmp_path):
    environment = commands.environment(tmp_path, launchers=tmp_path / "launchers")
    assert environment["PATH"].split(os.pathsep)[0] == str(tmp_path / "launchers")


def test_no_telemetry_and_no_foreign_settings(monkeypatch, tmp_path):
    monkeypatch.setenv("FLWR_TELEMETRY_ENABLED", "1")
    monkeypatch.setenv("FLWR_HOME", "/elsewhere")
    monkeypatch.setenv("FLWR_ANYTHING", "1")
    monkeypatch.setenv("ANYTHING_ELSE", "stays")
    environment = commands.environment(tmp_path)
    assert environment["FLWR_TELEMETRY_ENABLED"] == "0"
    assert environment["FLWR_DISABLE_UPDATE_CHECK"] == "1"
    assert environment["FLWR_HOME"] == str(tmp_path)
    assert "FLWR_ANYTHING" not in environment
    assert environment["ANYTHING_ELSE"] == "stays"


def test_commands_ask_for_safety(tmp_path):
    link = commands.superlink(tmp_path, host="0.0.0.0", port=8000, insecure=False)
    assert {"--enable-supernode-auth", "--ssl-certfile", "--disable-runtime-dependency-installation"} <= set(link)
    assert "--insecure" not in link
    bare = commands.superlink(tmp_path, host="127.0.0.1", port=8000, insecure=True)
    assert {"--insecure", "--disable-runtime-dependency-installation"} <= set(bare)
    assert not any(word.startswith("--ssl") for word in bare)
    assert "--database" not in link  # what must outlive it is in our own files


@pytest.mark.parametrize(("certificate", "key"), [(None, None), ("ca.pem", None), (None, "node.key")])
def test_a_node_listens_on_this_machine_only_and_is_insecure_only_without_certificate_or_key(
    tmp_path, certificate, key
):
    safe = commands.supernode("h:1", port=2, site=tmp_path, certificate=tmp_path / "c", key=tmp_path / "k")
    assert "--insecure" not in safe
    assert safe[safe.index("--root-certificates") + 1] == str(tmp_path / "c")
    assert safe[safe.index("--auth-supernode-private-key") + 1] == str(tmp_path / "k")
    bare = commands.supernode(
        "h:1",
        port=2,
        site=tmp_path,
        certificate=certificate and tmp_path / certificate,
        key=key and tmp_path / key,
    )
    assert "--insecure" in bare
    for command in (safe, bare):
        assert command[command.index("--host") + 1] == "127.0.0.1"
        assert command[command.index("--isolation") + 1] == "process"  # it starts no program that runs apps
        assert tomllib.loads(command[command.index("--node-config") + 1]) == {commands.SITE_SETTING: str(tmp_path)}


@pytest.mark.parametrize("secure", [True, False])
def test_flowers_own_command_line_learns_where_the_coordinator_is(tmp_path, secure):
    home, certificate = tmp_path / "home", tmp_path / "ca.pem" if secure else None
    commands.write_connection(home, address="h:1", certificate=certificate)
    there = tomllib.loads((home / "config.toml").read_text())["superlink"]
    security = {"root-certificates": str(certificate)} if secure else {"insecure": True}
    assert there == {"default": commands.CONNECTION, commands.CONNECTION: {"address": "h:1"} | security}
    assert stat.S_IMODE(home.stat().st_mode) == 0o700


def test_a_job_and_a_node_are_named(tmp_path):
    run = commands.start_run(tmp_path, "study-1")
    assert tomllib.loads(run[run.index("--run-config") + 1]) == {commands.JOB_SETTING: "study-1"}
    register = commands.register(tmp_path / "anna.pub", "anna")
    assert register[register.index("--name") + 1] == "anna"
    for command in (run, register, commands.list_nodes(), commands.list_run("7")):
        assert command[-2:] == ["--format", "json"]  # we read what they print
        assert commands.CONNECTION in command


def test_without_flower_it_is_said_how_to_get_it(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "flwr", None)
    with pytest.raises(InputError, match=r"pip install 'fedgeom\[flower\]'"):
        commands.need_flower()
