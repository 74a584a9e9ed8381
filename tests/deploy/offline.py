"""Cutting a process off: what its Python code wants from other machines is refused and written down.

A `sitecustomize` that every process of a federation imports first. So a run that finishes has worked without a
network, and an empty list says that nobody even tried. Ray, which Flower uses for simulations, is refused as well.
A site so started can be held at a question of some kind (`Federation.hold`), so that a test does not race with the run.
"""

from __future__ import annotations

import os
from pathlib import Path

TEXT = """
import ipaddress
import os
import sys

ATTEMPTS = {attempts!r}


def is_here(host):
    if host in (None, "", "localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback or ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def refuse(what):
    handle = os.open(ATTEMPTS, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(handle, (what + "\\n").encode())
    os.close(handle)


def watch(event, arguments):
    if event == "socket.connect" and isinstance(arguments[1], tuple) and not is_here(arguments[1][0]):
        refuse(f"connect {{arguments[1]}}")
        raise OSError(101, "the network is cut off")
    if event == "socket.getaddrinfo":
        host = arguments[0].decode() if isinstance(arguments[0], bytes) else arguments[0]
        if not is_here(host):
            refuse(f"look up {{host}}")
            raise OSError(101, "the network is cut off")
    if event == "import" and arguments[0] == "ray":
        refuse("import ray")
        raise ImportError("no Ray here")


sys.addaudithook(watch)

if " answer " in " ".join(sys.orig_argv):
    import time

    import fedgeom.deploy.answers as answering

    usual = answering.answer

    def kind_held(place):
        try:
            return (place.parent / (place.name + ".held")).read_bytes()
        except FileNotFoundError:
            return None

    def answer_unless_held(folder, request):
        while (kind := kind_held(folder.path)) is not None and kind in request:
            time.sleep(0.05)
        return usual(folder, request)

    answering.answer = answer_unless_held
{more}
"""


def write_offline(folder: Path, attempts: Path, more: str = "") -> dict[str, str]:
    """Write the file that cuts processes off; return the environment that makes them read it."""
    folder.mkdir(parents=True)
    (folder / "sitecustomize.py").write_text(TEXT.format(attempts=str(attempts), more=more), encoding="utf-8")
    path = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]  # what is tested may be on it too
    return {"PYTHONPATH": os.pathsep.join(path)}


def attempts_in(file: Path) -> list[str]:
    """Return what was refused."""
    return file.read_text(encoding="utf-8").splitlines() if file.exists() else []
