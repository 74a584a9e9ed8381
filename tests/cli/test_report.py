"""fedgeom report."""

from __future__ import annotations

import shutil

from fedgeom.report.run_folder import keep_rows
from tests.cli.calling import call
from tests.report.folders import folder_of


def test_the_page_is_written_where_one_wants_it(case, tmp_path):
    folder = shutil.copytree(case.run.folder, tmp_path / "run")
    keep_rows(case.run, folder)
    call("report", folder)
    page = (folder / "report.html").read_text()
    assert 'data-layer="rows"' in page
    out = tmp_path / "handed-on.html"
    call("report", folder, "--no-rows", "--out", out)
    assert 'data-layer="rows"' not in out.read_text()
    assert "sender 1" in out.read_text()


def test_what_is_wrong_is_said_in_a_sentence(tmp_path):
    assert "is not a run folder" in call("report", tmp_path, code=2)
    nowhere = tmp_path / "run" / "status.json" / "x"
    assert "could not be written" in call("report", folder_of(tmp_path / "run"), "--out", nowhere, code=2)
