"""What each address of the studio shows and does."""

from __future__ import annotations

import errno
import urllib.parse
from collections.abc import Callable
from typing import Any

from jinja2 import Environment, PackageLoader, select_autoescape
from markupsafe import Markup
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from fedgeom.deploy.coordinator import is_running, list_sites
from fedgeom.deploy.coordinator_folder import CoordinatorFolder
from fedgeom.deploy.federation_check import check_federation
from fedgeom.deploy.preview import preview
from fedgeom.deploy.site_folder import SiteFolder
from fedgeom.errors import FedgeomError, InputError, printable
from fedgeom.protocols.plan import leaves as planned_leaves
from fedgeom.report.at_site import RESULTS, read_site_run
from fedgeom.report.markup import POLICY
from fedgeom.report.page import page_of
from fedgeom.report.run_folder import RunFiles, read_run
from fedgeom.report.table import ReportTable, to_html
from fedgeom.report.tables import preview_tables, sites_table
from fedgeom.storage import write_text
from fedgeom.studio import runs as studio_runs
from fedgeom.studio import steward
from fedgeom.studio.places import PAGE, Place, plain, run_line, run_names, side_by_side
from fedgeom.studio.runs import Watcher, stream
from fedgeom.studio.studies import (
    MOST_COLUMNS,
    PREPARATIONS,
    file_facts,
    is_for_sites,
    job_facts,
    keep_file,
    method_names,
    new_job_study,
    new_study,
)


def environment(place: Place, token: str) -> Environment:
    """Return the templates with what all of them use."""
    made = Environment(
        loader=PackageLoader("fedgeom.studio"), autoescape=select_autoescape(default=True, default_for_string=True),
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    made.globals |= {"place": place, "at": lambda path: f"/{token}{path}", "html": _safe_html}
    here = f"{place.path}/"  # its pages speak of files as they lie in the folder

    def plain(text: Any) -> str:
        return printable(str(text).replace(here, "").replace("studies/../", ""), lines=True)

    made.filters["plain"] = plain
    return made


def _safe_html(table: ReportTable) -> Markup:
    """Return a table for a template; `to_html` has escaped every text."""
    return Markup(to_html(table))


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


MOST_FORM = 200_000
"""A form of more bytes is none of ours."""


class Handlers:
    """The pages over one folder."""

    def __init__(self, place: Place, token: str, pages: Pages):
        self.place = place
        self.token = token
        self.pages = pages

    def routes(self) -> list[Route]:
        """Return which address shows what."""
        get: dict[str, Callable[..., Any]] = {
            "/": self.home, "/files": self.files, "/studies/{name}": self.study, "/runs": self.runs,
            "/runs/{name}": self.run, "/runs/{name}/live": self.live, "/runs/{name}/report": self.report,
            "/compare": self.compare, "/site": self.site, "/site/results/{name}": self.result,
            "/coordinator": self.coordinator,
        }  # fmt: skip
        post: dict[str, Callable[..., Any]] = {
            "/files/{name}": self.keep, "/studies": self.make_study, "/studies/{name}": self.save_study,
            "/coordinator/studies": self.make_job,
            "/studies/{name}/run": self.run_here, "/studies/{name}/submit": self.submit, "/runs/{name}/stop": self.stop,
            "/site/approve": self.approve, "/site/revoke": self.revoke, "/site/preview": self.rehearse,
        }  # fmt: skip
        return [
            *(Route(path, one, methods=["GET"]) for path, one in get.items()),
            *(Route(path, one, methods=["POST"]) for path, one in post.items()),
        ]

    def go(self, path: str) -> Response:
        """Send the browser to another page."""
        return RedirectResponse(f"/{self.token}{urllib.parse.quote(path)}", status_code=303)

    def home(self, request: Request) -> HTMLResponse:
        """Show what is here, and where to drop a file."""
        names = run_names(self.place.runs)
        return self.pages(
            "home.html", tables=self.place.table_names(), studies=self.place.study_names()[:20],
            runs=[run_line(self.place.runs / name) for name in names[:8]], count=len(names),
        )  # fmt: skip

    async def keep(self, request: Request) -> Response:
        """Keep a file that was dropped."""
        kept = await keep_file(self.place, request.path_params["name"], request.stream())
        return Response(f"/{self.token}/files?file={urllib.parse.quote(kept.name)}", media_type="text/plain")

    def files(self, request: Request) -> HTMLResponse:
        """Show what one table, or several of as many sites, are, and what can be done with them."""
        names = request.query_params.getlist("file")
        if not names:
            raise InputError("no table was chosen")
        facts = [file_facts(self.place.table(name)) for name in names]
        return self.pages(
            "files.html", names=names, facts=facts, first=facts[0], most=MOST_COLUMNS, methods=method_names(),
            preparations=PREPARATIONS,
        )  # fmt: skip

    async def make_study(self, request: Request) -> Response:
        """Write a federation file from the form."""
        form = await read_form(request)
        flat = {key: values[-1] for key, values in form.items()}
        return self.go(f"/studies/{new_study(self.place, form.get('file', []), flat)}")

    async def make_job(self, request: Request) -> Response:
        """Write the federation file of a job for the coordinator's sites."""
        form = {key: values[-1] for key, values in (await read_form(request)).items()}
        self._coordinator()
        return self.go(f"/studies/{new_job_study(self.place, form)}")

    def study(self, request: Request) -> HTMLResponse:
        """Show a study: its file, what is wrong with it, which method is taken, and what would leave."""
        name = request.path_params["name"]
        file = self.place.study(name)
        if self.place.is_coordinator and is_for_sites(file):
            job = job_facts(CoordinatorFolder(self.place.path), file)
            text = file.read_text(encoding="utf-8")
            return self.pages("job.html", name=name, text=text, job=job, leaves=job["leaves"])
        checked = check_federation(file)
        method = checked.method.name if checked.method is not None else checked.report.method
        return self.pages(
            "study.html",
            name=name,
            text=file.read_text(encoding="utf-8"),
            report=checked.report,
            sites=sites_table(checked.report.sites),
            chosen=checked.chosen,
            method=method,
            leaves=planned_leaves(checked.method) if checked.method else (),
        )

    async def save_study(self, request: Request) -> Response:
        """Keep a study's file as it was edited."""
        name = request.path_params["name"]
        form = await read_form(request)
        text = "".join(form.get("text", [""])).replace("\r\n", "\n")
        try:
            write_text(self.place.study(name), text, private=True)
        except OSError as error:  # browsers do not keep what was typed on a page that must not be stored
            said, code = sentence(error)
            return self.pages("sorry.html", code, said=said, wrote=text)
        return self.go(f"/studies/{name}")

    async def run_here(self, request: Request) -> Response:
        """Run a study on this machine."""
        return self.go(f"/runs/{studio_runs.launch_run(self.place, request.path_params['name'])}")

    async def submit(self, request: Request) -> Response:
        """Submit a study to the coordinator's sites."""
        name = request.path_params["name"]
        return self.go(f"/runs/{await run_in_threadpool(studio_runs.launch_submit, self.place, name)}")

    def runs(self, request: Request) -> HTMLResponse:
        """List the runs, some on each page."""
        asked = request.query_params.get("page", "1")
        word = request.query_params.get("find", "").lower()
        names = [name for name in run_names(self.place.runs) if word in name.lower()]
        last = max(-(-len(names) // PAGE), 1)
        page = min(max(int(asked) if asked.isdecimal() and len(asked) < 9 else 1, 1), last)
        lines = [run_line(self.place.runs / name) for name in names[(page - 1) * PAGE : page * PAGE]]
        part = "runs_list.html" if request.headers.get("hx-request") else "runs.html"
        return self.pages(part, runs=lines, page=page, last=last, count=len(names), find=word)

    def run(self, request: Request) -> HTMLResponse:
        """Show a run: while it goes on, how it stands; afterwards, where its report is."""
        name = request.path_params["name"]
        if studio_runs.is_alive(self.place, name) is None:
            self.place.run(name)  # what the studio started may not have a folder yet
        status = studio_runs.run_status(self.place, name)
        progress = Watcher(self.place.runs / name).look()
        shown = run_line(self.place.runs / name)
        return self.pages(
            "run.html", name=name, status=status, progress=progress, line=shown, ends=studio_runs.ENDS,
            log=studio_runs.log_end(self.place, name), readable=(self.place.runs / name / "config.json").is_file(),
        )  # fmt: skip

    async def live(self, request: Request) -> StreamingResponse:
        """Stream how a run stands."""
        name = request.path_params["name"]
        if studio_runs.is_alive(self.place, name) is None:
            self.place.run(name)
        events = stream(
            self.place.runs / name,
            lambda: studio_runs.run_status(self.place, name),
            lambda progress, status: self.pages.text("progress.html", progress=progress, status=status),
            studio_runs.ENDS,
        )
        return StreamingResponse(events, media_type="text/event-stream")

    async def stop(self, request: Request) -> Response:
        """Stop a run."""
        name = request.path_params["name"]
        studio_runs.stop(self.place, name)
        return self.go(f"/runs/{name}")

    def report(self, request: Request) -> HTMLResponse:
        """Show a run's report, as it is now."""
        return self._page(read_run(self.place.run(request.path_params["name"])))

    def result(self, request: Request) -> HTMLResponse:
        """Show what the site itself has of a run, with its own rows."""
        return self._page(read_site_run(self._site().path / RESULTS / plain(request.path_params["name"])))

    def _page(self, run: RunFiles) -> HTMLResponse:
        return HTMLResponse(page_of(run), headers={"content-security-policy": f"{POLICY}; frame-ancestors 'none'"})

    def compare(self, request: Request) -> HTMLResponse:
        """Show runs side by side."""
        names = list(dict.fromkeys(request.query_params.getlist("run")))[:12]
        if not names:
            raise InputError("no run was chosen: mark some in the list, then compare them")
        head, rows = side_by_side([self.place.run(name) for name in names])
        return self.pages("compare.html", head=head, rows=rows, names=names)

    def site(self, request: Request) -> HTMLResponse:
        """Show the steward's page."""
        return self.pages("site.html", **steward.overview(self._site().path))

    async def approve(self, request: Request) -> Response:
        """Approve a job."""
        form = {key: values[-1] for key, values in (await read_form(request)).items()}
        hash = form.get("hash", "")
        days = form.get("days", "30")
        runs = form.get("runs", "1")
        steward.approve(self._site().path, hash, days, runs)
        return self.go("/site")

    async def revoke(self, request: Request) -> Response:
        """Take an approval back."""
        form = await read_form(request)
        steward.revoke(self._site().path, "".join(form.get("hash", [])))
        return self.go("/site")

    async def rehearse(self, request: Request) -> HTMLResponse:
        """Show what would leave the site with a study, message by message."""
        name = "".join((await read_form(request)).get("study", []))
        found = await run_in_threadpool(preview, self._site(), self.place.study(name))
        return self.pages("preview.html", name=name, found=found, tables=preview_tables(found))

    def _site(self) -> SiteFolder:
        if not self.place.is_site:
            raise InputError(f"{self.place.path} is no site's folder; start the studio in one (fedgeom site init)")
        return SiteFolder(self.place.path)

    def coordinator(self, request: Request) -> HTMLResponse:
        """Show who is admitted and connected."""
        folder = self._coordinator()
        return self.pages(
            "coordinator.html", sites=list_sites(folder), running=is_running(folder), address=folder.address(),
            studies=self.place.study_names(), methods=method_names(), preparations=PREPARATIONS,
        )  # fmt: skip

    def _coordinator(self) -> CoordinatorFolder:
        if not self.place.is_coordinator:
            raise InputError(f"{self.place.path} is no coordinator's folder (fedgeom coordinator init makes one)")
        return CoordinatorFolder(self.place.path)


async def read_form(request: Request) -> dict[str, list[str]]:
    """Read a form; one that is too long is refused."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MOST_FORM:
            raise InputError(f"this form has more than {MOST_FORM:,} bytes")
    try:
        return urllib.parse.parse_qs(body.decode("utf-8"), keep_blank_values=True, max_num_fields=500)
    except ValueError as error:
        raise InputError(f"this form cannot be read: {error}") from error
