"""The page about a run."""

from __future__ import annotations

import re
import shutil
from html.parser import HTMLParser

import msgspec
import pytest

from fedgeom.evaluation.evaluation import FILE
from fedgeom.federation.record import WARNINGS
from fedgeom.federation.results import lost_site
from fedgeom.report.label_names import read_naming
from fedgeom.report.page import NAMES, PICTURE, write_page
from tests.evaluation.counting import figures
from tests.report.folders import folder_of

VOID = {"meta", "input", "img", "br", "circle", "path", "polyline"}


class Checked(HTMLParser):
    """Reads a page as strictly as a browser should: every element is closed, no name is given twice."""

    def __init__(self, page):
        super().__init__()
        self.open, self.ids, self.links = [], [], []
        self.feed(page)
        assert self.open == []
        assert len(self.ids) == len(set(self.ids))
        assert {link[1:] for link in self.links} <= set(self.ids)

    def handle_starttag(self, tag, attrs):
        named = dict(attrs)
        self.ids += [named["id"]] if "id" in named else []
        self.links += [named["href"]] if "href" in named else []
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.ids += [dict(attrs)["id"]] if "id" in dict(attrs) else []

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag


def test_page(case, tmp_path):
    folder = shutil.copytree(case.run.folder, tmp_path / "run")
    bare = write_page(folder).read_text()
    assert "quantised hulls" in bare
    (folder / FILE).write_bytes(msgspec.json.encode(figures(site="<b>North")))
    (folder / NAMES).write_bytes(msgspec.json.encode(read_naming(case.run.local, case.truth)))
    page = write_page(folder).read_text()
    Checked(page)
    for piece in ("&lt;b&gt;North", "majority class", "0.700 [0.481, 0.855]", "without test rows: South"):
        assert piece in page
    assert "bösartig" in page
    assert "How sure that is" in page
    assert "<td>certain</td>" in page
    assert not re.search(r"https?://|//cdn|@import|url\(", page)


def test_a_picture_that_lies_there_is_shown_where_there_are_no_shapes(tmp_path):
    folder = folder_of(tmp_path / "run")
    assert "<img" not in write_page(folder).read_text()
    (folder / PICTURE).write_bytes(b"\x89PNG")
    assert "data:image/png;base64" in write_page(folder).read_text()


def test_warnings_come_first(case, tmp_path):
    folder = shutil.copytree(case.run.folder, tmp_path / "run")
    assert 'id="warnings"' not in write_page(folder).read_text()
    (folder / WARNINGS).write_bytes(msgspec.json.encode([lost_site("<b>ulm", "no power")]))
    page = write_page(folder).read_text()
    assert "site &#x27;&lt;b&gt;ulm&#x27; was lost</b>: no power" in page
    assert page.index('<section id="warnings"') < page.index('<section id="ledger"')


@pytest.mark.parametrize("sites", [2, 200])
def test_two_or_two_hundred_sites(tmp_path, sites):
    page = write_page(folder_of(tmp_path / "run", sites=sites, rounds=2)).read_text()
    Checked(page)
    assert f"Can {sites} sites" in page
    assert len(page) < 300_000


def test_what_a_job_is_for_is_said(tmp_path):
    folder = folder_of(tmp_path / "r", sites=1, rounds=1)
    config = msgspec.json.decode((folder / "config.json").read_bytes())
    (folder / "config.json").write_bytes(msgspec.json.encode(config | {"purpose": "Does <age> tell?"}))
    assert "<p>Does &lt;age&gt; tell?</p>" in write_page(folder).read_text()
