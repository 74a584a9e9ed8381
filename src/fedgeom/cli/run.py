"""``fedgeom run``: a method over the sites that a federation file names."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from fedgeom.data.sites import SiteData
    from fedgeom.deploy.federation_file import FederationFile
    from fedgeom.federation.method import Method


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
    from fedgeom.data.sites import holdout
    from fedgeom.deploy.federation_file import build_policy, read_federation
    from fedgeom.engines.run import check_sites
    from fedgeom.engines.run import run as conduct
    from fedgeom.errors import InputError
    from fedgeom.federation.record import read_folder

    screen = console()
    plan = read_federation(federation)
    policy = build_policy(federation, plan)
    if resume is not None and (out is not None or seed is not None):
        raise InputError(
            "--resume goes on in the folder and with the seed of the run; leave --out and --seed away"
        )
    begun = plan.seed if resume is None else read_folder(resume)["config"]["seed"]
    chosen = begun if seed is None else seed
    method, sites, why = settled(federation, plan, screen)
    check_sites(method, sites, policy=policy)
    parts = [holdout(site, plan.holdout, chosen) for site in sites]
    train, test = [a for a, _ in parts], [b for _, b in parts]
    folder = resume or new_folder(out or Path("runs") / federation.stem)
    with kept(folder, screen, again=f"fedgeom run {federation} --resume {folder}"):
        with Questions(screen) as watch:
            finished = conduct(
                method,
                train,
                seed=chosen,
                policy=policy,
                record=folder,
                resumable=True,
                resume=resume is not None,
                watch=watch,
                chosen=why,
            )
        screen.print()
        show(finished, train, test, screen, C=method.baseline_c)


def settled(file: Path, plan: FederationFile, screen: Console) -> tuple[Method, list[SiteData], str]:
    """Read the sites' files and settle the method; print why it is that one where the file leaves it open."""
    from rich.markup import escape

    from fedgeom.deploy.choosing import choose
    from fedgeom.deploy.federation_file import build_method, read_sites

    if plan.method:
        build_method(file, plan)  # what is wrong with it is said before files are read
    tables = read_sites(file, plan)
    chosen = choose(file, plan, tables)
    if chosen.reason:
        screen.print(f"[dim]{escape(chosen.reason)}[/dim]\n", soft_wrap=True)
    method = build_method(file, chosen.federation)
    return method, [method.normalise_labels(site) for site in tables], chosen.reason
