"""Sites prepared in one process that sees them all, as a run over them would prepare their rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from fedgeom.data.sites import SiteData
from fedgeom.federation.method import Method
from fedgeom.federation.plain_preparation import fit_plain
from fedgeom.federation.preparation import Preparation
from fedgeom.federation.privacy import privacy_of


@dataclass(frozen=True)
class PreparedMethod:
    """A method without its steps, and the sites as it sees them."""

    method: Method
    sites: list[SiteData]
    preparation: Preparation


def prepared_method(
    method: Method, sites: Sequence[SiteData], seed: int = 0, floors: tuple[int, int] = (1, 1)
) -> PreparedMethod:
    """Return a method without its steps, and the sites with their rows prepared by them."""
    found = fit_plain(method.preparing, sites, seed, floors, private=privacy_of(method) is not None)
    return PreparedMethod(replace(method, prepare=()), [found.transform(site) for site in sites], found)
