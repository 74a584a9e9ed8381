"""How many classes there are where sites have names of their own: what can be seen of it, and what must be asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from fedgeom.data.sites import SiteData
from fedgeom.errors import InputError
from fedgeom.federation.run_warnings import RunWarning


class NamesSettings(Protocol):
    """What the settings of a method that matches names say of names and their number."""

    @property
    def shared(self) -> bool: ...

    @property
    def classes(self) -> tuple[str, ...] | None: ...

    @property
    def n_classes(self) -> int | str | None: ...

    @property
    def given_classes(self) -> int | None: ...


def check_number(settings: NamesSettings, sites: Sequence[SiteData]) -> None:
    """Refuse a number of classes that cannot be, or one that nobody gave and that is likely wrong.

    The most classes at any site is right where some site has them all. Where sites share words and have more of them in
    all than any one has, no site has all: then the number must be given.
    """
    counts = [len(site.classes) for site in sites]
    words = {str(word) for site in sites for word in site.classes.tolist()}
    if settings.shared:
        if len(words) < 2:
            raise InputError(f"all rows of all sites are {sorted(words)[0]!r}; a classifier needs two classes")
        absent = sorted(set(settings.classes or ()) - words)
        if absent:
            raise InputError(f"labels missing everywhere: {', '.join(absent)}; leave them out of `classes`")
        return
    given, most = settings.given_classes, max(counts)
    if given is not None:
        if sum(counts) < given:
            raise InputError(f"n_classes={given}, but there are fewer hulls in all: a label is missing everywhere")
        return
    if most < 2:
        only = ", ".join(f"{site.name!r} ({site.classes[0]})" for site in sites[:5])
        raise InputError(f"every site has one class: {only}. If these differ, say how many there are: n_classes=…")
    if settings.n_classes is None and most < len(words) < sum(counts):
        raise InputError(
            f"the sites have {_listed(counts)} classes and {len(words)} different words in all, some of which they "
            'share: no site seems to have all classes. If one word means one thing everywhere, say names="shared"; '
            f'otherwise say how many classes there are: n_classes=…, or n_classes="most" for {most}, the most at any'
        )


def unequal_numbers(counts: Sequence[int]) -> list[RunWarning]:
    """Warn where sites have different numbers of classes and nobody said how many there are in all."""
    if len(set(counts)) < 2:
        return []
    return [
        RunWarning(
            f"{max(counts)} classes were assumed, the most at any site",
            f"the sites have {_listed(counts)}: some lack classes, so that perhaps no site has all of them",
            'say how many classes there are: n_classes=…; n_classes="most" if some site has them all',
        )
    ]


def _listed(counts: Sequence[int]) -> str:
    """Return numbers in order, as words of a sentence."""
    ordered = sorted(counts)
    shown = ", ".join(map(str, ordered[:12]))
    return f"{shown}, … and {ordered[-1]}" if len(ordered) > 12 else shown
