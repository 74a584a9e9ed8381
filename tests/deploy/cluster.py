"""Three NATS servers of one cluster on loopback, set up as docs/deploy.md says for servers that run already."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence

from fedgeom.deploy.coordinator_folder import CoordinatorFolder
from fedgeom.deploy.nats_coordinator import configuration
from fedgeom.engines.nats.server import find_server
from fedgeom.engines.processes import free_port, wait_for_port

MEMBERS = 3


class Cluster:
    """The servers, in a coordinator's folder for which they were made; leaving the context stops them."""

    def __init__(self, ports: Sequence[int]):
        self.ports = tuple(ports)
        self._routes = [free_port() for _ in ports]
        self._running: dict[int, subprocess.Popen[bytes]] = {}

    @property
    def addresses(self) -> str:
        """Where they are, as coordinator and sites are told it."""
        return ",".join(f"127.0.0.1:{port}" for port in self.ports)

    def start(self, folder: CoordinatorFolder) -> None:
        """Start all, with what the coordinator has written for them."""
        for number, port in enumerate(self.ports):
            settings = {
                "server_name": f"server-{number}",
                "host": "127.0.0.1",
                "port": port,
                "tls": {
                    "cert_file": str(folder.path / "server.pem"),
                    "key_file": str(folder.path / "server.key"),
                    "handshake_first": True,
                },
                "cluster": {
                    "name": "fedgeom",
                    "host": "127.0.0.1",
                    "port": self._routes[number],
                    "routes": [f"nats://127.0.0.1:{route}" for route in self._routes],
                },
            }
            lines = [f"{key}: {json.dumps(value)}" for key, value in settings.items()]
            file = folder.path / f"server-{number}.conf"
            file.write_text("\n".join([*lines, f"include ./{configuration(folder).name}", ""]), encoding="utf-8")
            with (folder.path / f"server-{number}.log").open("ab") as log:
                self._running[number] = subprocess.Popen(
                    [find_server(), "-c", str(file)], stdout=log, stderr=log, start_new_session=True
                )
        for number, port in enumerate(self.ports):
            wait_for_port(f"127.0.0.1:{port}", self._running[number])

    def kill(self, number: int) -> None:
        """Kill one, without warning."""
        process = self._running.pop(number)
        process.kill()
        process.wait()

    def stop(self) -> None:
        """Kill all that run."""
        for number in list(self._running):
            self.kill(number)
