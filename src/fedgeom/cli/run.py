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
    resume: Annotated[
        Path | None,
        typer.Option(help="Finish the run in this folder, which was interrupted, instead of beginning a new one."),
    ] = None,
) -> None:
    """Run a method over the sites of a federation file, all in this process, through the full protocol."""
    from fedgeom.cli.outcome import kept, new_folder, show
    from fedgeom.cli.screen import Questions, console
    from fedgeom.deploy.federation_file import build_method, build_policy, read_federation, read_sites
    from fedgeom.engines.run import check_sites
    from fedgeom.engines.run import run as conduct
    from fedgeom.errors import InputError
    from fedgeom.federation.record import read_folder

    screen = console()
    plan = read_federation(federation)
    method, policy = build_method(federation, plan), build_policy(federation, plan)
    if resume is not None and (out is not None or seed is not None):
        raise InputError(
            "--resume goes on in the folder and with the seed of the run; leave --out and --seed away"
        )
    begun = plan.seed if resume is None else read_folder(resume)["config"]["seed"]
    chosen = begun if seed is None else seed
    sites = [method.normalise_labels(site) for site in read_sites(federation, plan)]
    check_sites(method, sites, policy=policy)
    folder = resume or new_folder(out or Path("runs") / federation.stem)
    with kept(folder, screen, again=f"fedgeom run {federation} --resume {folder}"):
        with Questions(screen) as watch:
            finished = conduct(
                method,
                sites,
                seed=chosen,
                policy=policy,
                record=folder,
                resumable=True,
                resume=resume is not None,
                watch=watch,
            )
        screen.print()
        show(finished, screen)
