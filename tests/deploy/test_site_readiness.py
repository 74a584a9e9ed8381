"""A site's own table, by itself and against a job; what is found is its steward's business alone."""

from __future__ import annotations

import numpy as np
import pytest

from fedgeom import Moments, Ridge
from fedgeom.deploy.answers import answer
from fedgeom.deploy.journal import Journal
from fedgeom.deploy.site import file_report, leaves_with, table_report, terms_report
from fedgeom.federation.messages import Refusal, decode, pack, unpack
from fedgeom.federation.policy import StrictPolicy, job_terms
from fedgeom.federation.results import LEAVES
from fedgeom.protocols.join.messages import Hello
from tests.deploy.making import NAMES, edit, make_coordinator, make_sites

METHOD = Moments(space="euclidean")
RUN = b"r" * 32


@pytest.fixture
def anna(tmp_path):
    return make_sites(tmp_path, make_coordinator(tmp_path / "c"), policy=StrictPolicy())["anna"]


def spoil(tmp_path, *, gaps=False, few=False, empty=False):
    """Write anna's table with some faults."""
    X, y = np.random.default_rng(0).normal(size=(40, 3)), np.repeat(["a", "b"], 20).astype("<U5")
    if gaps:
        X[[3, 9], [0, 2]] = np.nan
    if few:
        y[0] = "rare"
    if empty:
        y[-3:] = ""
    np.savez(tmp_path / "anna.npz", X=X, y=y)


def test_a_table_by_itself(anna, tmp_path):
    spoil(tmp_path, gaps=True, few=True, empty=True)
    report = table_report(anna)
    assert (report.method, report.sites[0].name, report.sites[0].gaps) == ("", "anna", 2)
    assert [(one.level, one.topic) for one in report.findings] == [("error", "gaps"), ("note", "labels")]
    assert "row 3, column 0 is nan; row 9, column 2 is nan" in report.errors[0].what


def test_a_table_against_a_federation_file(anna, tmp_path):
    spoil(tmp_path, gaps=True, few=True, empty=True)
    file = tmp_path / "f.toml"
    file.write_text('method = "moments"\n[parameters]\nspace = "euclidean"\n')
    assert {one.topic for one in file_report(anna, file).errors} == {"gaps", "labels", "classes"}
    edit(anna, "methods = []", 'methods = ["hulls"]')
    assert "its policy allows the methods hulls, not moments" in str(file_report(anna, file))
    spoil(tmp_path)
    edit(anna, 'methods = ["hulls"]', "methods = []")
    assert file_report(anna, file).ready
    file.write_text('method = "momens"\n')
    assert "Did you mean 'moments'?" in str(file_report(anna, file))


def test_a_table_against_announced_terms(anna, tmp_path):
    spoil(tmp_path, few=True)
    report = terms_report(anna, job_terms("moments", METHOD.terms(), 0, NAMES))
    (found,) = report.errors
    assert found.what == "has classes with fewer than 5 rows: 'rare' (1)"
    assert not terms_report(anna, job_terms("nothing", {}, 0, NAMES)).ready


@pytest.mark.parametrize("content", [None, b"no archive"])
def test_a_table_that_cannot_be_read_is_a_fault_and_no_traceback(content, anna, tmp_path):
    (tmp_path / "anna.npz").unlink()
    if content is not None:
        (tmp_path / "anna.npz").write_bytes(content)
    (found,) = table_report(anna).errors
    assert found.sites == ("anna",)


def test_text_is_told_and_the_other_columns_are_looked_at(anna, tmp_path):
    rows = "".join(f"{at},{'' if at == 7 else 2},male,{at % 2}\n" for at in range(40))
    (tmp_path / "anna.csv").write_text(f"age,bmi,sex,y\n{rows}")
    edit(anna, "anna.npz", "anna.csv")
    text, gap = table_report(anna).errors
    assert "these columns hold text, wanted numbers: 'sex'" in text.what
    assert gap.what == "row 9, column 'bmi' is nan"


def test_a_reader_that_stumbles_is_a_fault_and_no_traceback(anna, monkeypatch):
    def stumble(folder, columns, **options):
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr("fedgeom.deploy.site.read_data", stumble)
    (found,) = table_report(anna).errors
    assert "ZeroDivisionError: by zero" in found.what


@pytest.mark.parametrize("faults", [{"gaps": True}, {"few": True}, {"gaps": True, "few": True, "empty": True}])
def test_a_site_that_is_not_ready_leaves_and_the_coordinator_learns_no_more(faults, anna, tmp_path):
    """All that is wrong is in the site's own ledger; what the coordinator hears is the same for all faults."""
    spoil(tmp_path, **faults)
    ask = Hello(rounds=len(METHOD.site.all_sums(METHOD)), terms=METHOD.terms(), participants=NAMES)
    frame = unpack(answer(anna, pack(RUN, "moments", ask)))
    assert frame.kind == Refusal.kind
    assert decode(frame.body, Refusal).reason == LEAVES
    assert LEAVES.startswith("not ready")
    note = Journal(anna.path).entries()[-1].note
    words = {"gaps": "row 9, column 2 is nan", "few": "'rare' (1)", "empty": "3 of 40 rows have no label"}
    assert all(words[fault] in note for fault in faults)
    again = unpack(answer(anna, pack(RUN, "moments", ask)))
    assert "has left this run" in decode(again.body, Refusal).reason


def test_what_would_leave_is_said_for_the_settings_of_a_job():
    table = leaves_with(job_terms("ridge", Ridge(features="linear").terms(), 0, NAMES))
    images = leaves_with(job_terms("ridge", Ridge(features="conv", shape=(8, 8, 1)).terms(), 0, NAMES))
    assert not any("patches" in line for line in table)
    assert any("patches" in line for line in images)
    tested = leaves_with(job_terms("ridge", Ridge(holdout=0.25).terms(), 0, NAMES))
    assert any("rows kept aside have which class" in line for line in tested)
    assert not any("rows kept aside have which class" in line for line in table)
    assert leaves_with(job_terms("of-nobody", {}, 0, NAMES)) == ()
    (refused,) = leaves_with(job_terms("ridge", {"alpha": "nonsense"}, 0, NAMES))
    assert refused.startswith("nothing: the site refuses these settings")
