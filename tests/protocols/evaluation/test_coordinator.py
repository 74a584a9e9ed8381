"""The coordinator's half: figures, or the model without them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec
import numpy as np
import pytest

import fedgeom
from fedgeom.federation.coordinator import Coordinator
from fedgeom.federation.messages import unpack
from fedgeom.federation.model import Model
from fedgeom.methods.moments.model import MomentsModel
from fedgeom.protocols.evaluation import SumEvaluation
from fedgeom.testing.rehearsal import example_sites
from tests.unlisted import unlisted


def dies_at_the_test(*names: str) -> Any:
    """Lose sites when they are asked to count, and from then on."""
    gone: set[str] = set()

    def interfere(name: str, request: bytes) -> str | None:
        if name in names and unpack(request).kind == SumEvaluation.kind:
            gone.add(name)
        return "killed" if name in gone else None

    return interfere


def test_a_site_that_dies_at_the_test_is_left_out_of_it():
    run = fedgeom.run("moments", example_sites(rows=40), holdout=0.25, interfere=dies_at_the_test("site-2"))
    assert run.lost == {"site-2": "killed"}
    assert run.evaluation.sites == 3
    assert run.evaluation.rows == 30
    assert [one.tested for one in run.evaluation.by_site] == [10, 0, 10, 10]
    assert run.evaluation["pooled"].rows == 30


def test_with_too_few_left_the_model_stays_and_a_warning_says_so(tmp_path):
    sites = example_sites(rows=40)
    wanted = fedgeom.run("moments", sites, holdout=0.25).model.to_bytes()
    run = fedgeom.run(
        "moments", sites, holdout=0.25, interfere=dies_at_the_test("site-2", "site-3"), record=tmp_path / "run"
    )
    assert run.evaluation is None
    assert run.model.to_bytes() == wanted == (tmp_path / "run" / "model.safetensors").read_bytes()
    assert any("was not tested" in str(one) and "the model is kept" in str(one).lower() for one in run.warnings)
    assert msgspec.json.decode((tmp_path / "run" / "status.json").read_bytes())["state"] == "finished"
    assert not (tmp_path / "run" / "evaluation.json").exists()


def test_strict_sites_do_not_sum_on_after_a_loss_and_the_model_stays():
    policy = fedgeom.Policy(sums_after_losses=False)
    run = fedgeom.run(
        "moments", example_sites(rows=40), holdout=0.25, policy=policy, interfere=dies_at_the_test("site-2")
    )
    assert run.evaluation is None
    assert any("was not tested" in str(one) for one in run.warnings)
    run.model.predict(np.zeros((1, 2)))


def test_a_site_that_was_lost_before_is_not_asked_to_count():
    asked = []

    def interfere(name: str, request: bytes) -> str | None:
        if unpack(request).kind == SumEvaluation.kind:
            asked.append(name)
        return "killed" if name == "site-4" and unpack(request).kind == "train.masked" else None

    run = fedgeom.run(fedgeom.FedAvg(n_rounds=2), example_sites(rows=40), holdout=0.25, interfere=interfere)
    assert asked == ["site-1", "site-2", "site-3"]
    assert run.evaluation.sites == 3


class Nameless(MomentsModel):
    @property
    def classes_(self) -> Any:
        raise AttributeError("Nameless does not say which classes it knows")


@unlisted
@dataclass(frozen=True, kw_only=True)
class NamelessMoments(fedgeom.Moments):
    name: ClassVar[str] = "nameless"
    model_type: ClassVar[type[Model]] = Nameless

    def conduct(self, sites: Coordinator) -> Any:
        made = super().conduct(sites)
        return Nameless(**{key: value for key, value in vars(made).items() if key != "method"})


def test_a_model_that_does_not_name_its_classes_is_not_tested():
    run = fedgeom.run(NamelessMoments(), example_sites(rows=40), holdout=0.25)
    assert run.evaluation is None
    assert any("does not say which classes it knows" in str(one) for one in run.warnings)


@pytest.mark.parametrize("step", [3, 7, 8])
def test_a_coordinator_that_dies_before_or_in_the_test_goes_on(tmp_path, step):
    sites = example_sites(rows=40)
    whole = fedgeom.run("moments", sites, holdout=0.25)

    def watch(event: Any) -> None:
        if event.step == step and event.state == "answered":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fedgeom.run("moments", sites, holdout=0.25, record=tmp_path / "r", resumable=True, watch=watch)
    again = fedgeom.run("moments", sites, holdout=0.25, record=tmp_path / "r", resume=True)
    assert again.evaluation == whole.evaluation
    assert again.model.to_bytes() == whole.model.to_bytes()
