"""The studio as a web application for one folder, one token and this machine."""

from __future__ import annotations

import logging
import os
import secrets
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import contextmanager
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from fedgeom.errors import FedgeomError, InputError
from fedgeom.report.markup import asset
from fedgeom.storage import make_private_folder, write_text
from fedgeom.studio.pages import Handlers, Pages
from fedgeom.studio.places import Place

Scope = MutableMapping[str, Any]
Asgi = Callable[[Scope, Callable[[], Awaitable[Any]], Callable[[Any], Awaitable[None]]], Awaitable[None]]

HOSTS = ("127.0.0.1", "localhost", "[::1]")
"""The names of this machine that its loopback address goes by."""
HEADERS = (
    (b"content-security-policy", b"default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
     b"img-src 'self' data:; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"),
    (b"referrer-policy", b"same-origin"),  # without any, forms would not say where they come from
    (b"x-content-type-options", b"nosniff"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)  # fmt: skip
"""What every answer says: nothing from elsewhere is loaded, and the address with its token is told to nobody."""


def new_token() -> str:
    """Return a token that nobody can guess."""
    return secrets.token_urlsafe(24)


def link_folder() -> Path:
    """Return the folder for links to running studios: the system's for what runs now, or the user's own state."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    state = os.environ.get("XDG_STATE_HOME", "")
    if runtime and Path(runtime).is_dir():
        return Path(runtime) / "fedgeom"
    return (Path(state) if state else Path.home() / ".local" / "state") / "fedgeom"


@contextmanager
def link_file(address: str) -> Iterator[Path]:
    """Write a page that leads to the studio, which only the user can read, and remove it in the end.

    A browser is started with the name of this file: every user of the machine can read the words of a command.
    """
    link = escape(address)
    page = (
        f'<!doctype html><meta charset="utf-8"><title>fedgeom studio</title>'
        f'<meta http-equiv="refresh" content="0;url={link}"><a href="{link}">Open the studio</a>\n'
    )
    folder = make_private_folder(link_folder())
    file = write_text(folder / f"studio-{secrets.token_hex(8)}.html", page, private=True)
    try:
        yield file
    finally:
        file.unlink(missing_ok=True)


class Guard:
    """Lets through what comes from this machine with the token, and tells all others why not."""

    def __init__(self, app: Asgi, token: str):
        self.app = app
        self.token = token

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def careful(message: Any) -> None:
            if message["type"] == "http.response.start":
                there = {name.lower() for name, _ in message["headers"]}
                message["headers"] += [one for one in HEADERS if one[0] not in there]
            await send(message)

        why = self.refusal(scope)
        if why:
            await PlainTextResponse(why, status_code=403)(scope, receive, careful)
            return
        await self.app(scope, receive, careful)

    def refusal(self, scope: Scope) -> str:
        """Say why a request is refused; nothing where it is not."""
        said = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        host = said.get("host", "")
        name = host if host in HOSTS else host.rpartition(":")[0]
        if name not in HOSTS:
            return "The studio answers to 127.0.0.1 and localhost only.\n"
        first = str(scope["path"]).strip("/").partition("/")[0]
        if not secrets.compare_digest(first.encode(), self.token.encode()):
            return "This address has no token, or an old one. Open the address that `fedgeom studio` printed.\n"
        if said.get("sec-fetch-site", "none") not in ("none", "same-origin") and not self.opens(scope, said):
            return "This request comes from another page. Open the address that `fedgeom studio` printed.\n"
        origin = said.get("origin")
        if scope["method"] not in ("GET", "HEAD") and origin != f"http://{host}":
            return "This request does not come from the studio's own page, so nothing was done.\n"
        return ""

    def opens(self, scope: Scope, said: dict[str, str]) -> bool:
        """Say whether a whole tab goes to the first page, as `link_file` leads it; that changes nothing."""
        opening = said.get("sec-fetch-mode") == "navigate" and said.get("sec-fetch-dest") == "document"
        return opening and scope["method"] == "GET" and scope["path"] == f"/{self.token}/"


logger = logging.getLogger(__name__)


def make_app(folder: str | Path, token: str) -> Any:
    """Return the application; without the token it shows nothing."""
    path = Path(folder).absolute()
    if not path.is_dir():
        raise InputError(f"{path} is no folder; wanted one with runs, a site's, or a coordinator's")
    place = Place(path)
    pages = Pages(place, token)
    here = files("fedgeom.studio")

    async def style(request: Request) -> Response:
        return Response(asset("page.css") + (here / "static" / "studio.css").read_text(), media_type="text/css")

    async def script(request: Request) -> Response:
        return Response(asset("page.js"), media_type="text/javascript")

    def wrong(request: Request, error: Exception) -> Response:
        if not isinstance(error, FedgeomError | OSError):
            logger.error("the studio failed at %s", request.url.path.rpartition("/")[2], exc_info=error)
        return pages.sorry(error)

    def nowhere(request: Request, error: Exception) -> Response:
        code = error.status_code if isinstance(error, HTTPException) else 404
        return pages("sorry.html", code, said="There is no such page here; begin again at the start.")

    inner = Starlette(
        routes=[
            *Handlers(place, token, pages).routes(),
            Route("/style.css", style),
            Route("/page.js", script),
            Mount("/static", StaticFiles(directory=str(here / "static"))),
            Mount("/vendor", StaticFiles(directory=str(here / "vendor"))),
        ],
        exception_handlers={FedgeomError: wrong, OSError: wrong, HTTPException: nowhere, Exception: wrong},
    )
    return Guard(Starlette(routes=[Mount(f"/{token}", inner)], exception_handlers={HTTPException: nowhere}), token)
