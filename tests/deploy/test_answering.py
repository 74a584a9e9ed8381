"""A site's answers from its folder: what is kept, what is refused, and what never leaves."""

from __future__ import annotations

import json
import stat
import threading

import numpy as np
import pytest

from fedgeom.crypto.keys import verify
from fedgeom.deploy import answering
from fedgeom.deploy.answering import answer, introduce, read_data, reveals
from fedgeom.deploy.journal import Journal
from fedgeom.deploy.log_hints import describe
from fedgeom.engines.flower.introduction import PURPOSE
from fedgeom.errors import DecodeError, InputError, ProtocolError
from fedgeom.federation import messages
from fedgeom.federation.conversation import Sites
from fedgeom.federation.messages import Refusal, decode, pack, unpack
from fedgeom.methods.catalogue import load_model
from fedgeom.methods.hulls.method import Hulls
from fedgeom.protocols.joining.messages import Hello
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
    return pack(run, method, Hello(rounds=2, terms=METHOD.terms()))


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
    mine = model.for_site({"names": json.loads((result / "sites" / "anna.json").read_text())["names"]})
    for file in (result / "model.safetensors", result / "sites" / "anna.safetensors"):
        np.testing.assert_array_equal(load_model(file).predict(X), mine.predict(X))


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
    edit(anna, "max_message_bytes = 67108864", "max_message_bytes = 100")
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
    assert said == answering.NOT_READY
    assert "roster" in Journal(anna.path).entries()[-1].note


def test_a_result_that_cannot_be_written_does_not_cost_the_answer(sites, coordinator):
    (sites["anna"].path / "results").write_text("in the way")
    talk = Sites(FolderEngine(sites), run=RUN, method="hulls", roster=coordinator.roster())
    METHOD.conduct(talk)
    assert not talk.lost


def test_what_a_site_keeps_is_for_its_owner_only(sites, coordinator):
    anna = sites["anna"].path
    (anna / "results").mkdir(mode=0o755)  # by an older version
    METHOD.conduct(Sites(FolderEngine(sites), run=RUN, method="hulls", roster=coordinator.roster()))
    result = anna / "results" / RUN.hex()[:16]
    folders = [anna / "memory", anna / "results", result, result / "sites"]
    assert [stat.S_IMODE(folder.stat().st_mode) for folder in folders] == [0o700] * 4
    files = [anna / "ledger.jsonl", *(anna / "memory").glob("*.bin"), *result.rglob("*.*")]
    assert {file.name for file in files} >= {"ledger.jsonl", "anna.json", "model.safetensors"}
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


def test_a_site_says_its_name_in_an_insecure_federation_only(tmp_path):
    insecure = make_coordinator(tmp_path / "c", insecure=True)
    sites = make_sites(tmp_path, insecure, insecure=True)
    name, signature = introduce(sites["anna"], b"n" * 32)
    assert name == "anna"
    verify(insecure.roster()["anna"], signature, PURPOSE, b"n" * 32, b"anna")
    edit(sites["bert"], "insecure = true", "insecure = false")
    with pytest.raises(ProtocolError, match="the node's key says who the site is"):
        introduce(sites["bert"], b"n" * 32)  # where TLS is, nobody asks that


def test_what_an_answer_reveals_is_said_in_the_words_of_the_method():
    known = METHOD.site.understands()
    for kind, question in known.items():
        assert reveals("hulls", kind, question.answer.kind) == (question.answer_reveals or question.answer.reveals)
    assert reveals("hulls", "join.hello", Refusal.kind) == Refusal.reveals
    assert reveals("hulls", "nonsense", "x") == reveals("nonsense", "join.hello", "x") == ""


def test_the_table_is_read_as_site_toml_says(anna, tmp_path):
    rows = np.load(tmp_path / "anna.npz")
    data = read_data(anna)
    assert data.name == "anna"
    np.testing.assert_array_equal(data.X, rows["X"])
    edit(anna, 'label = "y"', 'label = "z"')
    with pytest.raises(InputError, match="z"):
        read_data(anna)
