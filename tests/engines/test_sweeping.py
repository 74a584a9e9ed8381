"""Settings are chosen by rows that are learnt from, tested on others, and kept run by run."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

import fedgeom
from fedgeom.engines import benchmark
from fedgeom.engines.benchmark import sweep
from fedgeom.errors import InputError
from fedgeom.federation.holdout import Holdout, part_rows
from fedgeom.testing.examples import example_sites

SHORT = {"rounds": 1, "epochs": 1}
ROWS = {
    "fedavg": [fedgeom.FedAvg(**SHORT, rate=rate) for rate in (30.0, 0.3)],
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
    found = sweep(ROWS, sites, seeds=(3, 4), settings={"fedavg": [{"rate": 30.0}, {"rate": 0.3}]})
    for row, seed in [("fedavg", 3), ("prox", 3), ("fedavg", 4), ("prox", 4)]:
        aside = Holdout(0.25)
        learnt = [part_rows(s, fedgeom.FedAvg(holdout=aside), seed, fedgeom.Policy())[0] for s in sites]
        runs = [fedgeom.run(method, learnt, seed, holdout=aside) for method in ROWS[row]]
        figures = [one.evaluation["own"].balanced_accuracy.value for one in runs]
        mine = [one for one in found.tried if (one.row, one.entry.seed) == (row, seed)]
        assert [one.chosen for one in mine] == [at == int(np.argmax(figures)) for at in range(2)]
    assert [one.method for one in found.tested] == ["fedavg", "prox", "moments"] * 2
    assert [len(found.judged("fedavg", at)) for at in (0, 1)] == [2, 2]
    assert sum(found.times_chosen("fedavg", at) for at in (0, 1)) == 2
    for method, seed, tables in seen:
        kept = fedgeom.FedAvg(**SHORT, holdout=Holdout(0.25))
        parts = [part_rows(site, kept, seed, fedgeom.Policy()) for site in sites]
        chosen_among = tables[0].X.shape != sites[0].X.shape
        for table, (learnt, tested) in zip(tables, parts, strict=True):
            if chosen_among:
                assert np.array_equal(table.X, learnt.X)
                assert not (table.X[:, None] == tested.X[None]).all(axis=2).any()
        assert method.terms()["holdout"] == {"share": 0.25, "grouped": False}
    by_row = {one.method: one for one in found.tested if one.seed == 3}
    (number,) = (one.number for one in found.tried if one.chosen and (one.row, one.entry.seed) == ("fedavg", 3))
    assert by_row["fedavg"].evaluation == fedgeom.run(ROWS["fedavg"][number], sites, 3, holdout=0.25).evaluation
    stages = {line[0] for line in found.lines()}
    assert stages == {"choosing", "tested"}
    assert {line[3] for line in found.lines() if line[1] == "fedavg"} == {'{"rate":30.0}', '{"rate":0.3}'}
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
    written = json.loads((tmp_path / "sweep.json").read_text())
    assert len(written["tried"]) == 4
    lines = list(csv.DictReader((tmp_path / "sweep.csv").open()))
    assert len(lines) == len(first.lines())


def test_a_row_whose_settings_all_fail_says_so_and_stops_no_other():
    alone = [fedgeom.Shrunk(classes=("left", "right"), rounds=rounds, min_sites=99) for rounds in (1, 2)]
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
