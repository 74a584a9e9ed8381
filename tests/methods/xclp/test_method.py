"""The secure conversation against Algorithm 1 on pooled rows, against lost sites, and against wrong input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest

import fedgeom
from fedgeom.data.sites import SiteData
from fedgeom.errors import InputError
from fedgeom.federation.coordinator import Coordinator
from fedgeom.federation.messages import Message, Question, decode, unpack
from fedgeom.federation.site import Site, answers
from fedgeom.methods.xclp import method as xclp_conversation
from fedgeom.methods.xclp.core import labels_and_confidence
from fedgeom.methods.xclp.messages import Spread
from fedgeom.methods.xclp.site import XclpSite
from papers.xclp.plain import plain_of
from tests.methods.coordinators import kill
from tests.methods.xclp.making import CLASSES, cones


def assert_same(
    run: fedgeom.Run, method: fedgeom.XCLP, sites: list[SiteData], seed: int = 0, *, text: Sequence[str] = ()
) -> None:
    """Compare what each site has with Algorithm 1 on pooled rows: labels exactly, numbers up to rounding.

    Labels are whole numbers, but at the sites ``text``.
    """
    pooled = plain_of(method, [(site.X, site.y) for site in sites], method.classes, seed)
    for site, wanted in zip(sites, pooled.sites, strict=True):
        kind = str if site.name in text else int
        labels = [kind(pooled.names[code]) if code >= 0 else "" for code in wanted.codes]
        assert repr(run.labels[site.name].tolist()) == repr(labels)  # 1 and 1.0 are equal, and differ here
        assert np.allclose(run.confidences[site.name], wanted.confidence, atol=1e-4)
        assert np.allclose(run.local[site.name]["scores"], wanted.scores, atol=1e-4)


@pytest.mark.parametrize("variant", ["ours", "paper", "code"])
@pytest.mark.parametrize("hamming", ["ot", "bfv", "lattice"])
def test_secure_equals_plain_over_pairs(variant: str, hamming: str) -> None:
    if hamming == "bfv":
        pytest.importorskip("seal", reason="needs seal-python")
    sites = cones()
    method = fedgeom.XCLP(hash_bits=256, variant=variant, hamming=hamming, hidden_projection=False)
    assert_same(fedgeom.run(method, sites, seed=3), method, sites, 3)


@pytest.mark.parametrize("seed", [0, 1])
def test_secure_equals_plain_through_anchors(seed: int) -> None:
    sites = cones(4, rows=30)
    method = fedgeom.XCLP(graph="anchors", n_anchors=12, n_rounds=4, min_cell=3)
    run = fedgeom.run(method, sites, seed=seed)
    assert_same(run, method, sites, seed)
    again = fedgeom.run(method, sites, seed=seed)
    assert again.model.to_bytes() == run.model.to_bytes()


CODE = {
    "pairs": fedgeom.XCLP(hash_bits=256, hamming="ot", hidden_projection=False, confidence="code"),
    "anchors": fedgeom.XCLP(graph="anchors", n_anchors=12, n_rounds=4, min_cell=3, confidence="code"),
}


@pytest.mark.full
@pytest.mark.parametrize("variant", ["ours", "paper", "code"])
@pytest.mark.parametrize("graph", ["pairs", "anchors"])
def test_confidences_of_the_reference_code_equal_plain(graph: str, variant: str) -> None:
    sites = cones(4, rows=20, noise=0.6)
    method = replace(CODE[graph], variant=variant)
    run = fedgeom.run(method, sites, seed=2)
    assert_same(run, method, sites, 2)
    before = fedgeom.run(replace(method, confidence="entropy"), sites, seed=2)
    own = np.concatenate([site.y for site in sites])
    for site in sites:  # rows with a label keep it
        kept = np.where(site.y >= 0, site.y, before.labels[site.name])
        assert run.labels[site.name].tolist() == kept.tolist()
    labels = np.concatenate([run.labels[s.name] for s in sites])
    sure, entropy = (np.concatenate([r.confidences[s.name] for s in sites]) for r in (run, before))
    names, given, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    assert len(names) == CLASSES
    assert len(set(sizes)) > 1
    largest = np.ceil(entropy.max() * 4096) / 4096
    wanted = np.where(own.astype(int) >= 0, 1.0, entropy / largest * (len(labels) / (CLASSES * sizes))[given])
    assert np.allclose(sure, wanted, atol=1e-6)


def test_confidences_of_the_reference_code_by_hand() -> None:
    """Two directions, 18 rows along one and 9 along the other: all are certain, and weigh 27/(2·18) and 27/(2·9).

    The two rows that have a label of their own weigh 1.
    """
    X, y = np.eye(3)[[0] * 6 + [1] * 3], np.array([0, *[-1] * 5, 1, -1, -1])
    sites = [SiteData("a", X, y), *(SiteData(name, X, np.full(9, -1)) for name in "bc")]
    method = fedgeom.XCLP(graph="anchors", n_anchors=4, n_rounds=2, min_cell=1, n_nearest=1, confidence="code")
    run = fedgeom.run(method, sites)
    for name in "abc":
        assert run.labels[name].tolist() == [0] * 6 + [1] * 3
        wanted = np.array([0.75] * 6 + [1.5] * 3)
        wanted[[0, 6] if name == "a" else []] = 1.0
        assert np.allclose(run.confidences[name], wanted, atol=1e-12)


@pytest.mark.parametrize("graph", ["pairs", "anchors"])
def test_one_more_sum_and_only_where_it_is_wanted(graph: str) -> None:
    sites = cones(3, rows=12, labelled=0.6)
    kinds = {}
    for confidence in ("entropy", "code"):
        method = replace(CODE[graph], confidence=confidence)
        run = fedgeom.run(method, sites)
        kinds[confidence] = tuple(question.kind for question in XclpSite.all_sums(method))
        told = [entry for entry in run.ledger if "largest confidence of any row" in entry.reveals]
        assert len(told) == (3 if confidence == "code" else 0)
    assert kinds["code"] == (*kinds["entropy"], "xclp.label-counts")


@pytest.mark.full
@pytest.mark.parametrize("step", ["xclp.label-counts", "last sum.confirm", "xclp.weigh"])
@pytest.mark.parametrize("graph", ["pairs", "anchors"])
def test_a_site_lost_while_confidences_are_scaled_leaves_the_others_theirs(graph: str, step: str) -> None:
    sites = cones(5, rows=12, noise=0.6)
    victim, seen = sites[2].name, []

    def interfere(name: str, request: bytes) -> str | None:
        kind = unpack(request).kind
        if name == victim:
            seen.append(f"last {kind}" if "xclp.label-counts" in seen else kind)
            return "the process was killed" if step in seen or f"last {step}" in seen else None
        return None

    run = fedgeom.run(CODE[graph], sites, interfere=interfere)
    assert set(run.lost) == {victim}
    others = [site.name for site in sites if site.name != victim]
    counted = others if step == "xclp.label-counts" else [site.name for site in sites]
    assert set(run.confidences) == set(others)
    assert set(run.labels) >= set(others)
    labels = np.concatenate([run.labels[name] for name in counted])
    entropy = {name: labels_and_confidence(run.local[name]["scores"])[1] for name in counted}
    largest = np.ceil(max(map(np.max, entropy.values())) * 4096) / 4096
    for name in others:
        sizes = np.array([np.sum(labels == label) for label in run.labels[name]])
        own = next(site.y for site in sites if site.name == name).astype(int) >= 0
        wanted = np.where(own, 1.0, entropy[name] / largest * len(labels) / (CLASSES * sizes))
        assert np.allclose(run.confidences[name], wanted, atol=1e-12)


def test_labels_are_found_and_only_the_site_has_them() -> None:
    sites = cones(4, rows=20, labelled=0.3)
    run = fedgeom.run(fedgeom.XCLP(hash_bits=512, hamming="ot"), sites)
    right = np.concatenate([run.labels[s.name] == s.extra["truth"] for s in sites])
    assert right.mean() > 0.9
    assert not hasattr(run.model, "labels")
    with pytest.raises(InputError, match="leaves no model with the coordinator"):
        run.model.predict(sites[0].X)


def test_sites_may_be_unlabelled_fully_labelled_or_tiny() -> None:
    sites = cones(4, rows=20, labelled=1.0)
    sites[0] = SiteData(sites[0].name, sites[0].X, np.full(len(sites[0]), -1), sites[0].extra)
    sites[1] = sites[1].take([0])
    run = fedgeom.run(fedgeom.XCLP(hash_bits=512, hamming="ot"), sites)
    assert [len(run.labels[s.name]) for s in sites] == [20, 1, 20, 20]
    assert np.mean(run.labels[sites[0].name] == sites[0].extra["truth"]) > 0.9


@pytest.mark.full
def test_hiding_which_rows_are_labelled_changes_no_label() -> None:
    sites, seen = cones(4, rows=12, labelled=0.3), []
    options = {"hash_bits": 256, "hamming": "ot", "hidden_projection": False}
    open_ = fedgeom.run(fedgeom.XCLP(**options), sites)
    hidden = fedgeom.run(
        fedgeom.XCLP(**options, hide_labelled=True),
        sites,
        interfere=lambda name, request: seen.append((name, unpack(request))),
    )
    for site in sites:
        assert hidden.labels[site.name].tolist() == open_.labels[site.name].tolist()
        assert np.allclose(hidden.local[site.name]["scores"], open_.local[site.name]["scores"], atol=1e-5)
    columns = [decode(frame.body, Spread).columns.shape for _, frame in seen if frame.kind == Spread.kind]
    assert columns == [(48, 12)] * 4  # as many columns as rows, whoever has how many labels


def test_labels_with_gaps_are_the_same_classes_as_labels_without() -> None:
    """A column of numbers with gaps is read as floats: 1.0 and 1 are one class."""
    sites = cones(3, rows=15, labelled=0.6)
    mixed = [
        SiteData(sites[0].name, sites[0].X, np.where(sites[0].y < 0, np.nan, sites[0].y.astype(float))),
        SiteData(sites[1].name, sites[1].X, np.array([None if v < 0 else int(v) for v in sites[1].y], object)),
        SiteData(sites[2].name, sites[2].X, np.array(["" if v < 0 else str(v) for v in sites[2].y])),
    ]
    method = fedgeom.XCLP(hash_bits=256, hamming="ot", hidden_projection=False)
    run = fedgeom.run(method, mixed)
    assert run.metrics["classes"] == CLASSES
    text = [sites[2].name]  # each site has its labels as it gave them
    assert_same(run, method, sites, text=text)
    assert_same(run, method, mixed, text=text)


class HowSure(Message, frozen=True, kw_only=True):
    kind: ClassVar[str] = "test-learning.how-sure"
    reveals: ClassVar[str] = "a mean"
    mean: float


class AskHowSure(Question, frozen=True, kw_only=True):
    kind: ClassVar[str] = "test-learning.ask-how-sure"
    answer: ClassVar[type[Message]] = HowSure


def features(X: np.ndarray, graph: str) -> np.ndarray:
    """Make features; over pairs there may be more of them than columns, which nobody else needs to know."""
    return np.hstack([X, np.tanh(X)]) if graph == "pairs" else np.tanh(X) * X


class LearningSite(XclpSite):
    """A site of another method: it makes features of its own, and goes on with the labels that XCLP found."""

    @property
    def rows(self) -> np.ndarray:
        return features(self.data.X, self.settings.graph)

    @answers(AskHowSure)
    def how_sure(self, ask: AskHowSure) -> HowSure:
        assert len(self.result()["labels"]) == len(self.data)
        return HowSure(mean=float(np.mean(self.result()["confidences"])))


@dataclass(frozen=True, kw_only=True)
class Learning(fedgeom.XCLP):
    """Spread labels, then go on with them: the outline of Algorithm 2."""

    name: ClassVar[str] = "test-learning"
    site: ClassVar[type[Site[Any]]] = LearningSite

    def conduct(self, sites: Coordinator) -> Any:
        model = super().conduct(sites)
        told = sites.ask(AskHowSure(), expect=HowSure)
        sites.metrics["sure"] = [answer.mean for _, answer in told.items()]
        return model


@pytest.mark.parametrize("graph", ["pairs", "anchors"])
def test_it_is_a_step_inside_another_method(graph: str) -> None:
    sites = cones(3, rows=12, labelled=0.5)
    terms = replace(CODE[graph], confidence="entropy").terms()
    run = fedgeom.run(Learning.from_terms(terms), sites)
    richer = [SiteData(s.name, features(s.X, graph), s.y) for s in sites]
    assert_same(run, fedgeom.XCLP.from_terms(terms), richer)
    assert len(run.metrics["sure"]) == 3
    if graph == "pairs":
        assert np.array_equal(run.local[sites[0].name]["rows"], richer[0].X)


STEPS = [
    "join.hello",
    "join.meet",
    "join.share",
    "names.seal",
    "names.open",
    "xclp.ask-rows",
    "xclp.begin",
    "xclp.relay",
    "xclp.count",
    "sum.confirm",
    "xclp.spread",
    "xclp.collect",
]


@pytest.mark.full
@pytest.mark.parametrize("step", STEPS)
def test_a_site_lost_at_any_step_leaves_the_others_a_result(step: str) -> None:
    sites = cones(5, rows=8)
    victim = sites[2].name
    method = fedgeom.XCLP(hash_bits=128, hamming="ot", hidden_projection=False)
    run = fedgeom.run(method, sites, interfere=kill(victim, step))
    assert set(run.lost) == {victim}
    others = [site for site in sites if site.name != victim]
    assert set(run.labels) >= {site.name for site in others}
    if step not in ("xclp.count", "sum.confirm", "xclp.spread", "xclp.collect"):  # before it was in the graph
        assert_same(run, method, others)


ANCHOR_STEPS = ["xclp.mean", "xclp.cell-counts 1", "xclp.cell-sums", "xclp.codes", "xclp.read-model"]


@pytest.mark.parametrize("step", ANCHOR_STEPS)
def test_a_site_lost_on_the_way_to_the_anchors_leaves_the_others_a_result(step: str) -> None:
    sites = cones(5, rows=12)
    victim = sites[2].name
    method = fedgeom.XCLP(graph="anchors", n_anchors=8, n_rounds=3, min_cell=2)
    run = fedgeom.run(method, sites, interfere=kill(victim, step))
    assert set(run.lost) == {victim}
    others = [site for site in sites if site.name != victim]
    assert set(run.labels) == {site.name for site in others}
    if step == "xclp.mean":  # it was in no sum
        assert_same(run, method, others)


def test_rows_that_come_later_are_labelled_without_another_run() -> None:
    whole = cones(3, rows=30, labelled=0.6)
    old = [site.take(np.arange(24)) for site in whole]
    new = [site.take(np.arange(24, 30)) for site in whole]
    pairs = fedgeom.run(fedgeom.XCLP(hash_bits=512, hamming="ot"), old)
    through = fedgeom.run(fedgeom.XCLP(graph="anchors", n_anchors=10, n_rounds=4, min_cell=3), old)
    for site, later in zip(old, new, strict=True):
        truth = later.extra["truth"]
        assert np.mean(pairs.model.for_site(pairs.local[site.name]).predict(later.X) == truth) > 0.8
        assert np.mean(through.model.predict(later.X) == truth) > 0.8


def test_the_coordinator_never_sees_labels_and_not_the_hidden_projection() -> None:
    sites = cones(3, labelled=0.5)
    marked = [s.relabel({-1: "-1", 0: "zebra-a", 1: "zebra-b", 2: "zebra-c"}) for s in sites]
    seen: list[bytes] = []
    run = fedgeom.run(
        fedgeom.XCLP(hash_bits=128, hamming="ot", classes=("zebra-a", "zebra-b", "zebra-c")),
        marked,
        interfere=lambda _, request: seen.append(request),
    )
    columns = [entry for entry in run.ledger if entry.kind == "sum.masked"]
    assert len(columns) == 6
    assert all("labels of" not in entry.reveals for entry in run.ledger)
    noisy = cones(3, labelled=0.5, noise=1.0)
    first = fedgeom.run(fedgeom.XCLP(hash_bits=128, hamming="ot"), noisy, seed=0)
    second = fedgeom.run(fedgeom.XCLP(hash_bits=128, hamming="ot"), noisy, seed=0)
    assert any(not np.array_equal(first.local[s.name]["scores"], second.local[s.name]["scores"]) for s in sites), (
        "a hidden projection is new every time"
    )


def test_nothing_to_spread_is_said() -> None:
    sites = [SiteData(s.name, s.X, np.full(len(s), -1)) for s in cones(3)]
    for graph in ("pairs", "anchors"):
        with pytest.raises(InputError, match="nothing to spread"):
            fedgeom.run(
                fedgeom.XCLP(hash_bits=64, hamming="ot", graph=graph, classes=("0", "1"), n_anchors=5), sites
            )


@pytest.mark.full
def test_flipped_bits_blur_the_distances_but_labels_stay_mostly_right() -> None:
    sites = cones(4, rows=20, labelled=0.5)
    run = fedgeom.run(fedgeom.XCLP(hash_bits=1024, hamming="ot", flip_probability=0.1), sites)
    right = np.concatenate([run.labels[s.name] == s.extra["truth"] for s in sites])
    assert right.mean() > 0.85


@pytest.mark.full
@pytest.mark.parametrize("flip", [0.0, 0.2])
def test_what_the_coordinator_opens_is_blurred_by_flips(flip: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same rows lie at two sites: their distance is 0, or about 2f(1-f)L when both turn bits."""
    one, two, three = cones(3, rows=10)
    sites = [one, SiteData(two.name, one.X, two.y), three]
    build, opened = xclp_conversation.neighbour_graph, {}

    def look(method: fedgeom.XCLP, distances: dict, places: dict):
        opened.update(distances)
        return build(method, distances, places)

    monkeypatch.setattr(xclp_conversation, "neighbour_graph", look)
    fedgeom.run(fedgeom.XCLP(hash_bits=2048, hamming="ot", flip_probability=flip), sites)
    block = next(H for pair, H in opened.items() if set(pair) == {one.name, two.name})
    assert block.dtype == np.uint16  # two bytes a pair: 50,000 points are 2.3 GiB, not 9.3
    assert np.diag(block).mean() == pytest.approx(2 * flip * (1 - flip) * 2048, abs=30)
