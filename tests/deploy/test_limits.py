"""What a process may take and leave: tried in processes of their own, as limits cannot be lifted again."""

from __future__ import annotations

import subprocess
import sys

import pytest

from fedgeom.deploy import programs
from fedgeom.deploy.site import check_site
from tests.deploy.making import make_coordinator, make_sites

linux = pytest.mark.skipif(sys.platform != "linux", reason="memory is limited on Linux only")


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


TAKE = """
import mmap
import numpy as np
from fedgeom.deploy.programs import limit_memory
limit_memory(600)
kept = np.ones(100 * 2**20, np.uint8)
ways = {
    "zeros": lambda: np.zeros(2**30, np.uint8),
    "ones": lambda: np.ones(2**27),
    "bytes": lambda: bytes(2**30),
    "list": lambda: [0] * 2**27,
    "mmap": lambda: mmap.mmap(-1, 2**30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS),
}
try:
    ways[WAY]()
except (MemoryError, OSError) as error:
    print(type(error).__name__)
else:
    print("taken")
"""


@linux
@pytest.mark.parametrize("way", ["zeros", "ones", "bytes", "list", "mmap"])
def test_more_memory_than_allowed_is_an_error_and_the_process_goes_on(way):
    done = run(f"WAY = {way!r}\n{TAKE}")
    assert done.returncode == 0, done.stderr
    assert "Error" in done.stdout


@linux
def test_no_limit_and_a_limit_that_cannot_be_lifted():
    done = run(
        "import resource\nfrom fedgeom.deploy.programs import limit_memory\n"
        "before = resource.getrlimit(resource.RLIMIT_DATA)\nlimit_memory(0)\n"
        "assert resource.getrlimit(resource.RLIMIT_DATA) == before\n"
        "limit_memory(600)\nlimit_memory(700)\nprint(resource.getrlimit(resource.RLIMIT_DATA))\n"
    )
    assert done.stdout.strip() == str((600 * 2**20, 600 * 2**20)), done.stderr


def test_elsewhere_nothing_is_limited(monkeypatch):
    monkeypatch.setattr(programs.sys, "platform", "darwin")
    assert not programs.memory_can_be_limited()
    programs.limit_memory(1)  # or this process would end here
    assert len(bytes(2**24)) == 2**24


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such limits")
def test_no_image_of_memory_is_left_by_a_process_or_its_children_and_files_are_private(tmp_path):
    done = run(
        "import ctypes, os, resource, stat, sys\nfrom fedgeom.deploy.programs import leave_no_traces\n"
        "leave_no_traces()\n"
        "def look():\n"
        "    dumpable = ctypes.CDLL(None).prctl(3, 0, 0, 0, 0) if sys.platform == 'linux' else 0\n"
        "    print(resource.getrlimit(resource.RLIMIT_CORE), dumpable, flush=True)\n"
        "look()\n"
        "child = os.fork()\n"
        "if not child:\n    look()\n    os._exit(0)\n"
        "os.waitpid(child, 0)\n"
        f"open({str(tmp_path / 'file')!r}, 'w').close()\n"
        f"print(oct(stat.S_IMODE(os.stat({str(tmp_path / 'file')!r}).st_mode)))\n"
    )
    assert done.stdout.splitlines() == ["(0, 0) 0", "(0, 0) 0", "0o600"], done.stderr


def test_a_limit_of_memory_that_cannot_be_kept_to_is_spoken_of(tmp_path, monkeypatch):
    anna = make_sites(tmp_path, make_coordinator(tmp_path / "c", insecure=True), insecure=True)["anna"]
    for works, spoken in ((True, 0), (False, 1)):
        monkeypatch.setattr("fedgeom.deploy.site.memory_can_be_limited", lambda works=works: works)
        said = []
        check_site(anna, said.append)
        assert sum("memory is limited on Linux only" in line for line in said) == spoken
