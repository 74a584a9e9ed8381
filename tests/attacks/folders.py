"""Deployed sites: folders, files, the ledger that a steward reads, and approval."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

import fedgeom
from fedgeom.deploy import answers
from fedgeom.deploy.config import check_name
from fedgeom.deploy.journal import Journal
from fedgeom.deploy.site import describe
from fedgeom.deploy.site_folder import SiteFolder
from fedgeom.errors import DecodeError, FedgeomError
from fedgeom.federation.messages import Message, Refusal, pack, pack_body, unpack
from fedgeom.federation.policy import Policy
from fedgeom.protocols.join.messages import Hello, PublicKeys
from fedgeom.protocols.site import SummingSite
from tests.attacks.playing import Attack, Learnt, Liar, patients, refused, replace
from tests.attacks.zooming import discs
from tests.deploy.making import make_coordinator

NAMES = {"s000": "anna", "s001": "bert", "s002": "carl"}


@contextlib.contextmanager
def federation(approve: str = "ask") -> Iterator[dict[str, SiteFolder]]:
    """Make the folders of three sites, as strict as new ones are, in a place that others may look into."""
    before = os.umask(0o022)
    try:
        with tempfile.TemporaryDirectory() as name:
            root = Path(name)
            (root / "anna").mkdir(mode=0o755)
            coordinator = make_coordinator(root / "coordinator")
            sites = {}
            for site in discs(rows=60, scale=0.15):
                name = NAMES[site.name]
                np.savez(root / f"{name}.npz", X=site.X, y=site.y)
                sites[name] = SiteFolder.create(
                    root / name, name, coordinator.address(), file=str(root / f"{name}.npz"), label="y"
                )
                text = sites[name].config_file.read_text()
                assert 'approve = "ask" ' in text
                sites[name].config_file.write_text(text.replace('approve = "ask" ', f'approve = "{approve}" '))
                coordinator.admit(sites[name].public_file(name))
            for folder in sites.values():
                shutil.copy(coordinator.roster_file, folder.path)
                shutil.copy(coordinator.path / "ca.pem", folder.path)
            yield sites
    finally:
        os.umask(before)


class Said(NamedTuple):
    """What a deployed site answers, as a coordinator sees it."""

    kind: str
    reason: str

    @property
    def joined(self) -> bool:
        """Whether the site has shown its keys."""
        return self.kind == PublicKeys.kind


def ask(folder: SiteFolder, question: Message, method: str, run: bytes) -> Said:
    """Put a question to a deployed site, through its folder."""
    reply = answers.answer(folder, pack(run, method, question))
    frame = unpack(reply)
    return Said(frame.kind, str(msgspec.msgpack.decode(frame.body).get("reason", "")))


def invitation(way: Any, **changes: Any) -> Hello:
    """Return the invitation to a method's run, or one that differs from it."""
    planned = way.site.all_sums(way)
    return replace(Hello(rounds=len(planned), terms=way.terms(), participants=tuple(NAMES.values())), **changes)


def invitations_as_an_oracle(method: str, policy: Policy, quick: bool) -> Learnt:
    """Invite a site to run after run, each on another radius, and see by its refusals how far out its rows lie."""
    with federation() as sites:
        anna = sites["anna"]
        farthest = float(np.linalg.norm(answers.read_data(anna).X, axis=1).max())
        low, high, told = 0.0, 0.999, []
        for _ in range(30 if quick else 60):
            middle = (low + high) / 2
            way = fedgeom.Hulls(radius=middle, capacity=50, n_classes=2)
            said = ask(anna, invitation(way), "hulls", os.urandom(32))
            told.append(said)
            low, high = (low, middle) if said.joined else (middle, high)
        off = abs((low + high) / 2 - farthest)
        kinds = len(set(told))
    near = off < 1e-4
    return Learnt(f"the farthest row's norm to {off:.1g}; {kinds} kinds of answers", near)


def unapproved(method: str, policy: Policy, quick: bool) -> Learnt:
    """Invite a real site to a job that its steward has not seen."""
    ways: dict[str, Any] = {"hulls": fedgeom.Hulls(), "moments": fedgeom.Moments(), "fedavg": fedgeom.FedAvg()}
    with federation() as sites:
        said = ask(sites["anna"], invitation(ways[method]), method, os.urandom(32))
    if not said.joined:
        return refused(said.reason or f"the site answers {said.kind!r}, and nothing more")
    return Learnt("the site's keys, and everything after them", True)


def forged_lines(method: str, policy: Policy, quick: bool) -> Learnt:
    """Ask a question whose kind blanks the steward's terminal and writes a harmless line in its place."""
    kind = "x\x1b[2J\x1b[H\r\n00:00 nothing was asked\x1b]0;\x07\u202e"
    with federation() as sites:
        anna = sites["anna"]
        with contextlib.suppress(FedgeomError):
            answers.answer(anna, pack_body(bytes(32), "hulls", kind, b""))
        shown = "".join(describe(entry) for entry in Journal(anna.path).entries())
        log = (anna.path / "ledger.jsonl").read_text() if (anna.path / "ledger.jsonl").exists() else ""
    raw = [char for char in shown + log.replace("\n", "") if not char.isprintable()]
    lines = [line for line in shown.splitlines()[1:] if line.startswith("00:00")]
    return Learnt(f"{len(raw)} raw control characters, {len(lines)} forged lines", bool(raw or lines))


def forged_reasons(method: str, policy: Policy, quick: bool) -> Learnt:
    """Let a site refuse in words that blank the coordinator's terminal."""
    way = fedgeom.Moments(space="euclidean", classes=("no", "yes"))
    liar = Liar(way, patients(4), policy)
    evil = "x\x1b[2J\r\nall sites answered\x07"
    runner = liar.engine.runners["s000"]
    runner.answer = lambda request, memory: (  # type: ignore[method-assign]
        pack(liar.run, way.name, Refusal(reason=evil)),
        b"",
    )
    heard: list[str] = []
    liar.talk.listeners.append(lambda event: heard.append(event.detail))
    with contextlib.suppress(FedgeomError):
        liar.join()
    raw = [char for text in heard for char in text if not char.isprintable()]
    return Learnt(f"{len(raw)} raw control characters", bool(raw))


def names(method: str, policy: Policy, quick: bool) -> Learnt:
    """Take a name that ends in a line end, or turns the writing around."""
    taken = []
    for name in ("anna\n", "anna\r", "anna\x1b[2J", "anna\u202e", "../anna", "anna/..", "an na"):
        with contextlib.suppress(FedgeomError):
            check_name(name)
            taken.append(name)
    for name in ("anna\n", "anna\x1b[2J"):
        with contextlib.suppress(DecodeError):
            unpack(pack_body(bytes(32), name, "join.hello", b""))
            taken.append(f"method {name!r}")
    return Learnt(f"{len(taken)} of 9 odd names are taken: {taken}" if taken else "0 of 9 odd names", bool(taken))


PUBLIC = (".pub", ".pem", ".npz")
"""Public keys and certificates; the data file is the steward's own."""


def open_files(method: str, policy: Policy, quick: bool) -> Learnt:
    """Look into a site's folder, a coordinator's and a record from another account."""
    with federation("any") as sites:
        anna = sites["anna"]
        with contextlib.suppress(FedgeomError):
            ask(anna, invitation(fedgeom.Moments()), "moments", os.urandom(32))
        record = anna.path.parent / "record"
        fedgeom.run(fedgeom.Moments(space="euclidean"), patients(3), record=record)
        found = [*_open_to_others(anna.path), *_open_to_others(record)]
    return Learnt(f"{len(found)} files open to others {', '.join(found[:3])}".strip(), bool(found))


def _open_to_others(folder: Path) -> list[str]:
    if not folder.stat().st_mode & 0o011 and not folder.stat().st_mode & 0o044:
        return []  # nobody else can enter it
    return [
        str(file.relative_to(folder.parent))
        for file in folder.rglob("*")
        if file.is_file()
        and not file.name.endswith(PUBLIC)
        and file.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH)
    ]


def links(method: str, policy: Policy, quick: bool) -> Learnt:
    """Put links where a site writes, and have it write into another file of its steward's."""
    with federation("any") as sites:
        anna = sites["anna"]
        other = anna.path.parent / "diary.txt"
        other.write_text("dear diary\n")
        (anna.path / "memory").mkdir(exist_ok=True)
        for name in ("ledger.jsonl", "memory/lock"):
            (anna.path / name).unlink(missing_ok=True)
            (anna.path / name).symlink_to(other)
        with contextlib.suppress(FedgeomError, OSError):
            ask(anna, invitation(fedgeom.Moments()), "moments", os.urandom(32))
        changed = other.read_text() != "dear diary\n"
    return Learnt(f"a file elsewhere was {'written to' if changed else 'not touched'}", changed)


def no_line(method: str, policy: Policy, quick: bool) -> Learnt:
    """Ask something that kills the answering process; is it in the site's ledger?"""
    with federation("any") as sites:
        anna = sites["anna"]
        before = SummingSite.answer

        def killed(self: Any, question: Any) -> Any:
            raise SystemExit("killed in the middle")

        SummingSite.answer = killed  # type: ignore[method-assign]
        try:
            with contextlib.suppress(SystemExit, FedgeomError):
                ask(anna, invitation(fedgeom.Moments()), "moments", os.urandom(32))
        finally:
            SummingSite.answer = before  # type: ignore[method-assign]
        lines = len(Journal(anna.path).entries())
    return Learnt(f"{lines} line{'s' * (lines != 1)} in the ledger", lines == 0)


def too_many_runs(method: str, policy: Policy, quick: bool) -> Learnt:
    """Invite a site to more runs than its policy allows in a day."""
    with federation("any") as sites:
        answered = 0
        for _ in range(25):
            answered += ask(sites["anna"], invitation(fedgeom.Moments()), "moments", os.urandom(32)).joined
    return Learnt(f"{answered} of 25 invitations taken where 20 are allowed", answered > 20)


ATTACKS = (
    Attack(
        "a job that no steward approved",
        ("hulls", "moments", "fedavg"),
        "there was no approval: all terms were the coordinator's",
        unapproved,
    ),
    Attack("invitations as an oracle", ("hulls",), "not tried", invitations_as_an_oracle),
    Attack("more runs than allowed", ("moments",), "held", too_many_runs),
    Attack(
        "control characters at the steward's",
        ("hulls",),
        "a question's kind reached terminal and ledger raw: a liar could blank the audit trail",
        forged_lines,
    ),
    Attack(
        "control characters at the coordinator's",
        ("moments",),
        "refusal reasons reached the terminal raw",
        forged_reasons,
        "permissive",
    ),
    Attack("odd names", ("all",), 'the name "anna\\n" passed', names),
    Attack(
        "files that others can read",
        ("moments",),
        "a folder that existed stayed 0755 with a 0644 ledger; run records were 0644",
        open_files,
    ),
    Attack("links where a site writes", ("moments",), "private files followed links", links),
    Attack("a question that leaves no line", ("moments",), "a question that raised left no line", no_line),
)
