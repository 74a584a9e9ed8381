"""The list of all that the papers have: nothing is missing, nothing is named that does not exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from papers.common import data_folder
from papers.contents import HERE, STATUSES, page, read

pytestmark = pytest.mark.full

ROOT = HERE.parent
NUMBERED = {
    "hulls": {"Table": 3, "Figure": 9, "Algorithm": 3},
    "xclp": {"Table": 6, "Figure": 0, "Algorithm": 2},
    "ptopofl": {"Table": 3, "Figure": 7, "Algorithm": 1},
    "hyperfed": {"Table": 3, "Figure": 11, "Algorithm": 1},
}
"""How many of each the papers have."""
UNNUMBERED = ("Section", "Appendix")
"""What has no number of its own in the text but makes a claim."""
ENTRIES = [(paper, one) for paper, entries in read().items() for one in entries]


def test_the_page_is_the_one_that_the_list_makes() -> None:
    assert (HERE / "README.md").read_text(encoding="utf-8") == page(), "run python papers/contents.py"


@pytest.mark.parametrize("paper", NUMBERED)
def test_no_table_figure_or_algorithm_is_missing_or_there_twice(paper: str) -> None:
    entries = [one["entry"] for one in read()[paper]]
    assert len(set(entries)) == len(entries)
    for kind, count in NUMBERED[paper].items():
        found = sorted(int(entry.split()[1]) for entry in entries if entry.startswith(f"{kind} "))
        assert found == list(range(1, count + 1)), kind


@pytest.mark.full
@pytest.mark.parametrize("paper", NUMBERED)
def test_what_the_text_of_the_paper_numbers_is_listed(paper: str) -> None:
    text = data_folder().parent / "papers" / f"{paper}.txt"
    if not text.is_file():
        pytest.skip(f"{paper}.txt is not here: put the papers' texts into the folder papers beside the data")
    whole = text.read_text(encoding="utf-8")
    found = set(re.findall(r"\b((?:Table|Figure) \d+):", whole))
    names = r"(?:Algorithm|Theorem|Lemma|Corollary|Proposition) (?:[A-Z]\.)?\d+(?:\.\d+)?"
    found |= set(re.findall(rf"^\W*({names})\b", whole, re.MULTILINE))
    numbered = {one["entry"] for one in read()[paper] if not one["entry"].startswith(UNNUMBERED)}
    assert found == numbered


@pytest.mark.parametrize(("paper", "one"), ENTRIES, ids=lambda one: one if isinstance(one, str) else one["entry"])
def test_an_entry_says_what_came_of_it_and_names_only_what_exists(paper: str, one: dict[str, object]) -> None:
    assert set(one) == {"entry", "what", "command", "files", "status", "found"}
    assert one["status"] in STATUSES
    files, command = one["files"], str(one["command"])
    assert isinstance(files, list)
    for file in files:
        assert (HERE / file).is_file(), file
    for word in shlex.split(command):
        assert "/" not in word or (ROOT / word).exists(), word
    if one["status"] in ("holds", "partly", "does not hold"):
        assert command, "what shows it?"
        assert files or "pytest" in command, "a result file, or a test"
        assert one["found"]


def test_nothing_waits_to_be_computed() -> None:
    waiting = [
        (paper, one["entry"])
        for paper, one in ENTRIES
        if one["status"] == "not yet" or "not computed" in one["found"]
    ]
    assert not waiting


def test_every_picture_is_shown_or_named_in_its_papers_page() -> None:
    for paper in NUMBERED:
        said = (HERE / paper / "README.md").read_text(encoding="utf-8")
        missing = [path.name for path in (HERE / paper / "results").glob("*.png") if path.name not in said]
        assert not missing, paper


def test_every_result_that_an_entry_could_name_is_in_the_papers_own_page() -> None:
    """A reader who starts at a paper's page finds the same files."""
    for paper in NUMBERED:
        said = (HERE / paper / "README.md").read_text(encoding="utf-8")
        for one in read()[paper]:
            scripts = [Path(word).name for word in shlex.split(one["command"]) if word.startswith("papers/")]
            assert all(script in said for script in scripts), (paper, one["entry"])
