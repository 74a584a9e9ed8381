"""Reading a run's folder for a report."""

from __future__ import annotations

import shutil

from fedgeom.report.run_folder import read_run
from tests.report.folders import folder_of


def test_everything_is_read_once(case, tmp_path):
    run = read_run(shutil.copytree(case.run.folder, tmp_path / "run"))
    assert run.method == "hulls"
    assert run.simulated
    assert run.model is not None
    assert "hull_points" in run.artifacts
    assert "rounded outlines" in run.idea()
    assert set(run.class_names()) == {0, 1}
    assert run.naming is not None  # from what the sites have: nobody wrote names.json
    assert {one.seconds is None for one in run.events} == {False}


def test_a_run_that_was_cut_off_is_read_as_far_as_it_goes(tmp_path):
    folder = folder_of(tmp_path / "run")
    with (folder / "events.jsonl").open("ab") as file:
        file.write(b'{"step": 99, "ki')
    (folder / "rounds.jsonl").write_bytes(b'{"round": 1}\n{"rou')
    run = read_run(folder)
    assert run.model is None
    assert max(one.step for one in run.events) == 14
    assert run.rounds == [{"round": 1}]
    assert run.class_names() == {}


def test_a_method_of_another_package_is_no_reason_to_have_no_report(tmp_path):
    run = read_run(folder_of(tmp_path / "run", method="of-a-stranger"))
    assert run.idea() == ""
    assert run.model is None


def test_events_of_an_earlier_release_have_no_times(tmp_path):
    folder = folder_of(tmp_path / "run")
    (folder / "events.jsonl").write_text('{"step":1,"kind":"join.hello","site":"a","state":"asked","detail":""}\n')
    assert read_run(folder).events[0].seconds is None
