"""Pages from templates, in which every text is escaped, and sentences for what went wrong."""

from __future__ import annotations

import errno
from typing import Any

from jinja2 import Environment, PackageLoader, select_autoescape
from starlette.responses import HTMLResponse

from fedgeom.errors import FedgeomError, printable
from fedgeom.report.tables import size
from fedgeom.studio.places import Place


def environment(place: Place, token: str) -> Environment:
    """Return the templates with what all of them use."""
    made = Environment(
        loader=PackageLoader("fedgeom.studio"), autoescape=select_autoescape(default=True, default_for_string=True),
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    made.globals |= {"place": place, "at": lambda path: f"/{token}{path}", "size": size}
    here = f"{place.path}/"  # its pages speak of files as they lie in the folder

    def plain(text: Any) -> str:
        return printable(str(text).replace(here, "").replace("studies/../", ""), lines=True)

    made.filters["plain"] = plain
    return made


class Pages:
    """Renders pages."""

    def __init__(self, place: Place, token: str):
        self._templates = environment(place, token)

    def text(self, template: str, **values: Any) -> str:
        """Return a page, or a part of one, as text."""
        return str(self._templates.get_template(template).render(**values))

    def __call__(self, template: str, code: int = 200, **values: Any) -> HTMLResponse:
        """Return a page as an answer."""
        return HTMLResponse(self.text(template, **values), status_code=code)

    def sorry(self, error: BaseException) -> HTMLResponse:
        """Return the page of what went wrong: a sentence, and never a stack trace."""
        said, code = sentence(error)
        return self("sorry.html", code, said=said)


def sentence(error: BaseException) -> tuple[str, int]:
    """Return what to say of an error, and the status of the answer."""
    if isinstance(error, FedgeomError):
        return str(error), 400
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "The disk is full: nothing was lost, and nothing new was written. Make room, and try again.", 507
    if isinstance(error, OSError):
        return f"A file could not be read or written: {error.strerror or error}. Nothing was lost.", 500
    return (
        "Something went wrong inside the studio. Nothing was lost; the terminal in which it runs says more.",
        500,
    )
