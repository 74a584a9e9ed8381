"""What Flower's programs write to their logs, as far as we read it; it changes between releases."""

from __future__ import annotations

import re
from dataclasses import dataclass

ACTIVATED = "SuperNode ID"
"""What a node writes when the coordinator let it in."""
RETRYING = "Connection attempt failed"
"""What a node writes when nobody answers."""
UNKNOWN_NODE = "code: 2004"
"""What a node writes when the coordinator does not know its key, or counts another process as the node."""
FOREIGN_CERTIFICATE = "CERTIFICATE_VERIFY_FAILED"
NOBODY_LISTENS = "Connection refused"

CAME_OR_WENT = re.compile(r"\[Fleet\.(Activate|Deactivate)Node\] (?:A|Dea)ctivated node_id=(\d+)")
"""What the SuperLink writes when a node comes or goes."""


@dataclass(frozen=True)
class Visit:
    """A node came, or went."""

    number: str
    came: bool


def read_visits(data: bytes) -> tuple[list[Visit], int]:
    """Read who came and went off a piece of the SuperLink's log; also return the bytes of its complete lines."""
    whole = data[: data.rfind(b"\n") + 1]
    lines = whole.decode(errors="replace").splitlines()
    found = [match for line in lines if (match := CAME_OR_WENT.search(line))]
    return [Visit(match[2], match[1] == "Activate") for match in found], len(whole)
