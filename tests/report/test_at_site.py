"""The page of a run at a deployed site: its own rows and names, what it was asked, what left it; nothing of others."""

from __future__ import annotations

import numpy as np
import pytest

import fedgeom
from fedgeom.deploy.answers import read_data
from fedgeom.deploy.journal import Journal
from fedgeom.errors import InputError
from fedgeom.federation.session import Session
from fedgeom.report.at_site import is_site_result, read_site_run, site_results
from fedgeom.report.page import write_page
from tests.cli.calling import call
from tests.deploy.making import make_coordinator, make_sites
from tests.deploy.test_answering import RUN, FolderEngine

METHODS = {
    "hulls": fedgeom.Hulls(epsilon=0.05, holdout=0.25),
    "ellipses": fedgeom.Ellipses(space="euclidean", holdout=0.25),
    "moments": fedgeom.Moments(space="euclidean", holdout=0.25),
    "fedavg": fedgeom.FedAvg(n_rounds=2, epochs=1, holdout=0.25),
}


@pytest.fixture(scope="module", params=METHODS)
def result(request, tmp_path_factory):
    """What anna has of a run with bert and carl."""
    root = tmp_path_factory.mktemp("at-site")
    office = make_coordinator(root / "c")
    sites = make_sites(root, office)
    Session(METHODS[request.param], RUN, 0, office.roster()).conduct(FolderEngine(sites))
    return request.param, sites["anna"]


def test_it_is_read_from_the_site_s_own_folder(result):
    name, site = result
    (kept,) = site_results(site.path)
    folder = site.path / "results" / kept
    assert is_site_result(folder)
    run = read_site_run(folder)
    entries = Journal(site.path).entries()
    assert (run.home, run.method, run.status["state"]) == ("anna", name, "finished")
    assert list(run.sites) == ["anna", "bert", "carl"]
    assert list(run.ledger.sites) == ["anna"]
    assert run.ledger.sent() == sum(one.sent for one in entries)
    assert run.parameters["holdout"]["share"] == 0.25
    assert run.evaluation is not None
    table = read_data(site)
    drawn = run.rows.sites.get("anna")
    if name == "fedavg":
        assert drawn is None
        return
    assert len(drawn.points) == len(table)
    words = run.class_names()
    assert {words[group] for group in drawn.groups} == {"yes", "no"}
    if name == "hulls":  # a corner is one of the site's own rows
        corners = run.artifacts["hull_points"]
        assert np.isclose(corners[:, None], table.X[None]).all(axis=2).any(axis=1).all()
    else:
        np.testing.assert_allclose(run.artifacts["ellipse_counts"].sum(), len(table))


def test_the_page_has_the_site_s_rows_and_conversation_and_no_other_site_s(result, tmp_path):
    name, site = result
    folder = site.path / "results" / site_results(site.path)[0]
    page = write_page(folder, tmp_path / "page.html").read_text(encoding="utf-8")
    assert "What left anna" in page
    assert "The conversation" in page
    assert "Invited were also bert and carl" in page
    assert "Tested on" in page
    assert ('data-layer="rows"' in page) == (name != "fedavg")
    assert 'data-site="bert"' not in page
    without = write_page(folder, tmp_path / "page.html", rows=False).read_text(encoding="utf-8")
    assert 'data-layer="rows"' not in without


def test_the_command_writes_it_into_the_site_s_folder(result):
    _, site = result
    folder = site.path / "results" / site_results(site.path)[0]
    assert "report.html" in call("report", str(folder))
    assert (folder / "report.html").stat().st_mode & 0o77 == 0


def test_a_table_that_changed_is_said_and_the_rest_is_there(result):
    name, site = result
    if name != "hulls":
        pytest.skip("one method is enough")
    file = read_data(site) and site.path / site.config().file
    before = file.read_bytes()
    try:
        file.write_bytes(b"nonsense")
        run = read_site_run(site.path / "results" / site_results(site.path)[0])
    finally:
        file.write_bytes(before)
    assert "rows are not drawn" in run.warnings[0].what
    assert run.rows.sites == {}
    assert run.evaluation is not None


def test_another_folder_is_refused(tmp_path):
    assert not is_site_result(tmp_path)
    assert site_results(tmp_path) == []
    with pytest.raises(InputError, match="no result of a site"):
        read_site_run(tmp_path)
