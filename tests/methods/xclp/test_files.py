"""Label propagation from files: rows without a label are what it is for, and other methods say that they are not."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import fedgeom
from fedgeom.cli import app
from fedgeom.errors import InputError
from fedgeom.evaluation.evaluation import read_evaluation

COLUMNS = ("a", "b", "c", "d")
SILENT = {"csv": ("", "NA", "nan", "-1"), "npz": ("-1",)}


def cones(site: int, rows: int = 30) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows of three classes, their classes, and which of them are labelled; the last site has no label."""
    rng = np.random.default_rng(site)
    y = np.arange(rows) % 3
    X = np.eye(4)[y] * rng.uniform(1, 3, (rows, 1)) + 0.2 * rng.normal(size=(rows, 4))
    return X, y, (rng.random(rows) < 0.5) & (site < 2)


def write_csv(file: Path, site: int) -> None:
    X, y, shown = cones(site)
    lines = [",".join((*COLUMNS, "type"))]
    for i, row in enumerate(X):
        label = f"type {y[i]}" if shown[i] else SILENT["csv"][i % 4]
        lines.append(",".join([*(f"{value:.6f}" for value in row), label]))
    file.write_text("\n".join(lines) + "\n")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for site in range(3):
        write_csv(tmp_path / f"lab{site}.csv", site)
    sites = "".join(f'[[sites]]\nfile = "lab{site}.csv"\n' for site in range(3))
    text = f'label = "type"\nholdout = 0.2\n[parameters]\nhash_bits = 256\nhamming = "ot"\n{sites}'
    (tmp_path / "study.toml").write_text('method = "xclp"\n' + text)
    return tmp_path


def right(labels: object, site: int) -> float:
    return float(np.mean(np.asarray(labels) == [f"type {v}" for v in cones(site)[1]]))


def test_empty_cells_are_rows_to_be_labelled(folder: Path) -> None:
    sites = [fedgeom.read_site(folder / f"lab{site}.csv", label="type") for site in range(3)]
    assert [len(site) for site in sites] == [30, 30, 30]
    run = fedgeom.run(fedgeom.XCLP(hash_bits=512, hamming="ot"), sites)
    assert run.metrics["labelled"] == sum(int(cones(site)[2].sum()) for site in range(3))
    assert run.metrics["classes"] == 3
    for at, site in enumerate(sites):
        assert right(run.labels[site.name], at) > 0.9  # also at the last one, which has no label of its own


@pytest.mark.parametrize("graph", ["pairs", "anchors"])
def test_on_the_command_line(folder: Path, graph: str) -> None:
    plan = folder / "study.toml"
    extra = f'graph = "{graph}"\nn_anchors = 12\nmin_cell = 3\n'
    plan.write_text(plan.read_text().replace("[parameters]\n", f"[parameters]\n{extra}"))
    result = CliRunner().invoke(app, ["run", "--policy", "relaxed", str(plan), "--out", str(folder / "runs")])
    assert result.exit_code == 0, result.output
    found = folder / "runs-1"
    assert json.loads((found / "status.json").read_text())["state"] == "finished"
    silent = json.loads((found / "sites" / "lab2.json").read_text())
    assert right(silent["labels"], 2) > 0.9
    assert len(silent["confidences"]) == 30
    scored = read_evaluation(found)
    assert scored["own"].accuracy.value > 0.8
    assert [one.site for one in scored.by_site if one.tested] == ["lab0", "lab1"]  # the last one has no labels


def test_methods_that_learn_from_labels_say_that_some_are_missing(folder: Path) -> None:
    sites = [fedgeom.read_site(folder / f"lab{site}.csv", label="type") for site in range(3)]
    for method in (fedgeom.Moments(space="euclidean"), fedgeom.Hulls(embedding="discriminant")):
        with pytest.raises(InputError, match=r"rows have no label.*XCLP"):
            fedgeom.run(method, sites)


def test_gaps_in_archives_of_cells(tmp_path: Path) -> None:
    anndata = pytest.importorskip("anndata", reason="needs the bio extra")
    pandas = pytest.importorskip("pandas", reason="needs the bio extra")
    sites = []
    for site in range(3):
        X, y, shown = cones(site)
        if site == 0:
            np.savez(tmp_path / "lab0.npz", X=X, y=np.where(shown, y, -1))
            sites.append(fedgeom.read_site(tmp_path / "lab0.npz", label="y"))
            continue
        names = [
            str(v) if known else (None if site == 1 else float("nan")) for v, known in zip(y, shown, strict=True)
        ]
        index = [f"cell {i}" for i in range(len(y))]
        obs = pandas.DataFrame(
            {"type": pandas.Series(names, dtype="object" if site == 1 else "str").tolist()}, index
        )
        obs["type"] = pandas.Categorical(obs["type"], categories=["0", "1", "2"])
        file = tmp_path / f"lab{site}.h5ad"
        anndata.AnnData(X, obs=obs, var=pandas.DataFrame(index=list(COLUMNS))).write_h5ad(file)
        sites.append(fedgeom.read_site(file, label="type"))
    run = fedgeom.run(fedgeom.XCLP(hash_bits=512, hamming="ot"), sites)
    assert run.metrics["classes"] == 3
    for at, site in enumerate(sites):
        classes = cones(at)[
            1
        ]  # a site has its labels as its file has them; the last has none, and words that are numbers
        truth = classes.astype(str) if at == 1 else classes
        assert np.mean(run.labels[site.name] == truth) > 0.9
