"""Sites that lie to the coordinator: answers that fit their schema and make no sense."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import numpy as np

import fedgeom
from fedgeom.errors import FedgeomError
from fedgeom.federation.coordinator import Lost
from fedgeom.federation.messages import Array, Refusal, decode, pack, unpack
from fedgeom.federation.policy import Policy
from tests.attacks.playing import Attack, Learnt, Liar, patients

ODD = (
    np.zeros(0),
    np.zeros((2, 3, 1)),
    np.full(48, np.nan),
    np.full((5, 2), np.inf),
    np.zeros(7, np.uint8),
    np.full(3, 2**63, np.uint64),
    np.array(1.0),
)

WAYS: dict[str, Any] = {
    "ptopofl": fedgeom.PTopoFL(n_rounds=1, steps=1, n_clusters=2, classes=("no", "yes")),
    "ptopofl, diagrams": fedgeom.PTopoFL(n_rounds=1, steps=1, cluster_by="diagrams", classes=("no", "yes")),
    "fedavg": fedgeom.FedAvg(n_rounds=1, steps=1, secure=False, classes=("no", "yes")),
    "moments": fedgeom.Moments(space="euclidean"),
    "hulls": fedgeom.Hulls(embedding="discriminant", epsilon=0.1),
    "xclp": fedgeom.XCLP(hash_bits=64, hamming="ot", classes=("no", "yes")),
    "xclp through anchors": fedgeom.XCLP(
        graph="anchors", n_anchors=4, n_rounds=1, min_cell=1, classes=("no", "yes")
    ),
}


class Relay(Liar):
    """Carries messages between honest ends, and puts an odd array into one site's answers of one kind."""

    spoil: tuple[str, str, Any] = ("", "", None)
    """The kind of answer, the array's field, and what stands there instead."""
    arrays: set[tuple[str, str]]
    """The kinds of answers that have arrays, with the arrays' fields."""

    def deliver(self, requests: Mapping[str, bytes]) -> Iterator[tuple[str, bytes | Lost]]:
        """Spoil the answers of one site."""
        for name, reply in super().deliver(requests):
            asked = self.heard[-1][1]
            if name == "s001" and isinstance(reply, bytes) and unpack(reply).kind != Refusal.kind:
                said = decode(unpack(reply).body, asked.answer)
                for field in said.__struct_fields__:
                    if isinstance(getattr(said, field), Array):
                        self.arrays.add((said.kind, field))
                if (said.kind, self.spoil[1]) == self.spoil[:2]:
                    spoilt = copy.copy(said)  # past the checks of our own class, as a liar would
                    msgspec.structs.force_setattr(spoilt, self.spoil[1], Array.of(self.spoil[2]))
                    reply = pack(self.run, self.method.name, spoilt)
            yield name, reply


def _hold(way: Any, policy: Policy, spoil: tuple[str, str, Any]) -> tuple[set[tuple[str, str]], str]:
    pairs = isinstance(way, fedgeom.XCLP)  # comparing rows in secret takes a while
    relay = Relay(way, patients(3, 4) if pairs else patients(5, 8), policy)
    relay.spoil, relay.arrays = spoil, set()
    try:
        way.conduct(relay.talk)
    except FedgeomError:
        pass
    except Exception as error:
        return relay.arrays, f"{spoil[0]}: {type(error).__name__}"
    return relay.arrays, ""


def coordinator_fails(method: str, policy: Policy, quick: bool) -> Learnt:
    """Let one site answer with arrays of other shapes, dtypes and numbers; count how often the coordinator fails."""
    way = WAYS[method]
    fields, _ = _hold(way, policy, ("", "", None))
    tried, failed = 0, []
    for kind, field in sorted(fields):
        for array in ODD[:: 3 if quick and method == "xclp" else 1]:
            tried += 1
            _, problem = _hold(way, policy, (kind, field, array))
            failed += [problem] if problem else []
    shown = "; ".join(sorted(set(failed))[:3])
    return Learnt(f"{len(failed)} of {tried} odd answers make it fail {shown}".strip(), bool(failed))


ATTACKS = (
    Attack(
        "answers that make the coordinator fail",
        tuple(WAYS),
        "uncaught exceptions in PTopoFL's coordinator",
        coordinator_fails,
        "permissive",
    ),
)
