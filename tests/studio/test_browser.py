"""The studio in a real browser: the system's Chromium, by Playwright; skipped with a reason where one is absent."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fedgeom.federation.record import RunRecord, write_status
from fedgeom.studio.app import link_file
from tests.report.folders import folder_of
from tests.waiting import HANG_SECONDS

playwright = pytest.importorskip("playwright.sync_api", reason="needs the group browser (make browser)")
axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs the group browser (make browser)")
CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), ""
)
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not CHROMIUM, reason="no Chromium here: apt-get install chromium"),
]


@pytest.fixture(scope="module")
def chromium():
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def studio(tmp_path):
    """A studio over an empty folder: its address, and the folder."""
    folder = tmp_path / "work"
    folder.mkdir()
    with studio_in(folder) as address:
        yield address, folder


@contextlib.contextmanager
def studio_in(folder):
    """Run a studio over a folder as a process of its own, and give its address."""
    words = [sys.executable, "-c", "from fedgeom.cli import app; app()", "studio", str(folder), "--no-browser"]
    process = subprocess.Popen(
        words, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"}
    )
    yield re.search(r"http\S+", process.stdout.readline()).group()
    process.send_signal(signal.SIGINT)
    process.wait(HANG_SECONDS)


@pytest.fixture
def tab(chromium):
    """Open a tab that remembers what went wrong in it, and what it asked of other machines."""
    opened = []

    def opening(width=1100, scheme="light"):
        page = chromium.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
        page.wrong, page.elsewhere = [], []
        page.on("pageerror", lambda error: page.wrong.append(str(error)))
        page.on("request", lambda one: page.elsewhere.append(one.url) if "127.0.0.1" not in one.url else None)
        opened.append(page)
        return page

    yield opening
    for page in opened:
        assert page.wrong == []
        assert [url for url in page.elsewhere if not url.startswith(("data:", "file:"))] == []
        page.close()


def upload(page, address, file):
    page.goto(address)
    page.set_input_files("#chosen", file)
    page.wait_for_url("**/files?file=*")


@pytest.fixture
def table(tmp_path, patients):
    file = tmp_path / "patients.csv"
    file.write_bytes(patients)
    return file


def test_the_file_with_the_link_leads_to_the_first_page(studio, tab, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    address, _ = studio
    page = tab()
    with link_file(address) as file:
        page.goto(file.as_uri())
        page.wait_for_url(address)
    assert page.get_by_text("Learn together").first.is_visible()


def test_from_a_table_to_a_report_by_keyboard_alone(studio, tab, table):
    address, _ = studio
    page = tab()
    upload(page, address, table)  # the system's own dialogue is not the page's
    reach(page, "Check it")
    page.keyboard.press("Enter")
    page.wait_for_url("**/studies/patients")
    reach(page, "Run it here")
    page.keyboard.press("Enter")
    page.wait_for_url("**/runs/*")
    page.wait_for_selector(".state:has-text('finished')", timeout=1000 * HANG_SECONDS)
    reach(page, "Open the report")
    page.keyboard.press("Enter")
    page.wait_for_url("**/report")
    assert "Can 4 sites tell" in page.inner_text("h1")


def test_from_an_example_to_a_verdict_in_two_clicks_and_on_to_a_prediction(studio, tab):
    address, _ = studio
    page = tab()
    page.goto(address)
    page.click("text=Try four hospitals")
    page.wait_for_url("**/studies/hospitals")
    page.click("text=Run it here")
    page.wait_for_selector("text=Verdict.", timeout=1000 * HANG_SECONDS)
    assert faults(page) == []
    page.click("text=Predict new rows")
    page.select_option("select[name=table]", "example-hospitals-West.csv")
    page.click("button:has-text('Predict')")
    page.wait_for_url("**/predictions/*", timeout=1000 * HANG_SECONDS)
    assert "142 rows predicted" in page.inner_text("h1")
    assert faults(page) == []


def test_what_is_removed_comes_back_by_one_click(studio, tab):
    address, folder = studio
    folder_of(folder / "runs" / "mine", rounds=2)
    page = tab()
    page.goto(f"{address}runs")
    page.check("input[value=mine]")
    page.click("text=Remove those marked")
    page.click("text=Undo")
    page.wait_for_url(address)
    assert page.is_visible("a:has-text('mine')")


def reach(page, text, most=80):
    """Press the tabulator until what has this text has the focus, which must be seen."""
    for _ in range(most):
        page.keyboard.press("Tab")
        at = page.evaluate("document.activeElement.textContent.trim()")
        if at == text:
            outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
            assert outline != "none"
            return
    raise AssertionError(f"{text!r} is not reached by keyboard")


@pytest.mark.parametrize(("width", "scheme"), [(1100, "light"), (1100, "dark"), (360, "light"), (360, "dark")])
def test_every_page_fits_and_can_be_read(studio, tab, table, width, scheme):
    address, folder = studio
    folder_of(folder / "runs" / "a-very-long-name-of-a-run-that-does-not-fit-anywhere-1", rounds=2)
    page = tab(width, scheme)
    upload(page, address, table)
    page.click("text=Check it")
    page.wait_for_url("**/studies/*")
    study = page.url
    for url in (
        address, study, f"{address}files?file=patients.csv", f"{address}runs", f"{address}nothing", f"{address}predict",
        f"{address}runs/a-very-long-name-of-a-run-that-does-not-fit-anywhere-1",
        f"{address}runs/a-very-long-name-of-a-run-that-does-not-fit-anywhere-1/report",
        f"{address}compare?run=a-very-long-name-of-a-run-that-does-not-fit-anywhere-1",
    ):  # fmt: skip
        page.goto(url)
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, url
        assert page.evaluate("document.querySelectorAll('h1').length") == 1, url
        unnamed = page.evaluate(
            "[...document.querySelectorAll('input:not([type=hidden]),select,textarea,button')]"
            ".filter(e => !(e.labels && e.labels.length) && !e.getAttribute('aria-label') && !e.textContent.trim())"
            ".length"
        )
        assert unnamed == 0, url
        assert faults(page) == [], url
        ink, paper = (
            page.evaluate(f"getComputedStyle(document.body).{one}") for one in ("color", "backgroundColor")
        )
        assert (brightness(ink) > brightness(paper)) == (scheme == "dark"), url
        assert abs(brightness(ink) - brightness(paper)) > 150, url


def faults(page):
    """Return what a screen reader, or somebody with weak sight, would stumble over, as axe finds it."""
    found = axe.Axe().run(page).response["violations"]
    return [(one["id"], [node["html"] for node in one["nodes"]]) for one in found]


def test_a_steward_s_and_a_coordinator_s_pages_can_be_read_by_everybody(tmp_path, chromium, tab):
    from tests.deploy.making import make_coordinator, make_sites

    office = make_coordinator(tmp_path / "office")
    site = make_sites(tmp_path, office)["anna"]
    (office.path / "studies").mkdir()
    (office.path / "studies" / "job.toml").write_text('method = "hulls"\n')
    (site.path / "studies").mkdir()
    (site.path / "studies" / "job.toml").write_text('method = "hulls"\n')
    for folder, pages in (
        (office.path, ("", "coordinator", "studies/job")),
        (site.path, ("", "site", "studies/job")),
    ):
        with studio_in(folder) as address:
            for width, scheme in ((1100, "light"), (360, "dark")):
                page = tab(width, scheme)
                for one in pages:
                    page.goto(address + one)
                    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, one
                    assert faults(page) == [], one
                if folder == site.path and width > 1000:
                    page.click("text=Rehearse it")
                    page.wait_for_url("**/site/preview")
                    assert "What would leave anna" in page.inner_text("h1")
                    assert faults(page) == []
                if folder == office.path and width > 1000:
                    page.click("text=Submit it to the sites")
                    page.wait_for_selector("text=no coordinator runs in")


def brightness(colour):
    return sum(map(int, re.findall(r"\d+", colour)[:3])) / 3


def test_five_hundred_runs_are_found_while_typing(studio, tab):
    address, folder = studio
    first = folder_of(folder / "runs" / "run-000", sites=1, rounds=1)
    for at in range(1, 500):
        shutil.copytree(first, folder / "runs" / f"run-{at:03}")
    page = tab()
    page.goto(f"{address}runs")
    assert "500 runs, page 1 of 10" in page.inner_text("#runs")
    page.click("text=older")
    assert "page 2 of 10" in page.inner_text("#runs")
    page.wait_for_load_state()  # what is typed before the script is there is not searched for
    page.fill("input[type=search]", "run-49")
    page.wait_for_selector("#runs >> text=10 runs")
    for box in page.query_selector_all("input[name=run]")[:2]:
        box.check()
    page.click("text=Compare those")
    page.wait_for_url("**/compare*")
    assert page.locator("thead th").count() == 2


def test_a_run_that_fails_in_the_middle_is_seen_in_two_tabs(studio, tab):
    address, folder = studio
    record = RunRecord(folder / "runs" / "r-1", {"method": "fedavg", "seed": 0, "sites": {"a": {}, "b": {}}})
    from fedgeom.federation.coordinator import Event

    first, second = tab(), tab(360, "dark")
    for page in (first, second):
        page.goto(f"{address}runs/r-1")
        assert "running" in page.inner_text("#progress")
    for site in ("a", "b"):
        record.event(Event(1, "join.hello", site, "asked"))
    record.event(Event(1, "join.hello", "a", "answered"))
    record.event(Event(1, "join.hello", "b", "lost", "<b>no power</b>"))
    record._events.flush()
    for page in (first, second):
        page.wait_for_selector(".tiles .lost")
        assert "<b>no power</b>" in page.inner_text(".tiles .lost")
    write_status(folder / "runs" / "r-1", "failed", "1 site answered, 2 are needed")
    for page in (first, second):
        page.wait_for_selector("text=1 site answered, 2 are needed")
        page.wait_for_selector(".state.bad:has-text('failed')")


def test_two_tabs_make_two_studies_of_one_table(studio, tab, table):
    address, folder = studio
    first, second = tab(), tab()
    upload(first, address, table)
    second.goto(f"{address}files?file=patients.csv")
    for page in (first, second):
        page.click("text=Check it")
        page.wait_for_url("**/studies/*")
    assert sorted(one.name for one in (folder / "studies").iterdir()) == ["patients-2.toml", "patients.toml"]
    upload(first, address, table)  # the same again is the one that is there
    assert first.url.endswith("file=patients.csv")
    table.write_text(table.read_text().replace("h3", "h4"))
    upload(second, address, table)
    second.wait_for_selector("h1:has-text('patients (2).csv')")
    assert sorted(one.name for one in (folder / "files").iterdir()) == ["patients (2).csv", "patients.csv"]


def test_a_button_that_is_pressed_twice_starts_one_run(studio, tab, table):
    address, folder = studio
    page = tab()
    upload(page, address, table)
    page.click("text=Check it")
    page.wait_for_url("**/studies/*")
    held = []
    page.route("**/run", lambda route: held.append(route))  # an answer that takes its time
    page.locator("text=Run it here").scroll_into_view_if_needed()
    box = page.locator("text=Run it here").bounding_box()
    for _ in range(2):
        page.mouse.click(box["x"] + 5, box["y"] + 5)
        page.wait_for_timeout(300)
    assert len(held) == 1
    held[0].continue_()
    page.wait_for_url("**/runs/*")
    page.wait_for_selector(".state:has-text('finished')", timeout=1000 * HANG_SECONDS)
    assert [one.name for one in (folder / "runs").iterdir() if one.name != ".studio"] == ["patients-1"]


def test_a_wrong_file_and_a_studio_that_ended_are_said_on_the_page(studio, tab, tmp_path):
    address, folder = studio
    page = tab()
    (tmp_path / "picture.jpg").write_bytes(b"\xff\xd8")
    page.goto(address)
    page.set_input_files("#chosen", tmp_path / "picture.jpg")
    page.wait_for_selector("text=no table that can be read")
    page.route("**/files/*", lambda route: route.abort())
    page.set_input_files("#chosen", Path(__file__))
    page.wait_for_selector("text=The studio does not answer")
    RunRecord(folder / "runs" / "r-1", {"method": "fedavg", "seed": 0, "sites": {"a": {}, "b": {}}})
    page.route("**/live", lambda route: route.abort())
    page.goto(f"{address}runs/r-1")
    page.wait_for_selector("text=The studio does not answer")


def test_the_picture_of_a_report_is_switched_by_keyboard(case, tab, tmp_path):
    from fedgeom.report.page import write_page

    page = tab()
    page.goto(write_page(case.run.folder, tmp_path / "report.html").as_uri())
    shown = "[...document.querySelectorAll('svg path.shape:not(.off)')].length"
    before = page.evaluate(shown)
    page.focus("[data-class-switch='0']")
    page.keyboard.press("Space")
    assert 0 < page.evaluate(shown) < before
    page.keyboard.press("Space")
    assert page.evaluate(shown) == before
    page.click("fieldset:has([data-site-switch]) button:has-text('none')")
    assert page.evaluate(shown) == 0
    assert page.pdf()


def test_new_rows_are_shown_on_the_joint_map(studio, tab, table):
    address, _ = studio
    page = tab()
    upload(page, address, table)
    page.click("text=Check it")
    page.wait_for_url("**/studies/*")
    page.click("text=Draw their map")
    page.wait_for_selector("text=Verdict.", timeout=1000 * HANG_SECONDS)
    page.click("text=Predict new rows")
    page.select_option("select[name=table]", "patients.csv")
    page.click("button:has-text('Predict')")
    page.wait_for_url("**/predictions/*", timeout=1000 * HANG_SECONDS)
    assert "160 rows predicted" in page.inner_text("h1")
    dots = page.locator("svg path.dots")
    assert dots.count() == 2
    drawn = "[...document.querySelectorAll('path.dots')].map(one => one.getAttribute('d').split('M').length - 1)"
    assert sum(page.evaluate(drawn)) == 160
    before = dots.first.get_attribute("d")
    page.evaluate("document.querySelector('svg[data-moves]').scrollIntoView({block: 'center'})")
    box = page.locator("svg[data-moves]").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 3, box["y"] + box["height"] / 3, steps=4)
    page.mouse.up()
    page.wait_for_timeout(500)  # it is drawn at the next frame
    assert dots.first.get_attribute("d") != before
    assert faults(page) == []
