"""Running in this process: what is given is checked first, and whatever fails later, the record says so."""

from __future__ import annotations

import os
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import fedgeom
from fedgeom.engines.embedded import EmbeddedEngine
from fedgeom.errors import InputError
from fedgeom.extend import Algorithm
from fedgeom.federation.messages import unpack
from fedgeom.federation.policy import Policy
from fedgeom.federation.record import SiteResult, read_folder, read_status
from tests.protocols.naming import Naming, named_sites
from tests.protocols.summing import killer
from tests.unlisted import unlisted


def test_a_run_returns_the_model_the_ledger_and_what_each_site_has(tmp_path: Path) -> None:
    run = fedgeom.run(Naming(), named_sites(4), seed=7, record=tmp_path / "run")
    assert run.model.names == ("common", *(f"only at s{i:04d}" for i in range(4)))
    assert run.local == {f"s{i:04d}": {"names": list(run.model.names)} for i in range(4)}
    assert len(run.ledger) == 24
    assert run.lost == {}
    assert run.folder == tmp_path / "run"
    config = read_folder(tmp_path / "run")["config"]
    assert (config["method"], config["seed"], config["engine"]) == ("naming", 7, "embedded")
    assert config["sites"]["s0000"] == {"rows": 2, "columns": 2}
    files = {file.name for file in (tmp_path / "run" / "sites").iterdir()}
    assert files == {f"s{i:04d}.{ending}" for i in range(4) for ending in ("json", "safetensors")}


@pytest.mark.parametrize(
    ("method", "sites", "message"),
    [
        (None, named_sites(3), r"method=None given; wanted a method with its settings, such as fedgeom.Hulls\(\)"),
        (Naming(), [], "no sites were given"),
        (Naming(), [np.zeros((2, 2))], "a list was given for sites; wanted a list of fedgeom.SiteData"),
    ],
)
def test_what_cannot_be_run_is_refused_in_words(method: Any, sites: list[Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        fedgeom.run(method, sites)


def test_an_engine_is_found_by_name_or_given() -> None:
    class Slow(EmbeddedEngine):
        name = "slow"

    assert fedgeom.run(Naming(), named_sites(3), engine=Slow).model.names
    with pytest.raises(InputError, match="engine='steam' is unknown; there are: embedded"):
        fedgeom.run(Naming(), named_sites(3), engine="steam")


@pytest.mark.parametrize("option", ["resumable", "resume"])
def test_resuming_needs_a_folder(option: str) -> None:
    with pytest.raises(InputError, match="need record"):
        fedgeom.run(Naming(), named_sites(3), **{option: True})


def test_the_policy_holds_for_every_site_and_losses_are_named() -> None:
    with pytest.raises(fedgeom.TooFewSitesError, match="asks for at least 5"):
        fedgeom.run(Naming(), named_sites(4), policy=Policy(min_cohort=5))
    run = fedgeom.run(Naming(), named_sites(4), interfere=killer({"s0003": ("model.take", 1)}))
    assert run.lost == {"s0003": "killed at model.take"}


def test_a_result_that_cannot_be_read_is_a_failure_that_the_record_knows(tmp_path: Path) -> None:
    class Leaky(EmbeddedEngine):
        def results(self, run: bytes, *, models: bool) -> dict[str, SiteResult]:
            raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        fedgeom.run(Naming(), named_sites(3), engine=Leaky, record=tmp_path)
    assert read_status(tmp_path).state == "failed"
    assert read_status(tmp_path).detail == "the disk is gone"


def test_a_finished_run_keeps_no_secrets_and_is_not_resumed(tmp_path: Path) -> None:
    fedgeom.run(Naming(), named_sites(3), record=tmp_path, resumable=True)
    assert not (tmp_path / "resume").exists()
    with pytest.raises(InputError, match="is finished; its model is"):
        fedgeom.run(Naming(), named_sites(3), record=tmp_path, resume=True)


def test_a_run_that_broke_off_goes_on_with_what_it_had(tmp_path: Path) -> None:
    method = Naming(min_sites=4)
    with pytest.raises(fedgeom.TooFewSitesError):
        fedgeom.run(
            method,
            named_sites(4),
            record=tmp_path,
            resumable=True,
            interfere=killer({"s0001": ("names.seal", 1)}),
        )
    assert os.listdir(tmp_path / "resume")
    for wrong, message in (
        ({"seed": 1}, "has seed = 0; 1 was given"),
        ({"method": Naming(min_sites=3)}, "has min_sites = 4; 3 was given"),
    ):
        with pytest.raises(InputError, match=message):
            fedgeom.run(
                wrong.get("method", method), named_sites(4), wrong.get("seed", 0), record=tmp_path, resume=True
            )
    run = fedgeom.run(method, named_sites(4), record=tmp_path, resume=True)
    assert run.lost == {}
    assert len(run.ledger) == 24
    assert not (tmp_path / "resume").exists()


@pytest.mark.parametrize("step", ["sum.confirm", "sum.unmask"])
def test_a_site_that_comes_back_for_a_resumed_run_is_not_called_lost(tmp_path: Path, step: str) -> None:
    """It misses a confirmation, for which the others make up; the next sum lacks it, and three are wanted."""
    method, policy = fedgeom.Hulls(epsilon=0.05), Policy(min_cohort=3)
    sites = fedgeom.load_set("synthetic", n_sites=3, points=60).train
    gone = set[str]()

    def interfere(name: str, request: bytes) -> str | None:
        if name == sites[1].name and unpack(request).kind == step:
            gone.add(name)
        return "no answer" if name in gone else None

    with pytest.raises(fedgeom.TooFewSitesError):
        fedgeom.run(method, sites, policy=policy, record=tmp_path / "run", resumable=True, interfere=interfere)
    run = fedgeom.run(method, sites, policy=policy, record=tmp_path / "run", resume=True)
    assert run.model.to_bytes() == fedgeom.run(method, sites, policy=policy).model.to_bytes()
    assert run.lost == {}
    assert set(run.returned) == {sites[1].name}
    (warning,) = [one for one in read_folder(tmp_path / "run")["warnings"] if one.site == sites[1].name]
    assert warning.what.endswith(f"was away for a while, and missed {run.returned[sites[1].name]}")
    assert step in warning.what


@unlisted
@dataclass(frozen=True, kw_only=True)
class Mistaken(Algorithm):
    """Has a mistake in what a site does."""

    name: ClassVar[str] = "mistaken"

    def local(self, start: Any, task: Any, round: Any) -> Any:
        return start["no such part"]


def test_a_mistake_in_ones_own_algorithm_is_one_traceback_that_names_the_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It was told as a fault of the data, with a traceback for each site, and not chained."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 2))
    with pytest.raises(fedgeom.TooFewSitesError, match=r"the code of 'mistaken' failed at 3 of 3 sites") as found:
        fedgeom.run(Mistaken(n_rounds=2), fedgeom.split(X, X[:, 0] > 0, n_sites=3))
    assert isinstance(found.value.__cause__, TypeError)
    assert "test_run_ends.py, line" in str(found.value)
    assert 'return start["no such part"]' in str(found.value)
    assert "gaps, labels" not in "".join(traceback.format_exception(found.value))
    assert (
        "".join(traceback.format_exception(found.value)).count("Traceback") == 2
    )  # the mistake, and the run's end
    assert not any(one.exc_info for one in caplog.records)
