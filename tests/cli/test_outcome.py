"""What happens around a run: a folder of its own, what is shown after it, what is kept."""

from __future__ import annotations

import io
import shutil
import signal
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import msgspec
import pytest
from rich.console import Console

import fedgeom
from fedgeom.cli.outcome import kept, new_folder, show, terminated
from fedgeom.cli.screen import Terminated, console
from fedgeom.errors import InputError, TooFewSitesError
from fedgeom.evaluation.evaluation import FILE
from fedgeom.federation.record import RunRecord
from fedgeom.federation.results import lost_site
from fedgeom.report.label_names import Naming, read_naming
from fedgeom.report.page import NAMES
from tests.evaluation.counting import figures


def test_new_folder(tmp_path):
    assert [new_folder(tmp_path / "x").name for _ in range(3)] == ["x-1", "x-2", "x-3"]
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="no folder can be made"):
        new_folder(tmp_path / "file" / "x")


def test_interrupted_before_the_run_began(tmp_path):
    folder = new_folder(tmp_path / "x")
    with pytest.raises(KeyboardInterrupt), kept(folder, console()):
        raise KeyboardInterrupt
    assert not folder.exists()


@pytest.mark.parametrize("resumable", [True, False])
def test_interrupted_later_says_where_and_how_to_go_on(tmp_path, resumable):
    folder, out = new_folder(tmp_path / "[x]"), Console(file=io.StringIO(), width=80)
    (folder / "config.json").write_text("{}")
    if resumable:
        (folder / "resume").mkdir()
    with pytest.raises(KeyboardInterrupt), kept(folder, out, again="fedgeom run [a].toml --resume"):
        raise KeyboardInterrupt
    said = out.file.getvalue().replace("\n", "")
    assert f"What happened so far is in {folder}" in said
    assert ("to go on: fedgeom run [a].toml --resume" in said) == resumable


def shown(run, **options):
    out = Console(file=io.StringIO(), width=160)
    show(run, out, **options)
    return out.file.getvalue()


def test_everything_that_is_shown_is_kept(case, tmp_path):
    folder = shutil.copytree(case.run.folder, tmp_path / "run")
    (folder / FILE).write_bytes(msgspec.json.encode(figures()))
    text = shown(replace(case.run, folder=folder), truth=case.truth)
    for piece in ("majority class", "What left each site", "8 of 8 local names", str(folder)):
        assert piece in text.replace("\n", " ")
    assert text.index("record ") < text.index("How well it does")  # the last thing that is said
    kept_names = msgspec.json.decode((folder / NAMES).read_bytes(), type=Naming)
    assert kept_names == read_naming(case.run.local, case.truth)
    assert (folder / "report.html").is_file()


def test_without_test_rows_nothing_is_compared(tmp_path):
    sites = fedgeom.load_set("wine").train
    run = fedgeom.run(fedgeom.Moments(space="euclidean"), sites, record=tmp_path / "r")
    text = shown(run)
    assert "How well it does" not in text
    assert "picture" not in text
    assert not (tmp_path / "r" / FILE).exists()


def test_warnings_are_said_at_the_end(tmp_path):
    sites = fedgeom.load_set("wine", n_sites=4).train
    run = fedgeom.run(fedgeom.Moments(space="euclidean"), sites, record=tmp_path / "r")
    assert "warning: " not in shown(run)
    odd = replace(run, warnings=[lost_site("site-1", "[red]gone")])
    assert "warning: site 'site-1' was lost: [red]gone. " in shown(odd).partition("record")[2]


def test_a_run_that_failed_says_whom_it_lost(tmp_path):
    folder, out = new_folder(tmp_path / "x"), Console(file=io.StringIO(), width=200)
    RunRecord(folder, {}).warnings([lost_site("ulm", "max_message_bytes = 5")])
    with pytest.raises(TooFewSitesError), kept(folder, out):
        raise TooFewSitesError("2 sites are left")
    assert "site 'ulm' was lost: max_message_bytes = 5. Raise max_message_bytes" in out.file.getvalue()


def test_sigterm_interrupts_what_runs_and_afterwards_does_what_it_did(tmp_path):
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(Terminated), terminated():
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before
    with ThreadPoolExecutor(1) as pool:  # as the tests of a web page call it: no signal comes there
        assert pool.submit(lambda: terminated().__enter__()).result() is None
