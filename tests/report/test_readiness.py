"""A report in a terminal: a table of sites, then what was found, errors first, the same advice once."""

from __future__ import annotations

from fedgeom.data.validation import Finding, Report, SiteSummary, fault
from fedgeom.report.tables import show_report, sites_table
from tests.report.printing import printed

ULM = SiteSummary("ulm", 1200, 3, {"a": 700, "b": 500}, 0, 0)
BONN = SiteSummary("bonn", 80, 4, {f"c{at}": 10 + at for at in range(8)}, 2, 7)


def test_a_table_of_sites():
    lines = printed(sites_table([ULM, BONN])).splitlines()
    assert lines[0].split() == ["site", "rows", "columns", "classes", "no", "label", "gaps"]
    assert "1,200" in lines[1]
    assert "2: a 700, b 500" in lines[1]
    assert "8: c7 17, c6 16, c5 15, c4 14, c3 13, c2 12 and 2 more" in lines[2]
    assert lines[3].split()[:3] == ["all", "1,280", "differ"]
    assert "gaps" not in printed(sites_table([ULM]))


def test_errors_come_first_and_the_same_advice_is_given_once(capsys):
    from rich.console import Console

    findings = [
        Finding(level="note", what="wide"),
        fault("gap 1", "fill [it]", site="ulm"),
        fault("few rows", site="ulm"),
        *(fault(f"lone {at}", "merge", site="ulm") for at in range(11)),
        fault("gap 2", "fill [it]", site="bonn"),
        Finding(level="warning", what="odd", remedy="look"),
    ]
    show_report(Report.of("moments", [ULM, BONN], findings), Console(width=100))
    said = capsys.readouterr().out
    order = [
        said.index(word)
        for word in ("errors:", "gap 1", "gap 2", "fill [it]", "warnings:", "odd", "look", "notes")
    ]
    assert order == sorted(order)
    assert said.count("fill [it]") == said.count("merge") == 1
    assert "lone 7" in said
    assert "lone 8" not in said
    assert "and 3 more of this kind (--json lists all)" in said
