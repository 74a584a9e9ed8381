"""Calls of Flower's own command line at the coordinator: who may connect, starting runs, asking how they stand."""

from __future__ import annotations

import json
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from fedgeom.deploy.coordinator_app import FOLDER_VARIABLE
from fedgeom.deploy.coordinator_folder import CoordinatorFolder, Node
from fedgeom.engines.flower import programs as flower
from fedgeom.engines.flower.flower_patches import write_guards
from fedgeom.engines.flower.processes import Say
from fedgeom.errors import InputError


def coordinator_environment(folder: CoordinatorFolder) -> dict[str, str]:
    """Return the environment of the coordinator's programs."""
    guards = write_guards(folder.path / "flower" / "guards")
    return flower.environment(folder.path / "flower", guards=guards) | {FOLDER_VARIABLE: str(folder.path)}


def flower_call(folder: CoordinatorFolder, command: list[str]) -> str:
    """Call Flower's own command line on the coordinator's machine and return what it printed."""
    done = subprocess.run(
        command, env=coordinator_environment(folder), capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise InputError(f"Flower refused `{' '.join(command[:3])}`: {(done.stdout + done.stderr).strip()[-500:]}")
    return done.stdout


def register_nodes(folder: CoordinatorFolder, say: Say) -> None:
    """Tell the running SuperLink which node keys are admitted: new ones come in, removed ones are shut out."""
    registered, keys = folder.registered(), folder.node_keys()
    for name, node in list(registered.nodes.items()):
        if keys.get(name) != node.key:
            del registered.nodes[name]
            registered.shut.append(node.key)
            folder.save_registered(registered)
            if node.number:
                flower_call(folder, flower.unregister(node.number))
            say(f"{name} may connect no more" if name not in keys else f"{name}: the old node key is shut out")
    new = [name for name in keys if name not in registered.nodes]
    with ThreadPoolExecutor(os.cpu_count()) as several:  # a call takes two seconds, most of it Flower's imports
        calls = {name: several.submit(_register, folder, name) for name in new}
    for name, call in calls.items():
        if call.exception() is None:
            registered.nodes[name] = Node(keys[name], number := call.result())
            if number:
                say(f"{name} may connect")
    folder.save_registered(registered)
    for call in calls.values():
        call.result()  # raises what went wrong, after the numbers of all the others are kept


def _register(folder: CoordinatorFolder, name: str) -> str:
    """Let a site's node in and return its number; nothing where Flower knew it already."""
    try:
        answer = flower_call(folder, flower.register(folder.path / "nodes" / f"{name}.pub", name))
    except InputError as error:
        if "already" not in str(error).lower():
            raise
        return ""
    return str(json.loads(answer[answer.index("{") :])["node-id"])


def start_flower_run(folder: CoordinatorFolder, job: str) -> str:
    """Start a job on the running coordinator and return Flower's number for it."""
    app = Path(__file__).with_name("app")
    answer = flower_call(folder, flower.start_run(app, job))
    try:
        found = json.loads(answer[answer.index("{") :])
        return str(found["run-id"])
    except (ValueError, KeyError) as error:
        raise InputError(f"Flower's answer to the submission cannot be read: {answer.strip()[-300:]}") from error


def flower_status(folder: CoordinatorFolder, run_id: str) -> str:
    """Return how Flower says that a run stands, such as ``finished:failed``."""
    answer = flower_call(folder, flower.list_run(run_id))
    if "{" not in answer:
        return "unknown"
    runs = json.loads(answer[answer.index("{") :]).get("runs", [])
    return str(runs[0]["status"]) if runs else "unknown"
