"""The algorithms on the command line: listed, run from a federation file, resumed, added by other packages."""

from __future__ import annotations

import csv
import json
import sys
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from typer.testing import CliRunner

import fedgeom
from fedgeom import FedAvg
from fedgeom.cli import app
from fedgeom.errors import InputError
from fedgeom.evaluation.evaluation import read_evaluation
from fedgeom.federation.method import METHODS
from fedgeom.methods.catalogue import load_model, method_class
from fedgeom.methods.iterative import Learner
from fedgeom.methods.iterative.learners import LEARNERS, learner_named
from tests.methods.iterative.making import ALGORITHMS, unlike

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


def plan(folder, method, parameters="n_rounds = 2\nepochs = 1\n"):
    sites = "".join(f'[[sites]]\nfile = "s{at}.csv"\n' for at in range(3))
    file = folder / f"{method}.toml"
    file.write_text(f'method = "{method}"\nlabel = "label"\nholdout = 0.25\n[parameters]\n{parameters}{sites}')
    return file


@pytest.mark.parametrize("method", ["fedavg", "local", "ditto"])
def test_run(federation, method):
    output = call("run", "--policy", "relaxed", plan(federation, method), "--out", federation / "runs" / method)
    folder = federation / "runs" / f"{method}-1"
    assert "federated" in output
    assert "masked sums of the columns" in output
    model = fedgeom.load_model(folder / "model.safetensors")
    assert (model.method, model.names) == (method, ("class 0", "class 1"))
    assert [bool(one.tested) for one in read_evaluation(folder).by_site] == [True] * 3
    assert not (folder / "resume").exists()


def test_own_scales_are_scored_at_home(federation):
    file = plan(federation, "fedavg", 'n_rounds = 2\nscale = "site"\n')
    assert "federated" in call("run", "--policy", "relaxed", file, "--out", federation / "runs" / "x")


def test_resume(federation, monkeypatch):
    from fedgeom.engines.embedded import EmbeddedEngine

    file, deliver = (
        plan(federation, "scaffold", "n_rounds = 3\nepochs = 1\nsecure = false\n"),
        EmbeddedEngine.deliver,
    )
    steps = [0]

    def dying(self, requests):
        steps[0] += 1
        if steps[0] == 9:
            raise KeyboardInterrupt
        yield from deliver(self, requests)

    call("run", "--policy", "relaxed", file, "--out", federation / "clean", "--seed", 5)
    with monkeypatch.context() as patch:
        patch.setattr(EmbeddedEngine, "deliver", dying)
        output = call("run", "--policy", "relaxed", file, "--out", federation / "cut", "--seed", 5, code=130)
    assert f"--resume {federation}/cut-1" in output.replace("\n", "")
    output = call("run", "--policy", "relaxed", file, "--resume", federation / "cut-1")
    assert "federated" in output
    models = [(federation / name / "model.safetensors").read_bytes() for name in ("clean-1", "cut-1")]
    assert models[0] == models[1]
    assert "is finished" in call("run", "--policy", "relaxed", file, "--resume", federation / "cut-1", code=2)
    assert "leave --out and --seed away" in call(
        "run", file, "--resume", federation / "cut-1", "--seed", 1, code=2
    )


def test_methods_lists_the_algorithms_and_what_leaves():
    output = call("methods")
    for name in ALGORITHMS:
        assert f"\n{name}  " in output
    said = {name: " ".join(call("methods", name).split()) for name in ("fedavg", "local")}
    assert "the weighted sum of trained parameters" in said["fedavg"]
    leaves = said["local"].partition("leaves the site")[2]
    assert "trained parameters" not in leaves
    assert "mean and variance of each column" in leaves


def test_choices_in_a_federation_file(federation):
    """A choice with settings of its own is a table there."""
    choices = (
        'n_rounds = 2\nepochs = 1\nschedule = "cosine"\n'
        'aggregation = {name = "trimmed", trim = 0.3}\npersonal = {name = "interpolated", mix = 0.5}\n'
    )
    call("run", "--policy", "relaxed", plan(federation, "fedavg", choices), "--out", federation / "runs" / "x")
    config = json.loads((federation / "runs" / "x-1" / "config.json").read_text())
    assert config["parameters"]["aggregation"] == {"name": "trimmed", "trim": 0.3}
    assert config["parameters"]["personal"] == {"name": "interpolated", "mix": 0.5}
    assert config["parameters"]["schedule"] == "cosine"
    wrong = plan(federation, "fedavg", 'aggregation = {name = "trimmed", bad = 1}\n')
    output = call("run", "--policy", "relaxed", wrong, "--out", federation / "runs" / "y", code=2)
    assert "'trimmed' has no setting 'bad'; it has trim" in " ".join(output.split())


PLUGIN = """
from fedgeom import FedAvg
from tests.methods.iterative.making import Bowl


class Halved(FedAvg):
    name = "halved"

    def combine(self, state, mean, round):
        return {"model": (state["model"] + mean["model"]) / 2}


class Deep(Bowl):
    name = "deep-bowl"


deep, wrong = Deep(), 7
"""


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    """An installed package that offers an algorithm and a learner."""
    (tmp_path / "strange.py").write_text(PLUGIN)
    info = tmp_path / "strange-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: strange\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[fedgeom.methods]\nhalved = strange:Halved\nother = strange:Halved\nodd = strange:wrong\n"
        "fedavg = strange:Halved\n[fedgeom.learners]\ndeep-bowl = strange:deep\nwrong = strange:wrong\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    for registry in (METHODS, LEARNERS):
        monkeypatch.setattr(registry, "_known", dict(registry._known))
    yield
    sys.modules.pop("strange", None)


@pytest.mark.usefixtures("plugin")
def test_packages_add_methods_and_learners(tmp_path):
    assert {"halved", "other", "fedavg"} <= set(METHODS)
    assert "strange" not in sys.modules  # what is offered is loaded when it is used
    assert method_class("fedavg") is FedAvg  # what comes with fedgeom cannot be replaced
    run = fedgeom.run(method_class("halved")(n_rounds=1, epochs=1), unlike())
    run.model.save(tmp_path / "m.safetensors")
    assert load_model(tmp_path / "m.safetensors").to_bytes() == run.model.to_bytes()
    with pytest.raises(InputError, match="strange:Halved calls itself 'halved', but was installed as the method"):
        method_class("other")
    with pytest.raises(InputError, match=r"the method 'odd' is a int; wanted a subclass of fedgeom\.Method"):
        method_class("odd")
    learner = learner_named("deep-bowl")
    assert isinstance(learner, Learner)
    assert learner_named("deep-bowl") is learner
    with pytest.raises(InputError, match="the learner 'wrong' is a int; wanted an instance of Learner"):
        learner_named("wrong")
    with pytest.raises(InputError, match=r"learner='none' is unknown; there are: logistic.*deep-bowl"):
        learner_named("none")


def test_algorithms_of_this_process_are_known_by_name(tmp_path):
    @dataclass(frozen=True, kw_only=True)
    class Mine(FedAvg):
        """An algorithm from a notebook."""

        name: ClassVar[str] = "mine-here"

    run = fedgeom.run(Mine(n_rounds=1), unlike())
    run.model.save(tmp_path / "m.safetensors")
    assert np.isfinite(fedgeom.load_model(tmp_path / "m.safetensors").predict_proba(unlike()[0].X)).all()


def test_a_name_that_is_taken_cannot_be_taken_again():
    with pytest.raises(InputError, match=r"there is a method 'fedavg' already \(.*:FedAvg\); choose another name"):

        class Other(FedAvg):
            name = "fedavg"

    assert method_class("fedavg") is FedAvg
