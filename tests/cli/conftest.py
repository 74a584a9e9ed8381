from __future__ import annotations

import pytest

from fedgeom.data.datasets import load_set
from tests.cli.calling import call, write_csv
from tests.cli.deploying import conducting, here, made  # noqa: F401

WORDS = [
    {"benign": "b", "malignant": "m"},
    {"benign": "gut", "malignant": "böse"},
    {"benign": "0", "malignant": "1"},
]


@pytest.fixture(scope="session")
def federation(tmp_path_factory):
    """A folder with three hospitals' CSV files, columns in different orders, and a federation file."""
    folder = tmp_path_factory.mktemp("federation")
    for at, (site, names) in enumerate(zip(load_set("breast-cancer", n_sites=3).train, WORDS, strict=True)):
        write_csv(folder / f"h{at}.csv", site.relabel(names), "diagnosis", range(29, -1, -1) if at == 1 else None)
    sites = "".join(f'[[sites]]\nname = "Hospital {at}"\nfile = "h{at}.csv"\n' for at in range(3))
    text = f'label = "diagnosis"\nholdout = 0.3\n[parameters]\nembedding = "discriminant"\n{sites}'
    (folder / "study.toml").write_text(text)
    return folder


@pytest.fixture(scope="session")
def finished(federation):
    """The folder of a finished run over these hospitals, and what the command printed."""
    output = call("run", federation / "study.toml", "--out", federation / "runs" / "study")
    return federation / "runs" / "study-1", output
