"""A site's answers from its folder: what is kept, what is refused, and what never leaves."""

from __future__ import annotations

import json
import threading

import msgspec
import numpy as np
import pytest

from fedgeom.deploy import site_app
from fedgeom.deploy.journal import Journal
from fedgeom.deploy.log_hints import Signs, describe
from fedgeom.deploy.site_app import answer
from fedgeom.errors import DecodeError
from fedgeom.federation import messages
from fedgeom.federation.conversation import Sites
from fedgeom.federation.messages import Refusal, decode, pack, unpack
from fedgeom.methods import load_model
from fedgeom.methods.hulls.method import Hulls
from fedgeom.protocols.cohort import Hello
from tests.deploy.making import edit, make_coordinator, make_sites

RUN, METHOD = b"r" * 32, Hulls(epsilon=0.05)


@pytest.fixture
def coordinator(tmp_path):
    return make_coordinator(tmp_path / "c")


@pytest.fixture
def sites(tmp_path, coordinator):
    return make_sites(tmp_path, coordinator)


@pytest.fixture
def anna(sites):
    return sites["anna"]


def hello(run=RUN, method="hulls"):
    return pack(run, method, Hello(rounds=2, terms=METHOD.parameters()))


def reason(reply):
    frame = unpack(reply)
    return decode(frame.body, Refusal).reason if frame.kind == Refusal.kind else ""


class FolderEngine:
    """Carries questions to folders, each answered as if by a new process that kept nothing."""

    def __init__(self, folders):
        self.folders = folders

    @property
    def names(self):
        return tuple(self.folders)

    def deliver(self, requests):
        for name, request in requests.items():
            yield name, answer(self.folders[name], request, None)[0]


def test_a_whole_run_over_folders(sites, coordinator, tmp_path):
    talk = Sites(FolderEngine(sites), run=RUN, method="hulls", roster=coordinator.roster())
    model = METHOD.conduct(talk)
    entries = Journal(sites["anna"].path).entries()
    mine = [entry for entry in talk.ledger if entry.site == "anna"]
    assert [(e.answer, e.sent, e.received, e.reveals) for e in entries] == [
        (e.kind, e.bytes, e.received, e.reveals) for e in mine
    ]
    result = sites["anna"].path / "results" / RUN.hex()[:16]
    assert json.loads((result / "sites" / "anna.json").read_text())["names"].keys() == {"yes", "no"}
    X = np.load(tmp_path / "anna.npz")["X"]
    np.testing.assert_array_equal(load_model(result / "model.safetensors").predict(X), model.predict(X))


def test_the_memory_is_on_disk_before_the_answer_leaves(anna):
    reply, copy = answer(anna, hello(), None)
    kept = Journal(anna.path).newest(RUN)
    assert kept.count == 1
    (anna.path / "memory" / f"{RUN.hex()}.bin").rename(anna.path / "elsewhere")
    assert Journal(anna.path).newest(RUN, copy, anna.identity()) == kept
    assert kept.memory not in copy  # it passes a port that anybody on the machine can reach
    (anna.path / "elsewhere").rename(anna.path / "memory" / f"{RUN.hex()}.bin")
    assert answer(anna, hello(), None)[0] == reply  # Flower forgot everything; the keys are the same


def test_questions_that_come_together_wait_for_each_other(anna):
    replies = []
    threads = [threading.Thread(target=lambda: replies.append(answer(anna, hello(), None)[0])) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(replies)) == 1
    assert Journal(anna.path).newest(RUN).count == 3


def test_another_protocol_version(anna, monkeypatch):
    request = hello()
    monkeypatch.setattr(messages, "VERSION", 2)
    with pytest.raises(DecodeError, match="speaks protocol version 1; this end speaks 2"):
        answer(anna, request, None)
    (entry,) = Journal(anna.path).entries()
    assert (entry.question, entry.sent) == ("unreadable", 0)
    assert "speaks protocol version 1" in describe(entry)


def test_too_large_a_question(anna):
    edit(anna, "largest_message = 67108864", "largest_message = 100")
    with pytest.raises(DecodeError, match="the limit is 100"):
        answer(anna, hello(), None)


@pytest.mark.parametrize("method", ["nothing", "moments"])
def test_methods_that_the_policy_does_not_name(anna, method):
    edit(anna, "methods = []", 'methods = ["hulls"]')
    reply, _ = answer(anna, hello(method=method), None)
    assert f"does not take part in method {method!r}" in reason(reply)
    assert not (anna.path / "memory" / f"{RUN.hex()}.bin").exists()
    assert not reason(answer(anna, hello(), None)[0])


def test_too_many_runs_a_day_however_often_one_asks(anna):
    edit(anna, "runs_per_day = 20", "runs_per_day = 1")
    assert not reason(answer(anna, hello(), None)[0])
    for _ in range(3):
        assert "its policy allows 1" in reason(answer(anna, hello(b"s" * 32), None)[0])
    assert not reason(answer(anna, hello(), None)[0])


def test_a_damaged_memory_is_refused_and_left_alone(anna):
    answer(anna, hello(), None)
    file = anna.path / "memory" / f"{RUN.hex()}.bin"
    file.write_bytes(b"\xc1")
    assert "damaged" in reason(answer(anna, hello(), None)[0])
    assert file.read_bytes() == b"\xc1"


def test_what_is_wrong_with_the_data_stays_at_the_site(anna, tmp_path):
    file = tmp_path / "secret-place.csv"
    file.write_text("a,b,y\n0.1,Mueller,yes\n0.2,Schmidt,no\n")
    edit(anna, str(tmp_path / "anna.npz"), str(file))
    said = reason(answer(anna, hello(), None)[0])
    assert "its own log says why" in said
    (entry,) = Journal(anna.path).entries()
    assert "secret-place" in entry.note
    assert not any(word in said for word in ("secret", "Mueller", "a,b", str(tmp_path)))


def test_what_is_wrong_with_the_folder_stays_at_the_site(anna, tmp_path):
    (anna.path / "roster.json").unlink()
    said = reason(answer(anna, hello(), None)[0])
    assert said == site_app.NOT_READY
    assert "roster" in Journal(anna.path).entries()[-1].note


def test_a_result_that_cannot_be_written_does_not_cost_the_answer(sites, coordinator):
    (sites["anna"].path / "results").write_text("in the way")
    talk = Sites(FolderEngine(sites), run=RUN, method="hulls", roster=coordinator.roster())
    METHOD.conduct(talk)
    assert not talk.lost


@pytest.fixture
def flwr(monkeypatch):
    """Flower's public names, as in a process that works on some run."""
    names = pytest.importorskip("flwr.app")
    identity = pytest.importorskip("flwr.supercore.task_identity").TaskIdentity
    for field in ("run_id", "node_id", "task_id"):
        monkeypatch.setattr(identity, f"_{field}", 1, raising=False)
    return names


def test_errors_reach_flower_without_their_text(anna, flwr, monkeypatch):
    def fail(*_):
        raise ValueError("could not convert string to float: 'Mueller'")

    app, context = site_app.make_app(), _context(flwr, anna)
    with monkeypatch.context() as patch:
        patch.setattr(site_app, "answer", fail)
        reply = app(message=_message(flwr, {"request": hello()}), context=context)
    assert reply.has_error()
    assert reply.error.reason == site_app.FAILED
    reply = app(message=_message(flwr, {"request": b"nonsense"}), context=context)
    assert "refused: not a fedgeom frame" in reply.error.reason
    reply = app(message=_message(flwr, {"request": hello()}), context=context)
    assert unpack(reply.content.config_records["fedgeom"]["answer"]).kind == "join.keys"


def _context(flwr, site):
    return flwr.Context(1, 2, {"site": str(site.path)}, flwr.RecordDict(), {})


def _message(flwr, record, kind="query.fedgeom", name="fedgeom"):
    content = flwr.RecordDict({name: flwr.ConfigRecord(record)})
    message = flwr.Message(content=content, dst_node_id=2, message_type=kind)
    message.metadata.__dict__["_message_id"] = "m"
    return message


def test_introductions(tmp_path, flwr):
    from fedgeom.engines.flower.introduction import read_introduction

    insecure = make_coordinator(tmp_path / "c", insecure=True)
    sites = make_sites(tmp_path, insecure, insecure=True)
    roster, app = insecure.roster(), site_app.make_app()

    def introduce(site, number):
        message = _message(flwr, {"number": number}, "query.introduce", "introduction")
        return app(message=message, context=_context(flwr, site))

    reply = introduce(sites["anna"], b"n" * 32)
    assert read_introduction(reply, b"n" * 32, roster) == "anna"
    assert read_introduction(reply, b"m" * 32, roster) is None  # a replay
    assert read_introduction(reply, b"n" * 32, {"anna": roster["bert"]}) is None
    assert read_introduction(reply, b"n" * 32, {}) is None
    assert introduce(sites["anna"], b"short").has_error()
    edit(sites["bert"], "insecure = true", "insecure = false")
    assert introduce(sites["bert"], b"n" * 32).has_error()  # where TLS is, nobody asks that


def test_signs_of_a_connection(tmp_path):
    log = tmp_path / "site.log"
    signs = Signs(log, 0, "host:1")
    assert signs.new() == ""
    log.write_text("Connection attempt failed, retrying in 1 seconds\n")
    assert "does not answer" in signs.new()
    with log.open("a") as file:
        file.write("Connection attempt failed, retrying in 2 seconds\n")
    assert signs.new() == ""
    with log.open("a") as file:
        file.write("SuperNode ID: 7\n")
    assert signs.new() == "connected to host:1"


def test_entries_of_older_ledgers_are_read(tmp_path):
    old = {"time": 1.0, "run": "00", "method": "hulls", "question": "q", "answer": "a", "received": 1, "sent": 2}
    (tmp_path / "ledger.jsonl").write_bytes(msgspec.json.encode(old | {"reveals": ""}) + b"\n")
    (entry,) = Journal(tmp_path).entries()
    assert entry.counts
    assert entry.note == ""
