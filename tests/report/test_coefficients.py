"""Tables and forest plots of coefficients, as hazard ratios where times are modelled."""

from __future__ import annotations

import fedgeom
from fedgeom.report.coefficients import coefficient_tables, coefficients
from tests.methods.survival.making import part, rows


def test_hazard_ratios_are_told_and_drawn() -> None:
    model = fedgeom.Cox(treatment="arm").plain(part(*rows())).model.with_columns(("age", "marker", "arm"))
    table, fit, proportional = coefficient_tables(model)
    assert [str(row[0]) for row in table.rows] == ["arm", "age", "marker"]
    assert "hazard ratio" in table.head
    told = {str(name): str(value) for name, value in fit.rows}
    assert told["events"] == f"{model.statistics['events']:.4g}"
    assert told["half as many intervals move a coefficient by"].endswith("errors")
    assert [str(row[0]) for row in proportional.rows] == ["(all)", "age", "marker", "arm"]
    page = coefficients(model)
    assert page.count('class="point"') == 3
    assert "hazard ratio and 95% interval" in page


def test_strata_have_no_table_of_proportionality() -> None:
    model = fedgeom.Cox(stratify="site").plain(part(*rows())).model
    assert len(coefficient_tables(model)) == 2
