"""What the commands print on the way."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.markup import escape
from rich.table import Table

import fedgeom.methods  # noqa: F401  # registers ours
from fedgeom import Cox, KaplanMeier
from fedgeom.cli.screen import MOST_LINES, Questions, complain, console, show_report, tell
from fedgeom.data.validation import Finding, Report, SiteSummary, fault
from fedgeom.federation.coordinator import Event
from fedgeom.federation.method import METHODS
from fedgeom.methods.describe.method import Describe
from fedgeom.methods.ridge.update import RidgeUpdate
from fedgeom.report.table import Cell
from fedgeom.report.words import WORDS


def asked_kinds():
    ours = [METHODS[name] for name in METHODS if METHODS[name].__module__.startswith("fedgeom.")]
    ours += [Describe, RidgeUpdate, Cox, KaplanMeier]  # in no list of methods
    return {kind for method in ours for kind in method.site.understands()}


def test_every_question_of_ours_has_plain_words_and_no_words_are_left_over():
    assert set(WORDS) == asked_kinds()


def test_no_text_rules_the_terminal(capsys):
    hostile = "anna\x1b[2J\x1b]0;x\x07\u202e"
    screen = console()
    table = Table("name")
    table.add_row(hostile)
    screen.print(hostile)
    screen.print(f"[bold]{escape(hostile)}[/bold]")
    screen.print(hostile, markup=False)
    screen.print(table)
    complain(hostile)
    shown = display([Event(1, hostile, hostile, "asked"), Event(1, hostile, hostile, "lost", hostile)])
    said = capsys.readouterr()
    for text in (said.out, said.err, shown):
        assert "anna\\x1b[2J" in text
        assert text.replace("\n", "").isprintable()
    assert said.out.count("anna") == 4


def display(events, width=120):
    out = Console(file=io.StringIO(), width=width, force_terminal=False)
    with Questions(out) as watch:
        for event in events:
            watch(event)
    return out.file.getvalue()


def test_a_question_is_one_line_that_fills_as_sites_answer():
    text = display(
        [
            Event(1, "join.hello", "north", "asked"),
            Event(1, "join.hello", "south", "asked"),
            Event(1, "join.hello", "north", "answered"),
            Event(1, "join.hello", "south", "lost", "no route"),
            Event(2, "strange.kind", "north", "asked"),
        ]
    )
    lines = [line for line in text.splitlines() if line.strip()]
    assert len(lines) == 2
    assert WORDS["join.hello"] in lines[0]
    assert "1/2" in lines[0]
    assert "south is lost: no route" in lines[0]
    assert "strange.kind" in lines[1]
    assert "0/1" in lines[1]


def test_who_is_lost_is_said_while_others_are_waited_for():
    text = display(
        [
            Event(1, "join.hello", "north", "asked"),
            Event(1, "join.hello", "south", "asked"),
            Event(1, "join.hello", "south", "lost", "no route"),
        ]
    )
    assert "south is lost" in text


def test_a_step_that_lost_a_site_has_no_hook_but_the_site_and_the_reason():
    both = [Event(1, "join.hello", name, "asked") for name in ("north", "south")]
    came = [Event(1, "join.hello", name, "answered") for name in ("north", "south")]
    why = "the answer would have 72,000,000 bytes; the policy of 'south' has max_message_bytes = 67,108,864"
    lost = Event(1, "join.hello", "south", "lost", why)
    assert "✓" in display([*both, *came])
    for events in ([*both, came[0], lost], [*both, *came, lost]):  # one that answered may be left out afterwards
        text = display(events, width=160)
        assert "✓" not in text
        assert "✗" in text
        assert "1/2" in text
        assert "south is lost: the answer would have 72,000,000 bytes" in text


def test_of_many_rounds_those_that_lost_a_site_stay():
    first = [Event(1, "kind-1", "north", "asked"), Event(1, "kind-1", "north", "lost", "no route")]
    text = display([*first, *(Event(step, f"kind-{step}", "south", "asked") for step in range(2, 40))])
    assert "north is lost: no route" in text
    assert sum("kind-" in line for line in text.splitlines()) == MOST_LINES + 1


def test_of_many_rounds_the_last_ones_are_shown():
    text = display([Event(step, f"kind-{step}", "north", "asked") for step in range(1, 40)])
    assert "kind-39" in text
    assert "kind-1 " not in text
    assert sum("kind-" in line for line in text.splitlines()) == MOST_LINES


def test_complaints_go_to_the_error_stream_as_they_are(capsys: pytest.CaptureFixture[str]):
    complain("[bold]no markup[/bold] " + "and no folding " * 20)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.strip() == ("[bold]no markup[/bold] " + "and no folding " * 20).strip()


def test_who_waits_for_a_steward_is_said_and_not_counted():
    text = display([Event(1, "join.hello", "ulm", "asked"), Event(1, "join.hello", "ulm", "waiting")])
    assert "waiting for approval at ulm" in text
    assert "0/1" in text


def test_a_rounds_figures_are_shown_beside_its_last_question():
    text = display(
        [
            Event(1, "sum.unmask", "ulm", "asked"),
            Event(1, "sum.unmask", "ulm", "answered"),
            Event(1, "sum.unmask", "", "figures", "joint 87.5%, personal 90.0%"),
        ]
    )
    assert "joint 87.5%, personal 90.0%" in text
    assert "1/1" in text


def test_errors_come_first_and_the_same_advice_is_given_once(capsys):
    findings = [
        Finding(level="note", what="wide"),
        fault("gap 1", "fill [it]", site="ulm"),
        fault("few rows", site="ulm"),
        *(fault(f"lone {at}", "merge", site="ulm") for at in range(11)),
        fault("gap 2", "fill [it]", site="bonn"),
        Finding(level="warning", what="odd", remedy="look"),
    ]
    ulm = SiteSummary("ulm", 1200, 3, {"a": 700, "b": 500}, 0, 0)
    show_report(Report.of("moments", [ulm], findings), Console(width=100))
    said = capsys.readouterr().out
    assert "2: a 700, b 500" in said
    order = [
        said.index(word)
        for word in ("errors:", "gap 1", "gap 2", "fill [it]", "warnings:", "odd", "look", "notes")
    ]
    assert order == sorted(order)
    assert said.count("fill [it]") == said.count("merge") == 1
    assert "lone 7" in said
    assert "lone 8" not in said
    assert "and 3 more of this kind (--json lists all)" in said


def test_what_is_told_is_one_line_whatever_others_wrote():
    out = Console(file=io.StringIO(), width=20)
    tell(out, "method   ", Cell("[red]moments\nseed     7\x1b[2J", "strong"), ", fedgeom 1.0 and so on")
    assert out.file.getvalue() == "method   [red]moments\\nseed     7\\x1b[2J, fedgeom 1.0 and so on\n"
