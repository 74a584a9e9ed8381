"""Label names: all sites find the same union, and no lie of the coordinator tells it whose they are."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import numpy as np
import pytest

from fedgeom.crypto.keys import fingerprint, seal
from fedgeom.data.sites import SiteData
from fedgeom.engines.embedded import EmbeddedEngine
from fedgeom.errors import ProtocolError, TooFewSitesError
from fedgeom.federation.coordinator import Coordinator, Lost
from fedgeom.federation.messages import encode, unpack
from fedgeom.protocols.cohort import Cohort, join
from fedgeom.protocols.names import PAGE, OpenNames, SealedNames, SealNames, Vocabulary, agree_on_names
from tests.protocols.lying import ME, Lying, replace
from tests.protocols.naming import Naming, NamingSite, named_sites
from tests.protocols.summing import Interfere, Recorder, killer


def start(data: list[SiteData], interfere: Interfere | None = None, min_sites: int = 2) -> tuple[Cohort, Recorder]:
    method = Naming(min_sites=min_sites)
    recorder = Recorder(EmbeddedEngine(method, data, interfere=interfere))
    return join(Coordinator(recorder, run=os.urandom(32), method=method.name), method), recorder


def test_the_vocabulary_is_the_union_of_all_names() -> None:
    cohort, recorder = start(named_sites(4))
    names = agree_on_names(cohort)
    assert names == ("common", *(f"only at s{i:04d}" for i in range(4)))
    assert cohort.left == cohort.names
    assert {answer.names for _, answer in recorder.answers(Vocabulary)} == {names}


def test_the_coordinator_sees_no_name_before_the_union_and_no_length_of_a_list() -> None:
    data = named_sites(4)
    data[0] = SiteData(data[0].name, data[0].X[[0] * 9], np.array([f"only here {i}" for i in range(9)]))
    cohort, recorder = start(data)
    agree_on_names(cohort)
    sealed = recorder.answers(SealedNames)
    assert len({len(answer.names) for _, answer in sealed}) == 1
    assert len(sealed[0][1].names) > PAGE
    before = [reply for _, _, reply in recorder.seen if unpack(reply).kind != Vocabulary.kind]
    asked = [request for _, request, _ in recorder.seen]
    assert not any(b"only" in seen for seen in [*before, *asked])


@pytest.mark.parametrize("kind", ["names.seal", "names.open"])
def test_sites_that_are_lost_leave_the_cohort(kind: str) -> None:
    cohort, _ = start(named_sites(5), killer({"s0001": (kind, 1)}))
    names = agree_on_names(cohort)
    assert cohort.left == ("s0000", "s0002", "s0003", "s0004")
    assert ("only at s0001" in names) == (kind == "names.open")  # its list had come by then


@pytest.mark.parametrize(("kind", "what"), [("names.seal", "label names"), ("names.open", "joint vocabulary")])
def test_fewer_than_the_method_needs_are_named(kind: str, what: str) -> None:
    cohort, _ = start(named_sites(5), killer({"s0001": (kind, 1)}), min_sites=5)
    with pytest.raises(TooFewSitesError, match=f"{what}, 5 are needed"):
        agree_on_names(cohort)


def test_a_site_that_reports_another_vocabulary_stops_the_run() -> None:
    cohort, recorder = start(named_sites(4))
    deliver = recorder.engine.deliver

    def lying(requests: Mapping[str, bytes]) -> Iterator[tuple[str, bytes | Lost]]:
        for name, reply in deliver(requests):
            frame = unpack(reply) if isinstance(reply, bytes) else None
            if name == ME and frame is not None and frame.kind == Vocabulary.kind:
                reply = msgspec.msgpack.encode(replace(frame, body=encode(Vocabulary(names=("other",)))))
            yield name, reply

    recorder.engine.deliver = lying  # type: ignore[method-assign]
    with pytest.raises(ProtocolError, match="do not report the same vocabulary"):
        agree_on_names(cohort)


# --- a coordinator that lies ---


def sealing(n: int = 5) -> tuple[Lying, dict[str, bytes]]:
    """Return a run in which all sites have sealed their names."""
    lie = Lying(n, method=Naming())
    for runner, own in zip(lie.engine.runners.values(), named_sites(n), strict=True):
        runner._data = lambda own=own: own
    lie.hello().share()
    sealed = {}
    for name in lie.names:
        ask = SealNames(participants=lie.names, letters=lie.mail[name])
        sealed[name] = lie.get(name, ask, SealedNames).names
        assert lie.get(name, ask, SealedNames).names == sealed[name]  # asked again, the very same
    return lie, sealed


def test_the_names_of_few_sites_are_not_opened_apart() -> None:
    lie, sealed = sealing()
    lie.refused(ME, OpenNames(sealed={"s0001": sealed["s0001"]}), "with this site among them")
    lie.refused(ME, OpenNames(sealed={n: sealed[n] for n in (ME, "s0001")}), "2 sites are left")
    lie.refused(ME, OpenNames(sealed=sealed | {"mallory": b""}), "with this site among them")
    union = lie.get(ME, OpenNames(sealed=sealed), Vocabulary).names
    assert union == ("common", *(f"only at {name}" for name in lie.names))
    four = {name: sealed[name] for name in lie.names[:4]}
    lie.refused(ME, OpenNames(sealed=four), "'names.open' was answered in this run already")
    assert lie.get(ME, OpenNames(sealed=sealed), Vocabulary).names == union


def test_names_are_not_sealed_for_other_members_than_before() -> None:
    lie, _ = sealing()
    fewer = SealNames(participants=lie.names[:4], letters=lie.mail[ME])
    lie.refused(ME, fewer, "'names.seal' was answered in this run already")


def test_lists_are_not_opened_before_the_sites_have_a_secret() -> None:
    lie = Lying(4, method=Naming()).hello().share()
    lie.refused(ME, OpenNames(sealed={name: bytes(2000) for name in lie.names}), "no common secret yet")


def test_a_list_under_another_name_or_tampered_with_is_refused() -> None:
    lie, sealed = sealing()
    swapped = sealed | {"s0001": sealed["s0002"], "s0002": sealed["s0001"]}
    lie.refused(ME, OpenNames(sealed=swapped), "letter from 's0001' cannot be opened")
    for bad in (b"", sealed["s0001"][:-1], bytes([sealed["s0001"][0] ^ 1]) + sealed["s0001"][1:]):
        lie.refused(ME, OpenNames(sealed=sealed | {"s0001": bad}), "letter from 's0001' cannot be opened")


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[1]", b'[""]', b'["' + b"x" * 201 + b'"]', b'["\xff"]', b"[" * 2000]
)
def test_a_peers_nonsense_for_names_is_refused_not_stumbled_over(content: bytes) -> None:
    lie, sealed = sealing()
    traitor = lie.as_site("s0001")
    key = traitor.joining.shared_secret(b"names")
    nonsense = seal(key, content, fingerprint(lie.run, b"s0001"))
    lie.refused(ME, OpenNames(sealed=sealed | {"s0001": nonsense}), "label names of 's0001' cannot be read")


def test_a_site_may_read_its_labels_in_its_own_way() -> None:
    class Loud(NamingSite):
        def label_counts(self) -> dict[str, int]:
            return {label.upper(): 1 for label in self.data.y.tolist()}

    lie = Lying(3, method=Naming())
    data, runner = named_sites(1)[0], lie.engine.runners[ME]
    for kind, wanted in ((NamingSite, ["common", "only at s0000"]), (Loud, ["COMMON", "ONLY AT S0000"])):
        site: Any = kind(data, runner.identity, lie.run, kind.memory_type(run=lie.run), Naming)
        assert sorted(site.names.own_counts()) == wanted


def test_labels_that_are_numbers_are_names_too() -> None:
    lie = Lying(3, method=Naming())
    runner = lie.engine.runners[ME]
    data = SiteData(ME, np.zeros((3, 1)), np.array([2, 10, 2]))
    site: Any = NamingSite(data, runner.identity, lie.run, NamingSite.memory_type(run=lie.run), Naming)
    assert site.names.own_counts() == {"10": 1, "2": 2}
