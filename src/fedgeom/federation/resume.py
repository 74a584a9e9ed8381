"""What an embedded run keeps so that it can go on after its process died: the folder RUN/resume.

The coordinator's side is a `Transcript`. The sites' side, which in a deployment lies on the sites' own disks, lies
beside it here: their memories and identities, which hold all their secrets. So the folder is readable by its
owner only, is written only when asked for, and is deleted when the run is finished.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections import UserDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from fedgeom.crypto.keys import Identity
from fedgeom.data.sites import SiteData
from fedgeom.errors import InputError
from fedgeom.storage import Lock, make_private_folder, write_file

FOLDER = "resume"
ROWS_AT_ONCE = 65536
"""How many rows, or numbers of a sparse table, are hashed at once: copies stay small."""


class RunSeed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What must be the same when a run goes on: its number, the sites' secret signing keys, their tables."""

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
            write_file(file, msgspec.msgpack.encode((name, memory)), private=True)
        self.data[name] = memory


class ResumeStore:
    """The folder, and the lock on it."""

    def __init__(self, record: str | Path):
        self.folder = Path(record) / FOLDER
        self._lock = Lock(self.folder / "lock")

    @property
    def transcript(self) -> Path:
        """Where the coordinator's transcript lies."""
        return self.folder / "transcript.bin"

    def begin(self, sites: Sequence[SiteData]) -> RunSeed:
        """Write down who the sites are, for a new run."""
        make_private_folder(self.folder)
        self._hold()
        begun = RunSeed(
            os.urandom(32),
            {site.name: Identity.generate().secret for site in sites},
            {site.name: hash_rows(site) for site in sites},
        )
        write_file(self.folder / "begun", msgspec.msgpack.encode(begun), private=True)
        return begun

    def find(self, sites: Sequence[SiteData]) -> RunSeed:
        """Read who the sites were when the run began, and check that they have the same rows."""
        file = self.folder / "begun"
        if not file.is_file():
            raise InputError(
                f"{self.folder.parent} does not hold what it takes to resume the run; that is kept when a run begins "
                "with resumable=True"
            )
        self._hold()
        try:
            begun = msgspec.msgpack.decode(file.read_bytes(), type=RunSeed)
        except msgspec.DecodeError as error:
            raise InputError(f"{file} is damaged: {error}; the run has to start anew") from error
        here = {site.name: hash_rows(site) for site in sites}
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
        self._lock.acquire(f"the run in {self.folder.parent} is going on in another process")

    def release(self) -> None:
        """Let another process go on with the run."""
        self._lock.release()

    def forget(self) -> None:
        """Delete everything: the run is finished, and its secrets serve nothing more."""
        self.release()
        shutil.rmtree(self.folder, ignore_errors=True)


def hash_rows(site: SiteData) -> bytes:
    """Hash a site's table, as it came: nothing is made dense."""
    digest = hashlib.sha256(repr((site.shape, site.y.astype(str).tolist())).encode())
    if site.categories:
        digest.update(repr(sorted(site.categories.items())).encode())
    sparse = hasattr(site.table, "indptr")
    parts = (site.table.indptr, site.table.indices, site.table.data) if sparse else (site.table,)
    for part in parts:
        for start in range(0, len(part), ROWS_AT_ONCE):
            piece = part[start : start + ROWS_AT_ONCE]
            digest.update(piece.astype("<f8" if part is parts[-1] else "<i8").tobytes())
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
