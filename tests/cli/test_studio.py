"""fedgeom studio."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

from tests.cli.calling import call
from tests.waiting import HANG_SECONDS

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
