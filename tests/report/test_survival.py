"""Survival curves on the page of a run, and numbers at risk in its tables."""

from __future__ import annotations

import fedgeom
from fedgeom.report.page import write_page
from fedgeom.report.run_folder import read_run
from fedgeom.report.survival import survival_section, survival_tables
from tests.methods.survival.making import part, rows


def test_curves_are_drawn_above_numbers_at_risk(tmp_path) -> None:
    sites = part(*rows())
    run = fedgeom.run(fedgeom.KaplanMeier(by="arm", exact=True), sites, record=tmp_path / "run")
    share, risk, test = survival_tables(run.model)
    assert [str(line[0]) for line in risk.rows] == list(run.model.names)
    first = [int(str(line[1]).replace(",", "")) for line in risk.rows]
    assert first == run.model.at([0.0])[:, 0].tolist()
    assert all(str(line[1]) == "1.000" for line in share.rows)
    assert str(test.rows[0][1]) == "1"
    page = write_page(tmp_path / "run").read_text()
    assert page.count('class="curve"') == 2
    assert "Numbers at risk" in page
    assert "fedgeom describe" not in page


def test_effects_on_times_are_not_asked_for_a_test(tmp_path) -> None:
    run = fedgeom.run(fedgeom.Cox(exact=True), part(*rows()), record=tmp_path / "run")
    assert run.verdict == read_run(tmp_path / "run").verdict
    assert "holdout" not in run.verdict


def test_one_curve_is_compared_with_none_and_other_models_have_none() -> None:
    sites = part(*rows())
    assert len(survival_tables(fedgeom.KaplanMeier(exact=True).plain(sites).model)) == 2
    assert survival_section(fedgeom.Cox(exact=True).plain(sites).model) == ""
