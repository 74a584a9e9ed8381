"""Every method still yields the models that it yielded before the house was rearranged."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from tests.unchanged.cases import cases
from tests.unchanged.record import VALUES, observe

KNOWN = json.loads(VALUES.read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", cases(), ids=lambda case: f"{case.name}, seed {case.seed}")
def test_the_model_is_the_known_one(case: Any) -> None:
    known, now = KNOWN[f"{case.name}, seed {case.seed}"], observe(case)
    digits = 1e-5 if "torch" in case.name else 1e-9  # single precision: processors differ in the eighth digit
    assert now["facts"] == known["facts"]
    assert set(now["numbers"]) == set(known["numbers"])
    for name, numbers in now["numbers"].items():
        assert numbers["shape"] == known["numbers"][name]["shape"]
        for part in ("sum", "some"):
            np.testing.assert_allclose(numbers[part], known["numbers"][name][part], rtol=digits, atol=digits)


def test_no_known_case_was_dropped() -> None:
    left_out = {title for title in KNOWN if title not in {f"{c.name}, seed {c.seed}" for c in cases()}}
    assert not left_out or not all(_installed(name) for name in ("torch", "gudhi", "seal"))


def _installed(name: str) -> bool:
    import importlib.util

    return importlib.util.find_spec(name) is not None
