"""What leaves a site in label propagation looks like noise, and questions that depart from the terms are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest
from scipy.stats import chisquare

import fedgeom
from fedgeom.data.sites import SiteData
from fedgeom.engines.embedded import EmbeddedEngine
from fedgeom.federation.messages import Array, Question, Refusal, decode, encode, pack_body, unpack
from fedgeom.methods.xclp.anchored import CountCells, SumCells, SumCodes
from fedgeom.methods.xclp.anchored_site import XclpSite
from fedgeom.methods.xclp.messages import Begin, Collect, CountLabels, CountRows, PassOn, Spread, Weigh
from fedgeom.protocols.secure_sum import MaskedVector, about
from tests.methods.xclp.test_method import cones

replace = msgspec.structs.replace
METHOD = fedgeom.XCLP(bits=128, hamming="ot")


def overhear(
    monkeypatch: pytest.MonkeyPatch, method: fedgeom.XCLP, sites: list[SiteData]
) -> list[tuple[str, Any]]:
    """Return all questions and answers of a run, as the coordinator sees them."""
    heard: list[tuple[str, Any]] = []
    deliver = EmbeddedEngine.deliver

    def listening(self: EmbeddedEngine, requests: dict[str, bytes]) -> Any:
        for name, answer in deliver(self, requests):
            question = unpack(requests[name])
            kind = XclpSite.understands()[question.kind]
            heard.append((name, decode(question.body, kind)))
            heard.append((name, decode(unpack(answer).body, kind.answer)))  # type: ignore[arg-type]
            yield name, answer

    monkeypatch.setattr(EmbeddedEngine, "deliver", listening)
    fedgeom.run(method, sites)
    return heard


def even(numbers: np.ndarray) -> bool:
    return bool(chisquare(np.bincount(numbers.view(np.uint8), minlength=256)).pvalue > 1e-6)


@pytest.mark.parametrize("label", [0, 1])
def test_row_sums_show_the_coordinator_noise_whatever_the_labels(
    label: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    sites = [
        SiteData(s.name, s.X, np.where(np.arange(len(s)) < 12, label, 2)) for s in cones(3, rows=40, labelled=1.0)
    ]
    heard = overhear(monkeypatch, METHOD, sites)
    sums = [(name, m.vector.numpy()) for name, m in heard if isinstance(m, MaskedVector)][-3:]
    blocks = [m.block.numpy() for _, m in heard if isinstance(m, Collect)]
    assert [len(vector) for _, vector in sums] == [80 * 2] * 3  # all rows but the site's own, two classes
    assert even(np.concatenate([vector for _, vector in sums]))
    assert even(np.concatenate(blocks))  # the sum too: each block is still masked for all but its owner


def test_only_its_owner_can_read_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """With another site's block, a site gets numbers around 2^31 instead of scores of a few units."""
    sites, largest = cones(3, rows=10, labelled=0.6), {}
    read = XclpSite.read_labels

    def looking(self: XclpSite, Z: np.ndarray, classes: tuple[str, ...], reading: Any) -> None:
        largest[self.badge.name] = float(Z.max())
        read(self, Z, classes, reading)

    monkeypatch.setattr(XclpSite, "read_labels", looking)
    fedgeom.run(METHOD, sites)
    assert max(largest.values()) < 1e4
    collect = XclpSite._handlers[Collect.kind]
    kept: list[Array] = []

    def exchanged(self: XclpSite, ask: Collect) -> Any:
        kept.append(ask.block)
        return collect[1](self, replace(ask, block=kept[0]))

    monkeypatch.setattr(XclpSite, "_handlers", {**XclpSite._handlers, Collect.kind: (Collect, exchanged)})
    fedgeom.run(METHOD, sites)
    first, *others = (largest[site.name] for site in sites)
    assert first < 1e4
    assert min(others) > 1e6


def refused(method: fedgeom.XCLP, kind: type[Question], change: Callable[[Any], Any]) -> str:
    """Play a run in which the first question of a kind to one site is changed; return why the site refused."""
    sites, said = cones(4, rows=14, labelled=0.5), []
    victim = sites[1].name
    deliver = EmbeddedEngine.deliver

    def lying(self: EmbeddedEngine, requests: dict[str, bytes]) -> Any:
        frame = unpack(requests[victim]) if victim in requests else None
        changed = dict(requests)
        if frame is not None and frame.kind == kind.kind and not said:
            body = encode(change(decode(frame.body, kind)))
            changed[victim] = pack_body(frame.run, frame.method, frame.kind, body)
        for name, answer in deliver(self, changed):
            reply = unpack(answer)
            if name == victim and changed is not requests and changed[victim] != requests.get(victim):
                assert reply.kind == Refusal.kind, f"{kind.__name__} was answered"
                said.append(decode(reply.body, Refusal).reason)
            yield name, answer

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(EmbeddedEngine, "deliver", lying)
        try:
            fedgeom.run(method, sites)
        except fedgeom.errors.FedgeomError:
            assert said
    assert said, f"no {kind.__name__} was asked"
    return said[0]


ANCHORS = fedgeom.XCLP(graph="anchors", anchors=8, rounds=3, least_cell=2)


SCALED = fedgeom.XCLP(bits=128, hamming="ot", confidence="code")
SCALED_ANCHORS = fedgeom.XCLP(graph="anchors", anchors=8, rounds=3, least_cell=2, confidence="code")


def hashing(**changes: Any) -> Callable[[Any], Any]:
    return lambda ask: replace(ask, hashing=replace(ask.hashing, **changes))


def stamped(ask: Any, **changes: Any) -> Any:
    """Change a question and make its ticket out for it, as a coordinator that lies to all would."""
    changed = replace(ask, **changes)
    return replace(changed, ticket=replace(changed.ticket, about=about(changed)))


@pytest.mark.parametrize(
    ("method", "kind", "change", "words"),
    [
        (METHOD, Begin, hashing(seed=bytes(32)), "hidden_projection"),
        (METHOD, Begin, hashing(bits=4096), "bits=4096"),
        (METHOD, Begin, lambda ask: replace(ask, partners={"nobody": 3}), "not other members"),
        (fedgeom.XCLP(bits=128, hamming="ot", flip=0.2), PassOn, hashing(flip=0.0), "flip=0.0"),
        (METHOD, PassOn, hashing(seed=bytes(32)), "hidden_projection"),
        (METHOD, PassOn, lambda ask: replace(ask, letters={k: v[:-1] for k, v in ask.letters.items()}), "letter"),
        (METHOD, PassOn, lambda ask: replace(ask, letters={"nobody": b"x"}), "not a partner"),
        (METHOD, PassOn, lambda ask: replace(ask, number=7), "letter"),
        (
            fedgeom.XCLP(bits=128, hamming="ot", hide_labelled=True),
            CountRows,
            lambda ask: replace(ask, hide=False),
            "hide_labelled",
        ),
        (METHOD, Spread, lambda ask: replace(ask, columns=Array.of(np.zeros((3, 3), np.float32))), "do not fit"),
        (METHOD, Spread, lambda ask: replace(ask, columns=Array.of(ask.columns.numpy() * np.nan)), "finite"),
        (METHOD, Collect, lambda ask: replace(ask, block=Array.of(np.zeros(5, np.uint64))), "wrong size"),
        (
            METHOD,
            Collect,
            lambda ask: replace(ask, reading=replace(ask.reading, counts=Array.of(np.array([np.nan])))),
            "class counts",
        ),
        (
            METHOD,
            Collect,
            lambda ask: replace(ask, reading=replace(ask.reading, prior="em-unchecked")),
            "prior=em-unchecked",
        ),
        (ANCHORS, CountCells, lambda ask: stamped(ask, cells=replace(ask.cells, count=5000)), "anchors=8"),
        (ANCHORS, SumCells, lambda ask: stamped(ask, cells=replace(ask.cells, kept=None)), "small ones"),
        (ANCHORS, SumCodes, lambda ask: stamped(ask, nearest=1), "code=1"),
        (ANCHORS, SumCodes, lambda ask: replace(ask, nearest=1), "another question"),
        (SCALED, CountLabels, lambda ask: stamped(ask, stamp=bytes(32)), "read otherwise"),
        (SCALED_ANCHORS, CountLabels, lambda ask: stamped(ask, stamp=bytes(32)), "read otherwise"),
        (SCALED, CountLabels, lambda ask: stamped(ask, classes=ask.classes[::-1]), "read otherwise"),
        (SCALED, Weigh, lambda ask: replace(ask, level=0), "smaller than this site's own"),
        (
            SCALED_ANCHORS,
            Weigh,
            lambda ask: replace(ask, sizes=Array.of(np.zeros(3))),
            "smaller than this site's own",
        ),
        (SCALED, Weigh, lambda ask: replace(ask, sizes=Array.of(np.full(3, np.nan))), "do not fit"),
    ],
)
def test_questions_that_depart_from_the_terms_are_refused(
    method: fedgeom.XCLP, kind: type[Question], change: Callable[[Any], Any], words: str
) -> None:
    assert words in refused(method, kind, change)


def test_confidences_are_not_scaled_where_the_site_did_not_join_on_it() -> None:
    """The sum is not planned on these terms, and the numbers that come of it are refused too."""
    sites = cones(3, rows=10)
    told: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        collect = XclpSite._handlers[Collect.kind]

        def then_weigh(self: XclpSite, ask: Collect) -> Any:
            kept = collect[1](self, ask)
            wrong = replace(ask.of, round=0)
            count = CountLabels(ticket=wrong, classes=self.memory.classes, stamp=bytes(32))
            count = replace(count, ticket=replace(wrong, about=about(count)))
            for question in (count, Weigh(level=4096, sizes=Array.of(np.full(3, 99.0)))):
                with pytest.raises(fedgeom.errors.ProtocolError) as refusal:
                    self.answer(question)
                told.append(str(refusal.value))
            return kept

        patch.setattr(XclpSite, "_handlers", {**XclpSite._handlers, Collect.kind: (Collect, then_weigh)})
        fedgeom.run(METHOD, sites)
    assert len(told) == 6
    assert "not 'xclp.label-counts'" in told[0]
    assert "confidence=code is asked for" in told[1]
