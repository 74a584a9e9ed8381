"""Several methods on the same rows, kept method by method."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest

import fedgeom
from fedgeom.engines import benchmark
from fedgeom.engines.benchmark import compare, hash_tables
from fedgeom.errors import InputError
from fedgeom.federation.coordinator import Sites
from fedgeom.testing.examples import example_sites
from tests.unlisted import unlisted

METHODS = {"moments": fedgeom.Moments(), "local": fedgeom.LocalOnly(rounds=2), "fedavg": fedgeom.FedAvg(rounds=2)}


@unlisted
@dataclass(frozen=True, kw_only=True)
class Broken(fedgeom.Moments):
    name: ClassVar[str] = "broken"

    def conduct(self, sites: Sites) -> Any:
        raise ZeroDivisionError("of all things")


def test_all_see_the_same_rows_and_one_that_fails_stops_no_other(tmp_path):
    sites = example_sites(rows=40)
    lacking = fedgeom.Ridge(classes=("left", "right", "up"))
    found = compare(
        {"broken": Broken(), "ridge": lacking, **METHODS}, sites, seeds=(3, 4), failed={"xclp": "not installed"}
    )
    by_method = {one.method: one for one in found.entries if one.seed == 3}
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


def test_what_is_kept_is_not_run_again(tmp_path, monkeypatch):
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


def test_an_interrupted_comparison_keeps_what_it_has(tmp_path):
    told = []

    def watch(entry):
        told.append(entry.method)
        if len(told) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compare(METHODS, example_sites(rows=40), folder=tmp_path / "c", watch=watch)
    assert sorted(file.stem for file in (tmp_path / "c" / "outcomes").iterdir()) == ["local-0", "moments-0"]


def test_the_files(tmp_path):
    found = compare({"moments": fedgeom.Moments()}, example_sites(rows=40), folder=tmp_path / "c")
    rows = list(csv.DictReader((tmp_path / "c" / "comparison.csv").open()))
    assert {row["model"] for row in rows} == {"majority", "local", "own", "pooled"}
    own = found.entries[0].evaluation["own"].accuracy.value
    assert [float(r["value"]) for r in rows if (r["model"], r["metric"]) == ("own", "accuracy")] == [own]
    assert json.loads((tmp_path / "c" / "comparison.json").read_text())["entries"][0]["method"] == "moments"


def test_tables_are_told_apart():
    one, *others = example_sites(rows=40)
    hashes = [
        hash_tables(sites) for sites in ([one], [replace(one, name="x")], [replace(one, X=2 * one.X)], others)
    ]
    hashes.append(hash_tables([replace(one, y=one.y[::-1])]))
    hashes.append(hash_tables([replace(one, groups=one.y)]))
    assert len(set(hashes)) == 6


def test_a_share_that_is_none_is_refused():
    with pytest.raises(InputError, match=r"from 0 \(excluded\) to 0.5"):
        compare(METHODS, example_sites(), holdout=0.9)
