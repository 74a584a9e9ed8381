"""``fedgeom submit``: run a job on the sites of a running coordinator."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from fedgeom.deploy.submit import Board
    from fedgeom.federation.coordinator import Event
    from fedgeom.report.table import Style

STYLES: dict[str, Style] = {
    "expected": "dim",
    "answering": "doubt",
    "waiting": "strong",
    "answered": "good",
    "lost": "bad",
}
"""How the state of a site is shown."""


def submit(
    federation: Annotated[
        Path | None, typer.Argument(help="A federation file; docs/deploy.md says what a submitted one may hold.")
    ] = None,
    folder: Annotated[
        Path,
        typer.Option(envvar="FEDGEOM_COORDINATOR", help="The coordinator's folder; the current one if not given."),
    ] = Path(),
    resume: Annotated[
        str | None, typer.Option(help="Finish this run, by its folder or name, instead of beginning a new one.")
    ] = None,
    rehearsal: Annotated[
        Path | None,
        typer.Option(
            "--from", help="Submit what this finished run rehearsed; the federation file is written here."
        ),
    ] = None,
) -> None:
    """Run a method over the connected sites, and show how each of them stands.

    Ends with code 0 when the run is finished, 1 when it failed, 130 when it was interrupted.
    """
    from fedgeom.cli.outcome import terminated
    from fedgeom.cli.screen import complain, console, tell
    from fedgeom.deploy import submit as service
    from fedgeom.deploy.coordinator_folder import CoordinatorFolder
    from fedgeom.errors import InputError
    from fedgeom.federation.policy import hash_terms
    from fedgeom.report.table import Cell

    if sum(one is not None for one in (federation, resume, rehearsal)) != 1:
        raise InputError("give either a federation file or --resume RUN or --from RUN, and one of them only")
    screen = console()
    if rehearsal is not None:
        federation = write_rehearsed(rehearsal, screen)
    made = CoordinatorFolder(folder.absolute())
    if federation is not None:
        job = service.new_job(made, federation)
        ignored = ", ".join(service.ignored_keys(job.file))
        if ignored:
            complain(f"not used in a submitted job, where every site has its site.toml: {ignored}", "yellow")
    else:
        assert resume is not None
        job = service.job_to_resume(made, resume)
    again = f"fedgeom submit --resume {job.name} --folder {folder}"
    tell(screen, "run ", Cell(job.name, "strong"), f" with {', '.join(job.names)}")
    tell(screen, f"terms    {hash_terms(job.terms()).hex()}")
    started = False
    try:
        with terminated():
            service.start(made, job)
            started = True
            with Display(screen, service.Board(job.names)) as watch:
                status = service.follow(made, job, watch)
    except KeyboardInterrupt:
        screen.print("\nstopping the run")
        if started:
            service.stop(made, job)
        tell(screen, f"Interrupted. What happened so far is in {job.run_folder}")
        tell(screen, f"to go on: {again}")
        raise typer.Exit(130) from None
    screen.print()
    if status.state != "finished":
        show_failure(job.run_folder, f"{status.state}: {status.detail}", screen)
        complain(f"the coordinator's log: {made.path / 'coordinator.log'}\nrecord: {job.run_folder}", "")
        complain(f"to go on: {again}\nif a site's keys, data or policy were the reason, submit anew instead", "")
        raise typer.Exit(1)
    show_record(job.run_folder, screen)


def write_rehearsed(run: Path, screen: Console) -> Path:
    """Write the federation file of a rehearsal into this folder; one with another content is not overwritten."""
    from fedgeom.cli.screen import tell
    from fedgeom.deploy.submit import rehearsed_file
    from fedgeom.errors import InputError
    from fedgeom.storage import write_text

    text = rehearsed_file(run)
    file = Path(f"{run.resolve().name}.toml")
    if file.exists() and file.read_text(encoding="utf-8") != text:
        raise InputError(f"{file} is there already, with another content; submit it, or move it away")
    write_text(file, text)
    tell(screen, f"wrote {file}; the sites' stewards need it: fedgeom site approve {file}")
    return file


def show_failure(folder: Path, said: str, screen: Console) -> None:
    """Print how a run failed, and the sites that it had lost by then: they are often why."""
    from fedgeom.cli.outcome import show_warnings
    from fedgeom.cli.screen import complain
    from fedgeom.federation.record import read_warnings

    show_warnings(read_warnings(folder), screen)
    complain(said)


class Display:
    """Shows how the sites stand: a live table on a terminal, lines elsewhere."""

    def __init__(self, out: Console, board: Board):
        from rich.live import Live

        self._out = out
        self._board = board
        self._live = Live(self._table(), console=out, refresh_per_second=4) if out.is_terminal else None

    def __enter__(self) -> Display:
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._live.stop()

    def __call__(self, event: Event | None) -> None:
        """Take note of an event; None: the run begins anew."""
        if event is None:
            self._board.clear()
        else:
            self._board.take(event)
            if self._live is None and event.state != "asked":
                from fedgeom.cli.screen import tell

                why = f": {event.detail}" if event.detail else ""
                happened = f"{event.site}: {event.state} {event.kind}"
                if event.state == "figures":
                    happened = "on rows set aside"
                if event.state == "waiting":
                    happened = f"waiting for approval at {event.site}"
                tell(self._out, f"{event.step:>3} {happened}{why}")
        if self._live:
            self._live.update(self._table())

    def _table(self) -> RenderableType:
        from fedgeom.report.table import Cell, Line, ReportTable, to_terminal
        from fedgeom.report.words import in_words

        title = f"step {self._board.step}"
        if self._board.waiting:
            title += f": waiting for approval at {', '.join(self._board.waiting)}"
        rows: list[Line] = [
            [name, Cell(line.state, STYLES.get(line.state, "")), in_words(line.kind), line.detail]
            for name, line in self._board.lines.items()
        ]
        return to_terminal(ReportTable(title, ["site", "state", "question", ""], rows))


def show_record(folder: Path, screen: Console) -> None:
    """Print what a run's record holds."""
    from fedgeom.cli.outcome import show_record as show_page
    from fedgeom.cli.outcome import show_warnings
    from fedgeom.cli.screen import tell
    from fedgeom.federation.record import read_folder
    from fedgeom.report import tables
    from fedgeom.report.table import to_terminal

    content = read_folder(folder)
    ledger = content["ledger"]
    screen.print(to_terminal(tables.ledger_table(ledger), tables.traffic_table(ledger)))
    screen.print()
    for name, value in content["metrics"].items():
        tell(screen, f"{name.replace('_', ' '):<18} {value}")
    screen.print()
    tell(screen, f"model    {folder / 'model.safetensors'}")
    show_page(folder, screen)
    show_warnings(content["warnings"], screen)
