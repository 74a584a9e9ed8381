"""fedgeom studio."""

from __future__ import annotations

import os
import re
import signal
import socket
import stat
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import urlparse

import pytest

from tests.cli.calling import call
from tests.waiting import HANG_SECONDS, until

pytest.importorskip("starlette", reason="needs the studio extra")
pytest.importorskip("uvicorn", reason="needs the studio extra")


def test_it_answers_on_loopback_with_its_token_and_ends_politely(tmp_path):
    words = [sys.executable, "-c", "from fedgeom.cli import app; app()", "studio", str(tmp_path), "--no-browser"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        address = re.search(r"http://127\.0\.0\.1:(\d+)/[\w-]{32}/", process.stdout.readline())
        assert "this machine only" in process.stdout.readline()
        with urllib.request.urlopen(address.group(), timeout=HANG_SECONDS) as answer:
            assert "Learn together" in answer.read().decode()
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(f"http://127.0.0.1:{address.group(1)}/", timeout=HANG_SECONDS)
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(HANG_SECONDS) in (0, 130, -2)


def test_a_port_that_is_taken_is_said(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        said = call("studio", tmp_path, "--no-browser", "--port", taken.getsockname()[1], code=2)
    assert "cannot be used" in said
    assert "is no folder" in call("studio", tmp_path / "nothing", "--no-browser", code=2)


BROWSER = """#!{python}
import pathlib, sys
pathlib.Path({seen!r}).write_text("\\n".join(sys.argv[1:]))
"""


@pytest.mark.skipif(os.name != "posix", reason="rights of files as POSIX has them")
def test_the_token_is_in_no_command_that_is_started(tmp_path):
    seen = tmp_path / "seen"
    program = tmp_path / "browser"
    program.write_text(BROWSER.format(python=sys.executable, seen=str(seen)))
    program.chmod(0o700)
    (tmp_path / "run").mkdir()
    (tmp_path / "work").mkdir()
    words = [sys.executable, "-c", "from fedgeom.cli import app; app()", "studio", str(tmp_path / "work")]
    environment = {"PYTHONUNBUFFERED": "1", "BROWSER": f"{program} %s", "XDG_RUNTIME_DIR": str(tmp_path / "run")}
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env={**os.environ, **environment})
    try:
        address = re.search(r"http://127\.0\.0\.1:\d+/([\w-]{32})/", process.stdout.readline())
        until(lambda: seen.is_file() and seen.read_text())
        assert address.group(1) not in seen.read_text()
        link = Path(urlparse(seen.read_text()).path)
        assert address.group() in link.read_text()
        assert stat.S_IMODE(link.stat().st_mode) == 0o600
        assert stat.S_IMODE(link.parent.stat().st_mode) == 0o700
        with urllib.request.urlopen(
            address.group(), timeout=HANG_SECONDS
        ) as page:  # it listens, and so heeds signals
            assert page.status == 200
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(HANG_SECONDS)
    assert not link.exists()
