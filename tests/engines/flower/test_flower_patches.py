"""No code from the network, and no control from other machines."""

from __future__ import annotations

import asyncio
import importlib
import os
import subprocess
import sys
from types import ModuleType

import pytest

from fedgeom.engines.flower import flower_patches as guard
from fedgeom.engines.flower import programs as flower_programs
from fedgeom.engines.flower.access_filter import Gate, may_pass


def test_guards_come_first_on_the_path(tmp_path):
    folder = guard.write_guards(tmp_path / "guards")
    for program in (*guard.GUARDED, *guard.REFUSED):
        assert os.access(folder / program, os.X_OK)
    environment = flower_programs.environment(tmp_path, guards=folder)
    assert environment["PATH"].split(os.pathsep)[0] == str(folder)


def test_programs_that_are_not_needed_stop_at_once(tmp_path):
    folder = guard.write_guards(tmp_path)
    for program in guard.REFUSED:
        done = subprocess.run([str(folder / program)], capture_output=True, text=True, check=False)
        assert done.returncode != 0
        assert "does not run this kind" in done.stderr


def test_flower_without_what_is_replaced_stops():
    with pytest.raises(SystemExit, match=r"no install_from_fab.*stopping"):
        guard._replace(ModuleType("changed"), install_from_fab=None)


def test_the_flower_that_is_installed_can_be_told_to_retry_soon(monkeypatch):
    pytest.importorskip("flwr", reason="Flower is not installed")
    module = importlib.import_module("flwr.supercore.inflatable.inflatable_utils")
    monkeypatch.setattr(module.pull_objects, "__kwdefaults__", {**module.pull_objects.__kwdefaults__})
    assert module.pull_objects.__kwdefaults__["initial_backoff"] > guard.RETRY_SECONDS
    guard.retry_soon()
    assert module.pull_objects.__kwdefaults__["initial_backoff"] == guard.RETRY_SECONDS
    monkeypatch.delattr(module, "pull_objects")
    guard.retry_soon()  # another Flower: nothing to tell


def test_the_flower_that_is_installed_can_be_told_to_wait_for_its_database(monkeypatch, tmp_path):
    pytest.importorskip("flwr", reason="Flower is not installed")
    module = importlib.import_module("flwr.supercore.sql_mixin")
    before = dict(module.SQLITE_PRAGMAS)
    monkeypatch.setattr(module, "SQLITE_PRAGMAS", module.SQLITE_PRAGMAS)
    guard.wait_for_the_database()
    assert dict(module.SQLITE_PRAGMAS) == before | {"busy_timeout": "60000"}
    assert int(before["busy_timeout"]) < 60_000
    monkeypatch.delattr(module, "SQLITE_PRAGMAS")
    guard.wait_for_the_database()  # another Flower: nothing to tell


def test_no_telemetry_and_no_foreign_settings(monkeypatch, tmp_path):
    monkeypatch.setenv("FLWR_TELEMETRY_ENABLED", "1")
    monkeypatch.setenv("FLWR_HOME", "/elsewhere")
    monkeypatch.setenv("FLWR_ANYTHING", "1")
    environment = flower_programs.environment(tmp_path)
    assert environment["FLWR_TELEMETRY_ENABLED"] == "0"
    assert environment["FLWR_DISABLE_UPDATE_CHECK"] == "1"
    assert environment["FLWR_HOME"] == str(tmp_path)
    assert "FLWR_ANYTHING" not in environment


@pytest.mark.parametrize(("sites", "seconds"), [(2, 0.5), (5, 0.5), (20, 2.0), (50, 5.0), (1000, 10.0)])
def test_sites_ask_more_rarely_the_more_they_are(sites, seconds, tmp_path):
    assert flower_programs.poll_seconds(sites) == seconds
    environment = flower_programs.environment(tmp_path, sites=sites)
    assert float(environment[flower_programs.POLL_VARIABLE]) == seconds


def test_commands_ask_for_safety(tmp_path):
    link = flower_programs.superlink(tmp_path, host="0.0.0.0", port=8000, insecure=False)
    assert {"--enable-supernode-auth", "--ssl-certfile", "--disable-runtime-dependency-installation"} <= set(link)
    assert "--insecure" not in link
    bare = flower_programs.superlink(tmp_path, host="127.0.0.1", port=8000, insecure=True)
    assert {"--insecure", "--disable-runtime-dependency-installation"} <= set(bare)
    node = flower_programs.supernode("h:1", port=2, config={"site": "x"}, certificate=tmp_path, key=tmp_path)
    assert "--insecure" not in node
    assert node[node.index("--host") + 1] == "127.0.0.1"


@pytest.mark.parametrize(
    ("module", "names"),
    [
        (
            "flwr.supernode.runtime.run_clientapp",
            ["install_from_fab", "get_project_dir", "get_load_client_app_fn"],
        ),
        ("flwr.superlink.runtime.run_serverapp", ["install_from_fab", "get_project_dir"]),
        ("flwr.superlink.cli.flower_superlink", ["uvicorn"]),
    ],
)
def test_this_flower_has_what_is_replaced(module, names):
    pytest.importorskip("flwr")
    found = importlib.import_module(module)
    assert [name for name in names if not hasattr(found, name)] == []


def test_a_shipped_bundle_is_ignored(tmp_path):
    """The guarded ClientApp process unpacks nothing and loads our app, whatever was shipped."""
    pytest.importorskip("flwr")
    text = (
        "import importlib\nfrom fedgeom.engines.flower import flower_patches as guard\n"
        "import flwr.supernode.cli as cli\n"
        "def run():\n"
        "    m = importlib.import_module('flwr.supernode.runtime.run_clientapp')\n"
        "    print(m.install_from_fab(b'a stranger') == guard.APP)\n"
        "    load = m.get_load_client_app_fn(default_app_ref='evil:app', app_path=None, multi_app=True)\n"
        "    app = load('a', 'b', 'c')\n"
        "    print(type(app).__name__, app.__module__.startswith('flwr.'))\n"
        "cli.flwr_clientapp = run\n"
        "guard.clientapp()\n"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.stdout.split() == ["True", "ClientApp", "True"], done.stderr


def scope(path, client, server=("10.0.0.7", 8000), kind="http"):
    return {"type": kind, "path": path, "client": client and (client, 5), "server": server}


CONTROL, RUNTIME, FLEET = "/v1/control/start-run", "/v1/runtime/acquire-task", "/v1/fleet/pull-messages"


@pytest.mark.parametrize("path", [CONTROL, RUNTIME, "/docs", "/openapi.json", "/", "/v1/fleet", "/v1/fleetx/a"])
@pytest.mark.parametrize("client", ["10.0.0.8", "203.0.113.5", "2001:db8::1", "::ffff:10.0.0.8", "name", None])
def test_other_machines_reach_the_fleet_only(path, client):
    assert not may_pass(scope(path, client))
    assert may_pass(scope(FLEET, client))
    assert not may_pass(scope(FLEET, client, kind="websocket"))


@pytest.mark.parametrize("client", ["127.0.0.1", "127.0.0.9", "::1", "::ffff:127.0.0.1", "10.0.0.7"])
@pytest.mark.parametrize("path", [CONTROL, RUNTIME, FLEET])
def test_this_machine_reaches_everything(path, client):
    assert may_pass(scope(path, client))


def passed(given):
    """Send a request through the gate; return whether it passed, and what was answered."""
    through, answered = [], []

    async def app(scope, receive, send):
        through.append(scope)

    async def send(message):
        answered.append(message)

    asyncio.run(Gate(app)(given, None, send))
    return bool(through), answered


def test_the_gate():
    assert passed(scope(FLEET, "10.0.0.8")) == (True, [])
    assert passed({"type": "lifespan"}) == (True, [])
    through, answered = passed(scope(CONTROL, "10.0.0.8"))
    assert not through
    assert answered[0]["status"] == 403
    assert passed(scope(CONTROL, "10.0.0.8", kind="websocket"))[1][0]["type"] == "websocket.close"


def test_forwarded_addresses_are_not_believed():
    served = {}

    class Server:
        @staticmethod
        def run(**options):
            served.update(options)

    guard._GatedServer(Server).run(app="app", port=1)
    assert isinstance(served["app"], Gate)
    assert served["proxy_headers"] is False
