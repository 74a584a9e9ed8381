"""A site's folder: its keys, site.toml, and the public lines that go to the coordinator."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from fedgeom.crypto.keys import Identity, Roster
from fedgeom.data.cells import ReadOptions
from fedgeom.deploy.config import EngineName, check_loopback, check_name, quote, read_toml
from fedgeom.engines.nats.link import Endpoint, ServerAddress, environment_proxy, need_nats, new_seed, public_key
from fedgeom.errors import InputError
from fedgeom.federation.policy import DEVICE_VARIABLE, Policy, StrictPolicy
from fedgeom.storage import make_private, write_file, write_json, write_text


class TableConfig(ReadOptions, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What site.toml says of a table."""

    file: str
    label: str = ""
    """The column with the class of each row; "": ``outcome``, or ``time`` and ``event``, are there instead."""
    columns: str | list[str] | None = None
    drop_unlabelled: bool = False
    group: str = ""
    """The column with the patient of each row, or the like: no group stands on both sides of a holdout."""
    index: str = ""
    """The column with the names of the rows; it is no feature."""


class SiteConfig(TableConfig, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What site.toml says: of the usual table at its top."""

    name: str
    coordinator: str
    tables: dict[str, TableConfig] = {}
    """Other tables, by the names that jobs have for them."""
    engine: EngineName = "nats"
    certificate: str = "ca.pem"
    roster: str = "roster.json"
    insecure: bool = False
    approve: Literal["ask", "allow-listed methods", "any"] = "ask"
    """Which jobs the site answers: those that the steward approved, all of the methods in the policy, or any."""
    device: Literal["cpu", "cuda", "mps"] | None = None
    """Where networks are trained; None: as the environment says, otherwise on the processor."""
    notice: str = ""
    """A command to run, without a shell, when a job waits for approval."""
    policy: StrictPolicy = StrictPolicy()

    def table(self, name: str) -> TableConfig:
        """Return what is said of the table that a job names; ``""``: the usual one."""
        if name and name not in self.tables:
            raise InputError(
                f"the job is about the table {name!r}; site.toml has {', '.join(map(repr, self.tables)) or 'none'} "
                f"beside the usual one. Add [tables.{name}] with its file and label"
            )
        return self.tables[name] if name else self

    def lets_in(self, method: str) -> str:
        """Return the rule that lets in jobs of a method without the steward; nothing where he has to be asked."""
        listed = self.approve == "allow-listed methods" and method in self.policy.methods
        return self.approve if listed or self.approve == "any" else ""


class PublicLines(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a site sends to the coordinator once: its name and public keys, as a small JSON file."""

    name: str
    identity: Annotated[str, msgspec.Meta(pattern=r"\A([0-9a-f]{64}|[0-9a-f]{3968})\Z")]
    """Of Ed25519 and ML-DSA-65; of sites from before, of Ed25519 alone."""
    nats: Annotated[str, msgspec.Meta(pattern=r"\A(U[A-Z2-7]{55})?\Z")] = ""
    """The key by which a NATS server knows the site."""
    node: str = ""
    """In files of earlier releases; it is not used."""


SITE_TOML = """\
# A site of a fedgeom federation. This file and the keys beside it stay here.

name = {name}
file = {file}  # .csv, .tsv, .xlsx, .npz, .parquet or .h5ad; relative to this folder
label = {label}  # the column (or key) with the class of each row
# columns = ["age", "bmi"]     # the features; left out: all but the label
# index = "patient_id"         # the column with the names of the rows, which is no feature
# missing = [-9999, "k.A."]    # cells that mean: not measured
# rename = {{ Alter = "age" }}   # this and more on how the file is read: docs/files.md
# group = "patient"            # rows of one patient are tested, or learnt from, together; other tables: [tables.NAME]
coordinator = {coordinator}{insecure}
certificate = "ca.pem"         # from the coordinator: its certificate authority
roster = "roster.json"         # from the coordinator: the identities of all sites. Check them by telephone.
approve = "ask"                # "ask": answer what you approved (fedgeom site approve); "allow-listed methods":
                               # all jobs of the methods that the policy lists; "any": every job
# device = "cuda"              # where networks are trained: "cpu", "cuda" or "mps"
# notice = "notify-send 'a job waits'"  # a command to run when a job waits; FEDGEOM_TERMS has its hash

[policy]                       # what this site insists on; the coordinator cannot loosen it
{policy}"""


POLICY_NOTES = {
    "min_cohort": "take part only in sums over at least so many sites",
    "threshold": "so large a share of the sites must agree before anything is unmasked",
    "max_message_bytes": "the largest message to read or write",
    "methods": 'the methods to answer, such as ["hulls"]; empty: all',
    "runs_per_day": "in how many runs to take part in 24 hours",
    "secure_only": "show the coordinator no numbers of this site alone",
    "min_rows_per_class": "contribute only classes with at least so many rows here",
    "min_batch_size": "train with at least so many rows per step",
    "max_rounds": "join for at most so many rounds",
    "max_corner_share": "at most this share of a class's rows may become corners that others learn",
    "max_features": "sum the products of at most so many features (Ridge)",
    "min_rows_per_feature": "and only where all sites have so many rows for each feature",
    "sums_after_losses": "true: go on with sums over the others when a site is lost",
    "single_site_classes": "true: also sum classes that few sites or rows have",
    "min_sites": "otherwise: so many sites must have a class",
    "min_rows": "otherwise: so many rows must a class have in all",
    "require_privacy": "true: take part only in runs with differential privacy",
    "max_epsilon": "the privacy budget of all runs together (fedgeom site budget); 0: no limit",
    "budget_delta": "counted at this delta",
    "colluders": "noise must be enough though so many sites tell theirs",
    "max_memory_mb": "MB of memory that answering may take (on Linux); 0: no limit",
}
"""What site.toml says beside each setting of the policy."""


def policy_lines(policy: Policy) -> str:
    """Write a policy as the lines of a TOML table, each with a note."""
    lines = []
    for name in Policy.__struct_fields__:
        value = getattr(policy, name)
        shown = list(value) if name == "methods" else quote(value) if isinstance(value, str) else value
        text = f"{name} = {str(shown).lower() if isinstance(value, bool) else shown}"
        lines.append(f"{text:<30} # {POLICY_NOTES[name]}\n")
    return "".join(lines)


PRIVATE_FILES = (
    "identity.key", "nats.key", "site.toml", "ledger.jsonl", "budget.json", "budget.head", "site.log",
    "preview.png", "ca.pem", "roster.json",
)  # fmt: skip
"""The site's own files, which an earlier release, or the steward's hand, may have left open to others."""


def _check_servers(coordinator: str, insecure: bool) -> None:
    """Refuse what is no address of a coordinator, and without TLS any that is not on this machine."""
    for server in ServerAddress.read_all(coordinator):
        if insecure:
            check_loopback(server.host)


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
        _check_servers(coordinator, insecure)
        folder = cls(path.absolute())
        if folder.identity_file.exists():
            raise InputError(f"{path} already holds the identity of a site; choose another folder")
        need_nats()
        folder.close_to_others()
        write_file(folder.identity_file, Identity.generate().secret, private=True)
        if not folder.config_file.exists():
            text = SITE_TOML.format(
                name=quote(name),
                file=quote(file),
                label=quote(label),
                coordinator=quote(coordinator),
                insecure="\ninsecure = true                # no TLS; on this machine only" if insecure else "",
                policy=policy_lines(StrictPolicy()),
            )
            write_text(folder.config_file, text, private=True)
        folder.new_node_key(name)
        return folder

    def close_to_others(self) -> None:
        """Make the folder, or take others' rights from one that was there, and from what is the site's own in it."""
        make_private(self.path, PRIVATE_FILES)

    def new_node_key(self, name: str) -> None:
        """Make a new key for the connection; the identity stays. The public file has to be admitted again."""
        seed = new_seed()
        write_text(self.nats_key, seed + "\n", private=True)
        identity = self.identity().public.hex()
        lines = {"name": name, "identity": identity, "nats": public_key(seed)}
        write_json(self.public_file(name), lines)

    def public_file(self, name: str) -> Path:
        """Return where the lines are that go to the coordinator."""
        return self.path / f"{name}.pub"

    @property
    def identity_file(self) -> Path:
        """The secret keys, of Ed25519 and ML-DSA-65, that never leave the site."""
        return self.path / "identity.key"

    @property
    def config_file(self) -> Path:
        """The file that the steward edits."""
        return self.path / "site.toml"

    @property
    def nats_key(self) -> Path:
        """The key by which a NATS server knows the site."""
        return self.path / "nats.key"

    def endpoint(self) -> Endpoint:
        """Return where the coordinator's NATS server is, and how the site connects to it."""
        config = self.config()
        if not self.nats_key.is_file():
            raise InputError(
                f"{self.nats_key} is missing; make it with: fedgeom site init --name {config.name} --new-node-key "
                f"--folder {self.path}, and send {config.name}.pub to the coordinator"
            )
        seed = self.nats_key.read_text(encoding="utf-8").strip()
        certificate = None if config.insecure else self.path / config.certificate
        return Endpoint(ServerAddress.read_all(config.coordinator), seed, certificate, environment_proxy)

    def identity(self) -> Identity:
        """Read the site's identity."""
        if not self.identity_file.is_file():
            raise InputError(f"{self.path} is not a site's folder; make one with: fedgeom site init --name NAME")
        return Identity(self.identity_file.read_bytes())

    def config(self) -> SiteConfig:
        """Read and check site.toml."""
        config = read_toml(self.config_file, SiteConfig, "fedgeom site init --name NAME")
        check_name(config.name)
        _check_servers(config.coordinator, config.insecure)
        if config.approve == "allow-listed methods" and not config.policy.methods:
            raise InputError(
                f'{self.config_file}: approve = "allow-listed methods" is set, but [policy] lists none; name them, '
                'such as methods = ["hulls"], or set approve = "ask"'
            )
        return config

    def choose_device(self) -> None:
        """Let this process train networks where site.toml says."""
        device = self.config().device
        if device is not None:
            os.environ[DEVICE_VARIABLE] = device

    def roster(self) -> Roster:
        """Read the pinned roster."""
        file = self.path / self.config().roster
        if not file.is_file():
            raise InputError(
                f"the roster {file} is missing; ask the coordinator for roster.json and put it into {self.path}"
            )
        return Roster.load(file)
