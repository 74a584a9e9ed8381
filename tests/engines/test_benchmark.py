"""Methods and settings on the same rows: chosen by rows that are learnt from, tested on others, kept run by run."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest

import fedgeom
from fedgeom.engines import benchmark
from fedgeom.engines.benchmark import hash_tables, sweep, write_sweep
from fedgeom.errors import InputError
from fedgeom.federation.coordinator import Coordinator
from fedgeom.federation.holdout import Holdout, part_rows
from fedgeom.testing.rehearsal import example_sites
from tests.unlisted import unlisted

SHORT = {"n_rounds": 1, "epochs": 1}
ROWS = {
    "fedavg": [fedgeom.FedAvg(**SHORT, learning_rate=rate) for rate in (30.0, 0.3)],
    "prox": [fedgeom.FedProx(**SHORT, mu=mu) for mu in (0.1, 1e5)],
    "moments": [fedgeom.Moments()],
}


def mixed() -> list[fedgeom.SiteData]:
    """The example with some rows moved to the other class's place, so that nothing is perfect."""
    rng = np.random.default_rng(0)
    return [
        fedgeom.SiteData(site.name, np.where(rng.random((len(site), 1)) < 0.2, -site.X, site.X), site.y)
        for site in example_sites(rows=40)
    ]


def test_the_better_setting_is_chosen_and_tested_on_rows_that_played_no_part(monkeypatch):
    sites, seen = mixed(), []

    def run(method, tables, seed, **options):
        seen.append((method, seed, tables))
        return fedgeom.run(method, tables, seed, **options)

    monkeypatch.setattr(benchmark, "run", run)
    found = sweep(
        ROWS, sites, seeds=(3, 4), settings={"fedavg": [{"learning_rate": 30.0}, {"learning_rate": 0.3}]}
    )
    for row, seed in [("fedavg", 3), ("prox", 3), ("fedavg", 4), ("prox", 4)]:
        aside = Holdout(0.25)
        learnt = [part_rows(s, fedgeom.FedAvg(holdout=aside), seed, fedgeom.Policy())[0] for s in sites]
        runs = [fedgeom.run(method, learnt, seed, holdout=aside) for method in ROWS[row]]
        figures = [one.evaluation["own"].balanced_accuracy.value for one in runs]
        mine = [one for one in found.tried if (one.row, one.seed) == (row, seed)]
        assert [one.chosen for one in mine] == [at == int(np.argmax(figures)) for at in range(2)]
    assert [one.row for one in found.tested] == ["fedavg", "prox", "moments"] * 2
    assert [len(found.with_setting("fedavg", at)) for at in (0, 1)] == [2, 2]
    assert sum(one.chosen for at in (0, 1) for one in found.with_setting("fedavg", at)) == 2
    for method, seed, tables in seen:
        kept = fedgeom.FedAvg(**SHORT, holdout=Holdout(0.25))
        parts = [part_rows(site, kept, seed, fedgeom.Policy()) for site in sites]
        chosen_among = tables[0].X.shape != sites[0].X.shape
        for table, (learnt, tested) in zip(tables, parts, strict=True):
            if chosen_among:
                assert np.array_equal(table.X, learnt.X)
                assert not (table.X[:, None] == tested.X[None]).all(axis=2).any()
        assert method.terms()["holdout"] == {"share": 0.25, "grouped": False}
    by_row = {one.row: one for one in found.tested if one.seed == 3}
    (number,) = (one.setting for one in found.tried if one.chosen and (one.row, one.seed) == ("fedavg", 3))
    assert by_row["fedavg"].evaluation == fedgeom.run(ROWS["fedavg"][number], sites, 3, holdout=0.25).evaluation
    stages = {line[0] for line in found.lines()}
    assert stages == {"choosing", "tested"}
    assert {line[3] for line in found.lines() if line[1] == "fedavg"} == {
        '{"learning_rate":30.0}',
        '{"learning_rate":0.3}',
    }
    assert {line[2] for line in found.lines() if line[0] == "tested" and line[1] == "fedavg" and line[4] == 3} == {
        number
    }


def test_what_is_kept_is_not_run_again(tmp_path, monkeypatch):
    sites, ran = mixed(), []

    def run(method, *words, **options):
        ran.append(method.name)
        if len(ran) == 4:
            raise KeyboardInterrupt
        return fedgeom.run(method, *words, **options)

    monkeypatch.setattr(benchmark, "run", run)
    with pytest.raises(KeyboardInterrupt):
        sweep(ROWS, sites, seeds=(0,), folder=tmp_path)
    first = sweep(ROWS, sites, seeds=(0,), folder=tmp_path)
    assert len(ran) == 4 + (3 + 3 + 1) - 3
    assert sweep(ROWS, sites, seeds=(0,), folder=tmp_path) == first
    assert len(ran) == 8
    assert len(list((tmp_path / "outcomes").iterdir())) == 3 + 3 + 1


def test_a_row_whose_settings_all_fail_says_so_and_stops_no_other():
    alone = [fedgeom.Shrunk(classes=("left", "right"), n_rounds=rounds, min_sites=99) for rounds in (1, 2)]
    found = sweep({"shrunk": alone, "moments": [fedgeom.Moments()]}, mixed(), seeds=(0,))
    assert not any(one.chosen for one in found.tried)
    assert [bool(one.failure) for one in found.tested] == [True, False]


def test_what_is_refused():
    with pytest.raises(InputError, match="wanted one of accuracy"):
        sweep(ROWS, mixed(), by="speed")
    with pytest.raises(InputError, match="row 'a' has nothing to try"):
        sweep({"a": []}, mixed())
    with pytest.raises(InputError, match="the sweep has nothing to try"):
        sweep({}, mixed())
    with pytest.raises(InputError, match=r"from 0 \(excluded\) to 0.5"):
        sweep(ROWS, mixed(), holdout=0.9)


METHODS = {
    "moments": fedgeom.Moments(),
    "local": fedgeom.LocalOnly(n_rounds=2),
    "fedavg": fedgeom.FedAvg(n_rounds=2),
}


def compare(methods, sites, **options):
    """A comparison is a sweep in which each row has one setting."""
    return sweep({name: [method] for name, method in methods.items()}, sites, **{"seeds": (0,)} | options)


@unlisted
@dataclass(frozen=True, kw_only=True)
class Broken(fedgeom.Moments):
    name: ClassVar[str] = "broken"

    def conduct(self, sites: Coordinator) -> Any:
        raise ZeroDivisionError("of all things")


def test_all_see_the_same_rows_and_one_that_fails_stops_no_other(tmp_path):
    sites = example_sites(rows=40)
    lacking = fedgeom.Ridge(features="linear", classes=("left", "right", "up"))
    found = compare(
        {"broken": Broken(), "ridge": lacking, **METHODS}, sites, seeds=(3, 4), failed={"xclp": "not installed"}
    )
    by_method = {one.row: one for one in found.entries if one.seed == 3}
    assert by_method["broken"].failure == "ZeroDivisionError: of all things"
    assert "labels missing everywhere: up" in by_method["ridge"].failure
    assert by_method["xclp"].failure == "not installed"
    assert [by_method[name].alone for name in METHODS] == [False, True, False]
    for seed in (3, 4):
        mine = [one.evaluation for one in found.entries if one.seed == seed and one.evaluation is not None]
        assert len(mine) == 3
        for rival in ("majority", "local", "pooled"):
            assert len({repr(one[rival]) for one in mine}) == 1
    assert by_method["moments"].evaluation == fedgeom.run("moments", sites, 3, holdout=0.25).evaluation
    assert by_method["moments"].sent > 1000


def test_what_is_kept_of_a_comparison_is_run_again_on_other_terms(tmp_path, monkeypatch):
    sites, ran = example_sites(rows=40), []

    def run(method, *words, **options):
        ran.append(method.name)
        return fedgeom.run(method, *words, **options)

    monkeypatch.setattr(benchmark, "run", run)
    first = compare(METHODS, sites, folder=tmp_path / "c")
    assert ran == list(METHODS)
    assert compare(METHODS, sites, folder=tmp_path / "c") == first
    assert len(ran) == 3
    compare(METHODS | {"moments": fedgeom.Moments(rule="centroid")}, sites, folder=tmp_path / "c")
    assert ran[3:] == ["moments"]  # on other terms
    (tmp_path / "c" / "outcomes" / "fedavg-0.json").write_text("{")
    compare({"fedavg": METHODS["fedavg"]}, sites, folder=tmp_path / "c")
    compare({"fedavg": METHODS["fedavg"]}, sites, folder=tmp_path / "c", holdout=0.3)
    compare({"fedavg": METHODS["fedavg"]}, example_sites(rows=44), folder=tmp_path / "c", holdout=0.3)
    assert ran[4:] == ["fedavg"] * 3


def test_another_method_of_the_same_row_and_settings_is_not_taken_for_it(tmp_path):
    sites = example_sites(rows=40)
    compare({"mine": fedgeom.Moments()}, sites, folder=tmp_path)
    (found,) = compare({"mine": Broken()}, sites, folder=tmp_path).entries
    assert Broken().terms() == fedgeom.Moments().terms()
    assert (found.method, found.evaluation) == ("broken", None)


def test_an_interrupted_comparison_keeps_what_it_has(tmp_path):
    told = []

    def watch(entry):
        told.append(entry.row)
        if len(told) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compare(METHODS, example_sites(rows=40), folder=tmp_path / "c", watch=watch)
    assert sorted(file.stem for file in (tmp_path / "c" / "outcomes").iterdir()) == ["local-0", "moments-0"]


def test_the_files(tmp_path):
    found = compare({"moments": fedgeom.Moments()}, example_sites(rows=40))
    everything, figures = write_sweep(tmp_path, "comparison", found)
    rows = list(csv.DictReader(figures.open()))
    assert {row["model"] for row in rows} == {"majority", "local", "own", "pooled"}
    own = found.tested[0].evaluation["own"].accuracy.value
    assert [float(r["value"]) for r in rows if (r["model"], r["metric"]) == ("own", "accuracy")] == [own]
    assert json.loads(everything.read_text())["entries"][0]["row"] == "moments"
    assert (everything.name, figures.name) == ("comparison.json", "comparison.csv")


def test_tables_are_told_apart():
    one, *others = example_sites(rows=40)
    hashes = [
        hash_tables(sites) for sites in ([one], [replace(one, name="x")], [replace(one, X=2 * one.X)], others)
    ]
    hashes.append(hash_tables([replace(one, y=one.y[::-1])]))
    hashes.append(hash_tables([replace(one, groups=one.y)]))
    assert len(set(hashes)) == 6


def test_all_methods_are_tested_on_the_same_rows():
    """A method that keeps more rows of a class to learn from was tested on fewer."""
    rng = np.random.default_rng(0)
    y = np.repeat(["a", "b", "c"], [60, 24, 18])
    X = rng.normal(size=(102, 2)) + 3 * np.unique(y, return_inverse=True)[1][:, None]
    sites = fedgeom.split(X, y, n_sites=3)
    rows = {
        "few": [fedgeom.Moments(space="euclidean", min_rows=1)],
        "many": [fedgeom.Moments(space="euclidean", min_rows=5)],
    }
    found = sweep(rows, sites, seeds=[0], holdout=0.4)
    few, many = (found.scored(name)[0] for name in rows)
    assert few.rows == many.rows
    assert [one.tested for one in few.by_class] == [one.tested for one in many.by_class]
