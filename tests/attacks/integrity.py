"""False results: a coordinator, a relay or a site that changes what comes out."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any

import numpy as np

import fedgeom
from fedgeom.data.sites import SiteData
from fedgeom.errors import FedgeomError
from fedgeom.federation import model as model_file
from fedgeom.federation.messages import Array, Refusal, decode, pack, unpack
from fedgeom.federation.policy import Policy
from fedgeom.geometry.gaussians import length
from fedgeom.methods.hulls.messages import TakeHullModel
from fedgeom.methods.iterative import GroupMedian
from fedgeom.methods.iterative.messages import Finish
from fedgeom.methods.moments.core import build_model
from fedgeom.methods.moments.model import MomentsModel
from fedgeom.methods.moments.site import SumClassMoments
from fedgeom.methods.xclp.anchors import ReadModel
from fedgeom.methods.xclp.model import XclpModel
from fedgeom.protocols.model_delivery import TakeModel, TakeResult
from fedgeom.protocols.names import agree_on_names
from fedgeom.protocols.preparation import KeepColumns
from fedgeom.protocols.secure_sum.messages import MaskedVector
from tests.attacks.playing import Attack, Learnt, Liar, forged, patients, replace

GIVEN = TakeModel | TakeResult | TakeHullModel | Finish | ReadModel


def false_model(method: str, policy: Policy, quick: bool) -> Learnt:
    """Hand out a model, on the coordinator's word, in which two classes have changed places."""
    liar = Liar(fedgeom.Moments(space="euclidean"), patients(4, 40), policy)

    def change(name: str, question: Any) -> Any:
        if not isinstance(question, TakeResult):
            return None
        classes = liar.as_site(name).names.agreed
        true = build_model(liar.method, question.result.reals(SumClassMoments), classes, 4)  # type: ignore[arg-type]
        turned = [array[::-1].copy() for array in (true.log_priors, true.means, true.covariances, true.centroids)]
        false = MomentsModel(true.names, true.rule, *turned, true.curvature)
        return TakeModel(model=false.to_bytes())

    liar.change = change
    return _handed(liar)


def unchecked_model(method: str, policy: Policy, quick: bool) -> Learnt:
    """Hand out a false model where sites have no sum to check it by: classes exchanged, scores turned, zeros."""
    ways: dict[str, Any] = {
        "hulls": fedgeom.Hulls(embedding="discriminant", epsilon=0.05),
        "fedavg": fedgeom.FedAvg(n_rounds=2, epochs=1, classes=("no", "yes")),
        "xclp through anchors": fedgeom.XCLP(
            graph="anchors", n_anchors=3, n_rounds=1, min_cell=1, classes=("no", "yes")
        ),
    }
    liar = Liar(ways[method], patients(4, 60), policy)

    def change(name: str, question: Any) -> Any:
        if isinstance(question, TakeHullModel):
            return replace(question, groups=tuple(group if group < 0 else 1 - group for group in question.groups))
        if isinstance(question, Finish):
            turned = {path: Array.of(-leaf.numpy()) for path, leaf in question.given.items()}  # type: ignore[union-attr]
            return replace(question, given=turned)
        if isinstance(question, ReadModel):
            _, arrays, facts = model_file.from_bytes(question.model)
            true = XclpModel.from_tensors(arrays, facts)
            return replace(
                question, model=dataclasses.replace(true, anchor_scores=true.anchor_scores[:, ::-1]).to_bytes()
            )
        return None

    liar.change = change
    return _handed(liar)


def false_sum(method: str, policy: Policy, quick: bool) -> Learnt:
    """Hand out a sum with thrice the rows of one class."""
    liar = Liar(fedgeom.Moments(space="euclidean"), patients(4, 40), policy)

    def change(name: str, question: Any) -> Any:
        if not isinstance(question, TakeResult):
            return None
        bent = question.result.reals(SumClassMoments).reshape(2, -1).copy()
        bent[0] *= 3.0
        return TakeResult(result=forged(question.result, bent.ravel(), SumClassMoments))

    liar.change = change
    return _handed(liar)


def top_bit(method: str, policy: Policy, quick: bool) -> Learnt:
    """Flip the top bit of one number of the sum, which a tag modulo a power of two misses half of the time."""
    taken, times = 0, 8 if quick else 40
    for at in range(times):
        liar = Liar(fedgeom.Moments(space="euclidean", rule="centroid"), patients(4, 40), policy)

        def change(name: str, question: Any, at: int = at) -> Any:
            if not isinstance(question, TakeResult):
                return None
            total = question.result.total.numpy()
            total[1 + at % 4] ^= np.uint64(1 << 63)  # a coordinate of the first class's mean
            return TakeResult(result=replace(question.result, total=Array.of(total)))

        liar.change = change
        taken += _handed(liar).succeeds
    return Learnt(f"{taken} of {times} flipped sums are taken", taken > 0)


def zeros_behind(method: str, policy: Policy, quick: bool) -> Learnt:
    """Show counts of categories with zeros behind them: under another number of slots, counts belong to other words."""
    told = 0
    times = 3 if quick else 12
    columns = tuple(f"c{at}" for at in range(12))
    words = (*(f"word {at}" for at in range(20)), "one site's own")
    for seed in range(times):
        sites = []
        for number, site in enumerate(patients(4, 300, 2, seed=seed)):
            codes = np.tile(np.arange(len(site)) % 20, (len(columns), 1)).T.astype(float)
            codes[:40] = 20 if number == 0 else codes[:40]
            kinds = dict.fromkeys(columns, words)
            sites.append(SiteData(site.name, codes, site.y, columns=columns, categories=kinds))
        liar = Liar(fedgeom.Ridge(features="linear", prepare="table"), sites, policy)

        def change(name: str, question: Any) -> Any:
            if not isinstance(question, KeepColumns) or question.result is None:
                return None
            longer = np.concatenate([question.result.total.numpy(), np.zeros(32, np.uint64)])
            return replace(question, result=replace(question.result, total=Array.of(longer)))

        liar.change = change
        with contextlib.suppress(FedgeomError):
            liar.method.conduct(liar.talk)
        kept = [answer for _, question, answer in liar.heard if isinstance(question, KeepColumns)]
        told += any("one site's own" in str(answer) for answer in kept)
    if told:
        return Learnt(f"the word of one site is told in {told} of {times} runs", True)
    return liar.refusal()


def _handed(liar: Liar) -> Learnt:
    """Hold the run; count the sites that took what was handed out without a word."""
    failed: FedgeomError | None = None
    try:
        liar.method.conduct(liar.talk)
    except FedgeomError as error:
        failed = error
    answers = [answer for _, question, answer in liar.heard if isinstance(question, GIVEN)]
    taken = sum(not isinstance(answer, Refusal) for answer in answers)
    if not taken:
        return liar.refusal(failed or "")
    return Learnt(f"{taken} of {len(liar.names)} sites take it for the joint model", True)


class _Relay(Liar):
    """A relay between honest ends that changes one site's masked vector on its way to the coordinator."""

    def deliver(self, requests: Any) -> Any:
        for name, reply in super().deliver(requests):
            frame = unpack(reply)  # type: ignore[arg-type]
            if name == "s000" and frame.kind == MaskedVector.kind:
                said = decode(frame.body, MaskedVector)
                vector = said.vector.numpy()
                vector[0] += np.uint64(5 << 24)
                yield name, pack(frame.run, frame.method, replace(said, vector=Array.of(vector)))
            else:
                yield name, reply


def changed_on_the_way(method: str, policy: Policy, quick: bool) -> Learnt:
    """Add five rows to one site's masked vector on its way; its masks hide that well."""
    way = fedgeom.Moments(space="euclidean")
    relay = _Relay(way, patients(4, 40), policy)
    try:
        cohort = relay.join()
        classes = agree_on_names(cohort)
        ask = SumClassMoments(classes=classes, curvature=None)
        result = cohort.sum_checked(ask, length=length(len(classes), 4))
        total = result.reals(SumClassMoments)
        noticed = any(isinstance(relay.ask(name, TakeResult(result=result)), Refusal) for name in cohort.left)
    except FedgeomError as error:
        return relay.refusal(error)
    truth = sum(int((site.y == classes[0]).sum()) for site in relay.data.values() if site.name in cohort.left)
    counted = round(float(total[0]))
    words = f"the coordinator counts {counted} rows where there are {truth}"
    return Learnt(
        f"{words}; sites {'notice' if noticed else 'do not notice'} it", counted != truth and not noticed
    )


def _liar_of(count: int, rows: Any) -> tuple[list[SiteData], list[SiteData]]:
    """Return sites of which the first has other rows, labels exchanged, and the honest ones."""
    sites = patients(count, 40)
    first, *others = sites
    X, times = rows(first.X)
    flipped = np.where(first.y == "no", "yes", "no")
    return [SiteData("s000", X, np.tile(flipped, times)), *others], others


def _told(way: Any, sites: list[SiteData], honest: list[SiteData]) -> Learnt:
    """Hold a run with a liar: what it costs honest sites' rows, and whether the run says so."""
    X, y = np.vstack([s.X for s in honest]), np.concatenate([s.y for s in honest])
    before = float(np.mean(way.plain(honest).model.predict(X) == y))
    try:
        found = fedgeom.run(way, sites, seed=0)
    except FedgeomError as error:
        return Learnt(f"accuracy {before:.3f}; the run ends: {' '.join(str(error).split())}"[:170], False)
    now = float(np.mean(found.model.predict(X) == y))
    said = any("is doubtful" in str(one) for one in found.warnings)
    words = f"accuracy {before:.3f} becomes {now:.3f}"
    return Learnt(f"{words}, and the run's warnings say so" if said else words, now < before - 0.1 and not said)


def lying_site(method: str, policy: Policy, quick: bool) -> Learnt:
    """One site of ten contributes what it likes to models."""
    groups: dict[str, Any] = (
        {"aggregation": GroupMedian(n_groups=3, drawn_by="seed")} if method.endswith("groups") else {}
    )
    robust = {"aggregation": "median"} if method == "fedavg, median" else groups
    sites, honest = _liar_of(10, lambda X: (1e4 * X, 1))
    return _told(fedgeom.FedAvg(n_rounds=5, scale="none", **robust), sites, honest)


def lying_in_sums(method: str, policy: Policy, quick: bool) -> Learnt:
    """One site of twelve exchanges its labels, and says that it has far rows, or a hundred times as many."""
    groups: dict[str, Any] = (
        {"aggregation": GroupMedian(n_groups=4, drawn_by="seed")} if "groups" in method else {}
    )
    ways: dict[str, Any] = {
        "moments": fedgeom.Moments(space="euclidean", **groups),
        "centroids": fedgeom.Moments(space="euclidean", rule="centroid", **groups),
        "ridge": fedgeom.Ridge(features="linear", **groups),
        "ridge, prepared": fedgeom.Ridge(features="linear", prepare="table", **groups),
        "ellipses": fedgeom.Ellipses(names="shared", **groups),
        "shrunk": fedgeom.Shrunk(n_rounds=3, **groups),
    }
    way = ways[method.removesuffix(", groups")]
    found = [
        _told(way, *_liar_of(12, lambda X: (200 * X, 1))),
        _told(way, *_liar_of(12, lambda X: (np.tile(X, (100, 1)), 100))),
    ]
    return max(found, key=lambda one: (one.succeeds, one.now))


SUMMED = ("moments", "centroids", "ridge", "ridge, prepared", "ellipses", "shrunk")
ATTACKS = (
    Attack("a false model", ("moments",), "not tried; nothing would have noticed it", false_model, "permissive"),
    Attack("a false sum", ("moments",), "not tried; nothing would have noticed it", false_sum, "permissive"),
    Attack(
        "a false model that no sum vouches for",
        ("hulls", "fedavg", "xclp through anchors"),
        "not tried; nothing would have noticed it",
        unchecked_model,
        "permissive",
    ),
    Attack("a flipped top bit", ("moments",), "not tried; nothing would have noticed it", top_bit, "permissive"),
    Attack(
        "counts with zeros behind them",
        ("ridge",),
        "a word of one site is told in 12 of 12 runs",
        zeros_behind,
    ),
    Attack(
        "a masked vector changed on its way",
        ("moments",),
        "read, not tried: masked vectors were not signed by the site's identity",
        changed_on_the_way,
        "permissive",
    ),
    Attack(
        "one lying site of ten",
        ("fedavg",),
        "accuracy .956 becomes .042, nothing flagged",
        lying_site,
        "permissive",
    ),
    Attack("one lying site of ten, median", ("fedavg, median",), "held: .957", lying_site, "permissive"),
    Attack(
        "one lying site of ten, secure sums in groups",
        ("fedavg, groups",),
        "there were no groups",
        lying_site,
        "permissive",
    ),
    Attack(
        "one lying site of twelve, in sums",
        SUMMED,
        "accuracy .956 becomes .052 (Moments), nothing flagged",
        lying_in_sums,
        "permissive",
    ),
    Attack(
        "one lying site of twelve, in sums of groups",
        tuple(f"{name}, groups" for name in SUMMED),
        "there were no groups",
        lying_in_sums,
        "permissive",
    ),
)
