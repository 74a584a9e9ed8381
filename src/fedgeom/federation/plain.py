"""A method's conversation in one process, with nothing masked: what `Method.plain` computes.

Coordinator and sites run the code that they run anywhere, but questions and answers are handed over as they are, and
what a site adds to a sum is not hidden. So there are no keys, no bytes, no ledger and no losses: what goes wrong at a
site is raised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

from fedgeom.crypto.keys import KEY_BYTES, Identity, Roster, fingerprint
from fedgeom.data.labels import joint_type, label_type
from fedgeom.data.sites import SiteData
from fedgeom.errors import InputError
from fedgeom.federation.coordinator import Coordinator, Lost
from fedgeom.federation.messages import Message, Question
from fedgeom.federation.model import finish_file
from fedgeom.federation.policy import Policy
from fedgeom.federation.privacy import privacy_of
from fedgeom.federation.site import Memory, Site, SiteIdentity, own_outcome

A = TypeVar("A", bound=Message)
Keep = Callable[[str, bytes], None]
"""Is told the name and the file of each model on the way, such as "rounds/0003"."""

WITHOUT_LIMITS = Policy(
    min_cohort=2, max_message_bytes=2**62, max_rounds=2**62, max_features=2**62, runs_per_day=2**62
)
"""The policy of the sites of a plain run: nothing that a method can do is refused."""


@dataclass(frozen=True)
class Plain:
    """What a plain run yields: the joint model, and what each site has in the end."""

    model: Any
    local: dict[str, dict[str, Any]] = field(default_factory=dict)


class OpenSites(Coordinator):
    """The sites of a plain run, all in this process."""

    masked: ClassVar[bool] = False

    def __init__(self, method: Any, data: Sequence[SiteData], seed: int):
        run = fingerprint(b"plain", str(seed).encode())
        super().__init__(_NoEngine(check_names(data)), run=run, method=method.name, seed=seed)
        self._type = type(method)
        self._data = {site.name: site for site in data}
        self._site: type[Site[Any]] = method.site.unmasked()
        nobody = Identity(bytes(KEY_BYTES))
        roster = Roster({})
        self._identities = {name: SiteIdentity(name, nobody, roster, WITHOUT_LIMITS) for name in self._data}
        self._memories: dict[str, Memory] = {
            name: self._site.memory_type(run=run, method=method.name) for name in self._data
        }
        self._scratch: dict[str, dict[Any, Any]] = {name: {} for name in self._data}

    def site(self, name: str) -> Site[Any]:
        """Return a site as it is now; it is built anew for each question, as everywhere."""
        data = self._data[name]
        identity = self._identities[name]
        memory = self._memories[name]
        made = self._site(data, identity, self.run, memory, self._type)
        made.scratch = self._scratch[name]
        return made

    def _exchange(self, asked: Mapping[str, Question], expect: type[A]) -> Iterator[tuple[str, A | Lost]]:
        """Yield what each site answers."""
        for name, question in asked.items():
            yield name, self.site(name).answer(question)  # type: ignore[misc]


@dataclass(frozen=True)
class _NoEngine:
    """What stands where an engine would: sites of a plain run are asked directly."""

    names: tuple[str, ...]

    def deliver(self, requests: Mapping[str, bytes]) -> Iterator[tuple[str, bytes | Lost]]:
        """Carry nothing."""
        raise NotImplementedError("a plain run has no messages")


def check_names(sites: Sequence[SiteData]) -> tuple[str, ...]:
    """Return the sites' names; refuse those that are given more than once."""
    names = tuple(site.name for site in sites)
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"site names must differ; given more than once: {', '.join(twice)}")
    return names


def conduct_plain(method: Any, data: Sequence[SiteData], seed: int, keep: Keep | None = None) -> Plain:
    """Hold a method's conversation openly; ``keep`` is told the models on the way."""
    if privacy_of(method) is not None:
        raise InputError("the plain run adds no noise; for a run with privacy use fedgeom.run")
    sites = OpenSites(method, data, seed)
    labels = joint_type(label_type(site.y) for site in data if site.has_label.any())
    if keep is not None:
        sites.keepers.append(
            lambda name, file: keep(
                name, finish_file(file, method.model_type, preparation=sites.preparation, labels=labels)
            )
        )
    model = method.conduct(sites).with_preparation(sites.preparation).with_labels(labels)
    if sites.last_step is not None:
        sites.last_step(model)
    return Plain(model, {name: own_outcome(sites.site(name)) for name in sites.names})
