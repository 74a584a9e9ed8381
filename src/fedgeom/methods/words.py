"""What the sites' label names say of a run, where one process sees them all: words that were mixed up, or synonyms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedgeom.data.sites import SiteData
from fedgeom.federation.run_warnings import RunWarning

MOST_WORDS = 8
"""How many words a warning names; the others are counted."""


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
            for group, words in sorted(groups.items())
            if len(words) > 1
        ]
    apart = [
        f"{word!r} is "
        + " and ".join(f"class {group} at {_some(sites)}" for group, sites in sorted(groups.items()))
        for word, groups in sorted(where.items())
        if len(groups) > 1
    ]
    remedy = "look at the table of names; "
    found = []
    if apart:
        advice = (
            remedy + "if one word means one thing everywhere, take a method that goes by words, such as Moments"
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
    words = {site.name: {str(word) for word in site.classes.tolist()} for site in sites}
    union = set().union(*words.values())
    if len(words) < 2 or len(union) < sum(map(len, words.values())):
        return []
    shown = [f"{name} says {_some([repr(word) for word in sorted(mine)])}" for name, mine in sorted(words.items())]
    return [
        RunWarning(
            f"no label name is shared by two sites, and each of the {len(union)} names became a class of its own",
            _some(shown, "; "),
            "if they are synonyms, rename them alike (SiteData.relabel), or take Hulls, which matches them by shape; "
            "if not, name them: classes=[…]",
        )
    ]


def _some(things: Sequence[str], between: str = ", ") -> str:
    more = f"{between}and {len(things) - MOST_WORDS} more" if len(things) > MOST_WORDS else ""
    return between.join(things[:MOST_WORDS]) + more
