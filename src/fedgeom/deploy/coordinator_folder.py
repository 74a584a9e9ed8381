"""A coordinator's folder: its certificate authority, coordinator.toml, the roster, and the admitted sites' keys."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec

from fedgeom.crypto.keys import Roster
from fedgeom.deploy import certificates
from fedgeom.deploy.config import DEFAULT_PORT, EngineName, check_loopback, check_name, quote, read_toml
from fedgeom.deploy.site_folder import PublicLines
from fedgeom.engines.nats.link import Endpoint, ServerAddress, environment_proxy, need_nats, new_seed, no_proxy
from fedgeom.errors import InputError
from fedgeom.storage import make_private, make_private_folder, write_text

PRIVATE_FILES = (
    "ca.key", "ca.pem", "server.key", "server.pem", "nats.key", "coordinator.toml", "roster.json", "coordinator.log"
)  # fmt: skip
"""The coordinator's own files, which an earlier release may have left open to others."""


class CoordinatorConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What coordinator.toml says."""

    host: str = "127.0.0.1"
    port: Annotated[int, msgspec.Meta(ge=1, le=65535)] = DEFAULT_PORT
    names: list[str] = []
    insecure: bool = False
    engine: EngineName = "nats"
    websocket: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 0
    """The port for sites that come over WebSocket (wss://); 0: none."""
    servers: str = ""
    """Servers that run already, with commas between them; nothing: the coordinator runs its own."""


@dataclass(frozen=True)
class CoordinatorFolder:
    """A coordinator's folder."""

    path: Path

    @classmethod
    def create(
        cls,
        path: Path,
        *,
        names: list[str],
        host: str,
        port: int = DEFAULT_PORT,
        insecure: bool = False,
        websocket: int = 0,
        servers: str = "",
    ) -> CoordinatorFolder:
        """Make the folder with a certificate authority, a TLS certificate and an empty roster."""
        folder = cls(path.absolute())
        if (path / "coordinator.toml").exists():
            raise InputError(f"{path} is a coordinator's folder already; choose another one")
        if insecure:
            check_loopback(host)
        need_nats()
        hosts = [server.host for server in ServerAddress.read_all(servers)] if servers else []
        folder.close_to_others()
        certificates.make_authority(folder.path)
        Roster({}).save(folder.roster_file)
        flag = str(insecure).lower()
        lines = [
            f"host = {quote(host)}  # where to listen",
            f"port = {port}",
            f"names = [{', '.join(map(quote, dict.fromkeys([*names, *hosts])))}]  # by which sites reach it",
            f"insecure = {flag}",
            *([f"websocket = {websocket}  # the port for wss://"] if websocket else []),
            *([f"servers = {quote(servers)}  # they run already"] if servers else []),
        ]
        text = "\n".join([*lines, ""])
        write_text(path / "coordinator.toml", text, private=True)
        folder.new_nats_key()
        folder.renew()
        return folder

    def close_to_others(self) -> None:
        """Make the folder with what is in it, or take others' rights from one that was there."""
        make_private(self.path, PRIVATE_FILES)
        for inner in ("jobs", "runs", "nodes"):
            make_private_folder(self.path / inner)

    def renew(self) -> None:
        """Make a new TLS certificate under the same authority; sites need nothing new."""
        config = self.config()
        own = [] if config.host == "0.0.0.0" else [config.host]
        hosts = list(dict.fromkeys([*config.names, *own, "localhost", "127.0.0.1"]))
        certificates.make_server_certificate(self.path, hosts)

    @property
    def roster_file(self) -> Path:
        """The identities of all admitted sites."""
        return self.path / "roster.json"

    def config(self) -> CoordinatorConfig:
        """Read and check coordinator.toml."""
        config = read_toml(self.path / "coordinator.toml", CoordinatorConfig, "fedgeom coordinator init")
        if ":" in config.host:
            raise InputError(f"{self.path}: host = {config.host!r} given; wanted a name or an IPv4 address")
        if config.insecure:
            check_loopback(config.host)
        if config.servers:
            ServerAddress.read_all(config.servers)
        return config

    def address(self) -> str:
        """Return where programs on this machine reach the coordinator's server."""
        config = self.config()
        if config.servers:
            return config.servers
        host = "127.0.0.1" if config.host == "0.0.0.0" else config.host
        return f"{host}:{config.port}"

    def roster(self) -> Roster:
        """Read the roster."""
        return Roster.load(self.roster_file)

    def admit(self, file: Path) -> PublicLines:
        """Let a site in: its identity into the roster, its key to those that may connect."""
        try:
            lines = msgspec.json.decode(file.read_bytes(), type=PublicLines)
        except OSError as error:
            raise InputError(f"{file} cannot be read: {error.strerror}") from error
        except msgspec.DecodeError as error:
            raise InputError(
                f"{file} is not a site's public file (NAME.pub of fedgeom site init): {error}"
            ) from error
        check_name(lines.name)
        roster = dict(self.roster())
        known = roster.get(lines.name)
        if known is not None and known.hex() != lines.identity:
            raise InputError(
                f"{lines.name!r} was admitted before with another identity; if the site made new keys on purpose, "
                f"remove it first: fedgeom coordinator remove {lines.name}"
            )
        if not lines.nats:
            raise InputError(
                f"{file} is of an earlier release and holds no key for NATS; the site makes one: "
                f"fedgeom site init --name {lines.name} --new-node-key"
            )
        write_text(self.nats_key_file(lines.name), lines.nats + "\n")
        Roster(roster | {lines.name: bytes.fromhex(lines.identity)}).save(self.roster_file)
        return lines

    def remove(self, name: str) -> None:
        """Take a site out of the roster."""
        roster = dict(self.roster())
        if roster.pop(name, None) is None:
            raise InputError(f"{name!r} is not in the roster; there are: {', '.join(roster) or 'none'}")
        Roster(roster).save(self.roster_file)
        self.nats_key_file(name).unlink(missing_ok=True)

    @property
    def nats_key(self) -> Path:
        """The key by which the NATS server knows the coordinator."""
        return self.path / "nats.key"

    def new_nats_key(self) -> None:
        """Make a new key by which the NATS server knows the coordinator."""
        write_text(self.nats_key, new_seed() + "\n", private=True)

    def nats_key_file(self, name: str) -> Path:
        """Return where an admitted site's public key for NATS is."""
        return self.path / "nodes" / f"{name}.nats"

    def nats_keys(self) -> dict[str, str]:
        """Return the public keys for NATS of the admitted sites, by name."""
        files = sorted((self.path / "nodes").glob("*.nats"))
        return {file.stem: file.read_text(encoding="utf-8").strip() for file in files}

    def endpoint(self) -> Endpoint:
        """Return where the NATS server is, and how the coordinator connects to it."""
        if not self.nats_key.is_file():
            raise InputError(
                f"{self.nats_key} is missing; make it with: fedgeom coordinator init --new-key --folder {self.path}"
            )
        seed = self.nats_key.read_text(encoding="utf-8").strip()
        config = self.config()
        certificate = None if config.insecure else self.path / "ca.pem"
        proxy = environment_proxy if config.servers else no_proxy
        return Endpoint(ServerAddress.read_all(self.address()), seed, certificate, proxy)
