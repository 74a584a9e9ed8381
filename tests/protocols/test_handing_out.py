"""Handing out: sites keep the joint model, and take it or not without a look at their rows."""

from __future__ import annotations

import os

import numpy as np
import pytest

from fedgeom.engines.embedded import EmbeddedEngine
from fedgeom.errors import TooFewSitesError
from fedgeom.federation import model as model_file
from fedgeom.federation.coordinator import Coordinator
from fedgeom.protocols.cohort import join
from fedgeom.protocols.model_delivery import ModelTaken, TakeModel, hand_out
from tests.protocols.lying import ME, Lying
from tests.protocols.naming import NamesModel, Naming, named_sites
from tests.protocols.summing import killer

MODEL = NamesModel(("no", "yes"), np.eye(2))


def test_every_site_that_is_left_has_the_model() -> None:
    engine = EmbeddedEngine(Naming(), named_sites(4), interfere=killer({"s0002": ("model.take", 1)}))
    sites = Coordinator(engine, run=os.urandom(32), method=Naming.name)
    assert hand_out(join(sites, Naming()), MODEL) is MODEL
    for name, result in engine.results(sites.run, models=True).items():
        assert result.found == ({} if name == "s0002" else {"names": ["no", "yes"]})
        assert result.model == (b"" if name == "s0002" else MODEL.to_bytes())


def test_sites_that_left_the_cohort_are_not_told() -> None:
    engine = EmbeddedEngine(Naming(), named_sites(4))
    sites = Coordinator(engine, run=os.urandom(32), method=Naming.name)
    cohort = join(sites, Naming())
    cohort.left = cohort.left[:3]
    hand_out(cohort, MODEL)
    assert [entry.site for entry in sites.ledger if entry.kind == ModelTaken.kind] == list(cohort.left)


def test_a_model_that_nobody_took_is_no_result() -> None:
    interfere = killer({f"s000{i}": ("model.take", 1) for i in range(4)})
    engine = EmbeddedEngine(Naming(), named_sites(4), interfere=interfere)
    cohort = join(Coordinator(engine, run=os.urandom(32), method=Naming.name), Naming())
    with pytest.raises(TooFewSitesError, match="that they have the model"):
        hand_out(cohort, MODEL)


def naming_run() -> Lying:
    lie = Lying(4, method=Naming())
    for runner, own in zip(lie.engine.runners.values(), named_sites(4), strict=True):
        runner._data = lambda own=own: own
    return lie.hello().share()


def with_weights(weights: np.ndarray, names: object = ("no", "yes")) -> bytes:
    return model_file.to_bytes("naming", {"weights": weights}, {"names": names})


@pytest.mark.parametrize(
    "model",
    [
        b"",
        b"no model",
        MODEL.to_bytes()[:-1],
        model_file.to_bytes("naming", {}, {"names": ["no"]}),
        model_file.to_bytes("naming", {"weights": np.eye(2)}, {}),
        with_weights(np.eye(3)),  # of three columns
        with_weights(np.eye(2), names=[]),  # of no names
        with_weights(np.zeros(2)),
        with_weights(np.full((2, 2), np.nan)),
        with_weights(np.full((2, 2), np.inf)),
    ],
)
def test_what_is_no_model_of_this_run_is_refused(model: bytes) -> None:
    lie = naming_run()
    lie.refused(ME, TakeModel(model=model), "the model that came")
    lie.get(ME, TakeModel(model=MODEL.to_bytes()), ModelTaken)
    assert lie.as_site(ME).handed.model.names == ("no", "yes")


def test_whether_a_model_is_taken_does_not_depend_on_the_rows() -> None:
    """Or refusals would tell of them: these weights overflow on one site's rows and not on another's."""
    large = with_weights(np.full((2, 2), 1e300))
    for scale in (1e-300, 1.0, 1e300):
        lie = naming_run()
        data = named_sites(1)[0]
        object.__setattr__(data, "X", data.X * scale)
        lie.engine.runners[ME]._data = lambda data=data: data
        lie.get(ME, TakeModel(model=large), ModelTaken)


def test_before_a_model_came_there_is_none() -> None:
    assert naming_run().as_site(ME).handed.model is None
