"""Files that survive a crash, files that only their owner may read, and locks: one way to do each.

A file is written beside its place and then moved there, so that whoever reads it, and whoever comes after a crash,
finds the old content or the new one, never half of either. What is written beside has a name that nobody can guess or
share. Nothing is ever written through a link: one that stands where a file belongs is replaced. Private modes do not
depend on the umask.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
import sys
import time
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import numpy as np

from fedgeom.errors import InputError

if sys.platform != "win32":  # there, nothing keeps two processes apart
    import fcntl

PRIVATE_FOLDER = 0o700
PRIVATE_FILE = 0o600
USUAL_FILE = 0o666
DRAFT = ".part"
"""What the name of a file ends in while it is being written."""
NO_LINKS = getattr(os, "O_NOFOLLOW", 0)


def write_file(path: str | Path, data: bytes, *, private: bool = False, durable: bool = False) -> Path:
    """Write a file so that a crash leaves the old one or the new one; return its path.

    A ``private`` file is readable by its owner only and never exists with wider permissions, whatever stood there
    before. A ``durable`` one is on the disk, not only on its way there, when this returns.
    """
    target = Path(path)
    with replacing(target) as draft, os.fdopen(_create(draft, private=private), "wb") as file:
        file.write(data)
        if durable:
            file.flush()
            os.fsync(file.fileno())
    if durable and sys.platform != "win32":  # that the name now means the new file has to reach the disk too
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    return target


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Name a place beside a file to write to; what was written there takes the file's place when all went well.

    For libraries that write files themselves; `write_file` does the same with bytes.
    """
    target = Path(path)
    draft = target.with_name(f"{target.name}.{secrets.token_hex(8)}{DRAFT}")  # two writers never share one
    try:
        yield draft
        draft.replace(target)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def _create(path: Path, *, private: bool, flags: int = os.O_WRONLY) -> int:
    """Create a file that must not be there yet, a link included; return its handle."""
    mode = PRIVATE_FILE if private else USUAL_FILE
    handle = os.open(path, flags | os.O_CREAT | os.O_EXCL | NO_LINKS | getattr(os, "O_BINARY", 0), mode)
    if private:
        close_to_others(handle)
    return handle


def _open(path: str | Path, flags: int, *, private: bool) -> int:
    """Open a file, or create it; a link that stands there is replaced by a file."""
    try:
        mode = PRIVATE_FILE if private else USUAL_FILE
        handle = os.open(path, flags | os.O_CREAT | NO_LINKS | getattr(os, "O_BINARY", 0), mode)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.EMLINK) or not Path(path).is_symlink():
            raise
        Path(path).unlink()
        return _create(Path(path), private=private, flags=flags)
    if private:
        close_to_others(handle)
    return handle


def close_to_others(file: int | str | Path) -> None:
    """Take all rights but the owner's from an open file, or from a path where there is one; links are left alone."""
    if isinstance(file, int):
        if sys.platform != "win32" and stat.S_IMODE(os.fstat(file).st_mode) != PRIVATE_FILE:
            os.fchmod(file, PRIVATE_FILE)
        return
    path = Path(file)
    if path.is_file() and not path.is_symlink() and stat.S_IMODE(path.stat().st_mode) & 0o077:
        path.chmod(PRIVATE_FILE)


def open_new(path: str | Path) -> BinaryIO:
    """Return an empty private file to write to, unbuffered; whatever stood there is gone."""
    Path(path).unlink(missing_ok=True)
    return os.fdopen(_create(Path(path), private=True), "wb", buffering=0)


def open_to_append(path: str | Path) -> BinaryIO:
    """Return a private file to append to, unbuffered."""
    return os.fdopen(_open(path, os.O_WRONLY | os.O_APPEND, private=True), "ab", buffering=0)


def write_text(path: str | Path, text: str, *, private: bool = False) -> Path:
    """Write a text file in UTF-8, as `write_file` does."""
    return write_file(path, text.encode(), private=private)


def write_json(path: str | Path, content: Any, *, private: bool = False) -> Path:
    """Write JSON for people and programs, as `write_file` does; numpy's numbers and arrays are welcome."""
    return write_file(path, to_json(content), private=private)


def to_json(content: Any) -> bytes:
    """Return indented JSON; dictionaries have a fixed order, and their keys become text."""
    plain = msgspec.to_builtins(content, enc_hook=as_plain, str_keys=True, order="deterministic")
    return msgspec.json.format(msgspec.json.encode(plain)) + b"\n"


def as_plain(value: Any) -> Any:
    """Turn numpy scalars and arrays into what JSON knows."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    return str(value)


def append_line(path: str | Path, line: bytes, *, private: bool = False) -> None:
    """Append a line to a file; one that a crash cut off before it spoils itself only.

    A ``private`` file is readable by its owner only; one that was open to others is closed before the line is written.
    """
    handle = _open(path, os.O_RDWR | os.O_APPEND, private=private)
    with os.fdopen(handle, "ab+") as file:
        end = file.seek(0, os.SEEK_END)
        file.seek(max(end - 1, 0))
        cut = end > 0 and file.read(1) != b"\n"
        file.write((b"\n" if cut else b"") + line + b"\n")


def write_behind(path: str | Path, end: int, data: bytes) -> bool:
    """Write data into a private file from a byte on, which is then its end; it is on the disk when this returns.

    A crash leaves what stood before that byte. Return False, with nothing written, where a link stands there.
    """
    try:
        handle = os.open(path, os.O_WRONLY | NO_LINKS | getattr(os, "O_BINARY", 0))
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK):
            return False
        raise
    close_to_others(handle)
    with os.fdopen(handle, "wb") as file:
        file.truncate(end)
        file.seek(end)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    return True


def make_private_folder(path: str | Path) -> Path:
    """Make a folder that only its owner may enter; one that is there already is closed to others."""
    folder = Path(path)
    folder.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
    folder.chmod(PRIVATE_FOLDER)
    return folder


def make_private(folder: str | Path, files: Iterable[str] = ()) -> Path:
    """Make a private folder and close those of the named files to others that are in it."""
    made = make_private_folder(folder)
    for name in files:
        close_to_others(made / name)
    return made


MOST_UNPACKED = 100
"""A packed file may unpack to so many times its size; tables of measurements do to 2 to 60 times, bombs to 1,000."""
LEAST_UNPACKED = 256 * 2**20
"""Arrays of up to so many bytes are unpacked from any file."""


def check_unpacked(file: str | Path, size: int, *, least: int = LEAST_UNPACKED) -> None:
    """Refuse a packed file that unpacks to so many bytes that it was made to fill the memory."""
    packed = Path(file).stat().st_size
    if size > largest_unpacked(file, least=least):
        raise InputError(
            f"{file} has {packed:,} bytes and unpacks to {size:,} or more; wanted at most {MOST_UNPACKED} times as "
            f"many, or {least:,}: such a file may be made to fill the memory. If it is yours, save it unpacked"
        )


def largest_unpacked(file: str | Path, *, least: int = LEAST_UNPACKED) -> int:
    """Return how many bytes a packed file may unpack to."""
    return max(least, MOST_UNPACKED * Path(file).stat().st_size)


def check_archive(file: str | Path) -> None:
    """Refuse an .npz or other zip archive that unpacks to too much; what is no archive raises `InputError`, too."""
    try:
        with zipfile.ZipFile(file) as archive:
            size = sum(one.file_size for one in archive.infolist())  # nobody reads more of an entry than it says
    except (zipfile.BadZipFile, EOFError, NotImplementedError) as error:
        raise InputError(f"{file} cannot be read as an archive: {error}") from error
    check_unpacked(file, size)


LOCK_TRIES = 50
"""How often a lock is tried that is not to be waited for."""


class Lock:
    """A lock file, which the system releases when the process that holds it dies."""

    def __init__(self, path: str | Path):
        self.path = Path(path)
        self._file: Any = None

    def acquire(self, busy: str = "") -> None:
        """Take the lock; with ``busy`` do not wait for it, but raise `InputError` with that text."""
        if self._file is not None:
            return
        file = open_to_append(self.path)
        if sys.platform != "win32":
            try:
                self._take(file, wait=not busy)
            except BlockingIOError as error:
                file.close()
                raise InputError(busy) from error
        self._file = file

    @staticmethod
    def _take(file: BinaryIO, *, wait: bool) -> None:
        if wait:
            fcntl.flock(file, fcntl.LOCK_EX)
            return
        for tries_left in reversed(range(LOCK_TRIES)):
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if not tries_left:
                    raise
                time.sleep(0.01)  # perhaps somebody only looks whether it is held
            else:
                return

    def release(self) -> None:
        """Let another process have it."""
        if self._file is not None:
            if sys.platform != "win32":
                fcntl.flock(self._file, fcntl.LOCK_UN)  # a program just being started may have the file open, too
            self._file.close()
            self._file = None


@contextmanager
def locked(path: str | Path, busy: str = "") -> Iterator[None]:
    """Hold a lock file for a while; with ``busy``, raise `InputError` instead of waiting."""
    lock = Lock(path)
    lock.acquire(busy)
    try:
        yield
    finally:
        lock.release()


def is_locked(path: str | Path) -> bool:
    """Say whether a living process holds a lock file."""
    if sys.platform == "win32" or not Path(path).exists():
        return False
    with open_to_append(path) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)  # several may look at a time
        except BlockingIOError:
            return True
        fcntl.flock(file, fcntl.LOCK_UN)
        return False
