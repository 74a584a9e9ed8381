"""One propagation, held by itself inside another conversation."""

from __future__ import annotations

import pytest

import fedgeom
from fedgeom.engines.embedded import EmbeddedEngine
from fedgeom.errors import InputError
from fedgeom.federation.coordinator import Coordinator
from fedgeom.methods.xclp.method import Propagation
from fedgeom.methods.xclp.settings import NothingToSpreadError
from fedgeom.protocols.cohort import join
from fedgeom.protocols.names import agree_on_names
from tests.methods.coordinators import RUN
from tests.methods.xclp.making import cones


@pytest.mark.parametrize("graph", ["pairs", "anchors"])
def test_a_propagation_is_what_a_run_holds(graph):
    sites = cones(3, rows=12)
    method = fedgeom.XCLP(
        graph=graph, hash_bits=64, hamming="ot", hidden_projection=False, n_anchors=6, n_rounds=1, min_cell=2
    )
    engine = EmbeddedEngine(method, sites)
    talk = Coordinator(engine, run=RUN, method=method.name, roster=engine.roster)
    cohort = join(talk, method)
    model, figures = Propagation(method, cohort).spread(agree_on_names(cohort, None))
    run = fedgeom.run(method, sites)
    assert run.model.label_type == "integer"
    assert model.with_labels("integer").to_bytes() == run.model.with_columns(model.column_names).to_bytes()
    assert figures.items() <= run.metrics.items()
    assert cohort.left == tuple(site.name for site in sites)


@pytest.mark.parametrize("graph", ["pairs", "anchors"])
def test_without_a_label_there_is_nothing_to_spread(graph):
    sites = cones(3, rows=12, labelled=0.0)
    method = fedgeom.XCLP(
        graph=graph, hash_bits=64, hamming="ot", n_anchors=6, n_rounds=1, min_cell=2, classes=("0", "1", "2")
    )
    with pytest.raises(NothingToSpreadError, match="nothing to spread") as raised:
        fedgeom.run(method, sites)
    assert isinstance(raised.value, InputError)
