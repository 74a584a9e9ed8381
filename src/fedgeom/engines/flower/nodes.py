"""Which node is which site, and who is there: Flower numbers its nodes, and a run wants sites by their names.

With TLS Flower knows every node by the key that was admitted for a site; without, each node is asked for its name.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence

from cryptography.hazmat.primitives import serialization

from fedgeom.engines.flower.engine import Grid, Node, Place
from fedgeom.engines.flower.introduction import ask_names
from fedgeom.errors import TooFewSitesError
from fedgeom.federation.conversation import Event

NamesOf = Callable[[Sequence[Node]], Mapping[int, str]]
"""From Flower's nodes to the names of the sites they are, by the node's number; strangers are left out."""

ONLINE = ("online", "")
"""What Flower says of a node that is connected; nothing, where it keeps no such record."""


def names_by_key(keys: Mapping[str, str]) -> NamesOf:
    """Return a function that names nodes by the keys, in OpenSSH's format, that were admitted for the sites."""
    known = {
        serialization.load_ssh_public_key(line.encode()).public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        ): name
        for name, line in keys.items()
    }
    return lambda nodes: {
        node.node_id: known[key] for node in nodes if (key := node.public_key.strip() + b"\n") in known
    }


class Introductions:
    """Names nodes by asking them, each a few times at most; for insecure federations."""

    def __init__(self, grid: Grid, roster: Mapping[str, bytes], *, times: int = 3):
        self._grid, self._roster, self._times = grid, roster, times
        self._known: dict[int, str] = {}
        self._asked: dict[int, int] = {}

    def __call__(self, nodes: Sequence[Node]) -> Mapping[int, str]:
        """Return the names of those nodes that could prove them."""
        new = [
            node.node_id
            for node in nodes
            if node.node_id not in self._known and self._asked.get(node.node_id, 0) < self._times
        ]
        for node in new:
            self._asked[node] = self._asked.get(node, 0) + 1
        self._known |= ask_names(self._grid, new, self._roster)
        return self._known


def connected(grid: Grid, names_of: NamesOf) -> dict[str, Place]:
    """Return the admitted sites that are connected now."""
    nodes = [node for node in grid.get_nodes() if node.status in ONLINE]
    names = names_of(nodes)
    return {names[node.node_id]: (node.node_id, node.last_activated_at) for node in nodes if node.node_id in names}


def gather(
    grid: Grid,
    names_of: NamesOf,
    sites: Collection[str],
    *,
    wait: float,
    min_sites: int,
    watch: Callable[[Event], None] = lambda event: None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Mapping[str, int]:
    """Wait for sites and return their nodes: until all are there, or until the waiting time is over and enough are."""
    wanted = set(sites)
    until = clock() + wait
    found: dict[str, int] = {}
    while True:
        for name, (node, _) in connected(grid, names_of).items():
            if name in wanted and name not in found:
                found[name] = node
                watch(Event(0, "join", name, "joined"))
        if set(found) == wanted or clock() >= until:
            break
        sleep(0.5)
    for name in sorted(wanted - set(found)):
        watch(Event(0, "join", name, "lost", f"did not come within {wait:g} s"))
    if len(found) < min_sites:
        raise TooFewSitesError(
            f"{len(found)} of the {min_sites} sites needed came within {wait:g} s; missing: "
            f"{', '.join(sorted(wanted - set(found)))}"
        )
    return found
