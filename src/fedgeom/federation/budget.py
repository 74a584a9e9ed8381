"""A site's privacy budget, as the site sees it while it joins: a run is charged before anything of it is answered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from fedgeom.federation.privacy import Spent


class Budget(Protocol):
    """Keeps what a site's runs cost together."""

    def charge(self, run: bytes, method: str, spent: Spent | None) -> None:
        """Write down what a run costs, once; raise `ProtocolError` where that would exceed the budget.

        ``spent`` None: the run has no privacy, and what it costs cannot be counted.
        """


@dataclass(frozen=True)
class NoBudget:
    """Counts nothing: for sites that are simulated, whose policy caps single runs alone."""

    def charge(self, run: bytes, method: str, spent: Spent | None) -> None:
        """Every run may begin."""
