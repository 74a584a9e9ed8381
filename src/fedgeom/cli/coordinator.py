"""``fedgeom coordinator``: the folder, the roster, and the running of a coordinator."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedgeom.errors import printable

app = typer.Typer(no_args_is_help=True, help="The coordinator: admit sites, carry questions, keep records.")

Folder = Annotated[
    Path,
    typer.Option(envvar="FEDGEOM_COORDINATOR", help="The coordinator's folder; the current one if not given."),
]


def say(text: str) -> None:
    """Print a line at once, also into a pipe; what others sent in it cannot rule the terminal."""
    typer.echo(printable(text, lines=True))


@app.command()
def init(
    folder: Folder = Path(),
    name: Annotated[
        list[str] | None,
        typer.Option(help="A host name or address by which sites reach this machine; may be given often."),
    ] = None,
    host: Annotated[str, typer.Option(help="Where to listen; 0.0.0.0 is everywhere.")] = "0.0.0.0",
    port: Annotated[int, typer.Option(help="The port for sites.")] = 8000,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="No TLS; on this machine only (127.0.0.1).")
    ] = False,
    websocket: Annotated[
        int, typer.Option(help="Also listen here for sites that come over wss://, such as 443.")
    ] = 0,
    nats: Annotated[
        str,
        typer.Option(help="NATS servers that run already, HOST:PORT with commas between; none is started here."),
    ] = "",
    renew: Annotated[
        bool, typer.Option("--renew", help="Only make a new TLS certificate, with the names in coordinator.toml.")
    ] = False,
    new_key: Annotated[
        bool, typer.Option("--new-key", help="Only make a new key for the coordinator's own NATS connection.")
    ] = False,
) -> None:
    """Make the certificate authority, the TLS certificate and an empty roster."""
    from fedgeom.deploy.certificates import valid_until
    from fedgeom.deploy.coordinator_folder import CoordinatorFolder
    from fedgeom.errors import InputError

    if renew:
        made = CoordinatorFolder(folder.absolute())
        made.renew()
        end = valid_until(made.path / "server.pem")
        typer.echo(f"new TLS certificate, valid until {end:%Y-%m-%d}; start the coordinator again to use it")
        return
    if new_key:
        made = CoordinatorFolder(folder.absolute())
        made.config()
        made.new_nats_key()
        typer.echo(f"new key in {made.nats_key}; start the coordinator again to use it")
        return
    if insecure and host == "0.0.0.0":
        host = "127.0.0.1"
    if not name and not insecure and not nats and host == "0.0.0.0":
        raise InputError(
            "no --name was given; sites check that the certificate is made out for the address they use, such as "
            "--name coordinator.hospital.example"
        )
    made = CoordinatorFolder.create(
        folder, names=name or [], host=host, port=port, insecure=insecure, websocket=websocket, servers=nats
    )
    typer.echo(f"coordinator's folder: {made.path}")
    typer.echo("next: fedgeom coordinator admit NAME.pub for each site, then send all sites roster.json", err=True)
    if not insecure:
        typer.echo("and ca.pem. Keep ca.key to yourself: who has it can pretend to be the coordinator.", err=True)


@app.command()
def admit(
    files: Annotated[list[Path], typer.Argument(help="Public files of sites, NAME.pub.")], folder: Folder = Path()
) -> None:
    """Let sites in; a running coordinator takes note within seconds."""
    from fedgeom.crypto.keys import describe_identity
    from fedgeom.deploy.coordinator import is_running
    from fedgeom.deploy.coordinator_folder import CoordinatorFolder

    made = CoordinatorFolder(folder.absolute())
    made.config()
    for file in files:
        lines = made.admit(file)
        typer.echo(f"admitted {lines.name}, identity {describe_identity(bytes.fromhex(lines.identity))}")
    typer.echo(f"check the identity by telephone; then send {made.roster_file} to all sites", err=True)
    if is_running(made):
        typer.echo("the running coordinator lets new sites in within seconds", err=True)


@app.command()
def remove(name: Annotated[str, typer.Argument(help="The site's name.")], folder: Folder = Path()) -> None:
    """Take a site out of the roster; it is asked no more."""
    from fedgeom.deploy.coordinator_folder import CoordinatorFolder

    made = CoordinatorFolder(folder.absolute())
    made.config()
    made.remove(name)
    typer.echo(f"removed {name}")
    typer.echo(f"send the new {made.roster_file} to all sites, so that they refuse it too", err=True)


@app.command(name="list")
def list_(folder: Folder = Path()) -> None:
    """Show the admitted sites, and which are connected."""
    from fedgeom.deploy.coordinator import is_running, list_sites
    from fedgeom.deploy.coordinator_folder import CoordinatorFolder

    made = CoordinatorFolder(folder.absolute())
    made.config()
    running = is_running(made)
    sites = list_sites(made)
    for site in sites:
        typer.echo(f"{site.name:<20} {site.connection or 'admitted':<16} {site.identity}")
    state = f"running at {made.address()}" if running else "not running"
    typer.echo(f"{len(sites)} sites admitted; the coordinator is {state}", err=True)


@app.command()
def start(folder: Folder = Path()) -> None:
    """Carry questions between jobs and sites until stopped."""
    from fedgeom.deploy.coordinator import run_coordinator
    from fedgeom.deploy.coordinator_folder import CoordinatorFolder
    from fedgeom.engines.processes import ending_politely

    try:
        with ending_politely():
            run_coordinator(CoordinatorFolder(folder.absolute()), say)
    except KeyboardInterrupt:
        say("stopped")


AsJson = Annotated[bool, typer.Option("--json", help="As one JSON object, for programs.")]


@app.command()
def status(folder: Folder = Path(), as_json: AsJson = False) -> None:
    """Show how the coordinator stands; the code is 0 when all is well, 1 when something is wrong."""
    from fedgeom.cli.screen import show_health
    from fedgeom.deploy.coordinator_folder import CoordinatorFolder
    from fedgeom.deploy.status import coordinator_health

    show_health(coordinator_health(CoordinatorFolder(folder.absolute())), as_json)


@app.command()
def jobs(
    folder: Folder = Path(),
    stop: Annotated[str, typer.Option(help="Stop this job; submit --resume goes on with it.")] = "",
    remove: Annotated[str, typer.Option(help="Delete this job and its record.")] = "",
    as_json: AsJson = False,
) -> None:
    """List the jobs and how they stand; or stop one, or remove one with its record."""
    import msgspec

    from fedgeom.deploy import submit
    from fedgeom.deploy.coordinator_folder import CoordinatorFolder
    from fedgeom.deploy.jobs import load_job
    from fedgeom.deploy.status import list_jobs, remove_job

    made = CoordinatorFolder(folder.absolute())
    made.config()
    if stop:
        job = load_job(made, stop)
        submit.stop(made, job)
        say(f"stopped {job.name}; to go on: fedgeom submit --resume {job.name} --folder {folder}")
    if remove:
        remove_job(load_job(made, remove))
        say(f"removed {remove}")
    if stop or remove:
        return
    found = list_jobs(made)
    if as_json:
        typer.echo(msgspec.json.encode(found).decode())
        return
    for one in found:
        state = f"{one.state}, being conducted" if one.conducted else one.state
        say(f"{one.name:<24} {state:<28} {one.time:<26} {one.detail}".rstrip())
    typer.echo(f"{len(found)} job{'' if len(found) == 1 else 's'}", err=True)
