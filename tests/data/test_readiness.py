"""A report: what each site has, what was found, and one error that lists all."""

from __future__ import annotations

import json

import numpy as np
import pytest

from fedgeom.data.sites import SiteData
from fedgeom.data.validation import FaultsError, Finding, Report, fault, summaries

SITE = SiteData("ulm", [[1.0, np.nan], [2.0, 3.0], [4.0, 5.0]], ["a", "a", ""])
ODD = Finding(level="warning", what="odd", remedy="look", sites=("ulm",), topic="scale")


def report(*findings):
    return Report.of("moments", summaries([SITE]), findings)


def test_what_a_site_has():
    (found,) = summaries([SITE])
    assert (found.rows, found.columns, found.classes, found.unlabelled, found.gaps) == (3, 2, {"a": 2}, 1, 1)


def test_errors_make_a_report_unready_and_are_raised_together():
    ready = report(ODD)
    assert ready.ready
    assert repr(ready) == "Report(ready: 1 warning)"
    ready.raise_errors()
    one = report(ODD, fault("gap", site="ulm"))
    with pytest.raises(FaultsError, match=r"^site 'ulm': gap$"):
        one.raise_errors()
    two = report(ODD, fault("gap", site="ulm"), fault("one site", topic="policy"))
    assert str(two).splitlines()[0] == "not ready: 2 errors, 1 warning"
    with pytest.raises(FaultsError) as caught:
        two.raise_errors()
    assert str(caught.value).splitlines() == ["not ready, 2 faults:", "site 'ulm': gap", "one site"]
    with pytest.raises(FaultsError, match=r"^site 'ulm': gap$"):
        two.raise_errors(but=("policy",))
    assert two.warnings == (ODD,)
    assert "<li><b>error</b> one site</li>" in two._repr_html_()


def test_a_report_as_json():
    found = json.loads(json.dumps(report(fault("gap", "fill it", site="ulm", topic="gaps")).plain()))
    assert found["ready"] is False
    assert found["sites"][0]["classes"] == {"a": 2}
    assert found["findings"] == [
        {"level": "error", "what": "gap", "remedy": "fill it", "sites": ["ulm"], "topic": "gaps", "columns": []}
    ]


def test_a_report_on_nothing():
    assert str(Report.of("", (), ())) == "ready"
