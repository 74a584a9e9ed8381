"""A run's folder is written as it happens, so that one can read it whenever the run was cut off."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedgeom.errors import InputError
from fedgeom.federation.coordinator import Event
from fedgeom.federation.ledger import LedgerEntry
from fedgeom.federation.record import (
    FORMAT,
    RunRecord,
    SiteResult,
    Status,
    file_name,
    read_folder,
    read_status,
    versions,
    write_site_result,
    write_status,
)

CONFIG: dict[str, Any] = {"method": "some", "parameters": {"a": np.float64(0.5), "b": None}, "seed": 3}
ENTRY = LedgerEntry(step=1, site="a", kind="k", bytes=10, received=5, reveals="nothing")


def written(folder: Path) -> RunRecord:
    log = RunRecord(folder, CONFIG)
    log.enter(ENTRY)
    log.event(Event(1, "k", "a", "answered"))
    log.metric("sites", np.int64(3))
    log.metric("loss", np.array([0.5, 0.25]))
    return log


def test_a_folder_can_be_read_while_the_run_goes_on_and_after(tmp_path: Path) -> None:
    log = written(tmp_path)
    for state in ("running", "finished"):
        if state == "finished":
            log.finish()
        content = read_folder(tmp_path)
        assert content["config"] == {
            "format": FORMAT,
            "method": "some",
            "parameters": {"a": 0.5, "b": None},
            "seed": 3,
        }
        assert content["versions"] == versions()
        assert content["status"]["state"] == read_status(tmp_path).state == state
        assert content["metrics"] == {"sites": 3, "loss": [0.5, 0.25]}
        assert content["ledger"].entries == [ENTRY]
    lines = (tmp_path / "events.jsonl").read_text().splitlines()
    line = json.loads(lines[0])
    assert 0 <= line.pop("seconds") < 60
    assert line == {"step": 1, "kind": "k", "site": "a", "state": "answered", "detail": ""}


def test_a_folder_cut_off_in_any_line_is_still_read(tmp_path: Path) -> None:
    written(tmp_path)
    for name in ("metrics.jsonl", "ledger.jsonl"):
        whole = (tmp_path / name).read_bytes()
        for cut in range(len(whole)):
            (tmp_path / name).write_bytes(whole[:cut])
            read_folder(tmp_path)
        (tmp_path / name).write_bytes(whole)
    (tmp_path / "metrics.jsonl").write_bytes(b'{"metric": "sites", "value": 3}\n{"metric": "\xff"}\n')
    assert read_folder(tmp_path)["metrics"] == {"sites": 3}


def test_a_folder_holds_one_run(tmp_path: Path) -> None:
    written(tmp_path).finish()
    with pytest.raises(InputError, match="already holds a run"):
        RunRecord(tmp_path, CONFIG)
    assert read_status(tmp_path).state == "finished"
    resumed = RunRecord(tmp_path, CONFIG, resume=True)  # the answers are replayed, so everything is written anew
    assert read_status(tmp_path).state == "running"
    assert len(read_folder(tmp_path)["ledger"]) == 0
    resumed.finish("failed", "too few sites")
    assert read_status(tmp_path) == Status("failed", "too few sites", read_status(tmp_path).time)


def test_a_folder_that_is_none_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere is not a run folder \(it has no config.json\)"):
        read_folder(tmp_path / "nowhere")


def test_a_status_that_was_never_written_or_is_broken_says_submitted(tmp_path: Path) -> None:
    assert read_status(tmp_path).state == "submitted"
    for broken in (b"", b"{", b'"\xff"', b'{"state": "\xff"}', b'{"state": 3}', b"[]"):
        (tmp_path / "status.json").write_bytes(broken)
        assert read_status(tmp_path) == Status()
    write_status(tmp_path / "new", "running", "on its way")
    found = read_status(tmp_path / "new")
    assert (found.state, found.detail) == ("running", "on its way")
    assert found.time.endswith("+00:00")


def test_models_and_arrays_are_kept(tmp_path: Path) -> None:
    log = RunRecord(tmp_path, CONFIG)
    log.model(b"last")
    log.keep("rounds/0003", b"third")
    log.artifacts({})
    assert not (tmp_path / "artifacts.npz").exists()
    log.artifacts({"bins": np.arange(3)})
    assert (tmp_path / "model.safetensors").read_bytes() == b"last"
    assert (tmp_path / "rounds" / "0003.safetensors").read_bytes() == b"third"
    assert np.load(tmp_path / "artifacts.npz")["bins"].tolist() == [0, 1, 2]


def test_a_sites_result_is_its_file_and_its_model_beside_it(tmp_path: Path) -> None:
    found = {"names": {"a": 0}, "rows": 12, "fits": np.float64(0.5)}
    RunRecord(tmp_path, CONFIG).sites({"one": SiteResult("one", found, b"model"), "two": SiteResult("two", {})})
    assert json.loads((tmp_path / "sites" / "one.json").read_bytes()) == {"site": "one", **found}
    assert (tmp_path / "sites" / "one.safetensors").read_bytes() == b"model"
    assert json.loads((tmp_path / "sites" / "two.json").read_bytes()) == {"site": "two"}
    assert not (tmp_path / "sites" / "two.safetensors").exists()


def test_a_sites_own_table_is_not_written_once_more(tmp_path: Path) -> None:
    write_site_result(tmp_path, SiteResult("a", {"rows": np.zeros((2, 2)), "labels": ["x", ""]}))
    assert json.loads((tmp_path / "sites" / "a.json").read_bytes()) == {"site": "a", "labels": ["x", ""]}


def test_a_record_is_its_owners_only_also_in_a_folder_that_was_there(tmp_path: Path) -> None:
    """What sites themselves learnt may be in it; links that somebody put there are not written through."""
    folder, outside = tmp_path / "run", tmp_path / "outside"
    before = os.umask(0)
    try:
        folder.mkdir()
        outside.write_bytes(b"another's")
        for name in ("ledger.jsonl", "artifacts.npz", "model.safetensors", "status.json"):
            (folder / name).symlink_to(outside)
        record = RunRecord(folder, {})
        record.model(b"model")
        record.keep("rounds/0001", b"model")
        record.artifacts({"a": np.zeros(3)})
        record.sites({"a": SiteResult("a", {}, b"model")})
        record.finish()
    finally:
        os.umask(before)
    found = {file: stat.S_IMODE(file.lstat().st_mode) for file in [folder, *folder.rglob("*")]}
    assert len(found) == 15
    assert found == {file: 0o700 if file.is_dir() else 0o600 for file in found}
    assert outside.read_bytes() == b"another's"
    assert np.load(folder / "artifacts.npz")["a"].shape == (3,)


@pytest.mark.parametrize(
    ("site", "name"),
    [
        ("clinic-1", "clinic-1"),
        ("St. Mary's", "St._Mary_s"),
        ("../../etc/passwd", ".._.._etc_passwd"),
        ("Universität Köln", "Universität_Köln"),
        ("a\x00b", "a_b"),
        ("a\\b:c", "a_b_c"),
    ],
)
def test_a_sites_name_as_a_file_has_it(site: str, name: str, tmp_path: Path) -> None:
    found = file_name(site)
    assert found == name if site == name else found.startswith(f"{name}-")
    write_site_result(tmp_path, SiteResult(site, {}))
    assert [file.name for file in (tmp_path / "sites").iterdir()] == [f"{found}.json"]
    assert json.loads((tmp_path / "sites" / f"{found}.json").read_bytes())["site"] == site


def test_two_sites_never_share_a_file() -> None:
    assert len({file_name(name) for name in ("a b", "a_b", "a/b", "a:b")}) == 4


def test_versions_name_all_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedgeom.federation.record.LIBRARIES", ("numpy", "no-such-library"))
    assert versions()["numpy"] == np.__version__
    assert versions()["no-such-library"] == "unknown"


def test_a_rounds_figures_are_a_line_each_and_a_resumed_run_begins_anew(tmp_path: Path) -> None:
    log = RunRecord(tmp_path, CONFIG)
    assert not (tmp_path / "rounds.jsonl").exists()
    log.round({"round": 1, "joint_accuracy": 0.5})
    log.round({"round": 2, "joint_accuracy": 0.75})
    lines = (tmp_path / "rounds.jsonl").read_text().splitlines()
    assert lines == ['{"round":1,"joint_accuracy":0.5}', '{"round":2,"joint_accuracy":0.75}']
    log.finish()
    again = RunRecord(tmp_path, CONFIG, resume=True)
    assert not (tmp_path / "rounds.jsonl").exists()
    again.finish()
