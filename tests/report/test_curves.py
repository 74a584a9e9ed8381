"""Learning curves."""

from __future__ import annotations

import msgspec

from fedgeom.report.outcomes import curves
from fedgeom.report.run_folder import read_run
from tests.report.folders import folder_of


def test_rounds_that_were_followed_are_drawn(tmp_path):
    folder = folder_of(tmp_path / "run")
    lines = [
        {"round": at, "rows": 10, "joint_loss": 1 / at, "joint_accuracy": 1 - 0.5 / at, "personal_accuracy": 0.9}
        for at in range(1, 5)
    ]
    (folder / "rounds.jsonl").write_bytes(b"".join(msgspec.json.encode(one) + b"\n" for one in lines))
    made = curves(read_run(folder))
    assert "How it went over 4 rounds" in made
    assert made.count("<polyline") == 3
    assert "joint: 0.5 → 0.875" in made
    assert "joint: 1 → 0.25" in made
    assert "best 0.875 in round 4" in made
    assert made.count("best 0.25 in round 4") == 1  # of a loss the least


def test_lists_of_numbers_among_the_metrics_are_curves_too(tmp_path):
    made = curves(
        read_run(folder_of(tmp_path / "run", metrics={"sites mixed": [3.0, 3.5], "flagged": [], "seconds": 1}))
    )
    assert "Sites mixed: 3 → 3.5" in made
    assert made.count("<polyline") == 1


def test_it_is_said_how_rounds_can_be_followed_and_nothing_of_methods_without_any(tmp_path):
    assert "validation_fraction = 0.1" in curves(read_run(folder_of(tmp_path / "a")))
    assert curves(read_run(folder_of(tmp_path / "b", parameters={"epsilon": 0.1}))) == ""


def test_rounds_in_which_nothing_is_sent_are_not_spoken_of(tmp_path):
    assert curves(read_run(folder_of(tmp_path / "run", method="local"))) == ""
