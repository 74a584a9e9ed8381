"""A site's answers from its folder: what is kept, what is refused, and what never leaves."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
import threading

import numpy as np
import pytest

import fedgeom
from fedgeom.deploy import answers
from fedgeom.deploy.answers import answer, read_data, reveals
from fedgeom.deploy.journal import Journal
from fedgeom.deploy.site import describe
from fedgeom.deploy.site_folder import SiteFolder
from fedgeom.errors import ContractError, DecodeError, InputError
from fedgeom.federation import messages
from fedgeom.federation.coordinator import Coordinator
from fedgeom.federation.messages import Refusal, decode, pack, unpack
from fedgeom.federation.policy import Policy
from fedgeom.federation.results import LEAVES
from fedgeom.federation.runner import SiteRunner
from fedgeom.federation.session import Session
from fedgeom.federation.site import SiteIdentity
from fedgeom.methods.catalogue import load_model
from fedgeom.methods.hulls.method import Hulls
from fedgeom.protocols.join.messages import Hello
from fedgeom.protocols.site import SummingSite
from tests.deploy.making import NAMES, edit, set_policy

RUN, METHOD = b"r" * 32, Hulls(epsilon=0.05)


@pytest.fixture
def anna(sites):
    return sites["anna"]


def hello(run=RUN, method="hulls"):
    return pack(run, method, Hello(rounds=2, terms=METHOD.terms(), participants=NAMES))


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
            yield name, answer(self.folders[name], request)


def test_a_whole_run_over_folders(sites, coordinator, tmp_path):
    talk = Coordinator(FolderEngine(sites), run=RUN, method="hulls", roster=coordinator.roster())
    model = METHOD.conduct(talk)
    entries = Journal(sites["anna"].path).entries()
    mine = [entry for entry in talk.ledger if entry.site == "anna"]
    assert [(e.answer, e.sent, e.received, e.reveals) for e in entries] == [
        (e.kind, e.bytes, e.received, e.reveals) for e in mine
    ]
    result = sites["anna"].path / "results" / RUN.hex()[:16]
    X = np.load(tmp_path / "anna.npz")["X"]
    mine = model.for_site({"names": json.loads((result / "sites" / "anna.json").read_text())["names"]})
    for file in (result / "model.safetensors", result / "sites" / "anna.safetensors"):
        np.testing.assert_array_equal(load_model(file).predict(X), mine.predict(X))


def test_the_memory_is_on_disk_before_the_answer_leaves(anna):
    reply = answer(anna, hello())
    kept = Journal(anna.path).newest(RUN)
    assert kept.count == 1
    assert answer(anna, hello()) == reply  # as by a new process: the keys are the same


def test_a_run_that_was_forgotten_is_not_answered_afresh(anna):
    """The coordinator could hold it again over other sites, and take the difference."""
    answer(anna, hello())
    (anna.path / "memory" / f"{RUN.hex()}.bin").unlink()
    for _ in range(2):
        assert reason(answer(anna, hello())) == answers.FORGOTTEN
    assert not reason(answer(anna, hello(b"n" * 32)))


def test_a_table_is_read_once_and_again_when_it_changed(anna, monkeypatch):
    """Reading it takes longer than most answers; nobody may be answered about a table that is no more."""
    read = []
    usual = answers.read_site
    monkeypatch.setattr(answers, "read_site", lambda path, **how: read.append(path) or usual(path, **how))
    for run in (b"1", b"2", b"3"):
        assert not reason(answer(anna, hello(run * 32)))
    assert len(read) == 1
    file = anna.path / anna.config().file
    with np.load(file) as old:
        np.savez(file, X=np.full_like(old["X"], np.nan), y=old["y"])
    assert "not ready" in reason(answer(anna, hello(b"4" * 32)))
    assert len(read) == 2
    file.unlink()
    assert "not ready" in reason(answer(anna, hello(b"5" * 32)))


def test_what_is_replayed_after_a_run_gets_the_same_answers_or_none(sites, coordinator):
    """Whoever recorded all questions, and puts them again in any order, learns nothing that has not left before."""
    heard = []

    class Recording(FolderEngine):
        def deliver(self, requests):
            for name, reply in super().deliver(requests):
                heard.append((name, requests[name], reply))
                yield name, reply

    session = Session(METHOD, RUN, 0, coordinator.roster(), participants=NAMES)
    session.conduct(Recording(sites))
    same = 0
    for name, request, reply in [*heard, *heard[::-1]]:
        came = answer(sites[name], request)
        same += came == reply
        assert came == reply or unpack(came).kind == Refusal.kind
    assert same >= len(heard), f"{same} of {2 * len(heard)}"
    runs = {entry.run for entry in Journal(sites["anna"].path).entries()}
    assert runs == {RUN.hex()}


def test_questions_that_come_together_wait_for_each_other(anna):
    replies = []
    threads = [threading.Thread(target=lambda: replies.append(answer(anna, hello()))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(replies)) == 1
    assert Journal(anna.path).newest(RUN).count == 3


def test_another_protocol_version(anna, monkeypatch):
    request = hello()
    monkeypatch.setattr(messages, "VERSION", messages.VERSION + 1)
    with pytest.raises(DecodeError, match="speaks protocol version 3; this end speaks 4"):
        answer(anna, request)
    (entry,) = Journal(anna.path).entries()
    assert (entry.question, entry.sent) == ("unreadable", 0)
    assert "speaks protocol version 3" in describe(entry)


def test_too_large_a_question(anna):
    edit(anna, "max_message_bytes = 67108864", "max_message_bytes = 100")
    with pytest.raises(DecodeError, match="the limit is 100"):
        answer(anna, hello())


@pytest.mark.parametrize("method", ["nothing", "moments"])
def test_methods_that_the_policy_does_not_name(anna, method):
    edit(anna, "methods = []", 'methods = ["hulls"]')
    reply = answer(anna, hello(method=method))
    assert f"does not take part in method {method!r}" in reason(reply)
    assert not (anna.path / "memory" / f"{RUN.hex()}.bin").exists()
    assert not reason(answer(anna, hello()))


def test_too_many_runs_a_day_however_often_one_asks(anna):
    edit(anna, "runs_per_day = 20", "runs_per_day = 1")
    assert not reason(answer(anna, hello()))
    for _ in range(3):
        assert "its policy allows 1" in reason(answer(anna, hello(b"s" * 32)))
    assert not reason(answer(anna, hello()))


def test_a_damaged_memory_is_refused_and_left_alone(anna):
    answer(anna, hello())
    file = anna.path / "memory" / f"{RUN.hex()}.bin"
    file.write_bytes(b"\xc1")
    assert "damaged" in reason(answer(anna, hello()))
    assert file.read_bytes() == b"\xc1"


def test_what_is_wrong_with_the_data_stays_at_the_site(anna, tmp_path):
    file = tmp_path / "secret-place.csv"
    file.write_text("a,b,y\n0.1,Mueller,yes\n0.2,Schmidt,no\n")
    edit(anna, str(tmp_path / "anna.npz"), str(file))
    said = reason(answer(anna, hello()))
    assert "its own log says why" in said
    (entry,) = Journal(anna.path).entries()
    assert "these columns hold text: 'b'" in entry.note
    assert not any(word in said for word in ("secret", "Mueller", "a,b", str(tmp_path)))


def test_what_is_wrong_with_the_folder_stays_at_the_site(anna, tmp_path):
    (anna.path / "roster.json").unlink()
    said = reason(answer(anna, hello()))
    assert said == answers.NOT_READY
    assert "roster" in Journal(anna.path).entries()[-1].note


# --- the ledger is written before the work ---


def test_a_process_that_dies_at_work_leaves_what_it_was_asked(anna, monkeypatch):
    class Killed(BaseException):
        """Nothing in the process runs after this."""

    def die(*_):
        raise Killed

    with monkeypatch.context() as here:
        here.setattr(SummingSite, "answer", die)
        with pytest.raises(Killed):
            answer(anna, hello())
    (entry,) = Journal(anna.path).entries()
    assert (entry.question, entry.received, entry.sent, entry.begun) == ("join.hello", len(hello()), 0, True)
    assert "asked join.hello" in describe(entry)
    assert "never ended" in describe(entry)
    answer(anna, hello())
    died, answered = Journal(anna.path).entries()
    assert (died.begun, answered.begun, answered.answer) == (True, False, "join.keys")


def test_the_line_is_there_while_the_work_goes_on_and_one_line_afterwards(anna, monkeypatch):
    seen, work = [], SummingSite.answer

    def look(self, question):
        seen.append(([e.begun for e in Journal(anna.path).entries()], Journal(anna.path).since(0)))
        return work(self, question)

    monkeypatch.setattr(SummingSite, "answer", look)
    for _ in range(2):
        answer(anna, hello())
    assert [begun for begun, _ in seen] == [[True], [False, True]]
    assert seen[0][1] == ([], 0)  # who follows the ledger waits for the outcome
    entries, end = Journal(anna.path).since(seen[1][1][1])
    assert [entry.answer for entry in entries] == ["join.keys"]
    assert end == (anna.path / "ledger.jsonl").stat().st_size
    assert [entry.begun for entry in Journal(anna.path).entries()] == [False, False]
    assert (anna.path / "ledger.jsonl").read_bytes().count(b"\n") == 4


def test_a_run_that_died_counts_as_one_of_the_day(anna, monkeypatch):
    edit(anna, "runs_per_day = 20", "runs_per_day = 1")
    with monkeypatch.context() as here:
        here.setattr(SiteRunner, "answer", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            answer(anna, hello())
    assert not reason(answer(anna, hello()))
    assert "its policy allows 1" in reason(answer(anna, hello(b"s" * 32)))


def test_too_little_memory_is_told_at_the_site(anna, monkeypatch, caplog):
    def take(*_):
        raise MemoryError("Unable to allocate 9.3 GiB for an array")

    assert anna.config().policy.max_memory_mb == 8192
    monkeypatch.setattr(SiteRunner, "answer", take)
    with pytest.raises(MemoryError):
        answer(anna, hello())
    (entry,) = Journal(anna.path).entries()
    for text in (entry.note, caplog.text):
        assert "more memory than max_memory_mb = 8192 in site.toml (Unable to allocate 9.3 GiB" in text
    assert (entry.answer, entry.sent) == ("none", 0)


@pytest.mark.parametrize("kind", ["x\n12:00:00 run 7 asked join.hello", "\x1b[2J", "a\u202eb", ""])
def test_a_question_whose_name_would_rule_the_terminal_is_not_read(anna, kind):
    with pytest.raises(DecodeError, match="not a fedgeom frame"):
        answer(anna, messages.pack_body(RUN, "hulls", kind, b""))
    (entry,) = Journal(anna.path).entries()
    assert describe(entry).isprintable()


# --- what the site itself has in the end ---

TRAINING = {
    "fedavg": fedgeom.FedAvg(n_rounds=2, epochs=1),
    "scaffold": fedgeom.Scaffold(n_rounds=2, epochs=1),
    "ditto": fedgeom.Ditto(n_rounds=2, epochs=1),
    "shrunk": fedgeom.Shrunk(n_rounds=2),
    "ptopofl": fedgeom.PTopoFL(n_rounds=2, epochs=1),
}


@pytest.mark.parametrize("name", TRAINING)
def test_a_site_that_trained_has_its_own_model(name, sites, coordinator):
    """The personal model where the method has one, and it predicts as in an embedded run."""
    method = TRAINING[name]
    if method.shows_one_site():  # which a strict site does not do
        for folder in sites.values():
            set_policy(folder, Policy())
    Session(method, RUN, 3, coordinator.roster()).conduct(FolderEngine(sites))
    tables = {site: read_data(folder) for site, folder in sites.items()}
    embedded = fedgeom.run(method, tables.values(), seed=3)
    for site, folder in sites.items():
        kept = folder.path / "results" / RUN.hex()[:16]
        rows = tables[site].X
        own = embedded.model.for_site(embedded.local[site])
        for file in (kept / "model.safetensors", kept / "sites" / f"{site}.safetensors"):
            model = load_model(file)
            np.testing.assert_array_equal(model.predict(rows), own.predict(rows))
            np.testing.assert_allclose(model.predict_proba(rows), own.predict_proba(rows), rtol=1e-12)
        assert not (kept / "error.txt").exists()
        assert [entry.note for entry in Journal(folder.path).entries() if entry.note] == []


def test_what_a_site_knows_of_itself_is_written_down(sites, coordinator):
    Session(METHOD, RUN, 0, coordinator.roster()).conduct(FolderEngine(sites))
    result = sites["anna"].path / "results" / RUN.hex()[:16]
    found = json.loads((result / "sites" / "anna.json").read_text())
    assert found["site"] == "anna"
    assert found["names"].keys() == {"yes", "no"}
    assert found["rows"] == len(read_data(sites["anna"]))
    assert 0.5 < found["fits"] <= 1


def spoil(owner, name, error):
    """Return what breaks the keeping of a result at some point of it."""

    def fail(*_, **__):
        raise error

    return lambda monkeypatch: monkeypatch.setattr(owner, name, fail)


FAULTS = {
    "no model": spoil(METHOD.site, "model_file", AttributeError("no 'to_bytes': 'Mueller, 57'")),
    "no result": spoil(METHOD.site, "result", KeyError("Mueller, 57")),
    "disk full": spoil(answers, "write_site_result", OSError(28, "No space left: Mueller, 57")),
}


def held_with(fault, sites, coordinator, monkeypatch):
    """Hold a run in which one site's result cannot be kept; return the conversation and all that was said in it."""
    said = []

    class Listening(FolderEngine):
        def deliver(self, requests):
            for name, request in requests.items():
                with monkeypatch.context() as here:
                    if name == "anna":
                        fault(here)
                    reply = answer(self.folders[name], request)
                said.append(reply)
                yield name, reply

    _, talk = Session(METHOD, RUN, 0, coordinator.roster()).conduct(Listening(sites))
    return talk, said


@pytest.mark.parametrize("name", FAULTS)
def test_a_result_that_cannot_be_kept_is_told_at_the_site_and_the_answer_leaves(
    name, sites, coordinator, monkeypatch, caplog
):
    talk, said = held_with(FAULTS[name], sites, coordinator, monkeypatch)
    assert not talk.lost
    anna, bert = (sites[site].path for site in ("anna", "bert"))
    error = anna / "results" / RUN.hex()[:16] / "error.txt"
    notes = [entry.note for entry in Journal(anna).entries() if entry.note]
    assert notes
    for text in (error.read_text(), *notes):
        assert text.startswith("the site's own result could not be written: ")
        assert "Mueller, 57" in text
    assert stat.S_IMODE(error.stat().st_mode) == 0o600
    assert "Traceback" in caplog.text
    assert "Mueller, 57" in caplog.text
    assert not any(b"Mueller" in data for data in said)
    assert not (bert / "results" / RUN.hex()[:16] / "error.txt").exists()
    assert not any(entry.note for entry in Journal(bert).entries())


def test_such_an_entry_stands_beside_that_of_the_answer(sites, coordinator, monkeypatch):
    """No question and no answer is missing from the ledger for it, and none is counted twice."""
    talk, _ = held_with(FAULTS["disk full"], sites, coordinator, monkeypatch)
    entries = Journal(sites["anna"].path).entries()
    told = [entry for entry in entries if entry.note]
    assert {(entry.answer, entry.sent, entry.received) for entry in told} == {("none", 0, 0)}
    assert {entry.question for entry in told} <= {entry.question for entry in entries if not entry.note}
    assert [(e.answer, e.sent) for e in entries if not e.note] == [
        (e.kind, e.bytes) for e in talk.ledger if e.site == "anna"
    ]


def test_it_is_written_to_the_standard_error_which_is_the_sites_log(sites, coordinator, tmp_path):
    (sites["anna"].path / "results").write_text("in the way")
    code = (
        "import sys\nfrom pathlib import Path\n"
        "from fedgeom.deploy.answers import keep_result\nfrom fedgeom.deploy.site_folder import SiteFolder\n"
        "from fedgeom.federation.runner import SiteRunner\n"
        "from fedgeom.federation.site import SiteIdentity\nimport fedgeom\n"
        "class Knows(fedgeom.Hulls.site):\n    def result(self):\n        return {'fits': 1.0}\n"
        "folder = SiteFolder(Path(sys.argv[1]))\n"
        "identity = SiteIdentity('anna', folder.identity(), folder.roster(), folder.config().policy)\n"
        "runner = SiteRunner(Knows, fedgeom.Hulls, identity, lambda: None)\n"
        "print(keep_result(folder, runner, b'r' * 32, b''))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(sites["anna"].path)],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    assert "the result of run 72727272 could not be written" in done.stderr
    assert "Traceback" in done.stderr
    assert done.stdout.startswith("the site's own result could not be written: ")


def test_where_not_even_the_error_can_be_written_the_answer_still_leaves(sites, coordinator):
    (sites["anna"].path / "results").write_text("in the way")
    _, talk = Session(METHOD, RUN, 0, coordinator.roster()).conduct(FolderEngine(sites))
    assert not talk.lost
    assert "could not be written" in Journal(sites["anna"].path).entries()[-1].note


def test_a_result_that_can_be_kept_after_all_takes_the_error_away(sites, coordinator, monkeypatch):
    held_with(FAULTS["disk full"], sites, coordinator, monkeypatch)
    anna = sites["anna"]
    kept = anna.path / "results" / RUN.hex()[:16]
    assert not (kept / "model.safetensors").exists()
    runner = SiteRunner(
        METHOD.site,
        Hulls,
        SiteIdentity("anna", anna.identity(), anna.roster(), anna.config().policy),
        lambda: read_data(anna),
    )
    assert answers.keep_result(anna, runner, RUN, Journal(anna.path).newest(RUN).memory) == ""
    assert (kept / "model.safetensors").exists()
    assert not (kept / "error.txt").exists()


def test_a_refusal_keeps_nothing_and_spoils_nothing(sites, coordinator):
    Session(METHOD, RUN, 0, coordinator.roster()).conduct(FolderEngine(sites))
    anna = sites["anna"]
    kept = anna.path / "results" / RUN.hex()[:16]
    before = {file: file.stat().st_mtime_ns for file in kept.rglob("*")}
    entries = len(Journal(anna.path).entries())
    other = pack(RUN, "hulls", Hello(rounds=7, terms=METHOD.terms(), participants=NAMES))
    assert reason(answer(anna, other))
    assert {file: file.stat().st_mtime_ns for file in kept.rglob("*")} == before
    assert len(Journal(anna.path).entries()) == entries + 1


def test_what_a_site_keeps_is_for_its_owner_only(sites, coordinator):
    anna = sites["anna"].path
    (anna / "results").mkdir(mode=0o755)  # by an older version
    METHOD.conduct(Coordinator(FolderEngine(sites), run=RUN, method="hulls", roster=coordinator.roster()))
    result = anna / "results" / RUN.hex()[:16]
    folders = [anna / "memory", anna / "results", result, result / "sites"]
    assert [stat.S_IMODE(folder.stat().st_mode) for folder in folders] == [0o700] * 4
    files = [anna / "ledger.jsonl", *(anna / "memory").glob("*.bin"), *result.rglob("*.*")]
    assert {file.name for file in files} >= {"ledger.jsonl", "anna.json", "model.safetensors"}
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


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


@pytest.mark.parametrize("error", [ValueError, MemoryError, ContractError])
def test_a_site_that_fails_unexpectedly_leaves_the_run_and_its_steward_learns_why(anna, monkeypatch, error):
    """Also over a mistake of the method: whether that shows may depend on the data."""

    def fail(*_):
        raise error("Mueller, 57")

    with monkeypatch.context() as here:
        here.setattr(METHOD.site, "check", fail)
        reply = answer(anna, hello())
    assert reason(reply) == LEAVES
    assert b"Mueller" not in reply
    assert "Mueller, 57" in Journal(anna.path).entries()[-1].note
    assert "has left this run" in reason(answer(anna, hello()))


def test_a_site_s_patients_are_read_from_the_column_that_site_toml_names(tmp_path):
    folder = SiteFolder.create(tmp_path / "anna", "anna", "host.example:8000", label="y")
    (folder.path / "data.csv").write_text(",age,patient,y\nv1,61,7,u\nv2,47,7,v\nv3,35,8,u\n")
    text = folder.config_file.read_text(encoding="utf-8")
    assert '# group = "patient"' in text
    assert read_data(folder).groups is None
    folder.config_file.write_text(text.replace('# group = "patient"', 'group = "patient"'), encoding="utf-8")
    data = read_data(folder)
    assert (data.groups.tolist(), data.columns, data.index.tolist()) == (
        ["7", "7", "8"],
        ("age",),
        ["v1", "v2", "v3"],
    )
