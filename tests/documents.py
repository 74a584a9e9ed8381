"""What a reader of the documentation has at hand: tables, files and names that the code of each page speaks of."""

from __future__ import annotations

import re
import runpy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedgeom

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page: Path, language: str) -> list[str]:
    """Return the code blocks of a page in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def lumps(
    names: tuple[str, ...], classes: tuple[str, ...], columns: int, rows: int = 12
) -> list[fedgeom.SiteData]:
    """Return sites whose classes are lumps, positive as pixels or counts are."""
    rng = np.random.default_rng(0)
    centres = rng.uniform(0.0, 6.0, (len(classes), columns))
    y = np.repeat(classes, rows)
    where = np.repeat(centres, rows, axis=0)
    return [fedgeom.SiteData(name, where + rng.uniform(0, 1, where.shape), y) for name in names]


HOSPITALS = ("charite", "leipzig", "ulm")


def readme() -> dict[str, Any]:
    pd, anndata = pytest.importorskip("pandas"), pytest.importorskip("anndata")
    whole = fedgeom.load_set("synthetic", points=300)
    X, y = np.vstack([s.X for s in whole.train]), np.concatenate([s.y for s in whole.train])
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(90, 3)), columns=["age", "bmi", "glucose"])
    frame["diagnosis"], frame["hospital"] = np.where(frame["age"] > 0, "ill", "well"), np.tile(list("abc"), 30)
    frame["patient"] = np.arange(90) // 2
    cells = anndata.AnnData(
        np.zeros((90, 4), np.float32),
        obs=pd.DataFrame(
            {"cell_type": np.repeat(["B", "T"], 45), "donor": np.tile(["d1", "d2", "d3"], 30)},
            index=[f"cell-{at}" for at in range(90)],
        ),
        layers={"counts": rng.poisson(3.0, (90, 4)).astype(np.float32)},
    )
    return {"X": X, "y": y, "X_new": X[:5], "df": frame, "adata": cells}


def describe() -> dict[str, Any]:
    return {"sites": lumps(HOSPITALS, ("ill", "well"), 3, rows=40)}


def ellipses() -> dict[str, Any]:
    classes = tuple(f"type {at}" for at in range(10))
    return {"sites": lumps(("Yale", "UCLA", "Miami"), classes, 3), "X": np.zeros((2, 3))}


def hulls() -> dict[str, Any]:
    tables = lumps(HOSPITALS, ("a", "b"), 3)
    return {"tables": tables, "sites": [fedgeom.SiteData(one.name, one.X[:, :2] / 10, one.y) for one in tables]}


def hyperfed() -> dict[str, Any]:
    pytest.importorskip("torch")
    cells = ("CD4 naive", "CD4 memory", "CD8 naive", "CD8 memory", "B")
    sites = lumps(HOSPITALS, cells, 784, rows=4)
    return {"sites": sites, "X": sites[0].X, "y": sites[0].y}


def own_method() -> dict[str, Any]:
    found = runpy.run_path(str(ROOT / "examples" / "own_method.py"))
    return {"LeastSquares": found["LeastSquares"], "my_sites": lumps((*HOSPITALS, "graz"), ("a", "b"), 2)}


def predict() -> dict[str, Any]:
    pd = pytest.importorskip("pandas")
    from sklearn.model_selection import GridSearchCV, cross_val_score

    sites = lumps(HOSPITALS, ("benign", "malignant"), 3, rows=20)
    sites = [fedgeom.SiteData(one.name, one.X, one.y, columns=("age", "bmi", "glucose")) for one in sites]
    fedgeom.run(fedgeom.Moments(space="euclidean"), sites, record="runs/study-1")
    X, y = np.vstack([one.X for one in sites]), np.concatenate([one.y for one in sites])
    return {
        "frame": pd.DataFrame(X, columns=["age", "bmi", "glucose"]),
        "X": X,
        "y": y,
        "X_held_out": X[::2],
        "hospital": np.repeat(HOSPITALS, 40),
        "cross_val_score": cross_val_score,
        "GridSearchCV": GridSearchCV,
    }


def preparation() -> dict[str, Any]:
    sites = [
        fedgeom.SiteData(one.name, np.floor(3 * one.X), one.y) for one in lumps(HOSPITALS, ("B", "T"), 40, rows=20)
    ]
    return {"sites": sites, "raw": sites[0].X}


def moments() -> dict[str, Any]:
    sites = lumps(HOSPITALS, ("B", "T"), 3)
    return {"sites": sites, "X": sites[0].X}


def ptopofl() -> dict[str, Any]:
    pytest.importorskip("gudhi")
    pytest.importorskip("torch")
    sites = lumps((*HOSPITALS, "graz"), ("no", "yes"), 4)
    return {"sites": sites, "X": sites[0].X}


def ridge() -> dict[str, Any]:
    sites = lumps(HOSPITALS, ("a", "b"), 64, rows=20)
    changed = [fedgeom.SiteData(one.name, one.X[:4] + 0.1, one.y[:4]) for one in sites]
    return {"sites": sites, "X": sites[0].X, "changed": changed}


def statistics() -> dict[str, Any]:
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    count = 2400
    arm = rng.choice(["placebo", "aspirin"], count)
    age = rng.normal(70, 10, count)
    dead = rng.logistic(size=count) < (age - 75) / 10 - 0.3 * (arm == "aspirin")
    hospital = rng.choice(list("abcdef"), count)
    frame = pandas.DataFrame({"dead": dead * 1, "age": age, "arm": arm, "hospital": hospital})
    numbers = frame.assign(bmi=rng.normal(25, 3, count), arm=(arm == "aspirin") * 1.0)[
        ["age", "bmi", "arm", "dead", "hospital"]
    ]
    trial = fedgeom.SiteData.from_frame(numbers, outcome="dead", by="hospital")
    patients = numbers[["age", "arm"]].assign(
        days=np.ceil(rng.exponential(200, count)), died=dead * 1, centre=frame["hospital"]
    )
    return {"frame": frame, "trial": trial, "patients": patients}


def semi() -> dict[str, Any]:
    pytest.importorskip("torch")
    sites = []
    for one in lumps(HOSPITALS, ("a", "b"), 20, rows=30):
        few = np.where(np.arange(len(one.y)) % 3, -1, (one.y == "b").astype(int))
        sites.append(fedgeom.SiteData(one.name, one.X, few))
    return {"sites": sites, "X": sites[0].X}


def xclp() -> dict[str, Any]:
    pytest.importorskip("seal", reason="needs the xclp extra")
    sites = [
        fedgeom.SiteData(one.name, one.X - 3, np.where(np.arange(len(one.y)) % 2, "", one.y))
        for one in lumps(HOSPITALS, ("a", "b"), 4, rows=8)
    ]
    return {"sites": sites, "X": sites[0].X}


AT_HAND: dict[str, Callable[[], dict[str, Any]]] = {
    "README.md": readme,
    "docs/describe.md": describe,
    "docs/ellipses.md": ellipses,
    "docs/hulls.md": hulls,
    "docs/hyperfed.md": hyperfed,
    "docs/maps.md": moments,
    "docs/moments.md": moments,
    "docs/own-method.md": own_method,
    "docs/predict.md": predict,
    "docs/preparation.md": preparation,
    "docs/privacy.md": dict,
    "docs/ptopofl.md": ptopofl,
    "docs/shrunk.md": ptopofl,
    "docs/ridge.md": ridge,
    "docs/robust.md": dict,
    "docs/scale.md": dict,
    "docs/statistics.md": statistics,
    "docs/semi.md": semi,
    "docs/tutorial-research.md": dict,
    "docs/xclp.md": xclp,
}
"""By page, what its blocks take for granted."""

SMALLER = {
    "docs/hyperfed.md": (
        ("n_rounds=50", "n_rounds=1"),
        ('loss="tree-softmax"', 'loss="tree-softmax", n_rounds=1'),
    ),
    "docs/own-method.md": ((', level="full"', ""),),  # tests/testing holds it to all of it
    "docs/preparation.md": (("SelectVariable(2000)", "SelectVariable(20)"), ("PCA(50)", "PCA(5)")),
    "docs/ptopofl.md": (("PTopoFL(n_clusters=2)", "PTopoFL(n_clusters=2, n_rounds=2)"),),
    "docs/ridge.md": (
        ('features="fourier"', 'features={"name": "fourier", "n_components": 30}'),
        (
            'features="conv", shape=(28, 28, 1)',
            'features={"name": "conv", "n_filters": 6, "n_rounds": 1}, shape=(8, 8, 1)',
        ),
    ),
    "docs/semi.md": (('"n_anchors": 200}, relabel_every=3', '"n_anchors": 8}, relabel_every=1, n_rounds=2'),),
}
"""What is made smaller in the blocks of a page, so that a test takes a second: the same calls over fewer rounds."""

ELSEWHERE = dict.fromkeys(
    ("docs/training.md", "docs/own-algorithm.md"), "tests/methods/iterative/test_docs.py runs their blocks"
)
"""Pages whose blocks another test runs."""


def links(page: Path) -> Iterator[tuple[str, str]]:
    """Yield the links of a page to other files: path and anchor, either may be empty."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"`[^`\n]*`", "", text)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if not re.match(r"[a-z]+:", target):
            path, _, anchor = target.partition("#")
            yield path, anchor


def anchors(page: Path) -> set[str]:
    """Return the names of a page's headings, as GitHub and the site write them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    found = set()
    for title in re.findall(r"^#+ +(.*)$", text, re.MULTILINE):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title).lower()
        found.add(re.sub(r"[^\w\- ]", "", plain).strip().replace(" ", "-"))
    return found


def typed(page: Path) -> Iterator[tuple[str, str]]:
    """Yield what a page has its reader type into a shell: ("file name", content) of here-documents, ("", line) else."""
    whole = re.compile(r"^cat > (\S+) <<'END'\n(.*?)^END$|^(.+?)$", re.DOTALL | re.MULTILINE)
    for block in blocks(page, "sh"):
        for name, content, line in whole.findall(block):
            yield name, content if name else line
