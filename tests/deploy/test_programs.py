"""The programs that Flower starts: each launcher finds its function, and each app the folder that is meant."""

from __future__ import annotations

import subprocess
import sys
import tomllib

import pytest

from fedgeom.deploy import programs
from fedgeom.deploy.coordinator_folder import FOLDER_VARIABLE
from fedgeom.deploy.jobs import create_job
from fedgeom.deploy.journal import Journal
from fedgeom.engines.flower.apps import FAILED
from fedgeom.engines.flower.engine import QUESTION, RECORD, read_reply
from fedgeom.engines.flower.programs import REFUSED, REPLACED
from fedgeom.errors import InputError
from fedgeom.federation.messages import unpack
from fedgeom.methods.catalogue import METHODS
from tests.deploy.making import edit, make_coordinator, make_sites
from tests.deploy.test_answering import hello


def test_every_launcher_finds_its_function(tmp_path):
    folder = programs.write_launchers(tmp_path)
    for program in (*REPLACED, *REFUSED):
        text = (folder / program).read_text()
        _, imported, _, called = text.splitlines()
        space: dict[str, object] = {}
        exec(imported, space)  # without the call
        assert space[called.removesuffix("()")] is getattr(programs, REPLACED.get(program, "refuse"))


def test_a_coordinator_conducts_jobs_of_its_folder_only(tmp_path, monkeypatch):
    coordinator = make_coordinator(tmp_path / "c")
    make_sites(tmp_path, coordinator)
    (tmp_path / "study.toml").write_text('method = "hulls"\n')
    job = create_job(coordinator, tmp_path / "study.toml")
    conducted, grid = [], object()
    monkeypatch.setattr("fedgeom.deploy.conductor.conduct", lambda *given: conducted.append(given))
    monkeypatch.setattr("fedgeom.deploy.conductor.reach_by_flower", lambda given: given)
    monkeypatch.delenv(FOLDER_VARIABLE, raising=False)
    with pytest.raises(InputError, match="fedgeom coordinator start"):
        programs.conduct_job(job.name, grid)
    monkeypatch.setenv(FOLDER_VARIABLE, str(coordinator.path))
    for name in ("", "../c", "none-1"):
        with pytest.raises(InputError):
            programs.conduct_job(name, grid)
    programs.conduct_job(job.name, grid)
    assert conducted == [(coordinator, job, grid)]


def test_what_answers_for_a_site_has_imported_everything_before_the_first_question(monkeypatch):
    done = []
    monkeypatch.setattr(programs, "leave_no_traces", lambda: done.append("no traces"))
    monkeypatch.setattr(programs, "import_ahead", lambda: done.append("imported"))
    monkeypatch.setattr(programs.programs, "clientapp", lambda make_app: done.append("answers"))
    programs.clientapp()
    assert done == ["no traces", "imported", "answers"]


def test_what_is_imported_ahead_is_what_every_method_answers_with(tmp_path):
    code = (
        "import sys\nfrom fedgeom.deploy import programs\nprograms.import_ahead()\n"
        "ahead = set(sys.modules)\nfrom fedgeom.methods.catalogue import METHODS, method_class\n"
        "print(all(method_class(name).site.understands() for name in METHODS), set(sys.modules) == ahead)\n"
        "print('sklearn' in ahead)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.split() == ["True"] * 3
    assert len(METHODS) > 4


def test_the_bundle_is_what_flower_wants_to_see():
    settings = tomllib.loads((programs.BUNDLE / "pyproject.toml").read_text())["tool"]["flwr"]["app"]
    assert settings["config"] == {"job": ""}
    for component in settings["components"].values():
        module, name = component.split(":")
        text = (programs.BUNDLE / f"{module}.py").read_text()
        assert f"{name} = " in text


@pytest.fixture
def flwr(monkeypatch):
    """Flower's public names, as in a process that works on some run."""
    names = pytest.importorskip("flwr.app", reason="Flower is not installed")
    identity = pytest.importorskip("flwr.supercore.task_identity").TaskIdentity
    for field in ("run_id", "node_id", "task_id"):
        monkeypatch.setattr(identity, f"_{field}", 1, raising=False)
    return names


def message(flwr, record, kind, name):
    content = flwr.RecordDict({name: flwr.ConfigRecord(record)})
    made = flwr.Message(content=content, dst_node_id=2, message_type=kind)
    made.metadata.__dict__["_message_id"] = "m"
    return made


def context(flwr, site):
    return flwr.Context(1, 2, {"site": str(site.path)}, flwr.RecordDict(), {})


def test_the_app_answers_for_the_site_in_its_folder(tmp_path, flwr):
    anna = make_sites(tmp_path, make_coordinator(tmp_path / "c"))["anna"]
    app, there = programs.client_app(), context(flwr, anna)
    reply = app(message=message(flwr, {"request": b"nonsense"}, QUESTION, RECORD), context=there)
    assert "refused: not a fedgeom frame" in reply.error.reason
    reply = app(message=message(flwr, {"request": hello()}, QUESTION, RECORD), context=there)
    answer = read_reply(reply)
    assert isinstance(answer, bytes)
    assert unpack(answer).kind == "join.keys"


SHORT_OF_MEMORY = """
import sys
import numpy as np
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity
from fedgeom.deploy import programs
from fedgeom.deploy.programs import limit_memory
from fedgeom.engines.flower.engine import QUESTION, RECORD
from fedgeom.federation.runner import SiteRunner

for field in ("run_id", "node_id", "task_id"):
    setattr(TaskIdentity, f"_{field}", 1)
work = SiteRunner.answer
SiteRunner.answer = lambda *given: (np.ones(2**29), work(*given))[1]
content = RecordDict({RECORD: ConfigRecord({"request": bytes.fromhex(sys.argv[2])})})
asked = Message(content=content, dst_node_id=2, message_type=QUESTION)
asked.metadata.__dict__["_message_id"] = "m"
context = Context(1, 2, {"site": sys.argv[1]}, RecordDict(), {})
print(programs.client_app(limit_memory)(message=asked, context=context).error.reason)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited on Linux only")
def test_a_question_that_takes_more_memory_than_allowed_fails_and_the_steward_learns_why(tmp_path, flwr):
    """Four gigabytes, where the policy allows one and a half: the coordinator learns only that the site failed."""
    anna = make_sites(tmp_path, make_coordinator(tmp_path / "c"))["anna"]
    edit(anna, "max_memory_mb = 8192", "max_memory_mb = 1500")
    done = subprocess.run(
        [sys.executable, "-c", SHORT_OF_MEMORY, str(anna.path), hello().hex()],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip() == FAILED, done.stderr
    (entry,) = Journal(anna.path).entries()
    for told in (entry.note, done.stderr):
        assert "more memory than max_memory_mb = 1500 in site.toml" in told
    assert (entry.question, entry.answer, entry.sent) == ("join.hello", "none", 0)


def test_the_app_introduces_the_site_in_an_insecure_federation_only(tmp_path, flwr):
    from fedgeom.engines.flower.nodes import INTRODUCE, read_introduction

    for insecure in (True, False):
        root = tmp_path / str(insecure)
        root.mkdir()
        coordinator = make_coordinator(root / "c", insecure=insecure)
        anna = make_sites(root, coordinator, insecure=insecure)["anna"]
        asked = message(flwr, {"number": b"n" * 32}, INTRODUCE, "introduction")
        reply = programs.client_app()(message=asked, context=context(flwr, anna))
        found = read_introduction(reply, b"n" * 32, coordinator.roster())
        assert found == ("anna" if insecure else None)
        assert reply.has_error() == (not insecure)
