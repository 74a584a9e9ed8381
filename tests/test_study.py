"""Comparisons and sweeps in Python: the same as the command line's, own classes included."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
import pytest

import fedgeom
from fedgeom.engines import benchmark
from fedgeom.errors import InputError
from fedgeom.extend import Algorithm, Between
from fedgeom.methods.iterative import alone, pooled
from fedgeom.methods.iterative.algorithms.averaging import PooledRows
from fedgeom.testing.rehearsal import example_sites
from tests.unlisted import unlisted

SHORT = {"n_rounds": 1, "epochs": 1}


@pytest.fixture(scope="module")
def sites():
    rng = np.random.default_rng(0)
    return [
        fedgeom.SiteData(site.name, np.where(rng.random((len(site), 1)) < 0.2, -site.X, site.X), site.y)
        for site in example_sites(rows=40)
    ]


@pytest.fixture
def half():
    @dataclass(frozen=True, kw_only=True)
    class HalfStep(Algorithm):
        """FedAvg that goes a part of the way."""

        name: ClassVar[str] = "half-step"
        part: Annotated[float, Between(0, 1)] = 0.5

        def combine(self, state, mean, round):
            return state | {"model": state["model"] + self.part * (mean["model"] - state["model"])}

    yield HalfStep
    unlisted(HalfStep)


def test_a_class_of_ones_own_beside_others_printed_kept_and_resumed(sites, half, tmp_path, monkeypatch):
    methods = [half(**SHORT), fedgeom.FedAvg(**SHORT), "ridge"]
    found = fedgeom.compare(methods, sites, seeds=2, folder=tmp_path)
    text = repr(found)
    for piece in ("half-step", "majority class", "pooled rows", "from the best", "Take ", "seeds 0, 1"):
        assert piece in text
    call = re.search(
        r"fedgeom\.compare\((\{.*?\}), sites, seeds=\[0, 1\], holdout=0\.25\)", " ".join(text.split())
    )
    names = {name: getattr(fedgeom, name) for name in ("FedAvg", "Ridge")} | {"HalfStep": half}
    assert eval(call[1], names) == {
        one if isinstance(one, str) else one.name: fedgeom_method(one) for one in methods
    }
    assert "<table>" in found._repr_html_()
    assert {"half-step", "fedavg", "ridge"} == set(found.frame()["row"])
    assert all(path.is_file() for path in found.save(tmp_path / "files"))

    monkeypatch.setattr(benchmark, "run", None)  # nothing is run again
    again = fedgeom.compare(methods, sites, seeds=2, folder=tmp_path)
    assert again.swept == found.swept


def fedgeom_method(one):
    return fedgeom.Ridge() if one == "ridge" else one


def test_it_is_what_the_engine_finds_and_processes_change_nothing(sites, half):
    methods = {"mine": half(**SHORT), "fedavg": fedgeom.FedAvg(**SHORT)}
    found = fedgeom.compare(methods, sites, seeds=[5])
    ran = {one.row: one.evaluation for one in found.swept.entries}
    assert ran == {
        name: fedgeom.run(method, sites, 5, holdout=0.25).evaluation for name, method in methods.items()
    }
    side_by_side = fedgeom.compare(methods, sites, seeds=[5], n_jobs=2)
    assert {one.row: one.evaluation for one in side_by_side.swept.entries} == ran


def test_a_sweep_chooses_as_the_engine_does_with_equal_effort(sites, half):
    rates = [30.0, 0.3]
    found = fedgeom.sweep([fedgeom.FedAvg(**SHORT), half(**SHORT)], sites, grid={"learning_rate": rates}, seeds=1)
    rows = {
        "fedavg": [fedgeom.FedAvg(**SHORT, learning_rate=one) for one in rates],
        "half-step": [half(**SHORT, learning_rate=one) for one in rates],
    }
    wanted = benchmark.sweep(rows, sites, seeds=(0,))
    same = [(one.row, one.setting, one.chosen, one.evaluation) for one in wanted.entries]
    assert [(one.row, one.setting, one.chosen, one.evaluation) for one in found.swept.entries] == same
    assert "learning_rate = 0.3" in repr(found)
    with pytest.raises(InputError, match="rows try different numbers of settings"):
        fedgeom.sweep([fedgeom.FedAvg(), half()], sites, grids={"half-step": {"part": [0.1, 0.5]}})
    with pytest.raises(InputError, match=r"half-step trains with \(rounds, epochs, steps\)"):
        fedgeom.sweep([fedgeom.FedAvg(), half(n_rounds=3)], sites)
    drawn = fedgeom.sweep([fedgeom.FedAvg(**SHORT)], sites[:3], grid={"C": [0.1, 0.2, 0.3]}, tries=2, seeds=1)
    assert len(drawn.swept.tried) == 2


def test_the_same_network_alone_and_on_pooled_rows_stands_beside(sites):
    pytest.importorskip("torch")
    method = fedgeom.FedAvg(network="mlp", **SHORT)
    rows = [method, fedgeom.FedRoD(**SHORT)]
    found = fedgeom.compare(rows, sites, seeds=1)
    names = [one.row for one in found.swept.entries]
    assert names == ["fedavg", "fedrod", "each site alone, mlp", "pooled rows, mlp"]
    assert not any(one.failure for one in found.swept.entries)
    assert "Take fed" in found.recommendation
    aside = fedgeom.run(method, sites, 0, holdout=0.25)
    model = pooled(method, aside.train)
    right = np.concatenate([np.asarray(model.predict(one.X)) == one.y for one in aside.test])
    (mine,) = (one for one in found.swept.entries if one.row == "pooled rows, mlp")
    assert mine.evaluation["own"].accuracy.value == pytest.approx(right.mean())
    assert mine.sent == 0


def test_what_pooled_rows_train_is_one_site_with_all_rows(sites):
    pytest.importorskip("torch")
    method = fedgeom.FedRoD(n_rounds=2, epochs=1, learning_rate=0.05)
    there = alone(method)
    assert (there.network, there.learning_rate, there.n_rounds) == (method.network, 0.05, 2)
    assert (there.head.name, there.loss.name) == ("linear", "cross-entropy")
    assert alone(fedgeom.FedAvg(network="mlp", loss="balanced")).loss.name == "balanced"
    assert not PooledRows.sends
    whole = fedgeom.SiteData("all rows", np.vstack([s.X for s in sites]), np.concatenate([s.y for s in sites]))
    alone_there = there.plain([whole], 0)
    wanted = alone_there.model.for_site(alone_there.local["all rows"])
    np.testing.assert_array_equal(pooled(method, sites).predict_proba(whole.X), wanted.predict_proba(whole.X))


def test_unequal_effort_is_told(sites):
    found = fedgeom.compare([fedgeom.FedAvg(**SHORT), fedgeom.FedProx(n_rounds=2, epochs=1)], sites, seeds=1)
    assert "Not the same effort for all: fedavg: 1 rounds of 1" in repr(found)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda sites: fedgeom.compare(fedgeom.FedAvg(), sites), "wanted several in a list"),
        (lambda sites: fedgeom.compare([], sites), "no methods are given"),
        (lambda sites: fedgeom.compare([fedgeom.FedAvg(), "fedavg"], sites), "given twice"),
        (
            lambda sites: fedgeom.compare({"a": [fedgeom.FedAvg(), fedgeom.FedAvg()]}, sites),
            "fedgeom.sweep chooses",
        ),
        (lambda sites: fedgeom.compare(["fedavg"], sites, seeds=0), "wanted how many, 1 or more"),
        (
            lambda sites: fedgeom.sweep(["fedavg"], sites, grid={"n_rounds": 3}),
            r"wanted a list of values, such as \[3\]",
        ),
        (lambda sites: fedgeom.sweep(["fedavg"], sites, grid={"n_round": [3]}), "no setting 'n_round'"),
        (lambda sites: fedgeom.sweep(["fedavg"], sites, grids={"fedavgg": {}}), "Did you mean 'fedavg'"),
        (lambda sites: fedgeom.sweep(["fedavg"], sites, effort="some"), 'wanted "equal" or "any"'),
        (lambda sites: fedgeom.compare(["fedavg"], sites[0].X), "an ndarray of shape"),
        (lambda sites: fedgeom.run("fedavg", sites[0].X, sites[0].y), r"wanted a list of fedgeom\.SiteData"),
        (lambda sites: fedgeom.run("fedavg", sites[0]), "one site was given, 'site-1'"),
        (lambda sites: fedgeom.run("fedavg", sites, seed=None), "seed=None given; wanted a whole number"),
        (lambda sites: fedgeom.run("fedavg", sites, seed=0.5), "seed=0.5 given"),
        (lambda sites: fedgeom.run("fedavg", fedgeom.load_set("wine")), r"those of its \.train"),
        (lambda sites: fedgeom.run("fedavg", [*sites, "south"]), "a str was given among the sites"),
    ],
)
def test_wrong_calls_are_answered(sites, call, said):
    with pytest.raises(InputError, match=said):
        call(sites)


def test_the_history_of_a_run_is_what_the_record_has_and_what_left(sites, tmp_path):
    method = fedgeom.Ditto(n_rounds=3, epochs=1, validation_fraction=0.25)
    run = fedgeom.run(method, sites, seed=0, record=tmp_path / "run")
    lines = [json.loads(line) for line in (tmp_path / "run" / "rounds.jsonl").read_text().splitlines()]
    told = {(one[0], one[2]): one[3] for one in run.rounds if one[1] is None}
    for line in lines:
        for name in ("rows", "joint_loss", "joint_accuracy", "personal_accuracy"):
            assert told[line["round"], name] == line[name]
    assert [told[number, "sites"] for number in (1, 2, 3)] == [4, 4, 4]
    sent = [one[3] for one in run.rounds if one[1] == "site-1"]
    mine = [entry.bytes for entry in run.ledger if entry.site == "site-1"]
    assert sent == [
        sum(mine[-10:-7]),
        sum(mine[-7:-4]),
        sum(mine[-4:-1]),
    ]  # sum, confirmation, shares; last a receipt
    figure = run.plot(tmp_path / "rounds.png")
    drawn = figure.axes[0].lines[0].get_ydata()
    assert list(drawn) == [line["joint_accuracy"] for line in lines]
    with pytest.raises(InputError, match="no rounds to plot"):
        fedgeom.run(fedgeom.Ridge(features="linear"), sites, seed=0).plot()
    unwatched = fedgeom.run(fedgeom.FedAvg(n_rounds=3, epochs=1), sites, seed=0)
    frame = unwatched.history
    assert {"round", "site", "metric", "value"} == set(frame.columns)
    (axes,) = unwatched.plot().axes
    assert "validation_fraction" in axes.get_title()
    everything = frame[frame["metric"] == "bytes sent"].groupby("round")["value"].sum() / 1000
    np.testing.assert_allclose(axes.lines[0].get_ydata(), everything)
