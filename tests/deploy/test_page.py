"""docs/deploy.md as a reader types it: few commands, on loopback, from tables to predictions."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from fedgeom.deploy.nats_site import read_link
from fedgeom.deploy.site_folder import SiteFolder
from fedgeom.engines.processes import free_port, stop
from tests.deploy.making import need_nats
from tests.documents import ROOT, blocks
from tests.waiting import until

pytestmark = [pytest.mark.deployment, pytest.mark.full]

PROGRAM = f"""#!/bin/sh
exec {sys.executable} -c 'from fedgeom.cli import app; app(prog_name="fedgeom")' "$@"
"""
PORT = "8443"


def commands() -> list[str]:
    """Return the page's commands, on a port that is free here."""
    text = "".join(blocks(ROOT / "docs" / "deploy.md", "sh"))
    assert PORT in text
    return text.replace(PORT, str(free_port())).splitlines()


@contextmanager
def running(line: str, folder: Path, environment: dict[str, str], log: Path) -> Iterator[None]:
    """Run what stays, as in a terminal of its own."""
    with log.open("wb") as file:
        process = subprocess.Popen(
            line.split(), cwd=folder, env=environment, stdout=file, stderr=file, start_new_session=True
        )
    try:
        yield
    finally:
        stop(process, patience=60)


def test_three_hospitals_in_fifteen_commands(tmp_path: Path) -> None:
    need_nats()
    program = tmp_path / "bin" / "fedgeom"
    program.parent.mkdir()
    program.write_text(PROGRAM)
    program.chmod(0o755)
    environment = {**os.environ, "PATH": os.pathsep.join([str(program.parent), os.environ["PATH"]])}
    typed = commands()
    assert len(typed) <= 15
    with ExitStack() as stack:
        for number, line in enumerate(typed):
            log = tmp_path / f"{number}.log"
            if " start " in line:
                stack.enter_context(running(line, tmp_path, environment, log))
                continue
            if " submit " in line:
                until(lambda: all(connected(tmp_path / name) for name in ("North", "South", "East")))
            done = subprocess.run(
                line, shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, (line, done.stdout[-2000:], done.stderr[-2000:])
    with (tmp_path / "predicted.csv").open(encoding="utf-8", newline="") as file:
        words = {row["class"] for row in csv.DictReader(file)}
    assert words == {"benign", "malignant"}  # North's own


def connected(folder: Path) -> bool:
    """Say whether a site has reached the coordinator."""
    report = read_link(SiteFolder(folder))
    return report is not None and report.since > 0
