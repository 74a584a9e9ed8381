"""The studio as a web application for one folder, one token and this machine."""

from __future__ import annotations

import logging
from importlib.resources import files
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from fedgeom.errors import FedgeomError, InputError
from fedgeom.report.markup import asset
from fedgeom.studio.guard import Guard
from fedgeom.studio.pages import Handlers
from fedgeom.studio.places import Place
from fedgeom.studio.rendering import Pages

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
            Mount("/static", StaticFiles(directory=str(here / "static"))),
            Mount("/vendor", StaticFiles(directory=str(here / "vendor"))),
        ],
        exception_handlers={FedgeomError: wrong, OSError: wrong, HTTPException: nowhere, Exception: wrong},
    )
    return Guard(Starlette(routes=[Mount(f"/{token}", inner)], exception_handlers={HTTPException: nowhere}), token)
