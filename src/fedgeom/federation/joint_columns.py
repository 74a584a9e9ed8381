"""Which columns and categories all sites go on with: worked out by each site from everybody's lists."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec
import numpy as np

from fedgeom.arrays import Ints
from fedgeom.data.rows import dense
from fedgeom.data.sites import SiteData
from fedgeom.data.tables import as_labels
from fedgeom.errors import InputError, ProtocolError, is_name
from fedgeom.federation.messages import Name
from fedgeom.federation.steps import MOST_COLUMNS, Columns, Step

Word = Annotated[str, msgspec.Meta(max_length=200)]
NUMBER, TEXT, EMPTY, FREE = 0, 1, 2, 3
"""What a column holds at a site: numbers, categories, nothing at all, or text with too many different words."""


class SiteColumns(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What one site tells the others of its columns."""

    width: Annotated[int, msgspec.Meta(ge=0, le=MOST_COLUMNS)]
    names: Annotated[tuple[Name, ...], msgspec.Meta(max_length=MOST_COLUMNS)] = ()
    kinds: bytes = b""
    """One byte for each column."""
    words: dict[Name, tuple[Word, ...]] = {}
    """The categories of columns of text, "" among them where cells are empty."""
    counts: dict[str, dict[str, int]] = msgspec.field(default_factory=dict)
    """How many rows have each; left out of what is sealed."""

    def told(self) -> SiteColumns:
        """Return what the others may know."""
        return msgspec.structs.replace(self, counts={})


class Agreed(msgspec.Struct, frozen=True, kw_only=True):
    """What follows from everybody's lists, before categories are counted."""

    names: tuple[str, ...] = ()
    width: int = 0
    words: dict[int, tuple[str, ...]] = {}
    """For each column of categories, all sites' words, sorted."""

    def pairs(self) -> list[tuple[int, str]]:
        """Return all columns with a word of each, and one for words that sites do not name."""
        return [(at, word) for at, words in self.words.items() for word in (*words, UNNAMED)]


UNNAMED = "\x00"
"""Stands for all words that a site does not name: no word of a table can be this one."""


def own_columns(site: SiteData, steps: Sequence[Step], min_rows: int, *, private: bool = False) -> SiteColumns:
    """Return what a site tells of its columns: a word that fewer of its rows have than ``min_rows`` is not named.

    ``private``: only what columns are called, and nothing that a single row could change.
    """
    if not site.columns:
        return SiteColumns(width=site.shape[1])
    odd = [name for name in site.columns if not is_name(name)]
    if odd:
        raise InputError(
            f"site {site.name!r}: {odd[0]!r} cannot be the name of a column that others learn; rename it"
        )
    encoder = next((step for step in steps if step.takes_text), None)
    if private or getattr(encoder, "categories", None):  # which words there are the terms say
        return SiteColumns(width=site.shape[1], names=site.columns, kinds=bytes(len(site.columns)))
    asked = set(getattr(encoder, "columns", None) or ())
    most = int(getattr(encoder, "max_categories", 0))
    kinds, counts = bytearray(len(site.columns)), dict[str, dict[str, int]]()
    for at, name in enumerate(site.columns):
        if name in site.categories or name in asked:
            found = _counted(site, at)
            some = sum(1 for word in found if word)
            kinds[at] = EMPTY if not some else FREE if encoder is None or some > most else TEXT
            if kinds[at] == TEXT or (kinds[at] == EMPTY and encoder is not None):
                counts[name] = _named(found, min_rows)
    for at in _empty_columns(site):
        kinds[at] = EMPTY if kinds[at] == NUMBER else kinds[at]
        if encoder is not None:
            counts.setdefault(site.columns[at], {"": len(site)})
    words = {name: tuple(sorted(set(some) - {UNNAMED})) for name, some in counts.items()}
    return SiteColumns(width=site.shape[1], names=site.columns, kinds=bytes(kinds), words=words, counts=counts)


def _named(found: Mapping[str, int], min_rows: int) -> dict[str, int]:
    """Return how many rows each word has, those together that are too rare here, or no words of one line."""
    named: Counter[str] = Counter()
    for word, rows in found.items():
        named[word if not word or (rows >= min_rows and is_name(word)) else UNNAMED] += rows
    return dict(named)


def _counted(site: SiteData, at: int) -> dict[str, int]:
    """Return how many rows have each word of a column; "" for empty cells."""
    cells = dense(site.table[:, [at]], site.name)[:, 0]
    words = site.categories.get(site.columns[at])
    if words is None:
        return dict(Counter(as_labels(cells).tolist()))
    there = np.isfinite(cells)
    counts = np.bincount(cells[there].astype(np.intp), minlength=len(words))
    found = {word: int(n) for word, n in zip(words, counts, strict=True) if n}
    return found | ({"": int((~there).sum())} if not there.all() else {})


def _empty_columns(site: SiteData) -> list[int]:
    """Return the columns of numbers that have none at all."""
    if hasattr(site.table, "indptr") or site.table.dtype.kind != "f":
        return []
    first = np.flatnonzero(~np.isfinite(site.table[0])) if len(site) else np.arange(0)
    return [int(at) for at in first if not np.isfinite(site.table[:, at]).any()]


def agree(lists: Mapping[str, SiteColumns], *, union: bool) -> Agreed:
    """Return the joint columns: those that all sites have, or any; of one kind, in the first site's order."""
    told = [lists[name] for name in sorted(lists)]
    named = [one for one in told if one.names]
    if len(named) < len(told):
        if len({one.width for one in told}) > 1 or len({one.names for one in named}) > 1:
            raise ProtocolError(
                "columns of some sites have no names, and their numbers or the others' names differ"
            )
        return Agreed(names=named[0].names if named else (), width=told[0].width)
    kinds: dict[str, set[int]] = {}
    there: Counter[str] = Counter()
    for one in told:
        if len(one.kinds) != len(one.names) or len(set(one.names)) < len(one.names):
            raise ProtocolError("the columns of a site do not fit together")
        there.update(one.names)
        for name, kind in zip(one.names, one.kinds, strict=True):
            kinds.setdefault(name, set()).add(kind)
    names = tuple(
        name
        for name, found in kinds.items()
        if (union or there[name] == len(told))
        and FREE not in found
        and not {NUMBER, TEXT} <= found
        and found != {EMPTY}
    )
    if not names:
        raise ProtocolError("the sites have no column in common that could be used")
    words: dict[int, tuple[str, ...]] = {}
    for at, name in enumerate(names):
        if TEXT in kinds[name]:
            some = {word for one in told for word in one.words.get(name, ())}
            words[at] = tuple(sorted(some | ({""} if there[name] < len(told) else set())))
    return Agreed(names=names, width=len(names), words=words)


def own_counts(agreed: Agreed, own: SiteColumns, rows: int) -> Ints:
    """Return how many of a site's rows have each of `Agreed.pairs`, (pairs,)."""
    found = []
    for at, word in agreed.pairs():
        counts = own.counts.get(agreed.names[at])
        if counts is None:  # the site lacks the column: all its cells are empty
            counts = {"": rows}
        found.append(counts.get(word, 0))
    return np.array(found, np.int64)


def joint_columns(agreed: Agreed, sites: Ints, rows: Ints, floors: tuple[int, int]) -> Columns:
    """Return the columns with the categories that enough sites and rows have; the others are put together.

    sites, rows (pairs,): at how many sites, and in how many rows, each of `Agreed.pairs` occurs.
    """
    kept: dict[int, list[str]] = {at: [] for at in agreed.words}
    rare: Counter[int] = Counter()
    for (at, word), n_sites, n_rows in zip(agreed.pairs(), sites.tolist(), rows.tolist(), strict=True):
        if word != UNNAMED and n_sites >= floors[0] and n_rows >= floors[1]:
            kept[at].append(word)
        else:
            rare[at] += n_rows
    together = tuple(at for at in agreed.words if rare[at] >= max(floors[1], 1))
    categories = {at: tuple(words) for at, words in kept.items()}
    whole = Columns(width=agreed.width, names=agreed.names, categories=categories, together=together)
    useless = {at for at, words in categories.items() if not words and at not in together}
    return (
        whole.kept(np.array([at for at in range(whole.width) if at not in useless], np.intp)) if useless else whole
    )


def with_given_words(raw: Columns, steps: Sequence[Step]) -> Columns:
    """Return the joint columns with the words that the terms give them; all other words are taken together."""
    encoder: Any = next((step for step in steps if getattr(step, "categories", None)), None)
    if encoder is None:
        return raw
    unknown = sorted(set(encoder.categories) - set(raw.names))
    if unknown:
        raise ProtocolError(f"the terms have categories of columns that the sites do not share: {unknown[0]!r}")
    words = {raw.names.index(name): (*some, "") for name, some in encoder.categories.items()}
    ordered = {at: words[at] for at in sorted(words)}
    return Columns(width=raw.width, names=raw.names, categories=ordered, together=tuple(ordered))


def uses_union(steps: Sequence[Step]) -> bool:
    """Say whether columns that a site lacks are filled in, instead of being left out everywhere."""
    return any(getattr(step, "absent", "") == "union" for step in steps)


def category_floors(steps: Sequence[Step], floors: tuple[int, int]) -> tuple[int, int]:
    """Return how many sites and rows a category must have: the terms and the policies may both ask for more."""
    encoder: Any = next((step for step in steps if step.takes_text), None)
    return max(floors[0], getattr(encoder, "min_sites", 1)), max(floors[1], getattr(encoder, "min_rows", 1))
