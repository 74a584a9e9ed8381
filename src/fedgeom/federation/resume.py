"""What an embedded run keeps so that it can go on after its process died: the folder RUN/resume.

The coordinator's side is a `Transcript`. The sites' side, which in a deployment lies on the sites' own disks, lies
beside it here: their memories and identities, which hold all their secrets. So the folder is readable by its
owner only, is written only when asked for, and is deleted when the run is finished.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from collections import UserDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import msgspec

from fedgeom.crypto.keys import Identity
from fedgeom.data.sites import SiteData
from fedgeom.errors import InputError

if sys.platform != "win32":  # there, nothing keeps two processes from resuming one run at once
    import fcntl

FOLDER = "resume"


class Begun(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What must be the same when a run goes on."""

    run: bytes
    identities: dict[str, bytes]
    """The sites' secret signing keys."""
    rows: dict[str, bytes]
    """A hash of each site's table."""


class Memories(UserDict[str, bytes]):
    """The sites' memories, each written to disk before the answer that goes with it is used."""

    def __init__(self, folder: Path):
        super().__init__()
        self._folder = folder
        for file in sorted(folder.glob("*.memory")):
            name, memory = msgspec.msgpack.decode(file.read_bytes(), type=tuple[str, bytes])
            self.data[name] = memory

    def __setitem__(self, name: str, memory: bytes) -> None:
        if self.data.get(name) != memory:
            file = self._folder / f"{hashlib.sha256(name.encode()).hexdigest()[:32]}.memory"
            _write_private(file, msgspec.msgpack.encode((name, memory)))
        self.data[name] = memory


class Safe:
    """The folder, and the lock on it."""

    def __init__(self, record: str | Path):
        self.folder = Path(record) / FOLDER
        self._lock: IO[bytes] | None = None

    @property
    def transcript(self) -> Path:
        """Where the coordinator's transcript lies."""
        return self.folder / "transcript.bin"

    def begin(self, sites: Sequence[SiteData]) -> Begun:
        """Write down who the sites are, for a new run."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._hold()
        begun = Begun(
            os.urandom(32),
            {site.name: Identity.generate().secret for site in sites},
            {site.name: print_of_rows(site) for site in sites},
        )
        _write_private(self.folder / "begun", msgspec.msgpack.encode(begun))
        return begun

    def find(self, sites: Sequence[SiteData]) -> Begun:
        """Read who the sites were when the run began, and check that they have the same rows."""
        file = self.folder / "begun"
        if not file.is_file():
            raise InputError(
                f"{self.folder.parent} does not hold what it takes to resume the run; that is kept when a run begins "
                "with resumable=True"
            )
        self._hold()
        try:
            begun = msgspec.msgpack.decode(file.read_bytes(), type=Begun)
        except msgspec.DecodeError as error:
            raise InputError(f"{file} is damaged: {error}; the run has to start anew") from error
        here = {site.name: print_of_rows(site) for site in sites}
        odd = sorted(name for name in {*here, *begun.rows} if here.get(name) != begun.rows.get(name))
        if odd:
            raise InputError(
                f"the run in {self.folder.parent} began with other rows at {', '.join(odd)}; give it the same sites"
            )
        return begun

    def memories(self) -> Memories:
        """Return the sites' memories."""
        return Memories(self.folder)

    def _hold(self) -> None:
        """Take the lock, which the system releases when the process dies."""
        if self._lock is not None:
            return
        lock = (self.folder / "lock").open("ab")
        if sys.platform != "win32":
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                lock.close()
                raise InputError(f"the run in {self.folder.parent} is going on in another process") from error
        self._lock = lock

    def release(self) -> None:
        """Let another process go on with the run."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def forget(self) -> None:
        """Delete everything: the run is finished, and its secrets serve nothing more."""
        self.release()
        shutil.rmtree(self.folder, ignore_errors=True)


def print_of_rows(site: SiteData) -> bytes:
    """Hash a site's table."""
    digest = hashlib.sha256(repr((site.X.shape, site.y.astype(str).tolist())).encode())
    digest.update(site.X.astype("<f8").tobytes())
    return digest.digest()


def check_same(record: str | Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Refuse to resume a run with other settings, naming one that differs."""
    for name in ("method", "seed", "engine", "sites"):
        if before.get(name) != now.get(name):
            raise InputError(f"the run in {record} has {name} = {before.get(name)!r}; {now.get(name)!r} was given")
    old, new = before.get("parameters", {}), now.get("parameters", {})
    for name in sorted({*old, *new}):
        if old.get(name) != new.get(name):
            raise InputError(f"the run in {record} has {name} = {old.get(name)!r}; {new.get(name)!r} was given")


def _write_private(file: Path, data: bytes) -> None:
    """Write a file that only its owner may read, so that a crash leaves the old one or the new one."""
    draft = file.with_suffix(".part")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "wb") as out:
        out.write(data)
    draft.replace(file)
