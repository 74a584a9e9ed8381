"""``fedgeom check``: everything that is wrong with a federation file and its tables, before anything is computed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from fedgeom.protocols.plan import Costs
    from fedgeom.report.table import ReportTable


Coerce = Annotated[
    bool, typer.Option("--coerce", help="Make cells that are no numbers, in columns of numbers, gaps.")
]


def check(
    federation: Annotated[
        Path, typer.Argument(help="A federation file; docs/federation-file.md says what is in it.")
    ],
    policy: Annotated[
        str, typer.Option(help='What the sites allow where the file has no [policy]: "strict" or "relaxed".')
    ] = "strict",
    coerce: Coerce = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON, for machines.")] = False,
) -> None:
    """Find all faults of all sites at once, with what to do about each; nothing is computed or sent.

    Ends with code 0 when a run can begin, 1 when it cannot.
    """
    import json

    from fedgeom.cli.screen import console, show_report, tell
    from fedgeom.deploy.federation_check import check_federation
    from fedgeom.report.table import Cell

    screen = console()
    if as_json:
        report = check_federation(federation, policy=policy, coerce=coerce).report
        typer.echo(json.dumps(report.plain(), indent=2, ensure_ascii=False))
        raise typer.Exit(0 if report.ready else 1)
    with screen.status("reading the sites' files"):
        checked = check_federation(federation, policy=policy, coerce=coerce)
    report = checked.report
    some = f": {report.method}" if report.method else ""
    over = f" over {len(report.sites)} site{'s' if len(report.sites) != 1 else ''}" if report.sites else ""
    tell(screen, Cell(str(federation), "strong"), f"{some}{over}")
    screen.print()
    if checked.chosen:
        tell(screen, Cell(checked.chosen, "dim"))
        screen.print()
    show_report(report, screen)
    screen.print()
    if report.ready:
        tell(screen, Cell("ready", "good"), f": fedgeom run {federation}{' --coerce' if coerce else ''}")
        return
    count = len(report.errors)
    tell(screen, Cell("not ready", "bad"), f": {count} fault{'s' if count > 1 else ''}")
    raise typer.Exit(1)


def cost(
    federation: Annotated[
        Path, typer.Argument(help="A federation file; docs/federation-file.md says what is in it.")
    ],
    sites: Annotated[
        list[int] | None, typer.Option(help="Also for so many sites of such tables; may be repeated.", min=2)
    ] = None,
    policy: Annotated[
        str, typer.Option(help='What the sites allow where the file has no [policy]: "strict" or "relaxed".')
    ] = "strict",
    coerce: Coerce = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON, for machines.")] = False,
) -> None:
    """Say what a job will cost before it runs: questions, bytes, processor time, memory; nothing is sent.

    Bytes are exact where no site is lost; processor times are those of a small machine, and memory is a guess.
    """
    import json
    from dataclasses import replace

    from fedgeom.cli.screen import console, tell
    from fedgeom.deploy.federation_check import check_federation, stop_if_unready
    from fedgeom.protocols.plan import costs_of, shape_like, shape_of
    from fedgeom.report.table import Cell, to_terminal

    checked = check_federation(federation, policy=policy, coerce=coerce)
    plan, method, looked = stop_if_unready(checked)
    tables = looked.sites
    shape = shape_of(method, tables, checked.policy, plan.seed)
    found = {len(tables): costs_of(method, shape)}
    for count in sites or ():
        found[count] = costs_of(method, replace(shape, sites=shape_like(count).sites, own_names=()))
    if as_json:
        typer.echo(json.dumps({str(count): figures(one) for count, one in found.items()}, indent=2))
        return
    screen = console()
    tell(screen, Cell(str(federation), "strong"), f": {method.name} over {len(tables)} sites")
    screen.print()
    screen.print(to_terminal(question_table(found[len(tables)]), total_table(found)))
    for line in dict.fromkeys(line for one in found.values() for line in one.bounds):
        tell(screen, Cell("upper bound", "doubt"), f": {line}")


def figures(costs: Costs) -> dict[str, Any]:
    """Return the figures of a run as plain values."""
    names = (
        "questions up down total_up total_down largest site_seconds coordinator_seconds site_memory "
        "coordinator_memory bounds"
    )
    return {name: getattr(costs, name) for name in names.split()}


def question_table(costs: Costs) -> ReportTable:
    """Return one row for each kind of question."""
    from fedgeom.report.table import ReportTable, size
    from fedgeom.report.words import WORDS

    kinds: dict[str, list[float]] = {}
    for one in costs.exchanges:
        row = kinds.setdefault(one.kind, [0, 0.0, 0.0])
        row[0] += one.times
        row[1] += one.times * one.down
        row[2] += one.times * one.up
    rows = [
        [WORDS.get(kind, kind), f"{times:.0f}", size(down), size(up)] for kind, (times, down, up) in kinds.items()
    ]
    return ReportTable("", ["question", "times", "to a site", "from it"], rows, right=(1, 2, 3))


def total_table(found: dict[int, Costs]) -> ReportTable:
    """Return one column for each number of sites."""
    from fedgeom.report.table import ReportTable, size

    rows = [
        ["questions", *(f"{one.questions:,}" for one in found.values())],
        ["a site receives", *(size(one.down) for one in found.values())],
        ["a site sends", *(size(one.up) for one in found.values())],
        ["largest message", *(size(one.largest) for one in found.values())],
        ["the coordinator sends", *(size(one.total_down) for one in found.values())],
        ["the coordinator receives", *(size(one.total_up) for one in found.values())],
        ["a site's processor, about", *(f"{one.site_seconds:.2g} s" for one in found.values())],
        ["the coordinator's, about", *(f"{one.coordinator_seconds:.2g} s" for one in found.values())],
        ["a site's memory, about", *(size(one.site_memory) for one in found.values())],
        ["the coordinator's, about", *(size(one.coordinator_memory) for one in found.values())],
    ]
    head = ["", *(f"{count:,} sites" for count in found)]
    return ReportTable("", head, rows, right=range(1, len(head)))
