"""All attacks, and those that still work."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

from tests.attacks import (
    approving,
    bombs,
    cells,
    ciphers,
    differences,
    fishing,
    folders,
    integrity,
    oracles,
    rare,
    relays,
    rings,
    singling,
    terms,
    witnesses,
    zooming,
)
from tests.attacks.playing import Attack

ATTACKS: tuple[Attack, ...] = (
    *terms.ATTACKS,
    *oracles.ATTACKS,
    *zooming.ATTACKS,
    *witnesses.ATTACKS,
    *singling.ATTACKS,
    *differences.ATTACKS,
    *rare.ATTACKS,
    *cells.ATTACKS,
    *fishing.ATTACKS,
    *rings.ATTACKS,
    *integrity.ATTACKS,
    *bombs.ATTACKS,
    *relays.ATTACKS,
    *ciphers.ATTACKS,
    *folders.ATTACKS,
    *approving.ATTACKS,
)

OPEN: dict[str, str] = {
    "a model as a wall": "every sum of training tells something of single rows where the model is the coordinator's "
    "choice: noise inside the sum, or sites that check the model, would close it",
    "chosen columns, with one site colluding": "it follows from what XCLP over pairs computes: the coordinator knows "
    "how labels spread, the site what came of it; strict sites do not take part (secure_only)",
    "a false model that no sum vouches for": "a coordinator that hands out false models spoils the run; only Moments' "
    "models follow from one sum that sites can check",
    "one lying site of ten": "in training, a secure sum hides bad vectors as well as good ones; GroupMedian and robust "
    "aggregation stand it",
}
"""The attacks that still work, by name, and why."""


def installed(method: str) -> bool:
    """Say whether what a method needs is there."""
    needs = {"ptopofl": "gudhi", "ptopofl, diagrams": "gudhi", "xclp, paillier": "gmpy2", "xclp, bfv": "seal"}
    return method not in needs or importlib.util.find_spec(needs[method]) is not None


def cases() -> Iterator[tuple[Attack, str]]:
    """Yield every attack with every method that it applies to."""
    for attack in ATTACKS:
        for method in attack.methods:
            if installed(method):
                yield attack, method
