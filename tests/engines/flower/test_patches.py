"""What is changed in a running Flower: no code from the network, no control from elsewhere, and quicker looks."""

from __future__ import annotations

import gc
import sys
import time
from types import ModuleType, SimpleNamespace

import pytest

from fedgeom.engines.flower import patches
from fedgeom.engines.flower.carrier import Carrier
from fedgeom.engines.flower.message_layer import MessageLayer
from fedgeom.engines.flower.node_answers import NodeAnswers
from fedgeom.engines.flower.patch_table import Symbol, function, seconds
from fedgeom.engines.flower.patches import AccessFilter
from tests.waiting import HANG_SECONDS


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


def test_what_was_submitted_is_neither_unpacked_nor_found(flwr, tmp_path):
    patches.run_installed_server(tmp_path)
    assert flwr.SERVERAPP_INSTALL.value()(b"a stranger", skip_prompt=True) == tmp_path
    assert flwr.SERVERAPP_FOLDER.value()("evil/app", "1.0", "hash") == tmp_path


def test_a_node_without_a_way_to_answer_stops(flwr, monkeypatch):
    answers = NodeAnswers(lambda question: b"", Carrier(lambda: 0.0))
    for symbol in (flwr.NODE_STORES, flwr.NODE_ANSWERS):
        owner, name = symbol.place()
        with monkeypatch.context() as patch:
            patch.delattr(owner, name)
            with pytest.raises(SystemExit, match=f"no {name}"):
                patches.answer_in_node(answers)


def test_a_node_opens_no_port(flwr):
    assert patches.serve_nobody()
    server, thread = flwr.NODE_SERVER.value()(object(), object())
    server.should_exit = True  # what Flower does with them in the end
    thread.join(HANG_SECONDS)
    assert not thread.is_alive()


def test_the_nodes_and_the_grids_clients_have_a_carrier_in_their_chain(flwr):
    carrier = Carrier(lambda: 0.0)
    assert patches.carry_for_node(carrier)
    assert patches.carry_for_grid(carrier)
    for symbol in (flwr.NODE_CLIENT, flwr.GRID_CLIENT):
        with symbol.value().from_server_address("127.0.0.1:1", True, None, interceptors=["other"]) as client:
            assert client._interceptors == (carrier, "other")
    assert flwr.NODE_CLOCK.value().monotonic is time.monotonic
    assert not patches.carry_for_node(carrier)  # no second time: it is not Flower's class any more


def test_a_state_that_has_dropped_a_message_says_nothing_of_it(flwr, monkeypatch):
    class State:
        def get_message_res(self, message_ids, run_id):
            return [{"a": "reply to a", "b": "reply to b"}[one] for one in sorted(message_ids)]

        def get_message_ids_from_run_id(self, run_id):
            return {"a", "b", "d"}

    monkeypatch.setattr("flwr.server.superlink.linkstate.InMemoryLinkState", State)
    patches.ask_for_known_replies()
    assert State().get_message_res({"a", "b"}, 1) == ["reply to a", "reply to b"]
    assert State().get_message_res({"a", "c"}, 1) == ["reply to a"]


def test_what_the_superlink_serves_passes_the_filter(flwr):
    patches.filter_requests()
    assert isinstance(flwr.WEB_SERVER.value(), patches.FilteredServer)
    assert flwr.WEB_SERVER.value().Config.__module__.startswith("uvicorn")


def test_the_superlinks_layers_are_gone_past_where_they_pass_on_anyway(flwr):
    before = [layer.cls.__name__ for layer in flwr.LINK_LAYERS.value()()]
    assert patches.shorten_requests()
    after = [layer.cls.__name__ for layer in flwr.LINK_LAYERS.value()()]
    assert len(after) == len(before)
    assert set(after) == {"ShortWay"}


def test_what_only_has_to_be_returned_needs_no_thread(flwr):
    before = flwr.LINK_THREADS.value()
    assert patches.look_up_at_once()
    assert flwr.LINK_THREADS.value() is not before


def test_forwarded_addresses_are_not_believed():
    served = {}
    server = SimpleNamespace(run=lambda **options: served.update(options))
    patches.FilteredServer(server).run(app="app", port=1)
    gc.unfreeze()
    assert isinstance(served["app"], AccessFilter)
    assert (served["port"], served["proxy_headers"]) == (1, False)
    assert not served["access_log"]
    assert served["timeout_graceful_shutdown"] == patches.STOPPING_SECONDS  # held polls do not keep it alive


def test_what_is_there_before_it_serves_is_left_out_of_searches_for_garbage():
    kept = []
    try:
        patches.FilteredServer(SimpleNamespace(run=lambda **_: kept.append(gc.get_freeze_count()))).run(app="app")
    finally:
        gc.unfreeze()
    assert kept[0] > 1000


def test_an_application_that_is_not_as_expected_is_served_without_our_layer(flwr, monkeypatch):
    state = SimpleNamespace(linkstate_factory=SimpleNamespace(state=lambda: None))
    app = SimpleNamespace(state=state)
    assert isinstance(patches.with_messages(app), MessageLayer)
    assert patches.with_messages("app") == "app"
    owner, name = flwr.LINK_STORES.place()
    monkeypatch.delattr(owner, name)
    assert patches.with_messages(app) is app


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
