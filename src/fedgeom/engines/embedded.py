"""All sites in one process, through the same encoded bytes as on a real network.

This is the simulator and the default. A site is built anew for each question from its stored memory,
exactly as on an engine that starts a process per question.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any

from fedgeom.crypto.keys import Identity, Roster
from fedgeom.data.sites import SiteData
from fedgeom.errors import DecodeError, InputError
from fedgeom.federation.conversation import Lost
from fedgeom.federation.method import Method
from fedgeom.federation.policy import Policy
from fedgeom.federation.site import Badge, Host


class EmbeddedEngine:
    """Carries bytes between the coordinator and site hosts in the same process."""

    def __init__(
        self,
        method: Method,
        sites: Sequence[SiteData],
        *,
        policy: Policy | None = None,
        interfere: Callable[[str, bytes], str | None] | None = None,
        identities: Mapping[str, Identity] | None = None,
        memories: MutableMapping[str, bytes] | None = None,
    ):
        names = [site.name for site in sites]
        if len(set(names)) != len(names):
            twice = sorted({name for name in names if names.count(name) > 1})
            raise InputError(f"site names must differ; given more than once: {', '.join(twice)}")
        known = identities or {name: Identity.generate() for name in names}
        self.roster = roster = Roster({name: known[name].public for name in names})
        self.hosts = {
            site.name: Host(
                method.site,
                method.name,
                Badge(site.name, known[site.name], roster, policy or Policy()),
                lambda site=site: site,  # type: ignore[misc]
            )
            for site in sites
        }
        self.memories: MutableMapping[str, bytes] = {} if memories is None else memories
        self._interfere = interfere

    @property
    def names(self) -> tuple[str, ...]:
        """The sites that can be asked."""
        return tuple(self.hosts)

    def check(self, run: bytes, terms: Mapping[str, Any]) -> None:
        """Let every site look at its own data; the first complaint is raised before anything is sent."""
        for host in self.hosts.values():
            host.wake(run, None).check(terms)

    def deliver(self, requests: Mapping[str, bytes]) -> Iterator[tuple[str, bytes | Lost]]:
        """Yield each asked site's answer in turn.

        ``interfere``, if given, may return a reason why a site is lost before it answers: it lets tests
        and studies kill any site at any step.
        """
        for name, request in requests.items():
            reason = self._interfere(name, request) if self._interfere else None
            if reason is not None:
                yield name, Lost(reason)
                continue
            try:
                answer, memory = self.hosts[name].answer(request, self.memories.get(name))
            except DecodeError as error:
                yield name, Lost(str(error))
                continue
            self.memories[name] = memory
            yield name, answer

    def results(self, run: bytes) -> dict[str, dict[str, Any]]:
        """Return what each site itself learnt."""
        return {
            name: host.wake(run, self.memories[name]).result()
            for name, host in self.hosts.items()
            if self.memories.get(name)
        }
