"""The settings of XCLP: what they may be, and what follows from them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedgeom import XCLP
from fedgeom.errors import InputError
from fedgeom.methods.xclp.core import VARIANTS


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hash_bits": 100}, "multiple of 8"),
        ({"hash_bits": 0}, "hash_bits=0"),
        ({"hash_bits": 65_536}, "hash_bits=65536"),
        ({"alpha": 1.0}, "alpha=1.0"),
        ({"alpha": 0.0}, "alpha=0.0"),
        ({"n_neighbors": 0}, "n_neighbors=0"),
        ({"flip_probability": 0.5}, "flip_probability=0.5"),
        ({"graph": "tree"}, "tree"),
        ({"variant": "best"}, "best"),
        ({"prior": "magic"}, "magic"),
        ({"hamming": "trust"}, "trust"),
        ({"confidence": "certain"}, "confidence='certain' given; wanted one of 'entropy', 'code'"),
        ({"n_rounds": 31}, "n_rounds=31"),
        ({"min_cell": 0}, "min_cell=0"),
        ({"n_anchors": 0}, "n_anchors=0"),
        ({"n_nearest": 0}, "n_nearest=0"),
        ({"classes": ("a", "a")}, "all different"),
    ],
)
def test_wrong_settings_say_what_is_wanted(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        XCLP(**changes)


def test_terms_travel_and_come_back() -> None:
    method = XCLP(
        hash_bits=np.int64(256), flip_probability=np.float64(0.1), hide_labelled=np.bool_(True), classes=("a", "b")
    )
    assert XCLP.from_terms(method.terms()) == method
    assert type(method.terms()["hash_bits"]) is int


def test_a_variant_gives_way_to_what_is_set() -> None:
    assert XCLP(variant="paper").setting == VARIANTS["paper"]
    changed = XCLP(variant="code", n_neighbors=3, alpha=0.5).setting
    assert (changed.k, changed.alpha, changed.power) == (3, 0.5, 3)


def test_the_papers_own_settings() -> None:
    assert XCLP.published(hash_bits=512) == XCLP(variant="paper", hash_bits=512)
