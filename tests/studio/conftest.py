from __future__ import annotations

import csv
import random

import pytest

pytest.importorskip("starlette", reason="needs the studio extra")
pytest.importorskip("jinja2", reason="needs the studio extra")
pytest.importorskip("httpx", reason="needs httpx")

from starlette.testclient import TestClient

from fedgeom.studio.app import make_app

TOKEN = "a-token-of-the-tests"


@pytest.fixture
def place(tmp_path):
    """An empty folder to work in."""
    from fedgeom.studio.places import Place

    return Place(tmp_path)


def browser_in(folder, follow=False):
    """A browser that knows the token, on the pages of a studio over a folder."""
    return TestClient(
        make_app(folder, TOKEN),
        base_url=f"http://127.0.0.1:8000/{TOKEN}",
        headers={"origin": "http://127.0.0.1:8000"},
        raise_server_exceptions=False,
        follow_redirects=follow,
    )


@pytest.fixture
def client(tmp_path):
    """A browser on the pages of a studio over an empty folder."""
    return browser_in(tmp_path)


@pytest.fixture(scope="session")
def patients(tmp_path_factory):
    """A table of four hospitals with gaps and words, as bytes."""
    random.seed(0)
    file = tmp_path_factory.mktemp("tables") / "patients.csv"
    with file.open("w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out)
        writer.writerow(["age", "bmi", "sex", "hospital", "diagnosis"])
        for at in range(160):
            ill = at % 2
            bmi = "" if at % 20 == 0 else f"{random.gauss(25, 3):.1f}"
            writer.writerow(
                [
                    f"{random.gauss(50 + 20 * ill, 8):.1f}",
                    bmi,
                    "mf"[at % 3 == 0],
                    f"h{at // 2 % 4}",
                    ["well", "ill"][ill],
                ]
            )
    return file.read_bytes()
