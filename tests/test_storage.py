"""Files: the old content or the new one, for the owner only where that is wanted, and locks that die with a process."""

from __future__ import annotations

import fcntl
import json
import os
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from fedgeom import storage
from fedgeom.errors import InputError

WRITERS = {
    "file": lambda path, private: storage.write_file(path, b"new", private=private),
    "text": lambda path, private: storage.write_text(path, "new", private=private),
    "json": lambda path, private: storage.write_json(path, "new", private=private),
}


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(autouse=True)
def _wide_open():
    """Ask the system for nothing narrower: what is private is so by our own doing."""
    before = os.umask(0)
    yield
    os.umask(before)


class Crash(BaseException):
    """The process dies here."""


# --- a crash leaves the old file or the new one ---


@pytest.mark.parametrize("durable", [False, True])
def test_a_write_puts_the_content_there_and_nothing_beside_it(tmp_path, durable):
    file = tmp_path / "a"
    assert storage.write_file(str(file), b"one", durable=durable) == file
    assert storage.write_file(file, b"two", durable=durable).read_bytes() == b"two"
    assert list(tmp_path.iterdir()) == [file]


def crash(*_, **__):
    raise Crash


class BrokenPen:
    """A file into which half of the content goes."""

    def __init__(self, handle, _):
        self._handle = handle

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self._handle)

    def write(self, data):
        os.write(self._handle, data[: len(data) // 2])
        raise Crash


@pytest.mark.parametrize(
    "place", ["before the draft", "in the draft", "on the way to the disk", "before the move"]
)
@pytest.mark.parametrize("private", [False, True])
def test_a_crash_while_writing_leaves_the_old_file_and_the_next_write_works(tmp_path, monkeypatch, place, private):
    file = tmp_path / "a"
    storage.write_file(file, b"the old content")
    with monkeypatch.context() as broken:
        where = {
            "before the draft": (storage.os, "open", crash),
            "in the draft": (storage.os, "fdopen", BrokenPen),
            "on the way to the disk": (storage.os, "fsync", crash),
            "before the move": (Path, "replace", crash),
        }[place]
        broken.setattr(*where)
        with pytest.raises(Crash):
            storage.write_file(file, b"something new", private=private, durable=True)
    assert file.read_bytes() == b"the old content"
    storage.write_file(file, b"something new", private=private)
    assert file.read_bytes() == b"something new"
    assert list(tmp_path.iterdir()) == [file]


def test_a_crash_while_the_first_version_is_written_leaves_no_file(tmp_path, monkeypatch):
    with monkeypatch.context() as broken:
        broken.setattr(storage.os, "fdopen", BrokenPen)
        with pytest.raises(Crash):
            storage.write_file(tmp_path / "a", b"content")
    assert not (tmp_path / "a").exists()


def test_durable_content_is_on_the_disk_before_it_gets_its_name_and_the_name_before_it_returns(
    tmp_path, monkeypatch
):
    done, move = [], Path.replace
    monkeypatch.setattr(storage.os, "fsync", lambda handle: done.append(stat.S_ISDIR(os.fstat(handle).st_mode)))
    monkeypatch.setattr(Path, "replace", lambda self, target: done.append("move") or move(self, target))
    storage.write_file(tmp_path / "a", b"x", durable=True)
    assert done == [False, "move", True]


# --- only the owner may read ---


@pytest.mark.parametrize("writer", WRITERS)
def test_private_files_are_never_wider_whatever_stood_there(tmp_path, monkeypatch, writer):
    """Looked at in the moment between writing and moving, and afterwards."""
    outside, seen, move = tmp_path / "outside", [], Path.replace
    outside.write_bytes(b"another's")
    monkeypatch.setattr(Path, "replace", lambda self, target: seen.append(mode(self)) or move(self, target))
    stood: dict[str, object] = {
        "nothing": lambda file: None,
        "a wide file": lambda file: file.write_bytes(b"wide"),
        "a link": lambda file: file.symlink_to(outside),
        "a wide draft": lambda file: file.with_name(file.name + storage.DRAFT).write_bytes(b"wide"),
        "a linked draft": lambda file: file.with_name(file.name + storage.DRAFT).symlink_to(outside),
    }
    for name, put in stood.items():
        file = tmp_path / name
        put(file)
        WRITERS[writer](file, True)
        assert mode(file) == 0o600, name
        assert not file.is_symlink(), name
        assert b"new" in file.read_bytes(), name
    assert seen == [0o600] * len(stood)
    assert (outside.read_bytes(), mode(outside)) == (b"another's", 0o666)


def test_a_link_under_the_name_of_a_draft_is_not_written_through_even_if_it_was_guessed(tmp_path, monkeypatch):
    outside = tmp_path / "outside"
    outside.write_bytes(b"another's")
    monkeypatch.setattr(storage.secrets, "token_hex", lambda size: "guessed")
    (tmp_path / f"a.guessed{storage.DRAFT}").symlink_to(outside)
    with pytest.raises(FileExistsError):
        storage.write_file(tmp_path / "a", b"secret", private=True)
    assert outside.read_bytes() == b"another's"


def test_a_link_that_is_put_there_in_the_last_moment_is_not_written_through(tmp_path, monkeypatch):
    outside, remove = tmp_path / "outside", Path.unlink
    outside.write_bytes(b"another's")

    def remove_and_lose_the_race(self, missing_ok=False):
        remove(self, missing_ok)
        self.symlink_to(outside)

    monkeypatch.setattr(Path, "unlink", remove_and_lose_the_race)
    with pytest.raises(FileExistsError):
        storage.open_new(tmp_path / "a")
    assert outside.read_bytes() == b"another's"


def test_links_are_replaced_by_files_and_never_written_through(tmp_path):
    outside = tmp_path / "outside"
    outside.write_bytes(b"another's")
    ways = {
        "appended": lambda file: storage.append_line(file, b"mine", private=True),
        "begun": lambda file: storage.open_new(file).close(),
        "went on": lambda file: storage.open_to_append(file).close(),
        "locked": lambda file: storage.Lock(file).acquire("busy"),
    }
    for name, write in ways.items():
        for target in (outside, tmp_path / "nowhere"):
            file = tmp_path / name
            file.unlink(missing_ok=True)
            file.symlink_to(target)
            write(file)
            assert not file.is_symlink(), name
            assert mode(file) == 0o600, name
    assert (outside.read_bytes(), mode(outside)) == (b"another's", 0o666)
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("umask", [0, 0o022, 0o077, 0o377])
def test_private_modes_do_not_depend_on_the_umask(tmp_path, umask):
    os.umask(umask)
    folder = storage.make_private_folder(tmp_path / "folder")
    storage.write_file(folder / "written", b"", private=True)
    storage.append_line(folder / "appended", b"", private=True)
    storage.open_new(folder / "begun").close()
    storage.open_to_append(folder / "went on").close()
    assert mode(folder) == 0o700
    assert {mode(file) for file in folder.iterdir()} == {0o600}


def test_two_writers_of_one_file_do_not_share_a_draft(tmp_path, monkeypatch):
    """Two processes that answer at the same moment each leave a whole file."""
    drafts, move = [], Path.replace
    monkeypatch.setattr(Path, "replace", lambda self, target: drafts.append(self.name) or move(self, target))

    def write(letter):
        for _ in range(50):
            storage.write_file(tmp_path / "a", letter * 100_000)

    threads = [threading.Thread(target=write, args=(letter,)) for letter in (b"a", b"b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(drafts)) == 100
    assert (tmp_path / "a").read_bytes() in (b"a" * 100_000, b"b" * 100_000)
    assert [file.name for file in tmp_path.iterdir()] == ["a"]


def test_what_was_open_to_others_is_closed(tmp_path):
    (tmp_path / "wide").write_bytes(b"")
    (tmp_path / "link").symlink_to(tmp_path / "other")
    (tmp_path / "other").write_bytes(b"")
    storage.make_private(tmp_path, ["wide", "link", "missing"])
    assert (mode(tmp_path), mode(tmp_path / "wide"), mode(tmp_path / "other")) == (0o700, 0o600, 0o666)


@pytest.mark.parametrize("writer", WRITERS)
def test_other_files_follow_the_umask(tmp_path, writer):
    os.umask(0o022)
    WRITERS[writer](tmp_path / "a", False)
    assert mode(tmp_path / "a") == 0o644


def test_private_folders_are_closed_also_when_they_were_there(tmp_path):
    wide, inner, link = tmp_path / "wide", tmp_path / "new" / "inner", tmp_path / "link"
    wide.mkdir()
    link.symlink_to(wide)
    assert mode(wide) == 0o777
    assert storage.make_private_folder(str(inner)) == inner
    storage.make_private_folder(link)
    assert mode(inner) == mode(wide) == 0o700
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(FileExistsError):
        storage.make_private_folder(tmp_path / "file")


# --- appending ---


def test_lines_are_appended_and_a_line_that_was_cut_off_spoils_itself_only(tmp_path):
    file = tmp_path / "log"
    storage.append_line(file, b"one")
    with file.open("ab") as half:
        half.write(b"tw")
    storage.append_line(file, b"three")
    storage.append_line(file, b"four")
    assert file.read_bytes() == b"one\ntw\nthree\nfour\n"


def test_private_lines(tmp_path):
    for name in ("new", "wide"):
        file = tmp_path / name
        if name == "wide":
            file.write_bytes(b"0\n")
        storage.append_line(file, b"1", private=True)
        assert mode(file) == 0o600
    storage.append_line(tmp_path / "usual", b"1")
    assert mode(tmp_path / "usual") == 0o666


# --- JSON ---


def test_json_knows_numpy_keeps_an_order_and_ends_with_a_line(tmp_path):
    content = {"b": np.float64(0.5), "a": np.array([[1, 2], [3, 4]]), "c": Path("x"), "d": np.int8(3)}
    text = storage.write_json(tmp_path / "a", content).read_bytes()
    assert json.loads(text) == {"a": [[1, 2], [3, 4]], "b": 0.5, "c": "x", "d": 3}
    assert text == storage.to_json(dict(reversed(content.items())))
    assert text.endswith(b"}\n")
    assert text.index(b'"a"') < text.index(b'"b"')


# --- locks ---

HOLD = """
import sys, time
from fedgeom import storage
with storage.locked(sys.argv[1], "busy"):
    print("held", flush=True)
    time.sleep(3600)
"""


def test_a_lock_keeps_another_process_out_until_that_one_dies(tmp_path):
    lock = tmp_path / "lock"
    assert not storage.is_locked(lock)
    assert not lock.exists()
    with subprocess.Popen([sys.executable, "-c", HOLD, str(lock)], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        assert storage.is_locked(lock)
        with pytest.raises(InputError, match=r"^it is being used$"), storage.locked(lock, "it is being used"):
            pass
        other.kill()  # without any clean-up
        other.wait()
        with storage.locked(lock, "busy"):
            assert storage.is_locked(lock)
    assert not storage.is_locked(lock)


def test_whoever_only_looks_whether_a_lock_is_held_takes_it_from_nobody(tmp_path, monkeypatch):
    lock = tmp_path / "lock"
    pauses = []
    with lock.open("ab") as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)
        assert not storage.is_locked(lock)
        monkeypatch.setattr(
            storage.time, "sleep", lambda seconds: (pauses.append(seconds), fcntl.flock(looking, fcntl.LOCK_UN))
        )
        with storage.locked(lock, "busy"):
            assert storage.is_locked(lock)
    assert len(pauses) == 1


def test_a_lock_is_free_though_a_program_that_was_just_started_has_its_file_open(tmp_path):
    lock = storage.Lock(tmp_path / "lock")
    lock.acquire("busy")
    inherited = os.dup(lock._file.fileno())
    lock.release()
    assert not storage.is_locked(lock.path)
    os.close(inherited)


def test_without_a_text_one_waits(tmp_path):
    lock, order = tmp_path / "lock", []

    def second():
        with storage.locked(lock):
            order.append("second")

    with storage.locked(lock):
        thread = threading.Thread(target=second)
        thread.start()
        time.sleep(0.1)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]


def test_a_lock_is_released_when_its_holder_fails(tmp_path):
    def fail():
        with storage.locked(tmp_path / "lock", "busy"):
            raise ValueError

    with pytest.raises(ValueError):
        fail()
    assert not storage.is_locked(tmp_path / "lock")


def test_taking_a_lock_twice_and_releasing_it_twice_is_no_harm(tmp_path):
    lock = storage.Lock(tmp_path / "lock")
    lock.acquire("busy")
    lock.acquire("busy")
    assert storage.is_locked(lock.path)
    lock.release()
    lock.release()
    assert not storage.is_locked(lock.path)


def test_what_a_library_writes_takes_the_place_of_a_file_only_when_all_went_well(tmp_path):
    target = tmp_path / "a.bin"
    target.write_text("old")

    def write(content):
        with storage.replacing(target) as draft:
            draft.write_text(content[:2])
            assert (draft.parent, target.read_text()) == (target.parent, "old")
            if len(content) > 3:
                raise RuntimeError("the disk is full")
            draft.write_text(content)

    with pytest.raises(RuntimeError, match="full"):
        write("long")
    assert (target.read_text(), list(tmp_path.iterdir())) == ("old", [target])
    write("new")
    assert (target.read_text(), list(tmp_path.iterdir())) == ("new", [target])
