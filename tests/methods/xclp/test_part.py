"""Parts that may work more than once in a run: they keep to the terms and to the round that is under way."""

from __future__ import annotations

import pytest

import fedgeom
from fedgeom.errors import ProtocolError
from tests.methods.coordinators import hold
from tests.methods.xclp.making import cones

ANCHORS = fedgeom.XCLP(graph="anchors", n_anchors=6, n_rounds=1, min_cell=2, alpha=0.9)


def test_a_part_knows_rows_round_and_terms():
    sites = cones(3, rows=12)
    part = hold(ANCHORS, sites).site(sites[0].name).anchors
    assert (part.round, part.features_hash) == (0, b"")
    assert part.rows.shape == sites[0].X.shape
    assert part.xclp.n_anchors == 6
    part.check_round(0)
    with pytest.raises(ProtocolError, match="round 2, which is not under way"):
        part.check_round(1)
    part.keep_to(alpha=0.9, n_neighbors=7)  # the terms leave neighbours open
    with pytest.raises(ProtocolError, match=r"alpha=0\.8 is asked for; the site joined on alpha=0\.9"):
        part.keep_to(alpha=0.8)
