"""Calls of Flower's own command line: who may connect, starting runs, asking how they stand.

Each takes the environment that says which coordinator is meant (`fedgeom.engines.flower.commands.environment`).
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedgeom.engines.flower import commands
from fedgeom.errors import InputError

Environment = Mapping[str, str]


def call(environment: Environment, command: list[str]) -> str:
    """Call Flower's own command line on the coordinator's machine and return what it printed."""
    done = subprocess.run(command, env=dict(environment), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise InputError(f"Flower refused `{' '.join(command[:3])}`: {(done.stdout + done.stderr).strip()[-500:]}")
    return done.stdout


def register_node(environment: Environment, key_file: Path, name: str) -> str:
    """Let a node in and return its number; nothing where Flower knew it already."""
    try:
        answer = call(environment, commands.register(key_file, name))
    except InputError as error:
        if "already" not in str(error).lower():
            raise
        return ""
    return str(_read(answer)["node-id"])


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
    """Return how Flower says that a run stands, such as ``finished:failed``."""
    answer = call(environment, commands.list_run(number))
    if "{" not in answer:
        return "unknown"
    runs = _read(answer).get("runs", [])
    return str(runs[0]["status"]) if runs else "unknown"


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
