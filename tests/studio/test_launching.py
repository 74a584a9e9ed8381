"""Runs in processes of their own."""

from __future__ import annotations

import errno
import os
import subprocess
import sys

import msgspec
import pytest

from fedgeom.errors import InputError
from fedgeom.federation.record import write_status
from fedgeom.storage import write_json
from fedgeom.studio import runs
from fedgeom.studio.runs import Launch
from tests.report.folders import folder_of
from tests.waiting import HANG_SECONDS, until


def started(place, text):
    place.make(place.studies)
    (place.studies / "s.toml").write_text(text)
    return runs.launch_run(place, "s")


def wait(place, run):
    until(lambda: runs.run_status(place, run).state in runs.ENDS, pause=0.1)
    return runs.run_status(place, run)


def test_a_study_that_cannot_run_says_why_and_two_get_two_names(place):
    first, second = (
        started(place, 'label = "y"\nfile = "nothing.csv"\nsites_from = "h"\n'),
        runs.launch_run(place, "s"),
    )
    assert (first, second) == ("s-1", "s-2")
    status = wait(place, first)
    assert status.state == "failed"
    assert "nothing.csv" in status.detail
    assert not (place.runs / first).exists()
    assert wait(place, second).state == "failed"


def test_a_run_that_died_without_a_word_is_interrupted(place):
    folder = folder_of(place.runs / "r-1", rounds=1)
    write_status(folder, "running")
    place.make(place.launches)
    write_json(place.launches / "r-1.json", Launch(2**22 + 12345, "r-1", []))
    assert runs.is_alive(place, "r-1") is False
    assert runs.run_status(place, "r-1").state == "interrupted"
    assert msgspec.json.decode((folder / "status.json").read_bytes())["state"] == "interrupted"


def test_a_run_that_died_of_a_full_disk_is_still_shown(place, monkeypatch):
    folder = folder_of(place.runs / "r-1", rounds=1)
    write_status(folder, "running")
    place.make(place.launches)
    write_json(place.launches / "r-1.json", Launch(2**22 + 12345, "r-1", []))

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(runs, "write_status", full)
    status = runs.run_status(place, "r-1")
    assert status.state == "interrupted"
    assert "No space left" in status.detail


def test_a_run_of_the_command_line_is_left_alone(place):
    folder = folder_of(place.runs / "r-1", rounds=1)
    write_status(folder, "running")
    assert runs.is_alive(place, "r-1") is None
    assert runs.run_status(place, "r-1").state == "running"
    runs.stop(place, "r-1")  # nothing that the studio started


@pytest.fixture
def sleeper():
    """A process of somebody else."""
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(900)"])
    yield process
    process.kill()
    process.wait()


@pytest.mark.parametrize("started", ["", "another boot 12345"])
def test_a_process_that_has_got_the_number_of_an_old_run_is_left_alone(place, sleeper, started):
    place.make(place.launches)
    write_json(place.launches / "r-1.json", Launch(sleeper.pid, "r-1", [], started))
    assert runs.is_alive(place, "r-1") is False
    runs.stop(place, "r-1")
    with pytest.raises(subprocess.TimeoutExpired):
        sleeper.wait(0.5)


def test_a_process_that_is_still_the_same_is_stopped(place, sleeper):
    place.make(place.launches)
    write_json(place.launches / "r-1.json", Launch(sleeper.pid, "r-1", [], runs.process_start(sleeper.pid)))
    assert runs.is_alive(place, "r-1") is True
    runs.stop(place, "r-1")
    assert sleeper.wait(HANG_SECONDS) != 0
    assert runs.is_alive(place, "r-1") is False
    runs.stop(place, "r-1")  # nobody is there


def test_when_a_process_was_started_does_not_change(sleeper):
    assert runs.process_start(os.getpid()) == runs.process_start(os.getpid()) != ""
    assert runs.process_start(2**22 + 12345) == ""


def test_a_log_cannot_rule_the_page(place):
    place.make(place.launches)
    (place.launches / "r.log").write_bytes(b"\x1b[2Jred\xff" + b"x" * 9000)
    assert len(runs.log_end(place, "r")) <= runs.MOST_LOG
    (place.launches / "r.log").write_bytes(b"\x1b[2Jred")
    assert "\x1b" not in runs.log_end(place, "r")


def test_a_coordinator_that_is_not_there_is_said(place):
    place.make(place.studies)
    (place.studies / "s.toml").write_text('method = "moments"\n')
    with pytest.raises(InputError):
        runs.launch_submit(place, "s")
