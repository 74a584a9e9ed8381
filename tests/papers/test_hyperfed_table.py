"""The scripts of HyperFed's tables, on small made-up images: splits, cells that go on, rates, reports, pictures."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedgeom

pytestmark = pytest.mark.full

pytest.importorskip("torch")
split = importlib.import_module("papers.hyperfed.split")
lines = importlib.import_module("papers.hyperfed.lines")
rows = importlib.import_module("papers.hyperfed.rows")
report = importlib.import_module("papers.hyperfed.report")
table = importlib.import_module("papers.hyperfed.table")
niid_bench = importlib.import_module("papers.hyperfed.niid_bench")
sensitivity = importlib.import_module("papers.hyperfed.sensitivity")
pictures = importlib.import_module("papers.hyperfed.pictures")


def made(rows_: int, rng: np.random.Generator, side: int) -> tuple[Any, Any]:
    """Ten classes, each with a bright row of its own."""
    y = np.arange(rows_) % 10
    X = rng.integers(0, 60, (rows_, 1, side, side)).astype(np.uint8)
    X[np.arange(rows_), 0, y + 1] = 220
    return X, y


@pytest.fixture
def images(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)

    def give(name: str, coarse: bool) -> tuple[Any, ...]:
        side = 14 if coarse else 28
        return (*made(2000, rng, side), *made(300, rng, side))

    found: dict[bool, Any] = {coarse: give("", coarse) for coarse in (True, False)}
    for module in (split, niid_bench):
        monkeypatch.setattr(module, "images", lambda name, coarse: found[coarse])
    for module in (table, sensitivity):
        monkeypatch.setattr(module, "split", split.draw)


def cell(**changes: Any) -> Any:
    return table.Cell("fashion-mnist", 0.1, "mlp", "FedAvg", 0, "tuned")._replace(**changes)


def test_every_four_pixels_become_one() -> None:
    X = np.array([[1, 2, 0, 0], [3, 4, 0, 255]], np.uint8)
    assert split.pooled(np.vstack([X, X])[None, None]).tolist() == [[[[3, 64], [3, 64]]]]  # halves are rounded up


@pytest.mark.usefixtures("images")
def test_a_quarter_is_held_out_and_nobody_has_nothing() -> None:
    drawn = split.draw("fashion-mnist", 0.1, 3, coarse=True, rows=1000, sites=8)
    held = {name: len(y) for name, (_, y) in drawn.held.items()}
    assert sum(held.values()) + sum(len(site) for site in drawn.sites) == 1000
    assert all(held[site.name] == (len(site) + held[site.name]) // 4 for site in drawn.sites)
    assert min(len(site) + held[site.name] for site in drawn.sites) >= 20
    again = split.draw("fashion-mnist", 0.1, 3, coarse=True, rows=1000, sites=8)
    np.testing.assert_array_equal(again.sites[0].X, drawn.sites[0].X)
    even = split.owners(np.arange(4000) % 10, 8, 1000.0, np.random.default_rng(0))
    assert np.bincount(even).min() > 400  # a large α deals evenly


def test_a_file_of_cells_goes_on_after_a_cut(tmp_path: Path) -> None:
    path = tmp_path / "cells.jsonl"
    first = lines.Lines(path)
    first.add("a", {"value": 1})
    with path.open("a") as file:
        file.write('{"cell": "b", "val')  # the machine stopped here
    again, asked = lines.Lines(path), []
    assert set(again.lines) == {"a"}

    def compute(name: str) -> Any:
        asked.append(name)
        return None if name == "c" else {"value": name}

    again.go_on({name: lambda name=name: compute(name) for name in "abc"})
    assert asked == ["b", "c"]
    assert [json.loads(line)["cell"] for line in path.read_text().splitlines() if line.endswith("}")] == ["a", "b"]
    again.go_on({"d": lambda: compute("d")}, until=0.0)
    assert set(lines.Lines(path).lines) == {"a", "b"}


def test_a_rate_is_the_best_of_its_trials_and_waits_for_them() -> None:
    cells = table.Cells(None)
    assert cells.rate(cell(setting="paper")) == 0.3
    assert cells.rate(cell(setting="rate 1")) == 1.0
    for rate, validation in zip(rows.GRID, (50.0, 70.0, 60.0), strict=True):
        assert cells.rate(cell(seed=2)) is None
        trial = table.trial(cell(seed=2), rate)
        assert trial.seed == table.TUNING_SEED not in table.SEEDS
        cells.add(trial.key, {"validation": validation})
    assert cells.rate(cell(seed=2)) == cells.rate(cell(kind="long")) == 0.1
    assert cells.rate(cell(alpha=0.5)) is None


def test_the_other_setting_is_copied_where_it_is_the_same() -> None:
    cells = table.Cells(None)
    for row in ("FedRoD", "FedAvg", "HyperFed"):
        known = cell(row=row)
        cells.add(known.key, known._asdict() | {"rate": 0.3, "global": 80.0})
    asked = cell(setting="paper", row="FedRoD")
    assert cells.same(asked, 0.3) == {"rate": 0.3, "global": 80.0}
    assert cells.same(asked, 0.1) is None
    assert cells.same(asked._replace(seed=1), 0.3) is None
    assert cells.same(asked._replace(row="HyperFed"), 0.3) is None  # there the equations differ
    assert cells.same(asked._replace(row="FedAvg"), 0.3) is None  # the last steps have other rates


@pytest.mark.usefixtures("images")
@pytest.mark.parametrize("row", rows.MAKERS)
def test_every_row_learns_something(row: str) -> None:
    found = table.compute(cell(row=row, alpha=5.0), 0.1, rounds=2, images=800)
    joint = row not in ("HyperFed-Fixed", "FedPer", "FedRep", "FedProto", *rows.PERSONAL, rows.LOCAL)
    assert (found["global"] is not None) == joint
    assert len(found["curve"]) == (2 if joint and row != rows.POOLED else 0)
    assert 0 <= found["personal"] <= 100
    assert found["validation"] == (found["joint held"] if joint else found["personal"])


@pytest.mark.usefixtures("images")
def test_trials_do_not_look_at_test_images_and_training_gone_astray_is_kept() -> None:
    trial = table.trial(cell(), 0.1)
    found = table.compute(trial, 0.1, rounds=1, images=800)
    assert "global" not in found
    assert found["curve"] == []
    astray = table.found(table.Cells(None), cell(setting="rate 1e6"), rounds=2, images=800)
    assert astray["validation"] == 0.0
    assert "error" in astray


def test_a_tuned_run_that_went_astray_is_done_again_with_a_lower_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    def compute(given: Any, rate: float) -> dict[str, Any]:
        if rate > 0.05:
            raise fedgeom.InputError("nan")
        return {"rate": rate, "global": 70.0}

    monkeypatch.setattr(table, "compute", compute)
    cells = table.Cells(None)
    for rate, validation in zip(rows.GRID, (50.0, 60.0, 70.0), strict=True):
        cells.add(table.trial(cell(), rate).key, {"validation": validation})
    found = table.found(cells, cell())
    assert (found["rate"], found["tuned rate"], found["global"]) == (0.03, 0.3, 70.0)
    assert table.found(cells, cell(setting="paper"))["error"] == "nan"


@pytest.mark.usefixtures("images")
def test_the_secure_protocol_gives_the_same_model() -> None:
    checked = table.check("FedAvg", 1)
    assert checked["largest difference"] == 0.0


def cells_of(values: dict[str, list[float]], setting: str = "tuned") -> list[Any]:
    return [
        {"cell": one.key, "global": value, "personal": value + 5, "rate": 0.3, "curve": [value - 1, value]}
        | one._asdict()
        for row, found in values.items()
        for seed, value in enumerate(found)
        for one in [cell(row=row, seed=seed, setting=setting)]
    ]


def test_figures_stand_beside_the_papers_and_the_report_says_who_is_ahead() -> None:
    known = cells_of({"FedAvg": [70.0, 72.0], "SphereFed": [75.0, 75.0], "HyperFed": [60.0, 62.0]})
    found = report.main_table(known)
    assert found["fashion-mnist 0.1"]["FedAvg"]["global"] == {"mean": 71.0, "ci95": 12.71, "n": 2, "paper": 78.51}
    assert found["fashion-mnist 0.1"]["HyperFed"]["personal"]["paper"] == 98.13
    text = report.verdict(found["fashion-mnist 0.1"])
    assert "Ahead is SphereFed (75.00)" in text
    assert "HyperFed (61.00) is **not** ahead of FedAvg, SphereFed." in text
    known += cells_of({rows.MOMENTUM: [80.0, 82.0]})
    assert f"{rows.MOMENTUM} (81.00) is ahead of FedAvg, SphereFed." in report.verdict(
        report.main_table(known)["fashion-mnist 0.1"]
    )
    assert "+10.00 [+10.00, +10.00]" in "\n".join(report.gaps(known, "fashion-mnist 0.1", "tuned"))
    page = report.page(known, table.plan(), "How.")
    assert "| FedAvg | 71.00 ± 12.71 | 78.51 | 76.00 ± 12.71 | – | 2 | 0.3 |" in page
    assert "cells are missing" in page


def test_a_row_that_went_astray_is_said_and_has_no_figure() -> None:
    known = cells_of({"FedAvg": [70.0], "SCAFFOLD": [10.0]})
    known[1] = {k: v for k, v in known[1].items() if k not in ("global", "personal")} | {"error": "nan"}
    assert "SCAFFOLD" not in report.main_table(known)["fashion-mnist 0.1"]
    assert "| SCAFFOLD | – | 79.20 | – | – | 0 | 0.3; 1 of 1 went astray |" in report.page(known, {}, "")


def test_the_papers_settings_stand_in_where_nothing_was_tuned() -> None:
    known = cells_of({"FedAvg": [70.0]}) + [
        line | {"set": "cifar-10", "kind": "lenet16"} for line in cells_of({"FedAvg": [40.0]}, "paper")
    ]
    found = report.main_table(known)
    assert list(found) == ["fashion-mnist 0.1", "cifar-10 0.1"]
    assert found["cifar-10 0.1"]["FedAvg"]["global"]["paper"] == 36.82


def test_tables_and_curves_are_written(tmp_path: Path) -> None:
    cells = table.Cells(None)
    for line in cells_of({"FedAvg": [70.0, 72.0], rows.MOMENTUM: [80.0, 81.0]}):
        cells.lines[line["cell"]] = line
    readme, folder = tmp_path / "README.md", tmp_path / "results"
    readme.write_text("before\n\n<!-- tables, written by the script -->\nold\n<!-- end of tables -->\n\nafter\n")
    table.write(cells, table.Results(folder))
    table.write(cells, table.Results(folder))
    assert json.loads((folder / "table.json").read_text())["fashion-mnist 0.1"]["FedAvg"]["global"]["n"] == 2
    assert (folder / "curves.png").stat().st_size > 5000
    assert "# HyperFed's Tables" in (folder / "table.md").read_text()
    text = readme.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text
    assert text.count("| FedAvg | 71.0 ± 12.7 (78.5) | 76.0 ± 12.7 |") == 1


@pytest.mark.usefixtures("images")
def test_niid_bench_compares_with_the_published() -> None:
    found = niid_bench.compute("SCAFFOLD", "two", rows=400, rounds=1)
    assert 0 <= found["accuracy"] <= 100
    shown = niid_bench.summary({niid_bench.key("SCAFFOLD", "two"): found})
    assert shown == {"two": {"SCAFFOLD": {"accuracy": found["accuracy"], "published": 10.0}}}
    assert "| 2 classes per site | – | – | – | – |" in niid_bench.page(shown)


@pytest.mark.usefixtures("images")
def test_the_sweep_has_the_papers_values_and_the_usual_once(tmp_path: Path) -> None:
    usual = {sensitivity.Point("HyperFed", what, value).key for what, value in sensitivity.USUAL.items()}
    assert usual == {"HyperFed | usual"}
    known: dict[str, Any] = {}
    for point in (("HyperFed", "slope", 1), ("HyperFed", "dimension", 2), (rows.CHANGED, "slope", 0.2)):
        one = sensitivity.Point(*point)
        known[one.key] = sensitivity.compute(one, images=800, epochs=5)
        assert 0 <= known[one.key]["global"] <= 100
    found = sensitivity.summary(known)
    assert found["dimension"]["HyperFed"]["2"]["global of the paper"] == 88.59
    assert "paper, G-FL" in sensitivity.page(found)
    sensitivity.picture(found, tmp_path / "s.png")
    assert (tmp_path / "s.png").stat().st_size > 5000


@pytest.mark.usefixtures("images")
def test_pictures_are_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = {"class_names": np.array([f"class {at}" for at in range(10)])}
    monkeypatch.setattr(pictures, "load_data", lambda name: names)
    monkeypatch.setattr(pictures, "SHOWN", 100)
    assert (
        600 <= sum(pictures.splits(tmp_path / "splits.png", 800)) <= 620
    )  # three quarters, rounded up at each site
    assert (tmp_path / "splits.png").stat().st_size > 5000
    accuracies = pictures.ball(tmp_path / "ball.png", images=800, rounds=1)
    assert set(accuracies) == {"HyperFed-Averaged", rows.CHANGED}
    assert (tmp_path / "ball.png").stat().st_size > 5000
    assert len(pictures.flat(tmp_path / "features.png", images=800, rounds=1)) == 4
