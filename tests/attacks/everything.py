"""All attacks, and those that still work."""

from __future__ import annotations

from tests.attacks import oracles
from tests.attacks.playing import Attack

ATTACKS: tuple[Attack, ...] = (*oracles.ATTACKS,)

OPEN: dict[str, str] = {}
"""The attacks that still work, by name, and why."""
