"""The command line: parse, call, print."""

from __future__ import annotations

import errno
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from fedgeom.cli import coordinator, site
from fedgeom.cli.check import check, cost
from fedgeom.cli.demo import demo
from fedgeom.cli.inspect import data, ledger, methods, report, studio
from fedgeom.cli.predict import export, predict
from fedgeom.cli.run import compare, describe, run, sweep
from fedgeom.cli.screen import Terminated, complain
from fedgeom.cli.submit import submit
from fedgeom.errors import FedgeomError
from fedgeom.version import __version__

__all__ = ["app"]


class _Commands(TyperGroup):
    """Turns our errors, and a full disk, into one message and code 2, Ctrl-C into 130 and SIGTERM into 143."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except FedgeomError as error:
            complain(str(error))
            raise typer.Exit(2) from None
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            where = f" ({error.filename})" if error.filename else ""
            complain(
                f"the disk is full{where}, or your quota is. Files are whole or as they were; make room, and run the "
                "command again"
            )
            raise typer.Exit(2) from None
        except KeyboardInterrupt as error:
            raise typer.Exit(143 if isinstance(error, Terminated) else 130) from None


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Federated learning from the shape of data: rows stay at the site, geometry travels.",
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"fedgeom {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Hold what all commands share."""


for _command in (
    demo,
    check,
    cost,
    describe,
    run,
    compare,
    sweep,
    submit,
    report,
    studio,
    ledger,
    predict,
    export,
    methods,
    data,
):
    app.command()(_command)
app.add_typer(site.app, name="site")
app.add_typer(coordinator.app, name="coordinator")
