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


def test_a_shipped_bundle_is_ignored(tmp_path):
    """The ClientApp process unpacks nothing and loads our app, whatever was shipped."""
    pytest.importorskip("flwr")
    said = run(
        """
        from pathlib import Path
        import flwr.supernode.cli as cli
        from fedgeom.engines.flower import patch_table as flower, programs
        def main():
            print(flower.CLIENTAPP_INSTALL.value()(b"a stranger"))
            load = flower.CLIENTAPP_LOAD.value()(default_app_ref="evil:app", app_path=None, multi_app=True)
            print(load("a", "b", "c"))
        cli.flwr_clientapp = main
        programs.clientapp(lambda: "our-app", Path("our-folder"))
        """,
        tmp_path,
    )
    assert said == ["our-folder", "our-app"]


def test_a_node_is_watched_and_looks_often(tmp_path):
    pytest.importorskip("flwr")
    said = run(
        """
        import flwr.supernode.cli as cli
        from fedgeom.engines.flower import patch_table as flower, pacing, programs
        fetch = flower.NODE_FETCH.value()
        def main():
            pace = flower.NODE_CLOCK.value()
            print(type(pace).__name__, pace._quick, pace._slow, pace._look.__qualname__)
            print(flower.NODE_FETCH.value() is not fetch, flower.SENT_HEARTBEAT.value())
        cli.flower_supernode = main
        programs.supernode()
        """,
        tmp_path,
        FLWR_HOME=str(tmp_path),
        FEDGEOM_POLL_SECONDS="4",
    )
    assert said == ["Pace", "4.0", "4.0", "Watchdog.look", "True", str(patches.HEARTBEAT_SECONDS)]


@pytest.mark.parametrize(("answers", "forked"), [(True, "ForkingStarter"), (False, "module")])
def test_a_sites_executor_forks_and_a_coordinators_does_not(tmp_path, answers, forked):
    pytest.importorskip("flwr")
    if answers and sys.platform != "linux":
        pytest.skip("elsewhere Flower starts its programs")
    said = run(
        f"""
        import flwr.supercore.cli as cli
        from fedgeom.engines.flower import patch_table as flower, programs
        def main():
            print(type(flower.EXECUTOR_START.value()).__name__, type(flower.EXECUTOR_CLOCK.value()).__name__)
        cli.flower_superexec = main
        programs.superexec({"print" if answers else None}, lambda: print("imported"))
        """,
        tmp_path,
    )
    assert said == (["imported", forked, "Pace"] if answers else [forked, "module"])
