"""Things that are found by name: those that come with fedgeom, those defined in this process, those of other packages.

Methods, learners, readers, engines, aggregations, schedules and personal parts are all found in this way. Other
packages offer them by entry points of a group; a name that is taken cannot be taken again.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from typing import Any

from fedgeom.errors import InputError


def did_you_mean(given: str, names: Iterable[str]) -> str:
    """Return a hint at the name that is most like the given one, or "" where none is.

    >>> did_you_mean("FedAvgg", ["fedavg", "moments"])
    " Did you mean 'fedavg'?"
    """
    known = {name.lower(): name for name in names}
    near = difflib.get_close_matches(given.lower(), known, n=1)
    return f" Did you mean {known[near[0]]!r}?" if near else ""


def _place(thing: Any) -> str:
    kind = thing if hasattr(thing, "__qualname__") else type(thing)
    return f"{kind.__module__}:{kind.__qualname__}"


class Registry(Mapping[str, Any]):
    """What there is of one kind, by name; what another package offers is loaded when it is used."""

    def __init__(self, kind: str, group: str):
        self.kind = kind
        self.group = group
        self._known: dict[str, Any] = {}
        self._own: dict[str, tuple[EntryPoint, str]] = {}  # what `offer` was given, and the package it needs
        self._order: dict[str, None] = {}  # names in the order in which they became known here
        self._unlisted: set[str] = set()

    def add(self, name: str, thing: Any) -> None:
        """Make something known in this process; only a new definition of the same thing may take its place."""
        taken = self._own[name][0].value if name in self._own else ""
        taken = _place(self._known[name]) if name in self._known else taken
        if taken and taken != _place(thing):
            article = "an" if self.kind[0] in "aeiou" else "a"
            raise InputError(f"there is {article} {self.kind} {name!r} already ({taken}); choose another name")
        self._known[name] = thing
        self._order.setdefault(name)

    def offer(self, name: str, place: str, *, needs: str, listed: bool = True) -> None:
        """Make something known that is loaded from ``place`` ("module:name") when it is used.

        It is there only where the package ``needs`` is installed, which is not imported to find that out. What is not
        ``listed`` is found by its name alone: whoever goes through all there are does not meet it.
        """
        if not listed:
            self._unlisted.add(name)
        self._own[name] = EntryPoint(name, place, self.group), needs
        self._order.setdefault(name)

    def find(self, name: str, *, what: str = "") -> Any:
        """Return what has this name, or raise `InputError` that lists the names there are."""
        if name not in self._known:
            point = self._offered().get(name)
            if point is None and name in self._own:
                raise InputError(f"the {self.kind} {name!r} needs {self._own[name][1]!r}, which is not installed")
            if point is None:
                asked = f"{what}={name!r} is unknown" if what else f"there is no {self.kind} {name!r}"
                hint = did_you_mean(name, self)
                raise InputError(f"{asked}; there are: {self}{'.' if hint else ''}{hint}")
            thing = self._load(point)
            if getattr(thing, "name", name) != name:
                raise InputError(
                    f"{point.value} calls itself {thing.name!r}, but was installed as the {self.kind} {name!r}"
                )
            self._known.setdefault(name, thing)
        return self._known[name]

    def _load(self, point: EntryPoint) -> Any:
        try:
            return point.load()  # which may register itself
        except Exception as error:  # whatever is wrong in another package, the rest of fedgeom goes on
            owner = f" of the package {point.dist.name!r}" if point.dist is not None else ""
            raise InputError(f"the {self.kind} {point.name!r}{owner} cannot be loaded: {error}") from error

    def _offered(self) -> dict[str, EntryPoint]:
        found: dict[str, EntryPoint] = {
            name: point for name, (point, needs) in self._own.items() if find_spec(needs)
        }
        for point in entry_points(group=self.group):
            if point.name not in self._own:  # ours stay ours, also where the package they need is missing
                found.setdefault(point.name, point)  # of several packages, the first on the path
        return found

    def __getitem__(self, name: str) -> Any:
        if name not in self:
            raise KeyError(name)
        return self.find(name)

    def __iter__(self) -> Iterator[str]:
        offered = self._offered()
        ours = [
            name for name in self._order if name in self._known or name in offered
        ]  # whatever is loaded by now
        return (name for name in dict.fromkeys([*ours, *self._known, *offered]) if name not in self._unlisted)

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __contains__(self, name: object) -> bool:
        return name in self._known or name in self._offered()

    def __str__(self) -> str:
        return ", ".join(self)
