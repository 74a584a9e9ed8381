"""The head of a report."""

from __future__ import annotations

import msgspec

from fedgeom.federation.record import WARNINGS, write_status
from fedgeom.federation.results import RunWarning, lost_site
from fedgeom.report.page import MANY, heading, participants, question, warnings
from fedgeom.report.run_folder import read_run
from tests.report.folders import folder_of


def test_the_question_is_in_words(case):
    assert question(read_run(case.run.folder)).startswith("Can 4 sites tell ")


def test_a_failed_run_says_so_and_why(tmp_path):
    folder = folder_of(tmp_path / "run")
    write_status(folder, "failed", "2 sites answered <b>, 3 are needed")
    made = heading(read_run(folder))
    assert 'class="state bad">failed' in made
    assert "answered &lt;b&gt;, 3 are needed" in made


def test_who_was_lost_is_marked_with_the_reason_and_what_to_do(tmp_path):
    folder = folder_of(tmp_path / "run")
    (folder / WARNINGS).write_bytes(msgspec.json.encode([lost_site("site-001", "no power")]))
    run = read_run(folder)
    assert "✗ no power" in participants(run)
    assert "1 of 3 did not come to the end" in participants(run)
    assert "What to do:" in warnings(run)


def test_what_is_the_same_at_many_sites_is_said_once(tmp_path):
    folder = folder_of(tmp_path / "run")
    found = [
        RunWarning(f"site 'site-{at:03}': column 3 varies by {at}.5", "", "divide it", f"site-{at:03}")
        for at in range(3)
    ]
    said = [*found, lost_site("site-001", "no power"), RunWarning("all is well", "", "divide it")]
    (folder / WARNINGS).write_bytes(msgspec.json.encode(said))
    page = warnings(read_run(folder))
    assert page.count("What to do: divide it") == 2
    assert "The same at 2 more" in page
    assert all(f"site-{at:03}&#x27;: column 3 varies by {at}.5" in page for at in range(3))


def test_what_a_method_says_of_each_site_stands_beside_it(tmp_path):
    said = {"trust": {"site-000": 0.5, "site-001": 1.0, "site-002": 0.25}, "flagged": []}
    made = participants(read_run(folder_of(tmp_path / "run", metrics=said)))
    assert ">trust</th>" in made
    assert '<td class="n">0.25</td>' in made


def test_two_hundred_sites_are_listed_on_demand(tmp_path):
    made = participants(read_run(folder_of(tmp_path / "run", sites=200, rounds=1)))
    assert "<summary>All 200 sites</summary>" in made
    assert made.count("<tr>") == 201 > MANY
