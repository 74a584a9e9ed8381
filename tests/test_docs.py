"""What the documentation shows is there: code runs, commands have these options, links lead somewhere."""

from __future__ import annotations

import json
import re
import runpy
import shlex
import subprocess
import sys
import tomllib

import pytest
import typer

from fedgeom.cli import app
from fedgeom.deploy.federation_file import FederationFile, SiteEntry
from fedgeom.deploy.study_file import SweepBlock
from fedgeom.federation.method import METHODS
from fedgeom.federation.policy import Policy
from fedgeom.methods.catalogue import method_class
from tests.cli.calling import call
from tests.documents import (
    AT_HAND,
    ELSEWHERE,
    PAGES,
    ROOT,
    SMALLER,
    anchors,
    blocks,
    links,
    typed,
)
from tests.tiers import tiered

NAMES = [page.relative_to(ROOT).as_posix() for page in PAGES]
WITH_CODE = [name for name in NAMES if blocks(ROOT / name, "python") and name not in ELSEWHERE]


@pytest.mark.parametrize("name", tiered(WITH_CODE, "README.md"))
def test_every_python_block_runs(name, tmp_path, monkeypatch):
    """All blocks of a page in their order, as a reader would type them."""
    assert name in AT_HAND, f"say in tests/documents.py what the code of {name} takes for granted"
    monkeypatch.chdir(tmp_path)
    code = "\n".join(blocks(ROOT / name, "python"))
    space = {"__name__": "a reader", **AT_HAND[name]()}
    for shown, smaller in SMALLER.get(name, ()):
        assert shown in code, f"{name} no longer says {shown!r}"
        code = code.replace(shown, smaller)
    if "import fedgeom\n" not in code:
        code = "import fedgeom\n" + code
    exec(compile(code, name, "exec", dont_inherit=True), space)


def test_the_pieces_of_own_method_are_those_of_the_example():
    example = (ROOT / "examples" / "own_method.py").read_text(encoding="utf-8")
    pieces = blocks(ROOT / "docs" / "own-method.md", "py")
    assert pieces
    for piece in pieces:
        assert piece in example


def commands(name):
    """Yield the lines of a page's shell blocks that call fedgeom, without comments."""
    for block in blocks(ROOT / name, "sh"):
        typed = re.sub(r"<<'END'\n.*?^END$", "", block, flags=re.DOTALL | re.MULTILINE)
        for line in typed.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            if words[:1] == ["fedgeom"]:
                yield line, words[1:]


@pytest.mark.parametrize("name", [name for name in NAMES if list(commands(name))])
def test_every_command_has_the_options_that_are_shown(name):
    for line, words in commands(name):
        command = typer.main.get_command(app)
        while hasattr(command, "commands"):
            assert words, line
            assert words[0] in command.commands, line
            command, words = command.commands[words[0]], words[1:]
        try:
            command.make_context(command.name, list(words), resilient_parsing=False)
        except Exception as error:
            raise AssertionError(f"{name}: {line}: {error}") from error


TUTORIALS = ["tutorial-cells", "tutorial-clinic", "tutorial-research"]


@pytest.mark.parametrize("name", TUTORIALS)
def test_a_tutorial_s_notebook_has_what_its_page_has_typed(name):
    page = ROOT / "docs" / f"{name}.md"
    made = runpy.run_path(str(ROOT / "docs" / "build_site.py"))["notebook"](page.read_text(encoding="utf-8"))
    code = [cell["source"] for cell in made["cells"] if cell["cell_type"] == "code"]
    assert len(code) >= 5
    shell = [one.removeprefix("%%sh\n") for one in code if one.startswith("%%sh\n")]
    assert [one.strip() for one in blocks(page, "sh")] == [one.strip() for one in shell]
    python = [one for one in code if not one.startswith("%%sh\n")]
    assert [one.strip() for one in blocks(page, "python")] == [one.strip() for one in python]
    text = "".join(cell["source"] for cell in made["cells"] if cell["cell_type"] == "markdown")
    assert "```sh" not in text
    assert {"nbformat", "nbformat_minor", "metadata", "cells"} == set(made)


@pytest.mark.full
@pytest.mark.parametrize("name", TUTORIALS)
def test_a_tutorial_can_be_typed_as_it_stands(name, tmp_path, monkeypatch):
    if name == "tutorial-cells":
        pytest.importorskip("anndata", reason="needs the bio extra")
    monkeypatch.chdir(tmp_path)
    for file, content in typed(ROOT / "docs" / f"{name}.md"):
        words = shlex.split(content, comments=True) if not file else []
        if file:
            (tmp_path / file).write_text(content, encoding="utf-8")
        elif words[0] == "fedgeom":
            call(*words[1:])
        elif words[0] == "python":
            subprocess.run([sys.executable, *words[1:]], check=True)
        else:
            assert words[0] == "ls"
            assert list((tmp_path / words[1]).iterdir())
    ends = {
        "tutorial-cells": "labelled.h5ad",
        "tutorial-clinic": "predicted.csv",
        "tutorial-research": "runs/*/*.json",
    }
    assert list(tmp_path.glob(ends[name]))


@pytest.mark.parametrize("name", [name for name in NAMES if blocks(ROOT / name, "toml")])
def test_every_toml_block_can_be_read_and_its_method_has_these_settings(name):
    for block in blocks(ROOT / name, "toml"):
        found = tomllib.loads(block)
        assert found
        if not {"method", "prepare"} & set(found):
            continue
        method = found.get("method", "ridge")
        settings = dict(method) if isinstance(method, dict) else {"name": method}
        settings |= found.get("parameters", {})
        if "prepare" in found:
            settings["prepare"] = found["prepare"]
        method_class(settings.pop("name"))(**settings)


def test_every_key_of_a_federation_file_is_explained():
    pages = ("federation-file", "evaluation")
    page = "".join((ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8") for name in pages)
    listed = {
        key for row in re.findall(r"^\| ([^|]*) \|", page, re.MULTILINE) for key in re.findall(r"[a-z_]+", row)
    }
    for part in (FederationFile, SiteEntry, Policy, SweepBlock):
        assert set(part.__struct_fields__) <= listed, part.__name__


@pytest.mark.parametrize("name", [*NAMES, "CHANGELOG.md"])
def test_no_link_is_dead(name):
    page = ROOT / name
    for path, anchor in links(page):
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{name} links to {path}, which is not there"
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target), f"{name} links to {path}#{anchor}; that page has no such heading"


@pytest.mark.full
def test_the_site_is_built_without_a_warning_and_needs_nothing_from_elsewhere(tmp_path):
    pytest.importorskip("material", reason="needs the group docs")
    builder = runpy.run_path(str(ROOT / "docs" / "build_site.py"))
    builder["gather"](ROOT / "build" / "pages")
    assert builder["build"](tmp_path / "site") == 0
    pages = list((tmp_path / "site").rglob("*.html"))
    assert len(pages) > 30
    for page in pages:
        loaded = re.findall(
            r"""<(?:script|link|img)[^>]+(?:src|href)=["']?((?:https?:)?//[^"' >]+)""", page.read_text()
        )
        assert not loaded, page
    index = (tmp_path / "site" / "search" / "search_index.js").read_text(encoding="utf-8")
    entries = json.loads(index[index.index("{") :].rstrip("; \n"))["docs"]
    counts = {entry["location"].partition("#")[0]: entry.get("boost", 1) for entry in entries}
    assert counts["docs/ridge.html"] == 1
    assert all(count < 1 for page, count in counts.items() if page.startswith("papers/"))


METHOD_PAGES = [
    "hulls",
    "ellipses",
    "moments",
    "ridge",
    "xclp",
    "semi",
    "training",
    "shrunk",
    "ptopofl",
    "hyperfed",
    "maps",
]


@pytest.mark.parametrize("name", METHOD_PAGES)
def test_a_method_s_page_has_all_that_a_reader_looks_for(name):
    text = (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
    assert f"](images/idea-{name}.svg)" in text
    assert f"](images/conversation-{name}.svg)" in text
    heads = re.findall(r"^## (.*)$", text, re.MULTILINE)
    for wanted in ("What it reveals", "The paper's table, and ours", "Limits"):
        assert any(head.startswith(wanted) for head in heads), f"{name}.md has no section {wanted!r}"
    assert re.search(r"<!-- settings of \S+: made by docs/make_reference.py -->\n\| ", text)


@pytest.mark.parametrize("name", METHOD_PAGES)
def test_a_method_s_page_is_read_in_ten_minutes(name):
    """At 200 words a minute, without code and tables, which are looked up."""
    text = (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
    text = re.sub(r"^```.*?^```|^\|[^\n]*$", "", text, flags=re.DOTALL | re.MULTILINE)
    assert len(text.split()) <= 2000


def our_methods():
    """Return the names of the methods that come with fedgeom; tests have their own."""
    found = [name for name in METHODS if method_class(name).__module__.startswith("fedgeom.")]
    assert len(found) > 25
    return found


def test_every_method_has_a_page():
    settings = "".join(
        (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8") for name in (*METHOD_PAGES, "statistics")
    )
    for name in our_methods():
        assert re.search(rf"`{method_class(name).__name__}\b", settings), name


def test_the_gallery_has_the_report_of_every_method_in_pictures_that_load_quickly():
    page = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
    assert [name for name in our_methods() if f"](images/gallery/report-{name}.png)" not in page] == []
    shown = [*(ROOT / "docs" / "images" / "gallery").iterdir(), *(ROOT / "docs" / "images" / "tutorial").iterdir()]
    assert [one.name for one in shown if one.stat().st_size > 160_000] == []
    unused = [one.name for one in shown if not any(one.name in file.read_text(encoding="utf-8") for file in PAGES)]
    assert unused == []


AMERICAN = re.compile(
    r"\b(\w*(?:colors?|colored|centers?|centered|neighbors?|behaviors?|favors?|labeled|labeling|modeled|traveled|canceled)"
    r"|gr[a]y|learned|spoiled|\w+(?:al|ar|er|im|ant|ent|ogn|is)iz(?:e|es|ed|ing|ation)|analyz\w+)\b"
)
OTHERS = ("normalize_total", "optimiz", "Cancer Center")


def prose(text):
    """Return a page without code, addresses and what others call their things."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"`[^`]*`|\]\([^)]*\)|<!--.*?-->|\"[^\"\n]*\"", "", text)
    for name in OTHERS:
        text = text.replace(name, "")
    return text


@pytest.mark.parametrize("name", [*NAMES, "CHANGELOG.md"])
def test_one_spelling_the_british_one(name):
    assert AMERICAN.findall(prose((ROOT / name).read_text(encoding="utf-8"))) == []


def test_the_studio_s_and_the_reports_words_are_spelt_so_too():
    for file in sorted((ROOT / "src" / "fedgeom" / "studio" / "templates").glob("*.html")):
        shown = " ".join(re.findall(r">([^<{]*)", file.read_text(encoding="utf-8")))
        assert AMERICAN.findall(shown) == [], file.name


@pytest.mark.parametrize("name", ["hulls", "moments", "training", "describe", "statistics"])
def test_the_drawn_conversations_are_those_that_the_methods_hold(name):
    made = runpy.run_path(str(ROOT / "docs" / "make_diagrams.py"))
    drawn = (ROOT / "docs" / "images" / f"conversation-{name}.svg").read_text(encoding="utf-8")
    assert made["diagram"](name) == drawn, "python docs/make_diagrams.py draws them anew"
