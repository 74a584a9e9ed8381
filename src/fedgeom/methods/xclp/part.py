"""What the parts of a site that spreads labels have in common: they may work more than once in a run."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from fedgeom.arrays import Floats
from fedgeom.errors import ProtocolError
from fedgeom.methods.xclp.settings import XclpSettings
from fedgeom.protocols.secure_sum.groups import draw_of, own_group
from fedgeom.protocols.site import SummingPart

PartMem = TypeVar("PartMem", bound=msgspec.Struct)


class XclpPart(SummingPart[PartMem]):
    """A part of a site that spreads labels: in `XCLP` once, in training with pseudo-labels in many rounds."""

    @property
    def xclp(self) -> XclpSettings:
        """How labels spread, by the terms on which the site joined."""
        found: XclpSettings = self.site.xclp  # type: ignore[attr-defined]
        return found

    @property
    def rows(self) -> Floats:
        """The rows that are compared, dealt to cells and labelled, (rows, columns)."""
        found: Floats = self.site.rows  # type: ignore[attr-defined]
        return found

    @property
    def round(self) -> int:
        """The round in which labels spread; `XCLP` has one, 0."""
        found: int = self.site.spreading_round  # type: ignore[attr-defined]
        return found

    @property
    def features_hash(self) -> bytes:
        """A hash of what the compared rows are made with; empty where they are the table's own."""
        found: bytes = self.site.features_hash  # type: ignore[attr-defined]
        return found

    def check_round(self, round: int) -> None:
        """Refuse a question of another round than the one in which labels spread."""
        if round != self.round:
            raise ProtocolError(f"labels were to spread in round {round + 1}, which is not under way here")

    def check_group(self, group: int) -> None:
        """Refuse a sum that is said to be over another group of sites than the one this site is drawn into."""
        wanted = own_group(self.site) if draw_of(self.site.settings) is not None else 0
        if group != wanted:
            raise ProtocolError(f"group {group + 1} was to be summed; this site is in group {wanted + 1}")

    def keep_to(self, **said: object) -> None:
        """Refuse a question that departs from how labels spread by the terms; what these leave open may be said."""
        for name, value in said.items():
            agreed = getattr(self.xclp, name)
            if agreed is not None and agreed != value:
                raise ProtocolError(f"{name}={value} is asked for; the site joined on {name}={agreed}")
