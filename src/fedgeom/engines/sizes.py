"""What a run takes of messages and memory, said before it begins."""

from __future__ import annotations

from collections.abc import Sequence

from fedgeom.data.findings import Finding, fault
from fedgeom.data.memory import free_memory
from fedgeom.data.rows import dense_bytes
from fedgeom.data.sites import SiteData
from fedgeom.federation.messages import LARGEST_MESSAGE
from fedgeom.federation.method import MessageSizes, Method
from fedgeom.federation.policy import Policy

ANNOUNCED = 32 * 2**20
"""From this size on a table or a message is worth a note."""


def worth_saying(method: Method, data: Sequence[SiteData], policy: Policy) -> MessageSizes | None:
    """Return how large a method's messages become; None where nobody knows, or they are small whatever the rows are."""
    bound, small = method.message_bound(data), min(policy.max_message_bytes, ANNOUNCED)
    if bound is not None and max(bound.sent, bound.received) < small:
        return None
    return method.message_sizes(data)


def size_faults(sizes: MessageSizes, data: Sequence[SiteData], policy: Policy) -> list[Finding]:
    """Say whether messages are larger than the policy allows, or large enough to be spoken of."""
    limit, largest = min(policy.max_message_bytes, LARGEST_MESSAGE), max(sizes.sent, sizes.received)
    if largest > limit:
        what = (
            f"the largest message is one of about {largest:,} bytes, for {data[0].shape[1]:,} columns; the limit is "
            f"{limit:,} (max_message_bytes in the policy)"
        )
        return [fault(what, "take fewer columns, or settings with smaller messages", topic="size")]
    if largest < ANNOUNCED:
        return []
    what = (
        f"messages are large: a site sends up to about {sizes.sent:,} bytes, and is sent {sizes.received:,}; the "
        f"limit is {limit:,}"
    )
    return [Finding(level="note", what=what, topic="size")]


def memory_findings(data: Sequence[SiteData], sizes: MessageSizes | None) -> list[Finding]:
    """Compare what a run in this process takes with what is free: all tables, copies of one, and all messages."""
    tables = [8 * len(site) * site.shape[1] for site in data]
    largest = 0 if sizes is None else max(sizes.sent, sizes.received)
    unmade = sum(dense_bytes(site.table) for site in data if "X" not in vars(site))
    needed, free = unmade + 2 * max(tables) + (len(data) + 6) * largest, free_memory()
    if sum(tables) + needed < ANNOUNCED * 16 and (free is None or needed < free):
        return []
    held = f"the tables take {_size(sum(tables))} of memory, and a run here about {_size(needed)} more"
    if free is None or needed < free:
        return [Finding(level="note", what=held, topic="memory")]
    return [
        Finding(
            level="warning",
            what=f"{held}; {_size(free)} are free",
            remedy="use fewer columns or rows (in a deployment, each site holds its own table only)",
            topic="memory",
        )
    ]


def _size(count: int) -> str:
    return f"{count / 2**30:.1f} GB" if count >= 2**30 else f"{count / 2**20:.0f} MB"
