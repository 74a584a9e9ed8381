"""``fedgeom site budget``: what the site's runs have cost of its privacy."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedgeom.cli.site import Folder, app, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from fedgeom.deploy.budgets import Charge
    from fedgeom.federation.policy import Policy


@app.command()
def budget(
    folder: Folder = Path(),
    restart: Annotated[
        bool,
        typer.Option("--restart", help="Begin the count anew, after a loss; what was spent is then not counted."),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask: for scripts.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the budget as JSON, for machines.")] = False,
) -> None:
    """Show what each run cost, what all cost together, what is left, and which runs nobody can account for."""
    import json

    from rich.markup import escape

    from fedgeom.cli.screen import console
    from fedgeom.deploy.budgets import BudgetStore, unaccounted_runs
    from fedgeom.deploy.site_folder import SiteFolder

    site, screen = SiteFolder(folder.absolute()), console()
    policy = site.config().policy
    store = BudgetStore(site.path, site.identity(), policy)
    if restart:
        if not yes and not typer.confirm("Begin anew? What was spent before is then not counted.", default=False):
            raise typer.Exit(1)
        kept = store.restart()
        screen.print("The count begins anew." + (f" The old file is {escape(str(kept))}." if kept else ""))
        return
    charges, spent = store.read(), store.spent()
    unknown, cap = unaccounted_runs(site.path, charges), policy.max_epsilon
    if as_json:
        runs = [
            {"run": c.run, "method": c.method, "epsilon": c.epsilon, "delta": c.delta, "part": c.note}
            for c in charges
            if c.run
        ]
        found = {"runs": runs, "epsilon": spent, "delta": policy.budget_delta, "cap": cap, "unaccounted": unknown}
        typer.echo(json.dumps(found, indent=2))
        return
    _show(screen, charges, spent, unknown, policy)


def _show(
    screen: Console, charges: Sequence[Charge], spent: float, unknown: Sequence[str], policy: Policy
) -> None:
    """Print what each run cost, what all cost together, and which runs are in no budget."""
    from rich.markup import escape

    from fedgeom.errors import printable

    rows = [
        [
            datetime.datetime.fromtimestamp(one.when).strftime("%Y-%m-%d %H:%M"),
            one.run[:8],
            escape(printable(one.method)),
            one.unit,
            f"{one.epsilon:g}" if one.run else "",
            (f"{one.delta:g}" + (f" ({one.note} alone)" if one.note else "")) if one.run else one.note,
        ]
        for one in charges
    ]
    if rows:
        screen.print(table(["charged", "run", "method", "per", "epsilon", "delta"], rows, (4,)))
    else:
        screen.print("No run was charged yet.")
    left = f"of max_epsilon = {policy.max_epsilon:g}" if policy.max_epsilon else "(no limit: max_epsilon = 0)"
    screen.print(f"\nspent    epsilon = {spent:.3g} {left}, at delta = {policy.budget_delta:g}", soft_wrap=True)
    if unknown:
        many = len(unknown) > 1
        forbid = "" if policy.require_privacy else "; to take part in no more of these: require_privacy = true"
        screen.print(
            f"[yellow]unaccounted: {len(unknown)} run{'s' if many else ''} without privacy "
            f"({', '.join(run[:8] for run in unknown[:8])}{', …' if len(unknown) > 8 else ''}). What "
            f"{'they' if many else 'it'} showed is in no budget{forbid}[/yellow]",
            soft_wrap=True,
        )
