"""Every attack, played against every method that it applies to, fails; those that still work are known."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from tests.attacks.everything import ATTACKS, OPEN, cases
from tests.attacks.playing import Attack

ROOT = Path(__file__).resolve().parents[2]


def _case(attack: Attack, method: str) -> object:
    marks = [pytest.mark.xfail(strict=True, reason=OPEN[attack.name])] if attack.name in OPEN else []
    return pytest.param(attack, method, marks=marks, id=f"{attack.name}-{method}".replace(" ", "_"))


@pytest.mark.parametrize(("attack", "method"), [_case(*case) for case in cases()])
def test_the_attack_fails(attack: Attack, method: str) -> None:
    outcome = attack.attack(method)
    assert not outcome.succeeds, outcome.now


def test_names_are_told_apart_and_open_ones_are_attacks() -> None:
    names = [attack.name for attack in ATTACKS]
    assert len(set(names)) == len(names) >= 15
    assert set(OPEN) <= set(names)


def test_the_page_of_attacks_has_every_attack() -> None:
    page = (ROOT / "docs" / "attacks.md").read_text(encoding="utf-8")
    listed = runpy.run_path(str(ROOT / "benchmarks" / "attacks.py"))["attack_names"](page)
    assert listed == [attack.name for attack in ATTACKS]
