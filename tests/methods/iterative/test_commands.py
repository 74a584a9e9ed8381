"""The rows on the command line: listed, run from a federation file, resumed, added by other packages."""

from __future__ import annotations

import csv
import importlib
import json
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

import fedgeom
import fedgeom.methods
from fedgeom.cli import app
from fedgeom.errors import InputError
from fedgeom.methods.iterative import Learner
from fedgeom.methods.iterative.learners import learner_named
from tests.methods.iterative.making import ROWS, unlike

runner = CliRunner()


def call(*words, code=0):
    result = runner.invoke(app, [str(word) for word in words])
    assert result.exit_code == code, result.output
    return result.output


@pytest.fixture
def federation(tmp_path):
    for site in unlike(n_sites=3, rows=20):
        with (tmp_path / f"{site.name}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["u", "v", "label"])
            writer.writerows([*row, label] for row, label in zip(site.X, site.y, strict=True))
    return tmp_path


def plan(folder, method, parameters="rounds = 2\nepochs = 1\n"):
    sites = "".join(f'[[sites]]\nfile = "s{at}.csv"\n' for at in range(3))
    file = folder / f"{method}.toml"
    file.write_text(f'method = "{method}"\nlabel = "label"\nholdout = 0.25\n[parameters]\n{parameters}{sites}')
    return file


@pytest.mark.parametrize("method", ["fedavg", "local", "ditto"])
def test_run(federation, method):
    output = call("run", plan(federation, method), "--out", federation / "runs" / method)
    folder = federation / "runs" / f"{method}-1"
    assert "federated" in output
    assert "masked sums of the columns" in output
    model = fedgeom.load_model(folder / "model.safetensors")
    assert (model.method, model.names) == (method, ("class 0", "class 1"))
    assert len(json.loads((folder / "comparison.json").read_text())["federated"]) == 3
    assert not (folder / "resume").exists()


def test_own_scales_are_scored_at_home(federation):
    file = plan(federation, "fedavg", 'rounds = 2\nscale = "site"\n')
    assert "federated" in call("run", file, "--out", federation / "runs" / "x")


def test_resume(federation, monkeypatch):
    from fedgeom.engines.embedded import EmbeddedEngine

    file, deliver = (
        plan(federation, "scaffold", "rounds = 3\nepochs = 1\nsecure = false\n"),
        EmbeddedEngine.deliver,
    )
    steps = [0]

    def dying(self, requests):
        steps[0] += 1
        if steps[0] == 9:
            raise KeyboardInterrupt
        yield from deliver(self, requests)

    call("run", file, "--out", federation / "clean", "--seed", 5)
    with monkeypatch.context() as patch:
        patch.setattr(EmbeddedEngine, "deliver", dying)
        output = call("run", file, "--out", federation / "cut", "--seed", 5, code=130)
    assert f"--resume {federation}/cut-1" in output.replace("\n", "")
    output = call("run", file, "--resume", federation / "cut-1")
    assert "federated" in output
    models = [(federation / name / "model.safetensors").read_bytes() for name in ("clean-1", "cut-1")]
    assert models[0] == models[1]
    assert "is finished" in call("run", file, "--resume", federation / "cut-1", code=2)
    assert "leave --out and --seed away" in call(
        "run", file, "--resume", federation / "cut-1", "--seed", 1, code=2
    )


def test_methods_lists_the_rows_and_what_leaves():
    output = call("methods")
    for name in ROWS:
        assert f"\n{name}  " in output
    part = output.split("\nfedavg  ")[1].split("\nfedprox  ")[0]
    assert "the weighted sum of trained parameters" in part.replace("\n", " ")
    assert "secure=False" in part
    part = output.split("\nlocal  ")[1].split("\ninterpolated  ")[0]
    assert "trained parameters" not in part
    assert "mean and variance of each column" in part


PLUGIN = """
from fedgeom.methods.iterative import FedAvg, Learner
from tests.methods.iterative.making import Bowl


class Halved(FedAvg):
    name = "halved"

    def combine(self, state, mean, share):
        return {"model": (state["model"] + mean["model"]) / 2}


class Deep(Bowl):
    name = "deep-bowl"


deep, wrong = Deep(), 7
"""


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    """An installed package that offers a row and a learner."""
    (tmp_path / "strange_rows.py").write_text(PLUGIN)
    info = tmp_path / "strange_rows-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: strange-rows\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[fedgeom.methods]\nhalved = strange_rows:Halved\nother = strange_rows:Halved\n"
        "fedavg = strange_rows:Halved\n[fedgeom.learners]\ndeep-bowl = strange_rows:deep\nwrong = strange_rows:wrong\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    before = dict(fedgeom.methods.METHODS)
    importlib.reload(fedgeom.methods)
    yield fedgeom.methods
    sys.modules.pop("strange_rows", None)
    fedgeom.methods.METHODS.clear()
    fedgeom.methods.METHODS.update(before)


def test_packages_add_methods_and_learners(plugin, tmp_path):
    from fedgeom.methods.iterative import FedAvg

    assert plugin.METHODS["halved"] == ("strange_rows", "Halved", "", "")
    assert plugin.method_class("fedavg") is FedAvg  # what comes with fedgeom cannot be replaced
    row = plugin.method_class("halved")(rounds=1, epochs=1)
    run = fedgeom.run(row, unlike())
    run.model.save(tmp_path / "m.safetensors")
    assert plugin.load_model(tmp_path / "m.safetensors").to_bytes() == run.model.to_bytes()
    with pytest.raises(InputError, match="calls itself 'halved', but was installed as the method 'other'"):
        plugin.method_class("other")
    learner = learner_named("deep-bowl")
    assert isinstance(learner, Learner)
    assert learner_named("deep-bowl") is learner
    with pytest.raises(InputError, match=r"the entry point 'wrong' of fedgeom.learners gives 7; wanted a Learner"):
        learner_named("wrong")
    with pytest.raises(InputError, match=r"there is no learner 'none' here; there are: logistic.*deep-bowl"):
        learner_named("none")


def test_rows_of_this_process_are_known_by_name(tmp_path):
    from dataclasses import dataclass
    from typing import ClassVar

    from fedgeom.methods.iterative import FedAvg

    @dataclass(frozen=True, kw_only=True)
    class Mine(FedAvg):
        """A row from a notebook."""

        name: ClassVar[str] = "mine-here"

    run = fedgeom.run(Mine(rounds=1), unlike())
    run.model.save(tmp_path / "m.safetensors")
    assert np.isfinite(fedgeom.load_model(tmp_path / "m.safetensors").predict_proba(unlike()[0].X)).all()
