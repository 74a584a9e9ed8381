"""``fedgeom run``: a method over the sites that a federation file names."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def run(
    federation: Annotated[
        Path, typer.Argument(help="A federation file; docs/federation-file.md says what is in it.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(help="Where to keep the run: OUT-1, OUT-2, …; runs/<name of the file> if not given."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="The seed, instead of the file's.")] = None,
) -> None:
    """Run a method over the sites of a federation file, all in this process, through the full protocol."""
    from fedgeom.cli.outcome import kept, new_folder, show
    from fedgeom.cli.screen import Questions, console
    from fedgeom.data.sites import holdout
    from fedgeom.federation.run import run as conduct
    from fedgeom.service.federation_file import build_method, build_policy, read_federation, read_sites

    screen = console()
    plan = read_federation(federation)
    method, policy = build_method(federation, plan), build_policy(federation, plan)
    chosen = plan.seed if seed is None else seed
    sites = [method.understood(site) for site in read_sites(federation, plan)]
    parts = [holdout(site, plan.holdout, chosen) for site in sites]
    train, test = [a for a, _ in parts], [b for _, b in parts]
    folder = new_folder(out or Path("runs") / federation.stem)
    with kept(folder, screen):
        with Questions(screen) as watch:
            finished = conduct(method, train, seed=chosen, policy=policy, record=folder, watch=watch)
        screen.print()
        show(finished, train, test, screen, C=getattr(method, "C", 5.0))
