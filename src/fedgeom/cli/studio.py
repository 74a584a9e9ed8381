"""``fedgeom studio``: a local web page over a folder of runs, a site's folder or a coordinator's."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def studio(
    folder: Annotated[
        Path, typer.Argument(help="Where to work: a folder with runs, a site's or a coordinator's.")
    ] = Path(),
    port: Annotated[int, typer.Option(help="The port on this machine; 0: one that is free.")] = 0,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Whether to open a browser.")] = True,
) -> None:
    """Open a page to drop tables on, run studies, watch them, compare runs, and approve jobs; on this machine only.

    The address has a random token: who does not know it gets nothing. Stop it with Ctrl-C; runs go on.
    """
    import socket
    import webbrowser

    from fedgeom.errors import InputError

    try:
        import uvicorn

        from fedgeom.studio.app import make_app, new_token
    except ImportError as error:
        raise InputError(
            f"the studio needs the extra `studio`: pip install 'fedgeom[studio]' ({error})"
        ) from error

    token = new_token()
    app = make_app(folder, token)
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(("127.0.0.1", port))
        listening.listen(64)  # who opens the address at once waits, and is not refused
    except (OSError, OverflowError) as error:
        raise InputError(
            f"port {port} cannot be used: {error}; leave --port away, and a free one is found"
        ) from error
    address = f"http://127.0.0.1:{listening.getsockname()[1]}/{token}/"
    typer.echo(f"the studio is at {address}\nIt answers this machine only. Stop it with Ctrl-C; runs go on.")
    if browser:
        webbrowser.open(address)
    config = uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=1)
    uvicorn.Server(config).run(sockets=[listening])
