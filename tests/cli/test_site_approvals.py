"""``fedgeom site approve``, ``approvals`` and ``revoke``: what is shown, what is asked, and what is pinned."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time

import pytest
from typer.testing import CliRunner

from fedgeom.cli import app, site
from fedgeom.deploy.approvals import DAY, MOST_WAITING, ApprovalStore
from fedgeom.deploy.preview import proposed_terms
from fedgeom.deploy.site_folder import SiteFolder
from fedgeom.federation.policy import hash_terms, job_terms
from tests.cli.deploying import call

STUDY = 'method = "moments"\nseed = 3\n'


@pytest.fixture
def study(here, made):
    (here / "study.toml").write_text(STUDY)
    return hash_terms(proposed_terms(SiteFolder(here / "anna"), here / "study.toml")).hex()


def pinned(here):
    return ApprovalStore(here / "anna").read().approvals


def approve(*words, code=0):
    return call("site", "approve", *words, "--folder", "anna", code=code)


def answer(monkeypatch, text):
    """Type an answer on what seems to be a terminal."""
    monkeypatch.setattr(site, "on_terminal", lambda: True)
    result = CliRunner().invoke(app, ["site", "approve", "study.toml", "--folder", "anna"], input=text)
    return result.exit_code, result.output


def test_what_a_steward_decides_about_is_shown(here, study):
    shown = approve("study.toml", "--yes")
    for piece in (
        "method moments",
        "seed 3",
        "sites anna, bert, carl",
        "min_sites = 2",
        "classes = null",
        "what leaves",
    ):
        assert piece in shown
    assert "masked; with all others:" in shown
    assert f"terms {study}" in shown
    assert "for 1 run" in shown
    assert f"fedgeom site revoke {study[:16]} --folder anna" in shown


def test_preview_ends_with_the_same_hash_and_submit_prints_it(here, study, conducting):
    shown = call("site", "preview", "study.toml", "--folder", "anna")
    assert shown.endswith(f"terms {study} to approve them: fedgeom site approve study.toml --folder anna")
    assert f"terms {study}" in call("submit", "study.toml", "--folder", "c")


def test_preview_without_a_roster_says_that_the_hash_needs_it(here, study):
    (here / "anna" / "roster.json").unlink()
    assert "The hash of the terms needs roster.json" in call("site", "preview", "study.toml", "--folder", "anna")
    assert "ask the coordinator for roster.json" in approve("study.toml", "--yes", code=2)
    (here / "study.toml").write_text(
        STUDY + "".join(f'[[sites]]\nname = "{n}"\n' for n in ("carl", "anna", "bert"))
    )
    assert f"terms {study}" in approve("study.toml", "--yes")  # the file says who takes part, in any order


def test_an_approval_has_days_and_runs(here, study):
    before = time.time()
    approve("study.toml", "--yes", "--days", "2.5", "--runs", "4")
    (one,) = pinned(here)
    assert (one.hash, one.runs, one.used, one.revoked) == (study, 4, (), 0)
    assert before + 2.5 * DAY <= one.expires <= time.time() + 2.5 * DAY
    assert one.job == proposed_terms(SiteFolder(here / "anna"), here / "study.toml")
    approve("study.toml", "--yes")
    assert (pinned(here)[1].runs, round((pinned(here)[1].expires - before) / DAY)) == (1, 30)


@pytest.mark.parametrize(("text", "code"), [("y\n", 0), ("n\n", 1), ("\n", 1), ("", 1)])
def test_the_question_on_the_terminal(here, study, monkeypatch, text, code):
    found, shown = answer(monkeypatch, text)
    assert found == code, shown
    assert "Shall anna answer this job? [y/N]" in shown
    assert len(pinned(here)) == (code == 0)


def test_without_a_terminal_and_without_yes_nothing_is_pinned(here, study):
    assert "no terminal to ask on; in a script, give --yes" in approve("study.toml", code=2)
    assert "no terminal" in approve(study, code=2)
    assert pinned(here) == ()


@pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals")
def test_a_real_terminal(here, study):
    import pty

    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", "from fedgeom.cli import app; app()", "site", "approve", "study.toml"]
    process = subprocess.Popen([*command, "--folder", "anna"], stdin=theirs, stdout=subprocess.PIPE)
    os.write(ours, b"y\n")
    out, _ = process.communicate()
    os.close(ours)
    os.close(theirs)
    assert process.returncode == 0
    assert b"[y/N]" in out
    assert len(pinned(here)) == 1


# --- by hash ---


def test_a_bare_hash(here, study):
    assert "Only the hash is known here" in approve(study.upper(), "--yes")
    (one,) = pinned(here)
    assert (one.hash, one.job) == (study, None)
    assert "(hash only)" in call("site", "approvals", "--folder", "anna")


def test_how_many_jobs_gave_way_in_a_flood_is_shown(here, study):
    store = ApprovalStore(here / "anna")
    for seed in range(MOST_WAITING + 7):
        job = job_terms("moments", {}, seed, ["anna"])
        store.wait(store.read(), hash_terms(job).hex(), "r", job)
    assert "7 gave way to newer ones" in " ".join(call("site", "approvals", "--folder", "anna").split())


def test_the_hash_of_a_job_that_waits_shows_its_terms(here, study):
    store = ApprovalStore(here / "anna")
    job = job_terms("mo\x1b[2J", {"evil\x1b": "[bold]x[/bold]"}, 0, ["anna", "\x1b[1m"])
    digits = hash_terms(job).hex()
    store.wait(store.read(), digits, "r", job)
    shown = call("site", "approvals", "--folder", "anna")
    assert "waiting since" in shown
    assert f"fedgeom site approve {digits} --folder anna" in shown
    shown += approve(digits, "--yes")
    assert "[bold]x[/bold]" in shown
    assert "\x1b" not in shown
    assert store.read().waiting == ()


HOSTILE = {
    "line end": "\n",
    "carriage return": "\r",
    "both": "\r\n",
    "vertical tab": "\v",
    "form feed": "\f",
    "file separator": "\x1c",
    "next line": "\x85",
    "line separator": "\u2028",
    "paragraph separator": "\u2029",
    "clear the screen": "\x1b[2J\x1b[H",
    "cursor up": "\x1b[1A\x1b[2K",
    "cursor up, in one byte": "\x9b1A",
    "title": "\x1b]0;x\x07",
    "backspaces": "\b" * 40,
    "right to left": "\u202e",
    "isolate": "\u2067\u2069",
    "mark": "\u200f",
    "zero width": "\u200b",
    "markup": "[/][black on black]",
    "wide": "宽" * 200,
    "emoji": "👩\u200d🔬" * 50,
    "combining": "e" + "\u0301" * 200,
    "spaces": " " * 400,
}


@pytest.mark.parametrize("between", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("method", ["moments", "unknown"])
def test_the_terms_of_a_job_cannot_pose_as_lines_of_ours(here, study, method, between):
    forged = f"x{between}seed     7"
    name = method if method == "moments" else f"{method}{between}seed     7"
    settings = {"text": forged, forged: 1, "nested": {forged: [forged, {"deep": forged}]}}
    job = job_terms(name, settings, 3, ["anna", forged], release=f"1{between}seed     7.0")
    store = ApprovalStore(here / "anna")
    digits = hash_terms(job).hex()
    store.wait(store.read(), digits, "r", job)
    result = CliRunner().invoke(app, ["site", "approve", digits, "--folder", "anna", "--yes"])
    assert result.exit_code == 0, result.output
    shown = result.output.split("\n")
    assert all(line.isprintable() for line in shown)
    assert [line for line in shown if line.startswith("seed")] == ["seed     3"]
    parts = shown[: shown.index("settings") + 4]
    assert [line.split()[0] for line in parts[:4]] == ["method", "seed", "sites", "settings"]
    assert all(line.startswith("  ") and "seed     7" in line for line in parts[4:])
    firsts = ("method", "seed", "sites", "settings", "what leaves", "terms", "until", "Approved")
    assert all(sum(line.startswith(first) for line in shown) <= 1 for first in firsts)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("abc", "'abc' has 3 digits; the hash of terms has 64"),
        ("a" * 63, "has 63 digits"),
        ("a" * 65, "has 65 digits"),
        ("g" * 64, "is no file; wanted a federation file or the hash"),
        ("none.toml", "'none.toml' is no file"),
        ("", "'' is no file"),
    ],
)
def test_what_is_neither_a_file_nor_a_hash(here, study, given, words):
    assert words in approve(given, "--yes", code=2)
    assert pinned(here) == ()


@pytest.mark.parametrize(
    "options", [("--days", "0"), ("--days", "-1"), ("--days", "4000"), ("--days", "nan"), ("--runs", "0")]
)
def test_days_and_runs_that_make_no_sense(here, study, options):
    assert "wanted up to 3650 days, and 1 run or more" in approve("study.toml", "--yes", *options, code=2)
    assert pinned(here) == ()


def test_files_that_cannot_be_approved(here, study):
    (here / "other.toml").write_text('method = "hulls"\n[[sites]]\nname = "bert"\n[[sites]]\nname = "carl"\n')
    assert "'anna' is not among those who may take part: bert, carl" in approve("other.toml", "--yes", code=2)
    (here / "other.toml").write_text('method = "nothing"\n')
    assert "there is no method 'nothing'" in approve("other.toml", "--yes", code=2)
    (here / "other.toml").write_text("method = \n")
    assert "is not valid TOML" in approve("other.toml", "--yes", code=2)
    assert pinned(here) == ()
    assert "fedgeom site init" in call("site", "approve", "study.toml", "--folder", "nowhere", "--yes", code=2)


def test_what_the_policy_would_refuse_all_the_same_is_said(here, study):
    file = here / "anna" / "site.toml"
    file.write_text(file.read_text().replace("methods = []", 'methods = ["hulls"]'))
    assert "would refuse all the same: its policy allows the methods hulls" in approve("study.toml", "--yes")


def test_a_damaged_file_is_named_before_anything_is_asked(here, study):
    (here / "anna" / "approvals.json").write_text("{")
    for words in (("approve", "study.toml", "--yes"), ("approvals",), ("revoke", study)):
        assert "approvals.json is damaged" in call("site", *words, "--folder", "anna", code=2)


# --- listing and revoking ---


def test_the_list(here, study):
    assert "Nothing was approved yet, and nothing waits" in call("site", "approvals", "--folder", "anna")
    approve("study.toml", "--yes", "--runs", "2")
    store = ApprovalStore(here / "anna")
    file = store.read()
    store.use(file, file.approvals[0], "r")
    store.note(store.read(), "f" * 64, "s", job_terms("hulls", {}, 0, ["anna"]), "any")
    shown = call("site", "approvals", "--folder", "anna")
    assert re.search(rf"{study[:16]} moments 1/2 \d{{4}}-\d\d-\d\d \d\d:\d\d approved", shown)
    assert f"{'f' * 16} hulls 1 by rule: any" in shown
    assert 'site.toml says approve = "any"' in shown


def test_revoking(here, study):
    approve("study.toml", "--yes")
    assert "no approved job has a hash that begins with 'zz'" in call(
        "site", "revoke", "zz", "--folder", "anna", code=2
    )
    assert f"Revoked {study}" in call("site", "revoke", study[:8].upper(), "--folder", "anna")
    assert "was revoked already" in call("site", "revoke", study, "--folder", "anna")
    assert "revoked" in call("site", "approvals", "--folder", "anna")
    assert "fedgeom site init" in call("site", "revoke", study, "--folder", "nowhere", code=2)


def test_a_job_that_waits_is_shown_with_its_purpose_and_refused(here, made):
    job = job_terms("moments", {}, 0, ["anna"], purpose="Does age tell?")
    digits = hash_terms(job).hex()
    store = ApprovalStore(here / "anna")
    store.wait(store.read(), digits, "r", job)
    assert "purpose Does age tell?" in call("site", "approve", digits, "--yes", "--folder", "anna")
    other = job_terms("moments", {}, 1, ["anna"])
    store.wait(store.read(), hash_terms(other).hex(), "r", other)
    refused = hash_terms(other).hex()
    assert f"fedgeom site refuse {refused[:16]}" in call("site", "approvals", "--folder", "anna")
    assert f"Refused {refused}" in call("site", "refuse", refused[:12], "--folder", "anna")
    assert "refused" in call("site", "approvals", "--folder", "anna")
