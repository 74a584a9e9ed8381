"""Launchers take the place of Flower's programs, and what they start is ours whatever was shipped."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor

import pytest

from fedgeom.engines.flower import patches, programs

MODULE = "fedgeom.engines.flower.programs"


def test_launchers_have_the_names_of_flowers_programs_and_can_be_run(tmp_path):
    folder = programs.write_launchers(tmp_path / "launchers", MODULE)
    assert {file.name for file in folder.iterdir()} - {"lock"} == {*programs.REPLACED, *programs.REFUSED}
    for program, function in programs.REPLACED.items():
        file = folder / program
        assert stat.S_IMODE(file.stat().st_mode) == 0o700
        assert file.read_text() == f"#!{sys.executable}\nfrom {MODULE} import {function}\n\n{function}()\n"


def test_launchers_are_written_anew_only_where_they_differ(tmp_path):
    programs.write_launchers(tmp_path, MODULE)
    superlink, supernode, superexec = (
        tmp_path / f"flower-{name}" for name in ("superlink", "supernode", "superexec")
    )
    superlink.write_text("of an older version")
    supernode.chmod(0o600)  # a crash between writing and allowing
    before = superexec.stat().st_ino
    with ThreadPoolExecutor(4) as several:  # several commands may be started at the same time
        for done in [several.submit(programs.write_launchers, tmp_path, MODULE) for _ in range(8)]:
            done.result()
    assert MODULE in superlink.read_text()
    assert os.access(supernode, os.X_OK)
    assert superexec.stat().st_ino == before


@pytest.mark.parametrize("program", programs.REFUSED)
def test_programs_that_are_not_needed_stop_at_once(tmp_path, program):
    folder = programs.write_launchers(tmp_path, MODULE)
    done = subprocess.run([str(folder / program)], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "does not run this kind" in done.stderr


def run(text, tmp_path, **environment):
    script = textwrap.dedent(text)
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_a_node_answers_by_ours_opens_no_port_and_has_its_polls_held(tmp_path):
    """Whatever app was shipped: the program that answers is started once, by name, from our launchers."""
    pytest.importorskip("flwr")
    said = run(
        """
        import flwr.supernode.cli as cli
        from fedgeom.engines.flower import patch_table as flower, programs
        programs.Answerer = lambda command: print(*command) or (lambda question: b"")
        push = flower.NODE_ANSWERS.value()
        def main():
            print(flower.NODE_ANSWERS.value() is push, type(flower.NODE_CLOCK.value()).__name__)
            print(type(flower.NODE_CLIENT.value()).__name__, flower.SENT_HEARTBEAT.value())
            print(type(flower.NODE_SERVER.value()(None, None)[0]).__name__)
        cli.flower_supernode = main
        programs.supernode()
        """,
        tmp_path,
        FLWR_HOME=str(tmp_path),
    )
    assert said == ["flwr-clientapp", "False", "Pace", "WithCarrier", str(patches.HEARTBEAT_SECONDS), "Closed"]
