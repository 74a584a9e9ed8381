"""Take the pictures of docs/report.md, and of reports in grey, on paper, with two and with 200 sites.

`python docs/make_looks.py FOLDER`: runs are made in FOLDER; those that are there already are not run again. Needs the
extra `browser`, Chromium, for paper pdftoppm (poppler-utils), and the set hipc (`fedgeom data`).
"""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from make_gallery import IMAGES, beside, browser
from PIL import Image

import fedgeom
from fedgeom.report.page import write_page
from fedgeom.report.run_folder import keep_rows

GREY = "html { filter: grayscale(1) }"
SHEETS = 6
"""So many sheets of paper are shown."""
PAPER = {"format": "A4", "print_background": True}


def few_sites() -> tuple[fedgeom.Method, list[fedgeom.SiteData], fedgeom.Policy]:
    """Return two sites: as few as can be, where their policy allows it."""
    sites = list(fedgeom.load_set("synthetic", points=400, n_sites=2).train)
    return fedgeom.Hulls(epsilon=0.05), sites, fedgeom.Policy(min_cohort=2)


def many_sites() -> tuple[fedgeom.Method, list[fedgeom.SiteData], fedgeom.Policy]:
    """Return 200 sites."""
    sites = list(fedgeom.load_set("synthetic", points=9000, n_sites=200).train)
    return fedgeom.Hulls(epsilon=0.05, names="shared"), sites, fedgeom.Policy()


def hospitals() -> tuple[fedgeom.Method, list[fedgeom.SiteData], fedgeom.Policy]:
    """Return T cells of five hospitals, with one name for each type."""
    sites = list(fedgeom.load_set("hipc", rows=800).train)
    return fedgeom.Hulls(embedding="discriminant", names="shared"), sites, fedgeom.Policy()


def plane() -> tuple[fedgeom.Method, list[fedgeom.SiteData], fedgeom.Policy]:
    """Return the same hospitals, each with its own names, matched by Gaussians."""
    return fedgeom.Ellipses(), hospitals()[1], fedgeom.Policy()


RUNS = {"two": few_sites, "many": many_sites, "hospitals": hospitals, "plane": plane}


def page_of(name: str, folder: Path) -> Path:
    """Run what was not run yet, and write its page."""
    if not (folder / "report.html").is_file():
        shutil.rmtree(folder, ignore_errors=True)
        method, sites, policy = RUNS[name]()
        run = fedgeom.run(method, sites, seed=0, holdout=0.25, policy=policy, record=folder)
        keep_rows(run, folder)
    return write_page(folder)


def in_columns(shot: Image.Image, columns: int) -> list[Image.Image]:
    """Return a long picture in columns."""
    tall = -(-shot.height // columns)
    return [shot.crop((0, at * tall, shot.width, (at + 1) * tall)) for at in range(columns)]


def look(chromium: Any, url: str, style: str = "") -> Image.Image:
    """Return a whole page as a picture."""
    page = chromium.new_page(viewport={"width": 900, "height": 1100})
    page.goto(url)
    if style:
        page.add_style_tag(content=style)
    shot = Image.open(io.BytesIO(page.screenshot(full_page=True)))
    page.close()
    return shot


def part(chromium: Any, url: str, what: str, scheme: str = "light") -> Image.Image:
    """Return a part of a page as a picture: the head, or a section."""
    page = chromium.new_page(viewport={"width": 900, "height": 1100}, color_scheme=scheme)
    page.goto(url)
    shot = Image.open(io.BytesIO(page.locator(what).screenshot()))
    page.close()
    return shot


def on_paper(chromium: Any, url: str, folder: Path) -> list[Image.Image]:
    """Return the sheets that a page is printed on."""
    page = chromium.new_page()
    page.goto(url)
    page.pdf(path=folder / "report.pdf", **PAPER)
    page.close()
    subprocess.run(["pdftoppm", "-r", "80", "-png", "report.pdf", "sheet"], cwd=folder, check=True)
    sheets = [Image.open(one) for one in sorted(folder.glob("sheet*.png"))]
    print(f"{len(sheets)} sheets", flush=True)
    return sheets[:SHEETS]


def main(root: Path) -> None:
    """Take all pictures."""
    root.mkdir(parents=True, exist_ok=True)
    with browser() as chromium:
        urls = {name: page_of(name, root / name).as_uri() for name in RUNS}
        made = {
            "grey": in_columns(look(chromium, urls["hospitals"], GREY), 4),
            "paper": on_paper(chromium, urls["hospitals"], root),
            "two": in_columns(look(chromium, urls["two"]), 4),
            "many": in_columns(look(chromium, urls["many"]), 4),
        }
        for name, pictures in made.items():
            beside(pictures).save(IMAGES / f"look-{name}.png", optimize=True)
            print(f"docs/images/gallery/look-{name}.png", flush=True)
        parts = {
            "report": part(chromium, urls["hospitals"], "header"),
            "report-disc": part(chromium, urls["hospitals"], "#picture"),
            "report-dark": part(chromium, urls["plane"], "#picture", "dark"),
        }
        for name, picture in parts.items():
            picture.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(
                IMAGES.parent / f"{name}.png", optimize=True
            )
            print(f"docs/images/{name}.png", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())
