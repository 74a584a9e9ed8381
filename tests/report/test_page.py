"""The page about a run."""

from __future__ import annotations

import shutil

import msgspec

from fedgeom.evaluation.figures import FILE
from fedgeom.federation.record import WARNINGS
from fedgeom.federation.run_warnings import lost_site
from fedgeom.report.naming import read_naming
from fedgeom.report.page import NAMES, PICTURE, write_page
from tests.evaluation.counting import figures


def test_page(case, tmp_path):
    folder = shutil.copytree(case.run.folder, tmp_path / "run")
    bare = write_page(folder).read_text()
    assert "quantized hulls" in bare
    assert "<img" not in bare
    (folder / PICTURE).write_bytes(b"\x89PNG")
    (folder / FILE).write_bytes(msgspec.json.encode(figures(site="<b>North")))
    (folder / NAMES).write_bytes(msgspec.json.encode(read_naming(case.run.local, case.truth)))
    page = write_page(folder).read_text()
    for piece in ("&lt;b&gt;North", "majority class", "0.700 [0.481, 0.855]", "without test rows: South"):
        assert piece in page
    assert "data:image/png;base64" in page
    assert "bösartig" in page
    assert "How sure that is" in page
    assert "<td>certain</td>" in page
    assert "http" not in page
    assert "<script" not in page


def test_warnings_stand_near_the_top(case, tmp_path):
    folder = shutil.copytree(case.run.folder, tmp_path / "run")
    assert "<h2>Warnings" not in write_page(folder).read_text()
    (folder / WARNINGS).write_bytes(msgspec.json.encode([lost_site("<b>ulm", "no power")]))
    page = write_page(folder).read_text()
    assert "site &#x27;&lt;b&gt;ulm&#x27; was lost: no power" in page
    assert page.index("<h2>Warnings") < page.index("<h2>What left")
