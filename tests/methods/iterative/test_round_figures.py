"""Figures of a round: by hand, in the sum, in the record, and while the run goes on."""

from __future__ import annotations

import json

import numpy as np
import pytest

import fedgeom
from fedgeom import Ditto, FedAvg, FedNova, FedPer
from fedgeom.methods.iterative import Effort, Logistic, Task, Tree
from fedgeom.methods.iterative.site import set_aside
from fedgeom.methods.iterative.training import Figures, how_many
from tests.methods.iterative.making import unlike

SITES = unlike(rows=20)


def test_by_hand():
    X, y = np.array([[1.0], [-1.0], [2.0]]), np.array([1, 0, 0])
    first = Tree(intercept=np.zeros(1), weights=np.zeros((1, 1)))
    task = Task(Logistic(), X, y, Effort(), np.random.default_rng(0), 2, first)
    own = first | {"weights": np.ones((1, 1))}
    found = Figures.of(task, first, own)
    assert found.loss == pytest.approx(3 * np.log(2))
    assert found.own_loss == pytest.approx(sum(np.log1p(np.exp(-m)) for m in (1.0, 1.0, -2.0)))
    assert (found.rows, found.right, found.own_right) == (
        3.0,
        2.0,
        2.0,
    )  # of equal scores the first class is taken
    line = Figures.total([found, found]).line(4)
    assert line["round"] == 5
    assert line["rows"] == 6
    assert line["joint_accuracy"] == pytest.approx(2 / 3)
    assert line["joint_loss"] == pytest.approx(np.log(2))
    assert Figures().line(0) == {}


def test_they_go_through_a_sum_and_are_two_zeros_where_no_rows_are_set_aside():
    found = Figures(1.25, 4.0, 3.0, 0.5, 2.0)
    back = Figures.read(found.values(how_many(0.2)) + 1e-9)
    assert (back.rows, back.right, back.own_right) == (4.0, 3.0, 2.0)
    assert (back.loss, back.own_loss) == pytest.approx((1.25, 0.5))
    assert Figures().values(how_many(0.0)).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("secure", [True, False])
def test_a_rounds_figures_are_written_down_and_shown_while_the_run_goes_on(tmp_path, secure):
    shown = []
    rule = FedAvg(n_rounds=3, validation_fraction=0.25, secure=secure)
    run = fedgeom.run(
        rule,
        SITES,
        seed=0,
        record=tmp_path / "run",
        watch=lambda event: shown.append(event) if not event.site else None,
    )
    lines = [json.loads(line) for line in (tmp_path / "run" / "rounds.jsonl").read_text().splitlines()]
    assert [line["round"] for line in lines] == [1, 2, 3]
    assert [line["joint_loss"] for line in lines] == pytest.approx(run.metrics["loss on rows set aside"])
    # The joint model of the third round's figures is the one that the second round ended with.
    model = fedgeom.load_model(tmp_path / "run" / "rounds" / "0002.safetensors")
    right = rows = 0
    for site in SITES:
        aside = site.take(set_aside(len(site), 0.25, 0, site.name))
        right += int((model.predict(aside.X) == aside.y).sum())
        rows += len(aside)
    assert lines[2]["rows"] == rows
    assert lines[2]["joint_accuracy"] == pytest.approx(right / rows)
    assert [event.state for event in shown] == ["figures"] * 3
    assert shown[2].detail == f"joint {right / rows:.1%}, personal {lines[2]['personal_accuracy']:.1%}"


@pytest.mark.parametrize("cls", [FedAvg, Ditto, FedNova, FedPer])
def test_the_personal_figures_are_those_of_what_the_site_has_after_training(tmp_path, cls):
    """One round, and personal models that are nothing but what the round left: the same on the rows set aside."""
    seen = {}

    class Watched(cls):
        name = f"watched-{cls.name}"

        def own_model(self, task, given, sent, own):
            found = super().own_model(task, given, sent, own)
            seen[len(seen)] = (found, sent, given)
            return found

    settings = {"n_rounds": 1, "validation_fraction": 0.25, "secure": False, "epochs": 1}
    fedgeom.run(Watched(**settings), SITES, seed=0, record=tmp_path / "run")
    line = json.loads((tmp_path / "run" / "rounds.jsonl").read_text())
    assert len(seen) == len(SITES)
    assert 0 <= line["personal_accuracy"] <= 1
    for found, sent, given in seen.values():
        if cls is FedAvg:
            assert np.array_equal(found.flat(), sent["model"].flat())
        if cls is FedNova:
            change = sent["steps"] * sent["model"]["weights"]
            assert np.allclose(found["weights"], given["model"]["weights"] + change)
        assert set(found) == {"intercept", "weights"}


def test_no_rows_set_aside_no_file(tmp_path):
    fedgeom.run(FedAvg(n_rounds=1), SITES, record=tmp_path / "run")
    assert not (tmp_path / "run" / "rounds.jsonl").exists()
