"""A site's folder and a coordinator's folder: keys, configuration, and where things are."""

from __future__ import annotations

import ipaddress
import json
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec

from fedgeom.errors import InputError
from fedgeom.federation.policy import Policy
from fedgeom.secure.keys import Identity, Roster
from fedgeom.service import certificates

NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$")
DEFAULT_PORT = 8000


def check_name(name: str) -> str:
    """Return a site's name, or say which names are possible."""
    if not NAME.match(name):
        raise InputError(
            f"{name!r} cannot be a site's name; wanted letters, digits, '.', '_' and '-', such as 'charite'"
        )
    return name


class SitePolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The ``[policy]`` block of site.toml."""

    smallest_cohort: int = 3
    threshold: float = 2 / 3
    largest_message: int = 64 * 2**20
    methods: list[str] = []
    runs_per_day: Annotated[int, msgspec.Meta(ge=0)] = 20

    def policy(self) -> Policy:
        """Return what a site checks at each question."""
        return Policy(
            smallest_cohort=self.smallest_cohort,
            threshold=self.threshold,
            largest_message=self.largest_message,
            methods=tuple(self.methods),
        )


class SiteConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What site.toml says."""

    name: str
    file: str
    label: str
    coordinator: str
    columns: str | list[str] | None = None
    drop_unlabelled: bool = False
    certificate: str = "ca.pem"
    roster: str = "roster.json"
    insecure: bool = False
    policy: SitePolicy = SitePolicy()


class PublicLines(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a site sends to the coordinator once: its name and public keys, as a small JSON file."""

    name: str
    identity: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
    node: Annotated[str, msgspec.Meta(pattern="^ecdsa-sha2-nistp384 [A-Za-z0-9+/=]+$")]


SITE_TOML = """\
# A site of a fedgeom federation. This file and the keys beside it stay here.

name = {name}
file = {file}  # .csv, .tsv, .npz, .parquet or .h5ad; relative to this folder
label = {label}  # the column (or key) with the class of each row
# columns = ["age", "bmi"]     # the features; left out: all but the label
coordinator = {coordinator}{insecure}
certificate = "ca.pem"         # from the coordinator: its certificate authority
roster = "roster.json"         # from the coordinator: the identities of all sites. Check them by telephone.

[policy]                       # what this site insists on; the coordinator cannot loosen it
smallest_cohort = 3            # take part only in sums over at least so many sites
threshold = 0.667              # so large a share of the sites must agree before anything is unmasked
largest_message = 67108864     # bytes
methods = []                   # the methods to answer, such as ["hulls"]; empty: all
runs_per_day = 20
"""


@dataclass(frozen=True)
class SiteFolder:
    """A site's folder."""

    path: Path

    @classmethod
    def create(
        cls,
        path: Path,
        name: str,
        coordinator: str,
        *,
        file: str = "data.csv",
        label: str = "label",
        insecure: bool = False,
    ) -> SiteFolder:
        """Make the folder with new keys; refuse to overwrite an identity."""
        check_name(name)
        check_address(coordinator)
        if insecure:
            check_loopback(coordinator)
        folder = cls(path.absolute())
        if folder.identity_file.exists():
            raise InputError(f"{path} already holds the identity of a site; choose another folder")
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        certificates.write_private(folder.identity_file, Identity.generate().secret)
        if not folder.config_file.exists():
            text = SITE_TOML.format(
                name=_quote(name),
                file=_quote(file),
                label=_quote(label),
                coordinator=_quote(coordinator),
                insecure="\ninsecure = true                # no TLS; on this machine only" if insecure else "",
            )
            folder.config_file.write_text(text, encoding="utf-8")
        folder.new_node_key(name)
        return folder

    def new_node_key(self, name: str) -> None:
        """Make a new key for Flower's node; the identity stays. The public file has to be admitted again."""
        identity = self.identity().public.hex()
        node = certificates.make_node_key(self.path)
        lines = PublicLines(name=name, identity=identity, node=node)
        self.public_file(name).write_bytes(msgspec.json.format(msgspec.json.encode(lines)) + b"\n")

    def public_file(self, name: str) -> Path:
        """Return where the lines are that go to the coordinator."""
        return self.path / f"{name}.pub"

    @property
    def identity_file(self) -> Path:
        """The Ed25519 key that never leaves the site."""
        return self.path / "identity.key"

    @property
    def config_file(self) -> Path:
        """The file that the steward edits."""
        return self.path / "site.toml"

    @property
    def ledger_file(self) -> Path:
        """The site's own ledger: each question it was asked and each answer it gave."""
        return self.path / "ledger.jsonl"

    @property
    def node_key(self) -> Path:
        """The key by which Flower knows the site."""
        return self.path / "node.key"

    def identity(self) -> Identity:
        """Read the site's identity."""
        if not self.identity_file.is_file():
            raise InputError(f"{self.path} is not a site's folder; make one with: fedgeom site init --name NAME")
        return Identity(self.identity_file.read_bytes())

    def config(self) -> SiteConfig:
        """Read and check site.toml."""
        config = read_toml(self.config_file, SiteConfig, "fedgeom site init --name NAME")
        check_name(config.name)
        check_address(config.coordinator)
        if config.insecure:
            check_loopback(config.coordinator)
        return config

    def roster(self) -> Roster:
        """Read the pinned roster."""
        file = self.path / self.config().roster
        if not file.is_file():
            raise InputError(
                f"the roster {file} is missing; ask the coordinator for roster.json and put it into {self.path}"
            )
        return Roster.load(file)


class CoordinatorConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What coordinator.toml says."""

    host: str = "127.0.0.1"
    port: Annotated[int, msgspec.Meta(ge=1, le=65535)] = DEFAULT_PORT
    names: list[str] = []
    insecure: bool = False


class Node(msgspec.Struct, frozen=True):
    """A node key that Flower was told of, and Flower's number for it (empty if it was not told)."""

    key: str
    number: str = ""


class Registered(msgspec.Struct):
    """What Flower knows of the admitted sites."""

    nodes: dict[str, Node] = {}
    shut: list[str] = []
    """Keys that were shut out; Flower does not take them again."""


@dataclass(frozen=True)
class CoordinatorFolder:
    """A coordinator's folder."""

    path: Path

    @classmethod
    def create(
        cls, path: Path, *, names: list[str], host: str, port: int = DEFAULT_PORT, insecure: bool = False
    ) -> CoordinatorFolder:
        """Make the folder with a certificate authority, a TLS certificate and an empty roster."""
        folder = cls(path.absolute())
        if (path / "coordinator.toml").exists():
            raise InputError(f"{path} is a coordinator's folder already; choose another one")
        if insecure:
            check_loopback(host)
        for inner in ("flower", "jobs", "runs", "nodes"):
            (path / inner).mkdir(parents=True, exist_ok=True)
        path.chmod(0o700)
        certificates.make_authority(folder.path)
        Roster({}).save(folder.roster_file)
        flag = str(insecure).lower()
        lines = [
            f"host = {_quote(host)}  # where to listen",
            f"port = {port}",
            f"names = [{', '.join(map(_quote, names))}]  # by which sites reach it; in the certificate",
        ]
        text = "\n".join([*lines, f"insecure = {flag}", ""])
        (path / "coordinator.toml").write_text(text, encoding="utf-8")
        folder.renew()
        return folder

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
        return config

    def address(self) -> str:
        """Return where programs on this machine reach the coordinator."""
        config = self.config()
        host = "127.0.0.1" if config.host == "0.0.0.0" else config.host
        return f"{host}:{config.port}"

    def roster(self) -> Roster:
        """Read the roster."""
        return Roster.load(self.roster_file)

    def admit(self, file: Path) -> PublicLines:
        """Let a site in: its identity into the roster, its node key to Flower's."""
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
        if lines.node in self.registered().shut:
            raise InputError(
                f"the node key in {file} was shut out when {lines.name!r} was removed, and Flower takes no key "
                f"twice; the site can make a new one: fedgeom site init --name {lines.name} --new-node-key"
            )
        (self.path / "nodes" / f"{lines.name}.pub").write_text(lines.node + "\n", encoding="utf-8")
        Roster(roster | {lines.name: bytes.fromhex(lines.identity)}).save(self.roster_file)
        return lines

    def remove(self, name: str) -> None:
        """Take a site out of the roster."""
        roster = dict(self.roster())
        if roster.pop(name, None) is None:
            raise InputError(f"{name!r} is not in the roster; there are: {', '.join(roster) or 'none'}")
        Roster(roster).save(self.roster_file)
        (self.path / "nodes" / f"{name}.pub").unlink(missing_ok=True)

    def registered(self) -> Registered:
        """Read which node keys Flower was told of."""
        file = self.path / "flower" / "registered.json"
        return msgspec.json.decode(file.read_bytes(), type=Registered) if file.is_file() else Registered()

    def save_registered(self, registered: Registered) -> None:
        """Write down which node keys Flower was told of."""
        file = self.path / "flower" / "registered.json"
        file.write_bytes(msgspec.json.format(msgspec.json.encode(registered)) + b"\n")

    def node_keys(self) -> dict[str, str]:
        """Return the node keys of the admitted sites, by name."""
        return {file.stem: file.read_text().strip() for file in sorted((self.path / "nodes").glob("*.pub"))}


T = TypeVar("T")


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)  # also a TOML string


def read_toml(path: Path, kind: type[T], maker: str) -> T:
    """Read a TOML file into a struct, with errors that name the file."""
    if not path.is_file():
        raise InputError(f"{path} does not exist; make it with: {maker}")
    try:
        content: Any = tomllib.loads(path.read_text(encoding="utf-8"))
        return msgspec.convert(content, kind)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: {error}") from error


def check_address(address: str) -> None:
    """Refuse what is not a host and a port."""
    host, _, port = address.rpartition(":")
    if not host or ":" in host or "/" in host or not port.isdigit() or not 0 < int(port) < 65536:
        raise InputError(f"{address!r} is not the address of a coordinator; wanted HOST:PORT, such as host:8000")


def check_loopback(address: str) -> None:
    """Refuse an insecure federation anywhere but on this machine."""
    host = address.rsplit(":", 1)[0].strip("[]") if address.count(":") == 1 or "]" in address else address
    try:
        local = ipaddress.ip_address(host).is_loopback
    except ValueError:
        local = host == "localhost"
    if not local:
        raise InputError(
            f"an insecure federation works on this machine only; {address!r} is not a loopback address"
        )
