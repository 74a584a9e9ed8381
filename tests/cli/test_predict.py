"""`fedgeom predict`: the joint model, and with --site the site's own, for every method."""

from __future__ import annotations

import csv
from dataclasses import fields
from importlib import import_module
from importlib.util import find_spec

import numpy as np
import pytest
from sklearn.metrics import accuracy_score

import fedgeom
from fedgeom.data.sites import SiteData
from fedgeom.deploy.answers import read_data
from fedgeom.federation.method import METHODS as CATALOGUE
from fedgeom.federation.policy import Policy
from fedgeom.federation.session import Session
from fedgeom.methods.catalogue import method_class
from tests.cli.calling import call, write_csv
from tests.deploy.making import edit, make_coordinator, make_sites
from tests.deploy.test_answering import FolderEngine
from tests.methods.ellipses.making import at_depth

WINE = {"class_0": "Barolo", "class_1": "Grignolino", "class_2": "Barbera"}


def test_predict(federation, finished, tmp_path):
    folder, _ = finished
    file = federation / "h0.csv"
    words = ("predict", folder, file, "--label", "diagnosis", "--site", "Hospital 0")
    assert "agree with 'diagnosis'" in call(*words)
    rows = list(csv.reader(call(*words, only_results=True).splitlines()))
    assert rows[0] == ["row", "class", "probability"]
    assert rows[1][0] == "2"  # as in the file, below its header
    assert {row[1] for row in rows[1:]} == {"b", "m"}
    target = tmp_path / "p.csv"
    said = call("predict", folder / "model.safetensors", file, "--label", "diagnosis", "--out", target)
    assert f"rows: {target}, a table of class, probability" in " ".join(said.split())
    assert {line.split(",")[1] for line in target.read_text().splitlines()[1:]} == {"0", "1"}
    assert "exists" in call("predict", folder, file, "--label", "diagnosis", "--out", target, code=2)
    assert "--label diagnosis" in " ".join(call("predict", folder, file, code=2).split())
    missing = call("predict", folder, file, "--label", "diagnosis", "--site", "Hospital 9", code=2)
    assert "no model of a site 'Hospital 9'; it has those of Hospital 0, Hospital 1, Hospital 2" in missing
    alone = call("predict", folder / "model.safetensors", file, "--site", "Hospital 0", code=2)
    assert "Give the folder of a run" in alone
    assert "has no model.safetensors, so it is no finished run's" in call("predict", tmp_path, file, code=2)


def test_a_site_is_answered_at_its_depth_or_deeper(tmp_path):
    sites = at_depth()
    fedgeom.run(fedgeom.Ellipses(n_classes=4, depth="mixed"), sites, seed=0, record=tmp_path / "run")
    file = tmp_path / "rows.csv"
    np.savetxt(file, sites[3].X, delimiter=",", header="a,b,c", comments="")
    words = ("predict", tmp_path / "run", file, "--site", "s3")

    def said(*more):
        return {row[1] for row in list(csv.reader(call(*words, *more, only_results=True).splitlines()))[1:]}

    assert said() == {"low", "high"}
    deeper = said("--deeper")
    assert {one.partition(" › ")[0] for one in deeper} == {"low", "high"}
    assert len(deeper) == 4
    fedgeom.run(fedgeom.Moments(space="euclidean"), fedgeom.load_set("wine").train, record=tmp_path / "other")
    assert "has no classes inside others" in call("predict", tmp_path / "other", file, "--deeper", code=2)


def hide_labels(sites, kept=8):
    """Leave the labels of the first rows of each class."""
    hidden = []
    for site in sites:
        y = np.array([label if np.sum(site.y[:at] == label) < kept else "" for at, label in enumerate(site.y)])
        hidden.append(SiteData(site.name, site.X, y, columns=site.columns))
    return hidden


METHODS = {
    "hulls": fedgeom.Hulls(embedding="discriminant"),
    "hulls in the disc": fedgeom.Hulls(),
    "ellipses": fedgeom.Ellipses(names="shared"),
    "moments": fedgeom.Moments(space="euclidean"),
    "fedavg": fedgeom.FedAvg(n_rounds=2),
    "fedavg with a scale of each site": fedgeom.FedAvg(n_rounds=2, scale="site"),
    "fine-tuned": fedgeom.FedAvg(n_rounds=2, personal="finetuned"),
    "ditto": fedgeom.Ditto(n_rounds=2),
    "fedper": fedgeom.FedPer(n_rounds=2),
    "local only": fedgeom.LocalOnly(),
    "shrunk": fedgeom.Shrunk(n_rounds=2),
    "ptopofl": fedgeom.PTopoFL(n_rounds=2, n_points=20),
    "xclp over pairs": fedgeom.XCLP(hash_bits=1024, hidden_projection=False),
    "xclp over anchors": fedgeom.XCLP(graph="anchors", n_anchors=40, hash_bits=256),
}


def data_for(name):
    """Return training tables and the file's rows: those of the second site, with all their labels."""
    if name in ("shrunk", "ptopofl"):
        sites = fedgeom.load_set("breast-cancer", n_sites=3).train
    elif name == "hulls in the disc":
        sites = fedgeom.load_set("synthetic", points=300).train
    else:
        sites = [site.relabel(WINE) for site in fedgeom.load_set("wine", n_sites=3).train]
    return (hide_labels(sites) if name.startswith("xclp") else sites), sites[1]


@pytest.mark.parametrize("name", METHODS)
def test_a_sites_own_model_answers_as_in_the_run(name, tmp_path):
    """What the folder keeps for a site is what ``model.for_site(run.local[site])`` is in memory."""
    sites, rows = data_for(name)
    run = fedgeom.run(METHODS[name], sites, seed=1, record=tmp_path / "run")
    file = write_csv(tmp_path / "rows.csv", rows, "y")
    own = run.model.for_site(run.local[rows.name])
    printed = call("predict", tmp_path / "run", file, "--label", "y", "--site", rows.name)
    assert f"{np.mean(own.predict(rows.X) == rows.y):.3f} of {len(rows)} rows agree with 'y'" in printed
    lines = call(
        "predict", tmp_path / "run", file, "--label", "y", "--site", rows.name, only_results=True
    ).splitlines()
    found = [line[1] for line in csv.reader(lines[1:])]
    assert found == own.predict(rows.X).tolist()
    assert np.mean(np.array(found) == rows.y) > 0.7  # and in the site's own words
    assert [line[2] for line in csv.reader(lines[1:])] == [
        f"{p:.4f}" for p in own.predict_proba(rows.X).max(axis=1)
    ]
    kept = {path.stem for path in (tmp_path / "run" / "sites").glob("*.safetensors")}
    assert kept == {site.name for site in sites}


def briefly(name):
    """Return a method of the catalogue with settings for a short run over an ordinary table."""
    cls = method_class(name)
    known = {one.name for one in fields(cls)}
    wished = {"n_rounds": 2, "space": "euclidean", "embedding": "discriminant", "graph": "anchors", "points": 20}
    return cls(**{key: value for key, value in wished.items() if key in known})


OURS = [
    name for name in CATALOGUE if method_class(name).__module__.startswith("fedgeom.")
]  # not those of other tests


@pytest.mark.full
@pytest.mark.parametrize("name", OURS)
def test_every_method_there_is_predicts(name, tmp_path):
    """By its joint model, where it has one that says anything, and by a site's own, which also knows the unknown."""
    sites = [site.take(np.arange(60)) for site in fedgeom.load_set("breast-cancer", n_sites=3).train]
    run = fedgeom.run(briefly(name), sites, record=tmp_path / "run")
    words = ("predict", tmp_path / "run", write_csv(tmp_path / "rows.csv", sites[1], "y"), "--label", "y")
    joint = call(*words, code=0 if run.model.everywhere else 2)
    assert run.model.everywhere or "give --site with one of site-1, site-2, site-3" in joint
    lines = call(*words, "--site", "site-2", "--unknown", "0.1", only_results=True).splitlines()[1:]
    assert np.mean([line.split(",")[3] == label for line, label in zip(lines, sites[1].y, strict=True)]) > 0.8
    assert np.mean([line.split(",")[1] == "unknown" for line in lines]) < 0.3


def test_personal_models_differ_from_site_to_site(tmp_path):
    sites, rows = data_for("local only")
    fedgeom.run(METHODS["local only"], sites, record=tmp_path / "run")
    file = write_csv(tmp_path / "rows.csv", rows, "y")
    printed = {
        call("predict", tmp_path / "run", file, "--label", "y", "--site", site.name, only_results=True)
        for site in sites
    }
    assert len(printed) == 3


@pytest.mark.parametrize("name", ["local only", "fedper", "fedavg with a scale of each site", "xclp over pairs"])
def test_where_only_sites_have_models_they_are_named(name, tmp_path):
    """Local training and FedPer answered by a joint model that nobody had trained."""
    sites, rows = data_for(name)
    run = fedgeom.run(METHODS[name], sites, record=tmp_path / "run")
    file = write_csv(tmp_path / "rows.csv", rows, "y")
    said = call("predict", tmp_path / "run", file, "--label", "y", code=2)
    assert f"the {run.model.method} run has no joint model that could predict" in said
    assert "give --site with one of site-1, site-2, site-3" in said
    alone = call("predict", tmp_path / "run" / "model.safetensors", file, "--label", "y", code=2)
    assert "give the folder of the run, and --site" in alone


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder of a run of moments over wine, its sites, and a file of rows with names of their own."""
    folder = tmp_path_factory.mktemp("trained")
    sites, rows = data_for("moments")
    fedgeom.run(METHODS["moments"], sites, record=folder / "run")
    file = folder / "rows.csv"
    with file.open("w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out)
        writer.writerow(["bottle", *rows.columns, "remark"])
        writer.writerows([f"00{i}", *row, "" if i else "corked"] for i, row in enumerate(rows.X))
    return folder / "run", rows, file


def test_rows_are_named_as_in_the_file(trained, tmp_path):
    """They were counted from 0, and an identifier among the columns could not be left out."""
    run, rows, file = trained
    words = ("predict", run, file, "--index", "bottle", "--label", "remark")
    lines = list(csv.reader(call(*words, "--probabilities", only_results=True).splitlines()))
    model = fedgeom.load_model(run)
    chances = model.predict_proba(rows.X)
    assert lines[0] == ["bottle", "class", "probability", *(f"probability_of_{name}" for name in model.classes_)]
    assert [line[0] for line in lines[1:]] == [f"00{i}" for i in range(len(rows))]
    assert [line[1] for line in lines[1:]] == model.predict(rows.X).tolist()
    assert lines[1][2:] == [f"{p:.4f}" for p in (chances[0].max(), *chances[0])]
    refused = call("predict", run, file, "--index", "bottle", code=2)
    assert "with text instead of numbers" in " ".join(refused.split())
    ignored = call("predict", run, file, "--ignore-others", only_results=True).splitlines()
    assert ignored[1].split(",")[:2] == ["2", lines[1][1]]  # the first row below the header is the file's second
    assert "--columns says which to take" in call(
        "predict", run, file, "--ignore-others", "--columns", "a", code=2
    )
    assert "has no column 'cork'" in call(*words[:-4], "--index", "cork", "--ignore-others", code=2)


def test_what_is_there_is_replaced_only_with_force_and_found_before_the_work(trained, tmp_path, monkeypatch):
    run, _, file = trained
    words = ("predict", run, file, "--ignore-others", "--out")
    target = tmp_path / "p.tsv"
    call(*words, target)
    first = target.read_text()
    assert first.startswith("row\tclass\tprobability\n2\t")
    target.write_text("mine")
    with monkeypatch.context() as patch:
        patch.setattr("fedgeom.methods.catalogue.load_model", lambda path: pytest.fail("the work was begun"))
        assert "exists; choose another file, or give --force" in call(*words, target, code=2)
        assert "the rows, which would be lost" in call(*words, file, "--force", code=2)
    assert target.read_text() == "mine"
    call(*words, target, "--force")
    assert target.read_text() == first
    assert [one.name for one in tmp_path.iterdir()] == ["p.tsv"]  # nothing is left beside it


def test_rows_that_fit_no_class_are_unknown(trained, tmp_path):
    run, rows, file = trained
    words = ("predict", run, file, "--ignore-others", "--unknown", "0.05")
    lines = list(csv.reader(call(*words, only_results=True).splitlines()))
    assert lines[0] == ["row", "class", "probability", "best_class"]
    model = fedgeom.load_model(run)
    assert [line[1] for line in lines[1:]] == model.predict_or_unknown(rows.X).tolist()
    assert [line[3] for line in lines[1:]] == model.predict(rows.X).tolist()
    assert f"of {len(rows)} rows are called unknown: they are farther from every class" in call(*words)
    assert "by the model's densities" in call(*words, "--site", rows.name)
    assert f"all but 0.05 of {len(rows)} known rows" in call(*words, "--known", file)
    assert "wanted a share between 0 and 1" in call(*words[:-1], "5", code=2)
    assert "say which share: --unknown 0.05" in call(*words[:-2], "--known", file, code=2)


def test_a_model_that_cannot_tell_says_so_before_the_work(tmp_path):
    sites, rows = data_for("fedavg")
    fedgeom.run(METHODS["fedavg"], sites, record=tmp_path / "run")
    said = call("predict", tmp_path / "run", tmp_path / "nowhere.csv", "--unknown", "0.05", code=2)
    assert "a fedavg model alone cannot say which rows fit no class" in said
    file = write_csv(tmp_path / "rows.csv", rows, "y")
    words = ("predict", tmp_path / "run", file, "--label", "y", "--unknown", "0.05")
    for more in (["--site", rows.name], ["--known", file]):
        assert "rows are called unknown: they fit less well" in call(*words, *more)


def test_a_copy_with_columns_added(trained, tmp_path):
    pandas = pytest.importorskip("pandas", reason="needs the bio extra")
    pytest.importorskip("pyarrow", reason="needs the bio extra")
    run, rows, file = trained
    said = call("predict", run, file, "--ignore-others", "--out", tmp_path / "p.parquet")
    assert "a copy with fedgeom_class" in said
    copied = pandas.read_parquet(tmp_path / "p.parquet")
    assert copied["bottle"].tolist()[:2] == ["000", "001"]  # letter by letter
    assert copied[list(rows.columns)].to_numpy().tolist() == rows.X.tolist()
    assert copied["fedgeom_class"].tolist() == fedgeom.load_model(run).predict(rows.X).tolist()
    again = call("predict", run, tmp_path / "p.parquet", "--ignore-others", only_results=True)
    assert again.splitlines()[1].startswith("0,")


def test_sites_are_known_by_their_names_as_given(tmp_path):
    sites = [
        SiteData(name, site.X, site.y)
        for name, site in zip(["Hôpital Nord", "a/b", "c"], data_for("moments")[0], strict=True)
    ]
    fedgeom.run(METHODS["moments"], sites, record=tmp_path / "run")
    file = write_csv(tmp_path / "rows.csv", sites[1], "y")
    for site in sites:
        assert "agree" in call("predict", tmp_path / "run", file, "--label", "y", "--site", site.name)
    missing = call("predict", tmp_path / "run", file, "--label", "y", "--site", "a_b", code=2)
    assert "it has those of Hôpital Nord, a/b, c" in missing


def test_a_lost_site_has_no_model(tmp_path):
    sites, rows = data_for("moments")
    lose = lambda name, request: "gone" if name == "site-3" else None  # noqa: E731
    sites.append(SiteData("site-4", rows.X, rows.y))
    fedgeom.run(METHODS["moments"], sites, record=tmp_path / "run", interfere=lose)
    file = write_csv(tmp_path / "rows.csv", rows, "y")
    missing = call("predict", tmp_path / "run", file, "--label", "y", "--site", "site-3", code=2)
    assert "no model of a site 'site-3'; it has those of site-1, site-2, site-4" in missing


def test_text_that_the_model_does_not_know_may_be_names_of_rows(tmp_path):
    sites, rows = data_for("moments")
    fedgeom.run(METHODS["moments"], sites, record=tmp_path / "run")
    head, *lines = write_csv(tmp_path / "rows.csv", rows, "y").read_text().splitlines()
    named = tmp_path / "named.csv"
    named.write_text("\n".join([f"{head},id", *(f"{line},p{at}" for at, line in enumerate(lines))]) + "\n")
    words = ("predict", tmp_path / "run", named, "--label", "y")
    said = " ".join(call(*words, code=2).split())
    assert "the model does not know 'id', with text instead of numbers" in said
    assert "--index id" in said
    assert "--ignore-others" in said
    found = call(*words, "--index", "id", only_results=True).splitlines()
    assert found[1].startswith("p0,")
    assert len(call(*words, "--ignore-others", only_results=True).splitlines()) == len(found)
    absent = call("predict", tmp_path / "none-1", named, "--site", "a", code=2)
    assert "does not exist; wanted the folder of a run" in " ".join(absent.split())


def test_some_columns_only(tmp_path):
    site = fedgeom.load_set("wine", n_sites=3).train[0]
    few = [SiteData(name, site.X[:, [3, 1]], site.y) for name in "abc"]
    fedgeom.run(METHODS["moments"], few, record=tmp_path / "run")
    file = write_csv(tmp_path / "rows.csv", site, "y")
    chosen = ",".join(site.columns[i] for i in (3, 1))
    lines = call("predict", tmp_path / "run", file, "--columns", chosen, only_results=True).splitlines()
    model = fedgeom.load_model(tmp_path / "run")
    assert [line[1] for line in csv.reader(lines[1:])] == model.predict(few[0].X).tolist()
    assert "wanted finite rows of 2 columns" in call(
        "predict", tmp_path / "run", file, "--label", "y", code=2
    ).replace("\n", " ")


@pytest.mark.parametrize("name", METHODS)
def test_models_are_known_to_scikit_learn_and_judge_each_row_by_itself(name):
    sites, rows = data_for(name)
    run = fedgeom.run(METHODS[name], sites, seed=1)
    own = run.model.for_site(run.local[rows.name])
    assert own.score(rows.X, rows.y) == accuracy_score(rows.y, own.predict(rows.X)) > 0.7
    assert set(own.predict(rows.X)) <= {*own.classes_, ""}
    assert own.predict_proba(rows.X).shape[1] == len(own.classes_)
    assert own.n_features_in_ == run.model.n_features_in_ == rows.X.shape[1]
    assert hasattr(own, "feature_names_in_") == bool(rows.columns)
    alone = np.concatenate([own.predict(row[None]) for row in rows.X[:20]])
    assert alone.tolist() == own.predict(rows.X[:20]).tolist()


@pytest.mark.parametrize("name", ["fedavg", "hulls"])
def test_columns_of_the_file_are_found_by_their_names(name, tmp_path):
    """In another order they were taken as they stood; so were others of as many columns."""
    sites, rows = data_for(name)
    fedgeom.run(METHODS[name], sites, record=tmp_path / "run")
    order = np.random.default_rng(0).permutation(rows.X.shape[1])
    names = tuple(np.array(rows.columns)[order].tolist())
    file = write_csv(tmp_path / "rows.csv", rows, "y")
    crossed = write_csv(tmp_path / "crossed.csv", SiteData("x", rows.X[:, order], rows.y, columns=names), "y")
    for whose in ([], ["--site", rows.name]):
        words = ("--label", "y", *whose)
        wanted = call("predict", tmp_path / "run", file, *words, only_results=True)
        assert call("predict", tmp_path / "run", crossed, *words, only_results=True) == wanted
        one = write_csv(tmp_path / "one.csv", rows.take([0]), "y")
        alone = call("predict", tmp_path / "run", one, *words, only_results=True)
        assert alone.splitlines()[1] == wanted.splitlines()[1]  # one patient
    other = SiteData("x", rows.X, rows.y, columns=("alkohol", *rows.columns[1:]))
    refused = call(
        "predict", tmp_path / "run", write_csv(tmp_path / "other.csv", other, "y"), "--label", "y", code=2
    )
    assert "Is it 'alkohol' for 'alcohol'? Then rename it" in " ".join(refused.split())


def test_it_is_said_when_a_model_knows_no_names(tmp_path):
    sites, rows = data_for("moments")
    fedgeom.run(METHODS["moments"], [SiteData(s.name, s.X, s.y) for s in sites], record=tmp_path / "run")
    said = call("predict", tmp_path / "run", write_csv(tmp_path / "rows.csv", rows, "y"), "--label", "y")
    assert "the model knows no names of columns" in said


def test_numbers_of_another_kind_than_were_learnt_are_refused_by_name(tmp_path):
    """Names were known, kinds were not: 1 and 2 were taken for what had been learnt as 0 and 1."""
    rng = np.random.default_rng(0)
    sites = []
    for name in ("a", "b", "c"):
        sick = rng.integers(0, 2, 40)
        X = np.column_stack([sick ^ (rng.random(40) < 0.1), rng.integers(30, 80, 40) + 5 * sick, rng.random(40)])
        columns = ("smoker", "age", "crp")
        sites.append(SiteData(name, X, np.where(sick == 1, "ill", "well"), columns=columns))
    run = fedgeom.run(fedgeom.Moments(space="euclidean"), sites, record=tmp_path / "run")
    assert run.model.column_kinds == ("flag", "whole", "number")
    file = tmp_path / "new.csv"
    file.write_text("age,crp,smoker\n61.5,0.5,1\n44,0.1,2\n", encoding="utf-8")
    refused = " ".join(call("predict", tmp_path / "run", file, code=2).split())
    assert "column 'smoker', row 3: 2, 1 of 2 cells are neither 0 nor 1" in refused
    assert "--any-kinds" in refused
    assert len(call("predict", tmp_path / "run", file, "--any-kinds", only_results=True).splitlines()) == 3
    file.write_text("age,crp,smoker\n61.5,0.5,1\n44,0.1,yes\n", encoding="utf-8")
    assert "column 'smoker', row 3: 'yes'" in " ".join(call("predict", tmp_path / "run", file, code=2).split())


DEPLOYED = {
    "moments": fedgeom.Moments(),
    "xclp over pairs": fedgeom.XCLP(hash_bits=256, hidden_projection=False),
    "ptopofl with added columns": fedgeom.PTopoFL(n_rounds=1, n_points=20, augment=True),
    "local only": fedgeom.LocalOnly(),
}


@pytest.mark.parametrize("name", DEPLOYED)
def test_at_a_deployed_site_the_columns_have_names_and_at_the_coordinator_it_is_said(name, tmp_path):
    """Over pairs, and where sites add columns, what lies in a site's folder was refused without --site."""
    coordinator = make_coordinator(tmp_path / "c")
    sites = make_sites(tmp_path, coordinator, policy=Policy())
    tables = {}
    for one, folder in sites.items():
        rows = read_data(folder)
        tables[one] = SiteData(one, rows.X, rows.y, columns=("u", "v"))
        write_csv(tmp_path / f"{one}.csv", tables[one], "y")
        edit(folder, f"{one}.npz", f"{one}.csv")
    model, _ = Session(DEPLOYED[name], b"r" * 32, 3, coordinator.roster()).conduct(FolderEngine(sites))
    crossed = write_csv(tmp_path / "crossed.csv", tables["bert"], "y", order=[1, 0])
    result = tmp_path / "bert" / "results" / (b"r" * 32).hex()[:16]
    printed = call("predict", result, crossed, "--label", "y", only_results=True).splitlines()
    own = fedgeom.load_model(result)
    assert own.column_names == ("u", "v")
    assert [line.split(",")[1] for line in printed[1:]] == own.predict(tables["bert"].X).tolist()
    assert f"there is one in results/{result.name}" in call("predict", tmp_path / "bert", crossed, code=2)
    assert not model.column_names  # they stay at the sites
    model.save(tmp_path / "joint.safetensors")
    if model.everywhere:
        told = call("predict", tmp_path / "joint.safetensors", crossed, "--label", "y")
        assert "taken in the order in which they stand; --columns says another" in told
        words = ("predict", tmp_path / "joint.safetensors", crossed, "--columns", "u,v")
        assert [line.split(",")[1] for line in call(*words).splitlines()[1:]] == own.predict(
            tables["bert"].X
        ).tolist()
    else:
        assert "give the folder of the run, and --site" in call(
            "predict", tmp_path / "joint.safetensors", crossed, "--label", "y", code=2
        )


def test_places_on_a_map_go_into_a_table_or_an_anndata_file(tmp_path):
    anndata = pytest.importorskip("anndata")
    sites = at_depth()
    run = fedgeom.run(fedgeom.PoincareMap(n_landmarks=16), sites, record=tmp_path / "run")
    names = [f"x{at}" for at in range(sites[0].shape[1])]
    cells = anndata.AnnData(sites[0].X.astype(np.float32))
    cells.var_names = names
    cells.write_h5ad(tmp_path / "cells.h5ad")
    wanted = run.model.transform(sites[0].X.astype(np.float32))
    file = tmp_path / "rows.csv"
    np.savetxt(file, sites[0].X, delimiter=",", header=",".join(names), comments="", fmt="%.17g")
    lines = list(csv.reader(call("predict", tmp_path / "run", file, "--map", only_results=True).splitlines()))
    assert lines[0] == ["row", "class", "probability", "map_1", "map_2"]
    placed = np.array([line[3:] for line in lines[1:]], float)
    np.testing.assert_allclose(placed, run.model.transform(sites[0].X), atol=1e-6)
    said = call("predict", tmp_path / "run", tmp_path / "cells.h5ad", "--map", "--out", tmp_path / "out.h5ad")
    assert "obsm X_poincare" in " ".join(said.split())
    out = anndata.read_h5ad(tmp_path / "out.h5ad")
    np.testing.assert_allclose(out.obsm["X_poincare"], wanted, atol=1e-9)
    if find_spec("scanpy") is not None:  # it draws what was written, as any embedding
        drawn = import_module("scanpy").pl.embedding(out, "X_poincare", color="fedgeom_class", show=False)
        np.testing.assert_allclose(np.sort(drawn.collections[0].get_offsets(), axis=0), np.sort(wanted, axis=0))
    fedgeom.run(fedgeom.Moments(space="euclidean"), sites, record=tmp_path / "flat")
    assert "has rows on no map" in call("predict", tmp_path / "flat", file, "--map", code=2)


def test_an_unsure_model_names_an_ancestor(tmp_path):
    rng = np.random.default_rng(0)
    sites = []
    for at in range(4):
        y = np.array(["CD4", "CD8", "B"])[np.arange(150) % 3]
        X = rng.normal(size=(150, 2)) + np.array([[0.0, 0.0], [1.0, 0.0], [9.0, 9.0]])[np.arange(150) % 3]
        sites.append(SiteData(f"s{at}", X, y, columns=("u", "v")))
    fedgeom.run(fedgeom.Moments(space="euclidean"), sites[:3], record=tmp_path / "run")
    (tmp_path / "tree.json").write_text('{"T cell": ["CD4", "CD8"], "B": {}}')
    file = write_csv(tmp_path / "rows.csv", sites[3], "y")
    words = ("predict", tmp_path / "run", file, "--label", "y", "--tree", tmp_path / "tree.json", "--risk", 0.1)

    def names(*more):
        lines = list(csv.reader(call(*words, *more, only_results=True).splitlines()))
        assert lines[0] == ["row", "class", "probability", "best_class"]
        return np.array([line[1:] for line in lines[1:]])

    for found in (names(), names("--known", file)):
        assert set(found[:, 0]) == {"CD4", "CD8", "T cell", "B"}
        held = found[:, 0] == "T cell"
        assert set(found[held, 2]) <= {"CD4", "CD8"}
        right = (found[:, 0] == sites[3].y) | (held & (sites[3].y != "B"))
        assert right.mean() > 0.85 > (found[:, 2] == sites[3].y).mean()
    said = call(*words, "--known", file)
    assert "rows have an ancestor's name: from a probability of" in " ".join(said.split())
    assert "leave one out" in call(*words, "--unknown", 0.05, code=2)
    assert "it is for --tree" in call("predict", tmp_path / "run", file, "--label", "y", "--risk", 0.1, code=2)


def test_new_rows_are_read_as_the_study_said(tmp_path):
    """Names, units and words for gaps of the study's file hold for later rows, and those of a site for that site."""
    blocks = ""
    for at in range(3):
        rows = []
        for row in range(60):
            height = 150 + row % 40
            x = -9 if row % 9 == 1 else row % 7
            rows.append(f"{height * (1 if at else 0.01)},{x},{'ab'[height + x > 172]}")
        names = "height,x,y" if at else "Groesse,x,y"
        (tmp_path / f"s{at}.csv").write_text("\n".join([names, *rows]) + "\n")
        own = "" if at else "rename = { Groesse = 'height' }\nunits = { height = 100 }\n"
        blocks += f'[[sites]]\nfile = "s{at}.csv"\n{own}'
    study = tmp_path / "study.toml"
    plain = 'method = "ridge"\nparameters = { features = "linear" }\n'
    study.write_text(f'label = "y"\nprepare = "table"\nmissing = [-9]\n{plain}{blocks}')
    call("run", study, "--policy", "relaxed", "--out", tmp_path / "run")
    (tmp_path / "metres.csv").write_text("Groesse,x\n1.72,-9\n1.8,3\n")
    (tmp_path / "cm.csv").write_text("height,x\n172,-9\n180,3\n")
    (tmp_path / "gaps.csv").write_text("height,x\n172,\n180,3\n")

    def said(file, *options):
        run = tmp_path / "run-1"
        return call("predict", run, tmp_path / file, "--probabilities", *options, only_results=True)

    wanted = said("gaps.csv", "--as-is")
    assert said("cm.csv") == wanted
    assert said("cm.csv", "--as-is") != wanted
    assert said("metres.csv", "--site", "s0") == said("gaps.csv", "--as-is", "--site", "s0")
    assert "read as the study's file says (missing)" in call("predict", tmp_path / "run-1", tmp_path / "cm.csv")
    for name, times in (("usual", 1), ("metres, unsaid", 0.01)):
        lines = "".join(f"{times * (150 + row % 40)},3\n" for row in range(60))
        (tmp_path / "many.csv").write_text("height,x\n" + lines)
        words = " ".join(call("predict", tmp_path / "run-1", tmp_path / "many.csv").split())
        far = "half of column 'height' is beyond 1.6"
        assert (far in words) is (times < 1), name
