"""What leaves a site in label propagation looks like noise, and only its owner can read a block of the sum."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
from scipy.stats import chisquare

import fedgeom
from fedgeom.data.sites import SiteData
from fedgeom.federation.messages import Array
from fedgeom.methods.xclp.labels import LabelReader
from fedgeom.methods.xclp.messages import Collect, ResultKept
from fedgeom.methods.xclp.site import SpreadPart
from fedgeom.protocols.secure_sum.messages import MaskedVector
from tests.methods.coordinators import overhear
from tests.methods.xclp.making import cones

METHOD = fedgeom.XCLP(hash_bits=128, hamming="ot")


def even(numbers: np.ndarray) -> bool:
    return bool(chisquare(np.bincount(numbers.view(np.uint8), minlength=256)).pvalue > 1e-6)


@pytest.mark.parametrize("label", [0, 1])
def test_row_sums_show_the_coordinator_noise_whatever_the_labels(label: int) -> None:
    sites = [
        SiteData(s.name, s.X, np.where(np.arange(len(s)) < 12, label, 2)) for s in cones(3, rows=40, labelled=1.0)
    ]
    heard, _ = overhear(METHOD, sites)
    sums = [one.answer.vector.numpy() for one in heard if isinstance(one.answer, MaskedVector)][-3:]
    blocks = [one.question.block.numpy() for one in heard if isinstance(one.question, Collect)]
    assert [len(vector) for vector in sums] == [80 * 2] * 3  # all rows but the site's own, two classes
    assert even(np.concatenate(sums))
    assert even(np.concatenate(blocks))  # the sum too: each block is still masked for all but its owner


def test_only_its_owner_can_read_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """With another site's block, a site gets numbers around 2^31 instead of scores of a few units."""
    sites, largest = cones(3, rows=10, labelled=0.6), dict[str, float]()
    read, collect = LabelReader.read, SpreadPart.collect

    def looking(self: LabelReader, Z: np.ndarray, *told: Any) -> None:
        largest[self.site.name] = float(Z.max())
        read(self, Z, *told)

    monkeypatch.setattr(LabelReader, "read", looking)
    fedgeom.run(METHOD, sites)
    assert max(largest.values()) < 1e4
    kept: list[Array] = []

    def exchanged(self: SpreadPart, ask: Collect) -> ResultKept:
        kept.append(ask.block)
        return collect(self, msgspec.structs.replace(ask, block=kept[0]))

    monkeypatch.setattr(SpreadPart, "collect", exchanged)
    fedgeom.run(METHOD, sites)
    first, *others = (largest[site.name] for site in sites)
    assert first < 1e4
    assert min(others) > 1e6
