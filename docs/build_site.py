"""Build the documentation as a site: `python docs/build_site.py`, into build/site.

Pages link to each other as they lie in the repository (docs/, papers/, SECURITY.md …), so that they can be read there,
too. The site has the same folders: pages and what they show are copied to build/pages first.

mkdocs.yml is read by Zensical, too, which follows mkdocs-material; as long as its search does not weigh pages (`rank`),
tables of figures would come before what explains them.
"""

from __future__ import annotations

import json
import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SHOWN = (
    "*.md", "LICENSE", "Containerfile", "docs/*.md", "docs/site.css", "docs/images/**/*.*", "docs/vendor/*/*",
    "papers/**/*.md",
    "papers/**/*.png", "examples/*.py", "src/fedgeom/studio/vendor/README.md", "benchmarks/results/*.json",
)  # fmt: skip
"""What the site is made of."""
RANKS = {"papers/**/*.md": 0.1, "CHANGELOG.md": 0.1, "docs/reference/*.md": 0.2}
"""How much pages count in the search, where that is not 1: figures and lists come after what explains."""
ELSEWHERE = "https://unpkg.com/iframe-worker/shim"
SHIM = "docs/vendor/iframe-worker/shim.js"
"""What lets the search work from a disk: where the theme would load it from, and where it is."""


def gather(target: Path) -> int:
    """Copy what the site is made of, write the reference beside it, and return how many files that are."""
    shutil.rmtree(target, ignore_errors=True)
    count = 0
    for pattern in SHOWN:
        for file in ROOT.glob(pattern):
            place = target / file.relative_to(ROOT)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, place)
            count += 1
    for page in sorted((target / "docs").glob("tutorial-*.md")):
        text = page.read_text(encoding="utf-8")
        cells = json.dumps(notebook(text), ensure_ascii=False, indent=1)
        page.with_suffix(".ipynb").write_text(cells + "\n", encoding="utf-8")
        head, _, rest = text.partition("\n")
        page.write_text(f"{head}\n\n[As a notebook]({page.stem}.ipynb)\n{rest}", encoding="utf-8")
        count += 1
    reference = runpy.run_path(str(ROOT / "docs" / "make_reference.py"))
    written: int = reference["write"](target / "docs" / "reference")
    rank(target)
    return count + written


def notebook(text: str) -> dict[str, Any]:
    """Return a page as a Jupyter notebook: its Python and its commands are cells, all else is text between them."""
    cells: list[dict[str, Any]] = []
    for at, part in enumerate(re.split(r"^```(python|sh)\n(.*?)^```\n", text, flags=re.DOTALL | re.MULTILINE)):
        if at % 3 == 1:  # the language of the next part
            first = "%%sh\n" if part == "sh" else ""
        elif at % 3 == 2:
            cell = {
                "cell_type": "code",
                "execution_count": None,
                "outputs": [],
                "source": (first + part).rstrip("\n"),
            }
            cells.append(cell | {"id": f"cell-{at}", "metadata": {}})
        elif part.strip():
            cells.append({"cell_type": "markdown", "id": f"cell-{at}", "metadata": {}, "source": part.strip()})
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    about = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return {"cells": cells, "metadata": about, "nbformat": 4, "nbformat_minor": 5}


def rank(pages: Path) -> None:
    """Say on the copied pages how much they count in the search."""
    for pattern, boost in RANKS.items():
        for page in pages.glob(pattern):
            text = page.read_text(encoding="utf-8")
            page.write_text(f"---\nsearch:\n  boost: {boost}\n---\n\n{text}", encoding="utf-8")


def build(site: Path) -> int:
    """Build the site, and return 0 if nothing is wrong with it: a dead link is an error."""
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(site)]
    quiet = os.environ | {"NO_MKDOCS_2_WARNING": "1"}  # the theme's word about its successor
    wrong = subprocess.run(words, cwd=ROOT, check=False, env=quiet).returncode
    if not wrong:
        stay_at_home(site)
    return wrong


def stay_at_home(site: Path) -> None:
    """Let pages take the one script from the site that the theme would load from elsewhere."""
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        up = "../" * (len(page.relative_to(site).parts) - 1)
        page.write_text(text.replace(ELSEWHERE, up + SHIM), encoding="utf-8")


if __name__ == "__main__":
    gather(ROOT / "build" / "pages")
    wrong = build(ROOT / "build" / "site")
    print("the site is not built" if wrong else "the site is in build/site; begin with build/site/index.html")
    sys.exit(wrong)
