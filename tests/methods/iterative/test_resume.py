"""A run that was killed after any question and resumed gives the very model it would have given."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys

import pytest

import fedgeom
from fedgeom import Ditto, FedAvg, Scaffold
from fedgeom.errors import InputError, TooFewSitesError
from fedgeom.federation.record import read_folder
from tests.methods.iterative.making import losing, own, unlike
from tests.waiting import until

SITES = unlike(n_sites=3, rows=8)
SHORT = {"n_rounds": 3, "epochs": 1, "batch_size": 4}
RUNS = {
    "fedavg secure": FedAvg(**SHORT),
    "scaffold open": Scaffold(secure=False, **SHORT),
    "scaffold secure": Scaffold(**(SHORT | {"n_rounds": 2})),
    "ditto open": Ditto(secure=False, **SHORT),
}


class Killed(BaseException):
    """Stands for the death of the process: nothing of ours catches it."""


def killing(after: int, where: str):
    """Return arguments under which a run dies: before a site gets a question, or when its answer is there."""
    count = [0]

    def die():
        count[0] += 1
        if count[0] > after:
            raise Killed

    if where == "before":
        return {"interfere": lambda site, request: die()}
    return {"watch": lambda event: die() if event.state == "answered" else None}


def undisturbed(row):
    run = fedgeom.run(row, SITES, seed=4)
    return run, len(run.ledger)


@pytest.mark.parametrize("name", RUNS)
def test_killed_anywhere_and_resumed(name, tmp_path):
    row = RUNS[name]
    clean, answers = undisturbed(row)
    places = sorted({0, 1, answers // 2, answers - 1, *range(2, answers, 7)})
    for at, where in [(at, "before") for at in places] + [(at, "after") for at in places[1::2]]:
        folder = tmp_path / f"{at}-{where}"
        with pytest.raises(Killed):
            fedgeom.run(row, SITES, seed=4, record=folder, resumable=True, **killing(at, where))
        run = fedgeom.run(row, SITES, seed=4, record=folder, resume=True)
        assert run.model.to_bytes() == clean.model.to_bytes(), (at, where)
        for site in SITES:
            assert (own(run, site.name) == own(clean, site.name)).all()
        assert len(run.ledger) == len(clean.ledger)
        assert not (folder / "resume").exists()
        assert len(list((folder / "rounds").iterdir())) == row.n_rounds


def test_killed_again_and_again(tmp_path):
    """Six answers further each time, until it is through."""
    row = RUNS["scaffold open"]
    clean, answers = undisturbed(row)
    died = 0
    for _ in range(answers):
        try:
            options = killing(6, "before")
            run = fedgeom.run(row, SITES, seed=4, record=tmp_path / "run", resume=True, **options)
            break
        except Killed:
            died += 1
    assert died >= 3
    assert run.model.to_bytes() == clean.model.to_bytes()


def test_an_answer_that_was_given_but_not_written_down_is_given_again(tmp_path, monkeypatch):
    """The process dies between a site's memory and the transcript: the site is asked the same question again."""
    from fedgeom.federation.session import Transcript

    row = RUNS["scaffold secure"]
    clean, answers = undisturbed(row)
    for at in range(3, answers, 4):
        write, count = Transcript._write, [0]

        def dying(self, line, count=count, at=at, write=write):
            count[0] += 1
            if count[0] > at:
                raise Killed
            write(self, line)

        with monkeypatch.context() as patch:
            patch.setattr(Transcript, "_write", dying)
            with pytest.raises(Killed):
                fedgeom.run(row, SITES, seed=4, record=tmp_path / str(at), resumable=True)
        run = fedgeom.run(row, SITES, seed=4, record=tmp_path / str(at), resume=True)
        assert run.model.to_bytes() == clean.model.to_bytes()


def test_lost_sites_stay_lost_and_come_back_when_too_few_were_left(tmp_path):
    row = FedAvg(n_rounds=3, epochs=1, secure=False)
    sites = unlike(n_sites=4, rows=8)
    lose = losing({"s1": {0}}, b"train.open")
    expected = fedgeom.run(row, sites, interfere=lose).model.to_bytes()
    lose, count = losing({"s1": {0}}, b"train.open"), [0]

    def lose_and_die(site, request):
        count[0] += b"train.open" in request
        if count[0] > 6:
            raise Killed
        return lose(site, request)

    with pytest.raises(Killed):
        fedgeom.run(row, sites, record=tmp_path / "a", resumable=True, interfere=lose_and_die)
    run = fedgeom.run(row, sites, record=tmp_path / "a", resume=True)
    assert run.model.to_bytes() == expected
    assert set(run.returned) == {"s1"}

    gone = losing({name: {1} for name in ("s1", "s2", "s3")}, b"train.open")
    with pytest.raises(TooFewSitesError):
        fedgeom.run(row, sites, record=tmp_path / "b", resumable=True, interfere=gone)
    assert read_folder(tmp_path / "b")["status"]["state"] == "failed"
    run = fedgeom.run(row, sites, record=tmp_path / "b", resume=True)
    assert run.model.to_bytes() == fedgeom.run(row, sites).model.to_bytes()


def test_other_methods_resume_as_well(tmp_path):
    method = fedgeom.Moments(min_rows=1, space="euclidean")
    expected = fedgeom.run(method, SITES).model
    with pytest.raises(Killed):
        fedgeom.run(method, SITES, record=tmp_path / "run", resumable=True, **killing(9, "before"))
    found = fedgeom.run(method, SITES, record=tmp_path / "run", resume=True).model
    assert (found.predict(SITES[0].X) == expected.predict(SITES[0].X)).all()


def test_resume_without_a_run_begins_one(tmp_path):
    run = fedgeom.run(FedAvg(**SHORT), SITES, record=tmp_path / "run", resume=True)
    assert run.model.to_bytes() == fedgeom.run(FedAvg(**SHORT), SITES).model.to_bytes()


def test_secrets_are_kept_when_asked_only_and_for_the_owner_only(tmp_path):
    row = FedAvg(**SHORT)
    with pytest.raises(Killed):
        fedgeom.run(row, SITES, record=tmp_path / "plain", **killing(20, "before"))
    assert not (tmp_path / "plain" / "resume").exists()
    with pytest.raises(Killed):
        fedgeom.run(row, SITES, record=tmp_path / "kept", resumable=True, **killing(20, "before"))
    inner = tmp_path / "kept" / "resume"
    assert stat.S_IMODE(inner.stat().st_mode) == 0o700
    secret = [file for file in inner.iterdir() if file.name == "begun" or file.suffix == ".memory"]
    assert len(secret) == 1 + len(SITES)
    assert all(stat.S_IMODE(file.stat().st_mode) == 0o600 for file in secret)


def test_refusals(tmp_path):
    row, folder = FedAvg(**SHORT), tmp_path / "run"
    with pytest.raises(InputError, match="resumable and resume need record"):
        fedgeom.run(row, SITES, resume=True)
    with pytest.raises(Killed):
        fedgeom.run(row, SITES, record=folder, resumable=True, **killing(20, "before"))
    again = {"record": folder, "resume": True}
    with pytest.raises(InputError, match="already holds a run"):
        fedgeom.run(row, SITES, record=folder, resumable=True)
    with pytest.raises(InputError, match="has n_rounds = 3; 4 was given"):
        fedgeom.run(FedAvg(**(SHORT | {"n_rounds": 4})), SITES, **again)
    with pytest.raises(InputError, match="has method = 'fedavg'; 'scaffold' was given"):
        fedgeom.run(Scaffold(**SHORT), SITES, **again)
    with pytest.raises(InputError, match="has seed = 0; 7 was given"):
        fedgeom.run(row, SITES, seed=7, **again)
    with pytest.raises(InputError, match="has sites = "):
        fedgeom.run(row, SITES[:2], **again)
    other = [fedgeom.SiteData(site.name, site.X + (site.name == "s1"), site.y) for site in SITES]
    with pytest.raises(InputError, match="began with other rows at s1; give it the same sites"):
        fedgeom.run(row, other, **again)
    fedgeom.run(row, SITES, **again)
    with pytest.raises(InputError, match="is finished; its model is"):
        fedgeom.run(row, SITES, **again)
    with pytest.raises(Killed):
        fedgeom.run(row, SITES, record=tmp_path / "plain", **killing(20, "before"))
    with pytest.raises(InputError, match="kept when a run begins with resumable=True"):
        fedgeom.run(row, SITES, record=tmp_path / "plain", resume=True)


def test_two_processes_cannot_go_on_with_one_run(tmp_path):
    from fedgeom.engines.run import ResumeStore

    row = FedAvg(**SHORT)
    with pytest.raises(Killed):
        fedgeom.run(row, SITES, record=tmp_path / "run", resumable=True, **killing(20, "before"))
    other = ResumeStore(tmp_path / "run")
    other.find(SITES)
    with pytest.raises(InputError, match="is going on in another process"):
        fedgeom.run(row, SITES, record=tmp_path / "run", resume=True)
    other.release()
    fedgeom.run(row, SITES, record=tmp_path / "run", resume=True)


PROGRAM = """
import sys
import fedgeom
from fedgeom import Ditto
from tests.methods.iterative.making import unlike

fedgeom.run(Ditto(n_rounds=12, epochs=3, batch_size=2), unlike(n_sites=3, rows=20), record=sys.argv[1], resumable=True)
"""


def test_a_real_process_that_is_really_killed(tmp_path):
    folder = tmp_path / "run"
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, str(folder)], stderr=subprocess.DEVNULL)
    until(lambda: (folder / "rounds" / "0002.safetensors").exists() or process.poll() is not None, pause=0.005)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert json.loads((folder / "status.json").read_text())["state"] == "running"
    row, sites = Ditto(n_rounds=12, epochs=3, batch_size=2), unlike(n_sites=3, rows=20)
    run = fedgeom.run(row, sites, record=folder, resume=True)
    assert run.model.to_bytes() == fedgeom.run(row, sites).model.to_bytes()
    assert read_folder(folder)["status"]["state"] == "finished"


@pytest.mark.parametrize("kind", [b"train.masked", b"sum.confirm"])
def test_strict_sites_wait_for_those_who_are_lost(kind, tmp_path):
    """One of five is lost in the second round: the others sum no further without it, and the run is resumed with it."""
    sites, policy = unlike(n_sites=5, rows=8), fedgeom.Policy(sums_after_losses=False)
    row = FedAvg(**SHORT)
    clean = fedgeom.run(row, sites, seed=4, policy=policy)
    options = {"seed": 4, "policy": policy, "record": tmp_path / "run"}
    if kind == b"train.masked":
        with pytest.raises(TooFewSitesError, match="Resume the run when lost sites are back"):
            fedgeom.run(row, sites, resumable=True, interfere=losing({"s3": {1}}, kind), **options)
        run = fedgeom.run(row, sites, resume=True, **options)
    else:  # its vector is there, and the others are enough to unmask the sum with it
        run = fedgeom.run(row, sites, resumable=True, interfere=losing({"s3": {1}}, kind), **options)
    assert run.model.to_bytes() == clean.model.to_bytes()


def test_strict_sites_train_all_together_or_not_at_all():
    sites, policy = unlike(n_sites=8, rows=8), fedgeom.Policy(sums_after_losses=False)
    with pytest.raises(TooFewSitesError, match="with participation=1 where a share of the sites is drawn"):
        fedgeom.run(
            FedAvg(participation=0.5, min_sites=3, **(SHORT | {"n_rounds": 8})), sites, seed=1, policy=policy
        )
    fedgeom.run(FedAvg(**SHORT), sites, policy=policy)


@pytest.mark.parametrize(("scale", "bits"), [("joint", 32), ("site", 32), ("site", 64)])
def test_strict_sites_go_on_without_a_site_that_was_lost_in_the_first_sum(scale, bits):
    """It may be back, but a sum with it would differ from the first by it, of columns or rows as of training."""
    sites, policy = unlike(n_sites=5, rows=8), fedgeom.Policy(sums_after_losses=False)
    options = {"policy": policy, "interfere": losing({"s3": {0}}, b"train.masked")}
    algorithm = FedAvg(**SHORT, scale=scale, bits=bits)
    if scale == "joint" or bits < 64:
        with pytest.raises(TooFewSitesError, match=r"differs from one before by 1 sites \(s3\)"):
            fedgeom.run(algorithm, sites, **options)
        return
    run = fedgeom.run(algorithm, sites, **options)
    sums = [entry.step for entry in run.ledger if entry.kind == "sum.masked"]
    assert [sums.count(step) for step in sorted(set(sums))] == [4, 4, 4]
