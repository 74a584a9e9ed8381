"""What a run keeps to go on after its process died: the same sites, secrets for their owner only, one process."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fedgeom.data.sites import SiteData
from fedgeom.engines.run import FOLDER, Memories, ResumeStore, check_same, hash_rows
from fedgeom.errors import InputError


def sites() -> list[SiteData]:
    return [SiteData(name, np.arange(4.0).reshape(2, 2), np.array(["x", "y"])) for name in "ab"]


def test_what_was_begun_is_found_again(tmp_path: Path) -> None:
    store = ResumeStore(tmp_path)
    begun = store.begin(sites())
    assert len(begun.run) == 32
    assert len({*begun.identities.values()}) == 2
    store.release()
    again = ResumeStore(tmp_path)
    assert again.find(sites()) == begun
    again.release()
    other = ResumeStore(tmp_path / "other")
    assert other.begin(sites()).run != begun.run
    other.release()


def test_secrets_are_their_owners_only(tmp_path: Path) -> None:
    store = ResumeStore(tmp_path)
    store.begin(sites())
    store.memories()["a"] = b"memory"
    assert stat.S_IMODE(store.folder.stat().st_mode) == 0o700
    files = [file for file in store.folder.iterdir() if file.name != "lock"]
    assert len(files) == 2
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    store.forget()
    assert not store.folder.exists()
    store.forget()


def changed(site: SiteData) -> list[SiteData]:
    """Return tables that differ from a site's, each in one thing."""
    X, y = site.X, site.y
    return [
        SiteData(site.name, X + 1e-12, y),
        SiteData(site.name, X[::-1], y),
        SiteData(site.name, X, y[::-1]),
        SiteData(site.name, X[:1], y[:1]),
        SiteData(site.name, X.reshape(4, 1), np.array(["x", "y", "x", "y"])),
    ]


def test_every_change_of_a_table_is_noticed() -> None:
    (first, second) = sites()
    assert hash_rows(first) == hash_rows(second)  # the name is kept beside it
    assert len({hash_rows(other) for other in [first, *changed(first)]}) == 6


def test_a_run_goes_on_with_the_rows_it_began_with(tmp_path: Path) -> None:
    store = ResumeStore(tmp_path)
    store.begin(sites())
    first, second = sites()
    for other in changed(first):
        with pytest.raises(InputError, match="began with other rows at a; give it the same sites"):
            store.find([other, second])
    with pytest.raises(InputError, match="began with other rows at b;"):
        store.find([first])
    with pytest.raises(InputError, match="began with other rows at a, b;"):
        store.find([])
    store.release()


def test_a_run_that_was_not_resumable_says_how_one_is(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="that is kept when a run begins with resumable=True"):
        ResumeStore(tmp_path).find(sites())


def test_damage_is_named(tmp_path: Path) -> None:
    store = ResumeStore(tmp_path)
    store.begin(sites())
    (store.folder / "begun").write_bytes(b"\xc1")
    with pytest.raises(InputError, match="begun is damaged"):
        store.find(sites())
    store.release()


def test_two_processes_do_not_go_on_with_one_run(tmp_path: Path) -> None:
    store = ResumeStore(tmp_path)
    store.begin(sites())
    program = (
        "import sys, numpy as np\n"
        "from fedgeom.data.sites import SiteData\n"
        "from fedgeom.engines.run import ResumeStore\n"
        "data = [SiteData(name, np.arange(4.0).reshape(2, 2), np.array(['x', 'y'])) for name in 'ab']\n"
        "ResumeStore(sys.argv[1]).find(data)\n"
    )
    asked = [sys.executable, "-c", program, str(tmp_path)]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    assert "is going on in another process" in done.stderr
    store.release()
    assert subprocess.run(asked, capture_output=True, check=False).returncode == 0


def test_memories_are_on_the_disk_before_they_are_used(tmp_path: Path) -> None:
    memories = Memories(tmp_path)
    names = ["a", "../b", "c/d", "ü" * 200]
    for name in names:
        memories[name] = name.encode()
        assert Memories(tmp_path)[name] == name.encode()
    memories["a"] = b"second"
    assert dict(Memories(tmp_path)) == {"a": b"second"} | {name: name.encode() for name in names[1:]}
    assert all(file.parent == tmp_path for file in tmp_path.rglob("*.memory"))


def test_a_memory_that_did_not_change_is_not_written_again(tmp_path: Path) -> None:
    memories = Memories(tmp_path)
    memories["a"] = b"same"
    (file,) = tmp_path.glob("*.memory")
    before = file.stat().st_ino
    memories["a"] = b"same"
    assert file.stat().st_ino == before
    memories["a"] = b"other"
    assert file.stat().st_ino != before


def test_everything_lies_in_one_folder(tmp_path: Path) -> None:
    store = ResumeStore(tmp_path)
    assert store.folder == tmp_path / FOLDER
    assert store.transcript.parent == store.folder


CONFIG = {"method": "hulls", "seed": 0, "engine": "embedded", "sites": {"a": {"rows": 2}}, "parameters": {"h": 3}}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"method": "moments"}, "has method = 'hulls'; 'moments' was given"),
        ({"seed": 1}, "has seed = 0; 1 was given"),
        ({"engine": "flower"}, "has engine = 'embedded'; 'flower' was given"),
        ({"sites": {}}, "has sites = {'a': {'rows': 2}}; {} was given"),
        ({"parameters": {"h": 4}}, "has h = 3; 4 was given"),
        ({"parameters": {}}, "has h = 3; None was given"),
        ({"parameters": {"h": 3, "C": 1.0}}, "has C = None; 1.0 was given"),
    ],
)
def test_other_settings_are_named(change: dict[str, object], message: str) -> None:
    check_same("run", CONFIG, {**CONFIG, "versions": "anything"})
    with pytest.raises(InputError) as caught:
        check_same("run", CONFIG, CONFIG | change)
    assert message in str(caught.value)


def test_a_sparse_table_is_hashed_as_it_is(monkeypatch):
    from scipy.sparse import csr_array

    X = np.array([[0.0, 2.0], [3.0, 0.0]])
    monkeypatch.setattr(SiteData, "X", property(lambda site: pytest.fail("it was made dense")))
    first = hash_rows(SiteData("a", csr_array(X), ["u", "v"]))
    assert first == hash_rows(SiteData("a", csr_array(X), ["u", "v"]))
    assert first != hash_rows(SiteData("a", csr_array(X[::-1]), ["u", "v"]))
    assert hash_rows(SiteData("a", X, ["u", "v"])) != hash_rows(SiteData("a", X[::-1], ["u", "v"]))
