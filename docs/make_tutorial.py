"""Walk through the studio as the tutorials do, and take pictures: `python docs/make_tutorial.py FOLDER NAME TABLE …`.

NAME is "cells" (one .h5ad with all donors) or "clinic" (a .csv for each hospital); the tables are real ones, and stay
where they are. FOLDER is a new one that the studio works in. What it took, second by second, is printed. Needs the
extras `bio` and `studio`, the group `browser`, and Chromium.
"""

from __future__ import annotations

import io
import sys
import time
from pathlib import Path
from typing import Any

from make_gallery import browser, studio
from PIL import Image

IMAGES = Path(__file__).parent / "images" / "tutorial"
WIDE, HIGH, TALLEST, COLOURS = 860, 640, 980, 64
SHOWN = {"cells": ("start", "table", "study", "running", "report"), "clinic": ("table", "study", "report")}
"""What the tutorials show."""
PATIENCE = 600_000
"""So many milliseconds a page may take on a busy machine."""


class Walk:
    """One walk in a browser, with a picture of each page."""

    def __init__(self, chromium: Any, name: str):
        self.page = chromium.new_page(viewport={"width": WIDE, "height": HIGH})
        self.page.set_default_timeout(PATIENCE)
        self.name, self.began = name, time.monotonic()

    def keep(self, step: str, tall: int = TALLEST) -> None:
        """Keep a picture of the page, from its top, where the tutorial shows it."""
        print(f"{time.monotonic() - self.began:6.1f} s  {step}", flush=True)
        if step not in SHOWN[self.name]:
            return
        shot = Image.open(io.BytesIO(self.page.screenshot(full_page=True))).convert("RGB")
        shot = shot.crop((0, 0, shot.width, min(shot.height, tall)))
        few = shot.quantize(COLOURS, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
        few.save(IMAGES / f"{self.name}-{step}.png", optimize=True)

    def go(self, address: str, tables: list[Path]) -> None:
        """Drop the tables, check, run, watch, and open the report."""
        page = self.page
        page.goto(address)
        self.keep("start")
        page.set_input_files("#chosen", tables)
        page.wait_for_url("**/files?file=*")
        if len(tables) > 1:
            page.select_option("select[name=names]", "own")
        self.keep("table", 2 * TALLEST)
        page.click("text=Check it")
        page.wait_for_url("**/studies/*")
        self.keep("study", 2 * TALLEST)
        page.click("text=Run it here")
        page.wait_for_url("**/runs/*")
        page.wait_for_selector(".asked li:nth-child(8), .state:has-text('finished')")
        self.keep("running")
        page.wait_for_selector(".state:has-text('finished')")
        self.keep("run")
        page.click("text=Open the report")
        page.wait_for_url("**/report")
        self.keep("report", 2 * TALLEST)


def main(folder: Path, name: str, tables: list[Path]) -> None:
    """Take the pictures of one tutorial."""
    IMAGES.mkdir(exist_ok=True)
    folder.mkdir(parents=True)
    with browser() as chromium, studio(folder) as address:
        Walk(chromium, name).go(address, tables)


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute(), sys.argv[2], [Path(one) for one in sys.argv[3:]])
