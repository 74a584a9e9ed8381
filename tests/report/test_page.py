"""The page about a run."""

from __future__ import annotations

import shutil

import msgspec

from fedgeom.evaluation.comparison import Comparison
from fedgeom.report.naming import read_naming
from fedgeom.report.page import COMPARISON, NAMES, PICTURE, write_page


def test_page(case, tmp_path):
    folder = shutil.copytree(case.run.folder, tmp_path / "run")
    bare = write_page(folder).read_text()
    assert "quantized hulls" in bare
    assert "<img" not in bare
    (folder / PICTURE).write_bytes(b"\x89PNG")
    comparison = Comparison(("<b>North", "South"), (0.5, 1.0), (0.5, 1.0), (0.25, 0.75), (0.1, 0.2))
    (folder / COMPARISON).write_bytes(msgspec.json.encode(comparison))
    (folder / NAMES).write_bytes(msgspec.json.encode(read_naming(case.run.local, case.truth)))
    page = write_page(folder).read_text()
    assert "&lt;b&gt;North" in page
    assert "data:image/png;base64" in page
    assert "bösartig" in page
    assert "http" not in page
    assert "<script" not in page
