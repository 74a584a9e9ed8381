"""What the sites' label names say where one process sees them all: whether they are shared, mixed up, or synonyms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from fedgeom.data.sites import SiteData
from fedgeom.errors import InputError
from fedgeom.federation.method import Method, methods_that_match
from fedgeom.federation.results import RunWarning

MOST_WORDS = 8
"""How many words a warning names; the others are counted."""
SHARED = 0.5
"""Names look shared where every site has at least this share of its own in common with another site."""


@dataclass(frozen=True)
class SeenNames:
    """What can be seen of the sites' label names."""

    kind: Literal["shared", "own", "mixed"]
    """"shared": every site has half of its words or more in common with others; "own": no two sites have one."""
    by_site: dict[str, tuple[str, ...]]
    """Each site's words, sorted."""
    union: tuple[str, ...]

    def __str__(self) -> str:
        several = _in_several(self.by_site)
        counts = sorted({len(mine) for mine in self.by_site.values()})
        each = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
        return (
            f"{len(self.by_site)} sites have {each} label names each, {len(self.union)} different ones in all, "
            f"{len(several)} of them at several sites"
        )


def look_at_names(sites: Sequence[SiteData]) -> SeenNames:
    """Say whether sites seem to share their label names; rows without a label count for nothing.

    That words are shared does not prove that they mean the same: clusters may be numbered everywhere from 0 on.
    """
    by_site = {site.name: _words(site) for site in sites}
    by_site = {name: mine for name, mine in by_site.items() if mine}
    several = _in_several(by_site)
    shares = [sum(word in several for word in mine) / len(mine) for mine in by_site.values()]
    kind: Literal["shared", "own", "mixed"] = "mixed"
    if len(by_site) < 2 or all(share >= SHARED for share in shares):
        kind = "shared"
    elif not several:
        kind = "own"
    return SeenNames(kind, by_site, tuple(sorted({word for mine in by_site.values() for word in mine})))


def look_ahead(method: Method, sites: Sequence[SiteData]) -> list[RunWarning]:
    """Warn before a run of what the sites' label names will do to a method that goes by them."""
    if not method.shares_names or getattr(method, "classes", None):
        return []
    return disjoint_words([method.normalise_labels(site) for site in sites])


def look_back(method: Method, local: Mapping[str, Mapping[str, Any]]) -> list[RunWarning]:
    """Warn after a run of what became of label names that the method matched; ``local`` is `Run.local`."""
    return [] if method.shares_names else mixed_words(local)


def mixed_words(local: Mapping[str, Mapping[str, Any]]) -> list[RunWarning]:
    """Warn of one word in two classes, and of two words of one site in one; ``local`` is `Run.local`."""
    where: dict[str, dict[int, list[str]]] = {}
    together: list[str] = []
    for site, result in sorted(local.items()):
        groups: dict[int, list[str]] = {}
        names = result.get("names")
        for word, group in names.items() if isinstance(names, Mapping) else ():
            where.setdefault(str(word), {}).setdefault(int(group), []).append(site)
            groups.setdefault(int(group), []).append(str(word))
        together += [
            f"{' and '.join(map(repr, sorted(words)))} are class {group} at {site}"
            + _evidence(result, sorted(words)[-1])
            for group, words in sorted(groups.items())
            if len(words) > 1
        ]
    apart = [_apart(word, groups, local) for word, groups in sorted(where.items()) if len(groups) > 1]
    remedy = "look at the table of names; "
    found = []
    if apart:
        advice = (
            remedy
            + 'if one word means one thing everywhere, say names = "shared", or take a method that goes by words, such '
            "as Moments"
        )
        found.append(RunWarning(f"{len(apart)} words were put into several classes", _some(apart, "; "), advice))
    if together:
        advice = (
            remedy + "if these words mean different things, set n_classes to the number of classes of all sites"
        )
        found.append(RunWarning("words of one site were put into the same class", _some(together, "; "), advice))
    return found


def disjoint_words(sites: Sequence[SiteData]) -> list[RunWarning]:
    """Warn where no word is shared by two sites: the union then has a class for every word of every site."""
    seen = look_at_names(sites)
    if seen.kind != "own":
        return []
    shown = [f"{name} says {_some([repr(word) for word in mine])}" for name, mine in sorted(seen.by_site.items())]
    return [
        RunWarning(
            f"no label name is shared by two sites, and each of the {len(seen.union)} names is a class of its own",
            _some(shown, "; "),
            f"if they are synonyms, take a method that matches names ({', '.join(methods_that_match())}) with names "
            '= "own", or rename them alike as Ellipses matches them: site.relabel(run.local[site.name]["names"]); if '
            "not, name them: classes=[…]",
        )
    ]


def _words(site: SiteData) -> tuple[str, ...]:
    return tuple(sorted({str(word) for word in site.classes.tolist()} - {""}))


def _in_several(by_site: Mapping[str, Sequence[str]]) -> set[str]:
    """Return the words that several sites have."""
    return {
        word for word, times in Counter(word for mine in by_site.values() for word in mine).items() if times > 1
    }


def _apart(word: str, groups: Mapping[int, list[str]], local: Mapping[str, Mapping[str, Any]]) -> str:
    """Say where a word is which class; of those that are not as most are, with the evidence."""
    usual = max(groups, key=lambda group: (len(groups[group]), -group))
    said = []
    for group, sites in sorted(groups.items()):
        shown = sites if group == usual else [site + _evidence(local[site], word) for site in sites]
        said.append(f"class {group} at {_some(shown)}")
    return f"{word!r} is " + " and ".join(said)


def _evidence(result: Mapping[str, Any], word: str) -> str:
    """Return, in brackets, how near a word's class was and how near the next best one, where that is known."""
    one = result.get("evidence", {}).get(word)
    return f" ({describe(**one)})" if isinstance(one, Mapping) else ""


def describe(*, own: float | None, rival: int, other: float | None, verdict: str) -> str:
    """Say how near a name's class is and how near the next best one would be.

    >>> describe(own=0.31, rival=4, other=0.35, verdict="doubtful")
    'doubtful: 0.31 away, with class 4 it would be 0.35'
    >>> describe(own=None, rival=-1, other=None, verdict="alone")
    'alone: no other site has this class'
    """
    if own is None:
        return f"{verdict}: no other site has this class"
    return f"{verdict}: {own:.2f} away" + (
        "" if other is None else f", with class {rival} it would be {other:.2f}"
    )


def _some(things: Sequence[str], between: str = ", ") -> str:
    more = f"{between}and {len(things) - MOST_WORDS} more" if len(things) > MOST_WORDS else ""
    return between.join(things[:MOST_WORDS]) + more


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
    given = settings.given_classes
    most = max(counts)
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
