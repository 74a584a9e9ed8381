"""What is changed in a running Flower: no code from the network, no control from elsewhere, and quicker looks."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType, SimpleNamespace

import pytest

from fedgeom.engines.flower import patch_table, patches
from fedgeom.engines.flower.access_filter import AccessFilter
from fedgeom.engines.flower.patch_table import Symbol, function, seconds


@pytest.fixture
def changed(monkeypatch):
    """A module of Flower's as another release might have it."""
    module = ModuleType("flwr_of_another_release")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module


def row(name, expected=function(), required=False):  # noqa: B008
    return Symbol("flwr_of_another_release", name, expected, "why", "otherwise", required)


def test_a_symbol_is_replaced_by_what_is_made_of_it(changed):
    changed.interval = 30
    assert patches.replace(row("interval", seconds), by=lambda old: old - 20)
    assert changed.interval == 10


def test_flower_without_what_is_required_stops(changed):
    with pytest.raises(SystemExit, match=r"no install_from_fab.*stopping"):
        patches.replace(row("install_from_fab", required=True), by=lambda _: None)
    changed.install_from_fab = "something else"
    with pytest.raises(SystemExit, match=r"no install_from_fab as in 1\.41 \('something else' is not a function"):
        patches.replace(row("install_from_fab", required=True), by=lambda _: None)
    assert changed.install_from_fab == "something else"


def test_flower_without_what_is_only_useful_is_left_alone(changed):
    assert not patches.replace(row("interval", seconds), by=lambda _: 1)
    changed.interval = "30 s"
    assert not patches.replace(row("interval", seconds), by=lambda _: 1)
    assert changed.interval == "30 s"


def test_all_or_none(changed):
    """A heartbeat that is promised and not kept would be worse than a slow one."""
    changed.promised = 30
    assert not patches.replace(row("promised", seconds), row("kept", seconds), by=lambda _: 10)
    assert changed.promised == 30
    with pytest.raises(SystemExit, match="no load"):
        patches.replace(row("promised", seconds), row("load", required=True), by=lambda _: 10)
    assert changed.promised == 30
    changed.kept = 30
    assert patches.replace(row("promised", seconds), row("kept", seconds), by=lambda _: 10)
    assert (changed.promised, changed.kept) == (10, 10)


# --- the installed Flower ---


@pytest.fixture
def flwr(monkeypatch):
    """The installed Flower; what is changed in it is put back."""
    pytest.importorskip("flwr", reason="Flower is not installed")
    for symbol in patch_table.TABLE:
        owner, name = symbol.place()
        monkeypatch.setattr(owner, name, getattr(owner, name))
    return patch_table


def test_what_was_shipped_is_neither_unpacked_nor_loaded(flwr, tmp_path):
    patches.run_installed_client(lambda: "our app", tmp_path)
    patches.run_installed_server(tmp_path)
    for symbol in (flwr.CLIENTAPP_INSTALL, flwr.SERVERAPP_INSTALL):
        assert symbol.value()(b"a stranger", skip_prompt=True) == tmp_path
    for symbol in (flwr.CLIENTAPP_FOLDER, flwr.SERVERAPP_FOLDER):
        assert symbol.value()("evil/app", "1.0", "hash") == tmp_path
    load = flwr.CLIENTAPP_LOAD.value()(default_app_ref="evil:app", app_path=None, multi_app=True)
    assert load("evil/app", "1.0", "hash") == "our app"


def test_what_the_superlink_serves_passes_the_filter(flwr):
    patches.filter_requests()
    assert isinstance(flwr.WEB_SERVER.value(), patches.FilteredServer)
    assert flwr.WEB_SERVER.value().Config.__module__.startswith("uvicorn")


def test_forwarded_addresses_are_not_believed():
    served = {}
    server = SimpleNamespace(run=lambda **options: served.update(options))
    patches.FilteredServer(server).run(app="app", port=1)
    assert isinstance(served["app"], AccessFilter)
    assert (served["port"], served["proxy_headers"]) == (1, False)


def test_parts_of_messages_are_asked_for_again_soon(flwr):
    before = dict(flwr.RETRY_DEFAULTS.value())
    assert before["initial_backoff"] > patches.RETRY_SECONDS
    patches.retry_soon()
    assert flwr.RETRY_DEFAULTS.value() == before | {"initial_backoff": patches.RETRY_SECONDS}


def test_the_database_is_waited_for(flwr):
    before = dict(flwr.DATABASE_SETTINGS.value())
    assert int(before["busy_timeout"]) < 60_000
    patches.wait_for_database()
    assert dict(flwr.DATABASE_SETTINGS.value()) == before | {"busy_timeout": "60000"}


def test_the_heartbeat_that_is_promised_is_kept(flwr):
    assert flwr.NODE_HEARTBEAT.value() > patches.HEARTBEAT_SECONDS
    patches.beat_often()
    assert flwr.NODE_HEARTBEAT.value() == flwr.SENT_HEARTBEAT.value() == patches.HEARTBEAT_SECONDS


def test_something_is_called_before_each_question_is_fetched(flwr, monkeypatch):
    done = []
    owner, name = flwr.NODE_FETCH.place()

    def fetch(state, *, receive):
        done.append("fetched")
        return state, receive

    monkeypatch.setattr(owner, name, fetch)
    assert patches.call_before_each_question(lambda: done.append("begun"))
    assert flwr.NODE_FETCH.value()(1, receive=2) == (1, 2)
    assert done == ["begun", "fetched"]
    monkeypatch.delattr(owner, name)
    assert not patches.call_before_each_question(lambda: None)


def test_loops_sleep_at_our_pace(flwr):
    node, executor = object(), object()
    assert patches.pace_node(node)
    assert patches.pace_executor(executor)
    assert (flwr.NODE_CLOCK.value(), flwr.EXECUTOR_CLOCK.value()) == (node, executor)
    assert not patches.pace_node(executor)  # no second time: it is not the time module any more
    assert flwr.NODE_CLOCK.value() is node


def test_programs_are_started_by_ours_only_if_a_fork_can_forget_the_parents_clean_up(flwr, monkeypatch):
    owner, name = flwr.EXIT_HANDLERS.place()
    with monkeypatch.context() as patch:
        patch.delattr(owner, name)
        assert not patches.start_programs_by("ours")
        assert flwr.EXECUTOR_START.value() is subprocess
    assert patches.start_programs_by("ours")
    assert flwr.EXECUTOR_START.value() == "ours"


def test_the_parents_clean_up_is_forgotten_in_place(flwr, monkeypatch):
    owner, name = flwr.EXIT_HANDLERS.place()
    handlers = ["close the connection"]
    monkeypatch.setattr(owner, name, handlers)
    patches.forget_exit_handlers()
    assert flwr.EXIT_HANDLERS.value() is handlers
    assert handlers == []


def test_outside_a_task_numbers_are_made_up_and_inside_one_they_are_left_alone(monkeypatch):
    identity = pytest.importorskip("flwr.supercore.task_identity", reason="Flower is not installed").TaskIdentity
    from flwr.app import Message, RecordDict

    for name in ("_task_id", "_run_id", "_node_id"):
        monkeypatch.setattr(identity, name, None)
    with pytest.raises(RuntimeError):
        Message(RecordDict(), 2, "query.x")
    assert patches.act_as_task()
    assert Message(RecordDict(), 2, "query.x").metadata.run_id == 1
    monkeypatch.setattr(identity, "_run_id", 17)
    assert patches.act_as_task()
    assert (identity.task_id, identity.run_id, identity.node_id) == (1, 17, 1)


def test_a_flower_whose_tasks_look_different_is_left_alone(monkeypatch):
    identity = pytest.importorskip("flwr.supercore.task_identity", reason="Flower is not installed").TaskIdentity
    monkeypatch.setattr(identity, "_task_id", None)
    monkeypatch.setattr(identity, "_run_id", "seventeen")
    assert not patches.act_as_task()
    assert (identity._task_id, identity._run_id) == (None, "seventeen")
