"""What each address of the studio shows and does."""

from __future__ import annotations

import csv
import errno
import io
import time
import urllib.parse
from collections.abc import Callable
from typing import Any

from jinja2 import Environment, PackageLoader, select_autoescape
from markupsafe import Markup
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from fedgeom.data.readers import READERS
from fedgeom.deploy.coordinator import is_running, list_sites
from fedgeom.deploy.coordinator_folder import CoordinatorFolder
from fedgeom.deploy.federation_check import check_federation
from fedgeom.deploy.jobs import load_job
from fedgeom.deploy.preview import preview
from fedgeom.deploy.site_folder import SiteFolder
from fedgeom.deploy.status import list_jobs
from fedgeom.deploy.submit import stop as stop_job
from fedgeom.errors import FedgeomError, InputError, printable
from fedgeom.federation.record import Status
from fedgeom.methods.catalogue import load_model
from fedgeom.methods.describe.method import Describe
from fedgeom.methods.describe.model import Description
from fedgeom.protocols.plan import leaves as planned_leaves
from fedgeom.report.at_site import RESULTS, read_site_run
from fedgeom.report.description import description_csv
from fedgeom.report.explorer import explorer
from fedgeom.report.markup import POLICY, class_styles, duration, interval_chart
from fedgeom.report.outcomes import KINDS as ROUND_KINDS
from fedgeom.report.outcomes import curve_chart, round_charts
from fedgeom.report.page import page_of
from fedgeom.report.run_folder import RunFiles, read_run
from fedgeom.report.table import ReportTable, size, to_html
from fedgeom.report.tables import preview_tables, sites_table
from fedgeom.report.words import in_words
from fedgeom.storage import write_text
from fedgeom.studio import runs as studio_runs
from fedgeom.studio import steward
from fedgeom.studio.places import (
    PAGE,
    Kind,
    Place,
    RunComparison,
    plain,
    run_line,
    run_names,
    side_by_side,
    unsettled,
)
from fedgeom.studio.predicting import as_h5ad, has_model, predict, prediction_file, read_prediction, usable_runs
from fedgeom.studio.runs import Watcher, stream
from fedgeom.studio.studies import (
    MOST_COLUMNS,
    PREPARATIONS,
    can_map,
    examples,
    file_facts,
    is_for_sites,
    job_facts,
    keep_file,
    likely_mistakes,
    method_groups,
    new_example,
    new_job_study,
    new_map,
    new_study,
    study_cost,
)


def environment(place: Place, token: str) -> Environment:
    """Return the templates with what all of them use."""
    made = Environment(
        loader=PackageLoader("fedgeom.studio"), autoescape=select_autoescape(default=True, default_for_string=True),
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    made.globals |= {"place": place, "at": lambda path: f"/{token}{path}", "html": _safe_html}
    made.globals |= {"size": size, "duration": duration}
    here = f"{place.path}/"  # its pages speak of files as they lie in the folder

    def plain(text: Any) -> str:
        return printable(str(text).replace(here, "").replace("studies/../", ""), lines=True)

    made.filters["plain"] = plain
    made.filters["in_words"] = in_words
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
            "/": self.home, "/predict": self.predict, "/predictions/{name}": self.prediction,
            "/predictions/{name}/file": self.prediction_file, "/predictions/{name}/h5ad": self.prediction_h5ad,
            "/compare.csv": self.compare_file,
            "/files": self.files, "/studies/{name}": self.study, "/runs": self.runs,
            "/runs/{name}": self.run, "/runs/{name}/live": self.live, "/runs/{name}/report": self.report,
            "/runs/{name}/description.csv": self.description_file,
            "/compare": self.compare, "/site": self.site, "/site/results/{name}": self.result,
            "/coordinator": self.coordinator,
        }  # fmt: skip
        post: dict[str, Callable[..., Any]] = {
            "/files/{name}": self.keep, "/studies": self.make_study, "/studies/{name}": self.save_study,
            "/coordinator/studies": self.make_job, "/coordinator/jobs/{name}/stop": self.stop_job,
            "/studies/{name}/run": self.run_here, "/studies/{name}/describe": self.describe,
            "/studies/{name}/rename": self.rename_study, "/studies/{name}/map": self.draw,
            "/studies/{name}/submit": self.submit, "/runs/{name}/stop": self.stop,
            "/runs/{name}/rename": self.rename, "/examples/{name}": self.try_example, "/predict": self.make_prediction,
            "/files/remove": self.remove_files, "/studies/remove": self.remove_studies,
            "/runs/remove": self.remove_runs, "/bin/empty": self.empty_bin, "/bin/{batch}/restore": self.restore,
            "/site/approve": self.approve, "/site/refuse": self.refuse, "/site/revoke": self.revoke,
            "/site/preview": self.rehearse,
        }  # fmt: skip
        first = sorted(post.items(), key=lambda one: "{name}" in one[0])  # what is fixed comes before any name
        return [
            *(Route(path, one, methods=["GET"]) for path, one in get.items()),
            *(Route(path, one, methods=["POST"]) for path, one in first),
        ]

    def go(self, path: str, **query: str) -> Response:
        """Send the browser to another page."""
        asked = f"?{urllib.parse.urlencode(query)}" if query else ""
        return RedirectResponse(f"/{self.token}{urllib.parse.quote(path)}{asked}", status_code=303)

    def _undo(self, request: Request) -> dict[str, Any]:
        """Return what was just removed, so that the page offers to bring it back."""
        batch = request.query_params.get("removed", "")
        found = self.place.in_batch(batch) if batch else []
        names = [one.stem if one.suffix == ".toml" else one.name for one in found]
        return {"removed": batch if found else "", "binned_names": names}

    def home(self, request: Request) -> HTMLResponse:
        """Show what is here, and where to drop a file."""
        names = run_names(self.place.runs)
        latest = [run_line(self.place.runs / name) for name in names[:8]]
        jobs = steward.count_waiting(self.place.path) if self.place.is_site else 0
        return self.pages(
            "home.html", tables=self.place.table_names(), studies=self.place.study_names()[:20], runs=latest,
            count=len(names), open=unsettled(latest), jobs=jobs, examples=examples(), endings=", ".join(READERS),
            binned=self.place.binned(), **self._undo(request),
        )  # fmt: skip

    async def try_example(self, request: Request) -> Response:
        """Write an example's tables and study."""
        name = request.path_params["name"]
        return self.go(f"/studies/{await run_in_threadpool(new_example, self.place, name)}")

    async def remove_files(self, request: Request) -> Response:
        """Move tables to the bin."""
        return await self._remove(request, "files", "/")

    async def remove_studies(self, request: Request) -> Response:
        """Move studies to the bin."""
        return await self._remove(request, "studies", "/")

    async def remove_runs(self, request: Request) -> Response:
        """Move runs to the bin; those that go on have to be stopped first."""
        return await self._remove(request, "runs", "/runs")

    async def _remove(self, request: Request, kind: Kind, then: str) -> Response:
        form = await read_form(request)
        names = [*form.get("file", []), *form.get("run", [])]
        if kind == "runs":
            for name in names:
                studio_runs.check_ended(self.place, name)
        return self.go(then, removed=self.place.remove(kind, names))

    async def restore(self, request: Request) -> Response:
        """Bring back what was removed."""
        self.place.restore(request.path_params["batch"])
        return self.go("/")

    async def empty_bin(self, request: Request) -> Response:
        """Delete for good what was removed."""
        await run_in_threadpool(self.place.empty_bin)
        return self.go("/")

    async def rename(self, request: Request) -> Response:
        """Give a run another name."""
        studio_runs.check_ended(self.place, request.path_params["name"])
        return await self._rename(request, "runs")

    async def rename_study(self, request: Request) -> Response:
        """Give a study another name; its runs keep theirs."""
        return await self._rename(request, "studies")

    async def _rename(self, request: Request, kind: Kind) -> Response:
        name = request.path_params["name"]
        new = self.place.rename(kind, name, "".join((await read_form(request)).get("new", [])))
        return self.go(f"/{kind}/{new}", was=name)

    def _was(self, request: Request) -> str:
        """Return the name that something had until just now, so that the page offers to give it back."""
        was = request.query_params.get("was", "")
        return plain(was) if was else ""

    def predict(self, request: Request) -> HTMLResponse:
        """Ask which model is to predict the classes of which rows."""
        asked = request.query_params
        runs = usable_runs(self.place)
        run = asked.get("run") or (runs[0][0] if runs else "")
        return self.pages(
            "predict.html", runs=runs, run=run, table=asked.get("table", ""),
            tables=self.place.table_names(), made=self.place.prediction_names(), endings=", ".join(READERS),
        )  # fmt: skip

    async def make_prediction(self, request: Request) -> Response:
        """Predict the classes of a table's rows."""
        form = {key: values[-1].strip() for key, values in (await read_form(request)).items()}
        given = [form.get(key, "") for key in ("run", "table", "site", "unknown")]
        made = await run_in_threadpool(predict, self.place, *given, form.get("ignore") == "yes")
        return self.go(f"/predictions/{made}")

    def prediction(self, request: Request) -> HTMLResponse:
        """Show what was predicted."""
        found = read_prediction(self.place, request.path_params["name"])
        if found.scene is None:
            return self.pages("prediction.html", found=found)
        styles = class_styles(max(found.scene.classes, default=-1) + 1)
        return self.pages(
            "prediction.html", found=found, drawn=Markup(explorer(found.scene)), styles=Markup(styles)
        )

    def prediction_file(self, request: Request) -> Response:
        """Hand out a file of predictions."""
        return FileResponse(prediction_file(self.place, request.path_params["name"]), media_type="text/csv")

    def prediction_h5ad(self, request: Request) -> Response:
        """Hand out a copy of the table that was predicted, with the predictions in it."""
        file = as_h5ad(self.place, request.path_params["name"])
        return FileResponse(file, media_type="application/octet-stream", filename=file.name)

    async def keep(self, request: Request) -> Response:
        """Keep a file that was dropped."""
        kept = await keep_file(self.place, request.path_params["name"], request.stream())
        return Response(f"/{self.token}/files?file={urllib.parse.quote(kept.name)}", media_type="text/plain")

    def files(self, request: Request) -> HTMLResponse:
        """Show what one table, or several of as many sites, are, and what can be done with them."""
        names = request.query_params.getlist("file")
        if not names:
            raise InputError("no table was chosen")
        tables = [self.place.table(name) for name in names]
        facts = [file_facts(one) for one in tables]
        return self.pages(
            "files.html", names=names, facts=facts, first=facts[0], most=MOST_COLUMNS,
            doubts=likely_mistakes(tables, facts),
            methods=method_groups(), preparations=PREPARATIONS,
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
            was=self._was(request),
            text=file.read_text(encoding="utf-8"),
            report=checked.report,
            sites=sites_table(checked.report.sites),
            chosen=checked.chosen,
            method=method,
            leaves=planned_leaves(checked.method) if checked.method else (),
            cost=study_cost(checked),
            can_map=checked.method is not None and can_map(checked.method),
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

    async def describe(self, request: Request) -> Response:
        """Describe all sites' rows of a study together, on this machine."""
        return self.go(f"/runs/{studio_runs.launch_run(self.place, request.path_params['name'], describe=True)}")

    async def draw(self, request: Request) -> Response:
        """Draw the joint map of all sites' rows of a study, on this machine."""
        made = new_map(self.place, request.path_params["name"])
        return self.go(f"/runs/{studio_runs.launch_run(self.place, made)}")

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
        return self.pages(
            part, runs=lines, page=page, last=last, count=len(names), find=word, **self._undo(request)
        )

    def run(self, request: Request) -> HTMLResponse:
        """Show a run: while it goes on, how it stands; afterwards, where its report is."""
        name = request.path_params["name"]
        if studio_runs.is_alive(self.place, name) is None:
            self.place.run(name)  # what the studio started may not have a folder yet
        status = studio_runs.run_status(self.place, name)
        watcher = Watcher(self.place.runs / name)
        watcher.look()
        readable = (self.place.runs / name / "config.json").is_file()
        ended = read_run(self.place.runs / name, rows=False) if readable and status.state == "finished" else None
        return self.pages(
            "run.html", name=name, was=self._was(request),
            line=run_line(self.place.runs / name), log=studio_runs.log_end(self.place, name),
            readable=readable, usable=has_model(self.place.runs / name), verdict=ended.verdict if ended else "",
            described=run_line(self.place.runs / name).method == Describe.name,
            doubt=bool(ended and ended.evaluation and not ended.evaluation.beats_majority),
            **_standing(watcher, status),
        )  # fmt: skip

    async def live(self, request: Request) -> StreamingResponse:
        """Stream how a run stands."""
        name = request.path_params["name"]
        if studio_runs.is_alive(self.place, name) is None:
            self.place.run(name)
        events = stream(
            self.place.runs / name,
            lambda: studio_runs.run_status(self.place, name),
            lambda watcher, status: self.pages.text("progress.html", **_standing(watcher, status)),
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
        name = request.path_params["name"]
        return self._page(read_run(self.place.run(name)), f"/runs/{urllib.parse.quote(name)}", name)

    def description_file(self, request: Request) -> Response:
        """Return the description of all rows as a file."""
        name = request.path_params["name"]
        found = load_model(self.place.run(name))
        if not isinstance(found, Description):
            raise InputError(f"the run {name!r} describes no rows")
        how = {"content-disposition": f'attachment; filename="{name}.csv"'}
        return Response(description_csv(found), media_type="text/csv", headers=how)

    def result(self, request: Request) -> HTMLResponse:
        """Show what the site itself has of a run, with its own rows."""
        found = read_site_run(self._site().path / RESULTS / plain(request.path_params["name"]))
        return self._page(found, "/site", "the steward's page")

    def _page(self, run: RunFiles, path: str, name: str) -> HTMLResponse:
        page = page_of(run, (f"/{self.token}{path}", f"studio: {name}"))
        return HTMLResponse(page, headers={"content-security-policy": f"{POLICY}; frame-ancestors 'none'"})

    def compare(self, request: Request) -> HTMLResponse:
        """Show runs side by side."""
        found = self._side_by_side(request)
        charts = [(title, Markup(interval_chart(lines))) for title, lines in found.charts]
        curves = "".join(curve_chart(ROUND_KINDS[kind], series) for kind, series in found.curves.items())
        return self.pages("compare.html", found=found, charts=charts, curves=Markup(curves))

    def compare_file(self, request: Request) -> Response:
        """Hand out what the page of runs side by side shows, as a table."""
        found = self._side_by_side(request)
        text = io.StringIO(newline="")
        out = csv.writer(text)
        out.writerow(["", *found.names])
        for title, lines in found.charts:
            said = {line.label: line.said for line in lines}
            out.writerow([title, *(said.get(name, "") for name in found.names)])
        out.writerows(found.rows)
        head = {"content-disposition": 'attachment; filename="runs.csv"'}
        return Response(text.getvalue(), media_type="text/csv", headers=head)

    def _side_by_side(self, request: Request) -> RunComparison:
        names = list(dict.fromkeys(request.query_params.getlist("run")))[:12]
        if not names:
            raise InputError("no run was chosen: mark some in the list, then compare them")
        return side_by_side([self.place.run(name) for name in names])

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

    async def refuse(self, request: Request) -> Response:
        """Refuse a job that waits."""
        form = await read_form(request)
        steward.refuse(self._site().path, "".join(form.get("hash", [])))
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
            studies=self.place.study_names(), methods=method_groups(), preparations=PREPARATIONS,
            jobs=list_jobs(folder)[::-1], ends=studio_runs.ENDS,
        )  # fmt: skip

    async def stop_job(self, request: Request) -> Response:
        """Stop a job, at the sites too."""
        folder = self._coordinator()
        await run_in_threadpool(stop_job, folder, load_job(folder, request.path_params["name"]))
        return self.go("/coordinator")

    def _coordinator(self) -> CoordinatorFolder:
        if not self.place.is_coordinator:
            raise InputError(f"{self.place.path} is no coordinator's folder (fedgeom coordinator init makes one)")
        return CoordinatorFolder(self.place.path)


STATES = {
    "expected": "not yet there",
    "asked": "is working",
    "answered": "has answered",
    "waiting": "waits for its steward's approval",
    "joined": "is there",
    "lost": "was lost",
}
"""How a site of a run stands, in words."""


def _standing(watcher: Watcher, status: Status) -> dict[str, Any]:
    """Return what the page of a run says of how it stands."""
    progress = watcher.progress
    now = time.time()
    return {
        "progress": progress, "status": status, "ends": studio_runs.ENDS, "states": STATES,
        "elapsed": duration(progress.elapsed(now)), "remaining": duration(progress.remaining(now)),
        "charts": Markup(f'<div class="charts">{charts}</div>' if (charts := round_charts(watcher.figures)) else ""),
    }  # fmt: skip


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
