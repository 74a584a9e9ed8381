"""A package that fedgeom does not know offers one of each by entry points, and each is found and used."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import fedgeom
from fedgeom.data.readers import READERS, read_site
from fedgeom.deploy.federation_file import build_method, read_federation, read_sites
from fedgeom.engines.run import ENGINES
from fedgeom.errors import InputError
from fedgeom.federation.method import METHODS
from fedgeom.federation.record import read_folder
from fedgeom.methods.catalogue import load_model, method_class
from fedgeom.methods.iterative import Aggregation
from fedgeom.methods.iterative.learners import LEARNERS
from fedgeom.methods.iterative.optimizer import Schedule
from fedgeom.methods.iterative.personal import Personal
from fedgeom.testing import check_method
from tests.cli.calling import call
from tests.stranger.installing import LIAR, PACKAGE, PARCEL, THIEF, metadata
from tests.waiting import HANG_SECONDS

REGISTRIES = {
    "fedgeom.methods": METHODS,
    "fedgeom.learners": LEARNERS,
    "fedgeom.aggregations": Aggregation.registry,
    "fedgeom.schedules": Schedule.registry,
    "fedgeom.personals": Personal.registry,
    "fedgeom.readers": READERS,
    "fedgeom.engines": ENGINES,
}
MODULES = ("fedgeom_parcel", "fedgeom_thief", "fedgeom_liar")


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Install packages for one test; nothing of them is known after it."""
    for registry in REGISTRIES.values():
        monkeypatch.setattr(registry, "_known", dict(registry._known))
    for module in MODULES:
        monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.syspath_prepend(str(PACKAGE))

    def put(package, groups):
        monkeypatch.syspath_prepend(str(metadata(tmp_path / package, package, groups)))

    yield put
    for module in MODULES:
        sys.modules.pop(module, None)


@pytest.fixture
def parcel(install):
    install("fedgeom-parcel", PARCEL)


@pytest.fixture
def sites():
    rng = np.random.default_rng(0)
    y = np.repeat(["left", "right"], [8, 12])
    return [fedgeom.SiteData(f"s{i}", rng.normal(size=(20, 2)) + (y == "left")[:, None] * 3, y) for i in range(3)]


def test_nothing_is_known_without_the_package():
    for group, points in PARCEL.items():
        for name in points:
            assert name not in REGISTRIES[group]


@pytest.mark.usefixtures("parcel")
@pytest.mark.parametrize("group", PARCEL)
def test_each_is_found_and_loaded_only_when_it_is_used(group):
    ((name, place),) = PARCEL[group].items()
    assert name in REGISTRIES[group]
    assert str(REGISTRIES[group]).endswith(name)
    assert "fedgeom_parcel" not in sys.modules
    found = REGISTRIES[group].find(name)
    assert found is getattr(sys.modules["fedgeom_parcel"], place.partition(":")[2])


@pytest.mark.usefixtures("parcel")
def test_the_engine_carries_a_run(sites, tmp_path):
    method = fedgeom.Moments(space="euclidean")
    run = fedgeom.run(method, sites, engine="parcel", record=tmp_path / "r")
    assert ENGINES["parcel"].carried == len(run.ledger) > 0
    assert read_folder(tmp_path / "r")["config"]["engine"] == "parcel"
    assert run.model.to_bytes() == fedgeom.run(method, sites).model.to_bytes()


@pytest.mark.usefixtures("parcel")
def test_the_method_runs_saves_and_loads(sites, tmp_path):
    method = method_class("majority")()
    run = fedgeom.run(method, sites, record=tmp_path / "r")
    assert run.model.counts.tolist() == [24, 36]
    again = load_model(tmp_path / "r")
    assert type(again) is type(run.model)
    assert set(again.predict(sites[0].X)) == {"right"}


@pytest.mark.full
@pytest.mark.usefixtures("parcel")
def test_the_method_stands_what_every_method_must():
    assert check_method(method_class("majority"))["secure_equals_plain"] == 1


@pytest.mark.usefixtures("parcel")
def test_the_learner_and_the_aggregation_train(sites):
    method = fedgeom.FedAvg(
        n_rounds=3, learner="parcel-squares", aggregation={"name": "parcel-midrange", "lean": 0.25}, secure=False
    )
    run = fedgeom.run(method, sites, seed=0)
    assert np.mean(run.model.predict(sites[0].X) == sites[0].y) > 0.8
    assert run.model.to_bytes() == method.plain(sites, seed=0).model.to_bytes()
    assert method.terms()["aggregation"] == {"name": "parcel-midrange", "lean": 0.25}
    with pytest.raises(InputError, match="aggregation: 'parcel-midrange' has no setting 'tilt'; it has lean"):
        fedgeom.FedAvg(aggregation={"name": "parcel-midrange", "tilt": 1})
    with pytest.raises(InputError, match=r"there are: logistic.*parcel-squares"):
        fedgeom.FedAvg(learner="parcel-circles")


def write_parcels(folder, sites):
    for site in sites:
        lines = [f"{label}: {' '.join(map(str, row))}" for row, label in zip(site.X.tolist(), site.y, strict=True)]
        (folder / f"{site.name}.parcel").write_text("\n".join(lines))
    return "".join(f'[[sites]]\nfile = "{site.name}.parcel"\n' for site in sites)


@pytest.mark.usefixtures("parcel")
def test_the_reader_reads(sites, tmp_path):
    write_parcels(tmp_path, sites)
    found = read_site(tmp_path / "s1.parcel", label="first")
    assert found.X.tolist() == sites[1].X.tolist()
    assert found.y.tolist() == sites[1].y.tolist()


@pytest.mark.usefixtures("parcel")
def test_a_federation_file_names_all_of_them(sites, tmp_path):
    blocks = write_parcels(tmp_path, sites)
    file = tmp_path / "a.toml"
    file.write_text(f'method = "majority"\nlabel = "first"\n[parameters]\nclasses = ["right", "left"]\n{blocks}')
    plan = read_federation(file)
    assert build_method(file, plan).classes == ("right", "left")
    assert [site.name for site in read_sites(file, plan)] == ["s0", "s1", "s2"]
    file.write_text(
        'method = "fedavg"\nlabel = "first"\n[parameters]\nlearner = "parcel-squares"\n'
        f'aggregation = {{name = "parcel-midrange", lean = 0.75}}\n{blocks}'
    )
    method = build_method(file, read_federation(file))
    assert (method.learner, method.combine_rule.lean) == ("parcel-squares", 0.75)


@pytest.mark.usefixtures("parcel")
def test_the_commands_know_them(sites, tmp_path):
    blocks = write_parcels(tmp_path, sites)
    (tmp_path / "a.toml").write_text(f'method = "majority"\nlabel = "first"\nholdout = 0.2\n{blocks}')
    listed = " ".join(call("methods").split())
    assert "majority Sites count their labels under masks; the most frequent class is the answer." in listed
    shown = " ".join(call("methods", "majority").split())
    assert "- majority.count: masked; with all others: how many rows each class has" in shown
    output = call("run", tmp_path / "a.toml", "--out", tmp_path / "r")
    assert "majority.count" in output
    assert json.loads((tmp_path / "r-1" / "status.json").read_text())["state"] == "finished"
    told = call("predict", tmp_path / "r-1", tmp_path / "s0.parcel", "--label", "first", "--site", "s0")
    assert "0.600 of 20 rows agree with 'first'" in told


def test_a_fresh_process_finds_them(tmp_path):
    folder = metadata(tmp_path / "installed", "fedgeom-parcel", PARCEL)
    metadata(tmp_path / "stolen", "a-thief", THIEF)
    path = os.pathsep.join([str(tmp_path / "stolen"), str(folder), str(PACKAGE), *sys.path])
    code = (
        "import fedgeom, numpy as np;"
        "from fedgeom.methods.catalogue import method_class;"
        "y = np.repeat(['left', 'right'], [3, 5]);"
        "sites = [fedgeom.SiteData(f's{i}', np.zeros((8, 1)) + i, y) for i in range(3)];"
        "run = fedgeom.run(method_class('majority')(), sites, engine='parcel');"
        "print(run.model.predict([[0.0]])[0], method_class('hulls').__module__, method_class('fedavg').__module__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [
        "right",
        "fedgeom.methods.hulls.method",
        "fedgeom.methods.iterative.algorithms.averaging",
    ]


def test_a_package_that_claims_a_name_of_ours_does_not_replace_it(install, sites, tmp_path):
    before = {group: {name: REGISTRIES[group][name] for name in points} for group, points in THIEF.items()}
    names = {group: list(registry) for group, registry in REGISTRIES.items()}
    install("a-thief", THIEF)
    for group, points in THIEF.items():
        assert list(REGISTRIES[group]) == names[group]
        for name in points:
            assert REGISTRIES[group].find(name) is before[group][name]
    (tmp_path / "a.csv").write_text("x,y\n1,a\n2,b\n")
    assert len(read_site(tmp_path / "a.csv", label="y")) == 2
    fedgeom.run(fedgeom.FedAvg(n_rounds=1, personal="finetuned"), sites)
    assert "hulls" in call("methods")
    assert "fedgeom_thief" not in sys.modules


def test_a_package_whose_things_call_themselves_ours_is_refused(install):
    install("a-liar", LIAR)
    mean = Aggregation.registry["mean"]
    with pytest.raises(
        InputError, match=r"'kinder' of the package 'a-liar' cannot be loaded: there is an aggregation"
    ):
        fedgeom.FedAvg(aggregation="kinder")
    assert Aggregation.registry["mean"] is mean
    with pytest.raises(InputError, match=r"the method 'blank' of the package 'a-liar' cannot be loaded"):
        method_class("blank")
    listed = " ".join(call("methods").split())
    assert "blank the method 'blank' of the package 'a-liar' cannot be loaded" in listed
    assert "moments For a quick first result" in listed


def test_a_method_class_that_calls_itself_ours_cannot_be_defined():
    with pytest.raises(
        InputError, match=r"there is a method 'hulls' already \(fedgeom\.methods\.hulls\.method:Hulls\)"
    ):
        type("Hulls", (fedgeom.Method,), {"name": "hulls", "__module__": "elsewhere"})
    assert METHODS["hulls"] is fedgeom.Hulls
