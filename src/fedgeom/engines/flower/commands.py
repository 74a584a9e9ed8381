"""Every Flower command, flag, setting and environment variable we use: they change between releases."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from fedgeom.errors import InputError
from fedgeom.storage import make_private_folder, write_text

CONNECTION = "fedgeom"
"""The name of the coordinator in Flower's own configuration."""

SITE_SETTING, JOB_SETTING = "site", "job"
"""By what names a node's own settings say where the site's folder is, and a run's which job it is."""


DATABASE = ""
"""The file, within Flower's home, where the SuperLink keeps its state; without one it is in memory. What must outlive
it is in our own files: sites' journals, transcripts of runs, who is admitted."""


def need_flower() -> None:
    """Say how to install Flower when it is missing."""
    try:
        import flwr  # noqa: F401
    except ImportError as error:
        raise InputError("deployments need Flower: pip install 'fedgeom[flower]'") from error


def environment(home: Path, *, launchers: Path | None = None) -> dict[str, str]:
    """Return the environment for Flower programs: our home for their files, no telemetry.

    ``launchers`` is a folder with our replacements for the programs that would run code from the network; it
    comes first on the path.
    """
    programs = Path(sys.executable).parent
    path = [str(p) for p in (launchers, programs) if p is not None]
    return {
        **{key: value for key, value in os.environ.items() if not key.startswith("FLWR_")},
        "PATH": os.pathsep.join([*path, os.environ.get("PATH", "")]),
        "FLWR_HOME": str(home),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "1",
        "PYTHONUNBUFFERED": "1",
    }


def superlink(folder: Path, *, host: str, port: int, insecure: bool) -> list[str]:
    """Return the command that starts the coordinator's SuperLink."""
    command = [
        "flower-superlink",
        "--host",
        host,
        "--port",
        str(port),
        "--disable-runtime-dependency-installation",
        *(["--database", str(folder / "flower" / DATABASE)] if DATABASE else []),
    ]
    if insecure:
        return [*command, "--insecure"]
    return [
        *command,
        "--ssl-ca-certfile", str(folder / "ca.pem"),
        "--ssl-certfile", str(folder / "server.pem"),
        "--ssl-keyfile", str(folder / "server.key"),
        "--enable-supernode-auth",
    ]  # fmt: skip


def supernode(address: str, *, port: int, site: Path, certificate: Path | None, key: Path | None) -> list[str]:
    """Return the command that starts the SuperNode of the site in a folder; without a certificate it is insecure."""
    settings = f'{SITE_SETTING}="{site}"'
    command = ["flower-supernode", "--superlink", address, "--host", "127.0.0.1", "--port", str(port)]
    # The node starts no executor: it has another way to have its questions answered.
    command += ["--node-config", settings, "--isolation", "process"]
    if certificate is None or key is None:
        return [*command, "--insecure"]
    return [*command, "--root-certificates", str(certificate), "--auth-supernode-private-key", str(key)]


def write_connection(home: Path, *, address: str, certificate: Path | None) -> None:
    """Tell Flower's own command line where the coordinator is."""
    make_private_folder(home)
    security = "insecure = true" if certificate is None else f'root-certificates = "{certificate}"'
    text = (
        f'[superlink]\ndefault = "{CONNECTION}"\n\n[superlink.{CONNECTION}]\naddress = "{address}"\n{security}\n'
    )
    write_text(home / "config.toml", text, private=True)


def register(public_key: Path, name: str) -> list[str]:
    """Return the command that lets a node with this key in, under this name."""
    return ["flwr", "supernode", "register", str(public_key), CONNECTION, "--name", name, "--format", "json"]


def unregister(node: str) -> list[str]:
    """Return the command that shuts a node out."""
    return ["flwr", "supernode", "unregister", node, CONNECTION, "--format", "json"]


def list_nodes() -> list[str]:
    """Return the command that lists the nodes, as JSON."""
    return ["flwr", "supernode", "list", CONNECTION, "--format", "json"]


def start_run(app: Path, job: str) -> list[str]:
    """Return the command that starts a job."""
    return ["flwr", "run", str(app), CONNECTION, "--run-config", f'{JOB_SETTING}="{job}"', "--format", "json"]


def list_run(run_id: str) -> list[str]:
    """Return the command that says how a run stands, as JSON."""
    return ["flwr", "list", CONNECTION, "--run-id", run_id, "--format", "json"]


def stop_run(run_id: str) -> list[str]:
    """Return the command that stops a run."""
    return ["flwr", "stop", run_id, CONNECTION]


ACTIVATED = "SuperNode ID"
"""What a node writes when the coordinator let it in."""
RETRYING = "Connection attempt failed"
"""What a node writes when nobody answers."""
UNKNOWN_NODE = "code: 2004"
"""What a node writes when the coordinator does not know its key, or counts another process as the node."""
FOREIGN_CERTIFICATE = "CERTIFICATE_VERIFY_FAILED"
NOBODY_LISTENS = "Connection refused"

CAME_OR_WENT = re.compile(r"\[Fleet\.(Activate|Deactivate)Node\] (?:A|Dea)ctivated node_id=(\d+)")
"""What the SuperLink writes when a node comes or goes."""


@dataclass(frozen=True)
class Visit:
    """A node came, or went."""

    number: str
    came: bool


def read_visits(data: bytes) -> tuple[list[Visit], int]:
    """Read who came and went off a piece of the SuperLink's log; also return the bytes of its complete lines."""
    whole = data[: data.rfind(b"\n") + 1]
    lines = whole.decode(errors="replace").splitlines()
    found = [match for line in lines if (match := CAME_OR_WENT.search(line))]
    return [Visit(match[2], match[1] == "Activate") for match in found], len(whole)
