"""Calls of Flower's own command line: who may connect, starting runs, asking how they stand.

Each takes the environment that says which coordinator is meant (`fedgeom.engines.flower.commands.environment`).
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedgeom.engines.flower import commands
from fedgeom.engines.processes import run_and_exit
from fedgeom.errors import InputError

Environment = Mapping[str, str]

UNKNOWN = "unknown"
"""How a run stands of which Flower knows nothing."""


@dataclass(frozen=True)
class CallResult:
    """What came of a call."""

    code: int
    said: str


def call(environment: Environment, command: list[str]) -> str:
    """Call Flower's own command line on the coordinator's machine and return what it printed."""
    done = subprocess.run(command, env=dict(environment), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise InputError(f"Flower refused `{' '.join(command[:3])}`: {(done.stdout + done.stderr).strip()[-500:]}")
    return done.stdout


def call_together(environment: Environment, several: Sequence[list[str]]) -> list[CallResult]:
    """Call Flower's own command line several times in one process: most of a call is importing Flower."""
    asked = json.dumps([command[1:] for command in several])
    program = [sys.executable, "-m", __name__]
    done = subprocess.run(program, env=dict(environment), input=asked, capture_output=True, text=True, check=False)
    try:
        return [CallResult(*one) for one in json.loads(done.stdout.splitlines()[-1])]
    except (IndexError, ValueError, TypeError) as error:
        raise InputError(f"Flower's command line could not be called: {done.stderr.strip()[-500:]}") from error


def register_nodes(environment: Environment, key_files: Mapping[str, Path]) -> dict[str, str | InputError]:
    """Let nodes in; return the number of each, nothing where Flower knew it already, or what went wrong."""
    several = [commands.register(file, name) for name, file in key_files.items()]
    found: dict[str, str | InputError] = {}
    for name, one in zip(key_files, call_together(environment, several) if several else [], strict=True):
        if one.code == 0:
            found[name] = str(_read(one.said)["node-id"])
        elif "already" in one.said.lower():
            found[name] = ""
        else:
            found[name] = InputError(f"Flower refused to let {name} in: {one.said.strip()[-500:]}")
    return found


def unregister_node(environment: Environment, number: str) -> None:
    """Shut a node out."""
    call(environment, commands.unregister(number))


def node_states(environment: Environment) -> dict[str, str]:
    """Return what Flower says of each node, by its number: online, offline or registered."""
    nodes = _read(call(environment, commands.list_nodes())).get("nodes", [])
    return {str(node["node-id"]): str(node["status"]) for node in nodes}


def start_run(environment: Environment, bundle: Path, job: str) -> str:
    """Start a job on the running coordinator and return Flower's number for the run."""
    answer = call(environment, commands.start_run(bundle, job))
    try:
        return str(_read(answer)["run-id"])
    except (ValueError, KeyError) as error:
        raise InputError(f"Flower's answer to the submission cannot be read: {answer.strip()[-300:]}") from error


def run_state(environment: Environment, number: str) -> str:
    """Return how Flower says that a run stands, such as ``finished:failed``; a SuperLink forgets when it ends."""
    try:
        answer = call(environment, commands.list_run(number))
    except InputError as error:
        if "not found" not in str(error).lower():
            raise
        return UNKNOWN
    if "{" not in answer:
        return UNKNOWN
    runs = _read(answer).get("runs", [])
    return str(runs[0]["status"]) if runs else UNKNOWN


def stop_run(environment: Environment, number: str) -> None:
    """Stop a run; that it has ended meanwhile is as good."""
    try:
        call(environment, commands.stop_run(number))
    except InputError as error:
        if "already finished" not in str(error):
            raise


def _read(answer: str) -> dict[str, Any]:
    """Take the JSON out of what Flower printed; remarks may stand before it."""
    return dict(json.loads(answer[answer.index("{") :]))


def main() -> None:
    """Call Flower's command line as standard input says, a list of lists of words; print a list of codes and texts.

    Each call has a process of its own, forked once Flower is imported: it writes where it likes.
    """
    from flwr.cli.app import app  # optional, 2 s

    def be_flower(words: list[str], out: int) -> None:
        os.dup2(out, 1)
        os.dup2(out, 2)
        sys.argv = ["flwr", *words]
        app()

    done = []
    for words in json.load(sys.stdin):
        near, far = os.pipe()
        number = os.fork()
        if number == 0:
            run_and_exit(functools.partial(be_flower, words, far))
        os.close(far)
        with os.fdopen(near, "rb") as file:
            said = file.read().decode(errors="replace")
        _, status = os.waitpid(number, 0)
        done.append((os.waitstatus_to_exitcode(status), said))
    print(json.dumps(done))


if __name__ == "__main__":
    main()
