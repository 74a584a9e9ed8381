"""Take the pictures of docs/gallery.md: `python docs/make_gallery.py FOLDER`, with the group browser and Chromium.

The report of every method, whole and in columns, and every page of the studio: light, dark and at 360 px, side by side
in one picture. Runs and pages are made in FOLDER, to be looked through; runs that are there already are not run again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import fedgeom
from fedgeom.deploy.answers import answer
from fedgeom.deploy.approvals import ApprovalStore
from fedgeom.deploy.coordinator_folder import CoordinatorFolder
from fedgeom.deploy.site_folder import SiteFolder
from fedgeom.federation.method import METHODS
from fedgeom.federation.policy import hash_terms, job_terms
from fedgeom.federation.session import Session
from fedgeom.methods.catalogue import method_class
from fedgeom.report.page import write_page
from fedgeom.report.run_folder import keep_rows
from fedgeom.studio.places import Place
from fedgeom.studio.predicting import predict

HERE = Path(__file__).parent
IMAGES = HERE / "images" / "gallery"
LOOKS = {"light": (900, "light"), "dark": (900, "dark"), "narrow": (360, "light")}
TALL, TALLEST, REDUCE, GAP = 1100, 1500, 2, 12
"""How high a window is, how much of a page is shown, by what pictures are made smaller, and what is between them."""
COLUMNS = 3
"""A report is shown from top to bottom in so many columns."""
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
COMMAND = (sys.executable, "-c", "from fedgeom.cli import app; app()")
RUN = b"\x5e" * 32
CLASSES = ("well", "sick")
STUDY = """\
file = "../files/patients.csv"
sites_from = "hospital"
label = "diagnosis"
prepare = "table"
holdout = 0.25
"""


def sites_for(method: str) -> list[fedgeom.SiteData]:
    """Return four hospitals' tumours: in words of their own where names are matched, mostly unlabelled for XCLP."""
    sites = list(fedgeom.load_set("breast-cancer").train)
    if method in ("hulls", "ellipses"):
        words = {"benign": ("benign", "B", "gutartig", "D24"), "malignant": ("malignant", "M", "bösartig", "C50")}
        return [s.relabel({k: v[at % 4] for k, v in words.items()}) for at, s in enumerate(sites)]
    if method == "regression":  # of all thirty columns some separate the classes
        some = np.array([1, 4, 8, 9])
        return [
            dataclasses.replace(s, table=s.X[:, some], columns=tuple(s.columns[at] for at in some)) for s in sites
        ]
    if method.startswith("xclp"):
        few = [np.where(np.arange(len(s.y)) % 3, "", s.y.astype(str)) for s in sites]
        spread = np.vstack([s.X for s in sites]).std(axis=0)  # the method takes columns as they are
        return [fedgeom.SiteData(s.name, s.X[:60] / spread, y[:60]) for s, y in zip(sites, few, strict=True)]
    return sites


def settings_for(method: str) -> dict[str, Any]:
    """Return what a method has to be told here: few rounds, with figures, and a map to the disc."""
    known = {one.name for one in dataclasses.fields(method_class(method))}
    found: dict[str, Any] = {"embedding": "discriminant"} if method == "hulls" else {}
    if method == "poincare-map":
        found["prepare"] = "table"
    if method == "moments":
        found["space"] = "euclidean"
    if "n_rounds" in known and method != "shrunk":
        found["n_rounds"] = 8
    if "validation_fraction" in known:
        found["validation_fraction"] = 0.2
    return found


def run_of(method: str, folder: Path) -> Path:
    """Run a method where that was not done yet, and write its page."""
    if not (folder / "report.html").is_file():
        shutil.rmtree(folder, ignore_errors=True)
        made = method_class(method)(**settings_for(method))
        run = fedgeom.run(made, sites_for(method), seed=0, holdout=0.25, record=folder)
        keep_rows(run, folder)
    return write_page(folder)


@contextlib.contextmanager
def browser() -> Iterator[Any]:
    """Open the system's Chromium."""
    from playwright.sync_api import sync_playwright  # the group browser

    with sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        yield opened
        opened.close()


def shots(chromium: Any, url: str, whole: bool = False, press: str | None = None) -> list[Image.Image]:
    """Return how a page looks: light, dark and narrow; ``whole``: the light one from top to bottom, in columns.

    ``press``: the button that leads to the page from the address.
    """
    found: list[Image.Image] = []
    for name, (width, scheme) in LOOKS.items():
        page = chromium.new_page(viewport={"width": width, "height": TALL}, color_scheme=scheme)
        page.goto(url)
        if press is not None:
            page.get_by_role("button", name=press).click()
            page.wait_for_load_state()
        shot = Image.open(io.BytesIO(page.screenshot(full_page=True)))
        page.close()
        if whole and name == "light":
            tall = -(-shot.height // COLUMNS)
            found += [shot.crop((0, at * tall, shot.width, (at + 1) * tall)) for at in range(COLUMNS)]
        else:
            tallest = found[0].height if whole else TALLEST
            found.append(shot.crop((0, 0, shot.width, min(shot.height, tallest))))
    return found


def beside(pictures: list[Image.Image]) -> Image.Image:
    """Return pictures side by side, smaller, in few colours."""
    small = [one.convert("RGB").reduce(REDUCE) for one in pictures]
    wide = sum(one.width + GAP for one in small) - GAP
    sheet = Image.new("RGB", (wide, max(one.height for one in small)), "#8a93a0")
    left = 0
    for one in small:
        sheet.paste(one, (left, 0))
        left += one.width + GAP
    return few_colours(sheet)


def few_colours(picture: Image.Image) -> Image.Image:
    """Return a picture in few colours, rare ones included, so that its file is small."""
    return picture.quantize(96, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)


class Folders:
    """Carries questions to sites' folders, as an engine does."""

    def __init__(self, folders: Mapping[str, SiteFolder]):
        self.folders = folders

    @property
    def names(self) -> tuple[str, ...]:
        """Who can be asked."""
        return tuple(self.folders)

    def deliver(self, requests: Mapping[str, bytes]) -> Iterator[tuple[str, bytes]]:
        """Ask."""
        for name, request in requests.items():
            yield name, answer(self.folders[name], request)


def make_federation(root: Path) -> tuple[Path, Path]:
    """Make a coordinator and three sites, of which one has a result and a job that waits; return both folders."""
    office = CoordinatorFolder.create(root / "office", names=["localhost"], host="127.0.0.1")
    sites = {}
    for data in fedgeom.load_set("synthetic", points=900, n_sites=3).train:
        folder = SiteFolder.create(root / data.name, data.name, office.address(), file="data.npz", label="y")
        np.savez(folder.path / "data.npz", X=data.X, y=data.y)
        text = folder.config_file.read_text(encoding="utf-8").replace('approve = "ask" ', 'approve = "any" ')
        folder.config_file.write_text(
            re.sub("max_corner_share = .*", "max_corner_share = 1.0", text), encoding="utf-8"
        )
        office.admit(folder.public_file(data.name))
        sites[data.name] = folder
    for folder in sites.values():
        shutil.copy(office.roster_file, folder.path)
        shutil.copy(office.path / "ca.pem", folder.path)
    Session(fedgeom.Hulls(epsilon=0.05, holdout=0.25), RUN, 0, office.roster()).conduct(Folders(sites))
    home = next(iter(sites.values()))
    purpose = (
        "Do the three groups of the pilot study show at other sites, too? Approved by the ethics board, 26-041."
    )
    job = job_terms("moments", fedgeom.Moments().terms(), 0, sites, purpose=purpose)
    store = ApprovalStore(home.path)
    with store.exclusive():
        store.wait(store.read(), hash_terms(job).hex(), "ab" * 32, job)
    for folder in (office.path, home.path):
        (folder / "studies").mkdir()
        (folder / "studies" / "hulls.toml").write_text(
            f'method = "hulls"\npurpose = "{purpose}"\nholdout = 0.25\n', encoding="utf-8"
        )
    return office.path, home.path


@contextlib.contextmanager
def studio(folder: Path) -> Iterator[str]:
    """Run a studio, and give its address."""
    words = [*COMMAND, "studio", str(folder), "--no-browser"]
    quiet = {**os.environ, "PYTHONUNBUFFERED": "1", "HOME": str(folder.parent)}  # so that it is shown from there
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=quiet)
    assert process.stdout is not None
    found = re.search(r"http\S+", process.stdout.readline())
    assert found is not None
    yield found.group()
    process.send_signal(signal.SIGINT)
    process.wait(30)


def save(chromium: Any, name: str, url: str, whole: bool = False, press: str | None = None) -> None:
    """Keep the picture of a page."""
    beside(shots(chromium, url, whole, press)).save(IMAGES / f"{name}.png", optimize=True)
    print(f"docs/images/gallery/{name}.png", flush=True)


def main(root: Path, only: list[str]) -> None:
    """Take all pictures, or those whose names are given."""
    IMAGES.mkdir(exist_ok=True)
    work = root / "work"
    with browser() as chromium:
        for method in sorted(METHODS):
            if not only or method in only:
                save(chromium, f"report-{method}", run_of(method, work / "runs" / method).as_uri(), whole=True)
        if only and "studio" not in only:
            return
        (work / "files").mkdir(exist_ok=True)
        (work / "studies").mkdir(exist_ok=True)
        table = [["age", "bmi", "sex", "hospital", "diagnosis"]] + [
            [
                f"{40 + at % 37}",
                "" if at % 9 == 0 else f"{20 + at % 13}.5",
                "mf"[at % 2],
                f"h{at % 4}",
                CLASSES[at // 4 % 2],
            ]
            for at in range(160)
        ]
        (work / "files" / "patients.csv").write_text("\n".join(map(",".join, table)) + "\n", encoding="utf-8")
        study = work / "studies" / "patients.toml"
        study.write_text(STUDY, encoding="utf-8")
        described = work / "runs" / "patients-described-1"
        if not described.is_dir():
            subprocess.run([*COMMAND, "describe", str(study), "--into", str(described)], check=True)
        tumours = fedgeom.load_set("breast-cancer").train[0]
        rows = [",".join(map(str, row)) for row in tumours.X.tolist()]
        (work / "files" / "tumours.csv").write_text("\n".join([",".join(tumours.columns), *rows]) + "\n")
        made = predict(Place(work), "poincare-map", "tumours.csv")
        with studio(work) as at:
            pages = {
                "start": "", "table": "files?file=patients.csv", "study": "studies/patients", "runs": "runs",
                "run": "runs/fedavg", "compare": "compare?run=hulls&run=moments&run=ridge", "wrong": "runs/nowhere",
                "description": f"runs/{described.name}/report", "predict": "predict?run=hulls",
                "prediction": f"predictions/{made}",
            }  # fmt: skip
            for name, path in pages.items():
                save(chromium, f"studio-{name}", at + path)
        office, home = root / "federation" / "office", root / "federation" / "site-1"
        if not office.is_dir():
            office, home = make_federation(root / "federation")
        with studio(office) as at:
            save(chromium, "studio-coordinator", at + "coordinator")
            save(chromium, "studio-job", at + "studies/hulls")
        with studio(home) as at:
            save(chromium, "studio-steward", at + "site")
            save(chromium, "studio-rehearsal", at + "studies/hulls", press="Rehearse it at this site")
            save(chromium, "studio-result", at + f"site/results/{RUN.hex()[:16]}")


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute(), sys.argv[2:])
